"""Plans whose nodes are functions of this process: executed here, by the same rules and in the same files.

This process holds `plan.lock`, so a supervisor leaves the plan alone; if it dies, the next one goes on. Nodes that are
no functions of ours are the supervisor's, and we wait for them.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from overhand.agents import find_agent
from overhand.api.functions import run_function
from overhand.errors import OverhandError, Refused
from overhand.plans import PLAN_LOCK, NodeStarter, PlanExecutor, begin_plan, make_plan_task, node_situation
from overhand.record import ABSENT, Accepted
from overhand.runs import finish_run, stop_run
from overhand.supervisor import hand_to_supervisor
from overhand.system import Lock
from overhand.verbs import refresh_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from overhand.agents import Agent
    from overhand.api.functions import Batch, FunctionAgent
    from overhand.api.pool import Pool
    from overhand.plans import NodeStart, Plan
    from overhand.record import Task

_SLOW = 1.0  # seconds between checks if nothing wakes the thread


class FunctionNodes(NodeStarter):
    """One plan in this process, from its task to its verdict."""

    def __init__(self, batch: Batch, pool: Pool, functions: Mapping[str, FunctionAgent]) -> None:
        self.batch, self.pool, self.functions = batch, pool, functions
        self.store = batch.session.store
        self.outside: dict[str, None] = {}  # nodes' tasks that the supervisor runs
        self.ready: list[Callable[[Future[None]], None]] = []  # functions that are to be called
        self.executor: PlanExecutor
        self.thread = threading.Thread(target=self._execute, name="overhand-plan", daemon=True)

    def find(self, name: str) -> Agent:
        """An agent of this process, or one of the project."""
        ours = self.functions.get(name)
        return ours.agent if ours else find_agent(self.store.root, name, self.batch.config)

    def begin(self, plan: Plan, source: str, given: Mapping[str, Any]) -> Task:
        """Make the plan's task and its run, and execute it from now on."""
        options = {**given, "no_start": True}  # no other process is to begin it
        task = make_plan_task(self.batch.actor, self.batch.caller, plan, source, options, self.find)
        self.start_run(task)
        return task

    def start_run(self, task: Task) -> None:
        """Start a run of a plan that no process executes."""
        task_id, actor = task.id, self.batch.actor
        lock = Lock(f"{self.store.record(task_id)}/{PLAN_LOCK}", f"Plan {task_id}", patience=0.0)
        with lock:
            with self.store.lock(task_id, actor.by) as locked:
                if locked.task.current_run is None and not locked.task.queued:
                    last = locked.task.runs[-1].id if locked.task.runs else None
                    how = {"run": last, "why": "run again"} if last else ABSENT
                    locked.append(Accepted(resume=how), sync=True)
            run_id = begin_plan(actor, task_id)
            if run_id is None:  # a supervisor began it meanwhile: it is executed here, where its lock is held
                task = self.store.task(task_id)
                if task.current_run is None:
                    raise Refused(f"Plan {task_id} cannot begin: {task.summary}")
                run_id = task.current_run.id
            self.executor = PlanExecutor.open(actor, task_id, run_id, self, cap=0, lock=lock)
        self.thread.start()

    # nodes

    def is_own(self, agent: str) -> bool:
        """Functions are called here, everything else is for the supervisor."""
        return agent in self.functions

    def start(self, nodes: Sequence[NodeStart]) -> None:
        """Functions are called once the plan knows that they have started."""
        self.batch.take_new([(one.task, one.draft) for one in nodes if one.draft is not None])
        for one in nodes:
            if one.draft is None:
                self.batch.take(one.task, one.resume)
        self.ready += [partial(self._perform, one.task.id, one.agent) for one in nodes]

    def events_handled(self) -> None:
        """Call functions now; earlier, both would compete for the interpreter."""
        ready, self.ready = self.ready, []
        if ready:
            self.batch.expect(len(ready))
            self.pool.submit(ready)

    def before_finish(self) -> None:
        self.batch.sync()

    def _perform(self, task_id: str, agent: str, future: Future[None]) -> None:
        """One function, and what its end means to the plan."""
        run_function(self.batch, task_id, self.functions[agent], self.pool, future)
        if known := self.batch.results.pop(task_id, None):
            self.executor.child_changed(*known)
        else:
            self.executor.child_changed(self.store.task(task_id))
        if self.executor.is_over:
            self.store.wake_waiters(self.executor.task_id)

    def changed(self, task_id: str) -> None:
        """A node's task is new, or is to stop: the plan's thread handles it."""
        self.outside[task_id] = None
        self.store.wake_waiters(self.executor.task_id)

    # the plan's thread

    def _execute(self) -> None:
        """Until the plan is judged: its timers, its own task, and the nodes that are not ours."""
        plan_id = self.executor.task_id
        try:
            self.executor.resume()
            while not self.executor.is_over:
                left = self.executor.next_timer - time.time()
                with self.store.subscribe([plan_id, *self.outside]) as bell:
                    self.executor.plan_changed(self.store.task(plan_id))
                    self._follow(list(self.outside))
                    if not self.executor.is_over:
                        bell.wait(max(0.0, min(left, _SLOW)))
        except OverhandError as error:
            self.batch.session.tell(f"Plan {plan_id} is left to the supervisor: {error.message}")
        finally:
            self.executor.close()

    def _follow(self, task_ids: list[str]) -> None:
        """Hand over tasks that the supervisor runs, and drop them once they have ended."""
        for task_id in task_ids:
            task = self.store.task(task_id)
            current = task.current_run
            if current is not None and current.attached and task.stop:
                stop_run(self.batch.actor, task_id, "cancelled", 0.0)
                task = finish_run(self.batch.actor, task_id)
            elif current is None or not current.attached:
                task = refresh_task(self.batch.session, task)
            self.executor.child_changed(task)
            if node_situation(task) == "ended":
                self.outside.pop(task_id, None)
            elif task.queued:
                hand_to_supervisor(self.store, [task_id])
