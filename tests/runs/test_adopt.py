"""A run that another process left behind: whether it is alive, and what a crash left unrecorded."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.agents import find_agent
from overhand.policy import Actor, Config
from overhand.record import LOG_FILE
from overhand.runs import adopt, claim_run, run_created, start_run, stop_run
from overhand.system import lives, shim_pid
from support.scene import until

if TYPE_CHECKING:
    from support.scene import Scene


@pytest.fixture(autouse=True)
def _own_settings(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(scene.project.config_home))


def actor(scene: Scene) -> Actor:
    return Actor(scene.store, Config(), {"kind": "overhand", "via": "test"}, scene.project.environment())


def begun(scene: Scene) -> str:
    """A run whose starter is gone."""
    scene.agent("worker", "touch:up", "until:go", "output")
    scene.project.run("trust", "--yes", check=True)
    task = scene.accepted()
    assert start_run(actor(scene), task)
    scene.appears("up")
    return task


def test_a_start_that_was_not_recorded(scene: Scene) -> None:
    """Its starter was killed between the spawn and the event."""
    task = begun(scene)
    log = Path(scene.store.record(task), LOG_FILE)
    *before, started = log.read_bytes().splitlines(keepends=True)
    assert b"run.started" in started
    log.write_bytes(b"".join(before))
    assert scene.state(task).runs[-1].state == "starting"
    assert [adopt(actor(scene), task) for _ in range(2)] == ["alive", "alive"]
    (event,) = scene.events(task, "run.started")
    assert event["shim"] == shim_pid(str(scene.place(task)))
    stop_run(actor(scene), task, "cancelled", 0.0)


def test_a_run_that_was_killed(scene: Scene) -> None:
    task = begun(scene)
    for name in ("shim", "pid"):
        os.kill(scene.pid(task, name), signal.SIGKILL)
    until(lambda: not lives(str(scene.place(task))), "its end")
    assert [adopt(actor(scene), task) for _ in range(2)] == ["ended", "ended"]
    (event,) = scene.events(task, "run.ended")
    assert event["cause"] == "lost"


def test_a_run_that_never_began_uses_up_no_attempt(scene: Scene) -> None:
    scene.agent("worker", "output")
    task = scene.accepted()
    worker = find_agent(str(scene.path), "worker", Config())
    with scene.store.lock(task, actor(scene).by) as locked:
        assert claim_run(locked, worker, 60.0)
    assert adopt(actor(scene), task) == "never-began"
    assert scene.state(task).queued
    assert not scene.state(task).runs


def test_a_run_on_another_machine_is_left_alone(scene: Scene) -> None:
    scene.agent("worker", "output")
    task = scene.accepted()
    worker = find_agent(str(scene.path), "worker", Config())
    with scene.store.lock(task, actor(scene).by) as locked:
        locked.append(run_created("sess_1700000000_abc123", worker.name, worker.driver, 60.0).replace(machine="other"))
    before = scene.events(task)
    assert adopt(actor(scene), task) == "elsewhere"
    assert scene.events(task) == before
