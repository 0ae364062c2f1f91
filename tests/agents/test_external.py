"""External jobs: started once, whoever dies; gone on with after any kill; never started again in doubt."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.agents import read_agent
from overhand.agents.drivers import external
from overhand.policy import Config
from support.scene import Scene, kill, until
from support.soak import lots, was_killed
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
PARTS = 8
SERVICE = [sys.executable, "-S", str(HERE / "service.py")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "service"
    path.mkdir()
    return path


@pytest.fixture
def scene(tmp_path: Path, folder: Path) -> Iterator[Scene]:
    project = make_project(tmp_path / "project", {})
    call = [*SERVICE, str(folder)]
    project.agent(
        "far",
        driver="external",
        command=None,
        start=[*call, "start"],
        poll=[*call, "poll", "{handle}"],
        collect=[*call, "collect", "{handle}"],
        stop=[*call, "stop", "{handle}"],
        every=0.05,
    )
    scene = Scene(project)
    yield scene
    for name in ("mute", "broken"):
        (folder / name).unlink(missing_ok=True)
    project.cleanup()
    until(scene.is_quiet, f"no process left of {scene.path}; now {scene.left()}")


def lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().split("\n")[:-1] if path.exists() else []


def delegate(scene: Scene) -> str:
    return scene.delegate("compute it", "--agent", "far")


def kill_everybody(scene: Scene, task: str) -> None:
    pids = (scene.pid(task, "shim"), scene.pid(task, "pid"))
    scene.kill_supervisor()
    for pid in pids:
        kill(pid)


def test_started_polled_collected(scene: Scene, folder: Path) -> None:
    task = delegate(scene)
    until(lambda: lines(folder, "polled"), "a poll")
    place = scene.place(task)
    assert (place / "job/handle").read_text() == "job-1\n"
    (folder / "go").touch()
    shown = scene.json("wait", task)
    assert (shown["status"], shown["summary"]) == ("completed", "Fetched job-1.")
    assert lines(folder, "started") == ["job-1"]
    assert lines(folder, "collected") == ["job-1 done"]
    assert (place / "job/closed").read_text() == "collected\n"
    assert lines(folder, "stopped") == []


@pytest.mark.parametrize("verb", ["show", "list", "wait"])
def test_a_killed_run_is_gone_on_with(scene: Scene, folder: Path, verb: str) -> None:
    task = delegate(scene)
    until(lambda: lines(folder, "polled"), "a poll")
    kill_everybody(scene, task)
    first = scene.state(task).runs[-1].id
    (folder / "go").touch()
    if verb != "wait":
        scene.json(verb, *([task] if verb == "show" else []), code=None)
    assert scene.json("wait", task)["status"] == "completed"
    assert lines(folder, "started") == ["job-1"]
    (run,) = scene.state(task).runs
    assert run.id != first
    assert (Path(scene.store.run_folder(task, first)) / "job/closed").exists()


def test_only_the_waiting_process_is_killed(scene: Scene, folder: Path) -> None:
    task = delegate(scene)
    until(lambda: lines(folder, "polled"), "a poll")
    for how in (signal.SIGKILL, signal.SIGTERM):  # somebody ends it, not we: the job is not meant
        run = scene.place(task)
        os.kill(scene.pid(task, "pid"), how)
        until(lambda old=run: scene.place(task) != old, "another run")  # type: ignore[misc]
    (folder / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"
    assert lines(folder, "started") == ["job-1"]
    assert lines(folder, "stopped") == []


def test_in_doubt_nobody_starts_it_again(scene: Scene, folder: Path) -> None:
    (folder / "mute").touch()
    task = delegate(scene)
    until((folder / "hanging").exists, "the service has the job")
    starter = until(lambda: [p for p in scene.left() if "service.py" in scene.left().get(p, "")], "the start command")
    kill_everybody(scene, task)
    for pid in starter:
        kill(pid)
    (folder / "mute").unlink()
    shown = scene.json("wait", task, code=1)
    assert shown["status"] == "blocked"
    assert "nobody knows" in shown["summary"]
    assert scene.json("resume", task, "--wait", code=1)["status"] == "blocked"
    assert lines(folder, "started") == ["job-1"]
    job = external.newest(scene.store.record(task))
    assert job is not None
    assert f"{job[0].removeprefix(str(scene.path) + '/')}/handle" in shown["for_primary"]
    Path(job[0], "handle").write_text("job-1\n")
    (folder / "go").touch()
    assert scene.json("resume", task, "--wait")["status"] == "completed"
    assert lines(folder, "started") == ["job-1"]


def test_who_stops_the_task_stops_the_job(scene: Scene, folder: Path) -> None:
    task = delegate(scene)
    until(lambda: lines(folder, "polled"), "a poll")
    scene.json("stop", task)
    assert scene.judged(task).status == "cancelled"
    assert lines(folder, "stopped") == ["job-1"]
    (folder / "go").touch()
    assert scene.json("resume", task, "--wait")["status"] == "completed"
    assert lines(folder, "started") == ["job-1", "job-2"], "what was stopped is over; a resume is a new job"


def test_who_trusts_it_sees_all_its_commands(scene: Scene) -> None:
    (row,) = (one for one in scene.json("trust", "--yes")["trusted"] if one["file"].endswith("far.md"))
    for verb in ("start", "poll", "collect", "stop"):
        assert any(line.startswith(f"{verb}: ") and "service.py" in line for line in row["runs"]), row


def test_a_job_that_nobody_waits_for_is_named_by_doctor(scene: Scene, folder: Path) -> None:
    path = scene.path / ".overhand/agents/far.md"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("  stop:")))
    scene.json("trust", "--yes")
    task = delegate(scene)
    until(lambda: lines(folder, "polled"), "a poll")
    assert "open-job" not in {one["code"] for one in scene.json("doctor", code=None)["findings"]}
    scene.json("stop", task)
    scene.judged(task)
    (found,) = (one for one in scene.json("doctor", code=None)["findings"] if one["code"] == "open-job")
    assert "(job-1)" in found["what"]
    (folder / "go").touch()
    assert scene.json("resume", task, "--wait")["status"] == "completed"
    assert lines(folder, "started") == ["job-1"], "it was never stopped, so a resume goes on with it"


def test_a_service_that_does_not_answer_is_asked_again(scene: Scene, folder: Path) -> None:
    (folder / "broken").touch()
    task = delegate(scene)
    until(lambda: len(lines(folder, "polled")) > 2, "three polls")
    assert "cannot be asked after" in (scene.place(task) / "stderr").read_text()
    (folder / "broken").unlink()
    (folder / "failed").touch()
    shown = scene.json("wait", task, code=None)
    assert lines(folder, "collected") == ["job-1 failed"]
    assert shown["runs"][0]["exit"] == 1


@pytest.mark.parametrize("how", ["refuses", "says"])
def test_a_start_that_does_not_work_is_told(scene: Scene, folder: Path, how: str) -> None:
    (folder / how).write_text("one\ntwo\n")
    task = delegate(scene)
    assert scene.json("wait", task, code=1)["status"] == "failed"
    assert "The command that starts the job" in (scene.place(task) / "stderr").read_text()
    (folder / how).unlink()
    (folder / "go").touch()
    assert scene.json("resume", task, "--wait")["status"] == "completed"


def test_what_an_agent_file_must_say(tmp_path: Path) -> None:
    lines = "  driver: external\n  start: sh x\n  poll: []\n  every: soon\n  stop: 3\n"
    raw = f"---\nname: far\noverhand:\n{lines}---\nFar away.\n".encode()
    problems = read_agent(str(tmp_path), "far", raw, Config(), "far.md")[1]
    assert [(one.line, one.message) for one in problems] == [
        (4, "The driver external needs a collect."),
        (5, "start must be a list, not a shell string."),
        (6, "poll must be a list of strings."),
        (7, "overhand.every must be a duration, such as 30s."),
        (8, "stop must be a list of strings."),
    ]


def waiter(tmp_path: Path, folder: Path, run: str, *, at: int | None) -> int:
    """One life of the process that waits, killed at a moment, until it and all it started are gone."""
    call = [*SERVICE, str(folder)]
    place = tmp_path / "task/runs" / run
    place.mkdir(parents=True)
    words = {name: [*call, name, "{handle}"] for name in ("poll", "collect", "stop")}
    job = {**words, "start": [*call, "start"], "every": 0.01, "record": str(tmp_path / "task")}
    (place / "job.json").write_text(json.dumps(job))
    env = {**os.environ, "OVERHAND_JOB": str(place / "job.json"), "OVERHAND_OUTPUT": str(place / "OUTPUT.md")}
    env["OVERHAND_PROJECT"] = str(place.parent)
    program = [str(HERE / "killed_at.py"), str(at)] if at is not None else ["-m", "overhand.agents.drivers.external"]
    life, looked_at = os.pipe()
    child = subprocess.Popen([sys.executable, "-P", *program], env=env, stdin=subprocess.DEVNULL, pass_fds=(life,))
    os.close(life)
    child.wait(60)
    gone = select.poll()
    gone.register(looked_at, 0)
    gone.poll()  # there is no reader any more when the start command, too, is gone
    os.close(looked_at)
    return child.returncode


@pytest.mark.parametrize("part", lots(PARTS))
def test_killed_at_every_moment(tmp_path: Path, folder: Path, part: int) -> None:
    moment, killed = part, True
    while killed:
        place, service = tmp_path / f"{moment}", folder / f"{moment}"
        place.mkdir()
        service.mkdir()
        (service / "go").touch()
        killed = was_killed(waiter(place, service, "sess_1_aaaaaa", at=moment))
        if killed:
            is_gone_on_with(place, service)
        moment += PARTS
    assert moment > 30, "there are many moments before it is through"


def is_gone_on_with(place: Path, service: Path) -> None:
    """The next life finds the job, or says that nobody knows; it never starts a second one."""
    first, second = (place / "task/runs" / name for name in ("sess_1_aaaaaa", "sess_2_bbbbbb"))
    was_fetched = (first / "job/closed").exists()
    assert waiter(place, service, second.name, at=None) == 0
    started = lines(service, "started")
    if was_fetched:  # whoever runs the task again wants another job
        assert started == ["job-1", "job-2"]
    elif "**Status:** blocked" in (second / "OUTPUT.md").read_text():
        assert not (first / "job/handle").exists()
        assert started == [], "a start command that lived to its end is never in doubt"
    else:
        assert started == ["job-1"]
        assert "Fetched job-1." in (second / "OUTPUT.md").read_text()
