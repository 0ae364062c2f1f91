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
from typing import TYPE_CHECKING, Any

from overhand import cli, config, effects, files, finish, log, run, store

if TYPE_CHECKING:
    from collections.abc import Callable

left = int(sys.argv[4])
shim_too = sys.argv[5:] == ["shim"]
spawned: list[int] = []


def point() -> None:
    """One more moment at which the process may die."""
    global left  # noqa: PLW0603 -- this whole program is one countdown
    if shim_too and not spawned:
        return
    if left == 0:
        if shim_too:
            os.kill(spawned[0], signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1


def between(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, with a point before and behind it."""

    def wrapped(*args: Any, **options: Any) -> Any:
        point()
        value = call(*args, **options)
        if call is spawn:
            spawned.append(value)
        point()
        return value

    return wrapped


spawn = os.posix_spawn
os.posix_spawn = between(os.posix_spawn)
os.rename = between(os.rename)
os.mkdir = between(os.mkdir)
os.link = between(os.link)
log.write = between(log.write)
subprocess.run = between(subprocess.run)
new = between(files.write_new)
vars(store)["write_new"] = vars(run)["write_new"] = new  # both have it by its name


def main(root: str, task: str, step: str) -> None:
    work = run.Work(store.Store(root), config.load(root), {"kind": "overhand", "via": "test"})
    if step == "start":
        run.start(work, task)
    elif step == "settle":
        run.settle(work, task)
    elif step == "hear":
        effects.drain(work, run.settle(work, task))
    elif step == "delegate":
        cli.main(["--project", root, "delegate", "--agent", "worker", task])
    else:
        finish.finish(work, task)


main(*sys.argv[1:4])
