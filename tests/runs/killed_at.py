"""Call one step of a run in this process and SIGKILL it at the Nth of its writes: `killed_at.py ROOT TASK STEP N`
(TASK is the title where STEP is `delegate`).

A point lies before and behind everything that a successor can see: events, folders, files that get their name, the
spawn. With `shim` as the fifth word, points count from the spawn on and the shim is killed as well. Ends with 0 if the
step has fewer points. What is wrapped is wrapped in this process only, which does one thing and dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from overhand import cli
from overhand.policy import Actor, load_config
from overhand.record import Store, append_lines
from overhand.runs import control, finish_run, settle_run, start_run, stop_run
from overhand.system import Members, send_signal, write_new
from overhand.testing.countdown import Countdown

spawned: list[int] = []


class WithShim(Countdown):
    """It begins with the spawn, and the shim dies as well."""

    def point(self) -> None:
        if spawned:
            super().point()

    def die(self) -> None:
        os.kill(spawned[0], signal.SIGKILL)
        super().die()


def spawn_noted(*args: Any, **options: Any) -> int:
    spawned.append(spawn(*args, **options))
    return spawned[-1]


countdown = (WithShim if sys.argv[5:] == ["shim"] else Countdown)(int(sys.argv[4]))
between = countdown.between
spawn = os.posix_spawn
os.posix_spawn = between(spawn_noted)
os.rename = between(os.rename)
os.mkdir = between(os.mkdir)
os.link = between(os.link)
countdown.everywhere(append_lines)
subprocess.run = between(subprocess.run)
countdown.everywhere(write_new)


def main(root: str, task: str, step: str) -> None:
    work = Actor(Store(root), load_config(root), {"kind": "overhand", "via": "test"})
    if step == "start":
        start_run(work, task)
    elif step == "settle":
        settle_run(work, task)
    elif step == "hear":
        settled = settle_run(work, task)
        control.drain(work, settled, settled.runs[-1])
    elif step == "stop":  # each scan and each signal is a point as well
        os.killpg = between(os.killpg)
        countdown.everywhere(send_signal)
        Members.scan = between(Members.scan)  # type: ignore[method-assign]
        stop_run(work, task, "timeout", 10.0)
    elif step == "delegate":
        cli.main(["--project", root, "delegate", "--agent", "worker", task])
    else:
        finish_run(work, task)


main(*sys.argv[1:4])
