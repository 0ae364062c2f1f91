"""Files of the record that are not what was written: the task says so and ends; nothing is tried for ever."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.scene import Scene

DAMAGES = {"cut": b'{"a": [', "no UTF-8": b"\xff\xfe{", "no object": b"[3]\n", "nested": b'{"a":' * 50_000}
SAYS = f"until [ -e go ]; do sleep 0.05; done; echo new >made.txt; {QUICK}"


def says_no_traceback(scene: Scene) -> None:
    log = Path(f"{scene.store.own}/log")
    assert "Traceback" not in (log.read_text() if log.exists() else "")


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["spec.json", "baseline.json", "contract.json", "tree.json"])
def test_a_run_that_cannot_be_judged_fails_with_the_reason(scene: Scene, name: str, how: str) -> None:
    scene.shell("worker", SAYS)
    (scene.path / "schema.json").write_text('{"type": "object"}')
    args = ("--contract", "schema.json") if name == "contract.json" else ("--deliverable", "made.txt")
    task = scene.delegate("make it", *args)
    place = scene.place(task)
    scene.running(task)
    path = (place if name != "baseline.json" else Path(scene.store.record(task))) / name
    was_there = path.exists()
    path.write_bytes(DAMAGES[how])
    (scene.path / "go").touch()
    found = scene.judged(task)
    if was_there or name != "tree.json":
        assert found.status != "completed"
        assert f"{name} is damaged" in scene.json("show", task)["summary"]
    scene.judged(scene.delegate("another"))
    says_no_traceback(scene)


@pytest.mark.parametrize("how", DAMAGES)
def test_check_neither_breaks_nor_vouches_for_a_damaged_result(scene: Scene, how: str) -> None:
    scene.shell("worker", f"echo new >made.txt; {QUICK}")
    task = scene.delegate("make it", "--verify", "test -e made.txt")
    scene.judged(task)
    path = Path(scene.store.record(task)) / "result.json"
    path.write_bytes(DAMAGES[how])
    assert scene.json("check", task)["checks"][0]["passed"]
    assert (path.read_bytes(), scene.events(task, "rechecked")) == (DAMAGES[how], [])
    assert any(one["code"] == "document-changed" for one in scene.json("show", task)["problems"])


@pytest.mark.parametrize("how", DAMAGES)
def test_a_node_with_damaged_inputs_or_contract_fails_and_its_plan_goes_on(scene: Scene, how: str) -> None:
    scene.shell("worker", SAYS)
    plan = "plan: p\nnodes:\n  a: {task: look, agent: worker, inputs: {x: 3}, outputs: {y: int}}\n"
    (scene.path / "plan.yaml").write_text(plan)
    scene.json("trust", "plan.yaml", "--yes")
    task = scene.json("plan", "run", "plan.yaml")["task_id"]
    node = until(lambda: next((one.id for one in scene.store.tasks() if one.node), None), "its node")
    scene.running(node)
    for name in ("inputs.json", "contract.json"):
        for path in (Path(scene.store.record(node)) / name, scene.place(node) / name):
            if path.exists():
                path.write_bytes(DAMAGES[how])
    (scene.path / "go").touch()
    assert scene.judged(task).status != "completed"
    scene.json("show", node)
    scene.json("check", node, code=None)
    says_no_traceback(scene)


@pytest.mark.parametrize(
    "line", [b"{x\n", b'{"what":"Ended","at":1,"node":"nowhere"}\n', b'{"what":3}\n', b'{"what":"Started","at":1e99}\n']
)
def test_damaged_plan_events_end_no_verb(scene: Scene, line: bytes) -> None:
    scene.shell("worker", QUICK)
    (scene.path / "plan.yaml").write_text("plan: p\nnodes:\n  a: {task: look, agent: worker}\n")
    scene.json("trust", "plan.yaml", "--yes")
    task = scene.json("plan", "run", "plan.yaml")["task_id"]
    scene.judged(task)
    with (Path(scene.store.record(task)) / "plan.jsonl").open("ab") as file:
        file.write(line)
    for words in (("show", task), ("plan", "show", task), ("list",), ("status",), ("list", "--cost")):
        scene.json(*words)
    number = (Path(scene.store.record(task)) / "plan.jsonl").read_bytes().count(b"\n")
    if not line.endswith(b"1e99}\n"):  # that one is an event, of a node that nobody knows it for
        (named,) = [one for one in scene.json("doctor", code=1)["findings"] if one["code"] == "damaged-plan"]
        assert f"plan.jsonl, line {number}: " in named["what"]
        assert (f"sed -n {number}p" in named["next"], named["task"]) == (True, task)
    scene.judged(scene.delegate("another"))
    says_no_traceback(scene)


def test_a_plan_that_is_not_the_accepted_one_says_so(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    (scene.path / "plan.yaml").write_text("plan: p\nnodes:\n  a: {task: look, agent: worker}\n")
    scene.json("trust", "plan.yaml", "--yes")
    scene.judged(scene.delegate("first"))
    pid = scene.supervisor()
    assert pid
    os.kill(pid, signal.SIGSTOP)
    made = scene.json("plan", "run", "plan.yaml")
    assert "Recorded, but not started yet" in made["reason"]
    path = Path(scene.store.record(made["task_id"])) / "plan.json"
    path.write_bytes(b"{}")
    os.kill(pid, signal.SIGCONT)
    assert scene.judged(made["task_id"]).status == "rejected"
    (named,) = [one for one in scene.json("doctor", code=1)["findings"] if one["code"] == "damaged-plan"]
    assert "is not the plan that was accepted" in named["what"]
    assert "overhand plan run" in named["next"]
    scene.judged(scene.delegate("another"))
    says_no_traceback(scene)
