"""Waiting without polling: a FIFO beside the log that its writers ring; a slow look stands behind it."""

from __future__ import annotations

import fcntl
import os
import select
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from overhand.system import bell as bells
from overhand.system.files import random_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record.store import Store

_SLOW = 1.0


class Bell:
    """Rings when something is appended to one of these tasks' logs."""

    def __init__(self, store: Store, task_ids: list[str]) -> None:
        self._paths: list[str] = []
        self._fds: list[int] = []
        for task_id in task_ids:
            folder = f"{store.folder(task_id)}/.waiters"
            path = f"{folder}/{os.getpid()}-{random_text(4)}"
            try:
                os.makedirs(folder, exist_ok=True)
                self._fds.append(bells.listen(path))
                self._paths.append(path)
            except OSError:
                continue  # a folder we cannot write to is looked at slowly

    def wait(self, seconds: float) -> None:
        """Until it rings, at most this long."""
        slow = _SLOW if self._fds else 0.1
        ready, _, _ = select.select(self._fds, [], [], max(0.0, min(seconds, slow)))
        for fd in ready:
            os.read(fd, 4096)

    def close(self) -> None:
        """Take the FIFOs away."""
        for fd in self._fds:
            os.close(fd)
        for path in self._paths:
            try:
                os.unlink(path)
            except OSError:
                continue  # a writer that found nobody reading took it away
        self._fds, self._paths = [], []


@contextmanager
def bell(store: Store, task_ids: list[str]) -> Iterator[Bell]:
    """A bell that is taken down again."""
    ringing = Bell(store, task_ids)
    try:
        yield ringing
    finally:
        ringing.close()


@contextmanager
def without_slot(store: Store, task_id: str | None, run_id: str | None) -> Iterator[None]:
    """While a run waits for a task it delegated it holds no slot; the kernel ends that if we die."""
    if task_id is None or run_id is None:
        yield
        return
    folder = f"{store.run_folder(task_id, run_id)}/waiting"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{os.getpid()}-{random_text(4)}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.unlink(path)
        os.close(fd)


def deadline(timeout: float | None) -> float:
    """A point on the monotonic clock; never, for None."""
    return float("inf") if timeout is None else time.monotonic() + timeout
