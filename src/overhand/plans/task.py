"""The tasks of a plan: its own, until its run begins, and those of its nodes, made and then queued, continued, stopped.

A node's task runs in the project's queue, or in the process that has its agent as a function.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.agents import Agent, find_agent
from overhand.documents import Handoff, one_line
from overhand.drafts import Brief, build_draft, check_delegation
from overhand.errors import Busy, NotFound, OverhandError, Refused, StorageUnavailable
from overhand.plans import formats, node_task, refs, results
from overhand.plans.progress import PlanEvent
from overhand.policy import Kind, require_trusted
from overhand.record import (
    ABSENT,
    PLAN_KIND,
    Accepted,
    Created,
    Judged,
    Notice,
    RunEnded,
    RunStarted,
    StopRequested,
    fold,
)
from overhand.runs import archive_last_run, claim_run, reject_task, reserve_budget
from overhand.system import dump_line, read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from overhand.drafts import Draft
    from overhand.plans.model import Plan
    from overhand.plans.progress import Command
    from overhand.policy import Actor, Caller
    from overhand.record import LockedTask, NewTask, Store, Task

AGENT = Agent(PLAN_KIND, PLAN_KIND, options={"reentrant": True})
PLAN_FILE = "plan.json"
SOURCE = "plan.yaml"  # as it was given; JSON is YAML too
_GIVEN_UP = "its plan cannot go on"
_MOST = 256 * 1024 * 1024
_SHOWN = 50  # nodes that the plan's own HANDOFF.md names


def make_plan_task(
    actor: Actor,
    caller: Caller,
    plan: Plan,
    source: str,
    given: Mapping[str, Any],
    find: Callable[[str], Agent | None] = lambda _: None,
) -> Task:
    """The plan's task, once no guard refuses any of its nodes.

    Given: `after`, `budget`, `settings`, `no_start`, `trusted` (a person vouches for its commands).
    """
    root = actor.store.root
    if not given.get("trusted"):
        _only_from_people(caller, plan)
    _look_at_agents(root, caller, plan, lambda name: find(name) or find_agent(root, name, actor.config))
    new = build_draft(brief_of(caller, plan, source, given), AGENT, caller, actor.store, actor.config).task
    _look_at_nodes(actor, plan, new, find)
    start = not given.get("no_start")
    (task,) = actor.store.new_tasks([new], actor.by, start=start, env=actor.env if start else None)
    return task


def _look_at_agents(root: str, caller: Caller, plan: Plan, find: Callable[[str], Agent]) -> None:
    """Every agent exists, is trusted, and the caller may delegate to it."""
    names = {node.agent for node in plan.nodes.values()} | {plan.failure.fallback} - {"", "partial"}
    for agent in map(find, sorted(names)):
        require_trusted(root, agent.trusted_with)
        check_delegation(caller, agent)


def _look_at_nodes(actor: Actor, plan: Plan, new: NewTask, find: Callable[[str], Agent | None]) -> None:
    """Report the objections of all guards to all nodes at once, before anything is started."""
    like = fold("plan", [Created(**new.created).replace(agent=PLAN_KIND).line])
    base = node_task.node_defaults(actor.store, actor.config, plan, like, "", find=find)
    if refused := node_task.refusals(base):
        raise Refused(
            " ".join(problem.message for problem in refused[:20]),
            next((problem.fix for problem in refused if problem.fix), "Mend the plan, then run it again."),
            problems=[problem.as_json() for problem in refused],
        )


def _only_from_people(caller: Caller, plan: Plan) -> None:
    """Commands come from a person, never from an agent."""
    if caller.is_person:
        return
    if plan.merge.command or plan.merge.function:
        raise Refused("A merge of its own comes from a person, never from an agent.", "Use another merge strategy.")
    for node in plan.nodes.values():
        if any(isinstance(one, dict) and one.get("command") for one in node.verification):
            raise Refused(
                f"Node {node.id} is verified by a command, which comes from a person, never from an agent.",
                "Verify it by a schema or an expression.",
            )


def brief_of(caller: Caller, plan: Plan, source: str, given: Mapping[str, Any]) -> Brief:
    """The plan as a task; its limits are its own, not those of a kind."""
    raw = dump_line(formats.dump(plan)).encode("utf-8", "replace")
    after, budget = given.get("after"), given.get("budget") or (f"{plan.budget} tokens" if plan.budget else "")
    return Brief(
        handoff=Handoff(task=plan.task.strip() or "A plan", context=_overview(plan)),
        alerts=False,
        priority=None,
        limits=Kind(timeout=plan.timeout or 0.0, max_timeout=math.inf, level=caller.level, contract=None),
        budget=str(budget),
        checks=(),
        after=str(after) if after else None,
        settings={**dict(given.get("settings") or {}), PLAN_KIND: hashlib.sha256(raw).hexdigest()},
        files={PLAN_FILE: raw, SOURCE: source.encode("utf-8", "replace")},
    )


def _overview(plan: Plan) -> str:
    rows = [f"- `{node.id}` ({node.agent}): {one_line(node.task or node.id)[:120]}" for node in plan.nodes.values()]
    more = [f"- … and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return "\n".join(["A plan; its nodes are tasks of their own:", "", *rows[:_SHOWN], *more])


# its run


def accepted_plan(store: Store, task: Task) -> Plan:
    """The plan as it was accepted; one that was changed since is not run."""
    raw = read_file(f"{store.record(task.id)}/{PLAN_FILE}", _MOST)
    if raw is None or hashlib.sha256(raw).hexdigest() != task.settings.get(PLAN_KIND):
        raise Refused(
            f"{PLAN_FILE} of task {task.name} is not the plan that was accepted.",
            "Run the plan's file anew: overhand plan run FILE",
        )
    return formats.load(json.loads(raw))


def begin_plan(actor: Actor, task_id: str) -> str | None:
    """The plan's next run, which has no process; None if another process began it or it is no longer wanted."""
    task = actor.store.recorded(task_id)
    try:
        plan = accepted_plan(actor.store, task)
        reserve_budget(actor, task)
    except (Busy, StorageUnavailable):
        raise  # a log is held for a moment, or the disk is full; the supervisor retries
    except OverhandError as error:
        reject_task(actor, task_id, error)
        return None
    with actor.store.lock(task_id, actor.by) as locked:
        run_id = claim_run(locked, AGENT, plan.timeout or 0.0)
        if run_id is not None:
            _begin_run(locked, run_id)
        return run_id


