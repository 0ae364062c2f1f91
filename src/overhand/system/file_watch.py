"""Wait until a file meets a condition, however it is written."""

from __future__ import annotations

import os
import select
import time

from overhand.errors import NotFound
from overhand.system.files import read_file
from overhand.system.inotify import CREATE, MODIFY, MOVED_TO, Inotify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Seen = TypeVar("Seen")

_SLOWLY = 1.0  # seconds between polls: alone without inotify, as a safety net with it


def until(
    path: str, look: Callable[[bytes], Seen | None], timeout: float | None, limit: int
) -> tuple[bytes, Seen] | None:
    """The file's bytes and the first non-None result of `look` for them; None on timeout."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise NotFound(f"There is no folder {folder}.", "Name a file in a folder that exists.")
    bell = Inotify()  # before the first read, so that no change in between is missed
    watched = bell.add(folder, CREATE | MOVED_TO | MODIFY) is not None
    waiting = select.poll()
    if watched:
        waiting.register(bell.fd, select.POLLIN)
    deadline = None if timeout is None else time.monotonic() + timeout
    last: object = ()
    try:
        while True:
            now = _stamp(path)
            if now != last:
                last = now
                raw = read_file(path, limit)
                seen = look(raw) if raw else None
                if raw and seen is not None:
                    return raw, seen
            left = _SLOWLY if deadline is None else min(_SLOWLY, deadline - time.monotonic())
            if left <= 0:
                return None
            if waiting.poll(left * 1000):
                bell.read()
                last = ()  # two changes within one clock tick look alike
    finally:
        if bell.fd >= 0:
            os.close(bell.fd)


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns, found.st_ctime_ns
