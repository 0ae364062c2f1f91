"""Messages and limits under fire: whoever dies at whatever moment, a message is handed over once and a limit costs
nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.runs import message_event
from overhand.system import start_time
from runs.test_starting import LOTS, NEVER, die_at, every_point, in_lots, two_adopters
from support import player
from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.scene import Scene

BY = {"kind": "person", "via": "test"}


@pytest.fixture
def yard(scene: Scene) -> Scene:
    """A project with an agent that writes down what it is told."""
    scene.shell("worker", f'cat >>"$OVERHAND_PROJECT/heard-$OVERHAND_TASK"; {QUICK}')
    scene.json("list")
    scene.store.ensure()
    return scene


def send(scene: Scene, task: str) -> None:
    with scene.store.lock(task, BY) as locked:
        locked.append(message_event(locked.record, "xyzzy"))


def heard(scene: Scene, task: str) -> int:
    """How often the agent was told, in what it was really given."""
    return (scene.path / f"heard-{task}").read_text().count("xyzzy")


def ended(scene: Scene, task: str) -> None:
    """Start it undisturbed, and wait until its run is over and recorded as such."""
    assert not die_at(scene, task, "start", NEVER)
    shim = scene.pid(task, "shim")
    until(lambda: start_time(shim) is None, "the end of the run")
    assert not die_at(scene, task, "settle", NEVER)


@in_lots
def test_the_starter_dies_at_every_moment(yard: Scene, lot: int) -> None:
    tasks = {}
    for task, point in every_point(yard, "start", lot, 15):
        send(yard, task)
        tasks[task] = point
    two_adopters(yard)
    for task, point in tasks.items():
        assert (heard(yard, task), yard.starts(task)) == (1, 1), f"killed at point {point}"


@in_lots
def test_the_judge_dies_at_every_moment(yard: Scene, lot: int) -> None:
    tasks = {}
    for task, point in every_point(yard, "finish", lot, 5):
        ended(yard, task)
        send(yard, task)  # it came while the run was being judged
        tasks[task] = point
    two_adopters(yard)
    for task, point in tasks.items():
        assert (heard(yard, task), yard.starts(task)) == (1, 2), f"killed at point {point}"
        assert [event["status"] for event in yard.events(task, "judged")] == ["completed"] * 2


@in_lots
def test_the_judge_of_a_limit_dies_at_every_moment(
    yard: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lot: int
) -> None:
    folder = player.put(tmp_path / "bin", "claude")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (folder / "limit").write_text("You've hit your usage limit. Try again in 2 hours.")
    tasks, point, killed = {}, lot, True
    while killed:
        task = yard.accepted(f"point {point}", "claude")
        ended(yard, task)
        killed = die_at(yard, task, "finish", point)
        tasks[task] = point
        point += LOTS
    assert point - LOTS > 3
    (folder / "limit").unlink()
    yard.json("list")
    until(lambda: all(yard.state(task).paused for task in tasks), "every limit recorded")
    assert all(len(yard.state(task).runs) == 1 for task in tasks), "nothing began meanwhile"
    Path(yard.store.own, "paused-claude").unlink()
    two_adopters(yard)
    for task, number in tasks.items():
        state = yard.state(task)
        assert [run.status for run in state.runs] == ["limit", "completed"], f"killed at point {number}"
        assert len(yard.events(task, "judged")) == 1
    assert len({row["session"] for row in player.trail(folder)}) == len(tasks), "each in its own session"
