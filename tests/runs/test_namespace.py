"""Verbs in a second pid namespace: they see what is so, signal nothing and start no supervisor."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from overhand.system import start_time
from support.scene import until

if TYPE_CHECKING:
    from support.scene import Scene

UNSHARE = ["unshare", "-p", "-f", "--mount-proc"]


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine forbids a second pid namespace")


def inside(scene: Scene, *args: str, code: int = 0) -> Any:
    """`overhand ARGS --json` in a pid namespace of its own."""
    argv = [*UNSHARE, sys.executable, "-m", "overhand", *args, "--json"]
    environment = scene.project.environment()
    ran = subprocess.run(argv, cwd=scene.path, env=environment, capture_output=True, text=True, check=False, timeout=90)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def test_an_outside_run_is_alive_and_is_left_alone(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    shim, agent = scene.pid(task, "shim"), scene.pid(task, "pid")
    scene.kill_supervisor()
    assert inside(scene, "show", task)["run_state"] == "running"
    assert inside(scene, "list")["tasks"][0]["headline"] == "working"
    assert "pid namespace" in inside(scene, "stop", task, code=3)["error"]["message"]
    assert scene.supervisor() is None
    assert start_time(shim) is not None
    assert start_time(agent) is not None
    assert scene.state(task).status is None
    assert scene.json("stop", task, "--now")["tasks"][0]["status"] == "cancelled"


def test_a_run_that_ended_outside_is_settled_and_judged_inside(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    shim = scene.pid(task, "shim")
    scene.kill_supervisor()
    (scene.path / "go").touch()
    until(lambda: start_time(shim) is None, "the end of the run")
    shown = inside(scene, "show", task)
    assert (shown["status"], shown["cause"], shown["runs"][0]["exit"]) == ("completed", "exit", 0)
    assert scene.supervisor() is None
    assert len(scene.events(task, "judged")) == 1
    assert scene.starts(task) == 1


def test_only_a_supervisor_outside_can_tell_that_a_person_delegates_inside(scene: Scene) -> None:
    """Without one the caller may be the run that is alive outside."""
    scene.agent("worker", "touch:up", "until:go", "output")
    first = scene.delegate()
    scene.appears("up")
    second = inside(scene, "delegate", "from inside")["task_id"]
    scene.kill_supervisor()
    error = inside(scene, "delegate", "without a supervisor", code=3)["error"]
    assert (error["code"], "outside this pid namespace" in error["message"]) == ("APPROVAL_REQUIRED", True)
    assert scene.supervisor() is None
    (scene.path / "go").touch()
    assert scene.json("wait", first, second)["tasks"][1]["status"] == "completed"
    assert [scene.starts(task) for task in scene.ids()] == [1, 1]


def test_a_supervisor_outside_serves_those_inside(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "hang")
    task = scene.delegate()
    scene.appears("up")
    supervisor = scene.supervisor()
    assert inside(scene, "stop", task, "--now")["tasks"][0]["status"] == "cancelled"
    assert scene.supervisor() == supervisor
    until(lambda: not scene.agents_left(), "no agent left")
