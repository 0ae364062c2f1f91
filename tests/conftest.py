"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# Whoever starts the suite in the background of a script, or with nohup, has these ignored, and every program that a
# test starts would inherit that: ^C and a lost terminal are among what is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# A property is about what comes out, not about when: a machine that stalls for 200 ms proves nothing against it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
