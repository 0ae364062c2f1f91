"""The queue: which task starts next, and within which caps; and tasks that appear without a message."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from overhand.agents import QuotaPause, all_pauses, driver_of_task, find_stand_in
from overhand.errors import OverhandError
from overhand.items import retry_not_before
from overhand.questions import has_waiting_process
from overhand.record import record_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.policy import Config
    from overhand.record import Store, Task


@dataclass(frozen=True, slots=True)
class Start:
    """The task's next run starts now."""

    task: Task


@dataclass(frozen=True, slots=True)
class Begin:
    """A plan begins; it takes no slot, its nodes do."""

    task: Task


@dataclass(frozen=True, slots=True)
class Block:
    """The task can never start."""

    task: Task
    why: str


@dataclass(frozen=True, slots=True)
class Pause:
    """The task waits for its provider's limit; another agent takes over where one is named."""

    task: Task
    stand_in: str | None


Decision = Start | Begin | Block | Pause


class Queue:
    """Queued tasks, and the slots that live or starting ones hold."""

    def __init__(self, store: Store, config_for: Callable[[Task], Config]) -> None:
        self._store, self._config_for = store, config_for
        self._queued: dict[str, Task] = {}
        self._holding: dict[str, Task] = {}
        self.resumes = float("inf")  # when the first task that waits for a time may start; seconds since 1970

    # what is queued and what runs

    def offer(self, task: Task) -> None:
        self._holding.pop(task.id, None)
        self._queued[task.id] = task

    def hold(self, task: Task) -> None:
        """The task has a slot, until it is released or queued again."""
        self._holding[task.id] = task

    def withdraw(self, task_id: str) -> None:
        """The task does not start before it is offered again."""
        self._queued.pop(task_id, None)

    def release(self, task_id: str) -> None:
        """The task is neither queued nor at work."""
        self._queued.pop(task_id, None)
        self._holding.pop(task_id, None)

    @property
    def queued(self) -> list[Task]:
        """Queued tasks in the order in which they will start."""
        return sorted(self._queued.values(), key=lambda task: task.queue_place)

    @property
    def running(self) -> list[str]:
        return sorted(self._holding)

    @property
    def is_empty(self) -> bool:
        return not self._queued

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing that is queued starts at a known time."""
        return not (self._holding or (self._queued and self.resumes != float("inf")))

    def delegated_by(self, run_id: str) -> list[Task]:
        """Tasks at work or queued that this run delegated."""
        known = (*self._holding.values(), *self._queued.values())
        return [task for task in known if task.parent and task.parent.run == run_id]

    # what starts

    def starts(self, config: Config, is_busy: Callable[[str], bool], is_held: Callable[[], bool]) -> list[Decision]:
        """Decide which queued tasks start now, the most urgent first, within the caps.

        Pure apart from reading `after` tasks, blocked runs and provider limits. Tasks that can't start keep their
        place. A P0 task may use one slot above the cap, and nothing else starts while it runs.
        """
        self.resumes = float("inf")
        if not self._queued:
            return []
        paused = all_pauses(self._store)
        drivers: dict[str, tuple[str, str | None]] = {}
        holding = {i: task for i, task in self._holding.items() if not waits_for_child(self._store, task)}
        _, replaced = record_times(self._store.home)
        found: list[Decision] = []
        for task in self.queued:
            if is_busy(task.id) or task.stop or (task.queued_at or "") < replaced:
                continue
            decision = self._decide(task, paused, drivers)
            if decision is None and fits(task, holding, config) and not is_held():
                holding[task.id] = self._holding[task.id] = task
                decision = Start(task)
            if decision is None or decision == "wait":
                continue
            if isinstance(decision, Start | Begin):
                del self._queued[task.id]
            found.append(decision)
        return found

    def _decide(
        self, task: Task, paused: Mapping[str, QuotaPause], drivers: dict[str, tuple[str, str | None]]
    ) -> Decision | Literal["wait"] | None:
        """What keeps the task from starting, or lets it start without a slot; None if the caps decide."""
        if (why := waits_for(self._store, task)) is not None:
            return Block(task, why) if why else "wait"
        if task.is_plan:
            return Begin(task)
        if task.requeued and (at := retry_not_before(task)) > time.time():
            self.resumes = min(self.resumes, at)
            return "wait"
        if not paused:
            return None
        if task.agent not in drivers:  # agent files are read once, however many tasks wait
            own = self._config_for(task)
            drivers[task.agent] = driver_of_task(self._store.root, task, own), find_stand_in(self._store, task, own)
        driver, other = drivers[task.agent]
        if (pause := paused.get(driver)) is None:
            return None
        self.resumes = min(self.resumes, pause.until)
        return Pause(task, other)


def fits(task: Task, holding: Mapping[str, Task], config: Config) -> bool:
    """Whether one more run of this agent and kind may start now; a P0 run keeps all others from starting."""
    urgent = task.priority == "P0"
    others = holding.values()
    if not urgent and any(other.priority == "P0" for other in others):
        return False
    if holding and any(one.settings.get("exclusive") for one in (task, *others)):
        return False
    if task.writes_here and any(other.writes_here for other in others):
        return False
    if config.max_parallel and len(holding) >= config.max_parallel + urgent:
        return False
    cap = config.per_agent.get(task.agent, 0)
    if cap and sum(other.agent == task.agent for other in others) >= cap:
        return False
    cap = config.per_kind.get(task.kind or "", 0)
    return not (cap and sum(other.kind == task.kind for other in others) >= cap)


def waits_for(store: Store, task: Task) -> str | None:
    """`--after`: None once that task is judged completed; why this one can never start, or "" while it still may."""
    if not task.after:
        return None
    try:
        status = store.recorded(task.after).status
    except OverhandError:
        status = "failed"
    if status == "completed":
        return None
    return "" if status is None else f"It was to start after {task.after}, which was judged {status}."


def waits_for_child(store: Store, task: Task) -> bool:
    """Whether the run is blocked, or one of its processes waits for a delegated task: then it holds no slot."""
    current = task.current_run
    if current is None or current.waiting is not None:
        return current is not None
    return has_waiting_process(store.run_folders(task.id, current.id).both)


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
