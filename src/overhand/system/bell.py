"""Bells: a waiting process makes a FIFO beside the file it waits for, and the writer finds it by name and rings it."""

from __future__ import annotations

import errno
import os

from overhand.system.files import random_text, remove


def listen(path: str) -> int:
    """Make a bell of this name and return the descriptor that becomes readable when it rings.

    The FIFO gets its name only after it has a reader: `ring` removes bells without one.
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
    """Make a bell of our own for this question; returns its path and the descriptor that becomes readable."""
    path = f"{ipc}/.{stem}-{os.getpid()}-{random_text(4)}.bell"
    return path, listen(path)


def hung(ipc: str) -> list[str]:
    """The names of all bells in this folder."""
    try:
        return [name for name in os.listdir(ipc) if name.endswith(".bell")]
    except FileNotFoundError:
        return []


def ring(ipc: str, stem: str) -> None:
    """Write one byte to each process that waits for this answer; none waiting is no error."""
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
            continue  # the reader has just left, or its pipe is full of bytes already
        finally:
            os.close(fd)
