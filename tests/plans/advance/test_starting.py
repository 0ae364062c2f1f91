"""What starts, and when: dependencies, priority, caps, files, approval, budgets, waiting."""

from __future__ import annotations

from typing import Any

from overhand.plans import Plan
from overhand.plans.model import Failure, Node
from overhand.plans.progress import Command, Limits, pending
from plans.advance.executor import Executor


def plan_of(*nodes: Node, **more: Any) -> Plan:
    return Plan("anything", {node.id: node for node in nodes}, **more)


def node(id: str, *needs: str, **more: Any) -> Node:
    return Node(id, "worker", needs=needs, **more)


def started(commands: list[Command]) -> list[str]:
    return [command.node for command in commands if command.what == "Start"]


def test_a_node_starts_when_all_it_depends_on_is_verified() -> None:
    at = Executor(plan_of(node("a"), node("b"), node("c", "a", "b")))
    assert started(at.begin()) == ["a", "b"]
    assert at.ends("a")[0].what == "Verify"
    assert at.feed("Verified", "a", ok=True) == []
    at.ends("b")
    assert started(at.feed("Verified", "b", ok=True)) == ["c"]


def test_a_start_says_who_and_why() -> None:
    at = Executor(plan_of(node("a", budget=50)))
    (start,) = at.begin()
    assert start == Command("Start", "a", 1, {"agent": "worker", "budget": 50, "reason": "first", "why": ""})
    assert start.id == "a.1.Start"


def test_priority_first_then_the_order_of_the_plan() -> None:
    nodes = (node("late", priority="P3"), node("b"), node("a"), node("urgent", priority="P0"))
    assert started(Executor(plan_of(*nodes)).begin()) == ["urgent", "b", "a", "late"]


def test_the_tighter_cap_counts_and_none_is_no_cap() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    assert len(started(Executor(plan_of(*nodes)).begin())) == 5
    assert len(started(Executor(plan_of(*nodes, max_parallel=3)).begin())) == 3
    assert len(started(Executor(plan_of(*nodes, max_parallel=3), Limits(max_parallel=2)).begin())) == 2


def test_a_slot_is_free_when_the_result_is_verified_not_before() -> None:
    at = Executor(plan_of(node("a"), node("b"), max_parallel=1))
    at.begin()
    assert started(at.ends("a")) == []
    assert started(at.feed("Verified", "a", ok=True)) == ["b"]


def test_a_wider_cap_starts_more_and_a_tighter_one_stops_nobody() -> None:
    at = Executor(plan_of(*(node(f"n{i}") for i in range(4))), Limits(max_parallel=1))
    at.begin()
    assert started(at.feed("LimitsChanged", max_parallel=3)) == ["n1", "n2"]
    assert at.feed("LimitsChanged", max_parallel=1) == []
    assert at.does("n0") == []


def test_sequential_is_one_at_a_time_also_while_one_waits() -> None:
    at = Executor(plan_of(node("a"), node("b"), strategy="sequential"))
    assert started(at.begin()) == ["a"]
    assert at.feed("Waiting", "a", why="a question") == []
    assert started(at.does("a")) == ["b"]


def test_two_nodes_that_may_write_one_file_never_run_at_once() -> None:
    at = Executor(
        plan_of(node("a", writes=("src/**",)), node("b", writes=("src/x.py",)), node("c", writes=("docs/**",)))
    )
    assert started(at.begin()) == ["a", "c"]
    assert started(at.does("c")) == []
    assert started(at.does("a")) == ["b"]


def test_many_writers_of_one_file_take_turns_by_priority() -> None:
    nodes = [node(f"n{i}", writes=("CHANGELOG.md",), priority=f"P{3 - i}") for i in range(4)]
    at = Executor(plan_of(*nodes))
    assert started(at.begin()) == ["n3"]
    for now, then in (("n3", "n2"), ("n2", "n1"), ("n1", "n0")):
        assert started(at.does(now)) == [then]


def test_who_waited_for_files_when_all_was_stopped_starts_in_the_next_run() -> None:
    at = Executor(plan_of(node("a", writes=("src/**",)), node("b", writes=("src/x.py",))))
    at.begin()
    at.feed("CancelRequested")
    at.ends("a")
    at.feed("Stopped", "a")
    at.feed("Verified", "a", ok=True)
    assert started(at.begin()) == ["b"]


