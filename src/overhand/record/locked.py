"""A task while its lock is held."""

from __future__ import annotations

import os

from overhand.errors import OverhandError, TaskNotFound
from overhand.record import log
from overhand.record.events import add, fold
from overhand.system import Lock, ring_bells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.record.events import Event
    from overhand.record.store import Store
    from overhand.record.task import By, Task

WAITERS = ".waiters"  # in a task's record: the bells of processes that wait for it


class LockedTask:
    """A task under its lock: what its log says, and the only way to add to it."""

    def __init__(self, store: Store, task_id: str, by: By, patience: float, known: Task | None) -> None:
        self.store, self.task_id, self.by, self._known = store, task_id, by, known
        self.record = store.record(task_id)
        self._lock = Lock(f"{self.record}/{log.LOG_FILE}", f"Task {task_id}", patience, signed=False)
        self._size = 0  # of the log, which no other process extends while it is locked
        self._wrote = False
        self.task: Task  # what the log says, once the lock is held

    def __enter__(self) -> LockedTask:
        try:
            self._lock.__enter__()
        except OverhandError:
            if not os.path.isdir(self.record):
                raise TaskNotFound(f"There is no task {self.task_id}.", "See them all: overhand list") from None
            raise
        try:
            self._size, mark = self._lock.size, (self._lock.inode, self._lock.size)
            if self._known is not None and self._known.log_mark == mark:  # complete lines never change
                self.task = self._known
            else:
                self.task = fold(self.task_id, log.parse_log(os.pread(self._lock.fd, self._size, 0)))
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def append(self, *events: Event, sync: bool = False) -> None:
        """Record events and take them into `task`."""
        stamped = stamp_events(events, self.by)
        self._size = log.append_lines(self._lock.fd, log_data(stamped), self._size, sync=sync)
        self._wrote = True
        for event in stamped:
            add(self.task, event)
        self.task.log_mark = self._lock.inode, self._size

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()
        if self._wrote:
            ring_bells(f"{self.record}/{WAITERS}")


def stamp_events(events: Iterable[Event], by: By) -> list[Event]:
    """The events with their time and their cause."""
    stamp = log.stamp(by)
    return [event.replace(**stamp) for event in events]


def log_data(events: Iterable[Event]) -> bytes:
    """The lines of a log for these events."""
    return log.log_lines([event.line for event in events])
