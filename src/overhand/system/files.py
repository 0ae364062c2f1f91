"""Whole files, written atomically and read without following links; locks and their holders, FIFOs and readers."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextvars import ContextVar

from overhand.errors import EXHAUSTED, BadInput, Busy, NotFound, OverhandError, storage_failed
from overhand.system.machine import pid_namespace, start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Scan = Callable[[str, int], tuple[Any, int]]

MAX_DOCUMENT = 16 * 1024 * 1024
MAX_PLAN = 4 * MAX_DOCUMENT  # a hundred thousand nodes
_NO_READER = (errno.ENXIO, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)  # the last three: it is no FIFO
LOCK_PATIENCE = 5.0  # seconds that a writer tries before it names the holder and gives up


def write_file(path: str, data: bytes | str, *, mode: int = 0o644) -> None:
    """Write a whole file: readers see the old bytes or the new ones, never a part."""
    temporary = f"{path}.{os.getpid()}-{time.monotonic_ns():x}.tmp"
    try:
        _make(temporary, data, mode)
        os.rename(temporary, path)
    except OSError as error:
        remove_file(temporary)
        raise storage_failed(error, f"Cannot write {os.path.basename(path)}") from error


def write_if_missing(path: str, data: bytes | str) -> bool:
    """Write a whole file unless there is one by now; returns whether it was written."""
    temporary = f"{path}.{os.getpid()}-{time.monotonic_ns():x}.tmp"
    try:
        _make(temporary, data, 0o644)
        return second_name(temporary, path)
    except OSError as error:
        raise storage_failed(error, f"Cannot write {os.path.basename(path)}") from error
    finally:
        remove_file(temporary)


def write_new(path: str, data: bytes | str) -> None:
    """Write a file into a folder that no process reads before an event names it, so no rename is needed."""
    try:
        _make(path, data, 0o644)
    except OSError as error:
        raise storage_failed(error, f"Cannot write {os.path.basename(path)}") from error


def _make(path: str, data: bytes | str, mode: int) -> None:
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        written = os.write(fd, raw)
        while written < len(raw):  # a very long file may take several writes
            written += os.write(fd, memoryview(raw)[written:])
    finally:
        os.close(fd)


def put_file(path: str, data: bytes | str) -> None:
    """Write a whole file; a folder that an agent created in its place is moved aside."""
    try:
        write_file(path, data)
    except OverhandError as error:
        if not isinstance(error.__cause__, IsADirectoryError):
            raise
        os.rename(path, f"{path}-aside-{random_text(6)}")
        write_file(path, data)


def put_new(path: str, data: bytes | str) -> None:
    """Write a whole file that no process reads before an event names it; one that a killed process left is replaced."""
    try:
        _make(path, data, 0o644)
    except FileExistsError:
        put_file(path, data)
    except OSError as error:
        remove_file(path)
        raise storage_failed(error, f"Cannot write {os.path.basename(path)}") from error


def second_name(path: str, name: str) -> bool:
    """Give a file of ours a second name; False if the name is taken."""
    try:
        os.link(path, name)
        return True
    except FileExistsError:
        return False


def remove_file(path: str, *, dir_fd: int | None = None) -> None:
    """Remove a file, if it still exists."""
    try:
        os.unlink(path, dir_fd=dir_fd)
    except OSError:
        return


def is_there(path: str) -> bool:
    """Whether the path exists, even as a dangling link; a no costs a third of an exception."""
    return os.access(path, os.F_OK, follow_symlinks=False) if _CAN_LOOK else os.path.lexists(path)


_CAN_LOOK = os.access in os.supports_follow_symlinks


def read_file(path: str, limit: int = MAX_DOCUMENT) -> bytes | None:
    """A regular file's bytes (one more than `limit` at most, so that a caller can see it is too big), or None.

    A symbolic link is not followed: an agent must not make us read a file outside its folder.
    """
    try:
        fd = open_to_read(path)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise storage_failed(error, f"Cannot read {os.path.basename(path)}") from error  # it may be there
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        parts, left = [], limit + 1
        while left > 0 and (part := os.read(fd, min(left, found.st_size + 1))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    except OSError as error:
        raise storage_failed(error, f"Cannot read {os.path.basename(path)}") from error
    finally:
        os.close(fd)


# Documents that a call from inside a run brought along, by name: for such a call no other file is read, since the agent
# may not be allowed to read it.
brought: ContextVar[Mapping[str, bytes] | None] = ContextVar("brought", default=None)


def read_given(path: str, limit: int = MAX_DOCUMENT) -> bytes | None:
    """A file that the caller of a verb named, or for `-` what it has on standard input; links are followed."""
    if (documents := brought.get()) is not None:
        return documents.get(path)
    if path == "-":
        import sys

        return sys.stdin.buffer.read(limit + 1)
    return read_file(os.path.realpath(path), limit)


def read_named(path: str, what: str, otherwise: str) -> bytes:
    """Read a file that a person named; links are followed, since the person chose them. Raises if it can't be read."""
    if brought.get() is not None:
        if (raw := read_given(path)) is not None:
            return raw
        raise NotFound(f"There is no file {path}.", otherwise)
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder.", f"Name a {what} in it.")
    raw = read_file(os.path.realpath(path), limit=MAX_PLAN)
    if raw is not None:
        return raw
    if os.path.exists(path):
        raise BadInput(f"{path} is no regular file, or may not be read.", f"Name a {what}, or use --stdin.")
    raise NotFound(f"There is no file {path}.", otherwise)


def open_to_read(path: str, dir_fd: int | None = None) -> int:
    """Open without waiting for the other end of a pipe; retries a file that is briefly leased (edits.py)."""
    for _ in range(200):
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir_fd)
        except BlockingIOError:
            time.sleep(0.001)
    raise BlockingIOError(11, "Resource temporarily unavailable", path)


