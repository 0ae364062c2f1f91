"""What the system says about a process: parent, start, command line, environment."""

from __future__ import annotations

import os
import sys

from overhand.errors import EXHAUSTED, storage_failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LINUX = sys.platform == "linux"
SHIM_NAME = b"overhand-shim"


class Process:
    """One row of the process table."""

    __slots__ = ("parent", "session", "started")

    def __init__(self, parent: int, session: int, started: float) -> None:
        self.parent, self.session, self.started = parent, session, started


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields after the name in /proc/PID/stat: state, parent, group, session, …; None for a zombie.

    A process whose first thread has ended looks like a zombie, but works and keeps its locks until its last one ends.
    """
    fields = _fields(pid)
    return None if not fields or (fields[0] in b"ZX" and int(fields[17]) < 2) else fields


def _fields(pid: int) -> list[bytes]:
    """The same fields, also for a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise storage_failed(error, "Cannot look at a process") from error  # it may well exist
        return []


def stat(pid: int) -> Process | None:
    fields = stat_fields(pid)
    return Process(int(fields[1]), int(fields[3]), float(fields[19])) if fields else None


def start_time(pid: int) -> float | None:
    """When the process began, in the system's own unit; None if it is gone or a zombie."""
    if LINUX:
        row = stat(pid)
        return row.started if row else None
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


def read(pid: int, what: str) -> bytes:
    """`cmdline` or `environ` of a process, NUL-separated; empty if it is gone or not ours."""
    if LINUX:
        try:
            with open(f"/proc/{pid}/{what}", "rb") as file:
                return file.read()
        except OSError:
            return b""
    import psutil

    try:
        process = psutil.Process(pid)
        parts = process.cmdline() if what == "cmdline" else [f"{k}={v}" for k, v in process.environ().items()]
    except (psutil.Error, OSError):
        return b""
    return b"\0".join(part.encode("utf-8", "surrogateescape") for part in parts)


def command_line_has(pid: int, word: str) -> bool:
    """Whether `word` is one of the process's arguments."""
    return word.encode("utf-8", "surrogateescape") in read(pid, "cmdline").split(b"\0")


def environment_of(pid: int, name: str) -> str | None:
    """A variable of the environment a process was started with."""
    wanted = name.encode() + b"="
    for entry in read(pid, "environ").split(b"\0"):
        if entry.startswith(wanted):
            return entry[len(wanted) :].decode("utf-8", "replace")
    return None


def outside_runs(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that mark a process as part of a run."""
    return {name: value for name, value in env.items() if not name.startswith("OVERHAND_")}


def pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it has ended, or the system has none."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


def ancestors_of(pid: int) -> list[int]:
    """The process, its parent and so on up; the children of one that ends meanwhile have a new parent."""
    chain = [pid]
    while True:
        above = parent(chain[-1])
        if above is None and len(chain) > 1:
            chain.pop()
        elif not above or above == 1 or above in chain:
            return chain
        else:
            chain.append(above)


def parent(pid: int) -> int | None:
    """The parent of a process, None if it is gone; one that looks like a zombie may still have running threads."""
    if LINUX:
        fields = _fields(pid)
        return int(fields[1]) if fields else None
    import psutil

    try:
        return int(psutil.Process(pid).ppid())
    except psutil.Error:
        return None


def shim_place(pid: int) -> str | None:
    """The folder of the run whose shim this is."""
    words = read(pid, "cmdline").split(b"\0")
    if SHIM_NAME not in words[:-1]:
        return None
    place = words[words.index(SHIM_NAME) + 1].decode("utf-8", "surrogateescape")
    try:
        with open(f"{place}/shim", "rb") as file:
            return place if file.read(32) == b"%d\n" % pid else None
    except OSError:
        return None


def known_sessions(place: str) -> dict[int, float]:
    """Sessions in which members of this run were seen, with the start time of their leader."""
    known: dict[int, float] = {}
    try:
        with open(f"{place}/sessions", encoding="ascii", errors="replace") as file:
            for line in file.read().splitlines():
                session, _, leader = line.partition(" ")
                if session.isdigit():
                    known[int(session)] = float(leader or 0)
    except (OSError, ValueError):
        return known
    return known
