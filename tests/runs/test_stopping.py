"""`stop` and the deadline leave no process behind, whatever the agent does against it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.policy import Actor, load_config
from overhand.record import LOG_FILE, NewTask, Store, fold, log
from overhand.runs import run_created, stop_run
from overhand.supervisor import hand_to_supervisor, wake_supervisor
from overhand.system import command_line_has, known_sessions, process_table, reap_children, start_detached, start_time
from overhand.system.machine import SHIM_NAME
from supervisor.parts import Watched
from support.scene import QUICK, kill, until

if TYPE_CHECKING:
    from support.scene import Scene

KINDS = ("child", "grandchild", "double-fork", "setsid", "clean-env", "daemon")
EVERYTHING = ("ignore-term", *(f"spawn:{kind}" for kind in KINDS))
BY = {"kind": "overhand", "via": "test"}
QUICKLY = '[limits]\nstop_grace = "0.3s"\n'
OFTEN = 'stall = "4s"\n'  # who is watched for a stall is looked at every second, however late it leaves somebody behind


def nothing_left(scene: Scene, *tasks: str) -> None:
    """When the verdict is there the processes are not."""
    assert [pid for task in tasks for pid in scene.strays(task)] == []
    until(lambda: not scene.agents_left(), f"no agent left: {scene.agents_left()}")


def known_to_the_supervisor(scene: Scene, task: str) -> None:
    """The sessions of all strays are noted: what a killed shim can no longer tell."""
    place = str(scene.place(task))

    def look() -> bool:
        table = process_table()
        return {table[pid].session for pid in scene.strays(task) if pid in table} <= set(known_sessions(place))

    until(look, "the supervisor noted the sessions of every stray")


def its_time_is_over(scene: Scene, task: str) -> None:
    """Its deadline has passed, however long it took to get so far: it is given less time after the fact."""
    with scene.store.lock(task, BY) as locked, open(f"{locked.record}/{LOG_FILE}", "r+b") as file:
        file.seek(file.read().rindex(b'"timeout":600.0'))
        file.write(b'"timeout":0.001')  # one write of the same length: nobody sees half a log
    wake_supervisor(scene.store, [task])


@pytest.mark.parametrize("shim", ["shim lives", "shim killed first"])
@pytest.mark.parametrize("how", ["stop", "stop --now", "deadline"])
def test_every_stray_at_once(scene: Scene, how: str, shim: str) -> None:
    scene.project.config(QUICKLY + OFTEN)
    scene.agent("worker", *EVERYTHING, "touch:up", "hang")
    task = scene.delegate("stay", "--timeout", "600s")
    scene.appears("up")
    assert len(scene.strays(task)) == len(KINDS) + 1
    if shim == "shim killed first":
        known_to_the_supervisor(scene, task)
        kill(scene.pid(task, "shim"))
    if how == "deadline":
        its_time_is_over(scene, task)
        status, cause = scene.json("wait", task, code=1)["status"], "timeout"
    else:
        (stopped,) = scene.json(*how.split(), task)["tasks"]
        status, cause = stopped["status"], "cancelled"
    assert status == ("failed" if how == "deadline" else "cancelled")
    assert scene.state(task).runs[0].cause == cause
    assert scene.state(task).runs[0].leftovers == []
    nothing_left(scene, task)


def test_the_deadline_holds_without_a_supervisor(scene: Scene) -> None:
    scene.project.config(QUICKLY)
    scene.agent("worker", "ignore-term", "touch:up", "hang")
    task = scene.delegate("stay", "--timeout", "600s")
    scene.appears("up")
    scene.running(task)
    scene.kill_supervisor()
    its_time_is_over(scene, task)
    assert scene.json("wait", task, code=1)["cause"] == "timeout"
    nothing_left(scene, task)


def test_sigterm_is_heard_and_a_return_counts(scene: Scene) -> None:
    """An agent that ends in its grace is not killed; what it returned before the deadline is judged as usual."""
    scene.agent("worker", "output", "touch:up", "hang")
    task = scene.delegate("write, then hang", "--timeout", "600s")
    scene.appears("up")
    its_time_is_over(scene, task)
    shown = scene.json("wait", task)
    assert (shown["status"], shown["cause"], shown["runs"][0]["exit"]) == ("completed", "timeout", 143)
    nothing_left(scene, task)


def hiding(number: str) -> str:
    """A worker that leaves two who sleep in sessions of their own, one of them without any sign of its run."""
    return f"setsid sleep {number} & setsid env -i /bin/sleep {number} & exec sleep {number}"


def sleepers(number: str) -> int:
    return sum(command_line_has(pid, number) for pid in process_table())


def test_many_runs_are_stopped_at_once_and_nobody_of_another_one(scene: Scene) -> None:
    scene.project.config("[limits]\nmax_parallel = 0\n")
    these, others = (f"{2147480918 + number}{os.getpid()}" for number in range(2))  # nobody else's, wherever they run
    scene.shell("worker", hiding(these))
    scene.shell("keeper", hiding(others))
    tasks = [scene.accepted() for _ in range(60)]
    kept = scene.delegate("stay", "--agent", "keeper")
    until(lambda: sleepers(these) == 3 * 60, "all of them at work")
    until(lambda: sleepers(others) == 3, "this one, too")
    stopped = scene.json("stop", *tasks, "--now")["tasks"]
    assert {(one["status"], one["cause"]) for one in stopped} == {("cancelled", "cancelled")}
    assert [run.leftovers for task in tasks for run in scene.state(task).runs] == [[]] * 60
    assert (sleepers(these), sleepers(others)) == (0, 3)
    assert scene.running(kept).status is None
    scene.json("stop", kept, "--now")
    nothing_left(scene, *tasks, kept)


def test_who_delegated_whom_is_known_of_tasks_that_come_later(scene: Scene) -> None:
    def children() -> list[str]:
        return sorted(task.id for task in scene.store.children("run-1"))

    made = scene.store.new_tasks([child_of("run-1"), child_of("run-2")], BY, start=False)
    assert children() == [made[0].id]
    later = scene.store.new_tasks([child_of("run-1")], BY, start=False)
    assert children() == [made[0].id, later[0].id]
    shutil.rmtree(scene.store.record(made[0].id))
    empty = Path(scene.store.record("worker-20260101-000000"))
    empty.mkdir()  # it is being made: its log is not there yet
    assert children() == [later[0].id]
    shutil.copy(f"{scene.store.record(later[0].id)}/log.jsonl", empty)
    assert children() == sorted([empty.name, later[0].id])


def child_of(run: str) -> NewTask:
    created = {"title": "x", "parent": {"task": "above", "run": run}}
    return NewTask(agent="worker", handoff="# Task Handoff\n\n## Task\nx\n", created=created)


# A process in a session of its own whose first thread ends: what it does goes on in the other one.
HEADLESS = """
import ctypes, os, sys, threading, time
if os.fork():
    time.sleep(600)
