"""An exclusive lock on a file, and the process that holds it."""

from __future__ import annotations

import os
import time

from overhand.errors import EXHAUSTED, Busy, storage_failed

LOCK_PATIENCE = 5.0  # seconds that a writer tries before it names the holder and gives up


class Lock:
    """An exclusive flock on a file; waits for at most PATIENCE, never breaks a lock.

    A file that is only a lock is signed with our pid, so that an error can name the holder.
    """

    def __init__(self, path: str, what: str, patience: float = LOCK_PATIENCE, *, signed: bool = True) -> None:
        self.path, self.what, self.patience, self.signed = path, what, patience, signed
        self.fd, self.size = -1, 0  # the size at the time of locking

    def __enter__(self) -> Lock:
        deadline = time.monotonic() + self.patience
        pause = 0.0005
        while not self._try():
            if time.monotonic() >= deadline:
                raise busy_error(self.path, self.what, signed=self.signed)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        return self

    def _try(self) -> bool:
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if self.signed else os.O_APPEND)
        try:
            fd = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise storage_failed(error, f"Cannot lock {self.what}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here, there = os.fstat(fd), os.stat(self.path)
            if here.st_ino == there.st_ino and here.st_dev == there.st_dev:
                if self.signed:
                    self._sign(fd)
                self.fd, self.size = fd, here.st_size
                return True
        except (BlockingIOError, FileNotFoundError):
            pass  # held, or the folder was removed in between: try again
        os.close(fd)
        return False

    @staticmethod
    def _sign(fd: int) -> None:
        """Write our pid into the lock file; a full disk must not prevent locking."""
        try:
            os.pwrite(fd, b"%-10d\n" % os.getpid(), 0)
        except OSError:
            return

    def __exit__(self, *_: object) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def is_held(path: str) -> bool:
    """Whether a process holds this lock now; the kernel releases it when the process dies."""
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise storage_failed(error, "Cannot look at a lock") from error  # it may be held by a live run
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def kernel_holder(path: str) -> int | None:
    """The pid that the kernel names as the holder of a lock; Linux only."""
    try:
        found = os.stat(path)
        wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return None
    pids = [int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == wanted]
    return next((pid for pid in pids if pid > 0), None)


def lock_holder(path: str) -> int | None:
    """The pid written into a lock file."""
    try:
        with open(path, "rb") as file:
            return int(file.read(20).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal or a debugger; it is alive and keeps its locks."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def busy_error(path: str, what: str, *, signed: bool = True) -> Busy:
    """The error that names the lock holder, and says whether that process is stopped."""
    pid = kernel_holder(path) or (lock_holder(path) if signed else None)
    if pid is None:
        return Busy(f"{what} is held by another process.", "Try again in a moment.")
    if is_stopped(pid):
        return Busy(f"{what} is held by process {pid}, which is stopped.", f"Let it go on: kill -CONT {pid}", pid=pid)
    return Busy(f"{what} is held by process {pid}.", f"Try again in a moment, or look at it: ps -p {pid}", pid=pid)
