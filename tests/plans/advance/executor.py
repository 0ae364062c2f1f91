"""Whoever executes a plan's commands, as small as can be, who looks on and knows the rules by another way."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from overhand.plans import (
    FAILED,
    LIVE_STATES,
    NODE_STATES,
    SKIPPED,
    STOPPED,
    VERIFIED,
    PlanEvent,
    PlanState,
    advance_plan,
    new_plan_state,
)
from overhand.plans.order import glob_parts, may_overlap
from overhand.plans.progress import Command, Limits, NodeState, pending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.plans import Plan

FILES = ("a.py", "b.py", "src/a.py", "src/b.py", "src/deep/c.py", "docs/d.md")
"""All the files there are in these plans."""
CONFIRMS = {
    "Start": ("Started", "Waiting", "QuotaHit", "Ended"),
    "Verify": ("Verified",),
    "Stop": ("Stopped",),
    "Notice": ("Resumed", "Ended"),
    "Merge": ("Merged",),
    "SetTimer": ("Fired",),
}
NEXT = {
    "pending": ("held", "ready", "starting", "skipped", "failed"),
    "held": ("ready", "starting", "skipped", "failed", "pending"),
    "ready": ("starting", "skipped", "failed"),
    "starting": ("running", "waiting", "verifying", "stopping", "ready", "starting", "failed", "skipped"),
    "running": ("waiting", "verifying", "stopping", "ready", "starting", "failed", "skipped"),
    "waiting": ("running", "verifying", "stopping", "ready", "starting", "failed", "skipped"),
    "verifying": ("verified", "ready", "starting", "failed", "skipped"),
    "stopping": ("stopped", "verifying"),
    "verified": (),
    "failed": ("pending", "held", "ready", "starting", "skipped"),
    "skipped": ("pending", "held", "ready", "starting", "failed"),
    "stopped": ("pending", "held", "ready", "starting", "skipped", "failed"),
}
"""What may become of a node by one event; the last three only when the plan is started again."""


class Executor:
    """One plan, its events, and what an onlooker knows of it; every command is checked when it is asked for."""

    def __init__(self, plan: Plan, limits: Limits = Limits()) -> None:  # noqa: B008 -- it never changes
        self.plan = plan
        self.limits = self.first_limits = limits
        self.state = new_plan_state(plan, limits)
        self.events: list[PlanEvent] = []
        self.asked: dict[str, Command] = {}
        """Commands that nobody has confirmed."""
        self.attempts = dict.fromkeys(plan.nodes, 0)
        self.live: dict[str, str] = {}
        """Nodes with an agent or with a result that is being checked: working, waiting, checked, or stopping."""
        self.slots: set[str] = set()
        self.verified: set[str] = set()
        self.approved: set[str] = set()
        self.spent = dict.fromkeys(plan.nodes, 0)
        self.tried = dict.fromkeys(plan.nodes, 0)
        """Attempts in this run, or before its events were lost."""
        self.finished: set[int] = set()
        """The runs that have ended; number 0 is the end of a plan that was stopped before it began."""
        self.runs = 0
        self.cancelled = False

    # events

    def feed(self, what: str, node: str = "", attempt: int | None = None, **facts: Any) -> list[Command]:
        """Something happens; of the attempt that it can be of."""
        if attempt is None:
            attempt = self.attempts[node] if node else self.state.run
        return self.happens(PlanEvent(what, float(len(self.events)), node, attempt, facts))

    def happens(self, event: PlanEvent) -> list[Command]:
        """Record it, decide, and look at what was decided."""
        before = {name: node.state for name, node in self.state.nodes.items()}
        self.events.append(event)
        commands = advance_plan(self.plan, self.state, event)
        self._know(event)
        for command in commands:
            self._look_at(command)
        for name, node in self.state.nodes.items():
            assert node.state == before[name] or node.state in NEXT[before[name]], (event, before[name], node.state)
        return commands

    def begin(self) -> list[Command]:
        """A run of the plan."""
        return self.feed("PlanStarted", attempt=self.state.run + 1)

    def ends(self, node: str, status: str = "completed", **facts: Any) -> list[Command]:
        """Its run is judged."""
        return self.feed("Ended", node, status=status, result=f"{node}.{self.attempts[node]}", **facts)

    def does(self, node: str) -> list[Command]:
        """It completes, and is verified."""
        self.ends(node)
        return self.feed("Verified", node, ok=True)

    def crash(self) -> None:
        """All that is left are the events: the state of their fold is the same."""
        state = new_plan_state(self.plan, self.first_limits)
        for event in self.events:
            advance_plan(self.plan, state, event)
        assert snapshot(state) == snapshot(self.state)
        assert pending(state) == pending(self.state)
        self.state = state

    def _know(self, event: PlanEvent) -> None:
        """What an onlooker learns from an event that is of now."""
        what, _, node, attempt, facts = event
        self.asked = {key: one for key, one in self.asked.items() if not _confirms(event, one)}
        if what == "LimitsChanged":
            self.limits = self.limits._replace(**{key: facts[key] for key in Limits._fields if key in facts})
        elif what == "PlanStarted" and self.state.run > self.runs:
            self.runs, self.cancelled = self.state.run, False
            if self.runs > 1 or 0 in self.finished:
                self.tried = dict.fromkeys(self.plan.nodes, 0)
        elif what == "Found" and self.state.phase == "new":
            failure = self.plan.failure
            most = failure.max_retries + (failure.fallback not in ("", "partial"))
            self.attempts[node] = max(self.attempts[node], attempt - 1)
            self.tried[node] = min(self.attempts[node], most)
            self.approved.add(node)
        elif what == "CancelRequested" and attempt == self.state.run and self.state.outcome == "cancelled":
            self.cancelled = True
        elif what == "Resumed" and attempt == self.attempts.get(node, -2) + 1:
            self.approved.add(node)
        elif what == "Ended" and node in self.attempts and attempt == self.attempts[node] + 1:
            self.attempts[node] += self.state.nodes[node].attempt == attempt  # a person said no
        if node not in self.live or attempt != self.attempts[node]:
            return
        self.spent[node] = max(self.spent[node], facts.get("tokens", 0))
        if what in ("Waiting", "QuotaHit") and self.live[node] == "working":
            self.live[node] = "waiting"
            if self.plan.strategy != "sequential":
                self.slots.discard(node)
        elif what == "Resumed" and self.live[node] == "waiting":
            self.live[node] = "working"
            self.slots.add(node)
        elif self.state.nodes[node].state not in LIVE_STATES or what in ("Ended", "Verified"):
            self._over(what, node, ok=facts.get("ok", False))

    def _over(self, what: str, node: str, *, ok: bool) -> None:
        """It is not at work any more."""
        if what == "Verified" and self.live[node] == "checked":
            if ok:
                self.verified.add(node)
            self._gone(node)
        elif what == "Ended" and self.live[node] in ("working", "waiting"):
            if self.state.nodes[node].state == "verifying":
                self.live[node] = "checked"
            else:
                self._gone(node)
        elif what == "Stopped" and self.live[node] == "stopping":
            self._gone(node)

    def _gone(self, node: str) -> None:
        self.live.pop(node)
        self.slots.discard(node)

    # commands

    def _look_at(self, command: Command) -> None:
        if command.what in CONFIRMS:
            assert command.id not in self.asked
            self.asked[command.id] = command
        getattr(self, f"_{command.what.lower()}", lambda _: None)(command)

    def _start(self, command: Command) -> None:
        node = self.plan.nodes[command.node]
        assert self.state.phase == "running" or any(one.startswith(f"{node.id}.") for one in self.asked)
        assert not self.cancelled
        assert set(node.needs) <= self.verified
        assert node.id not in self.verified
        assert node.id not in self.live
        assert not node.requires_approval or node.id in self.approved
        assert command.attempt == self.attempts[node.id] + 1
        assert not (cap := self.cap) or len(self.slots) < cap
        assert not any(share_a_file(node.writes, self.plan.nodes[other].writes) for other in self.live)
        self._check_attempts(command)
        self.attempts[node.id] = command.attempt
        self.live[node.id] = "working"
        self.slots.add(node.id)
        if budget := self.budget:
            held = sum(
                max(self.spent[n], (one.budget or 0) if n in self.live else 0) for n, one in self.plan.nodes.items()
            )
            assert held <= budget
            assert sum(self.spent.values()) < budget

    def _check_attempts(self, command: Command) -> None:
        """First itself, then retries, then the fallback agent, once."""
        failure, node = self.plan.failure, self.plan.nodes[command.node]
        number = self.tried[node.id] = self.tried[node.id] + 1
        reason = "first" if number == 1 else "retry" if number <= failure.max_retries + 1 else "fallback"
        assert command.facts["reason"] == reason
        assert command.facts["agent"] == (failure.fallback if reason == "fallback" else node.agent)
        assert number <= failure.max_retries + 1 + (failure.fallback not in ("", "partial"))

    def _stop(self, command: Command) -> None:
        assert self.live[command.node] in ("working", "waiting")
        assert command.attempt == self.attempts[command.node]
        self.live[command.node] = "stopping"
        self.asked.pop(f"{command.node}.{command.attempt}.Start", None)

    def _verify(self, command: Command) -> None:
        assert command.attempt == self.attempts[command.node]
        assert command.facts["status"] in ("completed", "partial")
        self.live[command.node] = "checked"

    def _clear(self, *kinds: str) -> None:
        self.asked = {key: one for key, one in self.asked.items() if one.what not in kinds}

    def _cleartimer(self, _: Command) -> None:
        self._clear("SetTimer")

    def _merge(self, command: Command) -> None:
        assert not self.live
        assert not self.cancelled
        assert set(command.facts["results"]) == self.verified
        winner = command.facts["winner"]
        assert (winner in self.verified) == (self.plan.merge.strategy == "first_wins")

    def _finish(self, command: Command) -> None:
        assert not self.live
        assert command.attempt == self.state.run
        assert self.state.run not in self.finished
        self.finished.add(self.state.run)
        assert (command.facts["status"] == "cancelled") >= self.cancelled
        self._clear("Merge", "Notice")

    # looking on

    @property
    def cap(self) -> int:
        """How many may be at work."""
        if self.plan.strategy == "sequential":
            return 1
        return min((cap for cap in (self.plan.max_parallel, self.limits.max_parallel) if cap), default=0)

    @property
    def budget(self) -> int:
        """Tokens of all together."""
        return min((cap for cap in (self.plan.budget, self.limits.budget) if cap), default=0)

    def check(self) -> None:
        """What holds at any moment."""
        state = self.state
        nodes = state.nodes.values()
        self.asked = {key: one for key, one in self.asked.items() if one.what != "Notice" or self._holds(one)}
        if state.phase != "finished":
            assert {one.id: one for one in pending(state)} == self.asked
        assert all(node.state in NODE_STATES for node in nodes)
        assert state.live == sum(node.state in LIVE_STATES for node in nodes) == len(self.live)
        assert state.slots == len(self.slots) == sum(node.slot for node in nodes)
        assert state.open == sum(node.state not in (VERIFIED, FAILED, SKIPPED, STOPPED) for node in nodes)
        assert {node.spec.id for node in nodes if node.state == "verified"} == self.verified
        assert state.spent == sum(self.spent.values())
        assert state.committed == sum(max(node.reserved, node.spent) for node in nodes)
        self._check_not_stuck()
        self._check_nobody_idles()

    def _holds(self, notice: Command) -> bool:
        return self.state.nodes[notice.node].state == "held"

    def _check_not_stuck(self) -> None:
        if self.state.phase in ("running", "stopping", "merging"):
            waits = any(node.state in ("running", "waiting") for node in self.state.nodes.values())
            assert waits or any(command.what != "SetTimer" for command in pending(self.state))
            assert self.state.phase == "running" or not waits

    def _check_nobody_idles(self) -> None:
        """As parallel as dependencies, caps and files allow; a budget may hold more back."""
        ready = [node for node in self.state.nodes.values() if node.state == "ready"]
        full = bool(self.cap) and len(self.slots) >= self.cap
        if not full and not self.budget:
            held = [glob for name in self.live for glob in self.plan.nodes[name].writes]
            assert all(any(overlap(one, other) for one in node.spec.writes for other in held) for node in ready)


def _confirms(event: PlanEvent, command: Command) -> bool:
    same = (event.node, event.attempt) == (command.node, command.attempt)
    return same and event.what in CONFIRMS.get(command.what, ())


def overlap(one: str, other: str) -> bool:
    """Whether two globs may name one file."""
    return may_overlap(glob_parts(one), glob_parts(other))


def share_a_file(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether a file of these plans is matched by both."""
    return any(_names(path, one) and _names(path, other) for path in FILES)


def _names(path: str, globs: Iterable[str]) -> bool:
    """A glob names a file, or a folder above it; `*` within a name, `**` over folders."""
    folders = ["/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 2)]
    return any(_matches(folder.split("/"), glob.strip("/").split("/")) for glob in globs for folder in folders)


def _matches(path: list[str], glob: list[str]) -> bool:
    if not glob:
        return not path
    if glob[0] == "**":
        return _matches(path, glob[1:]) or (bool(path) and _matches(path[1:], glob))
    return bool(path) and fnmatchcase(path[0], glob[0]) and _matches(path[1:], glob[1:])


def snapshot(state: PlanState) -> dict[str, Any]:
    """All of a state, to be compared."""
    left_out = ("plan", "nodes", "order", "writers")
    found: dict[str, Any] = {name: getattr(state, name) for name in PlanState.__slots__ if name not in left_out}
    found["writers"] = [node.spec.id for node in state.writers]
    found["nodes"] = {name: _one(node) for name, node in state.nodes.items()}
    return {**found, "ready": list(state.ready), "aside": list(state.aside)}


def _one(node: NodeState) -> dict[str, Any]:
    return {name: getattr(node, name) for name in NodeState.__slots__ if name not in ("spec", "after")}
