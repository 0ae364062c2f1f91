"""`show` of a plan: what was checked for which node, whose value was taken, what all of it has used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.testing import processes
from plans.verbs.house import MERGED_BY_RULE, TWO, one, put
from support.scene import kill, until

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir


def ran(project: ProjectDir, name: str, text: str) -> str:
    put(project, name, text)
    return str(project.run("plan", "run", name, "--wait", "--json").json["handle"])


def shown(project: ProjectDir, handle: object) -> Any:
    return project.run("show", str(handle), "--json", check=True).json


def test_what_was_checked_stands_below_its_node(shared: ProjectDir) -> None:
    handle = ran(shared, "two.yaml", TWO)
    text = shared.run("show", handle, check=True).out
    assert "COMPLETED · VERIFIED" in text
    assert "UNVERIFIED" not in text
    for line in ("passed  first: data.n > 6", "passed  second: data.m == 7", "passed  second: data has m"):
        assert line in text, text
    assert "git cannot tell" not in text, "a plan works nowhere itself"
    rows = {row["node"]: row for row in shown(shared, handle)["nodes"]}
    assert {(one["command"], one["kind"], one["passed"]) for one in rows["first"]["checked"]} == {
        ("data has n", "shape", True),
        ("data.n > 6", "expression", True),
    }
    assert rows["first"]["unverified"] == []
    assert (rows["first"]["attempts"], rows["first"]["checks"]) == (1, {"passed": 2, "of": 2})


def test_a_node_that_failed_says_what_did_not_hold(shared: ProjectDir) -> None:
    handle = ran(shared, "short.yaml", TWO.replace("data.n > 6", "data.n > 7"))
    text = shared.run("show", handle, check=True).out
    assert "FAILED  first: data.n > 7" in text
    assert f"overhand plan show {handle} · overhand resume {handle}" in text


def test_conflicts_name_everybody_and_whose_value_was_taken(shared: ProjectDir) -> None:
    handle = ran(shared, "rule.yaml", MERGED_BY_RULE)
    text = shared.run("show", handle, check=True).out
    assert 'grade: one says "B", two says "A" · taken: two (prefer_last)' in text
    assert "1 conflict was solved by rule." in text
    whole = shown(shared, handle)
    assert [(one["field"], one["taken"]) for one in whole["conflicts"]] == [("grade", "two")]
    assert whole["provenance"]["grade"] == ["two"]
    output = shared.run("show", handle, "--output", check=True).out
    assert "| one | echo | verified | VERIFIED | 2 of 2 | 1 |" in output


def test_a_plan_has_used_what_its_nodes_have(shared: ProjectDir) -> None:
    handle = ran(shared, "used.yaml", TWO)
    whole = shown(shared, handle)
    nodes = [shown(shared, row["handle"])["usage"] for row in whole["nodes"]]
    for key in ("input", "output", "tokens"):
        assert whole["usage"][key] == sum(one[key] for one in nodes) > 0
    assert whole["usage"]["estimated"] is True
    assert "tokens (" in shared.run("show", handle, check=True).out
    listed = shared.run("list", "--cost", "--json", check=True).json
    row = next(one for one in listed["tasks"] if str(one["handle"]) == handle)
    assert (row["tokens"], row["tree"]["tokens"]) == (whole["usage"]["tokens"], whole["usage"]["tokens"])
    top = [one["tree"]["tokens"] for one in listed["tasks"] if one["indent"] == 0]
    assert listed["total"]["tokens"] == sum(top), "nothing counts twice"


def test_a_plan_at_work_tells_its_nodes_and_what_they_use(own: ProjectDir) -> None:
    put(own, "wait.yaml", TWO.replace("agent: echo, task", "agent: patient, task"))
    handle = own.run("plan", "run", "wait.yaml", "--json", check=True).json["handle"]
    whole = shown(own, handle)
    assert {row["node"] for row in whole["nodes"]} == {"first", "second"}
    assert (whole["conflicts"], whole["provenance"]) == ([], {})
    assert f"overhand plan show {handle} --watch" in own.run("show", str(handle), check=True).out
    (own.path / "GO").touch()
    own.run("wait", str(handle))


def test_clean_takes_a_plan_with_its_nodes(own: ProjectDir) -> None:
    handle = ran(own, "two.yaml", TWO)
    failed = ran(own, "short.yaml", TWO.replace("data.n > 6", "data.n > 7"))
    until(lambda: not at_work(own), "the end of all shims")
    own.run("dismiss", failed, check=True)
    gone = own.run("clean", "--older", "0s", "--yes", "--json", check=True).json
    titles = sorted(one["title"] for one in gone["tasks"])
    assert titles == ["Give the number back", "Hand a number on"], "one that is not seen stays, and so do its nodes"
    left = {one["handle"]: one["node"] for one in own.run("list", "--json", check=True).json["tasks"]}
    assert (left[int(handle)], sorted(filter(None, left.values()))) == (None, ["first", "second"])
    assert int(failed) not in left
    assert own.run("plan", "show", handle, "--json", check=True).json["status"] == "completed"


def at_work(project: ProjectDir) -> set[int]:
    """Everybody but the supervisor."""
    return processes.of_project(project.path).keys() - processes.supervisors(project.path)


def test_clean_leaves_a_plan_whole_while_anything_of_its_nodes_lives(own: ProjectDir) -> None:
    own.agent("litter", "spawn:setsid", 'data:{"n": 1}', "output")
    own.run("dismiss", ran(own, "litter.yaml", one(verify='"data.n == 2"', agent="litter")), check=True)
    kept = own.run("clean", "--older", "0s", "--yes", "--json", check=True).json
    assert (kept["tasks"], kept["kept"]) == ([], 2), "a node is told to belong to its plan, which must be there"
    (pids,) = own.path.glob(".agent-workspaces/*/pids")
    kill(int(pids.read_text()))
    until(lambda: not at_work(own), "the end of the shim")
    gone = own.run("clean", "--older", "0s", "--yes", "--json", check=True).json
    assert (len(gone["removed"]), own.run("list", "--json", check=True).json["tasks"]) == (2, [])