os.setsid()
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    with open("headless", "w") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(600)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(ctypes.c_long({"x86_64": 60, "aarch64": 93}[os.uname().machine]), ctypes.c_long(0))
"""


def threads(pid: int) -> int:
    """How many threads of a process live."""
    found = Path(f"/proc/{pid}/task").glob("*/stat")
    return sum(path.read_text().rpartition(")")[2].split()[0] not in "ZX" for path in found)


def test_a_process_that_looks_dead_is_ended_too(scene: Scene) -> None:
    scene.project.agent("worker", command=[sys.executable, "-c", HEADLESS])
    task = scene.delegate()
    pid = int(until(scene.appears("headless").read_text, "its number"))
    assert threads(pid) == 1
    scene.json("stop", task, "--now")
    assert threads(pid) == 0


PARENT = "$OVERHAND delegate --agent child below --json >/dev/null; touch parent-up; exec sleep 2147480917"


@pytest.mark.parametrize("how", ["stop", "deadline", "stop, then kill"])
def test_children_go_with_a_stopped_parent(scene: Scene, how: str) -> None:
    scene.project.config(QUICKLY)
    scene.shell("worker", PARENT)
    scene.agent("child", "touch:up", "hang")
    task = scene.delegate("above", "--timeout", "600s")
    scene.appears("up")
    scene.appears("parent-up")
    (child,) = [one for one in scene.ids() if one != task]
    if how == "deadline":
        its_time_is_over(scene, task)
        scene.json("wait", task, code=1)
    elif how == "stop":
        scene.json("stop", task)
    else:  # the supervisor dies when it has ended the parent's processes and recorded nothing
        stopping = scene.project.start("stop", task)
        until((scene.place(task) / "stopped").exists, "the first signal")
        scene.kill_supervisor()
        stopping.communicate(timeout=60)
        scene.json("list")
    assert scene.judged(child).status == "cancelled"
    assert scene.state(task).status == ("failed" if how == "deadline" else "cancelled")
    nothing_left(scene, task, child)


def above_and_queued_below(scene: Scene) -> tuple[str, str]:
    """A run in the only place there is, and a task that it delegated."""
    scene.project.config(QUICKLY + "max_parallel = 1\n")
    scene.shell("worker", PARENT)
    scene.shell("child", QUICK)
    task = scene.delegate("above")
    scene.appears("parent-up")
    (child,) = [one for one in scene.ids() if one != task]
    return task, child


def test_queued_children_go_as_well(scene: Scene) -> None:
    task, child = above_and_queued_below(scene)
    scene.json("stop", task)
    assert scene.judged(child).status == "cancelled"
    assert scene.starts(child) == 0


def test_queued_children_do_not_take_the_place_of_a_stopped_parent_that_is_not_judged(scene: Scene) -> None:
    task, child = above_and_queued_below(scene)
    scene.kill_supervisor()
    stop_run(Actor(scene.store, load_config(str(scene.path)), BY), task, "cancelled", 0.0)
    with scene.store.lock(task, BY):  # nobody gets to judge it, or to see what it delegated, before this is over
        assert hand_to_supervisor(scene.store, [child])
        assert hand_to_supervisor(scene.store, [child])  # by now the queue was looked at once
    assert scene.judged(child).status == "cancelled"
    assert (scene.judged(task).status, scene.starts(child)) == ("cancelled", 0)


def test_a_completed_parent_leaves_its_children_at_work(scene: Scene) -> None:
    begin = "$OVERHAND delegate --agent child below >/dev/null; touch up"
    scene.shell("worker", f"{begin}; until [ -e go ]; do sleep 0.05; done; {QUICK}")
    scene.agent("child", "touch:child-up", "until:child-go", "output")
    task = scene.delegate("above")
    scene.appears("child-up")
    scene.appears("up")
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"
    (child,) = [one for one in scene.ids() if one != task]
    assert scene.state(child).stop is None
    (scene.path / "child-go").touch()
    assert scene.json("wait", child)["status"] == "completed"


@pytest.mark.parametrize("kind", ["child", "clean-env", "daemon"])
def test_leftovers_are_named_and_block_the_next_run(scene: Scene, kind: str) -> None:
    scene.agent("worker", f"spawn:{kind}", "exit:3")
    task = scene.delegate()
    shown = scene.json("wait", task, code=1)
    left = scene.strays(task)
    assert left
    assert shown["status"] == "failed"
    assert sorted(shown["look_at"]["leftovers"]) == sorted(left) == sorted(scene.state(task).runs[0].leftovers)
    refused = scene.json("run", task, code=3)["error"]
    assert "still alive" in refused["message"]
    assert f"overhand stop {shown['handle']}" in refused["hint"]
    assert scene.json("stop", task)["tasks"][0]["was"] == "leftovers ended"
    nothing_left(scene, task)
    scene.agent("worker", "output")
    assert scene.json("run", task, "--wait")["status"] == "completed"


def test_leftovers_of_a_lost_run_are_found_without_its_shim(scene: Scene) -> None:
    """A daemon holds no `life`, has no marker and no parent that knows it: its session was noted."""
    scene.project.config(f"[limits]\n{OFTEN}")
    scene.agent("worker", "spawn:daemon", "touch:up", "hang")
    task = scene.delegate()
    scene.appears("up")
    known_to_the_supervisor(scene, task)
    for name in ("shim", "pid"):
        kill(scene.pid(task, name))
    state = scene.judged(task)
    assert state.runs[0].leftovers == scene.strays(task) != []
    assert "still alive" in scene.json("run", task, code=3)["error"]["message"]
    scene.json("stop", task)
    nothing_left(scene, task)


def test_a_supervisor_below_the_run_is_no_leftover(scene: Scene) -> None:
    """An agent that delegates when no supervisor runs becomes the ancestor of the next one."""
    scene.shell(
        "worker", "touch up; until [ -e go ]; do sleep 0.05; done; $OVERHAND delegate --agent child below >/dev/null"
    )
    scene.agent("child", "touch:child-up", "until:child-go", "output")
    task = scene.delegate("above", "--set", "shield=off")  # behind it none can be started
    scene.appears("up")
    scene.kill_supervisor()
    (scene.path / "go").touch()
    scene.appears("child-up")
    supervisor = scene.supervisor()
    assert supervisor is not None
    assert scene.json("wait", task, code=1)["look_at"]["leftovers"] == []
    assert scene.json("stop", task)["tasks"][0]["was"] == "nothing ran"
    scene.agent("worker", "output")
    assert scene.json("run", task, "--wait")["status"] == "completed"
    (scene.path / "child-go").touch()
    child = next(one for one in scene.ids() if one != task)
    assert scene.json("wait", child)["status"] == "completed"
    assert scene.supervisor() == supervisor


def test_what_hid_before_the_shim_was_killed_comes_to_the_supervisor(scene: Scene) -> None:
    """No environment, own session, no open file, and no shim any more: only the subreaper above knows whose it is."""
    scene.agent("worker", "spawn:daemon", "touch:up", "hang")
    task = scene.delegate()
    scene.appears("up")
    kill(scene.pid(task, "shim"))
    until(lambda: start_time(scene.pid(task, "shim")) is None, "the shim gone")
    scene.json("stop", task, "--now")
    assert [pid for pid in scene.strays(task) if start_time(pid) is not None] == []


def test_a_shim_that_was_killed_before_it_was_watched_leaves_orphans_at_once(tmp_path: Path) -> None:
    """Nobody has buried it yet; a `stop` that is looked at in the same moment must find whom it left."""
    run_id = "sess_1_aaaaaa"
    store = Store(str(tmp_path), str(tmp_path / "record"))
    place = Path(store.run_folder("x", run_id))
    place.mkdir(parents=True)
    shim = start_detached(str(place), ["/bin/sleep", "600"], cwd=str(tmp_path), env={"PATH": os.environ["PATH"]})
    agent = until(lambda: (place / "pid").exists() and int((place / "pid").read_text() or 0), "the agent")
    kill(shim)
    begun = {**run_created(run_id, "worker", "command", 600.0).line, **log.stamp(BY)}
    task = fold("x", [begun, {"e": "run.started", "run": run_id, "shim": shim}])
    assert task.current_run is not None
    watched = Watched(store)
    watch = watched.keep(task, task.current_run)
    assert (watch.orphan, watch.pidfd) == (True, None)
    watched.runs.drop("x")
    os.kill(agent, signal.SIGKILL)
    reap_children()


# Each lives for a moment and starts the next; without the marker, and without the `life` of its run.
HOPS = """\
#!/bin/sh
[ -e group ] || { cut -d" " -f5 /proc/$$/stat >group.new; mv group.new group; }
sleep 0.02
env -i PATH="$PATH" sh ./hops &
"""


def test_a_process_that_forks_and_ends_all_the_time_is_found_and_ended(scene: Scene) -> None:
    (scene.path / "hops").write_text(HOPS)
    hops = 'setsid env -i PATH="$PATH" sh ./hops 9<&- >/dev/null 2>&1 & until [ -e group ]; do sleep 0.05; done'
    scene.shell("worker", f"{hops}; {QUICK}")
    task = scene.delegate()
    assert scene.judged(task).runs[0].leftovers, "it is named"
    group = int((scene.path / "group").read_text())
    os.killpg(group, 0)
    scene.json("stop", task, code=None)

    def is_gone() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    until(is_gone, f"the end of group {group}")


def test_another_program_that_is_called_like_the_shims_pause_is_ended(scene: Scene) -> None:
    stays = "import os; os.execv('/bin/sh', ['sleep', '1'])"
    (scene.path / "1").write_text("echo $$ >stays; while :; do read x <fifo; done\n")
    os.mkfifo(scene.path / "fifo")
    scene.shell("worker", f'setsid {sys.executable} -c "{stays}" & until [ -e stays ]; do sleep 0.05; done; {QUICK}')
    task = scene.delegate()
    pid = int(scene.appears("stays").read_text())
    assert pid in scene.judged(task).runs[0].leftovers
    scene.json("stop", task, code=None)
    until(lambda: start_time(pid) is None, "its end")


@pytest.mark.parametrize("whose", ["another run's", "its own"])
def test_a_process_that_poses_as_the_shim_of_another_run_is_ended(scene: Scene, whose: str) -> None:
    """With the words of a real one; or with a folder of its own that names it."""
    scene.shell("other", "exec sleep 3600")
    other = scene.delegate("other", "--agent", "other")
    scene.running(other)
    shim = scene.pid(other, "shim")
    own = scene.path / "own"
    own.mkdir()
    place = str(scene.place(other)) if whose == "another run's" else str(own)
    script = "echo $$ >own/shim; echo $$ >posed.new; mv posed.new posed; while :; do read x <fifo; done"
    posed = ["/bin/sh", "-c", script, SHIM_NAME.decode(), place]
    os.mkfifo(scene.path / "fifo")
    (scene.path / "pose.py").write_text(f"import os; os.setsid(); os.execv('/bin/sh', {posed!r})")
    scene.shell("worker", f"{sys.executable} pose.py & exec sleep 3600")
    task = scene.delegate()
    pid = int(scene.appears("posed").read_text())
    scene.json("stop", task, "--now")
    until(lambda: start_time(pid) is None, "the end of the one that poses")
    assert start_time(shim) is not None, "the real one lives"
    scene.json("stop", other, "--now")
