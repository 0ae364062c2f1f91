"""Plans whose nodes are functions of this process: carried here, by the same rules and in the same files.

This process holds `plan.lock`, so a supervisor leaves the plan alone; if it dies, the next one goes on. Nodes that are
no functions of ours are the supervisor's, and we wait for them.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from overhand.agents import files
from overhand.api import functions as inprocess
from overhand.errors import OverhandError, Refused
from overhand.plans import executor, results
from overhand.plans import task as starting
from overhand.plans.situations import situation
from overhand.record.events import ABSENT, Accepted
from overhand.runs import finish, run
from overhand.supervisor import client
from overhand.system.lock import Lock
from overhand.verbs.reconcile import refresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from overhand.agents import Agent
    from overhand.api.functions import Batch, FunctionAgent
    from overhand.api.pool import Pool
    from overhand.drafts.build import Draft
    from overhand.plans.executor import Carrying
    from overhand.plans.model import Plan
    from overhand.plans.progress import Command, Event
    from overhand.record.task import Task

_SLOW = 1.0  # seconds between looks, should nothing wake us


class Performance:
    """One plan in this process, from its task to its verdict."""

    def __init__(self, batch: Batch, pool: Pool, functions: Mapping[str, FunctionAgent]) -> None:
        self.batch, self.pool, self.functions = batch, pool, functions
        self.store = batch.session.store
        self.outside: dict[str, None] = {}  # nodes' tasks that are the supervisor's
        self.stopped: list[str] = []  # functions' tasks that were asked to stop
        self.ready: list[Callable[[Future[None]], None]] = []  # functions that are to be called
        self.drafted: dict[str, Draft] = {}  # by node: its task as it was made
        self.carried: Carrying
        self.thread = threading.Thread(target=self._keep, name="overhand-plan", daemon=True)

    def find(self, name: str) -> Agent:
        """An agent of this process, or one of the project."""
        ours = self.functions.get(name)
        return ours.agent if ours else files.find(self.store.root, name, self.batch.config)

    def begin(self, plan: Plan, source: str, given: Mapping[str, Any]) -> Task:
        """Make the plan's task and its run, and carry it from now on."""
        options = {**given, "no_start": True}  # nobody else is to begin it
        task = starting.make(self.batch.work, self.batch.who, plan, source, options, self.find)
        self.go_on(task)
        return task

    def go_on(self, task: Task) -> None:
        """A run of a plan that nobody carries."""
        task_id, work = task.id, self.batch.work
        lock = Lock(f"{self.store.folder(task_id)}/{executor.LOCK}", f"Plan {task_id}", patience=0.0)
        with lock:
            with self.store.lock(task_id, work.by) as locked:
                if locked.task.current_run is None and not locked.task.queued:
                    last = locked.task.runs[-1].id if locked.task.runs else None
                    how = {"run": last, "why": "run again"} if last else ABSENT
                    locked.append(Accepted(resume=how), sync=True)
            run_id = starting.begin(work, task_id) or self._begun(task_id)
            self.carried = executor.open_plan(
                work, task_id, run_id, start=self.start, find=self.find, call=self.call, cap=0, lock=lock
            )
        self.carried.before_finish = self.batch.sync
        self.carried.taken = self._call_functions
        self.carried.ground = replace(self.carried.ground, drafted=self.drafted)
        self.thread.start()

    def _begun(self, task_id: str) -> str:
        """A supervisor was called meanwhile and began it: it is carried by whoever holds its lock, which is us."""
        task = self.store.task(task_id)
        current = task.current_run
        if current is None:
            raise Refused(f"Plan {task_id} cannot begin: {task.summary}")
        return current.id

    # nodes

    def start(self, carried: Carrying, commands: Sequence[Command]) -> list[Event]:
        """Functions are called here, everything else is for the supervisor."""
        ours = [c for c in commands if self._agent(c) in self.functions]
        others = [c for c in commands if self._agent(c) not in self.functions]
        found = starting.start(carried, others) if others else []
        fresh = [c for c in ours if c.node not in carried.tasks]
        again = [c for c in ours if c.node in carried.tasks]
        made, refused = starting.new(carried, fresh, start=False)
        self.batch.take_new([(task, self.drafted[c.node]) for c, task in made])
        self.drafted.clear()
        for command in again:
            self._take_again(carried, command)
        wanted = [*((c, s.id) for c, s in made), *((c, carried.tasks[c.node]) for c in again)]
        self.ready += [partial(self._perform, task_id, self._agent(c)) for c, task_id in wanted]
        return [*found, *refused, *(starting.started(c, task_id) for c, task_id in wanted)]

    def _call_functions(self) -> None:
        """Once the plan knows that they have started: before, the two would only fight for the interpreter."""
        ready, self.ready = self.ready, []
        if ready:
            self.batch.at_work(len(ready))
            self.pool.submit(ready)

    def _agent(self, command: Command) -> str:
        return command.facts.get("agent") or self.carried.plan.nodes[command.node].agent

    def _take_again(self, carried: Carrying, command: Command) -> None:
        task = self.store.task(carried.tasks[command.node])
        how: dict[str, Any] = {"why": f"attempt {command.attempt} of its plan", "cause": command.id}
        if command.facts.get("why"):
            how["problem"] = str(command.facts["why"])[:1000]
        if task.runs:
            how["run"] = task.runs[-1].id
        self.batch.take(task, how)

    def _perform(self, task_id: str, agent: str, future: Future[None]) -> None:
        """One function, and what its end means to the plan."""
        try:
            inprocess.perform(self.batch, task_id, self.functions[agent], self.pool, future)
        finally:
            self.batch.at_work(-1)
        known = self.batch.results.pop(task_id, None)
        if known is not None:
            results.remember(self.store, *known)
        self.carried.look(known[0] if known else self.store.task(task_id))
        if self.carried.over:
            self.store.wake_waiters(self.carried.task_id)

    def call(self, task_id: str) -> None:
        """A node's task is new, or is to stop: whoever keeps the plan sees to it."""
        self.outside[task_id] = None
        self.store.wake_waiters(self.carried.task_id)

    # the rest

    def _keep(self) -> None:
        """Until the plan is judged: its timers, its own task, and the nodes that are not ours."""
        try:
            self.carried.go_on()
            while not self.carried.over:
                self._turn()
        except OverhandError as error:
            self.batch.session.tell(f"Plan {self.carried.task_id} is left to the supervisor: {error.message}")
        finally:
            self.carried.close()

    def _turn(self) -> None:
        plan_id = self.carried.task_id
        left = min((at - time.time() for at in list(self.carried.timers.values())), default=_SLOW)
        with self.store.subscribe([plan_id, *self.outside]) as bell:
            self.carried.look_at_plan(self.store.task(plan_id))
            self._see_to(list(self.outside))
            if not self.carried.over:
                bell.wait(max(0.0, min(left, _SLOW)))

    def _see_to(self, tasks: list[str]) -> None:
        """Tasks that are not ours: handed over, looked at, forgotten once they have ended."""
        for task_id in tasks:
            task = self.store.task(task_id)
            current = task.current_run
            if current is not None and current.attached and task.stop:
                run.stop(self.batch.work, task_id, "cancelled", 0.0)
                task = finish.finish(self.batch.work, task_id)
            elif current is None or not current.attached:
                task = refresh(self.batch.session, task)
            self.carried.look(task)
            if situation(task) == "ended":
                self.outside.pop(task_id, None)
            elif task.queued:
                client.hand_over(self.store, [task_id])


def source_of(given: str | os.PathLike[str]) -> tuple[str, bool]:
    """The words of a plan, or the name of its file, and whether it is one."""
    text = os.fspath(given)
    return text, not isinstance(given, str) or ("\n" not in text and os.path.exists(text))
