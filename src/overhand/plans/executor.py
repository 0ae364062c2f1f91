"""Execute a plan: record its events, execute the commands they call for, and follow the tasks of its nodes.

The process that executes a plan holds `plan.lock`, and no other writes `plan.jsonl`. Each event stands there before it
is acted on. After a kill the events go through the same `advance` again, and what was called for and is not confirmed
is done once more, which changes nothing where it was done: a task knows the node and the attempt that it is for.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overhand.errors import NotFound, OverhandError, StorageUnavailable, storage_failed
from overhand.plans import progress, refs, results
from overhand.plans import task as tasks
from overhand.plans.advance import advance_plan, new_plan_state
from overhand.plans.progress import Command, PlanEvent, pending
from overhand.plans.task import NodeTasks
from overhand.questions import Asking, ask_question
from overhand.record import append_lines, cut_torn_tail, log_lines, parse_log
from overhand.runs import NewCheckpoint, create_checkpoint
from overhand.system import Lock, epoch_of
from overhand.words import is_task_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from overhand.plans.model import Plan
    from overhand.plans.task import NodeStarter
    from overhand.policy import Actor
    from overhand.record import Task

EVENTS = "plan.jsonl"
PLAN_LOCK = "plan.lock"
_AHEAD = 4  # nodes that wait in the project's queue, so that the next is there when a slot is free
_WORDS = 1000  # characters of a reason
_YES, _NO = "yes", "no"
_KEPT, _SMALL = 10_000, 2048  # results that are kept in memory, and the bytes that each may have
_NEWS = {  # states of a node to which a situation of its task is news
    "ended": (*progress.AT_WORK, progress.STOPPING),
    "waiting": (progress.STARTING, progress.RUNNING),
    "working": (progress.WAITING,),
}
_STOPPED = {
    "cancelled": "its plan was stopped",
    "won": "another node was first",
    "failed": "another node of its plan failed",
    "timeout": "the time of its plan is over",
    "budget": "the budget of its plan is used up",
}


@dataclass(slots=True)
class PlanExecutor:
    """One plan in the only process that executes it."""

    actor: Actor
    task_id: str
    run_id: str
    plan: Plan
    state: progress.PlanState
    own: Task  # the plan's task when it was opened
    starter: NodeStarter
    lock: Lock
    file: int
    size: int
    cap: int  # nodes at the same time, 0 for as many as there are
    needed: dict[str, list[tuple[str, str]]]  # by node: which node names which field of its data
    node_tasks: NodeTasks = field(init=False)
    found: set[str] = field(default_factory=set)  # nodes with a task whose start is recorded nowhere any more
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)  # by node: how its last attempt ended, and when
    began: str = ""  # the run that the newest PlanStarted is about
    timers: dict[str, float] = field(default_factory=dict)  # when they fire, in seconds since 1970
    held: set[str] = field(default_factory=set)  # tasks of nodes that are queued behind their provider's limit
    is_over: bool = False  # it is judged
    _values: dict[tuple[str, str], results.Value] = field(default_factory=dict)  # by task and hash; mostly read again
    _news: deque[tuple[PlanEvent, ...]] = field(default_factory=deque)
    _turn: Any = field(default_factory=threading.Lock)

    @classmethod
    def open(
        cls,
        actor: Actor,
        task_id: str,
        run_id: str,
        starter: NodeStarter,
        *,
        cap: int | None = None,
        lock: Lock | None = None,
    ) -> PlanExecutor:
        """Take a plan over as it stands; raises Busy while another process executes it."""
        folder = actor.store.record(task_id)
        own = tasks.ensure_started(actor, task_id, run_id)
        plan = tasks.accepted_plan(actor.store, own)
        defaults = tasks.defaults_for(actor, plan, own, run_id, starter)  # what may fail comes before the lock
        if cap is None:  # the supervisor keeps the project's cap; a few nodes more may wait in its queue
            limit = actor.config.max_parallel
            cap = limit + _AHEAD if limit and not plan.max_parallel else 0
        held = Lock(f"{folder}/{PLAN_LOCK}", f"Plan {task_id}", patience=0.0)
        if lock is None:
            held.__enter__()
        else:
            held.fd, lock.fd = lock.fd, -1  # it is ours now
        try:
            file = os.open(
                f"{folder}/{EVENTS}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
            )
        except OSError as error:
            held.__exit__(None, None, None)
            raise storage_failed(error, "Cannot open the plan's events") from error
        executor = cls(
            actor=actor,
            task_id=task_id,
            run_id=run_id,
            plan=plan,
            state=new_plan_state(plan),
            own=own,
            starter=starter,
            lock=held,
            file=file,
            size=cut_torn_tail(file, os.fstat(file).st_size),
            needed=_needed(plan),
            cap=cap,
        )
        executor.node_tasks = NodeTasks(actor, defaults, starter, executor._value)
        try:
            executor._replay(was_executed=bool((lock or held).size))
        except BaseException:
            executor.close()  # the next try must find it free
            raise
        return executor

    def _replay(self, *, was_executed: bool) -> None:
        """Fold the events on disk; where they were lost, the tasks of the nodes tell what happened."""
        for event in filter(None, map(progress.plan_event, parse_log(os.pread(self.file, self.size, 0)))):
            self._apply(event)
        lost = {one.node for one in pending(self.state) if one.what in ("Start", "Stop")} - self.tasks.keys()
        is_gone = not self.began and was_executed
        children = tasks.children(self.actor.store, self.task_id) if lost or is_gone else []
        self.tasks.update({child.node: child.id for child in children if child.node in lost})
        if is_gone:
            known = [child for child in children if child.node in self.plan.nodes]
            now = time.time()
            self.handle(*(PlanEvent("Found", now, one.node, tasks.attempt_of(one), {"task": one.id}) for one in known))

    @property
    def tasks(self) -> dict[str, str]:
        return self.node_tasks.by_node

    @property
    def next_timer(self) -> float:
        """When the first timer fires, in seconds since 1970."""
        return min(list(self.timers.values()), default=float("inf"))

    @property
    def delegated_by(self) -> str | None:
        """The run that delegated this plan."""
        return self.own.parent.run if self.own.parent else None

    @property
    def live_tasks(self) -> list[str]:
        """The tasks of nodes that are at work."""
        return [task_id for node, task_id in self.tasks.items() if self.state.nodes[node].state in progress.LIVE_STATES]

    # events

    def handle(self, *events: PlanEvent) -> None:
        """Record events and do what they call for; a thread that already does so takes them over."""
        if events:
            self._news.append(events)
        while self._news and self._turn.acquire(blocking=False):
            try:
                while self._news:
                    self._handle(list(self._news.popleft()))
                    self.starter.events_handled()
            finally:
                self._turn.release()

    def _handle(self, events: list[PlanEvent]) -> None:
        while events and not self.is_over:
            if not os.fstat(self.file).st_nlink:  # what is written there would be lost
                raise NotFound(f"{EVENTS} of plan {self.task_id} was removed.")
            data = log_lines([progress.as_json(event) for event in events])
            self.size = append_lines(self.file, data, self.size, sync=False)
            events = self._execute([command for event in events for command in self._apply(event)])

    def _apply(self, event: PlanEvent) -> list[Command]:
        if event.what == "PlanStarted":
            self.began = event.facts.get("run", "")
        if is_task_id(event.facts.get("task", "")):
            self.tasks[event.node] = event.facts["task"]
        if event.what == "Found":
            self.found.add(event.node)
        if event.what == "Ended":
            self.ends[event.node] = {**event.facts, "at": event.at}
        return advance_plan(self.plan, self.state, event)

    def _value(self, node: str) -> results.Value:
        return self._value_of(self.tasks[node], self.state.nodes[node].digest)

    def _value_of(self, task_id: str, digest: str) -> results.Value:
        known = self._values.get((task_id, digest))
        if known is None:
            known = results.result_value(self.actor.store, task_id, digest)
            self._keep(task_id, digest, known)
        return known

    def _keep(self, task_id: str, digest: str, value: results.Value) -> None:
        if digest and value.size <= _SMALL:
            if len(self._values) >= _KEPT:
                self._values.clear()
            self._values[task_id, digest] = value

    def resume(self) -> None:
        """Begin its run, or repeat what is not confirmed, and catch up with the tasks of its nodes."""
        if self.cap != self.state.limits.max_parallel:
            self.handle(PlanEvent("LimitsChanged", time.time(), facts={"max_parallel": self.cap}))
        if self.began != self.run_id:
            is_new = not self.found
            at = time.time() if is_new else epoch_of(self.own.runs[-1].created)
            self.handle(PlanEvent("PlanStarted", at, attempt=self.state.run + 1, facts={"run": self.run_id}))
            if is_new:
                return
        else:
            with self._turn:
                events = self._execute(pending(self.state))
            self.handle(*events)
        for node, task_id in list(self.tasks.items()):
            known = self.state.nodes[node]
            if known.state in progress.LIVE_STATES:
                if known.state != progress.STOPPING and self._is_unbegun(task_id, known.attempt):
                    again = Command("Start", node, known.attempt, {"agent": known.agent})
                    tasks.next_attempt(self.actor, task_id, again)
                self.starter.changed(task_id)
                self.look_up(task_id)

    def _is_unbegun(self, task_id: str, attempt: int) -> bool:
        try:
            return tasks.never_started(self.actor.store.recorded(task_id), attempt)
        except NotFound:
            return False

    def look_up(self, task_id: str) -> None:
        """Look at a node's task, if it is still there."""
        try:
            child = self.actor.store.recorded(task_id)
        except NotFound:
            self.handle(*self._lost(task_id))
        else:
            self.child_changed(child)

    def _lost(self, task_id: str) -> list[PlanEvent]:
        """A node's task was removed: it has failed, and is not retried, since its agent may still be at work."""
        facts = {"status": "failed", "why": f"the folder of its task {task_id} is gone", "again": False}
        known = next(self.state.nodes[node] for node, one in self.tasks.items() if one == task_id)
        if known.state not in _NEWS["ended"]:
            return []
        ended, stopped = (PlanEvent(what, time.time(), known.spec.id, known.attempt) for what in ("Ended", "Stopped"))
        return [ended._replace(facts=facts), *([stopped] if known.state == progress.STOPPING else [])]

    def child_changed(self, child: Task, digest: str = "", result: dict[str, Any] | None = None) -> None:
        """A node's task may have ended, wait, or go on; a stop of the plan and the end of its time take precedence.

        A result that was made and judged in this process, given with its hash, is not read again.
        """
        if result and result["data"] is None and not result["checks"] and not result["problems"]:
            self._keep(child.id, digest, results.Value(None, result["summary"], size=len(result["summary"])))
        if child.status not in (None, "completed"):
            self.plan_changed(self.actor.store.recorded(self.task_id))
        self.handle(*self._news_of(child, digest))

    def _news_of(self, child: Task, digest: str = "") -> list[PlanEvent]:
        """The events that a node's task calls for; the hash of its result is looked up if it is not given."""
        now, what = time.time(), self.situation(child)
        if not self.is_news(child):
            return []
        known = self.state.nodes[child.node]
        if what == "ended":
            digest = digest or results.digest_of(self.actor.store, child.id)
            facts = results.ending(self.actor.store, child, digest, self._value_of)
            ended = PlanEvent("Ended", now, child.node, known.attempt, facts)
            stopped = PlanEvent("Stopped", now, child.node, known.attempt, {"tokens": facts["tokens"]})
            return [ended, stopped] if known.state == progress.STOPPING else [ended]
        if what == "waiting":
            return [PlanEvent("Waiting", now, child.node, known.attempt, {"why": tasks.waits_for(child)})]
        return [PlanEvent("Resumed", now, child.node, known.attempt)]

    def is_news(self, child: Task) -> bool:
        """Whether its task is in a situation that the plan does not know yet."""
        known = self.state.nodes.get(child.node)
        if known is None or known.state not in _NEWS[self.situation(child)]:
            return False
        return tasks.attempt_of(child) == known.attempt

    def situation(self, child: Task) -> str:
        """As its log says; a task that is queued behind its provider's limit waits, too."""
        return "waiting" if child.queued and child.id in self.held else tasks.node_situation(child)

    def plan_changed(self, own: Task) -> None:
        """A person stops the plan or has answered; a timer may be due."""
        now = time.time()
        if own.stop and self.state.phase in (progress.GOING, progress.MERGING):
            self.handle(*self._cancelled())
        self.fire_timers(now)
        self.handle(*self._approvals(own, now))

    def fire_timers(self, now: float) -> None:
        for timer in [timer for timer, at in list(self.timers.items()) if at <= now]:
            self.timers.pop(timer, None)
            self.handle(PlanEvent("Fired", now, attempt=self.state.run, facts={"timer": timer}))

    def _cancelled(self) -> list[PlanEvent]:
        return [PlanEvent("CancelRequested", time.time(), attempt=self.state.run, facts={"why": "a person stopped it"})]

    def _approvals(self, own: Task, now: float) -> Iterable[PlanEvent]:
        for question in own.questions:
            node, _, attempt = question.step.rpartition(".")
            known = self.state.nodes.get(node)
            if question.via != "permission" or question.is_open or known is None:
                continue
            if known.state == progress.HELD and attempt == str(known.attempt + 1):
                if question.answer == _YES:
                    yield PlanEvent("Resumed", now, node, known.attempt + 1)
                else:
                    facts = {"status": "cancelled", "why": "a person did not approve it", "again": False}
                    yield PlanEvent("Ended", now, node, known.attempt + 1, facts)

    # commands

    def _execute(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Execute commands in their order; the events that confirm them at once."""
        found: list[PlanEvent] = []
        for command in commands:  # before anything starts: one of many may end before all of them are made
            if command.what == "SetTimer":
                self.timers[command.facts["timer"]] = command.facts["at"]
            elif command.what == "ClearTimer":
                self.timers.pop(command.facts["timer"], None)
        stopped = {command.node for command in commands if command.what == "Stop"}
        if wanted := [one for one in commands if one.what == "Start" and one.node not in stopped]:
            met = [command for command in wanted if command.node in self.found and self._is_met(command)]
            found += self.node_tasks.go_on(met)[0]
            if fresh := [command for command in wanted if command not in met] if met else wanted:
                found += self.node_tasks.start(fresh)
        for command in commands:
            if command.what in _DO:
                found += _DO[command.what](self, command)
        return found

    def _is_met(self, command: Command) -> bool:
        """Whether it was started before the plan's events were lost."""
        self.found.discard(command.node)
        return not self._is_unbegun(self.tasks[command.node], command.attempt)

    def _stop(self, command: Command) -> list[PlanEvent]:
        """As the verb does: a queued node is taken out, a live one is asked; it is confirmed when it has ended."""
        now, task_id = time.time(), self.tasks.get(command.node)
        confirmed = PlanEvent("Stopped", now, command.node, command.attempt)
        if task_id is None:
            return [confirmed]
        why = _STOPPED.get(command.facts.get("why", ""), "its plan needs it no more")
        at_once = self.actor.store.recorded(self.task_id).stop == "now"
        try:
            child = tasks.stop(self.actor, task_id, "now" if at_once else why, why)
        except NotFound:
            return self._lost(task_id) or [confirmed]
        self.starter.changed(task_id)
        if tasks.node_situation(child) != "ended":
            return []
        return self._news_of(child) or [confirmed]

    def _verify(self, command: Command) -> list[PlanEvent]:
        """Its own verdict covers contract, checks and edges; here, that the result is the one judged and complete."""
        node, why = command.node, ""
        try:
            why = results.missing(node, self.needed.get(node, ()), self._value(node))
        except StorageUnavailable:
            raise
        except OverhandError as error:
            why = error.message
        facts = {"ok": not why, **({"why": why[:_WORDS]} if why else {})}
        if not why and self.plan.nodes[node].checkpoint_after:
            self._checkpoint(f"{node}.{command.attempt}.checkpoint", f"Node {node} is done")
        return [PlanEvent("Verified", time.time(), node, command.attempt, facts)]

    def _notice(self, command: Command) -> list[PlanEvent]:
        """Ask a person whether a node may begin; the answer is found when the plan's task changes."""
        node = self.plan.nodes[command.node]
        text = f"May node {node.id} of this plan begin? {node.agent} is to do this: {node.task or node.id}"
        try:
            asking = Asking(
                text=text[:_WORDS],
                options=(_YES, _NO),
                only=True,
                step=f"{node.id}.{command.attempt}",
                via="permission",
                cause=command.id,
            )
            ask_question(self.actor.store, self.task_id, self.run_id, asking, self.actor.by)
        except StopIteration:
            pass  # it was asked before, and something else since
        return list(self._approvals(self.actor.store.recorded(self.task_id), time.time()))

    def _merge(self, command: Command) -> list[PlanEvent]:
        try:
            given = [
                results.node_result(self.state.nodes[name], self._value(name), self.ends.get(name, {}).get("at", 0.0))
                for name in command.facts["results"]
            ]
        except StorageUnavailable:
            raise
        except OverhandError as error:  # it was there when it was verified
            facts = {"status": "failed", "why": error.message}
        else:
            facts = results.merge(self.actor, self.task_id, self.run_id, self.plan, given)
        merged = PlanEvent("Merged", time.time(), attempt=command.attempt, facts=facts)
        return [*self._cancelled(), merged] if self.actor.store.recorded(self.task_id).is_unwanted else [merged]

    def _finish(self, command: Command) -> list[PlanEvent]:
        self.starter.before_finish()
        if self.plan.checkpoint_after:
            self._checkpoint(f"{self.run_id}.checkpoint", "The plan's nodes are done")
        execution = results.Execution(self.plan, self.state, self.tasks, self.ends)
        results.finish(self.actor, self.task_id, self.run_id, command, execution)
        self.is_over = True
        return []

    def _checkpoint(self, cause: str, reason: str) -> None:
        new = NewCheckpoint(run=self.run_id, reason=reason, why="plan", cause=cause)
        create_checkpoint(self.actor.store, self.task_id, self.actor.by, new)

    @property
    def is_working(self) -> bool:
        """Whether a node is at work, not only waiting, or the results are being merged."""
        return self.state.slots > 0 or self.state.phase in (progress.HALTING, progress.MERGING)

    def close(self) -> None:
        """Let another process execute it."""
        with self._turn:
            self.is_over = True
            if self.file >= 0:
                os.close(self.file)
                self.lock.__exit__(None, None, None)
            self.file = -1


_DO: dict[str, Callable[[PlanExecutor, Command], list[PlanEvent]]] = {
    "Stop": PlanExecutor._stop,
    "Verify": PlanExecutor._verify,
    "Notice": PlanExecutor._notice,
    "Merge": PlanExecutor._merge,
    "Finish": PlanExecutor._finish,
}


def _needed(plan: Plan) -> dict[str, list[tuple[str, str]]]:
    """By node, which fields of its data other nodes refer to: the other node, and the field."""
    found: dict[str, list[tuple[str, str]]] = {}
    for node in plan.nodes.values():
        for ref in refs.find([node.inputs, node.task]):
            found.setdefault(ref.node, []).append((node.id, ref.field))
    return found
