"""What takes long, beside the supervisor's loop: at most one job per task, in a few threads."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor


@dataclass(slots=True)
class Jobs:
    """Jobs under way, and those that are done and not yet taken note of."""

    pool: ThreadPoolExecutor
    ring: Callable[[], None]  # wakes the loop, from any thread
    busy: set[str] = field(default_factory=set)
    _done: deque[tuple[str, BaseException | None]] = field(default_factory=deque)

    def start(self, task_id: str, do: Callable[[], object]) -> None:
        """Do something for a task, unless something is being done for it."""
        if task_id in self.busy:
            return
        self.busy.add(task_id)

        def whole() -> None:
            error: BaseException | None = None
            try:
                do()
            except BaseException as caught:  # noqa: BLE001 -- the loop tells of it; one task must not end the others
                error = caught
            self._done.append((task_id, error))
            self.ring()

        self.pool.submit(whole)

    def finished(self) -> Iterator[tuple[str, BaseException | None]]:
        """Tasks whose job is done, with what went wrong."""
        while self._done:
            task_id, error = self._done.popleft()
            self.busy.discard(task_id)
            yield task_id, error
