"""How nodes fail and plans end: retries, fallbacks, policies, first_wins, stops, time, another run."""

from __future__ import annotations

from typing import Any

import pytest

from overhand.plans import Plan
from overhand.plans.model import Failure, Merge, Node
from overhand.plans.progress import Command, pending
from plans.advance.executor import Executor


def node(id: str, *needs: str, **more: Any) -> Node:
    return Node(id, "worker", needs=needs, **more)


def plan_of(*nodes: Node, **more: Any) -> Plan:
    return Plan("anything", {one.id: one for one in nodes}, **more)


def brief(commands: list[Command]) -> list[str]:
    return [command.id for command in commands]


def test_a_plan_that_goes_well() -> None:
    at = Executor(plan_of(node("a"), node("b", "a")))
    at.begin()
    at.does("a")
    (merge,) = at.does("b")
    assert merge == Command("Merge", "", 1, {"strategy": "aggregate", "results": ["a", "b"], "winner": ""})
    (finish,) = at.feed("Merged")
    assert finish.facts["status"] == "completed"
    assert at.begin() == []  # there is nothing to be done


def test_retries_then_the_fallback_agent_once_then_failed() -> None:
    at = Executor(plan_of(node("a"), failure=Failure("abort", max_retries=1, fallback="helper")))
    at.begin()
    (retry,) = at.ends("a", "failed", why="it broke")
    assert retry == Command("Start", "a", 2, {"agent": "worker", "budget": 0, "reason": "retry", "why": "it broke"})
    at.ends("a")
    (fallback,) = at.feed("Verified", "a", ok=False, why="no email")
    assert fallback.facts == {"agent": "helper", "budget": 0, "reason": "fallback", "why": "no email"}
    (finish,) = at.ends("a", "failed")
    assert finish.facts["status"] == "failed"


def test_what_must_not_be_tried_again_is_not() -> None:
    at = Executor(plan_of(node("a"), failure=Failure("retry", max_retries=3, fallback="helper")))
    at.begin()
    assert brief(at.ends("a", "failed", again=False)) == [".1.Finish"]


def test_a_node_that_used_its_budget_up_has_no_other_attempt() -> None:
    at = Executor(plan_of(node("a", budget=50), failure=Failure("retry", max_retries=3)))
    at.begin()
    assert brief(at.ends("a", "failed", tokens=50)) == [".1.Finish"]


def test_a_partial_result_counts_where_the_plan_says_so() -> None:
    at = Executor(plan_of(node("a"), node("b", "a"), failure=Failure("abort", max_retries=1, fallback="partial")))
    at.begin()
    assert brief(at.ends("a", "partial")) == ["a.2.Start"]  # retries first
    (verify,) = at.ends("a", "partial")
    assert verify == Command("Verify", "a", 2, {"status": "partial", "result": "a.2", "digest": ""})
    assert brief(at.feed("Verified", "a", ok=True)) == ["b.1.Start"]
    at.does("b")
    (finish,) = at.feed("Merged")
    assert (finish.facts["status"], finish.facts["partial"]) == ("partial", ["a"])


def test_a_partial_result_that_does_not_verify_is_a_failure() -> None:
    at = Executor(plan_of(node("a"), failure=Failure("abort", fallback="partial")))
    at.begin()
    at.ends("a", "partial")
    assert at.feed("Verified", "a", ok=False)[0].facts["failed"] == ["a"]


@pytest.mark.parametrize("policy", ["abort", "retry"])
def test_abort_stops_the_live_ones_and_finishes_when_they_have_stopped(policy: str) -> None:
    at = Executor(plan_of(node("a"), node("b"), node("c"), node("d", "c"), failure=Failure(policy)))
    at.begin()
    at.feed("Started", "b")
    assert brief(at.ends("a", "failed")) == ["b.1.Stop", "c.1.Stop"]
    assert brief(pending(at.state)) == ["b.1.Stop", "c.1.Stop"]
    assert at.feed("Stopped", "c") == []
    (finish,) = at.feed("Stopped", "b")
    assert finish.facts == {
        "status": "failed", "why": "failed", "failed": ["a"], "skipped": ["d"], "stopped": ["b", "c"], "partial": [],
    }  # fmt: skip


def test_continue_skips_all_that_depends_on_it_and_merges_the_rest() -> None:
    nodes = (node("a"), node("b", "a"), node("c", "b", "d"), node("d"))
    at = Executor(plan_of(*nodes, failure=Failure("continue")))
    at.begin()
    assert at.ends("a", "failed") == []
    assert [at.state.nodes[name].state for name in "bc"] == ["skipped", "skipped"]
    (merge,) = at.does("d")
    assert merge.facts["results"] == ["d"]
    (finish,) = at.feed("Merged")
    assert (finish.facts["status"], finish.facts["skipped"]) == ("partial", ["b", "c"])


def test_continue_with_nothing_left_has_failed() -> None:
    at = Executor(plan_of(node("a"), failure=Failure("continue")))
    at.begin()
    (finish,) = at.ends("a", "failed")
    assert (finish.what, finish.facts["status"]) == ("Finish", "failed")