def _begin_run(locked: LockedTask, run_id: str) -> None:
    """Make the run's folder and record its start; after a kill, the next process does the rest."""
    archive_last_run(locked)
    place = locked.store.run_folder(locked.task_id, run_id)
    os.makedirs(place, exist_ok=True)
    write_file(f"{place}/spec.json", dump_line({"task": locked.task_id, "run": run_id, "agent": {"name": PLAN_KIND}}))
    locked.append(RunStarted(run=run_id))


def ensure_started(actor: Actor, task_id: str, run_id: str) -> Task:
    """A plan's task whose run has begun; a kill may have interrupted that."""
    task = actor.store.recorded(task_id)
    if task.runs[-1].state == "starting":
        with actor.store.lock(task_id, actor.by) as locked:
            if locked.task.runs[-1].state == "starting":
                _begin_run(locked, run_id)
            return locked.task
    return task


def abandon_plan(actor: Actor, task_id: str, run_id: str, why: str) -> list[str]:
    """Fail the run of a plan that cannot be executed any more; the tasks of its nodes, which are asked to stop."""
    with actor.store.lock(task_id, actor.by) as locked:
        current = locked.task.current_run
        if current is None or current.id != run_id:
            return []
        stopped = bool(locked.task.stop)
        judged = Judged(run=run_id, status="cancelled" if stopped else "failed", summary=why[:500])
        locked.append(RunEnded(run=run_id, cause="cancelled" if stopped else "error", exit=None), judged, sync=True)
    left = [task.id for task in children(actor.store, task_id)]
    for child in left:
        stop(actor, child, _GIVEN_UP, _GIVEN_UP)
    return left


# the tasks of its nodes


def children(store: Store, plan_id: str) -> list[Task]:
    """The tasks that were made for the nodes of a plan, in the order in which they ended; the last ones have not."""
    made = [one for one in store.tasks() if one.node and one.parent and one.parent.task == plan_id]
    return sorted(made, key=lambda task: (task.judged is None, task.judged or "", task.id))


def attempt_of(child: Task) -> int:
    """The attempt of its node that a task is at; each but the first is known by its cause."""
    causes = [cause.split(".")[-2:] for cause in child.causes if cause.endswith(".Start")]
    return max((int(attempt) for attempt, _ in causes), default=1)


