"""The live runs under the supervisor's eyes: descriptors that wake it, sessions it remembers, signs of life."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand import handles, machine, members, run

if TYPE_CHECKING:
    from overhand.config import Config
    from overhand.shapes import Run

# Seconds after the start at which the sessions of a run are noted: what hides does so early. Then ever more rarely.
_NOTE_AT = (0.1, 0.5, 2.0)
_NOTE_EVERY = 60.0


@dataclass(slots=True)
class Watch:
    """A live run, in as few bytes as can be: there may be hundreds."""

    run: str
    place: str
    began: float
    deadline: float | None
    note_at: float
    sign: float  # when it last showed a sign of life
    ours: bool = True  # in our pid namespace
    pidfd: int | None = None
    orphan: bool = False  # its shim is gone
    size: int = -1
    sized: float = 0.0  # when the size was looked at
    touch: int = 0  # when something was last made in its folder
    ticks: int = -1
    stalled: bool = False
    own: Config | None = None  # where the task has settings of its own

    @property
    def members(self) -> members.Members:
        """Who belongs to it."""
        return members.Members(self.place, f"{run.MARKER}={self.run}", frozenset({os.getpid()}))


@dataclass(slots=True)
class Watches:
    """All of them, by task."""

    poll: select.poll
    live: dict[str, Watch] = field(default_factory=dict)
    by_fd: dict[int, str] = field(default_factory=dict)

    def keep(self, task_id: str, current: Run, place: str, own: Config | None) -> None:
        """Keep an eye on a run."""
        known = self.live.get(task_id)
        if known is None or known.run != current["id"]:
            self.drop(task_id)
            same = current["boot"] == machine.boot()
            now = time.monotonic()
            began = current["mono"] if same else now
            deadline = began + current["timeout"] if same and current["timeout"] else None
            known = Watch(
                current["id"], place, began, deadline, now + _NOTE_AT[0], now, run.same_pid_world(current), own=own
            )
            self.live[task_id] = known
        self.watch_shim(task_id, known, current["shim"])

    def watch_shim(self, task_id: str, known: Watch, recorded: int | None = None) -> None:
        """Wake up when the shim ends; a shim that stays for leftovers is noticed by the regular look."""
        if known.pidfd is not None or known.orphan or not known.ours or not hasattr(os, "pidfd_open"):
            return
        shim = handles.shim_pid(known.place, recorded)
        if shim is None:
            return
        try:
            known.pidfd = os.pidfd_open(shim)
        except OSError:
            return
        self.poll.register(known.pidfd, select.POLLIN)
        self.by_fd[known.pidfd] = task_id

    def shim_ended(self, pidfd: int) -> str:
        """Mostly the run has ended; what outlives its shim comes to us, its subreaper, and is remembered as its own."""
        task_id = self.by_fd[pidfd]
        known = self.live[task_id]
        self._close(known)
        known.orphan = True
        if members.LINUX and handles.exit_code(known.place) is None:
            others = [other.place for other in self.live.values() if other is not known]
            known.members.take_orphans(os.getpid(), others)
        return task_id

    def _close(self, known: Watch) -> None:
        """A descriptor of an ended process would wake us for ever."""
        if known.pidfd is not None:
            self.poll.unregister(known.pidfd)
            del self.by_fd[known.pidfd]
            os.close(known.pidfd)
            known.pidfd = None

    def drop(self, task_id: str) -> None:
        """Stop looking at a run."""
        known = self.live.pop(task_id, None)
        if known:
            self._close(known)

    def touched(self, known: Watch) -> bool:
        """Whether something was made in the run's folder since the last look."""
        try:
            touch = os.stat(known.place).st_mtime_ns
        except OSError:
            return True
        known.touch, before = touch, known.touch
        return touch != before

    def next_due(self) -> float:
        """When the nearest deadline or note is."""
        return min((min(w.deadline or w.note_at, w.note_at) for w in self.live.values()), default=float("inf"))

    def note(self, known: Watch, now: float, stall: float) -> float:
        """Remember the sessions of its members; returns for how long it has shown no sign of life."""
        age = now - known.began
        later = now + min(_NOTE_EVERY, stall / 4 if stall else _NOTE_EVERY)
        known.note_at = next((known.began + at for at in _NOTE_AT if at > age), later)
        shim = handles.shim_pid(known.place) if known.ours and members.LINUX else None
        if shim is not None:
            ticks = known.members.note(shim)
            if ticks != known.ticks:
                known.ticks, known.sign = ticks, now
        return now - known.sign