def test_the_first_verified_wins_and_merges_after_the_rest_has_stopped() -> None:
    at = Executor(plan_of(node("a"), node("b"), node("c"), merge=Merge("first_wins")))
    at.begin()
    assert brief(at.ends("b")) == ["b.1.Verify"]
    assert brief(at.feed("Verified", "b", ok=True)) == ["a.1.Stop", "c.1.Stop"]
    assert at.feed("Stopped", "a") == []
    (merge,) = at.feed("Stopped", "c")
    assert merge.facts == {"strategy": "first_wins", "results": ["b"], "winner": "b"}
    assert at.feed("Merged")[0].facts["status"] == "completed"


def test_only_what_nobody_depends_on_can_win() -> None:
    at = Executor(plan_of(node("collect"), node("a", "collect"), node("b", "collect"), merge=Merge("first_wins")))
    at.begin()
    assert brief(at.does("collect")) == ["a.1.Start", "b.1.Start"]
    assert brief(at.does("b")) == ["a.1.Stop"]


def test_who_completed_before_it_could_be_stopped_is_verified() -> None:
    at = Executor(plan_of(node("a"), node("b")))
    at.begin()
    at.feed("CancelRequested")
    at.feed("Stopped", "a")
    assert at.ends("b") == []
    assert brief(at.feed("Stopped", "b")) == ["b.1.Verify"]
    (finish,) = at.feed("Verified", "b", ok=True)
    assert (finish.facts["status"], finish.facts["stopped"]) == ("cancelled", ["a"])
    assert brief(at.begin()) == ["a.2.Start"]  # b is not done twice


def test_cancelled_before_it_began_and_while_it_merges() -> None:
    at = Executor(plan_of(node("a")))
    assert at.feed("CancelRequested")[0].facts["status"] == "cancelled"
    assert brief(at.begin()) == ["a.1.Start"]
    at.does("a")
    assert brief(at.feed("CancelRequested")) == [".1.Finish"]
    assert at.feed("Merged") == []
    assert brief(at.begin()) == [".2.Merge"]


def test_cancelled_while_the_rest_of_a_race_is_stopped() -> None:
    at = Executor(plan_of(node("a"), node("b"), merge=Merge("first_wins")))
    at.begin()
    at.does("a")
    assert at.feed("CancelRequested") == []
    assert at.feed("Stopped", "b")[0].facts["status"] == "cancelled"


@pytest.mark.parametrize(("policy", "last"), [("abort", ".1.Finish"), ("continue", ".1.Merge")])
def test_the_plans_time_is_up(policy: str, last: str) -> None:
    at = Executor(plan_of(node("a"), node("b"), timeout=60.0, failure=Failure(policy)))
    timer = at.begin()[0]
    assert timer == Command("SetTimer", "", 1, {"timer": "timeout", "at": 60.0})
    assert timer in pending(at.state)
    at.does("a")
    (stop,) = at.feed("Fired", timer="timeout")
    assert (stop.id, stop.facts["why"]) == ("b.1.Stop", "timeout")
    assert brief(at.feed("Stopped", "b")) == [last]


def test_a_timer_is_cleared_when_it_does_not_matter_any_more() -> None:
    at = Executor(plan_of(node("a"), timeout=60.0))
    at.begin()
    assert brief(at.does("a")) == [".1.ClearTimer", ".1.Merge"]
    assert at.feed("Fired", timer="timeout") == []


@pytest.mark.parametrize("status", ["blocked", "failed", "partial"])
def test_a_merge_that_falls_short(status: str) -> None:
    at = Executor(plan_of(node("a"), merge=Merge("consensus")))
    at.begin()
    at.does("a")
    (finish,) = at.feed("Merged", status=status, why="three variants")
    assert (finish.facts["status"], finish.facts["why"]) == (status, "three variants")
    assert brief(at.begin()) == [".2.Merge"]  # the nodes are done


def test_another_run_keeps_what_is_verified_and_counts_attempts_on() -> None:
    nodes = (node("a"), node("b", "a"), node("c", "b"))
    at = Executor(plan_of(*nodes, failure=Failure("abort", max_retries=1)))
    at.begin()
    at.does("a")
    at.ends("b", "failed")
    assert brief(at.ends("b", "failed")) == [".1.Finish"]
    (start,) = at.begin()
    assert (start.id, start.facts["reason"]) == ("b.3.Start", "first")
    assert brief(at.ends("b", "failed")) == ["b.4.Start"]  # with fresh retries
    assert brief(at.does("b")) == ["c.1.Start"]
    at.does("c")
    assert at.feed("Merged")[0].facts["status"] == "completed"


def test_events_of_old_attempts_change_nothing() -> None:
    at = Executor(plan_of(node("a"), failure=Failure("retry", max_retries=1)))
    at.begin()
    at.ends("a", "failed")
    assert at.feed("Ended", "a", 1, status="completed") == []
    assert at.feed("Stopped", "a", 1) == []
    assert at.state.nodes["a"].state == "starting"
    at.feed("CancelRequested")
    assert at.feed("Stopped", "a", 1) == []
    assert at.state.nodes["a"].state == "stopping"


def test_who_waits_for_a_person_is_stopped_too() -> None:
    at = Executor(plan_of(node("a"), node("b")))
    at.begin()
    at.feed("Waiting", "b", why="a question")
    assert brief(at.ends("a", "failed")) == ["b.1.Stop"]
