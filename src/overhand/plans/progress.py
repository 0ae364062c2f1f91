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
    ended; an Ended that was not told yet is told before it |
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
from typing import Any, NamedTuple

from overhand.plans.model import Node, Plan
from overhand.plans.writers import Held, Lane

EVENTS = {
    "PlanStarted": "a run of the plan begins, or goes on after an end that fell short",
    "Found": "a node has a task, and the events that led there are lost",
    "Started": "a node's agent is at work (its task exists; it may be queued by the project's caps)",
    "Waiting": "a node waits for a person or a provider",
    "Resumed": "it goes on",
    "Usage": "what a node has used so far",
    "Ended": "a node's run is judged: status, result (a reference), digest",
    "Verified": "its result was compared with its contract and its edges: ok or why not",
    "Stopped": "a node that was to stop has stopped, or had ended before",
    "Fired": "a timer's time has come",
    "QuotaHit": "a node's provider has reached its limit",
    "CancelRequested": "a person stops the plan",
    "LimitsChanged": "the caps or the budget are others now",
    "Merged": "the results are one, or could not be",
}

PENDING, HELD, READY = "pending", "held", "ready"
STARTING, RUNNING, WAITING, VERIFYING, STOPPING = "starting", "running", "waiting", "verifying", "stopping"
VERIFIED, FAILED, SKIPPED, STOPPED = "verified", "failed", "skipped", "stopped"
STATES = {
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
LIVE = (STARTING, RUNNING, WAITING, VERIFYING, STOPPING)

NEW, GOING, HALTING, MERGING, FINISHED = "new", "running", "stopping", "merging", "finished"
PHASES = {
    NEW: "it was never started",
    GOING: "nodes start as they may",
    HALTING: "nothing starts any more; what is live ends",
    MERGING: "the results become one",
    FINISHED: "this run of the plan has ended",
}


class Event(NamedTuple):
    """One thing that happened; the only clock is `at`, seconds since 1970."""

    what: str
    at: float
    node: str = ""
    attempt: int = 0
    facts: Mapping[str, Any] = {}


def as_json(event: Event) -> dict[str, Any]:
    """An event as its line says it."""
    return {key: value for key, value in zip(event._fields, event, strict=True) if value not in ("", 0, {})}


def event_of(line: Mapping[str, Any]) -> Event | None:
    """The event that a line tells; None where it is none."""
    try:
        found = Event(**line)
    except TypeError:
        return None
    kinds = ((found.what, str), (found.at, (int, float)), (found.node, str), (found.attempt, int), (found.facts, dict))
    if not all(isinstance(value, kind) for value, kind in kinds):
        return None
    facts = found.facts
    fits = isinstance(facts.get("task", ""), str) and all(
        isinstance(facts.get(one, 0), int | float) for one in _FIGURES
    )
    return found if fits else None


_FIGURES = ("tokens", "seconds", "until", "max_parallel", "budget")


class Command(NamedTuple):
    """One thing to be done, once: it does nothing if it was done before."""

    what: str
    node: str = ""
    attempt: int = 0
    facts: Mapping[str, Any] = {}

    @property
    def id(self) -> str:
        """By which it is known to have been carried out."""
        return f"{self.node}.{self.attempt}.{self.what}"


class Limits(NamedTuple):
    """Caps from outside the plan; the tighter of these and the plan's own counts, 0 is none."""

    max_parallel: int = 0
    budget: int = 0
    """Tokens."""


class NodeState:
    """Where one node stands."""

    __slots__ = (
        "after", "agent", "approved", "attempt", "digest", "fallen", "lane", "missing", "rank", "reserved", "result",
        "slot", "spec", "spent", "state", "status", "tries", "why",
    )  # fmt: skip

    def __init__(self, spec: Node, rank: int) -> None:
        self.spec = spec
        self.rank = rank
        """Its place in the order of starting: priority, then the order of the plan."""
        self.state = PENDING
        self.attempt = 0
        """The latest attempt that was started; over all runs of the plan."""
        self.agent = spec.agent
        self.status = ""
        """As the latest attempt was judged."""
        self.result: Any = None
        self.digest = ""
        self.why = ""
        self.reserved = 0
        self.spent = 0
        self.missing = len(spec.needs)
        """How many of the nodes it depends on are not verified."""
        self.after = NOBODY
        """Those that depend on it."""
        self.tries = 0
        """Retries in this run of the plan."""
        self.fallen = False
        """Whether the fallback agent has it."""
        self.approved = not spec.requires_approval
        self.slot = False
        self.lane: Lane | None = None


NOBODY: list[NodeState] = []
"""One for all who have none; never appended to."""


class State:
    """Where a plan stands: the fold of its events."""

    __slots__ = (
        "aside", "budget", "cap", "committed", "files", "lanes", "limits", "live", "nodes", "open", "order", "outcome",
        "phase", "plan", "ready", "run", "slots", "spent", "status", "timer", "verified", "why", "winner",
    )  # fmt: skip

    def __init__(self, plan: Plan, limits: Limits) -> None:
        self.plan = plan
        self.limits = limits
        self.phase = NEW
        self.run = 0
        self.nodes: dict[str, NodeState] = {}
        self.order: list[NodeState] = []
        """By rank."""
        self.ready: list[int] = []
        """A heap of ranks."""
        self.aside: list[Lane] = []
        """Lanes whose first node waits for files of another lane."""
        self.files = Held()
        self.lanes: dict[tuple[str, ...], Lane] = {}
        """By what is declared; empty if no node declares files."""
        self.cap = 0
        self.slots = 0
        """In use; may exceed the cap by those that came back from waiting."""
        self.live = 0
        self.open = 0
        """Nodes that are not in a final state."""
        self.verified = 0
        self.budget = 0
        self.committed = 0
        """What live nodes may still use and all nodes have used."""
        self.spent = 0
        self.timer = 0.0
        """When the plan's time is up; 0 without a timer."""
        self.outcome = ""
        """Why it halts: won, short (merge what is there), failed, cancelled."""
        self.winner = ""
        self.status = ""
        """Of the run that finished."""
        self.why = ""