def never_started(child: Task, attempt: int) -> bool:
    """Whether this attempt belonged to a function of a process that died before it began."""
    at_rest = not child.queued and child.current_run is None
    return at_rest and (attempt_of(child) != attempt or (child.status is None and not child.runs))


def node_situation(child: Task) -> str:
    """`ended`, `waiting` for a person, a provider or what it delegated, or `working`."""
    current = child.current_run
    if child.queued:
        return "waiting" if child.paused and "to" not in child.paused else "working"
    if current is not None:
        return "waiting" if current.waiting is not None else "working"
    if child.status is None:
        return "working"
    if child.status == "needs-input" and child.open_questions:
        return "waiting"
    if child.status == "blocked" and child.runs and child.awaited_children(child.runs[-1].id):
        return "waiting"
    return "ended"


def waits_for(child: Task) -> str:
    if child.queued:
        return "its provider"
    return "an answer" if child.open_questions else "what it delegated"


def next_attempt(actor: Actor, task_id: str, command: Command) -> None:
    """Accept the next attempt of a node, in the same task, with what was wrong with the last one."""
    with actor.store.lock(task_id, actor.by) as locked:
        if command.id in locked.task.causes:
            return
        if locked.task.queued or locked.task.current_run:  # a person was faster: that is this attempt
            locked.append(Notice(text=f"Attempt {command.attempt} of its plan.", cause=command.id))
            return
        how, agent = resume_of(locked.task, command), command.facts.get("agent") or ABSENT
        locked.append(Accepted(cause=command.id, resume=how, agent=agent), sync=True)


def resume_of(child: Task, command: Command, **more: str) -> dict[str, Any]:
    """What the next attempt of a node needs to know about the last one."""
    how: dict[str, Any] = {"why": f"attempt {command.attempt} of its plan", **more}
    if command.facts.get("why"):
        how["problem"] = str(command.facts["why"])[:1000]
    if child.runs:
        how["run"] = child.runs[-1].id
    return how


def stop(actor: Actor, task_id: str, how: str, why: str) -> Task:
    """Take a queued node out of the queue, ask a live one to stop; its task after that."""
    with actor.store.lock(task_id, actor.by) as locked:
        current = locked.task.current_run
        if current is not None and not locked.task.stop:
            locked.append(StopRequested(why=how))
        elif current is None and node_situation(locked.task) != "ended":
            locked.append(Judged(run=None, status="cancelled", summary=f"Stopped: {why}."))
        return locked.task


# how they begin


class NodeStart(NamedTuple):
    """A node's task that its starter is to run at once."""

    task: Task
    agent: str
    draft: Draft | None  # as it was made, if it is new
    resume: dict[str, Any] | None  # about the attempt before, if it is not


class NodeStarter:
    """What runs the nodes of a plan: by itself the project's queue; a Python process overrides it for its functions."""

    def find(self, _name: str) -> Agent | None:
        """An agent by its name; None for the one of the project's files."""
        return None

    def is_own(self, _agent: str) -> bool:
        """Whether it runs this agent itself, without the queue."""
        return False

    def start(self, nodes: Sequence[NodeStart]) -> None:
        """Run tasks of its own agents."""

    def changed(self, task_id: str) -> None:
        """A task is new in the queue, or was asked to stop."""

    def events_handled(self) -> None:
        """Events are on disk, and what they call for is done."""

    def before_finish(self) -> None:
        """Bring the nodes' results to the disk."""


