"""What the supervisor's objects share: a mailbox, and jobs for slow work.

Messages are small frozen values that the loop delivers. A job runs outside the loop in one of a few threads, at most
one per task.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from overhand.record import drop_environment, kept_environment, tasks_with_environment

if TYPE_CHECKING:
    import select
    from collections.abc import Callable, Iterator

    from overhand.policy import Actor, Config
    from overhand.record import Store

    T = TypeVar("T")
    from collections.abc import Iterable, Mapping

    from overhand.record import Task

_FIRST_PAUSE, _MOST_PAUSE = 1.0, 30.0  # seconds between two tries on a disk that stays full


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What the loop gives to each of the supervisor's objects."""

    store: Store
    poll: select.poll
    jobs: Jobs
    mail: Mailbox
    actor: Callable[[str], Actor]  # for a job of this task
    config: Callable[[], Config]  # the current settings
    say: Callable[[str], None]  # writes a line to the supervisor's log


@dataclass(frozen=True, slots=True)
class Changed:
    """A task's log may have grown: read it again and do its next step."""

    task_id: str
    env_of: str = ""  # it runs in the environment of this task


@dataclass(frozen=True, slots=True)
class RunOver:
    """A run seems to be over: find out how it ended, and judge it."""

    task_id: str


@dataclass(frozen=True, slots=True)
class Handed:
    """Tasks that a call from inside a run hands over; each has its environment kept."""

    task_ids: tuple[str, ...]


Message = Changed | RunOver | Handed


class Mailbox:
    """Messages in the order in which they were posted; any thread may post, the loop takes them."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._messages: deque[Message] = deque()
        self._wake = wake  # ends the loop's wait, from any thread

    def post(self, message: Message) -> None:
        self._messages.append(message)
        self._wake()

    def take(self) -> Iterator[Message]:
        """Every message, also those that are posted while the others are delivered."""
        while self._messages:
            yield self._messages.popleft()

    @property
    def is_empty(self) -> bool:
        return not self._messages


class Jobs:
    """Jobs under way and those that are done; what follows from a job happens on the loop's thread."""

    def __init__(self, submit: Callable[[Callable[[], None]], object], wake: Callable[[], None]) -> None:
        """`submit` has a function called in another thread, and `wake` ends the loop's wait."""
        self._submit, self._wake = submit, wake
        self._busy: set[str] = set()
        self._done: deque[tuple[str, BaseException | None, Callable[[], None] | None]] = deque()
        self._retries: dict[str, float] = {}
        self._pauses: dict[str, float] = {}  # by task, how long its last retry was put off

    def is_busy(self, task_id: str) -> bool:
        return task_id in self._busy

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing is to be tried again."""
        return not (self._busy or self._done or self._retries)

    def run(self, task_id: str, work: Callable[[], T], then: Callable[[T], None] | None = None) -> bool:
        """Run `work` for a task and pass its result to `then`; False if another job of this task is under way.

        Work that belongs to no task has an empty id.
        """
        if task_id in self._busy:
            return False
        if task_id:
            self._busy.add(task_id)

        def whole() -> None:
            error, follow = None, None
            try:
                found = work()
                follow = partial(then, found) if then is not None else None
            except BaseException as caught:  # noqa: BLE001 -- the loop reports it; one task must not end the others
                error = caught
            self._done.append((task_id, error, follow))
            self._wake()

        self._submit(whole)
        return True

    def finished(self) -> list[tuple[str, BaseException | None]]:
        """Take the finished jobs, call their `then` on this thread, and return each task with its error, if any."""
        found = []
        while self._done:
            task_id, error, follow = self._done.popleft()
            self._busy.discard(task_id)
            if error is None:
                self._pauses.pop(task_id, None)
            if follow is not None:
                follow()
            found.append((task_id, error))
        return found

    def retry(self, task_id: str, at: float) -> None:
        """Look at the task again at this time of the monotonic clock."""
        self._retries[task_id] = at

    def retry_later(self, task_id: str, now: float) -> None:
        """Look at a task again for which nothing could be written or read: soon, then less and less often."""
        self._pauses[task_id] = min(2 * self._pauses.get(task_id, _FIRST_PAUSE / 2), _MOST_PAUSE)
        self.retry(task_id, now + self._pauses[task_id])

    def forget(self, task_id: str) -> None:
        self._retries.pop(task_id, None)

    def due(self, now: float) -> list[str]:
        """Tasks to retry now; each is returned once."""
        found = [task_id for task_id, at in self._retries.items() if at <= now]
        for task_id in found:
            del self._retries[task_id]
        return found


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
