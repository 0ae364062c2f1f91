"""Which processes belong to a run.

No single sign is enough: groups miss setsid, trees miss double forks once the subreaper is gone, the environment is
empty after `env -i`. So a member is a descendant of the shim, or carries the run's marker, or has the run's `life`
open for reading, or lives in a session that a member was seen in earlier.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from overhand.system.machine import (
    LINUX,
    SHIM_NAME,
    Process,
    command_line_has,
    environment_of,
    held_lives,
    known_sessions,
    process_row,
    read_proc,
    shim_place,
    start_time,
    stat_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE = b"sleep\x001\x00"
_SLEEPS = ("sleep", "coreutils", "busybox", "toybox")
_GLANCES = 20  # at the children of a shim, one every hundredth of a second
_MOST_MARKERS = 100_000


class Sight:
    """The process table at one moment, with the signs that identify members of a run."""

    __slots__ = ("children", "holders", "marked", "rows", "sessions")

    def __init__(self, rows: dict[int, Process], marker_of: Callable[[int, float], str | None]) -> None:
        self.rows = rows
        self.children: dict[int, list[int]] = {}
        self.sessions: dict[int, list[int]] = {}
        self.marked: dict[str, list[int]] = {}  # by the marker's value in their environment
        self.holders: dict[str, list[int]] = {}  # processes without the marker, by the `life` that they can read
        for pid, row in rows.items():
            self.children.setdefault(row.parent, []).append(pid)
            self.sessions.setdefault(row.session, []).append(pid)
            marker = marker_of(pid, row.started)
            if marker is not None:
                self.marked.setdefault(marker, []).append(pid)
            for path in held_lives(pid) if marker is None else ():
                self.holders.setdefault(path, []).append(pid)


class SharedSight:
    """One scan of all processes for all callers that asked before it began: hundreds of runs may be stopped at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._markers: dict[int, tuple[float, str]] = {}  # by pid: when it started, and the marker's value
        self._sight = Sight({}, self._marker)

    def read(self) -> Sight:
        """Every process that is not a zombie, as of some moment after this call."""
        with self._changed:
            wanted = self._begun + 1
            while self._begun > self._done and self._done < wanted:
                self._changed.wait()
            if self._done >= wanted:
                return self._sight
            self._begun += 1
        try:
            sight = Sight(process_table(), self._marker)
        except BaseException:
            with self._changed:  # the waiting callers scan themselves
                self._begun = self._done
                self._changed.notify_all()
            raise
        with self._changed:
            self._sight, self._done = sight, self._begun
            self._changed.notify_all()
        return sight

    def _marker(self, pid: int, started: float) -> str | None:
        """The marker in a process's environment, cached: the environment only changes when the process execs."""
        known = self._markers.get(pid)
        if known is None or known[0] != started:
            if len(self._markers) > _MOST_MARKERS:
                self._markers.clear()
            value = environment_of(pid, self._name)
            if value is None:
                return None  # it may be about to exec
            self._markers[pid] = known = (started, value)
        return known[1]


@cache
def _shared_sight(name: str) -> SharedSight:
    """The one of all threads for this marker."""
    return SharedSight(name)


def process_table() -> dict[int, Process]:
    """Every process that is not a zombie."""
    if not LINUX:
        return _table_from_psutil()
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (row := process_row(int(name))):
            found[int(name)] = row
    return found


def _table_from_psutil() -> dict[int, Process]:
    import psutil

    found = {}
    for process in psutil.process_iter():
        try:
            with process.oneshot():
                if process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = Process(process.ppid(), os.getsid(process.pid), process.create_time())
        except (psutil.Error, OSError):
            continue
    return found


def send_signal(pid: int, started: float | None, number: signal.Signals) -> bool:
    """Signal exactly this process: by pidfd, after comparing its start time. False if we are not allowed to."""
    if started is None:
        return True
    try:
        if not hasattr(os, "pidfd_open"):
            if start_time(pid) == started:
                os.kill(pid, number)
            return True
        fd = os.pidfd_open(pid)
        try:
            if start_time(pid) == started:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)
    except ProcessLookupError:
        return True  # it has just ended
    except PermissionError:
        return False
    return True


