"""The process that waits for a job, killed at the Nth moment that somebody else could see: `killed_at.py N`.

Moments lie before and behind each file that gets its name and each command that is called. Ends with what the process
ends with if it has fewer of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

from overhand.agents.drivers import external
from overhand.testing.countdown import Countdown

between = Countdown(int(sys.argv[1])).between
os.rename = between(os.rename)
os.link = between(os.link)
os.makedirs = between(os.makedirs)
os.open = between(os.open)
subprocess.Popen.__init__ = between(subprocess.Popen.__init__)  # type: ignore[method-assign]
sys.exit(external.main())
