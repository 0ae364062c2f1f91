"""Folders that wake the supervisor when something appears in them; Linux only, elsewhere it polls."""

from __future__ import annotations

import os
import select
import struct
import sys
import time

from overhand.errors import NotFound
from overhand.system.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Seen = TypeVar("Seen")

IN_CREATE, IN_DELETE, IN_MOVED_TO, IN_MODIFY = 0x100, 0x200, 0x80, 0x2
IN_MOVED_FROM, IN_ATTRIB = 0x40, 0x4
NEWS = IN_CREATE | IN_DELETE | IN_MOVED_TO
IN_ISDIR, IN_ONLYDIR, IN_DONT_FOLLOW = 0x40000000, 0x1000000, 0x2000000
IN_IGNORED = 0x8000  # no longer watched
_OVERFLOW = 0x4000
_HEAD = struct.Struct("iIII")


class Inotify:
    """One descriptor for all watches; `fd` is -1 where the kernel has no inotify, or no instance left."""

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
        found: list[tuple[int, int, bytes]] = []
        while True:
            try:
                raw = os.read(self.fd, 65536)
            except BlockingIOError:
                return found
            at = 0
            while at < len(raw):
                number, mask, _, length = _HEAD.unpack_from(raw, at)
                name = raw[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                if mask & _OVERFLOW:
                    return None
                found.append((number, mask, name))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


_SLOWLY = 1.0  # seconds between polls: alone without inotify, as a safety net with it


def wait_for_file(
    path: str, look: Callable[[bytes], Seen | None], timeout: float | None, limit: int
) -> tuple[bytes, Seen] | None:
    """The file's bytes and the first non-None result of `look` for them; None on timeout."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise NotFound(f"There is no folder {folder}.", "Name a file in a folder that exists.")
    bell = Inotify()  # before the first read, so that no change in between is missed
    watched = bell.add(folder, IN_CREATE | IN_MOVED_TO | IN_MODIFY) is not None
    waiting = select.poll()
    if watched:
        waiting.register(bell.fd, select.POLLIN)
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    last: object = ()
    try:
        while True:
            if (now := _stamp(path)) != last:
                last = now
                raw = read_file(path, limit)
                seen = look(raw) if raw else None
                if raw and seen is not None:
                    return raw, seen
            left = min(_SLOWLY, deadline - time.monotonic())
            if left <= 0:
                return None
            if waiting.poll(left * 1000):
                bell.read()
                last = ()  # two changes within one clock tick look alike
    finally:
        bell.close()


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns, found.st_ctime_ns
