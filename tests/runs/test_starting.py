"""A start that is killed at every moment of it: nothing runs twice, nothing is stuck."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.system import detached, start_time
from support.scene import QUICK, until
from support.soak import lots, was_killed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.scene import Scene

DRIVER = str(Path(__file__).with_name("killed_at.py"))
BENCH = Path(__file__).parents[2] / "bench"
NEVER = 9999
LOTS = 5
in_lots = pytest.mark.parametrize("lot", lots(LOTS))


@pytest.fixture
def yard(scene: Scene) -> Scene:
    """A project with a quick agent, trusted and used before, so that the drivers need no verb."""
    scene.shell("worker", QUICK)
    scene.json("list")
    scene.store.ensure()
    return scene


def die_at(scene: Scene, task: str, step: str, point: int, *more: str) -> bool:
    """Whether the step was killed there; False: it had no such point and went through."""
    argv = [sys.executable, DRIVER, str(scene.path), task, step, str(point), *more]
    ran = subprocess.run(argv, env=scene.project.environment(), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode in (0, -9), ran.stderr
    return was_killed(ran.returncode)


def every_point(scene: Scene, step: str, lot: int, least: int) -> Iterator[tuple[str, int]]:
    """A fresh task and the lot's next point, until the step goes through; it has at least so many points."""
    point, killed = lot, True
    while killed:
        task = scene.accepted(f"point {point}")
        yield task, point
        killed = die_at(scene, task, step, point)
        point += LOTS
    assert point - LOTS > least


def two_adopters(scene: Scene) -> None:
    """Two verbs come at once and find out what there is; each would start a supervisor."""
    verbs = [scene.project.start("list", "--json") for _ in range(2)]
    for verb in verbs:
        out, err = verb.communicate(timeout=60)
        assert verb.returncode == 0, out + err
    until(lambda: all(task.status for task in scene.store.tasks()), "every task judged")


def ran_once(scene: Scene, task: str, about: object) -> None:
    """Completed in one run, started once, judged once."""
    state = scene.state(task)
    assert (state.status, scene.starts(task), len(state.runs)) == ("completed", 1, 1), about
    assert len(scene.events(task, "judged")) == 1, about


@in_lots
def test_start_killed_at_every_moment(yard: Scene, lot: int) -> None:
    tasks = dict(every_point(yard, "start", lot, 15))
    two_adopters(yard)
    for task, point in tasks.items():
        ran_once(yard, task, f"killed at point {point}")


def test_start_killed_together_with_its_shim(yard: Scene) -> None:
    """The shim dies somewhere on its way; what cannot be told is judged, never started again by itself."""
    tasks = [yard.accepted("with its shim") for _ in range(8)]
    for number, task in enumerate(tasks):
        assert die_at(yard, task, "start", number % 3, "shim")
    two_adopters(yard)
    for task in tasks:
        assert yard.starts(task) <= 1
        state = yard.state(task)
        assert [e["run"] for e in yard.events(task, "judged")] == [run.id for run in state.runs]
    lost = next((t for t in tasks if yard.state(t).status != "completed"), None)
    if lost is not None:
        before = yard.starts(lost)
        assert yard.json("run", lost, "--wait")["status"] == "completed"
        assert yard.starts(lost) == before + 1


def has_shim(scene: Scene, task: str) -> bool:
    """Whether the shim was started: its output files are made by the spawn itself."""
    return bool(scene.state(task).runs) and (scene.place(task) / "stdout").exists()


@in_lots
def test_settling_killed_at_every_moment(yard: Scene, lot: int) -> None:
    """The run never began; who finds that out is killed as well, and the next one finds the same."""
    laid_out = 12  # folder and some files are there, the shim is not
    tasks = {}
    for task, point in every_point(yard, "settle", lot, 3):
        assert die_at(yard, task, "start", laid_out)
        assert not has_shim(yard, task)
        tasks[task] = point
    two_adopters(yard)
    for task, point in tasks.items():
        ran_once(yard, task, f"settler killed at point {point}")


@in_lots
def test_judging_killed_at_every_moment(yard: Scene, lot: int) -> None:
    tasks = {}
    for task, point in every_point(yard, "finish", lot, 5):
        assert not die_at(yard, task, "start", NEVER)
        shim = yard.pid(task, "shim")
        until(lambda shim=shim: start_time(shim) is None, "the end of the run")  # type: ignore[misc] # bound now
        assert not die_at(yard, task, "settle", NEVER)
        tasks[task] = point
    two_adopters(yard)
    for task, point in tasks.items():
        ran_once(yard, task, f"judge killed at point {point}")
        result = json.loads((Path(yard.store.record(task)) / "result.json").read_text())
        assert result["summary"] == "Done."


@in_lots
def test_delegating_killed_at_every_moment(yard: Scene, lot: int) -> None:
    """What was accepted is run once, by the next verb; what was not is no task that runs, and in nobody's way."""
    point, killed = lot, True
    while killed:
        killed = die_at(yard, f"point {point}", "delegate", point)
        point += LOTS
    assert point - LOTS > 5
    rows = yard.json("list")["tasks"]
    until(lambda: not any(yard.state(row["task_id"]).queued for row in rows), "every accepted task begun")
    for row in rows:
        if yard.events(row["task_id"], "accepted"):
            yard.judged(row["task_id"])
            ran_once(yard, row["task_id"], row["title"])
        else:
            assert yard.starts(row["task_id"]) == 0
    assert len({row["handle"] for row in rows if row["handle"]}) == len([row for row in rows if row["handle"]])


@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.soak)])
def test_random_kills(kills: int) -> None:
    """The quick version of the figure: killed at random moments, shims too, two adopters at once."""
    argv = [sys.executable, str(BENCH / "kills.py"), str(kills)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["kills"], told["double_starts"], told["stuck"]) == (kills, 0, 0), told


def test_a_look_at_the_wrong_moment_does_not_prevent_a_start(tmp_path: Path) -> None:
    """Verbs test `life` without the task's lock; the starter must never lose it to one of them."""
    place = str(tmp_path)
    prober = (
        f"from overhand.system import detached\nopen({place!r} + '/up', 'w')\nwhile True: detached.lives({place!r})"
    )
    with subprocess.Popen([sys.executable, "-c", prober]) as process:
        try:
            until((tmp_path / "up").exists, "the prober")
            for _ in range(2_000):
                os.close(detached.hold_life(place))
        finally:
            process.kill()
