"""A verb that has made a task, or queued it, says so whatever fails afterwards: trying again doubles nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Busy
from overhand.supervisor import client, hand_to_supervisor
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.scene import Scene

HOLDER = """
import fcntl, sys
f = open(sys.argv[1], "a")
fcntl.flock(f, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def stopped(scene: Scene) -> Iterator[Scene]:
    """The supervisor stands still; `failed` is a task that can be run again, `done` one that takes a message."""
    scene.shell("waiter", f"until [ -e go ]; do sleep 0.05; done; {QUICK}")
    scene.shell("worker", QUICK)
    scene.shell("broken", "exit 1")
    done, failed = scene.delegate("done"), scene.delegate("failed", "--agent", "broken")
    scene.judged(done)
    scene.judged(failed)
    waiting = scene.delegate("wait", "--agent", "waiter")
    scene.running(waiting)
    with scene.supervisor_standing_still(waiting):
        yield scene
    (scene.path / "go").touch()
    for task in scene.ids():
        scene.judged(task)


def test_each_verb_succeeds_or_names_its_task(stopped: Scene) -> None:
    known = set(stopped.ids())
    made = stopped.json("delegate", "new", "--agent", "worker")
    assert set(stopped.ids()) - known == {made["task_id"]}
    assert "Recorded, but" in made["reason"]
    assert "is stopped" in made["reason"]

    error = stopped.json("delegate", "waited for", "--agent", "worker", "--wait", code=3)["error"]
    (waited,) = set(stopped.ids()) - known - {made["task_id"]}
    assert (error["task_id"], error["handle"]) == (waited, stopped.state(waited).handle)
    ran = stopped.project.run("delegate", "in words", "--agent", "worker", "--wait")
    (words,) = set(stopped.ids()) - known - {made["task_id"], waited}
    assert words in ran.err
    assert "Don't type it again" in ran.err

    failed = next(task.id for task in stopped.store.tasks() if task.title == "failed")
    done = next(task.id for task in stopped.store.tasks() if task.title == "done")
    assert "Recorded, but" in stopped.json("run", failed)["reason"]
    assert "Recorded, but" in stopped.json("send", done, "and once more")["reason"]
    os.kill(stopped.supervisor() or 0, signal.SIGCONT)
    for task, runs in ((made["task_id"], 1), (waited, 1), (words, 1), (failed, 2), (done, 2)):
        until(partial(_has_started, stopped, task, runs), f"{task} started {runs} times")


def test_too_few_descriptors_make_a_task_and_say_so_or_make_none(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    scene.json("list")
    scene.project.trust_files()
    for count in (4, 5, 6, 7, 8, 10, 14):
        before = set(scene.ids())
        call = f'ulimit -n {count}; exec {sys.executable} -m overhand delegate "few {count}" --agent worker --json'
        ran = subprocess.run(
            ["/bin/sh", "-c", call],
            cwd=scene.path,
            env=scene.project.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        made = set(scene.ids()) - before
        assert len(made) <= 1
        assert all(task in ran.stdout for task in made), ran.stdout + ran.stderr
        assert made or ran.returncode, ran.stdout
        scene.kill_supervisor()  # it has as few
    for task in scene.ids():
        scene.json("wait", task, code=None)


def test_a_lock_that_another_program_holds_is_named_with_its_holder(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PATIENCE", 0.0)
    scene.store.ensure()
    lock = f"{scene.store.own}/lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=f"held by process {holder.pid}"):
            hand_to_supervisor(scene.store, [])
        holder.communicate("")


def _has_started(scene: Scene, task: str, times: int) -> bool:
    return scene.starts(task) == times
