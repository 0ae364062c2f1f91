"""Waiting without polling: a FIFO beside what is waited for; a process with news finds it by its name and writes to it.

A slow poll covers for a process that is killed before it rings.
"""

from __future__ import annotations

import errno
import os
import time

from overhand.system.files import is_there, names_in, random_text, remove_file

_SUFFIX = ".bell"


class Bell:
    """FIFOs of our own that other processes ring; `wait` returns when one rings, or after `slow` seconds."""

    def __init__(self, slow: float = 1.0) -> None:
        self.slow = slow
        self._paths: dict[int, str] = {}

    def hang(self, folder: str, prefix: str = "") -> int:
        """One more, in this folder; returns the descriptor that can be read once it rings.

        It gets its name when it has a reader: `ring` removes those without one.
        """
        name = f"{prefix}{os.getpid()}-{random_text(4)}{_SUFFIX}"
        unread = f"{folder}/.{name}.new"
        os.mkfifo(unread, 0o600)
        fd = os.open(unread, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.rename(unread, f"{folder}/{name}")
        except OSError:
            os.close(fd)
            raise
        self._paths[fd] = f"{folder}/{name}"
        return fd

    def wait(self, seconds: float, cancelled: int = -1) -> bool:
        """Until it rings, at most this long; False once `cancelled` can be read."""
        import select

        slow = self.slow if self._paths else 0.1
        others = [cancelled] if cancelled >= 0 else []
        ready, _, _ = select.select([*self._paths, *others], [], [], max(0.0, min(seconds, slow)))
        for fd in ready:
            if fd != cancelled:
                os.read(fd, 4096)
        return cancelled not in ready

    def close(self) -> None:
        for fd, path in self._paths.items():
            os.close(fd)
            remove_file(path)
        self._paths = {}

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hung_bells(folder: str, prefix: str = "") -> list[str]:
    """The names of all bells in a folder that begin like this."""
    names = names_in(folder) if is_there(folder) else []  # mostly nothing waits
    return [name for name in names if name.endswith(_SUFFIX) and name.startswith(prefix)]


def ring_bells(folder: str, prefix: str = "") -> None:
    """Wake every process that waits at one of these bells."""
    for name in hung_bells(folder, prefix):
        try:
            fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno == errno.ENXIO:
                remove_file(f"{folder}/{name}")  # its reader is gone
            continue
        try:
            os.write(fd, b"\n")
        except OSError:
            continue  # the reader left just now, or is full: it has been woken already
        finally:
            os.close(fd)


def deadline(timeout: float | None) -> float:
    """A point on the monotonic clock; never, for None."""
    return float("inf") if timeout is None else time.monotonic() + timeout
