"""Do a step of recognising a project and SIGKILL the process at its Nth write, for every N: `… STEP BASE`

For each N there is a folder BASE/N with a state folder and the projects that the step needs. Ends when a process has
come through. A point lies before and behind everything that a successor can see; what is wrapped is wrapped in the
forked process only, which does one thing and dies.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from itertools import count

from overhand.record.identity import find_record, make_record
from overhand.testing.countdown import Countdown

WRITES = ("fsync", "mkdir", "open", "rename", "symlink", "unlink", "write")


def project(base: str, name: str) -> str:
    path = f"{base}/{name}"
    os.mkdir(path)
    return path


def prepare(step: str, base: str) -> str:
    """Bring everything to the moment before the step; the path of the project that it is about."""
    old = project(base, "old")
    if step == "make":
        return old
    make_record(old)
    new = f"{base}/new"
    if step == "mark":
        shutil.rmtree(f"{old}/.agent-workspaces")
        return old
    if step == "copy":
        shutil.copytree(old, new)
        return new
    if step == "back":  # to where another project stood
        make_record(project(base, "new"))
        shutil.rmtree(new)
    os.rename(old, new)
    return new


def kill_at(number: int, step: str, root: str) -> bool:
    """Whether a process that does this step dies at this point."""
    pid = os.fork()
    if pid == 0:
        countdown = Countdown(number)
        for name in WRITES:
            setattr(os, name, countdown.between(getattr(os, name)))
        find_record(root) if step in ("move", "back") else make_record(root)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status not in (0, signal.SIGKILL):
        raise SystemExit(f"point {number} of {step}: the process ended with {status}")
    return status != 0


def main(step: str, base: str) -> None:
    for number in count():
        place = project(base, str(number))
        os.environ["XDG_STATE_HOME"] = f"{place}/state"
        if not kill_at(number, step, prepare(step, place)):
            return


main(*sys.argv[1:])
