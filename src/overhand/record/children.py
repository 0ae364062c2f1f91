"""Which tasks a run delegated: the first line of a log names it and never changes, so it is read once."""

from __future__ import annotations

from overhand.record import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record.store import Store


class Children:
    """By task, the run that delegated it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parents: dict[str, str] = {}

    def of(self, run_id: str) -> list[str]:
        """The tasks that this run delegated, and that are there now."""
        there = list(self._store.ids())
        for task_id in there:
            if task_id not in self._parents:
                self._read(task_id)
        return [task_id for task_id in there if self._parents.get(task_id) == run_id]

    def _read(self, task_id: str) -> None:
        raw = log.raw(self._store.folder(task_id))[0]
        for event in log.parse(raw[: raw.find(b"\n") + 1]):  # nothing, as long as it is being made
            self._parents[task_id] = str((event.get("parent") or {}).get("run") or "")
