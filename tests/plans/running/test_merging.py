"""Results become one: the first, the majority, all of them, or what code of the plan's own makes of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from plans.running.stage import SKIPPED, STOPPED, VERIFIED, node, states
from support.scene import until

if TYPE_CHECKING:
    from plans.running.stage import Stage

HANG = "touch up; exec sleep 2147480917"


def test_the_first_wins_and_the_rest_is_stopped(stage: Stage) -> None:
    stage.shell("slow", HANG)
    stage.gives("worker", {"n": 1}, before="until [ -e up ]; do sleep 0.01; done")
    result = stage.run({"a": node("slow"), "b": node()}, merge="first_wins")
    assert (result["status"], result["data"], result["winner"]) == ("completed", {"n": 1}, "b")
    assert states(result)["a"] in (STOPPED, SKIPPED)
    until(lambda: not stage.agents_left(), "nobody is left, not even the shim of the winner")


def test_the_majority_is_right(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    stage.gives("other", {"n": 2})
    result = stage.run({"a": node(), "b": node("other"), "c": node()}, merge="consensus")
    assert (result["status"], result["data"]) == ("completed", {"n": 1})


def test_without_a_majority_it_is_blocked_with_the_variants(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    stage.gives("other", {"n": 2})
    result = stage.run({"a": node(), "b": node("other")}, merge="consensus")
    assert result["status"] == "blocked"
    assert [one["nodes"] for one in result["variants"]] == [["a"], ["b"]]


def test_a_function_of_the_project(stage: Stage) -> None:
    (stage.path / "ours.py").write_text(
        "def add(given):\n"
        "    print('noise')\n"
        "    return {'sum': sum(one['data']['n'] for one in given['nodes'].values())}\n"
    )
    stage.gives("worker", {"n": 3})
    result = stage.run({"a": node(), "b": node()}, merge={"strategy": "custom", "function": "ours:add"})
    assert (result["status"], result["data"]) == ("completed", {"sum": 6})


def test_a_command(stage: Stage) -> None:
    stage.gives("worker", {"n": 3})
    code = "import json, sys; print(json.dumps(sorted(json.load(sys.stdin)['nodes'])))"
    result = stage.run(
        {"b": node(), "a": node()}, merge={"strategy": "custom", "command": [sys.executable, "-c", code]}
    )
    assert (result["status"], result["data"]) == ("completed", ["a", "b"])


@pytest.mark.parametrize(
    ("script", "timeout", "said"),
    [
        ("echo broken >&2; exit 4", 300, "broken"),
        ("echo '{'", 300, "not JSON"),
        ("sleep 2147480917 & sleep 2147480917", 0.5, "0.5 s"),
    ],
    ids=["fails", "no JSON", "hangs"],
)
def test_a_merge_that_gives_nothing_is_a_failed_plan(stage: Stage, script: str, timeout: float, said: str) -> None:
    stage.gives("worker", {"n": 3})
    merge = {"strategy": "custom", "command": ["/bin/sh", "-c", script], "timeout": timeout}
    result = stage.run({"a": node()}, merge=merge)
    assert (result["status"], states(result)) == ("failed", {"a": VERIFIED})
    assert said in result["summary"]
    until(lambda: not stage.agents_left(), "nobody is left, not even the shim of the node")


def test_stopping_a_plan_ends_its_merge(stage: Stage) -> None:
    stage.gives("worker", {"n": 3})
    script = "touch merging; sleep 2147480917"
    task = stage.plan({"a": node()}, merge={"strategy": "custom", "command": ["/bin/sh", "-c", script], "timeout": 300})
    stage.appears("merging")
    stage.json("stop", task, timeout=30)
    assert stage.state(task).status == "cancelled"


def test_where_each_field_came_from_and_how_each_node_fared(stage: Stage) -> None:
    stage.gives("worker", {"names": ["x"], "n": 1})
    stage.gives("other", {"names": ["y"], "n": 2})
    task = stage.plan({"a": node(), "b": node("other")})
    result = stage.result(task)
    assert result["data"] == {"names": ["x", "y"], "n": 1}
    assert [one["field"] for one in result["conflicts"]] == ["n"]
    assert result["provenance"]["names[1]"] == ["b"]
    assert [(row["node"], row["state"], row["attempts"]) for row in result["nodes"]] == [
        ("a", VERIFIED, 1),
        ("b", VERIFIED, 1),
    ]
    assert all(row["seconds"] > 0 for row in result["nodes"])
    text = (stage.path / ".agent-workspaces" / task / "OUTPUT.md").read_text()
    assert "## Where It Came From" in text
    assert "| b | other | verified |" in text
