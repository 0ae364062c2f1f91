"""Which environment each task runs in: the kept one of the verb that queued it, else that of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.record import drop_environment, kept_environment, tasks_with_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from overhand.record import Store, Task


class Environments:
    """By task; the supervisor's own is for tasks of which nothing is known."""

    def __init__(self, store: Store, own: Mapping[str, str]) -> None:
        self._store = store
        self.latest = own  # of the last verb that sent one
        self._known: dict[str, Mapping[str, str]] = {}

    def of(self, task_id: str) -> Mapping[str, str]:
        return self._known.get(task_id, self.latest)

    def find(self, task: Task) -> None:
        """Look for the environment of a task, once."""
        if task.id in self._known:
            return
        if (kept := kept_environment(self._store, task.id)) is not None:
            self._known[task.id] = self._shared(kept)
        elif task.node and task.parent:
            self._known[task.id] = self._of_plan(task.parent.task)

    def _of_plan(self, plan_id: str) -> Mapping[str, str]:
        if plan_id not in self._known and (kept := kept_environment(self._store, plan_id)) is not None:
            return self._shared(kept)
        return self.of(plan_id)

    def sent(self, task_id: str, env: Mapping[str, str] | None) -> None:
        """A verb handed the task over: it has kept an environment anew, or the one that it sent counts."""
        if env is not None and env != self.latest:
            self.latest = env
        if (kept := kept_environment(self._store, task_id)) is not None:
            self._known[task_id] = self._shared(kept)
        elif env is not None:
            self._known[task_id] = self.latest

    def _shared(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Usually the same as the last one: stored once."""
        return self.latest if env == self.latest else env

    def share(self, task_id: str, other: str) -> None:
        """The task runs in the environment of another one."""
        if other in self._known:
            self._known[task_id] = self._known[other]

    def forget(self, task: Task | str) -> None:
        """The supervisor has nothing more to do for it; after a verdict, or without a task, nothing is kept."""
        task_id = task if isinstance(task, str) else task.id
        known = self._known.pop(task_id, None)
        if not isinstance(task, str) and task.status is None:
            return  # prepared, or about to be queued by another process
        if known is not None and kept_environment(self._store, task_id) == known:  # else it was kept anew meanwhile
            drop_environment(self._store, task_id)

    def sweep(self, tasks: Iterable[Task]) -> None:
        """Drop what a killed supervisor kept for tasks that are over by now."""
        over = {task.id for task in tasks if task.status is not None and not task.is_open}
        there = {task.id for task in tasks}
        for task_id in tasks_with_environment(self._store):
            if task_id in over or task_id not in there:
                drop_environment(self._store, task_id)
