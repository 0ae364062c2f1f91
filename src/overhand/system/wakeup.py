"""Waiting without polling: for a process, at a FIFO that it writes to; for a file, by inotify.

A process with news finds the FIFO beside what is waited for, by its name. A slow poll covers for a process that is
killed before it rings, and for a system without inotify.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

from overhand.errors import NotFound
from overhand.system.files import is_there, names_in, random_text, read_file, remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Seen = TypeVar("Seen")

_SUFFIX = ".bell"
IN_CREATE, IN_DELETE, IN_MOVED_TO, IN_MODIFY = 0x100, 0x200, 0x80, 0x2
IN_MOVED_FROM, IN_ATTRIB = 0x40, 0x4
NEWS = IN_CREATE | IN_DELETE | IN_MOVED_TO
IN_ISDIR, IN_ONLYDIR, IN_DONT_FOLLOW = 0x40000000, 0x1000000, 0x2000000
IN_IGNORED = 0x8000  # no longer watched
_OVERFLOW = 0x4000
_SLOWLY = 1.0  # seconds between polls: alone without inotify, as a safety net with it


class Bell:
    """FIFOs of our own that other processes ring; `wait` returns when one rings, or after `slow` seconds."""

    def __init__(self, slow: float = 1.0) -> None:
        self.slow = slow
        self._hung: dict[int, tuple[Callable[[str], object], str]] = {}  # by descriptor, how to remove it

    def hang(
        self, folder: str, prefix: str = "", *, dir_fd: int | None = None, remove: Callable[[str], object] | None = None
    ) -> int:
        """One more, in this folder; returns the descriptor that can be read once it rings.

        It gets its name when it has a reader: `ring` removes those without one. A folder that is relative to `dir_fd`
        comes with the function that removes a name from it.
        """
        name = f"{prefix}{os.getpid()}-{random_text(4)}{_SUFFIX}"
        unread = f"{folder}/.{name}.new"
        os.mkfifo(unread, 0o600, dir_fd=dir_fd)
        fd = os.open(unread, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=dir_fd)
        try:
            _require_fifo(fd)
            os.rename(unread, f"{folder}/{name}", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        except OSError:
            os.close(fd)
            raise
        self._hung[fd] = (remove_file, f"{folder}/{name}") if remove is None else (remove, name)
        return fd

    def wait(self, seconds: float, cancelled: int = -1) -> bool:
        """Until it rings, at most this long; False once `cancelled` can be read."""
        import select

        slow = self.slow if self._hung else 0.1
        others = [cancelled] if cancelled >= 0 else []
        ready, _, _ = select.select([*self._hung, *others], [], [], max(0.0, min(seconds, slow)))
        for fd in ready:
            if fd != cancelled:
                os.read(fd, 4096)
        return cancelled not in ready

    def close(self) -> None:
        for fd, (remove, name) in self._hung.items():
            os.close(fd)
            remove(name)
        self._hung = {}

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hung_bells(folder: str, prefix: str = "", *, dir_fd: int | None = None) -> list[str]:
    """The names of all bells in a folder that begin like this; with `dir_fd`, in that one."""
    if dir_fd is None and not is_there(folder):  # mostly nothing waits
        return []
    names = names_in(folder) if dir_fd is None else os.listdir(dir_fd)
    return [name for name in names if name.endswith(_SUFFIX) and name.startswith(prefix)]


def ring_bells(folder: str, prefix: str = "", *, dir_fd: int | None = None) -> None:
    """Wake every process that waits at one of these bells; what is no FIFO is left alone."""
    for name in hung_bells(folder, prefix, dir_fd=dir_fd):
        path = f"{folder}/{name}"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=dir_fd)
        except OSError as error:
            if error.errno == errno.ENXIO:
                remove_file(path, dir_fd=dir_fd)  # its reader is gone
            continue
        try:
            _require_fifo(fd)
            os.write(fd, b"\n")
        except OSError:
            continue  # no FIFO; or the reader left just now, or is full: it has been woken already
        finally:
            os.close(fd)


def _require_fifo(fd: int) -> None:
    """An agent may put a file that it wants changed in the place of a FIFO."""
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "Not a FIFO")


def deadline(timeout: float | None) -> float:
    """A point on the monotonic clock; never, for None."""
    return float("inf") if timeout is None else time.monotonic() + timeout


class Inotify:
    """Watches of files and folders, with one descriptor: -1 where the kernel has no inotify, or no instance left."""

    def __init__(self) -> None:
        self.fd = -1
        if sys.platform == "linux":
            import ctypes

            self._libc = ctypes.CDLL(None, use_errno=True)
            self.fd = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, path: str, mask: int = NEWS) -> int | None:
        """Watch a folder or file; None if that is impossible."""
        if self.fd < 0:
            return None
        number = int(self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask))
        return number if number >= 0 else None

    def remove(self, number: int) -> None:
        if self.fd >= 0:
            self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> set[int] | None:
        """The watches with events; None if the kernel's queue overflowed and every watch must be checked."""
        events = self.events()
        return None if events is None else {number for number, mask, _ in events if not mask & IN_IGNORED}

    def events(self) -> list[tuple[int, int, bytes]] | None:
        """Every event in order: watch, mask and file name; None if the kernel's queue overflowed."""
        import struct

        head = struct.Struct("iIII")
        found: list[tuple[int, int, bytes]] = []
        while True:
            try:
                raw = os.read(self.fd, 65536)
            except BlockingIOError:
                return found
            at = 0
            while at < len(raw):
                number, mask, _, length = head.unpack_from(raw, at)
                name = raw[at + head.size : at + head.size + length].rstrip(b"\0")
                at += head.size + length
                if mask & _OVERFLOW:
                    return None
                found.append((number, mask, name))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def wait_for_file(
    path: str, look: Callable[[bytes], Seen | None], timeout: float | None, limit: int
) -> tuple[bytes, Seen] | None:
    """The file's bytes and the first non-None result of `look` for them; None on timeout."""
    import select

    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise NotFound(f"There is no folder {folder}.", "Name a file in a folder that exists.")
    news = Inotify()  # before the first read, so that no change in between is missed
    watched = news.add(folder, IN_CREATE | IN_MOVED_TO | IN_MODIFY) is not None
    waiting = select.poll()
    if watched:
        waiting.register(news.fd, select.POLLIN)
    end = deadline(timeout)
    last: object = ()
    try:
        while True:
            if (now := _stamp(path)) != last:
                last = now
                raw = read_file(path, limit)
                seen = look(raw) if raw else None
                if raw and seen is not None:
                    return raw, seen
            left = min(_SLOWLY, end - time.monotonic())
            if left <= 0:
                return None
            if waiting.poll(left * 1000):
                news.read()
                last = ()  # two changes within one clock tick look alike
    finally:
        news.close()


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns, found.st_ctime_ns
