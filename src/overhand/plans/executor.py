"""Carrying a plan: what happened to it, on disk; what that calls for; and the tasks of its nodes.

Whoever carries a plan holds `plan.lock`, and nobody else writes `plan.jsonl`. Each event stands there before it is
acted on. After a kill the events go through the same `advance` again, and what was called for and is not confirmed is
done once more, which changes nothing where it was done: a task knows the node, and the attempt, that it was made for.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overhand.errors import NotFound, OverhandError, storage_failed
from overhand.plans import node_task, progress, results, task
from overhand.plans.advance import advance, new_state, pending
from overhand.plans.progress import Command, Event
from overhand.plans.situations import NEWS, attempt_of, is_unbegun, situation, waits_for
from overhand.questions import record
from overhand.record import log
from overhand.runs import checkpoints, prepare
from overhand.system.lock import Lock
from overhand.words import is_task_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from overhand.agents import Agent
    from overhand.plans.model import Plan
    from overhand.policy.actor import Actor
    from overhand.record.task import Task

EVENTS = "plan.jsonl"
LOCK = "plan.lock"
_AHEAD = 4  # nodes that wait in the project's queue, so that the next is there when a slot is free
_WORDS = 1000  # characters of a reason
_YES, _NO = "yes", "no"
_STOPPED = {
    "cancelled": "its plan was stopped",
    "won": "another node was first",
    "failed": "another node of its plan failed",
    "timeout": "the time of its plan is over",
    "budget": "the budget of its plan is used up",
}


@dataclass(slots=True)
class Carrying:
    """One plan in the hands of the only process that carries it."""

    work: Actor
    task_id: str
    run_id: str
    plan: Plan
    state: progress.State
    ground: node_task.Ground
    lock: Lock
    file: int
    size: int
    cap: int  # nodes at the same time, 0 for as many as there are
    needed: dict[str, list[tuple[str, str]]]  # by node: who names which field of its data
    tasks: dict[str, str] = field(default_factory=dict)  # by node
    found: set[str] = field(default_factory=set)  # nodes with a task whose start is told nowhere any more
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)  # by node: how its last attempt ended, and when
    began: str = ""  # the run that the newest PlanStarted is about
    timers: dict[str, float] = field(default_factory=dict)  # when they fire, in seconds since 1970
    call: Callable[[str], None] = lambda _: None  # for tasks that are new, or were asked to stop
    heard: deque[str] = field(default_factory=deque)  # tasks of nodes that somebody is to look at
    held: set[str] = field(default_factory=set)  # tasks of nodes that are queued behind their provider's limit
    seen: int = -1  # how long the log of its own task was when it was last looked at
    heeded: int = -1  # the same, when what was sent to it was last read
    start: Callable[[Carrying, Sequence[Command]], list[Event]] = task.start  # of nodes
    before_finish: Callable[[], None] = lambda: None  # the nodes' results are on the disk
    taken: Callable[[], None] = lambda: None  # events were taken in, and what they call for is done
    over: bool = False  # it is judged
    _news: deque[tuple[Event, ...]] = field(default_factory=deque)
    _turn: Any = field(default_factory=threading.Lock)

    @property
    def next_timer(self) -> float:
        """When the first timer fires, in seconds since 1970."""
        return min(list(self.timers.values()), default=float("inf"))

    @property
    def delegated_by(self) -> str | None:
        """The run that delegated this plan."""
        return self.ground.state.parent.run if self.ground.state.parent else None

    @property
    def live_tasks(self) -> list[str]:
        """The tasks of nodes that are at work."""
        return [task_id for node, task_id in self.tasks.items() if self.state.nodes[node].state in progress.LIVE]

    # events

    def tell(self, *events: Event) -> None:
        """Take events in and do what they call for; whoever comes while another thread is at it leaves them there."""
        if events:
            self._news.append(events)
        while self._news and self._turn.acquire(blocking=False):
            try:
                while self._news:
                    self._take(list(self._news.popleft()))
                    self.taken()
            finally:
                self._turn.release()

    def _take(self, events: list[Event]) -> None:
        while events and not self.over:
            if not os.fstat(self.file).st_nlink:  # what is written there is lost: it is taken up anew, if it is there
                raise NotFound(f"{EVENTS} of plan {self.task_id} was removed.")
            data = log.lines_of([progress.as_json(event) for event in events], {})
            self.size = log.write(self.file, data, self.size, sync=False)
            events = self.execute([command for event in events for command in self.fold(event)])

    def fold(self, event: Event) -> list[Command]:
        """Take one event into what is known."""
        if event.what == "PlanStarted":
            self.began = event.facts.get("run", "")
        if is_task_id(event.facts.get("task", "")):
            self.tasks[event.node] = event.facts["task"]
        if event.what == "Found":
            self.found.add(event.node)
        if event.what == "Ended":
            self.ends[event.node] = {**event.facts, "at": event.at}
        return advance(self.plan, self.state, event)

    def value(self, node: str) -> results.Value:
        """What a node returned."""
        return results.value_of(self.work.store, self.tasks[node], self.state.nodes[node].digest)

    def go_on(self) -> None:
        """After it was opened: begin its run, or do again what is not confirmed, and hear what happened meanwhile."""
        if self.cap != self.state.limits.max_parallel:
            self.tell(Event("LimitsChanged", time.time(), facts={"max_parallel": self.cap}))
        if self.began != self.run_id:
            is_new = not self.found
            at = time.time() if is_new else task.began(self.ground.state)
            self.tell(Event("PlanStarted", at, attempt=self.state.run + 1, facts={"run": self.run_id}))
            if is_new:
                return
        else:
            with self._turn:
                events = self.execute(pending(self.state))
            self.tell(*events)
        for node, task_id in list(self.tasks.items()):
            known = self.state.nodes[node]
            if known.state in progress.LIVE:
                if known.state != progress.STOPPING and self._is_unbegun(task_id, known.attempt):
                    task.go_on(self, Command("Start", node, known.attempt, {"agent": known.agent}), task_id)
                self.call(task_id)
                self.see(task_id)

    def _is_unbegun(self, task_id: str, attempt: int) -> bool:
        try:
            return is_unbegun(self.work.store.task(task_id), attempt)
        except NotFound:
            return False

    def see(self, task_id: str) -> None:
        """Look at a node's task, if it is still there."""
        try:
            child = self.work.store.task(task_id)
        except NotFound:
            self.tell(*self._lost(task_id))
        else:
            self.look(child)

    def _lost(self, task_id: str) -> list[Event]:
        """Somebody removed a node's task: it has failed, and is not begun again, since its agent may be at work yet."""
        facts = {"status": "failed", "why": f"the folder of its task {task_id} is gone", "again": False}
        known = next(self.state.nodes[node] for node, one in self.tasks.items() if one == task_id)
        if known.state not in NEWS["ended"]:
            return []
        ended, stopped = (Event(what, time.time(), known.spec.id, known.attempt) for what in ("Ended", "Stopped"))
        return [ended._replace(facts=facts), *([stopped] if known.state == progress.STOPPING else [])]

    def look(self, child: Task) -> None:
        """A node's task may have ended, wait for somebody, or go on; who stopped the plan, or its time, was first."""
        if child.status not in (None, "completed"):
            self.look_at_plan(self.work.store.task(self.task_id))
        self.tell(*self.news(child))

    def news(self, child: Task) -> list[Event]:
        """What is new about a node's task."""
        now, what = time.time(), self.situation(child)
        if not self.is_news(child):
            return []
        known = self.state.nodes[child.node]
        if what == "ended":
            facts = results.ending(self.work.store, child)
            ended = Event("Ended", now, child.node, known.attempt, facts)
            stopped = Event("Stopped", now, child.node, known.attempt, {"tokens": facts["tokens"]})
            return [ended, stopped] if known.state == progress.STOPPING else [ended]
        if what == "waiting":
            return [Event("Waiting", now, child.node, known.attempt, {"why": waits_for(child)})]
        return [Event("Resumed", now, child.node, known.attempt)]

    def is_news(self, child: Task) -> bool:
        """Whether its task is in a situation that the plan does not know of."""
        known = self.state.nodes.get(child.node)
        return known is not None and known.state in NEWS[self.situation(child)] and attempt_of(child) == known.attempt

    def situation(self, child: Task) -> str:
        """As its task tells it; who has not begun and is queued behind its provider's limit waits, too."""
        return "waiting" if child.queued and child.id in self.held else situation(child)

    def look_at_plan(self, state: Task) -> None:
        """Its own task: a person stops it, or has answered; a timer's time may have come."""
        now = time.time()
        if state.stop and self.state.phase in (progress.GOING, progress.MERGING):
            self.tell(*self._cancelled())
        for timer in [timer for timer, at in list(self.timers.items()) if at <= now]:
            self.timers.pop(timer, None)
            self.tell(Event("Fired", now, attempt=self.state.run, facts={"timer": timer}))
        self.tell(*self._approvals(state, now))

    def _cancelled(self) -> list[Event]:
        return [Event("CancelRequested", time.time(), attempt=self.state.run, facts={"why": "a person stopped it"})]

    def _approvals(self, state: Task, now: float) -> Iterable[Event]:
        for question in state.questions:
            node, _, attempt = question.step.rpartition(".")
            known = self.state.nodes.get(node)
            if question.via != "permission" or question.is_open or known is None:
                continue
            if known.state == progress.HELD and attempt == str(known.attempt + 1):
                if question.answer == _YES:
                    yield Event("Resumed", now, node, known.attempt + 1)
                else:
                    facts = {"status": "cancelled", "why": "a person did not approve it", "again": False}
                    yield Event("Ended", now, node, known.attempt + 1, facts)

    # commands

    def execute(self, commands: Sequence[Command]) -> list[Event]:
        """Carry out commands in their order; what confirms them at once."""
        found: list[Event] = []
        self._set_timers(commands)
        starts = [command for command in commands if command.what == "Start"]
        stopped = {command.node for command in commands if command.what == "Stop"}
        if wanted := [command for command in starts if command.node not in stopped]:
            met = [command for command in wanted if command.node in self.found and self._is_met(command)]
            found += task.again(self, met)[0]
            if fresh := [command for command in wanted if command not in met] if met else wanted:
                found += self.start(self, fresh)
        for command in commands:
            if command.what in _DO:
                found += _DO[command.what](self, command)
        return found

    def _set_timers(self, commands: Sequence[Command]) -> None:
        """Before anything is started: one of many may end before all of them are made."""
        for command in commands:
            if command.what == "SetTimer":
                self.timers[command.facts["timer"]] = command.facts["at"]
            elif command.what == "ClearTimer":
                self.timers.pop(command.facts["timer"], None)

    def _is_met(self, command: Command) -> bool:
        """Whether it was started before the plan's events were lost."""
        self.found.discard(command.node)
        return not self._is_unbegun(self.tasks[command.node], command.attempt)

    def _stop(self, command: Command) -> list[Event]:
        """The same as the verb: a queued one is taken out, a live one is asked; it is confirmed when it has ended."""
        now, task_id = time.time(), self.tasks.get(command.node)
        confirmed = Event("Stopped", now, command.node, command.attempt)
        if task_id is None:
            return [confirmed]
        why = _STOPPED.get(command.facts.get("why", ""), "its plan needs it no more")
        at_once = self.work.store.task(self.task_id).stop == "now"
        try:
            child = task.stop(self.work, task_id, "now" if at_once else why, why)
        except NotFound:
            return self._lost(task_id) or [confirmed]
        self.call(task_id)
        if situation(child) != "ended":
            return []
        return self.news(child) or [confirmed]

    def _verify(self, command: Command) -> list[Event]:
        """Its own verdict covers contract, checks and edges; here, that the result is the one judged, and suffices."""
        node, why = command.node, ""
        try:
            why = results.missing(node, self.needed.get(node, ()), self.value(node))
        except OverhandError as error:
            why = error.message
        facts = {"ok": not why, **({"why": why[:_WORDS]} if why else {})}
        if not why and self.plan.nodes[node].checkpoint_after:
            self._checkpoint(f"{node}.{command.attempt}.checkpoint", f"Node {node} is done")
        return [Event("Verified", time.time(), node, command.attempt, facts)]

    def _notice(self, command: Command) -> list[Event]:
        """A person is asked whether a node may begin; the answer is found at the next look."""
        node = self.plan.nodes[command.node]
        text = f"May node {node.id} of this plan begin? {node.agent} is to do this: {node.task or node.id}"
        try:
            asking = record.Asking(
                text=text[:_WORDS],
                options=(_YES, _NO),
                only=True,
                step=f"{node.id}.{command.attempt}",
                via="permission",
                cause=command.id,
            )
            record.ask(self.work.store, self.task_id, self.run_id, asking, self.work.by)
        except StopIteration:
            pass  # it was asked before, and something else since
        return list(self._approvals(self.work.store.task(self.task_id), time.time()))

    def _merge(self, command: Command) -> list[Event]:
        merged = Event("Merged", time.time(), attempt=command.attempt, facts=results.merge(self, command))
        return [*self._cancelled(), merged] if prepare.is_unwanted(self.work.store, self.task_id) else [merged]

    def _finish(self, command: Command) -> list[Event]:
        self.before_finish()
        if self.plan.checkpoint_after:
            self._checkpoint(f"{self.run_id}.checkpoint", "The plan's nodes are done")
        results.finish(self, command)
        self.over = True
        return []

    def _checkpoint(self, cause: str, reason: str) -> None:
        checkpoints.create(
            self.work.store, self.task_id, self.work.by, run=self.run_id, reason=reason, why="plan", cause=cause
        )

    @property
    def works(self) -> bool:
        """Whether a node is at work, not only waiting for somebody, or the results are being merged."""
        return self.state.slots > 0 or self.state.phase in (progress.HALTING, progress.MERGING)

    def close(self) -> None:
        """Let others carry it."""
        with self._turn:
            self.over = True
            if self.file >= 0:
                os.close(self.file)
                self.lock.__exit__(None, None, None)
            self.file = -1


