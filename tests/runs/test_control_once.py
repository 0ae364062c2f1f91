"""Each CONTROL line is carried out once, whoever dies while it is, and however many hear it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.policy import Actor, Config
from overhand.runs import finish_run, settle_run
from overhand.system import command_line_has, process_table, start_time
from runs.test_control import answer_files, children, commands, ended, says
from support.scene import QUICK, until
from support.soak import lots, was_killed

if TYPE_CHECKING:
    from support.scene import Scene

EVERYTHING = (
    "CONTROL: CHECKPOINT REASON: one\nCONTROL: PAUSE REASON: two?\nCONTROL: RESUME\n\nCONTROL: ESCALATE REASON: three\n"
)
POINTS = 50
KILLED_AT = [sys.executable, str(Path(__file__).parent / "killed_at.py")]


def unheard(scene: Scene, count: int = 1) -> list[str]:
    """Tasks whose runs have printed everything and ended while nobody watched."""
    tasks = [scene.delegate(f"task {n}") for n in range(count)]
    shims = [scene.pid(task, "shim") for task in tasks]
    scene.kill_supervisor()
    (scene.path / "go").touch()
    until(lambda: all(start_time(shim) is None for shim in shims), "the end of the runs")
    return tasks


def supervisors(scene: Scene) -> list[int]:
    """Also those that have only begun."""
    words = ("overhand.supervisor", str(scene.path))
    return [pid for pid in process_table() if all(command_line_has(pid, word) for word in words)]


def step(scene: Scene, task: str, name: str, point: int = 10_000) -> int:
    env = scene.project.environment()
    code = subprocess.run([*KILLED_AT, str(scene.path), task, name, str(point)], env=env, check=False).returncode
    was_killed(code)
    return code


@pytest.mark.soak
def test_a_supervisor_that_dies_at_any_point_of_hearing(scene: Scene) -> None:
    says(scene, EVERYTHING)
    scene.shell("worker", "until test -e go; do sleep 0.5; done; cat worker.said", control=True)  # there are many
    scene.project.config(f"[limits]\nmax_parallel = {POINTS}\n")
    work = Actor(scene.store, Config(), {"kind": "overhand", "via": "test"})
    codes = []
    for number, task in enumerate(unheard(scene, POINTS // 2)):
        codes.append(step(scene, task, "hear", number * 2))  # behind one write is before the next one
        settle_run(work, task)
        state = finish_run(work, task)
        assert state.status == "blocked"
        assert commands(scene, task) == [(w, True) for w in ("CHECKPOINT", "PAUSE", "RESUME", "ESCALATE")]
        assert [q.via for q in state.questions] in (["pause", "control"], ["file", "control"])
        assert [c.reason for c in state.checkpoints] == ["one", "three"]
        latest = Path(scene.store.record(task)) / "checkpoints/latest"
        assert latest.read_text() == f"{state.checkpoints[-1].id}\n"
    assert -9 in codes
    assert codes[-1] == 0, "there are more points than were tried"


@pytest.mark.parametrize("point", lots(14, kept=2))
def test_a_supervisor_that_dies_at_any_point_of_a_delegation(scene: Scene, point: int) -> None:
    scene.shell("helper", QUICK)
    (scene.path / "said").write_text("CONTROL: DELEGATE helper REASON: Do a part.\n")
    script = f"if test -e seen; then {QUICK}\nelse touch seen; until test -e go; do sleep 0.02; done; cat said; fi"
    scene.shell("worker", script, control=True)
    (task,) = unheard(scene)
    step(scene, task, "hear", point)
    scene.json("show", task)
    assert ended(scene, task, 2).status == "completed"
    assert len(children(scene, task)) == 1
    assert commands(scene, task) == [("DELEGATE", True)]


def test_many_who_hear_the_same_line_at_once_make_one_child(scene: Scene) -> None:
    scene.shell("helper", QUICK)
    says(scene, "CONTROL: DELEGATE helper REASON: Do a part.\n")
    scene.shell("worker", f"until test -e go; do sleep 0.02; done; cat worker.said; {QUICK}", control=True)
    (task,) = unheard(scene)
    words = [*KILLED_AT, str(scene.path), task, "hear", "10000"]
    at_once = [subprocess.Popen(words, env=scene.project.environment()) for _ in range(4)]
    assert [one.wait() for one in at_once] == [0] * 4
    assert ended(scene, task).status == "completed"
    (child,) = children(scene, task)
    assert commands(scene, task) == [("DELEGATE", True)]
    assert ended(scene, child.id).status == "completed"


@pytest.mark.parametrize("verb", ["show", "list"])
def test_a_live_run_that_is_adopted_is_heard_once(scene: Scene, verb: str) -> None:
    script = """cat worker.said; until test -e more; do sleep 0.02; done; echo 'CONTROL: PAUSE REASON: after?'
    until test -e go; do sleep 0.02; done;"""
    says(scene, "")
    (scene.path / "worker.said").write_text("CONTROL: CHECKPOINT REASON: x\nCONTROL: PAUSE REASON: before?\n")
    scene.shell("worker", script + QUICK, control=True)
    task = scene.delegate()
    until(lambda: scene.state(task).questions, "the first question")
    scene.kill_supervisor()
    (scene.path / "more").touch()
    scene.json(verb, *([task] if verb == "show" else []))
    until(lambda: len(scene.state(task).questions) == 2, "the second question")
    scene.kill_supervisor()
    (scene.path / "go").touch()
    scene.json(verb, *([task] if verb == "show" else []))
    assert ended(scene, task).status == "needs-input"
    assert [q.text for q in scene.state(task).questions] == ["before?", "after?"]
    assert len(scene.state(task).checkpoints) == 1


def test_a_parent_goes_on_although_the_supervisor_died_between_verdict_and_report(scene: Scene) -> None:
    scene.shell("helper", f"until test -e done; do sleep 0.02; done; {QUICK}")
    (scene.path / "said").write_text("CONTROL: DELEGATE helper REASON: Do a part.\n")
    scene.shell("worker", f"if test -e seen; then {QUICK}\nelse touch seen; cat said; fi", control=True)
    task = scene.delegate()
    assert ended(scene, task).status == "blocked"
    (child,) = children(scene, task)
    shim = scene.pid(child.id, "shim")
    scene.kill_supervisor()
    (scene.path / "done").touch()
    until(lambda: start_time(shim) is None, "the end of the child")
    assert step(scene, child.id, "settle") == 0
    assert step(scene, child.id, "finish") == 0
    assert scene.state(child.id).status == "completed"
    assert not scene.state(task).queued
    scene.project.agent("other", "output")
    scene.delegate("anything", "--agent", "other", "--wait")
    assert ended(scene, task, 2).status == "completed"


@pytest.mark.parametrize("documents_stay", [True, False])
def test_a_child_whose_parent_was_removed_keeps_nobody_from_work(scene: Scene, documents_stay: bool) -> None:
    scene.shell("helper", f"until test -e done; do sleep 0.02; done; {QUICK}")
    says(scene, "CONTROL: DELEGATE helper REASON: Do a part.\n")
    task = scene.delegate()
    assert ended(scene, task).status == "blocked"
    (child,) = children(scene, task)
    shim = scene.pid(child.id, "shim")
    scene.kill_supervisor()
    shutil.rmtree(scene.store.record(task))
    if not documents_stay:
        shutil.rmtree(scene.store.workspace(task))
    (scene.path / "done").touch()
    until(lambda: start_time(shim) is None, "the end of the child")  # so that `wait` itself judges it
    assert scene.json("wait", child.id)["status"] == "completed"
    scene.project.agent("other", "output")
    assert scene.json("delegate", "anything", "--agent", "other", "--wait")["status"] == "completed"


# The first delegation of a CONTROL line waits at a gate as soon as Python runs it.
HELD_UP = """
import os, sys, time
if "--agent=helper" in sys.orig_argv and not os.path.exists("under-way"):
    open("under-way", "w").close()
    while not os.path.exists("gate"):
        time.sleep(0.01)
