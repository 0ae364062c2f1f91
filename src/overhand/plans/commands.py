"""Commands as they are asked for, made from the state alone, so that they can be asked for again after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import progress
from overhand.plans.progress import Command, NodeState, PlanState

if TYPE_CHECKING:
    from collections.abc import Callable


def pending(state: PlanState) -> list[Command]:
    """What was asked for and is not confirmed, exactly as it was asked for; after a finished run its Finish."""
    if state.phase == progress.FINISHED:
        return [finish(state)]
    if state.phase == progress.MERGING:
        return [merge(state)]
    asked = [set_timer(state)] if state.timer else []
    return asked + [_ASKED[node.state](node) for node in state.order if node.state in _ASKED]


def start(node: NodeState) -> Command:
    reason = "fallback" if node.fallen else "retry" if node.tries else "first"
    facts = {"agent": node.agent, "budget": node.spec.budget or 0, "reason": reason, "why": node.why}
    return Command("Start", node.spec.id, node.attempt, facts)


def verify(node: NodeState) -> Command:
    facts = {"status": node.status, "result": node.result, "digest": node.digest}
    return Command("Verify", node.spec.id, node.attempt, facts)


def stop(node: NodeState) -> Command:
    return Command("Stop", node.spec.id, node.attempt, {"why": node.why})


def notice(node: NodeState) -> Command:
    return Command("Notice", node.spec.id, node.attempt + 1, {"kind": "approval"})


def set_timer(state: PlanState) -> Command:
    return Command("SetTimer", "", state.run, {"timer": "timeout", "at": state.timer})


def clear_timer(state: PlanState) -> Command:
    return Command("ClearTimer", "", state.run, {"timer": "timeout"})


def merge(state: PlanState) -> Command:
    results = [name for name in state.plan.nodes if state.nodes[name].state == progress.VERIFIED]
    facts = {"strategy": state.plan.merge.strategy, "results": results, "winner": state.winner}
    return Command("Merge", "", state.run, facts)


def finish(state: PlanState) -> Command:
    found: dict[str, list[str]] = {progress.FAILED: [], progress.SKIPPED: [], progress.STOPPED: [], "partial": []}
    for name in state.plan.nodes:
        node = state.nodes[name]
        kind = "partial" if node.state == progress.VERIFIED and node.status == "partial" else node.state
        if kind in found:
            found[kind].append(name)
    return Command("Finish", "", state.run, {"status": state.status, "why": state.why, **found})


_ASKED: dict[str, Callable[[NodeState], Command]] = {
    progress.STARTING: start,
    progress.VERIFYING: verify,
    progress.STOPPING: stop,
    progress.HELD: notice,
}
