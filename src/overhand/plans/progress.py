"""What happens to a plan: events that go in, commands that come out, and the state between them.

Every event of a node carries the node's id and the attempt of the command it answers; an event of another attempt, one
that comes twice, one that does not fit the node's state and an unknown one change nothing. Events of the plan
have node "" and, as attempt, the number of the plan's run (`state.run`). Facts may be left out where nothing else is
said. Waiting and Resumed say how it is now: the latest counts.

| event | attempt | facts | answered by |
|---|---|---|---|
| PlanStarted | `state.run + 1` | | SetTimer, Start, Notice; or Merge at once if all results are there |
| Found | that its task is at | `task` | nothing; before the first PlanStarted only |
| Started | of Start | | nothing |
| Waiting | of Start | `why` | Start of others: it gives its slot back and keeps its files |
| Resumed | of Start, or of Notice (approved) | | nothing, or Start of an approved node |
| QuotaHit | of Start | `why`, `until` | as Waiting, with Resumed |
| Usage | of Start | `tokens`: what the node has used in all its attempts | Stop of all when the plan's is used up |
| Ended | of Start; of Notice: a person said no | `status` as judged, `result`, `digest`, `why`, `tokens`,
    `again`: False where another attempt must not be made (leftovers, stopped by a person) | Verify; else Start again,
    Stop of all, Merge or Finish |
| Verified | of Verify | `ok` (needed), `why` | Start of dependents; or of the node again; Stop of the rest; Merge |
| Stopped | of Stop | `tokens` | what was waiting for it: Start, Verify if it had completed before, Merge, Finish |
| Fired | `state.run` | `timer` as in SetTimer | Stop of all |
| CancelRequested | `state.run` | `why` | Stop of all; Finish at once if it merges or was never started |
| LimitsChanged | any | `max_parallel`, `budget`: those that change; 0 is no cap | Start; Stop of all |
| Merged | `state.run` | `status`: completed (default), partial, blocked, failed; `why` | Finish |

| command | attempt | facts | confirmed by |
|---|---|---|---|
| Start | of the node, from 1, each once | `agent`, `budget` (tokens of the node in all, 0: none), `reason`: first,
    retry or fallback, `why`: what was wrong with the attempt before | Started, or Waiting, QuotaHit, Ended without it |
| Verify | of the node | `status` (completed, or partial where partial results count), `result`, `digest` | Verified |
| Stop | of the node | `why`: won, failed, budget, timeout or cancelled | Stopped, always, also if it never began or had
    ended; an Ended that was not reported yet is reported before it |
| Notice | the attempt that approval would begin | `kind`: approval | Resumed (yes) or Ended (no) with that attempt |
| SetTimer | `state.run` | `timer`: timeout, `at`: seconds since 1970 | Fired; gone after ClearTimer, Merge or Finish |
| ClearTimer | `state.run` | `timer` | nothing |
| Merge | `state.run` | `strategy`, `results`: verified nodes in plan order, `winner` (first_wins) or "" | Merged |
| Finish | `state.run` | `status`: completed, partial, blocked, failed or cancelled, `why`, and the ids of nodes that
    `failed`, were `skipped`, `stopped`, or whose result is `partial` | nothing: once per run, the last of it |

Commands are carried out in the order of the list. A Start that was followed by a Stop must not begin any more. After a
fold the pending ones are carried out, also a Finish of which nothing is known; PlanStarted is for another run only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.plans.model import Node, Plan

if TYPE_CHECKING:
    from collections.abc import Callable


PENDING, HELD, READY = "pending", "held", "ready"
STARTING, RUNNING, WAITING, VERIFYING, STOPPING = "starting", "running", "waiting", "verifying", "stopping"
VERIFIED, FAILED, SKIPPED, STOPPED = "verified", "failed", "skipped", "stopped"
NODE_STATES = {
    PENDING: "what it depends on is not verified yet",
    HELD: "it needs a person's approval",
    READY: "it waits for a slot, for files or for budget",
    STARTING: "it is to be started",
    RUNNING: "its agent is at work",
    WAITING: "it waits for a person or a provider",
    VERIFYING: "its agent is done, the result is being checked",
    STOPPING: "it is to stop",
    VERIFIED: "its result holds",
    FAILED: "no attempt brought a result that holds",
    SKIPPED: "it was not started: it is not needed any more, or cannot be had",
    STOPPED: "it was stopped",
}
AT_WORK = (STARTING, RUNNING, WAITING)
LIVE_STATES = (*AT_WORK, VERIFYING, STOPPING)

# phases of a plan: not begun; nodes start; nothing starts and live nodes end; the results are merged; the run has ended
NEW, GOING, HALTING, MERGING, FINISHED = "new", "running", "stopping", "merging", "finished"


class PlanEvent(NamedTuple):
    """One thing that happened; the only clock is `at`, seconds since 1970."""

    what: str
    at: float
    node: str = ""
    attempt: int = 0
    facts: Mapping[str, Any] = {}


def as_json(event: PlanEvent) -> dict[str, Any]:
    return {key: value for key, value in zip(event._fields, event, strict=True) if value not in ("", 0, {})}


def plan_event(line: Mapping[str, Any]) -> PlanEvent | None:
    """The event in a line of plan.jsonl; None where the line holds none."""
    try:
        found = PlanEvent(**line)
    except TypeError:
        return None
    kinds = ((found.what, str), (found.at, (int, float)), (found.node, str), (found.attempt, int), (found.facts, dict))
    if not all(isinstance(value, kind) for value, kind in kinds):
        return None
    facts = found.facts
    figures = (facts.get(one, 0) for one in ("tokens", "seconds", "until", "max_parallel", "budget"))
    fits = isinstance(facts.get("task", ""), str) and all(isinstance(one, int | float) for one in figures)
    return found if fits else None


class Command(NamedTuple):
    """One thing to be done, once: it does nothing if it was done before."""

    what: str
    node: str = ""
    attempt: int = 0
    facts: Mapping[str, Any] = {}

    @property
    def id(self) -> str:
        """The cause in a task's log that shows that the command was executed."""
        return f"{self.node}.{self.attempt}.{self.what}"


