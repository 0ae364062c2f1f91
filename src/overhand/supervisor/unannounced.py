"""Tasks that appear without a message: the verb that made one was killed before it could hand the task over."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overhand.record import Store

_SETTLED = 1_000_000_000  # nanoseconds: a folder that changed less long ago may change again within one tick


class Unannounced:
    """Compares the tasks on disk with those of the last look; while no task is made, a look is one `stat`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[str] = set()
        self._mark = 0
        self._unfinished = False  # a folder had no log yet: its task is being made

    def look(self) -> list[str]:
        """The tasks that were made since the last look."""
        try:
            mark = os.stat(f"{self._store.home}/tasks").st_mtime_ns
        except OSError:
            return []
        if mark == self._mark and not self._unfinished:
            return []
        self._mark = mark if time.time_ns() - mark > _SETTLED else 0
        there = set(self._store.ids())
        made = {task_id for task_id in there - self._known if self._store.log_size(task_id) > 0}
        self._known = (self._known & there) | made
        self._unfinished = self._known != there
        return sorted(made)
