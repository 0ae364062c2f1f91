"""Processes that a scripted agent leaves behind, each harder to find than the one before."""

from __future__ import annotations

import os
import signal

KINDS = ("child", "grandchild", "double-fork", "setsid", "clean-env", "daemon")

# A sleep nobody else would ask for: it marks a stray, so that cleaning up never ends somebody else's process.
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
