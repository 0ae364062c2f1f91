"""Bells of those who wait for an answer: a FIFO beside the question, which whoever answers finds by its name."""

from __future__ import annotations

import errno
import os

from overhand.files import random_text, remove


def hang(ipc: str, stem: str) -> tuple[str, int]:
    """A bell of our own for this question: its path, and what can be read once it rings.

    It gets its name when somebody listens: a bell to which nobody does is taken away by whoever rings it.
    """
    path = f"{ipc}/.{stem}-{os.getpid()}-{random_text(4)}"
    os.mkfifo(path, 0o600)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.rename(path, f"{path}.bell")
    except OSError:
        os.close(fd)
        raise
    return f"{path}.bell", fd


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
