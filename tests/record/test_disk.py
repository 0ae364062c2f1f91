"""The log and its lock: torn tails, full disks, read-only folders, stopped holders, replaced files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from overhand.record import LOG_FILE, Notice
from overhand.system import Lock, is_stopped, start_time
from support.disk import fill, pad, small_disk
from support.scene import Scene, lines, until

__all__ = ["small_disk"]  # a fixture

if TYPE_CHECKING:
    pass


def test_a_torn_tail_is_cut_off_before_the_next_event(scene: Scene) -> None:
    task = scene.delegate("torn", "--no-start")
    path = Path(scene.store.record(task)) / LOG_FILE
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"e":"accepted","t":"20')
    assert scene.json("show", task)["run_state"] is None, "readers take whole lines only"
    assert scene.json("run", task, "--wait")["status"] == "completed"
    assert path.read_bytes().startswith(whole)
    assert [event["e"] for event in lines(path)][:3] == ["created", "accepted", "run.created"]


def test_events_that_are_appended_together_count_together(scene: Scene) -> None:
    """Wherever a kill cuts such an append off, no reader sees a part of it, and the next writer cuts it away."""
    task = scene.delegate("torn", "--no-start")
    path = Path(scene.store.record(task)) / LOG_FILE
    before = path.read_bytes()
    with scene.store.lock(task, {"kind": "user", "via": "test"}) as locked:
        locked.append(Notice(text="one"), Notice(text="two"), Notice(text="three"))
    whole = path.read_bytes()
    for size in range(len(before), len(whole)):
        path.write_bytes(whole[:size])
        assert scene.state(task).notices == [], whole[len(before) : size]
    ends = [number for number, byte in enumerate(whole, 1) if byte == ord("\n") and number > len(before)]
    for size in (*ends[:-1], *(end - 1 for end in ends)):
        path.write_bytes(whole[:size])
        with scene.store.lock(task, {"kind": "user", "via": "test"}) as locked:
            assert locked.task.notices == []
            locked.append(Notice(text="next"))
        assert scene.state(task).notices == ["next"]
        assert [event["e"] for event in lines(path)] == ["created", "notice"]
    path.write_bytes(whole)
    assert scene.state(task).notices == ["one", "two", "three"]


def test_a_full_disk_leaves_the_log_as_it_was(small_disk: Scene) -> None:
    scene = small_disk
    task = scene.delegate("prepared", "--no-start")
    path = pad(scene.store, task)
    before = path.read_bytes()
    ballast = fill(scene.path)
    error = scene.json("run", task, code=3)["error"]
    assert (error["code"], "the disk is full" in error["message"]) == ("STORAGE_FAILED", True)
    assert path.read_bytes() == before
    assert scene.json("show", task)["status"] is None
    ballast.unlink()
    assert scene.json("run", task, "--wait")["status"] == "completed"
    lines(path)


def test_a_delegation_on_a_full_disk_makes_no_half_task(small_disk: Scene) -> None:
    scene = small_disk
    first = scene.delegate("prepared", "--no-start")
    ballast = fill(scene.path)
    error = scene.json("delegate", "too much", "--agent", "worker", code=3)["error"]
    assert (error["code"], "the disk is full" in error["message"]) == ("STORAGE_FAILED", True)
    assert [one["task_id"] for one in scene.json("list")["tasks"]] == [first]
    assert sorted(p.name for p in Path(scene.store.workspaces).glob("worker-*")) == [first]
    ballast.unlink()
    assert scene.json("delegate", "now", "--agent", "worker", "--wait")["status"] == "completed"


def writes(pid: int) -> int:
    """How often a process has called write(2), in vain or not."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["syscw"])


def test_a_disk_that_is_full_when_the_agent_ends_loses_nothing(small_disk: Scene) -> None:
    """The verdict waits until there is room; the run is not judged by what could not be written."""
    scene = small_disk
    scene.agent("worker", "output", "touch:up", "until:go")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)  # nobody else writes to the log until it ends
    path = pad(scene.store, task)
    ballast = fill(scene.path)
    shim, supervisor = scene.pid(task, "shim"), scene.supervisor()
    assert supervisor is not None
    tried = writes(supervisor)
    os.close(os.open(scene.path / "go", os.O_WRONLY | os.O_CREAT, 0o644))  # an empty file needs no room
    until(lambda: start_time(shim) is None, "the end of the run")
    until(lambda: writes(supervisor) > tried + 5, "the supervisor trying to record the end")
    lines(path)
    ballast.unlink()
    assert scene.judged(task).status == "completed"
    assert scene.supervisor() == supervisor, "it outlived the full disk"
    assert len(scene.events(task, "judged")) == 1


