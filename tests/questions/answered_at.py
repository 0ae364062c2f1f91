"""Answer a question in this process and SIGKILL it at the Nth of its writes: `answered_at.py ROOT TASK N`.

A point lies before and behind everything that others can see: the event, the file that gets its name, the bell, the
call of the supervisor. Ends with 0 if there are fewer points.
"""

from __future__ import annotations

import os
import sys

from overhand import cli
from overhand.record import append_lines
from overhand.supervisor import hand_to_supervisor
from overhand.system import ring_bells
from overhand.testing.countdown import Countdown

countdown = Countdown(int(sys.argv[3]))
os.rename = countdown.between(os.rename)
for call in (append_lines, ring_bells, hand_to_supervisor):
    countdown.everywhere(call)
sys.exit(cli.main(["--project", sys.argv[1], "answer", sys.argv[2], "killed"]))
