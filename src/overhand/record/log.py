"""A task's append-only log, one JSON object per line, and the task while that log is locked.

Events that are appended together count together or not at all: every line but the last of an append ends with a space,
so what a kill left of one differs from a whole one. Readers pass over it, and the next writer cuts it off.
"""

from __future__ import annotations

import os
import time

from overhand.errors import OverhandError, StorageFailed, TaskNotFound, storage_failed
from overhand.record.events import add, fold
from overhand.record.shape import DAMAGED, EVENT_KIND
from overhand.system import Lock, boot_id, dump_line, load_line, now_stamp, ring_bells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from overhand.record.events import Event
    from overhand.record.store import Store
    from overhand.record.task import By, Line, Task

LOG_FILE = "log.jsonl"
MAX_EVENT = 4096
_GOES_ON = b"} \n"  # the end of a line that the next one belongs to


def read_log(folder: str) -> list[Line]:
    """The events on disk; a torn append does not count, an unreadable line is of the kind `DAMAGED`."""
    return parse_log(raw(folder)[0])


def was_at_work(folder: str, since: float) -> bool:
    """Whether a run of this task may live, or have lived after `since`: a look at the bytes, since most have not."""
    try:
        found, written = raw(folder)
    except StorageFailed:
        return True
    return written >= since or found.rfind(b'"run.created"') > found.rfind(b'"e":"run.ended"')


def had_processes(folder: str) -> bool:
    """Whether a run of this task may live, or has left processes behind."""
    return was_at_work(folder, float("inf")) or b'"leftovers":[' in raw(folder)[0]


def raw(folder: str) -> tuple[bytes, float]:
    """The log without a torn end, and when it was last written; nothing where there is none."""
    try:
        fd = os.open(f"{folder}/{LOG_FILE}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b"", 0.0
    except OSError as error:
        raise storage_failed(error, "Cannot read the log of this task") from error
    try:
        found = os.fstat(fd)
        return whole_appends(os.read(fd, found.st_size + 1)), found.st_mtime
    except OSError as error:
        raise storage_failed(error, "Cannot read the log of this task") from error
    finally:
        os.close(fd)


def whole_appends(found: bytes) -> bytes:
    """What is read of a log, up to the end of the last append that is complete."""
    end = found.rfind(b"\n") + 1
    while found.endswith(_GOES_ON, 0, end):
        end = found.rfind(b"\n", 0, end - 1) + 1
    return found[:end]


def parse_log(found: bytes) -> list[Line]:
    """Events of complete appends, one for each line."""
    text = whole_appends(found).decode("utf-8", "replace")
    try:
        events: list[Line] = load_line("[" + text[:-1].replace("\n", ",") + "]")  # all at once takes half the time
    except ValueError:
        events = []
    if len(events) == text.count("\n") and all(type(event) is dict for event in events):
        return events
    return list(_one_by_one(text.split("\n")))


def _one_by_one(lines: list[str]) -> Iterator[Line]:
    for line in lines[:-1]:
        try:
            event = load_line(line)
        except ValueError:
            event = None
        # one broken line must not hide the others
        yield event if isinstance(event, dict) else {EVENT_KIND: DAMAGED}


def create(folder: str, data: bytes, *, sync: bool) -> tuple[int, int]:
    """Write the log of a new task, which no other process knows yet; returns its inode and its size."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(f"{folder}/{LOG_FILE}", flags, 0o644)
    except OSError as error:
        raise storage_failed(error, "Cannot write the log of this task") from error
    try:
        return os.fstat(fd).st_ino, append_lines(fd, data, 0, sync=sync)
    finally:
        os.close(fd)


def stamp(by: By) -> Line:
    """What every event carries: its time and its cause."""
    return {"t": now_stamp(), "mono": round(time.monotonic(), 3), "boot": boot_id(), "by": by}


def log_lines(events: Sequence[Line]) -> bytes:
    """The lines of a log for these events, which count together."""
    lines = [dump_line(event) for event in events]
    if max(map(len, lines), default=0) > MAX_EVENT:
        too_long = next(line for line in lines if len(line) > MAX_EVENT)
        raise StorageFailed(
            f"An event of {len(too_long)} characters is too long for the log: {too_long[:80]}…",
            "Put the long text into a file, and name the file instead.",
        )
    return (" \n".join(lines) + "\n").encode("utf-8", "replace")


def append_lines(fd: int, data: bytes, size: int, *, sync: bool) -> int:
    """Append lines to a log of this size that we alone write to; returns its new size.

    A torn tail is cut off first (appending behind it would destroy the next event too), and a short write is undone,
    so that a full disk leaves the log as it was.
    """
    size = cut_torn_tail(fd, size)
    try:
        if os.write(fd, data) != len(data):
            raise OSError(28, "No space left on device")
        if sync:
            to_disk(fd)
        return size + len(data)
    except OSError as error:
        os.ftruncate(fd, size)
        raise storage_failed(error, "Cannot write to the log of this task") from error


def sync(folder: str) -> None:
    try:
        fd = os.open(f"{folder}/{LOG_FILE}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            to_disk(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise storage_failed(error, "Cannot bring the log of this task to the disk") from error


def sync_all(folder: str) -> None:
    """Flush the whole file system of this folder to the disk: many logs at once."""
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), folder)
        finally:
            os.close(fd)
    except OSError as error:
        raise storage_failed(error, "Cannot bring the logs of these tasks to the disk") from error


def to_disk(fd: int) -> None:
    os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)


def cut_torn_tail(fd: int, size: int) -> int:
    """Truncate a log that we alone write to after its last complete append; returns its size."""
    last = os.pread(fd, len(_GOES_ON), max(0, size - len(_GOES_ON)))
    if size == 0 or (last.endswith(b"\n") and last != _GOES_ON):
        return size
    keep = len(whole_appends(os.pread(fd, size, 0)))
    os.ftruncate(fd, keep)
    return keep


WAITERS = ".waiters"  # in a task's record: the bells of processes that wait for it


class LockedTask:
    """A task under its lock: what its log says, and the only way to add to it."""

    def __init__(self, store: Store, task_id: str, by: By, patience: float, known: Task | None) -> None:
        self.store, self.task_id, self.by, self._known = store, task_id, by, known
        self.record = store.record(task_id)
        self._lock = Lock(f"{self.record}/{LOG_FILE}", f"Task {task_id}", patience, signed=False)
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
                self.task = fold(self.task_id, parse_log(os.pread(self._lock.fd, self._size, 0)))
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def append(self, *events: Event, sync: bool = False) -> None:
        """Record events and take them into `task`."""
        stamped = stamp_events(events, self.by)
        self._size = append_lines(self._lock.fd, log_data(stamped), self._size, sync=sync)
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
    stamped = stamp(by)
    return [event.replace(**stamped) for event in events]


def log_data(events: Iterable[Event]) -> bytes:
    """The lines of a log for these events."""
    return log_lines([event.line for event in events])