"""


@pytest.mark.parametrize("first", ["it goes on", "the next one hears the line"])
@pytest.mark.parametrize("attempt", lots(2))
def test_a_supervisor_that_dies_while_its_delegation_is_under_way(scene: Scene, first: str, attempt: int) -> None:
    """The delegation outlives it, and the next supervisor reads the same line again."""
    (scene.path / "own").mkdir()
    (scene.path / "own/sitecustomize.py").write_text(HELD_UP)
    places = str(scene.path / "own"), os.environ.get("PYTHONPATH")
    held_up = {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    scene.shell("helper", QUICK)
    says(
        scene,
        "CONTROL: DELEGATE helper REASON: Do a part.\nNothing more.\n",
        f"until test -e go; do sleep 0.02; done; {QUICK}",
    )
    task = scene.json("delegate", f"attempt {attempt}", "--agent", "worker", env=held_up)["task_id"]
    scene.appears("under-way")
    scene.kill_supervisor()
    if first == "it goes on":
        (scene.path / "gate").touch()
    scene.json("list")
    if first != "it goes on":
        until(lambda: children(scene, task), "a child, made by the other one")
        (scene.path / "gate").touch()
    (scene.path / "go").touch()
    assert ended(scene, task).status == "completed"
    (child,) = children(scene, task)
    assert commands(scene, task) == [("DELEGATE", True)]
    assert ended(scene, child.id).status == "completed"
    until(lambda: answer_files(scene, task), "the result")
    until(lambda: not scene.agents_left(), "the end of whoever starts supervisors")
    until(lambda: len(supervisors(scene)) == 1, "the end of the one that came second")
