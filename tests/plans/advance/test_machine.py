"""Any plan, any order of events, failures, retries, stops, waits, duplicates and crashes: the rules hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from overhand.plans import Plan, PlanEvent
from overhand.plans.merge import MERGES
from overhand.plans.model import POLICIES, STRATEGIES, Failure, Merge, Node
from overhand.plans.progress import Limits
from plans.advance.executor import FILES, Executor, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

GLOBS = (*FILES, "*.py", "src/**", "src/*.py", "src", "**/*.md", "docs/")
SOME = st.sampled_from
EVENTS = (
    *("PlanStarted", "Found", "Started", "Waiting", "Resumed", "Usage", "Ended", "Verified", "Stopped", "Fired"),
    *("QuotaHit", "CancelRequested", "LimitsChanged", "Merged"),
)
SIZES = st.one_of(st.just(0), st.integers(1, 3))
TOKENS = st.integers(0, 60)
LEVEL = ("Waiting", "QuotaHit", "Resumed", "LimitsChanged")
"""What says how it is now: said again later, it is news."""


@st.composite
def plans(draw: Callable[[Any], Any]) -> Plan:
    """Up to seven nodes; dependencies go backwards, and the order of the file is another one."""
    count = draw(st.integers(1, 7))
    budgets = draw(st.booleans())
    nodes = [
        Node(
            id=f"n{i}",
            agent="worker",
            needs=tuple(f"n{j}" for j in sorted(draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else ())),
            priority=draw(SOME(("P0", "P1", "P2", "P2", "P3"))),
            writes=tuple(draw(st.lists(SOME(GLOBS), max_size=2, unique=True))),
            budget=draw(st.one_of(st.none(), st.integers(1, 60))) if budgets else None,
            requires_approval=draw(SOME((False, False, False, True))),
        )
        for i in range(count)
    ]
    fallback = draw(SOME(("", "", "partial", "helper")))
    return Plan(
        task="anything",
        nodes={node.id: node for node in draw(st.permutations(nodes))},
        merge=Merge(strategy=draw(SOME(sorted(MERGES)))),
        failure=Failure(policy=draw(SOME(POLICIES)), max_retries=draw(st.integers(0, 2)), fallback=fallback),
        strategy=draw(SOME(("", *STRATEGIES))),
        max_parallel=draw(SIZES),
        budget=draw(st.one_of(st.none(), st.integers(1, 150))) if budgets else None,
        timeout=draw(SOME((None, 100.0))),
    )


class Course(RuleBasedStateMachine):
    """A plan in the hands of an executor to whom everything happens."""

    @initialize(plan=plans(), cap=SIZES)
    def plan_is_there(self, plan: Plan, cap: int) -> None:
        self.at = Executor(plan, Limits(max_parallel=cap))

    def some(self, data: st.DataObject, *states: str) -> str:
        return str(data.draw(SOME([name for name, node in self.at.state.nodes.items() if node.state in states])))

    def any_is(self, *states: str) -> bool:
        return any(node.state in states for node in self.at.state.nodes.values())

    @precondition(lambda self: self.at.state.phase in ("new", "finished"))
    @rule()
    def begins(self) -> None:
        self.at.begin()

    @precondition(lambda self: self.at.state.phase == "new")
    @rule(data=st.data(), attempt=st.integers(1, 4))
    def is_found(self, data: st.DataObject, attempt: int) -> None:
        self.at.feed("Found", self.some(data, "pending"), attempt)

    @precondition(lambda self: self.any_is("starting"))
    @rule(data=st.data())
    def starts(self, data: st.DataObject) -> None:
        self.at.feed("Started", self.some(data, "starting"))

    @precondition(lambda self: self.any_is("starting", "running", "waiting"))
    @rule(
        data=st.data(), status=SOME(("completed", "completed", "completed", "partial", "failed")), again=st.booleans()
    )
    def ends(self, data: st.DataObject, status: str, again: bool) -> None:
        self.at.ends(self.some(data, "starting", "running", "waiting"), status, again=again or status == "completed")

    @precondition(lambda self: self.any_is("verifying"))
    @rule(data=st.data(), ok=SOME((True, True, True, False)))
    def is_verified(self, data: st.DataObject, ok: bool) -> None:
        self.at.feed("Verified", self.some(data, "verifying"), ok=ok)

    @precondition(lambda self: self.any_is("starting", "running"))
    @rule(data=st.data(), what=SOME(("Waiting", "QuotaHit")))
    def waits(self, data: st.DataObject, what: str) -> None:
        self.at.feed(what, self.some(data, "starting", "running"), why="a person")

    @precondition(lambda self: self.any_is("waiting"))
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        self.at.feed("Resumed", self.some(data, "waiting"))

    @precondition(lambda self: self.any_is("stopping"))
    @rule(data=st.data(), before=SOME(("", "", "completed", "failed")))
    def stops(self, data: st.DataObject, before: str) -> None:
        node = self.some(data, "stopping")
        if before:
            self.at.ends(node, before)
        self.at.feed("Stopped", node)

    @precondition(lambda self: self.any_is("held"))
    @rule(data=st.data(), yes=SOME((True, True, False)))
    def is_approved_or_not(self, data: st.DataObject, yes: bool) -> None:
        node = self.some(data, "held")
        self.at.feed("Resumed" if yes else "Ended", node, self.at.attempts[node] + 1)

    @precondition(lambda self: self.any_is("pending"))
    @rule(data=st.data())
    def is_approved_early(self, data: st.DataObject) -> None:
        node = self.some(data, "pending")
        if self.at.plan.nodes[node].requires_approval:
            self.at.feed("Resumed", node, self.at.attempts[node] + 1)

    @precondition(lambda self: self.at.live)
    @rule(data=st.data(), tokens=TOKENS)
    def uses(self, data: st.DataObject, tokens: int) -> None:
        self.at.feed("Usage", data.draw(SOME(sorted(self.at.live))), tokens=tokens)

    @rule(what=SOME(("CancelRequested", "Fired", "", "", "")))
    def is_cut_short(self, what: str) -> None:
        if what:
            self.at.feed(what, timer="timeout")

    @rule(cap=SIZES, budget=st.one_of(st.just(0), st.integers(1, 300)))
    def limits_change(self, cap: int, budget: int) -> None:
        self.at.feed("LimitsChanged", max_parallel=cap, budget=budget)

    @precondition(lambda self: self.at.state.phase == "merging")
    @rule(status=SOME(("completed", "partial", "blocked", "failed")))
    def is_merged(self, status: str) -> None:
        self.at.feed("Merged", status=status)

    @precondition(lambda self: self.at.events)
    @rule(data=st.data())
    def comes_twice(self, data: st.DataObject) -> None:
        old = [event for event in self.at.events if event.what not in LEVEL]
        self.changes_nothing(data.draw(SOME([*old, self.at.events[-1]])))

    @rule(
        what=SOME((*EVENTS, "Sneezed")), node=SOME(("", "n0", "n1", "nobody")), attempt=SOME((-1, 97)), ok=st.booleans()
    )
    def is_of_nobody(self, what: str, node: str, attempt: int, ok: bool) -> None:
        what = "Started" if what == "Found" and self.at.state.phase == "new" else what
        self.changes_nothing(PlanEvent(what, 0.0, node, attempt, {"ok": ok, "status": "completed", "tokens": 1000}))

    def changes_nothing(self, event: PlanEvent) -> None:
        before = snapshot(self.at.state)
        assert self.at.happens(event) == []
        assert snapshot(self.at.state) == before

    @rule()
    def crashes(self) -> None:
        self.at.crash()

    @invariant()
    def rules_hold(self) -> None:
        if hasattr(self, "at"):
            self.at.check()

    def teardown(self) -> None:
        """Whatever has happened: if all goes well from here, the plan comes to an end, once."""
        if not hasattr(self, "at"):
            return
        if self.at.state.phase == "new":
            self.at.begin()
        for _ in range(100):
            if self.at.state.phase == "finished":
                break
            self.go_well()
            self.at.check()
        assert self.at.state.phase == "finished"
        assert self.at.state.run in self.at.finished
        self.at.crash()

    def go_well(self) -> None:
        if self.at.state.phase == "merging":
            self.at.feed("Merged")
        for name, node in self.at.state.nodes.items():
            if node.state in ("starting", "running", "waiting"):
                self.at.ends(name)
            elif node.state == "verifying":
                self.at.feed("Verified", name, ok=True)
            elif node.state == "stopping":
                self.at.feed("Stopped", name)
            elif node.state == "held":
                self.at.feed("Resumed", name, node.attempt + 1)


def test_every_course() -> None:
    run_state_machine_as_test(
        Course, settings=settings(max_examples=100, stateful_step_count=50, deadline=None, database=None)
    )
