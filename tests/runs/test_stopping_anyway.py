"""`stop` and the deadline end processes also when nothing can be recorded, and `stop` says what it could not do."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import overhand
from overhand.record import LOG_FILE, Store
from overhand.supervisor import running_supervisor, wake_supervisor
from overhand.system import start_time
from support.disk import fill, pad, small_disk
from support.scene import kill, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.scene import Scene

__all__ = ["small_disk"]  # a fixture
QUICKLY = '[limits]\nstop_grace = "0.3s"\n'
NOBODY = 65534
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def at_work(scene: Scene) -> tuple[str, int]:
    """A task at work and the pid of its agent, which does not hear SIGTERM."""
    scene.project.config(QUICKLY)
    scene.agent("worker", "ignore-term", "touch:up", "hang")
    task = scene.delegate("stay", "--timeout", "600s")
    scene.appears("up")
    scene.running(task)
    return task, scene.pid(task, "pid")


def stopped_unrecorded(scene: Scene, task: str, pid: int, why: str) -> None:
    """`stop` ends the agent and says why that is not recorded."""
    (row,) = scene.json("stop", task, code=1)["tasks"]
    assert (row["task_id"], "left" in row) == (task, False)
    assert why in row["problem"]
    assert start_time(pid) is None


def recorded_later(scene: Scene, task: str, cause: str = "cancelled") -> None:
    state = scene.judged(task)
    assert (state.status, state.runs[0].cause) == ("cancelled" if cause == "cancelled" else "failed", cause)
    assert (len(state.runs), scene.starts(task), state.runs[0].leftovers) == (1, 1, [])


@pytest.mark.parametrize("room", [20, 230], ids=["no room", "room for the request"])
def test_a_full_disk(small_disk: Scene, room: int) -> None:
    scene = small_disk
    task, pid = at_work(scene)
    pad(scene.store, task, room)
    ballast = fill(scene.path)
    stopped_unrecorded(scene, task, pid, "the disk is full")
    assert [event["e"] for event in scene.events(task)][-1] == ("ballast" if room == 20 else "stop")
    assert "This could not be recorded: Cannot write" in scene.project.run("stop", task).out
    ballast.unlink()
    recorded_later(scene, task)


def test_the_deadline_on_a_full_disk(small_disk: Scene) -> None:
    scene = small_disk
    task, pid = at_work(scene)
    path = pad(scene.store, task)
    ballast = fill(scene.path)
    with open(path, "r+b") as file:
        file.seek(file.read().rindex(b'"timeout":600.0'))
        file.write(b'"timeout":0.001')  # in place: it needs no room
    wake_supervisor(scene.store, [task])
    until(lambda: start_time(pid) is None, "the end of the agent")
    ballast.unlink()
    recorded_later(scene, task, "timeout")


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder through a mount that can't be written to; files that are open stay so."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_read_only_disk(small_disk: Scene) -> None:
    scene = small_disk
    task, pid = at_work(scene)
    with read_only(Path(scene.store.home)):
        stopped_unrecorded(scene, task, pid, "read-only")
    state = scene.judged(task)
    assert (state.status in ("cancelled", "failed"), len(state.runs)) == (True, 1), "it is not started again"


def test_a_lock_that_another_process_holds(scene: Scene) -> None:
    task, pid = at_work(scene)
    with open(f"{scene.store.record(task)}/{LOG_FILE}", "ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        stopped_unrecorded(scene, task, pid, f"is held by process {os.getpid()}")
    recorded_later(scene, task)


def test_a_budget_is_used_up_while_another_process_holds_the_lock(scene: Scene) -> None:
    report = """echo '{"input": 900, "output": 200}' >>"$OVERHAND_USAGE"; exec sleep 600"""
    scene.shell("worker", f"touch up; until [ -e go ]; do sleep 0.01; done; {report}")
    task = scene.delegate("spend", "--budget", "1k tokens")
    scene.appears("up")
    scene.running(task)
    pid = scene.pid(task, "pid")
    with open(f"{scene.store.record(task)}/{LOG_FILE}", "ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        (scene.path / "go").touch()
        until(lambda: start_time(pid) is None, "the end of the agent")
    recorded_later(scene, task, "budget")


LOCKS = """
import fcntl, os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while not os.path.exists("log"):
    signal.sigtimedwait([], 0.01)
