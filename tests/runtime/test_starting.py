"""A start that is killed at every moment of it: nothing runs twice, nothing is stuck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runtime.scene import until

from overhand import handles, members

if TYPE_CHECKING:
    from runtime.scene import Scene

DRIVER = str(Path(__file__).with_name("killed_at.py"))
QUICK = '''printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT"'''


def accepted(scene: Scene, number: int) -> str:
    """A task that is queued, while nobody is there to start it."""
    from overhand import machine

    task = scene.delegate(f"task {number}", "--no-start")
    with scene.store.locked(task, {"kind": "person", "via": "test"}) as locked:
        locked.append({"e": "accepted"})
    assert machine.machine()
    return task


def die_at(scene: Scene, task: str, step: str, point: int, *more: str) -> bool:
    """Whether the step was killed there; False: it had no such point and went through."""
    argv = [sys.executable, DRIVER, str(scene.path), task, step, str(point), *more]
    ran = subprocess.run(argv, env=scene.project.environment(), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode in (0, -9), ran.stderr
    return ran.returncode == -9


def two_adopters(scene: Scene, task: str) -> None:
    """Two verbs come at once and find out what there is; each would start a supervisor."""
    verbs = [scene.project.start("show", task, "--json") for _ in range(2)]
    for verb in verbs:
        out, err = verb.communicate(timeout=60)
        assert verb.returncode == 0, out + err


def test_start_killed_at_every_moment(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    point, killed = 0, True
    while killed:
        task = accepted(scene, point)
        killed = die_at(scene, task, "start", point)
        two_adopters(scene, task)
        assert scene.json("wait", task)["status"] == "completed", f"point {point}"
        assert scene.starts(task) == 1, f"point {point}"
        assert len(scene.events(task, "judged")) == 1
        assert len(scene.state(task)["runs"]) == 1, f"point {point}: a start that never was spends no attempt"
        scene.kill_supervisor()
        point += 1
    assert point > 20


def test_start_killed_together_with_its_shim(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    first = behind_the_spawn(scene)
    for point in range(first, first + 6):
        task = accepted(scene, point)
        die_at(scene, task, "start", point, "shim")
        two_adopters(scene, task)
        status = scene.json("wait", task, code=None)["status"]
        assert scene.starts(task) <= 1
        if status != "completed":  # the shim was killed too early to tell; it is judged, and a person runs it again
            assert scene.json("run", task, "--wait")["status"] == "completed"
            assert scene.starts(task) <= 2
        assert [e["run"] for e in scene.events(task, "judged")] == [run["id"] for run in scene.state(task)["runs"]]
        scene.kill_supervisor()


def behind_the_spawn(scene: Scene) -> int:
    """The first point at which the shim exists and is not recorded yet."""
    low, high = 0, 200
    while low < high:
        middle = (low + high) // 2
        task = accepted(scene, 1000 + middle)
        die_at(scene, task, "start", middle)
        began = (scene.place(task) / "stdout").exists() if scene.state(task)["runs"] else False
        low, high = (low, middle) if began else (middle + 1, high)
    scene.json("list")
    until(lambda: not any(scene.state(t)["status"] is None for t in scene.ids()), "all of them judged")
    scene.kill_supervisor()
    return low


def test_settling_killed_at_every_moment(scene: Scene) -> None:
    """The run never began; who finds that out is killed as well, then the next one finds the same."""
    scene.shell("worker", QUICK)
    point, killed = 0, True
    while killed:
        task = accepted(scene, point)
        assert die_at(scene, task, "start", 14)
        assert not handles.lives(str(scene.place(task)))
        killed = die_at(scene, task, "settle", point)
        two_adopters(scene, task)
        shown = scene.json("wait", task)
        assert (shown["status"], len(shown["runs"])) == ("completed", 1), f"point {point}"
        assert scene.starts(task) == 1
        scene.kill_supervisor()
        point += 1
    assert point > 4


def test_judging_killed_at_every_moment(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    point, killed = 0, True
    while killed:
        task = accepted(scene, point)
        assert not die_at(scene, task, "start", 9999)
        shim = scene.pid(task, "shim")
        until(lambda shim=shim: members.start_time(shim) is None, "the end of the run")  # type: ignore[misc] # bound now
        die_at(scene, task, "settle", 9999)
        killed = die_at(scene, task, "finish", point)
        two_adopters(scene, task)
        assert scene.json("wait", task)["status"] == "completed", f"point {point}"
        assert len(scene.events(task, "judged")) == 1
        assert scene.json("wait", task)["summary"] == "Done."
        point += 1
    assert point > 10


@pytest.mark.parametrize("times", [300])
def test_a_look_at_the_wrong_moment_does_not_prevent_a_start(tmp_path: Path, times: int) -> None:
    """Verbs test `life` without the task's lock; the starter must never lose it to one of them."""
    place = str(tmp_path)
    prober = f"from overhand import handles\nwhile True: handles.lives({place!r})"
    with subprocess.Popen([sys.executable, "-c", prober]) as process:
        try:
            import os

            for _ in range(times):
                os.close(handles.hold_life(place))
        finally:
            process.kill()
