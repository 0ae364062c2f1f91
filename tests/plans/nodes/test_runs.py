"""Nodes that really run: what reaches the agent, and how what comes back is judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import overhand
from overhand.plans.model import Node
from plans.nodes.house import BY, agent, edge, plan_of
from support.scene import until

if TYPE_CHECKING:
    from plans.nodes.house import House

GIVEN = {"count": 3, "ratio": 0.5, "code": "0042", "flags": [True, [None, "1"]], "name": "Zoë"}
# copies its inputs into its data: from the environment, and from its argument
ECHO = """
import json, os, sys
path = os.environ["OVERHAND_INPUTS"]
assert sys.argv[1] == path and os.path.isabs(path), sys.argv
print(json.dumps({"status": "completed", "summary": "Echoed.", "data": json.load(open(path))}))
"""
RETURN = "# Task Complete: x\n\n**Status:** completed\n\n## Summary\nDone.\n"
TYPED = '{"count": 3, "ratio": 1.0, "code": "0042", "yes": true, "none": null, "deep": [[1, "2"], {"a": [false]}]}'


def returns(house: House, data: Any, *actions: str, **keys: object) -> None:
    """The worker gives back these data."""
    house.project.agent("worker", *actions, f"data:{json.dumps(data)}", "output", **keys)
    house.project.run("list", check=True)


def test_a_program_finds_its_inputs_in_environment_and_argument(house: House) -> None:
    house.project.agent("worker", command=[sys.executable, "-c", ECHO, "{inputs}"])
    house.project.run("list", check=True)
    shown = house.carried_out(plan_of(Node("n", "worker")), GIVEN)
    assert (shown["status"], shown["data"]) == ("completed", GIVEN)


def test_a_task_outside_a_plan_has_no_inputs(house: House) -> None:
    house.project.agent("worker", "echo-env", "output")
    shown = house.project.run("delegate", "do it", "--agent", "worker", "--wait", "--json", check=True).json
    said = Path(shown["run_folder"], "stdout").read_text()
    assert "OVERHAND_DATA" in said
    assert "OVERHAND_INPUTS" not in said
    assert (shown["node"], shown["plan"]) == (None, None)


def test_a_function_in_a_process_of_its_own_has_call_inputs(house: House) -> None:
    text = "def work(call):\n    return {'summary': 'Done.', 'data': dict(call.inputs)}\n"
    (house.project.path / "tools.py").write_text(text)
    house.project.agent("worker", driver="function", function="tools:work")
    house.project.run("list", check=True)
    assert house.carried_out(plan_of(Node("n", "worker")), GIVEN)["data"] == GIVEN


def test_a_function_of_this_process_has_call_inputs(house: House) -> None:
    from overhand.plans import node_task

    with overhand.Project(house.project.path) as project:

        @project.agent("inside")
        def inside(call: overhand.Call) -> dict[str, Any]:
            return {"summary": "Done.", "data": dict(call.inputs)}

        node = Node("n", "inside", outputs={"count": "integer"}, verification=({"expression": "data.count == 3"},))
        base = house.ground(plan_of(node), find=lambda _: agent("inside", "function"))
        (task,) = house.store.new_tasks([node_task.draft(base, node, GIVEN).task], BY, start=False)
        result = project.run(task.id).wait()
    assert (result.status, result.verified, result.proof, result.data) == ("completed", True, "data", GIVEN)


def test_the_prompt_names_the_file(house: House) -> None:
    house.project.agent("worker", "echo-prompt", "output")
    house.project.run("list", check=True)
    task = house.hand_over(plan_of(Node("gather", "worker", task="Gather the stones.")), {"colour": "red"})
    shown = house.done(task)
    said = (house.folder(task) / "runs" / shown["runs"][0]["id"] / "stdout").read_text()
    assert f"node `gather` of a plan. Its inputs are in `{house.store.workspace(task.id)}/inputs.json`" in said
    assert '"colour": "red"' in said


@pytest.mark.parametrize("door", ["data.json", "result.json", "OUTPUT.md", "stdout"])
def test_types_come_back_as_they_were_given(house: House, door: str) -> None:
    whole = f'{{"status": "completed", "summary": "Done.", "data": {TYPED}}}'
    scripts = {
        "data.json": f"printf '%s' '{RETURN}' >$OVERHAND_OUTPUT; printf '%s' '{TYPED}' >$OVERHAND_DATA",
        "result.json": f"printf '%s' '{whole}' >$OVERHAND_RESULT",
        "OUTPUT.md": f"printf '%s' '{RETURN}\n## Data\n```json\n{TYPED}\n```\n' >$OVERHAND_OUTPUT",
        "stdout": f"printf '%s' '{whole}'",
    }
    house.project.agent("worker", command=["/bin/sh", "-c", scripts[door]])
    house.project.run("list", check=True)
    outputs = {"count": "integer", "ratio": "number", "code": "string", "yes": "boolean", "deep": "array"}
    shown = house.carried_out(plan_of(Node("n", "worker", outputs=outputs)))
    assert (shown["status"], shown["problems"]) == ("completed", [])
    assert json.dumps(shown["data"]) == TYPED  # 1.0 is no 1 and "0042" no 42


def test_everything_asked_for_is_checked_and_told(house: House) -> None:
    returns(house, {"changes": ["a", "b"]}, "file:NOTES.md=hello")
    node = Node(
        "collect",
        "worker",
        outputs={"changes": "array of strings"},
        verification=(
            {"expression": "len(data.changes) == inputs.expected"},
            {"exists": "NOTES.md"},
            {"schema": {"type": "object", "maxProperties": 1}},
            {"command": "test -s NOTES.md"},
        ),
    )
    task = house.hand_over(plan_of(node), {"expected": 2})
    shown = house.done(task)
    assert (shown["status"], shown["proof"], shown["unverified"]) == ("completed", "data", [])
    kinds = {check["kind"]: check["passed"] for check in shown["checks"]}
    assert kinds == dict.fromkeys(("command", "shape", "schema", "expression", "exists"), True)
    text = house.project.run("show", task.id).out
    assert "COMPLETED · VERIFIED" in text
    assert "passed  len(data.changes) == inputs.expected" in text
    assert f"node collect of plan {house.state.handle}" in text
    (house.project.path / "NOTES.md").unlink()
    again = house.project.run("check", task.id, "--json")
    assert (again.code, again.json["verification"]) == (1, "failing")
    assert {check["kind"] for check in again.json["checks"] if not check["passed"]} == {"exists", "command"}
    assert "NOTES.md must exist" in house.project.run("check", task.id).out


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        ({"changes": "many"}, "data-mismatch", "changes"),
        ({}, "data-mismatch", "changes"),
        (None, "data-missing", "changes"),
        ({"changes": ["a", "b", "c"]}, "data-limit", "changes"),
        ({"changes": []}, "expression-failed", "len(data.changes) > 0"),
    ],
)
def test_data_that_break_the_contract_fail(house: House, data: Any, code: str, words: str) -> None:
    returns(house, data)
    node = Node(
        "collect",
        "worker",
        outputs={"changes": "array of strings"},
        constraints={"max_changes": 2},
        verification=({"expression": "len(data.changes) > 0"},),
    )
    shown = house.carried_out(plan_of(node))
    assert shown["status"] == "failed"
    assert any(one["code"] == code and words in one["message"] for one in shown["problems"])
    messages = [one["message"] for one in shown["problems"]]
    assert len(messages) == len(set(messages))
    assert any(not check["passed"] and check["why"] for check in shown["checks"])


def test_a_missing_field_names_both_ends(house: House) -> None:
    returns(house, {"valid": [{"email": "a@b"}, {"name": "x"}]})
    plan = plan_of(
        Node("validate", "worker", outputs={"valid": "array"}),
        Node("enrich", "worker", inputs={"records": "${validate.valid}"}),
        interfaces=(edge("validate", "enrich", "email", records="array"),),
    )
    shown = house.carried_out(plan)
    assert shown["status"] == "failed"
    (problem,) = (one for one in shown["problems"] if one["code"] == "edge-field-missing")
    assert "validate → enrich: valid[1] has no email" in problem["message"]


def test_a_false_expression_is_partial_or_failed_by_what_holds(house: House) -> None:
    """A check that was asked for sinks the result; wrong data beside a file that is there leave a part of it."""
    returns(house, {"n": "one"}, "file:a.txt=x")
    half = Node("n", "worker", outputs={"n": "integer"}, deliverables=("a.txt",))
    assert house.carried_out(plan_of(half))["status"] == "partial"
    (house.project.path / "a.txt").unlink()
    none = Node("n", "worker", verification=({"expression": "data.n == 1"},), deliverables=("a.txt",))
    assert house.carried_out(plan_of(none))["status"] == "failed"


def test_types_alone_are_not_verified_and_words_are_named(house: House) -> None:
    returns(house, {"n": 1})
    prose = Node("n", "worker", outputs={"n": "integer"}, verification=("It is right", {"expression": "data.n == 1"}))
    task = house.hand_over(plan_of(prose, constraints={"style": "dry"}))
    shown = house.done(task)
    assert (shown["status"], shown["verification"]) == ("completed", "proved")
    assert sorted(shown["unverified"]) == ["It is right", "constraint style: dry"]
    assert "unverified  It is right" in house.project.run("show", task.id).out
    types = house.carried_out(plan_of(Node("n", "worker", outputs={"n": "integer"})))
    assert (types["status"], types["verification"]) == ("completed", "passing")


def test_what_is_wrong_with_the_data_goes_back_for_repair(house: House) -> None:
    script = """
