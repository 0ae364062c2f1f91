"""Deciding what a plan does next: one event in, commands out; no I/O, and no clock but the event's.

`new_state(plan, limits)` before the first event; `advance(plan, state, event)` for each, in the order of their
record, updating the state; `pending(state)` after the last one of a fold: what was asked for and not confirmed yet,
exactly as it was asked for, to be carried out (again). Facts and answers of each: the tables in `progress`.

- A node starts when all it depends on is verified, by priority and then in the order of the plan, if it is approved, a
  slot is free, no live node may write its files, and its budget fits. It keeps slot and files until it is verified, has
  failed, or, when it was to stop, has Stopped. Waiting gives the slot back; a node that goes on may exceed the cap.
- `sequential`: one at a time; a node that waits keeps its turn.
- A node without a budget reserves none and starts while something is left of the plan's. One whose budget does not fit
  holds those behind it until others have ended (else small ones would starve it), and fails if none is left to end.
- An attempt fails when it ended other than completed or was not verified. Then: retries, up to max_retries; one attempt
  of the fallback agent; with fallback `partial` the partial result of the last attempt, if that verifies; else the node
  has failed. `again: False` and a budget of the node that is used up leave out the attempts.
- A failed node: `continue` skips what depends on it; `abort` and `retry` stop everything and finish as failed.
- The plan's budget used up, or its time: everything is stopped; `continue` then merges what is there, the others fail.
- first_wins: the first verified node that no other depends on; the rest is stopped, and merged after all have Stopped.
- The plan ends completed if all nodes are verified as completed (first_wins: the winner), else partial; failed if
  nothing is verified; or as Merged says.
- PlanStarted after an end that was not completed: verified nodes stay, all others begin anew with their retries;
  attempts go on counting. Approvals stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import progress, transitions
from overhand.plans.order import glob_parts
from overhand.plans.progress import Command, Limits, NodeState, PlanEvent, PlanState

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.plans.model import Plan


_NO_LIMITS = Limits()


def new_plan_state(plan: Plan, limits: Limits = _NO_LIMITS) -> PlanState:
    """A plan of which nothing has happened yet; it was checked: its dependencies exist and have no cycle."""
    state = PlanState(plan, limits)
    specs = sorted(plan.nodes.values(), key=lambda spec: spec.priority)
    for rank, spec in enumerate(specs):
        node = NodeState(spec, rank, tuple(map(glob_parts, spec.writes)), agent=spec.agent, missing=len(spec.needs))
        node.approved = not spec.requires_approval
        state.order.append(node)
        state.nodes[spec.id] = node
    for node in state.order:
        for need in node.spec.needs:
            state.nodes[need].after.append(node)
    state.open = len(state.order)
    transitions.limit(state)
    return state


def advance_plan(plan: Plan, state: PlanState, event: PlanEvent) -> list[Command]:  # noqa: ARG001 -- the state knows its plan
    """What to do now that this has happened; the state is updated."""
    todo: list[Command] = []
    node = state.nodes.get(event.node)
    if event.what in _OF_NODES and node is not None:
        _OF_NODES[event.what](state, node, event, todo)
    elif event.what in _OF_PLAN:
        _OF_PLAN[event.what](state, event, todo)
    return todo


# events of nodes


def _found(state: PlanState, node: NodeState, event: PlanEvent, _: list[Command]) -> None:
    """Its next start is this attempt, which was made already; what led there is lost, and its retries stay used up."""
    if state.phase != progress.NEW or event.attempt < 1:
        return
    node.approved = True  # else it would have no task
    before = event.attempt - 1
    while node.attempt < before and _try_again(state, node):
        node.attempt += 1
    node.attempt = max(node.attempt, before)


def _started(_: PlanState, node: NodeState, event: PlanEvent, __: list[Command]) -> None:
    if node.state == progress.STARTING and event.attempt == node.attempt:
        node.state = progress.RUNNING


def _waiting(state: PlanState, node: NodeState, event: PlanEvent, todo: list[Command]) -> None:
    if event.attempt == node.attempt and node.state in (progress.STARTING, progress.RUNNING):
        node.state = progress.WAITING
        if state.plan.strategy != "sequential":
            node.slot = False
            state.slots -= 1
            _settle(state, todo)


def _resumed(state: PlanState, node: NodeState, event: PlanEvent, todo: list[Command]) -> None:
    if node.state == progress.WAITING and event.attempt == node.attempt:
        node.state = progress.RUNNING
        if not node.slot:
            node.slot = True
            state.slots += 1
    elif not node.approved and node.state in (progress.PENDING, progress.HELD) and event.attempt == node.attempt + 1:
        node.approved = True
        if node.state == progress.HELD:
            transitions.queue(state, node, todo)
            _settle(state, todo)


def _usage(state: PlanState, node: NodeState, event: PlanEvent, todo: list[Command]) -> None:
    if event.attempt == node.attempt and node.attempt and state.phase != progress.FINISHED:
        transitions.spend(state, node, event.facts.get("tokens", 0))
        _watch_budget(state, todo)


def _ended(state: PlanState, node: NodeState, event: PlanEvent, todo: list[Command]) -> None:
    facts = event.facts
    if node.state == progress.HELD and event.attempt == node.attempt + 1:  # a person did not approve it
        node.attempt += 1  # the next Notice is another one
        node.status = facts.get("status", "rejected")
        transitions.node_failed(state, node, facts.get("why", "") or "a person did not approve it", todo)
        return _settle(state, todo)
    if event.attempt != node.attempt or node.state not in (*progress.AT_WORK, progress.STOPPING):
        return None
    if "tokens" in facts:
        transitions.spend(state, node, facts["tokens"])
    node.status = facts.get("status", "failed")
    node.result = facts.get("result")
    node.digest = facts.get("digest", "")
    if node.state == progress.STOPPING:
        return None  # Stopped is still to come, and says that nothing is left of it
    if node.status == "completed":
        node.state = progress.VERIFYING
        todo.append(progress.verify_command(node))
    else:
        _attempt_failed(state, node, facts.get("why", "") or node.status, facts.get("again", True), todo)
    return _watch_budget(state, todo) if state.budget else None


def _verified(state: PlanState, node: NodeState, event: PlanEvent, todo: list[Command]) -> None:
    if node.state != progress.VERIFYING or event.attempt != node.attempt:
        return None
    facts = event.facts
    if not facts.get("ok"):
        whole = node.status == "completed"
        node.status = "failed"  # with a partial result the last hope is gone too
        why = facts.get("why", "") or "not verified"
        return _attempt_failed(state, node, why, whole and facts.get("again", True), todo)
    transitions.release(state, node)
    node.state = progress.VERIFIED
    node.why = ""
    state.verified += 1
    state.open -= 1
    if not node.after:
        if state.phase == progress.GOING and state.plan.merge.strategy == "first_wins":
            state.winner = node.spec.id
            transitions.halt(state, "won", "won", todo)
    else:
        for other in node.after:
            other.missing -= 1
            if not other.missing and state.phase == progress.GOING:
                transitions.queue(state, other, todo)
    return _settle(state, todo) if state.ready or not state.live else None


def _stopped(state: PlanState, node: NodeState, event: PlanEvent, todo: list[Command]) -> None:
    if node.state != progress.STOPPING or event.attempt != node.attempt:
        return
    if "tokens" in event.facts:
        transitions.spend(state, node, event.facts["tokens"])
    if node.status == "completed":
        node.state = progress.VERIFYING
        todo.append(progress.verify_command(node))
        return
    transitions.release(state, node)
    node.state = progress.STOPPED
    state.open -= 1
    _settle(state, todo)


_OF_NODES: dict[str, Callable[[PlanState, NodeState, PlanEvent, list[Command]], None]] = {
    "Found": _found,
    "Started": _started,
    "Waiting": _waiting,
    "QuotaHit": _waiting,
    "Resumed": _resumed,
    "Usage": _usage,
    "Ended": _ended,
    "Verified": _verified,
    "Stopped": _stopped,
}


# events of the plan


def _plan_started(state: PlanState, event: PlanEvent, todo: list[Command]) -> None:
    again = state.phase == progress.FINISHED and state.status != "completed"
    if event.attempt != state.run + 1 or not (again or state.phase == progress.NEW):
        return None
    state.run += 1
    state.phase = progress.GOING
    state.status = state.why = state.outcome = ""
    if state.winner:
        return transitions.end(state, todo)  # only the merge is missing
    if again:
        for node in state.order:
            if node.state != progress.VERIFIED:
                node.state = progress.PENDING
                node.agent, node.status, node.why = node.spec.agent, "", ""
                node.tries, node.fallen = 0, False
                node.missing = sum(state.nodes[need].state != progress.VERIFIED for need in node.spec.needs)
        state.open = len(state.order) - state.verified
    if state.plan.timeout:
        state.timer = event.at + state.plan.timeout
        todo.append(progress.set_timer_command(state))
    for node in state.order:
        if not node.missing and node.state == progress.PENDING:
            transitions.queue(state, node, todo)
    return _settle(state, todo)


def _fired(state: PlanState, event: PlanEvent, todo: list[Command]) -> None:
    if state.timer and event.attempt == state.run and event.facts.get("timer") == "timeout":
        state.timer = 0.0
        if state.phase == progress.GOING:
            _fall_short(state, "timeout", todo)


def _cancel_requested(state: PlanState, event: PlanEvent, todo: list[Command]) -> None:
    if event.attempt != state.run or state.phase == progress.FINISHED:
        return
    if state.phase == progress.GOING:
        transitions.halt(state, "cancelled", "cancelled", todo)
        _settle(state, todo)
    else:
        state.outcome = state.why = "cancelled"
        if state.phase != progress.HALTING:
            transitions.finish(state, "cancelled", todo)  # a merge that is on its way comes too late


def _limits_changed(state: PlanState, event: PlanEvent, todo: list[Command]) -> None:
    facts, now = event.facts, state.limits
    state.limits = Limits(facts.get("max_parallel", now.max_parallel), facts.get("budget", now.budget))
    transitions.limit(state)
    _watch_budget(state, todo)
    _settle(state, todo)


def _merged(state: PlanState, event: PlanEvent, todo: list[Command]) -> None:
    if state.phase == progress.MERGING and event.attempt == state.run:
        transitions.merged(state, event.facts.get("status", "completed"), event.facts.get("why", ""), todo)


_OF_PLAN: dict[str, Callable[[PlanState, PlanEvent, list[Command]], None]] = {
    "PlanStarted": _plan_started,
    "Fired": _fired,
    "CancelRequested": _cancel_requested,
    "LimitsChanged": _limits_changed,
    "Merged": _merged,
}


# what follows


def _attempt_failed(state: PlanState, node: NodeState, why: str, again: bool, todo: list[Command]) -> None:
    """Try again, or the fallback agent, or take the partial result; or the node has failed."""
    node.why = why
    if state.phase == progress.GOING and again and _try_again(state, node):
        transitions.release(state, node)
        transitions.queue(state, node, todo)
    elif state.phase == progress.GOING and node.status == "partial" and state.plan.failure.fallback == "partial":
        node.state = progress.VERIFYING
        todo.append(progress.verify_command(node))
    else:
        transitions.release(state, node)
        transitions.node_failed(state, node, why, todo)
    _settle(state, todo)


def _try_again(state: PlanState, node: NodeState) -> bool:
    """Whether it has another attempt; its agent is noted."""
    failure = state.plan.failure
    if node.fallen or (node.spec.budget and node.spent >= node.spec.budget):
        return False
    if node.tries < failure.max_retries:
        node.tries += 1
        return True
    if failure.fallback in ("", "partial"):
        return False
    node.fallen, node.agent = True, failure.fallback
    return True


def _watch_budget(state: PlanState, todo: list[Command]) -> None:
    """Stop everything when the plan's budget is used up and a node still uses it."""
    if not state.budget or state.spent < state.budget or state.phase != progress.GOING:
        return
    if any(node.state in progress.AT_WORK for node in state.order):
        _fall_short(state, "budget", todo)


def _fall_short(state: PlanState, why: str, todo: list[Command]) -> None:
    """The plan's budget or time is over; the policy says what becomes of the results that are there."""
    transitions.halt(state, "short" if state.plan.failure.policy == "continue" else "failed", why, todo)
    _settle(state, todo)


def _settle(state: PlanState, todo: list[Command]) -> None:
    """Start what may start now, or end the plan if nothing is left."""
    if state.ready and state.phase == progress.GOING:
        transitions.fill(state, todo)
    if not state.live and (state.phase == progress.HALTING or (state.phase == progress.GOING and not state.open)):
        transitions.end(state, todo)
