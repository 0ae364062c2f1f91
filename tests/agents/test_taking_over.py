"""Somebody else goes on: another agent, a person in the agent's own session, or an agent in a person's session."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from model.clients import point
from overhand.record import is_call_id
from support import player
from support.installed import program, require
from support.real_agents import house, returns
from support.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

SESSION = "5f0c2e9a-3f57-4c0e-9a55-0b1c2d3e4f50"


@pytest.fixture
def bench(overhand_project: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = player.put(tmp_path / "bin", "claude", "codex")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def show(project: ProjectDir) -> dict[str, Any]:
    return dict(project.run("show", "1", "--json", check=True).json)


class Terminal:
    """`overhand` on a terminal of its own, as a person has it."""

    def __init__(self, project: ProjectDir, *words: str) -> None:
        self.master, slave = pty.openpty()
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "overhand", *words],
            cwd=project.path,
            env={**project.environment(), "TERM": "dumb"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 -- a test with one thread
        )
        os.close(slave)

    def waits_for(self, part: str) -> None:
        end = time.monotonic() + 40
        while part not in self.said:
            assert time.monotonic() < end, f"waited for {part!r}; it said {self.said!r}"
            self._read()

    def types(self, text: str) -> None:
        os.write(self.master, text.encode())

    def ends(self) -> int:
        end = time.monotonic() + 40
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it did not end; it said {self.said!r}"
            self._read()
        self._read()
        return self.process.returncode

    def _read(self) -> None:
        if select.select([self.master], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                self.said += os.read(self.master, 65536).decode("utf-8", "replace")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.contextmanager
def terminal(project: ProjectDir, *words: str) -> Iterator[Terminal]:
    opened = Terminal(project, *words)
    try:
        yield opened
    finally:
        opened.close()


# a person, in the agent's session


def test_a_person_opens_the_session_and_it_is_judged_again(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("delegate", "First", "--agent", "claude", "--verify", "test -e done", "--wait")
    before = show(overhand_project)
    assert before["status"] == "failed"
    with terminal(overhand_project, "resume", "1", "--open") as screen:
        native = player.trail(bench)[0]["session"]
        screen.waits_for(f"open: {native}")
        assert overhand_project.run("resume", "1").code == 3, "the person holds the task"
        (overhand_project.path / "done").touch()
        screen.types("return\nleave\n")
        assert screen.ends() == 0, screen.said
    opened = player.trail(bench)[-1]
    assert (opened["words"], opened["interactive"]) == (["--resume", native], True)
    assert (opened["task"], opened["cwd"]) == (before["task_id"], str(overhand_project.path))
    after = show(overhand_project)
    assert (after["status"], after["verification"], after["summary"]) == ("completed", "passing", "A person saw to it.")
    assert len(after["runs"]) == len(before["runs"]) + 1
    assert "COMPLETED · PASSES" in screen.said


def test_what_is_called_in_an_open_session_is_done_by_the_supervisor(overhand_project: ProjectDir, bench: Path) -> None:
    """Behind a shield it could not be done there; and it is done by the next supervisor, if one is killed."""
    scene = Scene(overhand_project)
    overhand_project.run("delegate", "First", "--agent", "claude", "--step", "one", "--wait", check=True)
    overhand = f"!cd {overhand_project.path}; {sys.executable} -m overhand"
    with terminal(overhand_project, "resume", "1", "--open") as screen:
        screen.waits_for("open: ")
        screen.types(f"{overhand} step 1 done --json >step\n")
        screen.waits_for("ended: 0")
        scene.kill_supervisor()
        overhand_project.run("list", check=True)
        screen.types(f"{overhand} delegate Part --agent worker --wait --json >part\n")
        screen.waits_for("\x1b[Kended: 0")
        screen.types("return\nleave\n")
        assert screen.ends() == 0, screen.said
    assert json.loads((overhand_project.path / "step").read_text())["progress"] == {"done": 1, "total": 1}
    part = json.loads((overhand_project.path / "part").read_text())
    (step,) = scene.events(show(overhand_project)["task_id"], "step")
    made = scene.events(part["task_id"], "created")[0]
    assert all(is_call_id(event["by"]["call"]) for event in (step, made))
    assert scene.state(part["task_id"]).status == "completed"


def test_what_was_returned_before_is_judged_by_what_is_true_now(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("delegate", "First", "--agent", "codex", "--verify", "test -e done", "--wait")
    with terminal(overhand_project, "resume", "1", "--open") as screen:
        screen.waits_for("open: ")
        (overhand_project.path / "done").touch()
        screen.types("leave\n")
        assert screen.ends() == 0, screen.said
    assert player.trail(bench)[-1]["words"][:2] == ["resume", "--no-daemon"]
    assert show(overhand_project)["status"] == "completed"
    overhand_project.run("send", "1", "more", check=True)  # and the session goes on
    overhand_project.run("wait", "1", check=True)
    trail = player.trail(bench)
    assert trail[-1]["session"] == trail[0]["session"]


def test_an_interrupt_is_for_the_program(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("delegate", "First", "--agent", "claude", "--wait", check=True)
    with terminal(overhand_project, "resume", "1", "--open") as screen:
        screen.waits_for("open: ")
        screen.types("\x03")
        assert screen.ends() == 0, screen.said
    after = show(overhand_project)
    assert (after["runs"][-1]["state"], after["runs"][-1]["exit"]) == ("ended", 130)
    assert after["status"] == "completed", "how a person leaves a program sinks no result"
    assert [(one["code"], one["level"]) for one in after["problems"]] == [("exit-not-zero", "warning")]
    used = {run["id"]: run for run in after["usage"]["runs"]}
    assert used.get(after["runs"][-1]["id"], {"tokens": 0})["tokens"] == 0, "nobody knows, so nothing is made up"


def test_what_dies_while_it_is_open_is_settled(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("delegate", "First", "--agent", "claude", "--wait", check=True)
    with terminal(overhand_project, "resume", "1", "--open") as screen:
        screen.waits_for("open: ")
        os.killpg(screen.process.pid, signal.SIGKILL)
        screen.process.wait()
    overhand_project.run("wait", "1")
    assert show(overhand_project)["runs"][-1]["cause"] == "lost"


def test_open_is_refused(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("delegate", "First", "--agent", "worker", "--wait", check=True)
    ran = overhand_project.run("resume", "1", "--open")
    assert (ran.code, "needs a terminal" in ran.err) == (2, True)
    assert "overhand send 1 TEXT" in ran.err, "a completed task is not resumed"
    with terminal(overhand_project, "resume", "1", "--open") as screen:
        assert screen.ends() == 3
    assert "has no session that could be opened" in screen.said
    assert overhand_project.run("resume", "1", "--open", "--agent", "codex").code == 2


# an agent, in a session that was started elsewhere


def test_a_session_is_adopted(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("delegate", "Write it down", "--session", f"claude:{SESSION}", "--wait", check=True)
    (row,) = player.trail(bench)
    assert (row["name"], row["resumed"], row["session"]) == ("claude", True, SESSION)
    assert "Write it down" in row["prompt"], "the session does not know the task yet"
    overhand_project.run("send", "1", "again", check=True)
    overhand_project.run("wait", "1", check=True)
    assert player.trail(bench)[-1]["session"] == SESSION


@pytest.mark.parametrize(
    "name", ["", "claude", "claude:", "claude:--help", "claude:../x", "worker:1", "goose:-x", "opencode:a b", SESSION]
)
def test_what_is_no_session(overhand_project: ProjectDir, name: str) -> None:
    ran = overhand_project.run("delegate", "x", "--session", name)
    assert (ran.code, "names no session" in ran.err) == (2, True)
    assert overhand_project.run("list", "--json", check=True).json["tasks"] == []


def test_a_session_belongs_to_its_program(overhand_project: ProjectDir, bench: Path) -> None:
    ran = overhand_project.run("delegate", "x", "--session", f"claude:{SESSION}", "--agent", "codex")
    assert (ran.code, "cannot be continued by codex" in ran.err) == (2, True)


# real agents


@pytest.mark.soak
def test_codex_takes_over_from_claude(tmp_path: Path) -> None:
    scripts = {
        "it": [{"text": "I begin."}, {"text": "Still nothing."}],
        "on": [returns(summary="Codex has done it."), {"text": "Done."}],
    }
    require("codex")
    with house("claude", tmp_path, scripts) as place:
        environ = {**point("codex", place.model.url, str(place.home)), **place.environ}
        place.environ = environ
        first = place.delegate("Do it. script:it")
        assert first["status"] == "failed"
        place.run("resume", "1", "--agent", "codex", "--answer", "Go on with script:on please.", "--wait", timeout=90)
        shown = place.show()
        assert (shown["status"], shown["summary"]) == ("completed", "Codex has done it.")
        assert [run["agent"] for run in shown["runs"]][-1] == "codex"
        spec = place.task_record(shown["task_id"]) / "runs" / shown["runs"][-1]["id"] / "spec.json"
        assert "session" not in json.loads(spec.read_text()), "its own session begins"
        rows = place.rows("on")
        assert rows[0]["format"] == "responses"


@pytest.mark.soak
def test_real_claude_goes_on_in_a_session_that_a_person_began(tmp_path: Path) -> None:
    scripts = {"begin": [{"text": "I remember BLUE."}], "it": [returns(summary="It was blue."), {"text": "Done."}]}
    with house("claude", tmp_path, scripts) as place:
        session = str(uuid.uuid4())
        words = [str(program("claude")), "-p", "--session-id", session, "remember blue script:begin"]
        subprocess.run(words, cwd=place.path, env=place.environment(), stdin=subprocess.DEVNULL, check=True, timeout=60)
        done = place.delegate("Say which colour. script:it", "--agent", "claude", "--session", f"claude:{session}")
        assert (done["status"], done["summary"]) == ("completed", "It was blue.")
        stream = place.task_record(done["task_id"]) / "runs" / done["runs"][0]["id"] / "stdout"
        assert session in stream.read_text()
