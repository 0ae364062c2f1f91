"""Floods, stalls, and a person who no longer waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from support.scene import until

if TYPE_CHECKING:
    from pathlib import Path

    from support.scene import Scene


def test_a_flooding_agent_is_stopped(scene: Scene) -> None:
    scene.project.config('[limits]\nmax_output = "100KB"\n')
    scene.agent("worker", "flood")
    shown = scene.json("delegate", "flood", "--agent", "worker", "--wait", code=1)
    assert (shown["status"], shown["cause"]) == ("failed", "error")
    assert any("printed more than 100000 bytes" in notice for notice in shown["notices"])
    assert (scene.place(shown["task_id"]) / "stdout").stat().st_size > 100_000
    until(lambda: not scene.agents_left(), "no agent left")


def test_a_stalled_agent_raises_one_notice_and_goes_on(scene: Scene) -> None:
    scene.project.config('[limits]\nstall = "0.5s"\n')
    scene.shell("worker", "read line <pipe; exit 1")
    os.mkfifo(scene.path / "pipe")
    task = scene.delegate()
    until(lambda: scene.state(task).notices, "the notice")
    (notice,) = scene.state(task).notices
    assert notice.startswith("No sign of life for ")
    (row,) = scene.json("list")["tasks"]
    assert (row["run_state"], row["notice"]) == ("running", notice)
    (scene.path / "pipe").write_text("go\n")
    assert scene.json("wait", task, code=1)["cause"] == "exit"


def test_ctrl_c_ends_the_waiting_not_the_work(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    waiting = scene.project.start("delegate", "long", "--agent", "worker", "--wait")
    scene.appears("up")
    (task,) = scene.ids()
    folder = scene.place(task).parents[1] / ".waiters"
    until(lambda: folder.exists() and any(folder.iterdir()), "the waiter")
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert "The work goes on." in err
    assert "overhand stop 1" in err
    assert scene.json("show", task)["run_state"] == "running"
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"
    assert scene.starts(task) == 1


def test_wait_has_a_time_of_its_own(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    assert scene.json("wait", task, "--timeout", "0.2s", code=124)["error"]["code"] == "TIMEOUT"
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"


EXHAUSTED = """
import os, resource, sys, threading
from overhand.system import detached, files, machine, members
from overhand.errors import StorageFailed

held = detached.hold_life(".")
sight = members.SharedSight("NAME")
resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(held) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
said = []
life = lambda: detached.lives(".")
document = lambda: files.read_file("life")
for look in (life, document, lambda: machine.process_row(os.getpid()), sight.read, sight.read):
    try:
        said.append(str(look()))
    except (StorageFailed, OSError) as error:
        said.append(type(error).__name__)
os.close(held + 1)
said.append(str(os.getpid() in sight.read().rows))
print(*said)
"""


def test_who_cannot_open_anything_takes_nobody_for_dead_and_nothing_for_absent(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", EXHAUSTED], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == [*["StorageUnavailable"] * 3, "OSError", "OSError", "True"], ran.stderr
