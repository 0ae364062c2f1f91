"""People see a plan as one row; only a node that needs them stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plans.verbs.house import TWO, put
from support.scene import until

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

ASKS = """
plan: Ask, and wait
nodes:
  ask: {agent: asker, task: "Ask for a colour", outputs: {n: integer}, verify: "data.n == 1"}
  wait: {agent: patient, task: "Wait for the file", outputs: {n: integer}, verify: "data.n == 1"}
on_failure: {policy: abort}
"""


def titles(project: ProjectDir, group: str) -> list[str]:
    shown = project.run("status", "--json", check=True).json
    assert {name: len(rows) for name, rows in shown["groups"].items()} == shown["counts"]
    return [row["title"] for row in shown["groups"][group]]


def test_finished_nodes_stand_in_the_row_of_their_plan(own: ProjectDir) -> None:
    own.run("plan", "run", put(own, "two.yaml", TWO), "--wait", check=True)
    assert (titles(own, "ready"), titles(own, "done"), titles(own, "failed")) == (["Hand a number on"], [], [])
    listed = own.run("list", check=True).out
    assert (listed.count("\n"), "Hand a number on" in listed) == (1, True), listed
    rows = own.run("list", "--json", check=True).json["tasks"]
    assert [row["node"] for row in rows] == [None, "first", "second"], "scripts see them all"


def test_a_node_that_asks_is_seen_and_one_at_work_is_named(own: ProjectDir) -> None:
    own.run("plan", "run", put(own, "asks.yaml", ASKS), check=True)

    def asked() -> Any:
        groups = own.run("status", "--json", check=True).json["groups"]
        return groups if groups["needs you"] and groups["working"][0]["step"] else None

    groups = until(asked)
    assert [(row["node"], row["question"]["question"]) for row in groups["needs you"]] == [("ask", "Which colour?")]
    assert [(row["title"], row["step"]) for row in groups["working"]] == [("Ask, and wait", "at work: wait")]
    screen = own.run(check=True).out
    assert ("node ask of plan 1" in screen, "Wait for the file" in screen) == (True, False), screen
    (own.path / "GO").touch()
    own.run("answer", str(groups["needs you"][0]["handle"]), "red", check=True)
    own.run("wait", "1", check=True)
    assert titles(own, "ready") == ["Ask, and wait"]
