"""Bells of those who wait: a FIFO beside what is waited for, which whoever has news finds by its name."""

from __future__ import annotations

import errno
import os

from overhand.system.files import random_text, remove


def listen(path: str) -> int:
    """A bell of this name, and what can be read once it rings.

    It gets its name when somebody listens: a bell to which nobody does is taken away by whoever rings it.
    """
    unheard = f"{os.path.dirname(path)}/.{os.path.basename(path)}.new"
    os.mkfifo(unheard, 0o600)
    fd = os.open(unheard, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.rename(unheard, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def hang(ipc: str, stem: str) -> tuple[str, int]:
    """A bell of our own for this question: its path, and what can be read once it rings."""
    path = f"{ipc}/.{stem}-{os.getpid()}-{random_text(4)}.bell"
    return path, listen(path)


def hung(ipc: str) -> list[str]:
    """The names of all of them."""
    try:
        return [name for name in os.listdir(ipc) if name.endswith(".bell")]
    except FileNotFoundError:
        return []


def ring(ipc: str, stem: str) -> None:
    """One byte to each who waits for this answer; nobody there is no error."""
    for name in hung(ipc):
        if not name.startswith(f".{stem}-"):
            continue
        try:
            fd = os.open(f"{ipc}/{name}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno == errno.ENXIO:
                remove(f"{ipc}/{name}")  # its reader is gone
            continue
        try:
            os.write(fd, b"\n")
        except OSError:
            continue  # the reader left just now, or was rung for often enough
        finally:
            os.close(fd)
