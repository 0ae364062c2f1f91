"""The supervisor's plans: a plan's run lives until it is judged, and any supervisor can execute it.

A plan takes no slot. What it does is a job of its own task.
"""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from overhand.errors import Busy, Damaged, OverhandError, Refused, StorageFailed
from overhand.plans import PLAN_LOCK, NodeStarter, PlanExecutor, abandon_plan
from overhand.supervisor.context import Changed
from overhand.system import is_held

if TYPE_CHECKING:
    from overhand.record import Task
    from overhand.supervisor.context import LoopContext, Mailbox

_TRIES = 5  # of opening a plan, before it is given up
_AGAIN = 5.0  # seconds until a plan that another process executes is checked again


class _Queued(NodeStarter):
    """The nodes of a plan are in the project's queue, and run in the environment of their plan."""

    def __init__(self, plan_id: str, mail: Mailbox) -> None:
        self._plan_id, self._mail = plan_id, mail

    def changed(self, task_id: str) -> None:
        self._mail.post(Changed(task_id, env_of=self._plan_id))


class Plans:
    """The plans that this supervisor executes, by task."""

    def __init__(self, context: LoopContext) -> None:
        self._store, self._jobs, self._mail, self._actor = context.store, context.jobs, context.mail, context.actor
        self._open: dict[str, PlanExecutor] = {}
        self._tries: dict[str, int] = {}  # of plans that could not be opened, how often
        self._seen: dict[str, int] = {}  # by plan: how long its own log was when it was last read
        self._changed: defaultdict[str, list[str]] = defaultdict(list)  # by plan: tasks of nodes to look at

    @property
    def is_idle(self) -> bool:
        return not self._open

    # one plan

    def look(self, plan: Task) -> None:
        """Open a plan that is not judged yet, or process what is new in its log."""
        current = plan.current_run
        if current is None:
            return
        executor = self._open.get(plan.id)
        if executor is None and is_held(f"{self._store.record(plan.id)}/{PLAN_LOCK}"):
            # a Python process executes it itself, with functions that only it has
            self._jobs.retry(plan.id, time.monotonic() + _AGAIN)
            return
        size = self._store.log_size(plan.id)
        if executor is not None:
            is_known = self._seen.get(plan.id) == size and not self._changed[plan.id]
            if executor.run_id == current.id and is_known:
                return
            self._seen[plan.id] = size
        self._execute(plan.id, current.id)

    def _execute(self, task_id: str, run_id: str) -> None:
        executor = self._open.get(task_id)
        if executor is not None and executor.run_id != run_id:
            self.drop(task_id)
            executor = None
        changed = self._changed.get(task_id, ())
        work = partial(self._work, executor, task_id, run_id, tuple(changed))
        if self._jobs.run(task_id, work, partial(self._worked, task_id)):
            self._changed.pop(task_id, None)

    def _work(
        self, executor: PlanExecutor | None, task_id: str, run_id: str, changed: tuple[str, ...]
    ) -> PlanExecutor | None:
        """In a job: None if the plan cannot be executed here."""
        is_new = executor is None
        try:
            if executor is None:
                executor = PlanExecutor.open(self._actor(task_id), task_id, run_id, _Queued(task_id, self._mail))
                executor.resume()
            for child in changed:
                executor.look_up(child)
            executor.plan_changed(self._store.recorded(task_id))
        except BaseException as error:
            if executor is not None and is_new:
                executor.close()
            if executor is None and isinstance(error, Busy):
                return None
            if executor is None and isinstance(error, Refused) and not isinstance(error, StorageFailed):
                # the accepted plan is gone: no process can continue it
                self._give_up(task_id, run_id, f"{error.message} {error.hint}".strip())
                return None
            raise
        return executor

    def _worked(self, task_id: str, executor: PlanExecutor | None) -> None:
        if executor is None:  # another process executes it, or it was given up: that is seen then
            self._jobs.retry(task_id, time.monotonic() + _AGAIN)
            return
        self._tries.pop(task_id, None)
        if task_id not in self._open:
            self._open[task_id] = executor
            self._changed[task_id].extend(executor.live_tasks)  # they may have changed before
        if executor.is_over:
            self.drop(task_id)

    def failed(self, task_id: str, error: BaseException) -> None:
        """Handle a failed job: reopen the plan from disk, or give up one that repeatedly can't be opened."""
        self.drop(task_id)
        try:
            task = self._store.recorded(task_id)
        except OverhandError:
            return
        current = task.current_run
        if (
            current is None
            or not current.is_plan_run
            or (isinstance(error, Busy | StorageFailed) and not isinstance(error, Damaged))
        ):
            return
        self._tries[task_id] = self._tries.get(task_id, 0) + 1
        if self._tries[task_id] >= _TRIES or task.stop:
            self._tries.pop(task_id)
            reason = str(error) if isinstance(error, OverhandError) else f"{type(error).__name__}: {error}"
            self._give_up(task_id, current.id, f"The plan cannot go on: {reason}")

    def _give_up(self, task_id: str, run_id: str, why: str) -> None:
        for changed in abandon_plan(self._actor(task_id), task_id, run_id, why):
            self._mail.post(Changed(changed))

    def drop(self, task_id: str) -> None:
        """Stop executing a plan; its state is on disk."""
        executor = self._open.pop(task_id, None)
        self._seen.pop(task_id, None)
        self._changed.pop(task_id, None)
        if executor is not None:
            executor.close()

    # the tasks of its nodes

    def child_changed(self, child: Task) -> None:
        """Start the plan's job if the node's task that was just read has changed."""
        executor = self._plan_of(child)
        if executor is None:
            return
        if not child.queued:
            executor.held.discard(child.id)
        if executor.is_news(child):
            self._tell(executor, child.id)

    def child_paused(self, child: Task) -> None:
        """Let another node take the place of a task that waits for its provider's limit."""
        executor = self._plan_of(child)
        if executor is not None and child.id not in executor.held:
            executor.held.add(child.id)
            self.child_changed(child)

    def child_gone(self, task_id: str) -> None:
        """Start the plan's job if the removed task was a node's."""
        for executor in list(self._open.values()):
            if task_id in executor.tasks.values():
                self._tell(executor, task_id)

    def _tell(self, executor: PlanExecutor, task_id: str) -> None:
        self._changed[executor.task_id].append(task_id)
        self._execute(executor.task_id, executor.run_id)

    def _plan_of(self, child: Task) -> PlanExecutor | None:
        return self._open.get(child.parent.task) if child.node and child.parent else None

    def works_for(self, run_id: str) -> bool:
        """Whether a plan that this run delegated is doing something, so that the run does not wait for a person."""
        return any(executor.is_working for executor in self._open.values() if executor.delegated_by == run_id)

    # time

    def tick(self) -> None:
        now = time.time()
        for task_id, executor in list(self._open.items()):
            if executor.next_timer <= now and not self._jobs.is_busy(task_id):
                self._execute(task_id, executor.run_id)

    def examine(self) -> None:
        """Check the plans' logs: a process may have written to one and died before it notified us."""
        for task_id in list(self._open):
            if self._store.log_size(task_id) != self._seen.get(task_id):
                self._mail.post(Changed(task_id))

    @property
    def due(self) -> float:
        first = min((executor.next_timer for executor in self._open.values()), default=float("inf"))
        return max(0.0, first - time.time())