@dataclass(slots=True)
class Members:
    """The members of one run, scanned repeatedly while the run is being stopped."""

    place: str
    marker: str  # NAME=value in the environment of everything the run started
    spare: frozenset[int]  # the supervisor, which is the parent of other runs too
    sessions: dict[int, float] = field(default_factory=dict)  # session: start time of its leader, 0 if unknown
    seen: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sessions.update(known_sessions(self.place))

    def scan(self) -> dict[int, float]:
        """Living members without the shim: pid and start time."""
        name, _, value = self.marker.partition("=")
        sight = _shared_sight(name).read()
        rows = sight.rows
        shim = self._shim(rows)
        spared = {os.getpid(), *self.spare}
        found = {pid for pid, started in self.seen.items() if pid in rows and rows[pid].started == started}
        if shim is not None:
            found.update(sight.children.get(shim, []))
            self._remember({shim: rows[shim].started})
        found.update(sight.marked.get(value, ()))
        found.update(sight.holders.get(os.path.realpath(f"{self.place}/life"), ()))
        for session, leader in self.sessions.items():
            # ids of empty sessions are reused, so the start time of its leader must match
            if session not in rows or rows[session].started == leader:
                found.update(sight.sessions.get(session, ()))
        found = self._with_descendants(found, sight.children, spared)
        found -= {pid for pid in found if pid == shim or self._is_shims_pause(pid, rows[pid], shim)}
        self.seen = {pid: rows[pid].started for pid in found}
        sessions = {rows[pid].session for pid in found}
        self._remember({session: rows[session].started if session in rows else 0.0 for session in sessions})
        return dict(self.seen)

    def _shim(self, rows: dict[int, Process]) -> int | None:
        try:
            with open(f"{self.place}/shim", "rb") as file:
                pid = int(file.read(32))
        except (OSError, ValueError):
            return None
        return pid if pid in rows and command_line_has(pid, self.place) else None

    def _with_descendants(self, found: set[int], children: dict[int, list[int]], spared: set[int]) -> set[int]:
        members: set[int] = set()
        todo = list(found)
        while todo:
            pid = todo.pop()
            # another run's shim is inherited from a supervisor that our agent started and that has died
            if pid in members or pid in spared or self._is_other_shim(pid):
                continue
            members.add(pid)
            todo.extend(children.get(pid, []))
        return members

    def _is_other_shim(self, pid: int) -> bool:
        """Whether it is the shim of another run, and not a program with a folder of its own making."""
        place = shim_place(pid)
        if place is None or place == self.place:
            return False
        records = os.path.realpath(f"{self.place}/../../../../..")  # place: PROJECT/tasks/TASK/runs/RUN
        return os.path.realpath(place).startswith(f"{records.rstrip('/')}/")

    def _is_shims_pause(self, pid: int, row: Process, shim: int | None) -> bool:
        """Whether it is the shim's own `sleep 1` after its agent has ended; before its exec it looks like the shim."""
        if shim is None or row.parent != shim:
            return False
        if _is_sleep(pid):
            return True
        return os.path.exists(f"{self.place}/exit") and read_proc(pid, "cmdline") == read_proc(shim, "cmdline")

    def note(self, shim: int) -> int:
        """Remember the sessions below a living shim; returns the CPU ticks its members have used."""
        below = descendants(shim, self.spare)
        started = {pid: row[1] for pid, row in below.items()}
        self._remember({row[0]: started.get(row[0], 0.0) for row in below.values() if row[0] != shim})
        self._remember({shim: start_time(shim) or 0.0})
        return sum(row[2] for row in below.values())

    def take_orphans(self, parent: int, others: list[str], is_started: Callable[[int], bool]) -> None:
        """Adopt the orphans of our killed shim: children of its subreaper that are in no other run's session.

        Not children that the subreaper started itself: a new shim has no command line for a moment during its exec.
        """
        taken = {session for place in others for session in known_sessions(place)} | {os.getsid(parent)}
        for pid in _children(parent):
            row = process_row(pid)
            if row and row.session not in taken and not is_started(pid) and not _looks_like_shim(pid):
                self._remember({row.session: start_time(row.session) or 0.0})

    def _remember(self, sessions: dict[int, float]) -> None:
        """Write the sessions down, so that the next supervisor knows them after the shim is gone."""
        own = os.getsid(0)
        new = {s: leader for s, leader in sessions.items() if s not in (0, own) and s not in self.sessions}
        if not new:
            return
        self.sessions.update(new)
        try:
            with open(f"{self.place}/sessions", "a", encoding="ascii") as file:
                file.write("".join(f"{session} {leader}\n" for session, leader in new.items()))
        except OSError:
            return  # this process knows them; only a later one would miss them


