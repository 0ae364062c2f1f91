"""How a plan's state changes: nodes start and hold a slot, files and budget; the plan halts, merges and finishes."""

from __future__ import annotations

from heapq import heappop, heappush

from overhand.plans import progress
from overhand.plans.order import may_overlap
from overhand.plans.progress import Command, NodeState, PlanState

# nodes that start


def limit(state: PlanState) -> None:
    """The tighter of the plan's own caps and those from outside."""
    plan, limits = state.plan, state.limits
    state.cap = 1 if plan.strategy == "sequential" else _tighter(plan.max_parallel, limits.max_parallel)
    state.budget = _tighter(plan.budget or 0, limits.budget)


def _tighter(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


def queue(state: PlanState, node: NodeState, todo: list[Command]) -> None:
    """All it depends on is verified."""
    if node.approved:
        node.state = progress.READY
        heappush(state.ready, node.rank)
    else:
        node.state = progress.HELD
        todo.append(progress.notice_command(node))


def fill(state: PlanState, todo: list[Command]) -> None:
    """Start what may start."""
    ready, cap = state.ready, state.cap
    while ready and (not cap or state.slots < cap) and state.phase == progress.GOING:
        node = state.order[ready[0]]
        if any(may_overlap(one, held) for writer in state.writers for held in writer.globs for one in node.globs):
            state.aside.append(heappop(ready))
        elif not state.budget or _fits(state, node):
            heappop(ready)
            _start(state, node, todo)
        elif state.live:
            return
        else:
            heappop(ready)
            node_failed(state, node, "its budget does not fit into what is left of the plan's", todo)


def _fits(state: PlanState, node: NodeState) -> bool:
    more = max(0, (node.spec.budget or 0) - node.spent)
    return state.committed < state.budget and state.committed + more <= state.budget


def _start(state: PlanState, node: NodeState, todo: list[Command]) -> None:
    node.state = progress.STARTING
    if node.attempt:
        node.status, node.result, node.digest = "", None, ""
    node.attempt += 1
    node.slot = True
    state.slots += 1
    state.live += 1
    if node.globs:
        state.writers.append(node)
    if node.spec.budget:
        node.reserved = node.spec.budget
        state.committed += max(0, node.reserved - node.spent)
    todo.append(progress.start_command(node))


def release(state: PlanState, node: NodeState) -> None:
    """It is not live any more: its slot, its files and what it did not use are free."""
    state.live -= 1
    if node.slot:
        node.slot = False
        state.slots -= 1
    if node.reserved:
        state.committed -= max(0, node.reserved - node.spent)
        node.reserved = 0
    if node.globs:
        state.writers.remove(node)
        for rank in state.aside:
            heappush(state.ready, rank)
        state.aside.clear()


def spend(state: PlanState, node: NodeState, tokens: int) -> None:
    """It has used so much in all; less than was known before is old news."""
    if tokens > node.spent:
        state.spent += tokens - node.spent
        state.committed += max(node.reserved, tokens) - max(node.reserved, node.spent)
        node.spent = tokens


# the plan's end


def node_failed(state: PlanState, node: NodeState, why: str, todo: list[Command]) -> None:
    """By the policy: go on without what depends on it, or stop everything."""
    node.state, node.why = progress.FAILED, why
    state.open -= 1
    if state.phase == progress.GOING:
        if state.plan.failure.policy == "continue":
            _skip(state, node)
        else:
            halt(state, "failed", "failed", todo)


def _skip(state: PlanState, node: NodeState) -> None:
    """All that depends on it, however far away, cannot be had."""
    line = list(node.after)
    while line:
        other = line.pop()
        if other.state == progress.PENDING:
            other.state, other.why = progress.SKIPPED, f"{node.spec.id} failed"
            state.open -= 1
            line += other.after


def halt(state: PlanState, outcome: str, why: str, todo: list[Command]) -> None:
    """Start nothing any more, and stop what has an agent; what is being verified ends by itself."""
    state.phase, state.outcome, state.why = progress.HALTING, outcome, why
    state.ready.clear()
    state.aside.clear()
    for node in state.order:
        if node.state in progress.AT_WORK:
            node.state, node.why = progress.STOPPING, why
            todo.append(progress.stop_command(node))
        elif node.state in (progress.PENDING, progress.READY, progress.HELD):
            node.state, node.why = progress.SKIPPED, why
            state.open -= 1


def end(state: PlanState, todo: list[Command]) -> None:
    """Nothing is live and nothing can start: merge what is there, or finish."""
    if state.phase == progress.HALTING and state.outcome in ("failed", "cancelled"):
        return finish(state, state.outcome, todo)
    if not state.verified or (state.plan.merge.strategy == "first_wins" and not state.winner):
        state.why = state.why or "no result holds"
        return finish(state, "failed", todo)
    _clear_timer(state, todo)
    state.phase = progress.MERGING
    return todo.append(progress.merge_command(state))


def merged(state: PlanState, status: str, why: str, todo: list[Command]) -> None:
    """The results are one, or could not be."""
    state.why = why or state.why
    finish(state, "partial" if status == "completed" and _short(state) else status, todo)


def _short(state: PlanState) -> bool:
    """Whether something is missing in what was merged."""
    if state.winner:
        return state.nodes[state.winner].status != "completed"
    return state.verified < len(state.order) or any(node.status != "completed" for node in state.order)


def finish(state: PlanState, status: str, todo: list[Command]) -> None:
    """The last command of a run."""
    _clear_timer(state, todo)
    state.phase, state.status = progress.FINISHED, status
    todo.append(progress.finish_command(state))


def _clear_timer(state: PlanState, todo: list[Command]) -> None:
    if state.timer:
        state.timer = 0.0
        todo.append(progress.clear_timer_command(state))
