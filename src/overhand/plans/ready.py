"""Which node starts, and what it holds while it is live: a slot, its files, its budget."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from overhand.plans import commands
from overhand.plans.ending import node_failed
from overhand.plans.progress import GOING, HELD, READY, STARTING

if TYPE_CHECKING:
    from overhand.plans.progress import Command, NodeState, State


def limit(state: State) -> None:
    """The tighter of the plan's own caps and those from outside."""
    plan, limits = state.plan, state.limits
    state.cap = 1 if plan.strategy == "sequential" else _tighter(plan.max_parallel, limits.max_parallel)
    state.budget = _tighter(plan.budget or 0, limits.budget)


def _tighter(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


def queue(state: State, node: NodeState, todo: list[Command]) -> None:
    """All it depends on is verified."""
    if node.approved:
        node.state = READY
        heappush(state.ready, node.rank)
    else:
        node.state = HELD
        todo.append(commands.notice(node))


def fill(state: State, todo: list[Command]) -> None:
    """Start what may start."""
    ready, cap = state.ready, state.cap
    if not (cap or state.budget or state.lanes):
        ready.sort()
        for rank in ready:
            _start(state, state.order[rank], todo)
        return ready.clear()
    while ready and (not cap or state.slots < cap) and state.phase == GOING:
        node = state.order[ready[0]]
        lane = node.lane
        if lane is not None and (lane.shut or state.files.clash(lane)):
            heappush(lane.line, heappop(ready))
            if not lane.shut:
                lane.shut = True
                state.aside.append(lane)
        elif not state.budget or _fits(state, node):
            heappop(ready)
            _start(state, node, todo)
        elif state.live:
            return None
        else:
            heappop(ready)
            if lane is not None and lane.line:
                heappush(ready, heappop(lane.line))
            node_failed(state, node, "its budget does not fit into what is left of the plan's", todo)
    return None


def _fits(state: State, node: NodeState) -> bool:
    more = max(0, (node.spec.budget or 0) - node.spent)
    return state.committed < state.budget and state.committed + more <= state.budget


def _start(state: State, node: NodeState, todo: list[Command]) -> None:
    node.state = STARTING
    if node.attempt:
        node.status, node.result, node.digest = "", None, ""
    node.attempt += 1
    node.slot = True
    state.slots += 1
    state.live += 1
    if node.lane is not None:
        node.lane.shut = True
        state.files.take(node.lane)
    if node.spec.budget:
        node.reserved = node.spec.budget
        state.committed += max(0, node.reserved - node.spent)
    todo.append(commands.start(node))


def release(state: State, node: NodeState) -> None:
    """It is not live any more: its slot, its files and what it did not use are free."""
    state.live -= 1
    if node.slot:
        node.slot = False
        state.slots -= 1
    if node.reserved:
        state.committed -= max(0, node.reserved - node.spent)
        node.reserved = 0
    if node.lane is not None:
        state.files.free(node.lane)
        for lane in (node.lane, *state.aside):
            lane.shut = False
            if lane.line:
                heappush(state.ready, heappop(lane.line))
        state.aside.clear()


def spend(state: State, node: NodeState, tokens: int) -> None:
    """It has used so much in all; less than was known before is old news."""
    if tokens > node.spent:
        state.spent += tokens - node.spent
        state.committed += max(node.reserved, tokens) - max(node.reserved, node.spent)
        node.spent = tokens
