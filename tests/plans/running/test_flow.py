"""Plans run: side by side, one after the other, with their data and its types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plans.running.stage import COPY, PLAN_EVENTS, VERIFIED, node, states
from support.scene import QUICK

if TYPE_CHECKING:
    from plans.running.stage import Stage

MEET = 'touch "up-$OVERHAND_TASK"; until [ "$(ls up-* | wc -l)" -ge 3 ]; do sleep 0.01; done'


def test_nodes_that_need_nothing_run_side_by_side(stage: Stage) -> None:
    stage.gives("worker", {"names": ["x"]}, before=MEET)
    result = stage.run({name: node() for name in "abc"}, merge={"strategy": "aggregate", "dedupe": False})
    assert (result["status"], result["data"]) == ("completed", {"names": ["x", "x", "x"]})
    assert set(states(result).values()) == {VERIFIED}


def test_a_diamond_waits_for_both_sides(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    stage.shell("join", 'test "$(wc -l <trail)" = 4 || exit 3' + COPY)
    task = stage.plan(
        {
            "top": node(outputs={"n": "integer"}),
            "left": node("worker", "top"),
            "right": node("worker", "top"),
            "end": node("join", inputs={"l": "${left.n}", "r": "${right.n}"}),
        },
        merge="sequential",
    )
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"got": {"l": 1, "r": 1}})
    first, *_, last = stage.trail()
    assert [first, last] == [f"+ {stage.child(task, name).id}" for name in ("top", "end")]


def test_types_are_kept_from_node_to_node(stage: Stage) -> None:
    value = {"whole": 3, "part": 0.5, "yes": True, "none": None, "list": [1, "2", {"deep": [False]}], "text": "a ${b}"}
    stage.gives("first", {"value": value, "text": "plain"})
    stage.shell("second", COPY)
    result = stage.run(
        {
            "a": node("first"),
            "b": node(
                "second",
                inputs={"all": "${a.value}", "one": "${a.value.whole}", "said": "It is ${a.text}: ${a.value.list}"},
            ),
        },
        merge="sequential",
    )
    said = 'It is plain: [1, "2", {"deep": [false]}]'
    assert result["data"] == {"got": {"all": value, "one": 3, "said": said}}


def test_a_long_chain_is_short_in_the_plans_own_log(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    nodes = {f"n{i}": node("worker", *([f"n{i - 1}"] if i else [])) for i in range(8)}
    task = stage.plan(nodes, merge="sequential")
    assert stage.result(task)["status"] == "completed"
    assert [e["e"] for e in stage.events(task)] == PLAN_EVENTS
    assert stage.began(task) == dict.fromkeys(nodes, 1)


def test_a_field_that_is_not_there_names_both_ends(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    result = stage.run({"a": node(), "b": node(inputs={"x": "${a.missing}"})})
    assert (result["status"], states(result)) == ("failed", {"a": "failed", "b": "skipped"})
    (problem,) = result["problems"]
    assert "a → b" in problem["message"]
    assert "missing" in problem["message"]


def test_a_node_has_the_depth_it_would_have_without_the_plan(stage: Stage) -> None:
    stage.gives("worker")
    task = stage.plan({"a": node()})
    stage.result(task)
    child = stage.child(task, "a")
    assert (child.depth, child.path, child.parent.task if child.parent else "") == (
        1,
        ["user", "worker"],
        task,
    )


def test_files_alone_are_a_result(stage: Stage) -> None:
    stage.shell("worker", f"echo hello >note.txt; {QUICK}")
    result = stage.run({"a": node(deliverable="note.txt")})
    assert (result["status"], states(result)) == ("completed", {"a": VERIFIED}), result


def test_after_a_plan(stage: Stage) -> None:
    stage.gives("worker", before="until [ -e go ]; do sleep 0.01; done")
    stage.gives("late", before="rm go")
    task = stage.plan({"a": node()})
    later = stage.delegate("afterwards", "--agent", "late", "--after", task)
    (stage.path / "go").touch()
    assert stage.result(later)["status"] == "completed"
    assert stage.state(task).status == "completed"