def test_who_waits_gives_the_slot_back_and_keeps_the_files() -> None:
    nodes = (node("a", writes=("x",)), node("b", writes=("x",)), node("c"), node("d"))
    at = Executor(plan_of(*nodes, max_parallel=1))
    at.begin()
    assert started(at.feed("Waiting", "a", why="a question")) == ["c"]
    assert at.feed("Resumed", "a") == []
    assert at.state.slots == 2  # by itself it may exceed the cap
    assert started(at.does("c")) == []
    assert started(at.does("a")) == ["b"]


def test_a_quota_spends_no_attempt() -> None:
    at = Executor(plan_of(node("a")))
    at.begin()
    at.feed("Started", "a")
    assert at.feed("QuotaHit", "a", until=99.0) == []
    assert at.feed("Resumed", "a") == []
    assert at.does("a")[0].what == "Merge"
    assert at.attempts["a"] == 1


def test_what_needs_approval_is_held_until_a_person_says_yes() -> None:
    at = Executor(plan_of(node("a"), node("b", "a", requires_approval=True)))
    at.begin()
    (notice,) = at.does("a")
    assert notice == Command("Notice", "b", 1, {"kind": "approval"})
    assert pending(at.state) == [notice]
    assert started(at.feed("Resumed", "b", 1)) == ["b"]


def test_approval_may_come_before_its_turn() -> None:
    at = Executor(plan_of(node("a"), node("b", "a", requires_approval=True)))
    at.begin()
    at.feed("Resumed", "b", 1)
    assert started(at.does("a")) == ["b"]


def test_a_no_is_a_failure_without_retries() -> None:
    at = Executor(plan_of(node("a", requires_approval=True), failure=Failure("retry", max_retries=3)))
    at.begin()
    (finish,) = at.feed("Ended", "a", 1, status="cancelled")
    assert finish.facts["status"] == "failed"
    assert finish.facts["failed"] == ["a"]
    (again,) = at.begin()
    assert again.id == "a.2.Notice"  # another question


def test_nothing_starts_whose_budget_does_not_fit() -> None:
    at = Executor(plan_of(node("a", budget=60), node("b", budget=60), node("c", budget=10), budget=100))
    assert started(at.begin()) == ["a"]  # c would fit, and others like it would starve b
    at.ends("a", tokens=30)
    assert started(at.feed("Verified", "a", ok=True)) == ["b", "c"]


def test_a_budget_that_can_never_fit_fails_the_node() -> None:
    at = Executor(plan_of(node("a", budget=60), node("b", budget=60), failure=Failure("continue"), budget=100))
    at.begin()
    at.ends("a", tokens=60)
    assert [command.what for command in at.feed("Verified", "a", ok=True)] == ["Merge"]
    assert at.state.nodes["b"].state == "failed"
    assert at.feed("Merged")[0].facts["status"] == "partial"


def test_behind_one_that_does_not_fit_the_next_writer_has_its_turn() -> None:
    nodes = (node("a", writes=("x",)), node("b", writes=("x",), budget=200), node("c", writes=("x",)))
    at = Executor(plan_of(*nodes, failure=Failure("continue"), budget=100))
    at.begin()
    assert started(at.does("a")) == ["c"]
    assert at.state.nodes["b"].state == "failed"


def test_the_plans_budget_used_up_stops_everything() -> None:
    at = Executor(plan_of(node("a"), node("b"), node("c", "a"), budget=100))
    at.begin()
    assert at.feed("Usage", "a", tokens=60) == []
    stops = at.feed("Usage", "b", tokens=40)
    assert [(one.what, one.node, one.facts["why"]) for one in stops] == [
        ("Stop", "a", "budget"),
        ("Stop", "b", "budget"),
    ]
    at.feed("Stopped", "a")
    (finish,) = at.feed("Stopped", "b")
    assert (finish.facts["status"], finish.facts["why"]) == ("failed", "budget")
    at.feed("LimitsChanged", budget=500)
    assert started(at.begin()) == []  # the plan's own budget is the tighter one


def test_the_last_node_may_use_the_budget_up() -> None:
    at = Executor(plan_of(node("a"), budget=100))
    at.begin()
    at.ends("a", tokens=120)
    assert at.feed("Verified", "a", ok=True)[0].what == "Merge"
