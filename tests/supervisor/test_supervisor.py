"""One supervisor per project; it ends when idle, and nothing handed over at that moment is lost."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from overhand.supervisor import client, hand_to_supervisor, wake_supervisor
from overhand.supervisor.context import Changed
from overhand.supervisor.socket import Server
from overhand.system import Lock, command_line_has, lives, process_table
from supervisor.parts import Watched
from support.scene import QUICK, kill, until

if TYPE_CHECKING:
    import pytest

    from support.scene import Scene


def supervisors(scene: Scene) -> list[int]:
    """Every process that is or wants to be this project's supervisor."""
    mine = [pid for pid in process_table() if command_line_has(pid, "overhand.supervisor")]
    return [pid for pid in mine if command_line_has(pid, str(scene.path))]


def test_ten_delegations_at_once_start_one(scene: Scene) -> None:
    scene.agent("worker", "until:go", "output")
    scene.json("list")
    calls = [scene.project.start("delegate", f"number {n}", "--agent", "worker", "--json") for n in range(10)]
    for call in calls:
        out, err = call.communicate(timeout=60)
        assert call.returncode == 0, out + err
    until(lambda: supervisors(scene) == [scene.supervisor()], "one supervisor, the others gone")
    (scene.path / "go").touch()
    tasks = scene.ids()
    scene.json("wait", *tasks)
    assert [scene.starts(task) for task in tasks] == [1] * 10
    assert sorted(state.handle or 0 for state in scene.store.tasks()) == list(range(1, 11))


def test_its_process_is_named_while_there_is_one(scene: Scene) -> None:
    none = scene.json("daemon", "--pid", code=1)["error"]
    assert none["message"] == "No supervisor of this project is running."
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    assert scene.json("daemon", "--pid")["pid"] == scene.supervisor()
    assert scene.project.run("daemon", "--pid").out == f"{scene.supervisor()}\n"
    assert scene.json("daemon", "stop", "--pid", code=2)["error"]["hint"] == "overhand daemon --pid"
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"


