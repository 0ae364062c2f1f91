"""Answer a question in this process and SIGKILL it at the Nth of its writes: `answered_at.py ROOT TASK N`.

A point lies before and behind everything that others can see: the event, the file that gets its name, the bell, the
call of the supervisor. Ends with 0 if there are fewer points.
"""

from __future__ import annotations

import os
import sys

from overhand import cli
from overhand.record import log
from overhand.supervisor import client
from overhand.system import bell
from overhand.testing.countdown import Countdown

between = Countdown(int(sys.argv[3])).between
os.rename = between(os.rename)
log.write = between(log.write)
bell.ring = between(bell.ring)
client.hand_over = between(client.hand_over)
sys.exit(cli.main(["--project", sys.argv[1], "answer", sys.argv[2], "killed"]))