def descendants(shim: int, spare: frozenset[int]) -> dict[int, tuple[int, float, int]]:
    """The processes below a shim: pid → session, start time, CPU ticks. Cheaper than a scan; Linux only.

    A supervisor that was started from inside the run is not a member, nor is another run below it.
    """
    found: dict[int, tuple[int, float, int]] = {}
    todo = [shim]
    while todo:
        pid = todo.pop()
        for child in _children(pid):
            row = stat_fields(child) if child not in spare else None
            if row and int(row[3]) == child and _looks_like_shim(child):
                continue
            if row and child not in found:
                found[child] = (int(row[3]), float(row[19]), int(row[11]) + int(row[12]))
                todo.append(child)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += [int(word) for word in file.read().split()]
    except OSError:
        return children  # it ended during the scan
    return children


def become_subreaper() -> None:
    """Make this process, instead of init, inherit what a killed shim leaves behind; Linux only."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def dead_orphans(started: set[int]) -> list[int]:
    """Zombies that this process inherited: they are in sessions of their own."""
    own, found = os.getsid(0), []
    for pid in set(_children(os.getpid())) - started if LINUX else ():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields and fields[0] == b"Z" and int(fields[3]) != own:
            found.append(pid)
    return found


def _looks_like_shim(pid: int) -> bool:
    """Whether its command line is a shim's; true also before the shim has written its pid."""
    return SHIM_NAME in read_proc(pid, "cmdline").split(b"\0")


def pauses(shim: int) -> dict[int, float]:
    """The shim's own `sleep`, which would hold `life` for a second longer: pid and start time; Linux only."""
    own = read_proc(shim, "cmdline")  # before its exec it looks like the shim
    found = {pid: start_time(pid) for pid in _children(shim) if _is_sleep(pid) or read_proc(pid, "cmdline") == own}
    return {pid: started for pid, started in found.items() if started is not None}


def _is_sleep(pid: int) -> bool:
    """Whether it is the system's `sleep 1`, which ends by itself, and not another program of that name."""
    if read_proc(pid, "cmdline") != _PAUSE:
        return False
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        return os.path.basename(program) in _SLEEPS and os.stat(f"/proc/{pid}/exe").st_uid == 0
    except OSError:
        return start_time(pid) is None  # it ended just now


def restless(shim: int) -> dict[int, int]:
    """Processes below a shim that fork and end all the time, with their process groups; Linux only.

    No table of processes shows them alive; but the kernel's list of the shim's children always has one of them.
    """
    first: set[int] | None = None
    for _ in range(_GLANCES if LINUX else 0):
        own, seen = read_proc(shim, "cmdline"), {}
        for pid in _children(shim):
            row = stat_fields(pid)
            if row and int(row[2]) and not _is_sleep(pid) and read_proc(pid, "cmdline") not in (own, b""):
                seen[pid] = int(row[2])
        if first is not None and seen.keys() - first:
            return seen
        first = first if first is not None else set(seen)
        time.sleep(0.01)
    return {}


def end_groups(groups: set[int], spare: frozenset[int]) -> None:
    """Kill whole process groups at once: a process that forks meanwhile takes its child with it."""
    for group in groups - {os.getpgid(0), *spare}:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue  # it has ended
