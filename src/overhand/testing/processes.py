"""Which processes a test project started, and how to end every one of them, by pid and nothing else."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from overhand.system import (
    LINUX,
    command_line_has,
    environment_of,
    process_table,
    send_signal,
    start_time,
)

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60.0


def of_project(project: Path) -> dict[int, float]:
    """Living processes of this project: pid and start time."""
    variables = ("OVERHAND_HOME", "OVERHAND_PROJECT")
    found = {pid for pid in pids() if str(project) in (environment_of(pid, name) for name in variables)}
    found |= supervisors(project) | _strays(project)
    found.discard(os.getpid())
    return {pid: started for pid in found if (started := start_time(pid)) is not None}


def end_all(project: Path) -> None:
    """Kill them until two scans in a row find none: one may start another while it is being killed."""
    deadline = time.monotonic() + PATIENCE
    quiet = 0
    while quiet < 2:
        living = of_project(project)
        quiet = 0 if living else quiet + 1
        for pid, started in living.items():
            send_signal(pid, started, signal.SIGKILL)
        if living and time.monotonic() > deadline:
            raise RuntimeError(f"These processes of {project} could not be ended: {sorted(living)}")
        time.sleep(0.01 if living else 0)


def supervisors(project: Path) -> set[int]:
    """The lock holder, and supervisors that are just starting and would take the lock next."""
    words = "overhand.supervisor", os.path.realpath(project)
    return {pid for pid in pids() if all(command_line_has(pid, word) for word in words)}


def pids() -> list[int]:
    """Every process, zombies included: a third of what the table of processes takes to read."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if LINUX else [*process_table()]


def _strays(project: Path) -> set[int]:
    """What scripted agents left behind; their odd sleep distinguishes them from processes that reuse a pid."""
    noted = {
        int(word)
        for path in project.glob(".agent-workspaces/*/pids")
        for word in path.read_text(encoding="ascii").split()
    }
    return {pid for pid in noted if command_line_has(pid, SLEEP[1])}


KINDS = ("child", "grandchild", "double-fork", "setsid", "clean-env", "daemon")

# A sleep that no other program asks for: it marks a stray, so that clean-up never ends a foreign process.
SLEEP = ("sleep", "2147480917")


def spawn(kind: str, pids: str, *, stubborn: bool) -> None:
    """Leave a stray behind; it has written its pid into the file `pids` before this returns."""
    ready, running = os.pipe()  # both close on exec: the read ends when every stray has become its sleep
    child = os.fork()
    if child == 0:
        try:
            _become(kind, pids, running, stubborn=stubborn)
        finally:
            os._exit(127)
    os.close(running)
    os.read(ready, 1)
    os.close(ready)
    if kind in ("double-fork", "daemon"):
        os.waitpid(child, 0)


def _become(kind: str, pids: str, running: int, *, stubborn: bool) -> None:
    if kind in ("setsid", "daemon"):
        os.setsid()
    if kind in ("double-fork", "daemon") and os.fork():
        os._exit(0)
    if kind == "grandchild":
        os.fork()
    file = os.open(pids, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, b"%d\n" % os.getpid())
    os.close(file)
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "daemon":
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        os.closerange(3, running)
        os.closerange(running + 1, 4096)
    environ = {} if kind in ("clean-env", "daemon") else dict(os.environ)
    os.execvpe(SLEEP[0], SLEEP, environ)  # noqa: S606 - no shell is wanted here
