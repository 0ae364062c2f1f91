"""A plan becomes a task, its task a run, and its nodes the tasks of others."""

from __future__ import annotations

import hashlib
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, files
from overhand.documents import handoff as handoffs
from overhand.documents.text import one_line
from overhand.drafts import guards
from overhand.drafts.build import Brief, Draft, build
from overhand.errors import Busy, NotFound, OverhandError, Refused
from overhand.plans import formats, node_task, refs, results
from overhand.plans.progress import Event
from overhand.plans.situations import attempt_of, is_unbegun, situation
from overhand.plans.strategy import score
from overhand.policy import trust
from overhand.policy.config import Kind
from overhand.record.events import ABSENT, Accepted, Created, Judged, Notice, RunEnded, RunStarted, StopRequested, fold
from overhand.record.task import PLAN
from overhand.runs import messages, prepare, run, spending
from overhand.system import machine
from overhand.system.files import write_file
from overhand.system.jsonline import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from overhand.plans.executor import Carrying
    from overhand.plans.model import Node, Plan
    from overhand.plans.progress import Command
    from overhand.policy.actor import Actor
    from overhand.policy.caller import Caller
    from overhand.policy.config import Config
    from overhand.record.store import LockedTask, NewTask
    from overhand.record.task import Task
    from overhand.words import Cause, Status

AGENT = Agent(PLAN, PLAN, options={"reentrant": True})
SOURCE = "plan.yaml"  # as it was given; JSON is YAML too
_SENT = "**Sent to all nodes of the plan:**"
_GIVEN_UP = "its plan cannot go on"
_SHOWN = 50  # nodes that the plan's own HANDOFF.md names


def make(
    actor: Actor,
    who: Caller,
    plan: Plan,
    source: str,
    given: Mapping[str, Any],
    find: Callable[[str], Agent] | None = None,
) -> Task:
    """The plan's task, once nothing speaks against any of its nodes.

    Given: `after`, `budget`, `settings`, `no_start`, `trusted` (a person vouches for its commands).
    """
    root = actor.store.root
    if not given.get("trusted"):
        _only_from_people(who, plan)
    _look_at_agents(root, who, plan, find or (lambda name: files.find(root, name, actor.config)))
    new = build(brief_of(who, plan, source, given), AGENT, who, actor.store, actor.config).task
    _look_at_nodes(actor, plan, new, find)
    (task,) = actor.store.new_tasks([new], actor.by, start=not given.get("no_start"))
    return task


def _look_at_agents(root: str, who: Caller, plan: Plan, find: Callable[[str], Agent]) -> None:
    """Every agent exists, is trusted and may be delegated to by whoever runs the plan."""
    names = {node.agent for node in plan.nodes.values()} | {plan.failure.fallback} - {"", "partial"}
    for name in sorted(names):
        agent = find(name)
        trust.require(root, agent.trusted_with)
        guards.check_delegation(who, agent)


def _look_at_nodes(actor: Actor, plan: Plan, new: NewTask, find: Callable[[str], Agent] | None) -> None:
    """What any guard has against any node is told now, all of it, and nothing is spawned."""
    like = fold("plan", [Created(**new.created).replace(agent=PLAN).line])
    base = node_task.ground(actor.store, actor.config, plan, like, "", find=find)
    if refused := node_task.refusals(base):
        raise Refused(
            " ".join(problem.message for problem in refused[:20]),
            next((problem.fix for problem in refused if problem.fix), "Mend the plan, then run it again."),
            problems=[problem.as_json() for problem in refused],
        )


def _only_from_people(who: Caller, plan: Plan) -> None:
    """Commands come from a person, never from an agent."""
    if who.is_person:
        return
    if plan.merge.command or plan.merge.function:
        raise Refused("A merge of its own comes from a person, never from an agent.", "Use another merge strategy.")
    for node in plan.nodes.values():
        if any(isinstance(one, dict) and one.get("command") for one in node.verification):
            raise Refused(
                f"Node {node.id} is verified by a command, which comes from a person, never from an agent.",
                "Verify it by a schema or an expression.",
            )


def brief_of(who: Caller, plan: Plan, source: str, given: Mapping[str, Any]) -> Brief:
    """The plan as a task: what it was read from, and what was read; its limits are its own, not those of a kind."""
    raw = dumps(formats.dump(plan)).encode("utf-8", "replace")
    after, budget = given.get("after"), given.get("budget") or (f"{plan.budget} tokens" if plan.budget else "")
    return Brief(
        handoff=handoffs.Handoff(task=plan.task.strip() or "A plan", context=_told(plan)),
        alerts=False,
        priority=None,
        limits=Kind(timeout=plan.timeout or 0.0, max_timeout=math.inf, level=who.level, contract=None),
        budget=str(budget),
        checks=(),
        after=str(after) if after else None,
        settings={**dict(given.get("settings") or {}), PLAN: hashlib.sha256(raw).hexdigest()},
        files={results.PLAN_FILE: raw, SOURCE: source.encode("utf-8", "replace")},
    )


