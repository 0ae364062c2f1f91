"""The live runs under the supervisor's eyes: descriptors that wake it, sessions it remembers, signs of life."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand.runs import run, spending
from overhand.runs.control import Hearing
from overhand.system import detached, machine, members, processes
from overhand.system.files import size_of
from overhand.system.inotify import MODIFY, Inotify

if TYPE_CHECKING:
    from overhand.policy.config import Config
    from overhand.record.task import Run

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
    touch: tuple[int, ...] = ()  # when something was last made in its folders
    stirred: bool = True  # something may have been made there since
    folders: tuple[int, ...] = ()  # what wakes us for it
    waiting: float | None = None  # since when it is known to be blocked
    park_at: float = float("inf")  # when it is ended for want of an answer
    attended: float = 0.0  # when it was last looked at whether it waits
    logged: int = -1  # how long its task's log was then
    hearing: Hearing | None = None  # its stream, where CONTROL lines are heard
    asked: bool = False  # an open question lies in a file: its silence is measured
    quiet: tuple[int, int, float] = (-1, -1, 0.0)  # size, ticks, since when
    ticks: int = -1
    stalled: bool = False
    counted: int = -1  # how much of its reports was looked at; at first it may be another's who died
    recount: bool = False  # a budget that it draws on may be used up
    noted: float = 0.0  # when it was last recorded what it has used
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
    news: Inotify = field(default_factory=Inotify)
    by_folder: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.news.fd >= 0:
            self.poll.register(self.news.fd, select.POLLIN)

    def keep(self, task_id: str, current: Run, place: str, own: Config | None) -> None:
        """Keep an eye on a run."""
        known = self.live.get(task_id)
        if known is None or known.run != current.id:
            self.drop(task_id)
            same = current.boot == machine.boot()
            now = time.monotonic()
            began = current.mono if same else now
            deadline = began + current.timeout if same and current.timeout else None
            known = Watch(
                current.id, place, began, deadline, now + _NOTE_AT[0], now, run.same_pid_world(current), own=own
            )
            self.live[task_id] = known
        known.waiting = current.waiting
        if current.control and known.hearing is None:
            known.hearing = Hearing(current.id, f"{place}/stdout", driver=current.driver)
        if known.deadline is not None:
            known.deadline = current.mono + current.timeout + current.waited
        self._listen(task_id, known)
        self.watch_shim(task_id, known, current.shim)

    def _listen(self, task_id: str, known: Watch) -> None:
        """Be woken when something appears in the run's folder, among its questions, or among those who wait."""
        task_folder = os.path.dirname(os.path.dirname(known.place))
        wanted = [known.place, f"{task_folder}/ipc", f"{known.place}/waiting"]
        numbers = tuple(number for path in wanted if (number := self.news.add(path)) is not None)
        if known.hearing is not None and (stream := self.news.add(known.hearing.path, MODIFY)) is not None:
            numbers = (*numbers, stream)
        self.by_folder.update(dict.fromkeys(numbers, task_id))
        known.stirred |= not set(numbers).issubset(known.folders)  # who was there before we listened is found by a look
        known.folders = numbers
        self._listen_to_reports(task_id, known)

    def _listen_to_reports(self, task_id: str, known: Watch) -> None:
        """Be woken by what it reports; from when the file is there, for it may be filled long after it was made."""
        number = self.news.add(f"{known.place}/{spending.REPORTS}", MODIFY)
        if number is not None and number not in known.folders:
            self.by_folder[number] = task_id
            known.folders = (*known.folders, number)

    def stirred(self) -> list[str]:
        """Tasks in whose folders something happened."""
        numbers = self.news.read()
        tasks = list(self.live) if numbers is None else [self.by_folder[n] for n in numbers if n in self.by_folder]
        for task_id in tasks:
            if task_id in self.live:
                self.live[task_id].stirred = True
                self._listen_to_reports(task_id, self.live[task_id])
        return list(dict.fromkeys(tasks))

    def watch_shim(self, task_id: str, known: Watch, recorded: int | None = None) -> None:
        """Wake up when the shim ends; a shim that stays for leftovers is noticed by the regular look."""
        if known.pidfd is not None or known.orphan or not known.ours or not hasattr(os, "pidfd_open"):
            return
        # a program that is just being replaced by the next has no command line for a moment
        shim = recorded if detached.is_child(recorded) else detached.shim_pid(known.place, recorded)
        if recorded is not None and processes.start_time(shim or recorded) is None:
            self._orphaned(known)  # it was killed before we could watch it: what it left must be known at once
            return
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
        self._orphaned(known)
        return task_id

    def _orphaned(self, known: Watch) -> None:
        known.orphan = True
        if processes.LINUX and detached.exit_code(known.place) is None:
            others = [other.place for other in self.live.values() if other is not known]
            known.members.take_orphans(os.getpid(), others, detached.is_child)

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
            for number in known.folders:
                if self.by_folder.pop(number, None):
                    self.news.remove(number)

    def touched(self, known: Watch) -> bool:
        """Whether something was made in the run's folders since the last look."""
        if known.folders:
            known.stirred, stirred = False, known.stirred
            return stirred
        task_folder = os.path.dirname(os.path.dirname(known.place))
        touch = tuple(_touch(path) for path in (known.place, f"{task_folder}/ipc", f"{known.place}/waiting"))
        known.touch, before = touch, known.touch
        return touch != before or touch[0] == 0

    def has_talk(self, known: Watch) -> bool:
        """Whether it has asked something, or one of its processes waits."""
        if known.hearing is not None:
            return True
        task_folder = os.path.dirname(os.path.dirname(known.place))
        return any(_has_entries(path) for path in (f"{task_folder}/ipc", f"{known.place}/waiting"))

    def next_due(self) -> float:
        """When the nearest deadline or note is."""
        return min((_due(known) for known in self.live.values()), default=float("inf"))

    def note(self, known: Watch, now: float, stall: float) -> float:
        """Remember the sessions of its members; returns for how long it has shown no sign of life."""
        age = now - known.began
        step = min(_NOTE_EVERY, stall / 4 if stall else _NOTE_EVERY) / 8
        later = (now // step + 8) * step  # hundreds of runs are noted in a few lots: each lot wakes us once
        known.note_at = next((known.began + at for at in _NOTE_AT if at > age), later)
        shim = detached.shim_pid(known.place) if known.ours and processes.LINUX else None
        if shim is not None:
            ticks = known.members.note(shim)
            if ticks != known.ticks:
                known.ticks, known.sign = ticks, now
        return now - known.sign

    def is_quiet(self, known: Watch, now: float, after: float) -> bool:
        """Whether it has printed nothing for so long, and used the processor no more than one who looks around."""
        size = sum(size_of(f"{known.place}/{name}") for name in ("stdout", "stderr"))
        shim = detached.shim_pid(known.place) if known.ours and processes.LINUX else None
        ticks = known.members.note(shim) if shim is not None else 0
        was_size, was_ticks, since = known.quiet
        little = 5 + (now - since) * _HARDLY
        if size != was_size or ticks - was_ticks > little or ticks < was_ticks:
            known.quiet = (size, ticks, now)
            return False
        return now - since >= after


_HARDLY = 2.0  # ticks of a hundredth of a second in a second: 2 % of a core


def _due(known: Watch) -> float:
    """When it must be looked at; while it is blocked its clock stands still."""
    if known.deadline is None or known.waiting is not None:
        return min(known.park_at, known.note_at)
    return min(known.deadline, known.note_at)


def _has_entries(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except OSError:
        return False


def _touch(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