def is_own(path: str) -> bool:
    """Whether a file or folder belongs to this user; to root, also what belongs to the user who called sudo."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return False
    us = os.geteuid()
    return owner == us or (us == 0 and str(owner) == os.environ.get("SUDO_UID"))


def random_text(count: int) -> str:
    return "".join(["0123456789abcdefghijklmnopqrstuvwxyz"[byte % 36] for byte in os.urandom(count)])


def size_of(path: str) -> int:
    """The size of a file; 0 if it doesn't exist."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def names_in(folder: str) -> list[str]:
    """The names in a folder; empty if it doesn't exist."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


# locks


class Lock:
    """An exclusive flock on a file; waits for at most PATIENCE, never breaks a lock.

    A file that is only a lock is signed with our pid, so that an error can name the holder.
    """

    def __init__(self, path: str, what: str, patience: float = LOCK_PATIENCE, *, signed: bool = True) -> None:
        self.path, self.what, self.patience, self.signed = path, what, patience, signed
        self.fd, self.inode, self.size = -1, 0, 0  # the size at the time of locking

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
                    _write_at(fd, b"%-10d\n" % os.getpid(), 0)
                self.fd, self.inode, self.size = fd, here.st_ino, here.st_size
                return True
        except (BlockingIOError, FileNotFoundError):
            pass  # held, or the folder was removed in between: try again
        os.close(fd)
        return False

    def sign_namespace(self) -> None:
        """Write our pid namespace below our pid, for `has_live_holder`; only where the file is nothing but a lock."""
        _write_at(self.fd, b"%-10s\n" % pid_namespace().encode("ascii"), 11)

    def __exit__(self, *_: object) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _write_at(fd: int, raw: bytes, offset: int) -> None:
    """Sign a lock; a full disk must not prevent locking."""
    try:
        os.pwrite(fd, raw, offset)
    except OSError:
        return


def is_held(path: str) -> bool:
    """Whether a process holds this lock now; the kernel releases it when the process dies."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise storage_failed(error, "Cannot look at a lock") from error  # it may be held by a live run
        return False
    try:
        return is_locked(fd)
    finally:
        os.close(fd)


def is_locked(fd: int) -> bool:
    """Whether another process holds a lock on this open file; two that ask at once don't disturb each other."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def has_reader(path: str) -> bool:
    """Whether a process has this FIFO open for reading; the kernel closes it when the process dies.

    It is opened for writing, so that looking at it doesn't add a reader. A run of an older version has a lock on a file
    instead.
    """
    try:
        fd = _open_to_write(path)
    except OSError as error:
        if error.errno in _NO_READER:
            return False
        raise storage_failed(error, "Cannot see whether a run is alive") from error  # it may well be
    try:
        mode = os.fstat(fd).st_mode
        return stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and is_locked(fd))
    finally:
        os.close(fd)


def _open_to_write(path: str) -> int:
    """Open a FIFO if it has a reader; a permission that its agent took from us is restored first."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except PermissionError:
        found = os.lstat(path)
        if found.st_uid != os.geteuid() or not stat.S_ISFIFO(found.st_mode):
            raise
        os.chmod(path, 0o200)
        return os.open(path, flags)


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
    return _signature(path)[0]


def has_live_holder(path: str) -> bool:
    """Whether a signed lock is held by the process that took it.

    A killed one may be survived for a moment by a child that it was starting, which has the lock until it executes its
    program. A holder in another pid namespace cannot be seen, so it counts as alive.
    """
    if not is_held(path):
        return False
    pid, namespace = _signature(path)
    return pid is None or namespace != pid_namespace() or start_time(pid) is not None


def _signature(path: str) -> tuple[int | None, str]:
    """The pid that is written into a lock file, and its pid namespace."""
    try:
        with open(path, "rb") as file:
            pid, *namespace = file.read(40).decode("ascii", "replace").split()
        return int(pid), namespace[0] if namespace else ""
    except (OSError, ValueError):
        return None, ""


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


class _Settings:
    """The attributes that the C scanner reads from a JSONDecoder."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 -- the scanner asks for this attribute; it is never written


def _scanner() -> Scan:
    try:
        from _json import make_scanner
    except ImportError:  # another Python than CPython: take the slow road
        from json import JSONDecoder

        return JSONDecoder(strict=False).raw_decode
    scan: Scan = make_scanner(_Settings)  # type: ignore[arg-type] # it only reads these attributes
    return scan


_scan = _scanner()


def load_line(line: str) -> Any:
    """Parse one line; raises ValueError for anything that is not exactly one JSON value."""
    text = line.strip()
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # Python 3.11 finds no exception to raise as long as `json` is not imported
        raise ValueError(f"not JSON: {text[:60]!r}") from None
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    if end != len(text):
        raise ValueError(f"more than one JSON value: {text[end : end + 60]!r}")
    return value


def dump_line(value: object) -> str:
    """One line without spaces."""
    return _encode(value)


def dump_spaced(value: object) -> str:
    """One line as `json` writes it, with spaces."""
    return _encoder(", ", ": ")(value)


def _encoder(comma: str, colon: str) -> Callable[[object], str]:
    try:
        from _json import encode_basestring, make_encoder
    except ImportError:  # another Python than CPython: take the slow road
        from json import JSONEncoder

        return JSONEncoder(ensure_ascii=False, separators=(comma, colon)).encode
    parts = make_encoder(None, _refuse, encode_basestring, None, colon, comma, False, False, True)
    return lambda value: "".join(parts(value, 0))


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no word in JSON")


_encode = _encoder(",", ":")