def test_a_second_supervisor_leaves_at_once(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    argv = [sys.executable, "-m", "overhand.supervisor", str(scene.path)]
    second = subprocess.run(
        argv, env=scene.project.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert second.returncode == 3
    assert f"held by process {scene.supervisor()}" in second.stdout
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"


def test_a_verb_that_was_dropped_before_it_spoke_comes_again(scene: Scene) -> None:
    """The supervisor waits for nobody: whoever is held up between its call and its first word is not heard."""
    scene.store.ensure()
    heard: list[str] = []
    address = client.address(scene.store, client.own_folder(scene.store))
    with Lock(f"{scene.store.own}/lock", "The lock"), Server(address, f"{scene.store.own}/sock") as server:

        def serve() -> None:
            select.select([server.listener], [], [])
            server.listener.accept()[0].close()
            while not heard:
                select.select([server.listener], [], [])
                heard.extend(task for tasks, _ in server.receive(lambda _: None) for task in tasks)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert wake_supervisor(scene.store, ["worker-1"])
        thread.join()
    assert heard == ["worker-1"]


def test_it_ends_when_idle_and_takes_its_socket_away(scene: Scene) -> None:
    scene.project.config('[limits]\nidle = "0.2s"\n')
    scene.json("delegate", "quick", "--agent", "worker", "--wait")
    until(lambda: scene.supervisor() is None, "the supervisor's end")
    assert not os.path.exists(f"{scene.store.own}/sock")
    until(lambda: not supervisors(scene), "its process gone")


def test_nothing_handed_over_to_a_leaving_supervisor_is_lost(scene: Scene) -> None:
    scene.project.config('[limits]\nidle = "0.01s"\n')
    scene.shell("worker", QUICK)
    scene.json("list")
    tasks = [scene.accepted(f"number {n}") for n in range(25)]
    for task in tasks:  # each is handed over in the moment after the one before was judged: when it is about to leave
        assert hand_to_supervisor(scene.store, [task])
        assert scene.judged(task).status == "completed"
    assert [scene.starts(task) for task in tasks] == [1] * 25


def test_one_that_is_slow_to_come_is_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives: then it is no matter how long it takes to listen."""
    monkeypatch.setattr(client, "_PATIENCE", 0.0)
    task = scene.accepted()
    assert hand_to_supervisor(scene.store, [task])
    assert scene.judged(task).status == "completed"


def test_an_agent_without_its_shim_does_not_keep_it_busy(scene: Scene) -> None:
    """The descriptor of a dead shim is always readable: it must not stay in the loop."""
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    shim = scene.pid(task, "shim")
    scene.kill_supervisor()
    watched = Watched(scene.store)
    live, mail, poll = watched.runs, watched.mail, watched.poll
    live.adopt(scene.state(task))
    kill(shim)
    ((pidfd, _),) = poll.poll(10_000)
    assert live.is_shim(pidfd)
    live.ready(pidfd)
    assert list(mail.take()) == [Changed(task)]
    assert not live.is_idle
    assert poll.poll(0) == []
    live.drop(task)
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"


def test_a_stopped_supervisor_is_named_and_what_it_was_told_is_not_lost(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    first = scene.delegate()
    scene.appears("up")
    supervisor = scene.supervisor()
    assert supervisor is not None
    os.kill(supervisor, signal.SIGSTOP)
    try:
        made = scene.json("delegate", "second", "--agent", "worker")  # it is recorded: no error
        assert f"process {supervisor}, which is stopped" in made["reason"]
    finally:
        os.kill(supervisor, signal.SIGCONT)
    (scene.path / "go").touch()
    (second,) = [task for task in scene.ids() if task != first]
    assert scene.judged(second).status == "completed"
    assert (scene.starts(first), scene.starts(second)) == (1, 1)


def test_calling_it_leaves_no_descriptor_open(scene: Scene) -> None:
    """Also where the path is too long for a socket's address."""
    task = scene.json("delegate", "quick", "--agent", "worker", "--wait")["task_id"]
    assert hand_to_supervisor(scene.store, [task])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert hand_to_supervisor(scene.store, [task])
    assert len(os.listdir("/proc/self/fd")) == before


def test_environment_of_the_one_who_asks(scene: Scene) -> None:
    """A task runs in the environment of its `delegate`, not in that of whoever started the supervisor."""
    scene.shell("worker", 'echo "$FLAVOUR" >>flavours; exit 1')
    for flavour in ("sweet", "sour"):
        ran = scene.project.run("delegate", flavour, "--agent", "worker", "--wait", env={"FLAVOUR": flavour})
        assert ran.code == 1
    assert (scene.path / "flavours").read_text().split() == ["sweet", "sour"]


def test_looking_at_a_task_does_not_change_its_environment(scene: Scene) -> None:
    """Its run ends and cannot be settled yet; meanwhile it is looked at from another environment."""
    bad = 'touch again; echo "no return" >"$OVERHAND_OUTPUT"'
    script = f'echo "$MARK" >>marks; until [ -e go ]; do sleep 0.1; done; if [ -e again ]; then {QUICK}; else {bad}; fi'
    scene.shell("worker", script, repair="rerun")
    told = scene.json("delegate", "x", "--agent", "worker", env={"MARK": "one"})
    task = str(told["task_id"])
    until((scene.path / "marks").exists, "its first run")
    with scene.store.lock(task, {"kind": "overhand", "via": "test"}) as locked:
        place = scene.store.run_folder(task, str(locked.task.runs[-1].id))
        (scene.path / "go").touch()
        until(lambda: not lives(place), "its end")
        scene.json("show", task, env={"MARK": "two"})
    assert scene.judged(task).repairs == 1
    assert (scene.path / "marks").read_text().split() == ["one", "one"]
