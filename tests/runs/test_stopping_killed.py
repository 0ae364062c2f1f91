"""A stop that is killed at every moment of it: its successor finishes it before the run is recorded as ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.system import command_line_has, process_table
from support.scene import until
from support.soak import lots, was_killed

if TYPE_CHECKING:
    from support.scene import Scene

DRIVER = str(Path(__file__).with_name("killed_at.py"))
LOTS = 5
# the first word of their command lines, before the id of their task, which a test beside this one may have given too
ASLEEP = f"overslept-{os.getpid()}-"


def hidden(task: str) -> list[int]:
    """Processes that the task's agent detached; one of them shows no sign of its run but its descent."""
    return [pid for pid in process_table() if command_line_has(pid, f"{ASLEEP}{task}")]


def delegate(scene: Scene) -> str:
    """A run of an agent that ends on SIGTERM, and of two processes in sessions of their own, which don't hear it."""
    task = scene.delegate("stay", "--timeout", "600s")
    until(lambda: len(hidden(task)) == 3, "the agent and what it detached")
    scene.running(task)
    return task


def dies_at(scene: Scene, task: str, point: int) -> bool:
    """Stop the run in a process of its own that is killed at this point; False if it went through."""
    argv = [sys.executable, DRIVER, str(scene.path), task, "stop", str(point)]
    ran = subprocess.run(argv, env=scene.project.environment(), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode in (0, -9), ran.stderr
    return was_killed(ran.returncode)


@pytest.mark.parametrize("lot", lots(LOTS))
def test_a_stop_killed_at_every_moment_is_finished(scene: Scene, lot: int) -> None:
    name = '"$OVERHAND_TASK"'
    sleep = f"exec -a {ASLEEP}$2 sleep 2147480919"
    detached = f"setsid bash -c '{sleep}' x x {name} & setsid env -i /bin/bash -c '{sleep}' x x {name} &"
    scene.shell("worker", f"{detached} exec bash -c '{sleep}' x x {name}")
    point, killed = lot, True
    while killed:
        task = delegate(scene)
        scene.kill_supervisor()
        killed = dies_at(scene, task, point)
        if (scene.place(task) / "stopped").exists():
            shown = scene.json("wait", task, code=1)
            assert (shown["status"], shown["cause"]) == ("failed", "timeout"), f"killed at point {point}"
        else:  # it was killed before the stop had begun
            assert len(hidden(task)) == 3
            scene.json("stop", task)
        assert hidden(task) == [], f"killed at point {point}"
        assert scene.state(task).runs[-1].leftovers == []
        point += LOTS
    assert point - LOTS > 15