cat >"$OVERHAND_WORKSPACE/prompt-of-$OVERHAND_RUN"
n='[]'; grep -q 'does not hold' "$OVERHAND_WORKSPACE/prompt-of-$OVERHAND_RUN" && n='["mended"]'
printf '{"status": "completed", "summary": "Done.", "data": {"rows": %s}}' "$n" >"$OVERHAND_RESULT"
"""
    house.project.agent("worker", command=["/bin/sh", "-c", script], repair="rerun")
    house.project.run("list", check=True)
    node = Node("n", "worker", outputs={"rows": "array"}, verification=({"expression": "len(data.rows) > 0"},))
    shown = house.carried_out(plan_of(node))
    assert (shown["status"], shown["proof"], shown["data"]) == ("completed", "data", {"rows": ["mended"]})
    assert [run["status"] for run in shown["runs"]] == ["repair", "completed"]


@pytest.mark.parametrize("does", ["rm $OVERHAND_INPUTS", """echo '{"n": 2}' >$OVERHAND_INPUTS"""])
def test_inputs_are_judged_as_they_were_given(house: House, does: str) -> None:
    house.project.agent("worker", command=["/bin/sh", "-c", f"{does}; printf '%s' '{RETURN}' >$OVERHAND_OUTPUT"])
    house.project.run("list", check=True)
    shown = house.carried_out(plan_of(Node("n", "worker", verification=({"expression": "inputs.n == 1"},))), {"n": 1})
    assert (shown["status"], shown["proof"]) == ("completed", "data")


def test_inputs_that_were_taken_away_are_told(house: House) -> None:
    waits = f"until [ -e go ]; do sleep 0.01; done; printf '%s' '{RETURN}' >$OVERHAND_OUTPUT"
    house.project.agent("worker", command=["/bin/sh", "-c", waits])
    house.project.run("list", check=True)
    task = house.hand_over(plan_of(Node("n", "worker", verification=({"expression": "inputs.n == 1"},))), {"n": 1})
    until(lambda: house.store.task(task.id).current_run, "a run")
    (house.folder(task) / "inputs.json").unlink()
    (house.project.path / "go").touch()
    shown = house.done(task)
    assert shown["status"] == "failed"
    assert "inputs-unreadable" in [one["code"] for one in shown["problems"]]


def test_people_see_which_node_of_which_plan_it_is(house: House) -> None:
    house.project.agent("worker", command=["/bin/sh", "-c", '"$0" -m overhand ask "Which colour?"', sys.executable])
    house.project.run("list", check=True)
    task = house.hand_over(plan_of(Node("paint", "worker", task="Paint the fence.")))
    where = f"node paint of plan {house.state.handle}"
    with house.project.start("log", "-f", task.id, "--json") as log:
        assert log.stdout is not None
        assert any('"e":"asked"' in line.replace(" ", "") for line in log.stdout)
        log.kill()
    assert where in house.project.run("list").out
    assert where in house.project.run("show", task.id).out
    assert where in house.project.run().out
    for found in (
        next(one for one in house.project.run("list", "--json").json["tasks"] if one["task_id"] == task.id),
        house.project.run("answer", "--json").json["questions"][0],
        next(one for one in house.project.run("--json").json["groups"]["needs you"] if one["task_id"] == task.id),
    ):
        assert (found["node"], found["plan"]) == ("paint", house.state.id)