class NodeTasks:
    """The tasks of one plan's nodes."""

    def __init__(
        self,
        actor: Actor,
        defaults: node_task.NodeDefaults,
        starter: NodeStarter,
        value: Callable[[str], results.Value],
    ) -> None:
        self.actor, self.defaults, self.starter = actor, defaults, starter
        self.by_node: dict[str, str] = {}
        self._value = value  # what a node returned
        self._log_size = -1  # of the plan's log when its messages were last read

    def start(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Begin nodes, in the queue or by the starter itself; the events that say so."""
        own: list[Command] = []
        queued: list[Command] = []
        for command in commands:
            (own if self.starter.is_own(self._agent_of(command)) else queued).append(command)
        return [*(self._queue(queued) if queued else ()), *(self._start_own(own) if own else ())]

    def _agent_of(self, command: Command) -> str:
        return command.facts.get("agent") or self.defaults.plan.nodes[command.node].agent

    def _queue(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Have the supervisor run these nodes: new tasks share their syncs, one before any of them starts."""
        found, fresh = self.go_on(commands)
        made, refused = self._make(fresh, start=True)
        for command, task, _ in made:
            if command.attempt > 1:  # the task of the attempts before is gone
                next_attempt(self.actor, task.id, command)
            self.starter.changed(task.id)
        return [*found, *refused, *(_started(command, task.id) for command, task, _ in made)]

    def _start_own(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Have the starter run these nodes."""
        again = [command for command in commands if command.node in self.by_node]
        made, refused = self._make([command for command in commands if command.node not in self.by_node], start=False)
        nodes = [NodeStart(task, self._agent_of(command), draft, None) for command, task, draft in made]
        for command in again:
            task = self.actor.store.recorded(self.by_node[command.node])
            resume = resume_of(task, command, cause=command.id)
            nodes.append(NodeStart(task, self._agent_of(command), None, resume))
        self.starter.start(nodes)
        wanted = [*(command for command, _, _ in made), *again]
        return [*refused, *(_started(command, self.by_node[command.node]) for command in wanted)]

    def _make(
        self, commands: Sequence[Command], *, start: bool
    ) -> tuple[list[tuple[Command, Task, Draft]], list[PlanEvent]]:
        """Tasks for nodes that have none yet, and the end of those that cannot have one."""
        drafts: list[tuple[Command, Draft]] = []
        refused = []
        self._read_messages()
        for command in commands:
            try:
                drafts.append((command, self._draft(command)))
            except StorageUnavailable:
                raise  # no reason to refuse a node: the supervisor retries
            except (OverhandError, LookupError) as error:
                facts = {"status": "rejected", "why": str(error)[:1000], "again": False}
                refused.append(PlanEvent("Ended", time.time(), command.node, command.attempt, facts))
        if not drafts:
            return [], refused
        new = self.actor.store.new_tasks([draft.task for _, draft in drafts], self.actor.by, start=start)
        made = [(command, task, draft) for (command, draft), task in zip(drafts, new, strict=True)]
        self.by_node.update({command.node: task.id for command, task, _ in made})
        return made, refused

    def _read_messages(self) -> None:
        """Give the messages sent so far to all nodes that begin from now on."""
        size = self.actor.store.log_size(self.defaults.state.id)
        if size != self._log_size:
            self.defaults = node_task.with_messages(self.defaults, self.actor.store.recorded(self.defaults.state.id))
            self._log_size = size

    def _draft(self, command: Command) -> Draft:
        """A node as a task, its references filled in."""
        node = self.defaults.plan.nodes[command.node]

        def look_up(ref: refs.Ref) -> Any:
            return results.look_up(node.id, ref, self._value(ref.node))

        inputs = refs.resolve(node.inputs, look_up)
        words = refs.resolve(node.task, look_up)
        agent = self._agent_of(command)
        by = node if agent == node.agent else replace(node, agent=agent)
        return node_task.draft(self.defaults, by, inputs, words if isinstance(words, str) else dump_line(words))

    def go_on(self, commands: Sequence[Command]) -> tuple[list[PlanEvent], list[Command]]:
        """Nodes that have a task already: it goes on, once per attempt; and the commands for those that have none."""
        found, fresh = [], []
        for command in commands:
            task_id = self.by_node.get(command.node)
            if task_id is None:
                fresh.append(command)
                continue
            try:
                if command.attempt > 1 or never_started(self.actor.store.recorded(task_id), 1):
                    next_attempt(self.actor, task_id, command)
            except NotFound:  # it was cleaned away since: the node begins anew
                fresh.append(command)
                continue
            self.starter.changed(task_id)
            found.append(_started(command, task_id))
        return found, fresh


def defaults_for(actor: Actor, plan: Plan, own: Task, run_id: str, starter: NodeStarter) -> node_task.NodeDefaults:
    try:
        config = actor.config_of(own)
    except OverhandError:  # the project's settings cannot be read now
        config = actor.config
    defaults = node_task.node_defaults(actor.store, config, plan, own, run_id, find=starter.find)
    return node_task.with_messages(defaults, own)


def _started(command: Command, task_id: str) -> PlanEvent:
    return PlanEvent("Started", time.time(), command.node, command.attempt, {"task": task_id})