def test_a_short_write_is_taken_back(scene: Scene) -> None:
    """Without root: a limit on the size of files, eleven bytes behind the end of the log."""
    task = scene.delegate("prepared", "--no-start")
    path = Path(scene.store.record(task)) / LOG_FILE
    before = path.read_bytes()
    program = (
        "import resource, sys\nfrom overhand.cli import main\n"
        "limit = int(sys.argv.pop(1))\nresource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\nsys.exit(main())"
    )
    argv = [sys.executable, "-c", program, str(len(before) + 11), "run", task, "--json"]
    ran = subprocess.run(
        argv, cwd=scene.path, env=scene.project.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["error"]["code"] == "STORAGE_FAILED"
    assert path.read_bytes() == before


def test_a_read_only_folder_is_told_and_can_be_read(small_disk: Scene) -> None:
    scene = small_disk
    task = scene.json("delegate", "before", "--agent", "worker", "--wait")["task_id"]
    scene.kill_supervisor()
    remount = ["mount", "-o", "remount,ro", str(scene.path.parent)]  # busy until the dead have let go of their files
    until(lambda: subprocess.run(remount, capture_output=True, check=False).returncode == 0, "a read-only disk")
    for words in (["delegate", "after", "--agent", "worker"], ["run", task]):
        error = scene.json(*words, code=3)["error"]
        assert error["code"] in ("STORAGE_FAILED", "REFUSED")
    error = scene.json("delegate", "after", "--agent", "worker", code=3)["error"]
    assert "read-only" in error["message"]
    assert scene.json("show", task)["status"] == "completed"
    assert [one["task_id"] for one in scene.json("list")["tasks"]] == [task]


HOLDER = """
import sys, time
from overhand.record import log
from overhand.system import Lock
with Lock(f"{sys.argv[1]}/{log.LOG_FILE}", "x", signed=False):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_stopped_lock_holder_is_named(scene: Scene) -> None:
    task = scene.delegate("prepared", "--no-start")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, scene.store.record(task)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(holder.pid), "it is stopped")
        error = scene.json("run", task, code=3)["error"]
        assert error["code"] == "LOCK_BUSY"
        assert f"process {holder.pid}, which is stopped" in error["message"]
        assert error["pid"] == holder.pid
        assert error["hint"].endswith(f"kill -CONT {holder.pid}")
        assert scene.json("show", task)["run_state"] is None, "reading needs no lock"
        holder.send_signal(signal.SIGCONT)
        holder.kill()
    assert scene.json("run", task, "--wait")["status"] == "completed"


REPLACED = """
import fcntl, os, sys
from overhand.system import Lock
path = sys.argv[1]
flock, times = fcntl.flock, [0]
def late(fd, how):
    times[0] += 1
    if times[0] == 1:  # between open and flock the file is replaced, and another process locks the new one
        os.unlink(path)
        other = os.open(path, os.O_RDWR | os.O_CREAT)
        flock(other, fcntl.LOCK_EX)
        os.close(other)
    flock(fd, how)
fcntl.flock = late
with Lock(path, "x") as lock:
    here, there = os.fstat(lock.fd), os.stat(path)
    print(times[0], here.st_ino == there.st_ino)
"""


def test_a_lock_file_that_was_replaced_is_locked_anew(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", REPLACED, str(tmp_path / "lock")]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "2 True\n"


def test_a_lock_is_not_inherited(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with Lock(path, "x"):
        sleeper = subprocess.Popen([shutil.which("sleep") or "sleep", "60"], close_fds=False)
    try:
        with Lock(path, "x"):  # it waits: a child lets go of what it does not inherit a little after it began
            pass
    finally:
        sleeper.kill()
        sleeper.wait()
