"""How a plan comes to its end: a node that failed, everything stopped, results merged, the run finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import commands
from overhand.plans.progress import (
    FAILED,
    FINISHED,
    GOING,
    HALTING,
    HELD,
    MERGING,
    PENDING,
    READY,
    RUNNING,
    SKIPPED,
    STARTING,
    STOPPING,
    WAITING,
)

if TYPE_CHECKING:
    from overhand.plans.progress import Command, NodeState, State


def node_failed(state: State, node: NodeState, why: str, todo: list[Command]) -> None:
    """By the policy: go on without what depends on it, or stop everything."""
    node.state, node.why = FAILED, why
    state.open -= 1
    if state.phase == GOING:
        if state.plan.failure.policy == "continue":
            _skip(state, node)
        else:
            halt(state, "failed", "failed", todo)


def _skip(state: State, node: NodeState) -> None:
    """All that depends on it, however far away, cannot be had."""
    line = list(node.after)
    while line:
        other = line.pop()
        if other.state == PENDING:
            other.state, other.why = SKIPPED, f"{node.spec.id} failed"
            state.open -= 1
            line += other.after


def halt(state: State, outcome: str, why: str, todo: list[Command]) -> None:
    """Start nothing any more, and stop what has an agent; what is being verified ends by itself."""
    state.phase, state.outcome, state.why = HALTING, outcome, why
    state.ready.clear()
    for lane in state.aside:
        lane.shut = False
    state.aside.clear()
    for node in state.order:
        if node.lane is not None:
            node.lane.line.clear()
        if node.state in (STARTING, RUNNING, WAITING):
            node.state, node.why = STOPPING, why
            todo.append(commands.stop(node))
        elif node.state in (PENDING, READY, HELD):
            node.state, node.why = SKIPPED, why
            state.open -= 1


def end(state: State, todo: list[Command]) -> None:
    """Nothing is live and nothing can start: merge what is there, or finish."""
    if state.phase == HALTING and state.outcome in ("failed", "cancelled"):
        return finish(state, state.outcome, todo)
    if not state.verified or (state.plan.merge.strategy == "first_wins" and not state.winner):
        state.why = state.why or "no result holds"
        return finish(state, "failed", todo)
    _clear_timer(state, todo)
    state.phase = MERGING
    return todo.append(commands.merge(state))


def merged(state: State, status: str, why: str, todo: list[Command]) -> None:
    """The results are one, or could not be."""
    state.why = why or state.why
    finish(state, "partial" if status == "completed" and _short(state) else status, todo)


def _short(state: State) -> bool:
    """Whether something is missing in what was merged."""
    if state.winner:
        return state.nodes[state.winner].status != "completed"
    return state.verified < len(state.order) or any(node.status != "completed" for node in state.order)


def finish(state: State, status: str, todo: list[Command]) -> None:
    """The last command of a run."""
    _clear_timer(state, todo)
    state.phase, state.status = FINISHED, status
    todo.append(commands.finish(state))


def _clear_timer(state: State, todo: list[Command]) -> None:
    if state.timer:
        state.timer = 0.0
        todo.append(commands.clear_timer(state))