class Limits(NamedTuple):
    """Caps from outside the plan; the tighter of these and the plan's own counts, 0 is none."""

    max_parallel: int = 0
    budget: int = 0  # tokens


@dataclass(slots=True, eq=False)
class NodeState:
    """Where one node stands."""

    spec: Node
    rank: int  # its place in the order of starting: priority, then the order of the plan
    globs: tuple[tuple[str, ...], ...]  # the files that it declares to write, as `order.glob_parts` has them
    state: str = PENDING
    attempt: int = 0  # the latest attempt that was started, over all runs of the plan
    agent: str = ""
    status: str = ""  # the verdict on the latest attempt
    result: Any = None
    digest: str = ""
    why: str = ""
    reserved: int = 0
    spent: int = 0
    missing: int = 0  # how many of the nodes it depends on are not verified
    after: list[NodeState] = field(default_factory=list)  # the nodes that depend on it
    tries: int = 0  # retries in this run of the plan
    fallen: bool = False  # whether the fallback agent has it
    approved: bool = False
    slot: bool = False


@dataclass(slots=True, eq=False)
class PlanState:
    """Where a plan stands: the fold of its events."""

    plan: Plan
    limits: Limits
    phase: str = NEW
    run: int = 0
    nodes: dict[str, NodeState] = field(default_factory=dict)
    order: list[NodeState] = field(default_factory=list)  # by rank
    ready: list[int] = field(default_factory=list)  # a heap of ranks
    aside: list[int] = field(default_factory=list)  # ranks of nodes that could start but for their files
    writers: list[NodeState] = field(default_factory=list)  # live nodes that declare files
    cap: int = 0
    slots: int = 0  # in use; nodes that came back from waiting may exceed the cap
    live: int = 0
    open: int = 0  # nodes that are not in a final state
    verified: int = 0
    budget: int = 0
    committed: int = 0  # what live nodes may still use and all nodes have used
    spent: int = 0
    timer: float = 0.0  # when the plan's time is up; 0 without a timer
    outcome: str = ""  # why it halts: won, short (merge what is there), failed, cancelled
    winner: str = ""
    status: str = ""  # of the run that finished
    why: str = ""


# commands are made from the state alone, so that they can be asked for again after a crash


def pending(state: PlanState) -> list[Command]:
    """What was asked for and is not confirmed, exactly as it was asked for; after a finished run its Finish."""
    if state.phase == FINISHED:
        return [finish_command(state)]
    if state.phase == MERGING:
        return [merge_command(state)]
    asked = [set_timer_command(state)] if state.timer else []
    return asked + [_ASKED[node.state](node) for node in state.order if node.state in _ASKED]


def start_command(node: NodeState) -> Command:
    reason = "fallback" if node.fallen else "retry" if node.tries else "first"
    facts = {"agent": node.agent, "budget": node.spec.budget or 0, "reason": reason, "why": node.why}
    return Command("Start", node.spec.id, node.attempt, facts)


def verify_command(node: NodeState) -> Command:
    facts = {"status": node.status, "result": node.result, "digest": node.digest}
    return Command("Verify", node.spec.id, node.attempt, facts)


def stop_command(node: NodeState) -> Command:
    return Command("Stop", node.spec.id, node.attempt, {"why": node.why})


def notice_command(node: NodeState) -> Command:
    return Command("Notice", node.spec.id, node.attempt + 1, {"kind": "approval"})


def set_timer_command(state: PlanState) -> Command:
    return Command("SetTimer", "", state.run, {"timer": "timeout", "at": state.timer})


def clear_timer_command(state: PlanState) -> Command:
    return Command("ClearTimer", "", state.run, {"timer": "timeout"})


def merge_command(state: PlanState) -> Command:
    results = [name for name in state.plan.nodes if state.nodes[name].state == VERIFIED]
    facts = {"strategy": state.plan.merge.strategy, "results": results, "winner": state.winner}
    return Command("Merge", "", state.run, facts)


def finish_command(state: PlanState) -> Command:
    found: dict[str, list[str]] = {FAILED: [], SKIPPED: [], STOPPED: [], "partial": []}
    for name in state.plan.nodes:
        node = state.nodes[name]
        kind = "partial" if node.state == VERIFIED and node.status == "partial" else node.state
        if kind in found:
            found[kind].append(name)
    return Command("Finish", "", state.run, {"status": state.status, "why": state.why, **found})


_ASKED: dict[str, Callable[[NodeState], Command]] = {
    STARTING: start_command,
    VERIFYING: verify_command,
    STOPPING: stop_command,
    HELD: notice_command,
}
