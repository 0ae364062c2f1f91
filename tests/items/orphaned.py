"""Call `overhand` in a session of its own, in a process whose parent ends while it looks who calls: `orphaned.py WORDS`

The code is written to `code`. What is wrapped is wrapped in this process only.
"""

from __future__ import annotations

import os
import signal
import sys

from overhand.cli import main
from overhand.system import machine
from support.scene import until

leaving = os.getpid()
if os.fork():
    signal.pause()
ask = machine.parent_of


def parent(pid: int) -> int | None:
    """The same answer, a moment after it has ended."""
    if pid == leaving and os.getppid() == leaving:
        os.kill(leaving, signal.SIGKILL)
        until(lambda: not os.path.exists(f"/proc/{leaving}"), "the end of our parent")
        os.setsid()  # nobody has seen this session yet
    return ask(pid)


machine.parent_of = parent
with open("code", "w", encoding="ascii") as file:
    print(main(sys.argv[1:]), file=file)
