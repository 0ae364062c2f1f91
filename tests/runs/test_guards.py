"""Depth and cycles count from recorded runs, whatever an agent does to its environment or its ancestors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.record.task import Parent
from runs.hostile import MANNERS
from support.scene import STARTED

if TYPE_CHECKING:
    from support.scene import Scene

HOSTILE = str(Path(__file__).with_name("hostile.py"))


def hostile(scene: Scene, name: str, manner: str, target: str, **keys: object) -> None:
    """An agent that delegates to `target` in that manner and keeps the answer in the project."""
    command = ["/bin/sh", "-c", STARTED, "sh", sys.executable, HOSTILE, manner, target, f"answer-{name}"]
    scene.project.agent(name, **{"command": command, **keys})


def answer(scene: Scene, name: str) -> Any:
    """What `delegate --json` said to this agent."""
    return json.loads((scene.path / f"answer-{name}").read_text())


@pytest.mark.parametrize("manner", MANNERS)
def test_a_cycle_is_refused_however_it_is_asked_for(scene: Scene, manner: str) -> None:
    hostile(scene, "worker", manner, "worker")
    shown = scene.json("delegate", "round and round", "--agent", "worker", "--wait")
    error = answer(scene, "worker")["error"]
    assert (error["code"], error["path"]) == ("CYCLE_DETECTED", ["user", "worker", "worker"])
    assert "user → worker → worker" in error["message"]
    task = shown["task_id"]
    assert scene.ids() == [task], "no task was made"
    assert scene.trail() == [f"+ {task}"], "nothing was spawned"
    (refused,) = scene.events(task, "refused")
    assert (refused["code"], refused["by"]["run"]) == ("CYCLE_DETECTED", shown["runs"][0]["id"])


@pytest.mark.parametrize("manner", ["plain", "everything"])
def test_depth_three_is_the_last(scene: Scene, manner: str) -> None:
    for name, target in (("one", "two"), ("two", "three"), ("three", "four")):
        hostile(scene, name, manner, target)
    scene.agent("four", "output")
    scene.json("delegate", "down", "--agent", "one", "--wait")
    error = answer(scene, "three")["error"]
    assert (error["code"], error["path"]) == ("MAX_DEPTH_EXCEEDED", ["user", "one", "two", "three", "four"])
    assert "user → one → two → three → four" in error["message"]
    states = scene.store.tasks()
    assert [(task.agent, task.depth) for task in states] == [("one", 1), ("two", 2), ("three", 3)]
    assert [len(scene.events(task.id, "refused")) for task in states] == [0, 0, 1]
    assert len(scene.trail()) == 3
    parents = [task.parent for task in states]
    assert [parent.task if parent else None for parent in parents] == [None, *(s.id for s in states[:2])]


def test_a_reentrant_agent_may_call_itself_until_it_is_too_deep(scene: Scene) -> None:
    hostile(scene, "worker", "plain", "worker", reentrant=True)
    scene.json("delegate", "again", "--agent", "worker", "--wait")
    assert [state.depth for state in scene.store.tasks()] == [1, 2, 3]
    (refused,) = [e for task in scene.ids() for e in scene.events(task, "refused")]
    assert refused["code"] == "MAX_DEPTH_EXCEEDED"


@pytest.mark.parametrize("manner", MANNERS)
def test_a_nested_delegation_is_a_child(scene: Scene, manner: str) -> None:
    hostile(scene, "worker", manner, "child")
    scene.agent("child", "output")
    task = scene.json("delegate", "above", "--agent", "worker", "--wait")["task_id"]
    assert answer(scene, "worker")["status"] == "completed"
    (child,) = [state for state in scene.store.tasks() if state.id != task]
    assert child.parent == Parent(task=task, run=scene.state(task).runs[0].id)
    assert (child.depth, child.path) == (2, ["user", "worker", "child"])


def test_an_agent_that_may_not_delegate(scene: Scene) -> None:
    hostile(scene, "worker", "everything", "child", can_delegate=False)
    scene.agent("child", "output")
    task = scene.json("delegate", "above", "--agent", "worker", "--wait")["task_id"]
    assert "may not delegate" in answer(scene, "worker")["error"]["message"]
    assert scene.ids() == [task]
    assert len(scene.events(task, "refused")) == 1
