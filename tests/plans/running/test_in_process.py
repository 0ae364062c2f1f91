"""Plans of a Python program: its functions are called in its own process, the rest is the supervisor's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.api import Project, Result, Task
from plans.running.stage import STOPPED, VERIFIED, node, states
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.agents import Call
    from plans.running.stage import Stage


@pytest.fixture
def project(stage: Stage) -> Iterator[Project]:
    with Project(stage.path, max_parallel=4) as project:
        yield project


def text(nodes: dict[str, Any], **keys: Any) -> str:
    whole = {"plan": "Do all of it", "nodes": nodes, "merge": "sequential", "on_failure": {"policy": "abort"}, **keys}
    return json.dumps(whole) + "\n"


def add(call: Call) -> dict[str, Any]:
    return {"summary": "added up", "data": {"n": sum(call.inputs.values())}}


def run(project: Project, nodes: dict[str, Any], **keys: Any) -> Result:
    result = project.plan(text(nodes, **keys))
    assert isinstance(result, Result)
    return result


def test_functions_hand_their_data_on(stage: Stage, project: Project) -> None:
    project.agent("add")(add)
    result = run(
        project,
        {
            "a": node("add", inputs={"x": 1, "y": 2}),
            "b": node("add", inputs={"x": "${a.n}", "y": 10}),
            "c": node("add", inputs={"x": "${a.n}", "y": "${b.n}"}),
        },
    )
    assert (result.status, result.data) == ("completed", {"n": 16})
    assert stage.supervisor() is None, "nothing was there for it to do"


def test_what_was_judged_counts_whatever_a_function_does_to_it_later(project: Project) -> None:
    kept = {"n": 1}

    @project.agent("first")
    def first(call: Call) -> dict[str, Any]:
        return {"summary": "made", "data": kept}

    @project.agent("meddler")
    def meddler(call: Call) -> str:
        kept["n"] = 99
        return "changed"

    project.agent("add")(add)
    result = run(
        project,
        {"a": node("first"), "b": node("meddler", after=["a"]), "c": node("add", inputs={"x": "${a.n}"}, after=["b"])},
    )
    assert (result.status, result.data) == ("completed", {"n": 1})


def test_other_agents_are_the_supervisors(stage: Stage, project: Project) -> None:
    stage.gives("worker", {"n": 5})
    stage.json("list")
    project.agent("add")(add)
    result = run(project, {"a": node("worker"), "b": node("add", inputs={"x": "${a.n}", "y": 1})})
    assert (result.status, result.data) == ("completed", {"n": 6})
    assert [row["task_id"].split("-")[0] for row in result.json["nodes"]] == ["worker", "add"]


def test_a_function_is_tried_again(project: Project) -> None:
    calls: list[str] = []

    @project.agent("flaky")
    def flaky(call: Call) -> dict[str, Any]:
        calls.append(call.run_id)
        if len(calls) < 3:
            raise ValueError("no luck")
        return {"data": {"n": 1}, "summary": "at last"}

    result = run(project, {"a": node("flaky")}, on_failure={"policy": "retry", "max_retries": 2})
    assert (result.status, len(calls), result.json["nodes"][0]["attempts"]) == ("completed", 3, 3)


def test_stopping_it(project: Project) -> None:
    began, go = threading.Event(), threading.Event()

    @project.agent("slow")
    def slow(call: Call) -> str:
        began.set()
        go.wait(60)
        return "late"

    task = project.plan(text({"a": node("slow"), "b": node("slow", "a")}), wait=False)
    assert isinstance(task, Task)
    began.wait(30)
    result = task.stop()
    go.set()
    assert (result.status, states(result.json)["a"]) == ("cancelled", STOPPED)


def test_a_plan_without_functions_is_the_supervisors(stage: Stage, project: Project) -> None:
    stage.gives("worker", {"n": 5})
    stage.json("list")
    assert run(project, {"a": node("worker")}).data == {"n": 5}


PROGRAM = """
import sys, time
from overhand import Project
project = Project(sys.argv[1])
@project.agent("mine")
def mine(call):
    open(sys.argv[1] + "/up", "w").close()
    time.sleep(1000)
project.plan(sys.argv[2])
"""


@pytest.mark.parametrize("lost", [False, True], ids=["", "events-lost"])
def test_when_its_process_dies_a_supervisor_goes_on_and_says_what_is_missing(stage: Stage, lost: bool) -> None:
    stage.gives("worker", {"n": 5})
    stage.json("list")
    nodes = {"a": node("worker"), "b": node("mine", "a"), "c": node("worker")}
    plan = text(nodes, on_failure={"policy": "continue", "max_retries": 1}, merge="aggregate")
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(stage.path), plan], env=stage.project.environment())
    stage.appears("up")
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    (task,) = [s.id for s in stage.store.tasks() if s.agent == "plan"]
    if lost:
        Path(stage.store.record(task), "plan.jsonl").unlink()
    result = stage.result(task)
    assert (result["status"], states(result)) == ("partial", {"a": VERIFIED, "b": "failed", "c": VERIFIED})
    assert "mine" in result["nodes"][1]["why"]
    assert until(lambda: stage.starts(stage.child(task, "a").id), "its start") == 1


def test_when_its_process_dies_a_supervisor_that_never_heard_of_it_goes_on_too(stage: Stage) -> None:
    """One that is busy with something else when the plan is begun, and is handed none of its nodes."""
    stage.shell("busy", f"touch busy; until [ -e enough ]; do sleep 0.02; done; {QUICK}")
    other = stage.delegate("something else", "--agent", "busy")
    stage.appears("busy")
    plan = text({"a": node("mine")})
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(stage.path), plan], env=stage.project.environment())
    stage.appears("up")
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    (task,) = [s.id for s in stage.store.tasks() if s.agent == "plan"]
    result = stage.result(task)
    assert (result["status"], states(result)) == ("failed", {"a": "failed"})
    (stage.path / "enough").touch()
    assert stage.judged(other).status == "completed"