def _told(plan: Plan) -> str:
    rows = [f"- `{node.id}` ({node.agent}): {one_line(node.task or node.id)[:120]}" for node in plan.nodes.values()]
    more = [f"- … and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return "\n".join(["A plan; its nodes are tasks of their own:", "", *rows[:_SHOWN], *more])


# its run


def begin(work: Actor, task_id: str) -> str | None:
    """The plan's next run, which has no process; None if somebody else began it or it is no longer wanted."""
    task = work.store.task(task_id)
    try:
        trust.require_seal(task)
        plan = results.read_plan(work.store, task)
        spending.reserve(work, task)
    except Busy:
        raise  # somebody holds a log for a moment: it is tried again
    except OverhandError as error:
        run.reject(work, task_id, error)
        return None
    with work.store.lock(task_id, work.by) as locked:
        run_id = run.claim(locked, AGENT, plan.timeout or 0.0)
        if run_id is not None:
            move_in(locked, run_id)
        return run_id


def move_in(locked: LockedTask, run_id: str) -> None:
    """The run's folder, and the event that it goes on; whoever takes it over after a kill does what is left of that."""
    prepare.archive(locked)
    place = locked.store.run_folder(locked.task_id, run_id)
    os.makedirs(place, exist_ok=True)
    write_file(f"{place}/spec.json", dumps({"task": locked.task_id, "run": run_id, "agent": {"name": PLAN}}))
    locked.append(RunStarted(run=run_id))


def at_home(work: Actor, task_id: str, run_id: str) -> Task:
    """A plan's task, whose run has begun for good: a kill may have come before that."""
    task = work.store.task(task_id)
    if task.runs[-1].state == "starting":
        with work.store.lock(task_id, work.by) as locked:
            if locked.task.runs[-1].state == "starting":
                move_in(locked, run_id)
            return locked.task
    return task


def began(task: Task) -> float:
    """When the plan's run was created, in seconds since 1970: its time is counted from there."""
    return machine.epoch(task.runs[-1].created)


def made(work: Actor, plan_id: str) -> list[Task]:
    """The tasks that were made for the nodes of a plan, in the order in which they ended; the last ones have not."""
    states = [s for s in work.store.tasks() if s.node and s.parent and s.parent.task == plan_id]
    return sorted(states, key=lambda task: (task.judged is None, task.judged or "", task.id))


def found(children: Sequence[Task], plan: Plan) -> list[Event]:
    """What they tell of a plan whose own events are lost."""
    return [
        Event("Found", time.time(), child.node, attempt_of(child), {"task": child.id})
        for child in children
        if child.node in plan.nodes
    ]


def give_up(work: Actor, task_id: str, run_id: str, why: str) -> list[str]:
    """The run of a plan that cannot be carried any more; the tasks of its nodes, which are asked to stop."""
    with work.store.lock(task_id, work.by) as locked:
        current = locked.task.current_run
        if current is None or current.id != run_id:
            return []
        status: Status = "cancelled" if locked.task.stop else "failed"
        cause: Cause = "cancelled" if locked.task.stop else "error"
        judged = Judged(run=run_id, status=status, summary=why[:500])
        locked.append(RunEnded(run=run_id, cause=cause, exit=None), judged, sync=True)
    left = [task.id for task in made(work, task_id)]
    for child in left:
        stop(work, child, _GIVEN_UP, _GIVEN_UP)
    return left


def ground(
    work: Actor, plan: Plan, task: Task, run_id: str, find: Callable[[str], Agent] | None = None
) -> node_task.Ground:
    """What the nodes stand on."""
    made = node_task.ground(work.store, _settings(work, task), plan, task, run_id, find=find, hint=score(plan).level)
    return with_messages(work, made, task)


def _settings(work: Actor, task: Task) -> Config:
    """The plan's own settings count for as long as the project's can be read; what it began with goes on without."""
    try:
        return work.config_of(task)
    except OverhandError:
        return work.config


def with_messages(work: Actor, made: node_task.Ground, task: Task) -> node_task.Ground:
    """What was sent to the plan is for all nodes that begin later."""
    if not task.messages:
        return made
    sent = "\n".join(f"- {messages.whole(work.store, task.id, one)}" for one in task.messages)
    before = made.context.partition(_SENT)[0].rstrip()
    return replace(made, context=f"{before}\n\n{_SENT}\n\n{sent}".lstrip())


def heed(carried: Carrying) -> None:
    """What was sent until now is for all nodes that begin from now on, whether or not anybody has told us of it."""
    store = carried.work.store
    size = store.log_size(carried.task_id)
    if size != carried.heeded:
        carried.ground = with_messages(carried.work, carried.ground, store.task(carried.task_id))
        carried.heeded = size


def needed(plan: Plan) -> dict[str, list[tuple[str, str]]]:
    """By node, which fields of its data others name: by whom, and which."""
    found: dict[str, list[tuple[str, str]]] = {}
    for node in plan.nodes.values():
        for ref in refs.find([node.inputs, node.task]):
            found.setdefault(ref.node, []).append((node.id, ref.field))
    return found


# its nodes


def start(carried: Carrying, commands: Sequence[Command]) -> list[Event]:
    """Have the supervisor run these nodes: new tasks share their syncs, one before any of them starts."""
    found, fresh = again(carried, commands)
    made, refused = new(carried, fresh, start=True)
    for command, task in made:
        if command.attempt > 1:  # the task of the attempts before is gone
            go_on(carried, command, task.id)
        carried.call(task.id)
    return [*found, *refused, *(started(command, task.id) for command, task in made)]


def started(command: Command, task_id: str) -> Event:
    """The event that says so."""
    return Event("Started", time.time(), command.node, command.attempt, {"task": task_id})


def new(
    carried: Carrying, commands: Sequence[Command], *, start: bool
) -> tuple[list[tuple[Command, Task]], list[Event]]:
    """Tasks for nodes that have none yet, and the end of those that cannot have one."""
    drafts: list[tuple[Command, Draft]] = []
    refused = []
    heed(carried)
    for command in commands:
        try:
            drafts.append((command, drafted(carried, command)))
        except (OverhandError, LookupError) as error:
            facts = {"status": "rejected", "why": str(error)[:1000], "again": False}
            refused.append(Event("Ended", time.time(), command.node, command.attempt, facts))
    if not drafts:
        return [], refused
    store = carried.work.store
    tasks = store.new_tasks([one.task for _, one in drafts], carried.work.by, start=start)
    made = [(command, task) for (command, _), task in zip(drafts, tasks, strict=True)]
    carried.tasks.update({command.node: task.id for command, task in made})
    return made, refused


def drafted(carried: Carrying, command: Command) -> Draft:
    """A node as a task, its references filled in."""
    node = carried.plan.nodes[command.node]

    def look_up(ref: refs.Ref) -> Any:
        return results.named(node, ref, carried.value(ref.node))

    inputs = refs.resolve(node.inputs, look_up)
    task = refs.resolve(node.task, look_up)
    words = task if isinstance(task, str) else dumps(task)
    return node_task.draft(carried.ground, _with_agent(node, command), inputs, words)


def _with_agent(node: Node, command: Command) -> Node:
    agent = command.facts.get("agent") or node.agent
    return node if agent == node.agent else replace(node, agent=agent)


def again(carried: Carrying, commands: Sequence[Command]) -> tuple[list[Event], list[Command]]:
    """Nodes that have a task already: it goes on, once per attempt; and the commands for those that have none."""
    found, fresh = [], []
    for command in commands:
        task_id = carried.tasks.get(command.node)
        if task_id is None:
            fresh.append(command)
            continue
        try:
            if command.attempt > 1 or is_unbegun(carried.work.store.task(task_id), 1):
                go_on(carried, command, task_id)
        except NotFound:  # it was cleaned away since: the node begins anew
            fresh.append(command)
            continue
        carried.call(task_id)
        found.append(started(command, task_id))
    return found, fresh


def go_on(carried: Carrying, command: Command, task_id: str) -> None:
    """The next attempt of a node, in the same task, told what was wrong with the last one."""
    with carried.work.store.lock(task_id, carried.work.by) as locked:
        if command.id in locked.task.causes:
            return
        if locked.task.queued or locked.task.current_run:  # a person was faster: that is this attempt
            locked.append(Notice(text=f"Attempt {command.attempt} of its plan.", cause=command.id))
            return
        how: dict[str, Any] = {"why": f"attempt {command.attempt} of its plan"}
        if command.facts.get("why"):
            how["problem"] = str(command.facts["why"])[:1000]
        if locked.task.runs:
            how["run"] = locked.task.runs[-1].id
        agent = command.facts.get("agent") or ABSENT
        locked.append(Accepted(cause=command.id, resume=how, agent=agent), sync=True)


def stop(work: Actor, task_id: str, how: str, why: str) -> Task:
    """A queued node is taken out, a live one is asked; its task after that."""
    with work.store.lock(task_id, work.by) as locked:
        current = locked.task.current_run
        if current is not None and not locked.task.stop:
            locked.append(StopRequested(why=how))
        elif current is None and situation(locked.task) != "ended":
            locked.append(Judged(run=None, status="cancelled", summary=f"Stopped: {why}."))
        return locked.task