log = open(os.readlink("log"), "rb")
fcntl.flock(log, fcntl.LOCK_EX)
open("up", "w").close()
signal.pause()
"""


def test_a_lock_that_the_agent_itself_holds(scene: Scene) -> None:
    """It goes with the agent: then everything is recorded as usual."""
    scene.project.config(QUICKLY)
    scene.project.agent("worker", command=[sys.executable, "-c", LOCKS])
    task = scene.delegate()
    scene.running(task)
    (scene.path / "log").symlink_to(f"{scene.store.record(task)}/{LOG_FILE}")
    scene.appears("up")
    (row,) = scene.json("stop", task)["tasks"]
    assert (row["was"], row["status"], row["cause"]) == ("asked", "cancelled", "cancelled")
    assert "problem" not in row


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\x00 this is no log\n" * 40)


def garble_the_run(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(b"{broken\n" if b'"run.created"' in line else line for line in lines))


@pytest.mark.parametrize("damage", [garble, garble_the_run, Path.unlink])
@pytest.mark.parametrize("supervised", [True, False], ids=["supervised", "unsupervised"])
def test_a_damaged_log(scene: Scene, damage: object, supervised: bool) -> None:
    task, pid = at_work(scene)
    path = Path(f"{scene.store.record(task)}/{LOG_FILE}")
    kept = path.read_bytes()
    if not supervised:
        scene.kill_supervisor()
    assert callable(damage)
    damage(path)
    ran = scene.project.run("stop", task, "--json")
    assert ran.code in (0, 1), ran.out + ran.err
    assert start_time(pid) is None
    path.write_bytes(kept)
    scene.json("wait", task, code=None)
    assert scene.state(task).runs[0].leftovers == []


# An agent with a child that belongs to root: only root can end it.
BECOMES_ROOT = "import os, time; os.setuid(0); print(os.getpid(), flush=True); time.sleep(600)"
WORKER = """---
name: worker
description: It leaves a process of another user behind.
overhand:
  driver: command
  command: [/bin/sh, -c, '"$0" -I -c "$1" & exec sleep 600', {setuid}, "{script}"]
---
Work.
"""


def python_for_all() -> str:
    """A Python that every user may execute."""
    for path in (sys.executable, "/usr/bin/python3"):
        look = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(look, user=NOBODY, group=NOBODY, cwd="/", check=False).returncode == 0:
                return path
        except OSError:
            continue
    pytest.skip("there is no Python that another user may execute")


@ROOT
def test_what_cannot_be_ended_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    python, setuid, project = python_for_all(), tmp_path / "become", tmp_path / "project"
    shutil.copy(os.path.realpath(python), setuid)
    setuid.chmod(0o4755)
    (project / ".overhand/agents").mkdir(parents=True)
    (project / ".overhand/agents/worker.md").write_text(WORKER.format(setuid=setuid, script=BECOMES_ROOT))
    for path in (project, *project.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    packages = [str(Path(overhand.__file__).parents[1]), sysconfig.get_path("purelib")]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(project), "PYTHONPATH": os.pathsep.join(packages)}

    def call(*words: str, code: int = 0) -> str:
        argv = [python, "-m", "overhand", *words]
        ids: Any = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        ran: subprocess.CompletedProcess[str] = subprocess.run(
            argv, cwd=project, env=env, **ids, capture_output=True, text=True, check=False, timeout=120
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout

    call("init")
    call("trust", "--yes")
    task = json.loads(call("delegate", "stay", "--agent", "worker", "--set=shield=off", "--json"))["task_id"]
    (home,) = (project / ".local/state/overhand/projects").glob("project-*")
    store = Store(str(project), str(home))
    run = until(lambda: store.task(task).last_run, "a run")
    printed = Path(store.run_folder(task, run.id)) / "stdout"
    pid = int(until(lambda: printed.read_text() if printed.exists() else "", "the child"))
    try:
        (row,) = json.loads(call("stop", task, "--now", "--json", code=1))["tasks"]
        assert row["left"] == [pid]
        state = store.task(task)
        assert state.notices == [f"Processes could not be ended: {pid}"]
        assert (state.status, state.runs[0].leftovers) == ("cancelled", [pid])
        assert f"kill -KILL {pid}" in call("stop", task, code=1)
        assert "it could not end them" in call("show", task)
    finally:
        kill(pid)
        supervisor = running_supervisor(store)
        if supervisor:
            kill(supervisor)
    call("stop", task)