_DO: dict[str, Callable[[Carrying, Command], list[Event]]] = {
    "Stop": Carrying._stop,
    "Verify": Carrying._verify,
    "Notice": Carrying._notice,
    "Merge": Carrying._merge,
    "Finish": Carrying._finish,
}


def open_plan(
    work: Actor,
    task_id: str,
    run_id: str,
    *,
    start: Callable[[Carrying, Sequence[Command]], list[Event]] = task.start,
    find: Callable[[str], Agent] | None = None,
    call: Callable[[str], None] = lambda _: None,
    cap: int | None = None,
    lock: Lock | None = None,
) -> Carrying:
    """Take a plan over as it stands; raises Busy while another process carries it."""
    folder = work.store.folder(task_id)
    state = task.at_home(work, task_id, run_id)
    plan = results.read_plan(work.store, state)
    base = task.ground(work, plan, state, run_id, find)  # what may fail comes before the lock
    held = Lock(f"{folder}/{LOCK}", f"Plan {task_id}", patience=0.0)
    if lock is None:
        held.__enter__()
    else:
        held.fd, lock.fd = lock.fd, -1  # it is ours now
    try:
        file = os.open(f"{folder}/{EVENTS}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        held.__exit__(None, None, None)
        raise storage_failed(error, "Cannot open the plan's events") from error
    carried = Carrying(
        work=work,
        task_id=task_id,
        run_id=run_id,
        plan=plan,
        state=new_state(plan),
        ground=base,
        lock=held,
        file=file,
        size=log.cut_torn_tail(file, os.fstat(file).st_size),
        needed=task.needed(plan),
        start=start,
        call=call,
        cap=_cap(work, plan) if cap is None else cap,
    )
    try:
        for event in filter(None, map(progress.event_of, log.parse(os.pread(file, carried.size, 0)))):
            carried.fold(event)
        if lost := {c.node for c in pending(carried.state) if c.what in ("Start", "Stop")} - carried.tasks.keys():
            carried.tasks.update({s.node: s.id for s in task.made(work, task_id) if s.node in lost})
        if not carried.began and (lock or held).size:  # it was carried before, and what happened is gone
            carried.tell(*task.found(task.made(work, task_id), plan))
    except BaseException:
        carried.close()  # whoever tries again must find it free
        raise
    return carried


def _cap(work: Actor, plan: Plan) -> int:
    """The project's cap is kept by its supervisor; a few nodes more may wait there."""
    return work.config.max_parallel + _AHEAD if work.config.max_parallel and not plan.max_parallel else 0
