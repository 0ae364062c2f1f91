"""What takes long, beside the supervisor's loop: at most one job per task, in a few threads."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WAITING = 48  # threads, begun as they are needed: with fewer, stopping five hundred runs takes twice as long


@dataclass(slots=True)
class Jobs:
    """Jobs under way, and those that are done and not yet taken note of."""

    pool: ThreadPoolExecutor
    ring: Callable[[], None]  # wakes the loop, from any thread
    busy: set[str] = field(default_factory=set)
    _waiting: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_WAITING, "waiting"))
    _done: deque[tuple[str, BaseException | None]] = field(default_factory=deque)

    def start(self, task_id: str, do: Callable[[], object], *, waits: bool = False) -> None:
        """Do something for a task, unless something is being done for it; what mostly waits takes nobody's thread."""
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

        (self._waiting if waits else self.pool).submit(whole)

    def finished(self) -> Iterator[tuple[str, BaseException | None]]:
        """Tasks whose job is done, with what went wrong."""
        while self._done:
            task_id, error = self._done.popleft()
            self.busy.discard(task_id)
            yield task_id, error
