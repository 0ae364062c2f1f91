"""Rough treatment: lines that are no messages, clients that give up or leave, vanished folders, runs that are over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_server.test_handshake import READY, Line, hello
from overhand.questions import blocked, has_waiting_process
from overhand.record import Store
from overhand.system import Beneath, is_held
from support.scene import until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

AGENTS = {"worker": ("output",), "sleeper": ("sleep:60", "output")}
GIVES_UP = str(Path(__file__).with_name("gives_up.py"))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "p", AGENTS, config='default_agent = "worker"\n')
    project.run("version", check=True)
    try:
        yield project
    finally:
        project.cleanup()


class At(Line):
    """A server of a project, spoken to by hand."""

    def __init__(self, project: ProjectDir, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "overhand", "mcp"],
            cwd=project.path,
            env={**project.environment(), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> At:
        self.ask(hello("2025-11-25"))
        self.say(READY)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        asked = {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        found: dict[str, Any] = self.ask(asked)["result"]["structuredContent"]
        return found


@pytest.mark.parametrize(
    "raw",
    [
        b"{nope",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [1]}',
        b'{"jsonrpc": "2.0", "method": 5}',
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_is_no_message_does_no_harm(house: ProjectDir, raw: bytes, first: bool) -> None:
    server = At(house)
    try:
        assert server.process.stdin is not None
        if not first:
            server.__enter__()
        server.process.stdin.write(raw + b"\n")
        server.process.stdin.flush()
        if first:
            server.say(hello("2025-11-25"))
            server.say(READY)
        server.say({"id": 7, "method": "tools/call", "params": {"name": "status", "arguments": {}}})
        assert server.process.stdout is not None
        while (line := server.process.stdout.readline()) and json.loads(line).get("id") != 7:
            pass
        assert json.loads(line)["result"]["structuredContent"]["tasks"] == []
    finally:
        server.close()


def test_many_that_wait_keep_nobody_from_being_answered(house: ProjectDir) -> None:
    with At(house) as server:
        handle = str(server.call(1, "delegate", title="Sleep for long", agent="sleeper")["handle"])
        for number in range(100, 160):
            given = {"name": "wait", "arguments": {"id": [handle], "timeout": "50s"}}
            server.say({"id": number, "method": "tools/call", "params": given})
        assert server.call(2, "result", id=handle)["pending"] is True
        house.run("stop", handle, "--now", check=True)


def test_a_client_that_leaves_while_it_waits_takes_its_server_along(house: ProjectDir) -> None:
    with At(house) as server:
        handle = str(server.call(1, "delegate", title="Sleep for long", agent="sleeper")["handle"])
        server.say({"id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {"id": [handle]}}})
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(60) == 0
        until(lambda: house.run("show", handle, "--json").json["run_state"] == "running", "the work's going on")
        house.run("stop", handle, "--now", check=True)


def test_a_project_that_is_gone_is_not_made_again(house: ProjectDir) -> None:
    with At(house) as server:
        assert server.call(1, "status")["tasks"] == []
        moved = house.path.rename(house.path.with_name("moved"))
        try:
            calls: dict[str, dict[str, Any]] = {"status": {}, "delegate": {"title": "Do it"}, "wait": {"id": ["1"]}}
            for number, (tool, given) in enumerate(calls.items(), 2):
                told = server.call(number, tool, **given)["error"]
                assert told["code"] == "FILE_NOT_FOUND"
                assert "is gone" in told["message"]
            assert not house.path.exists()
        finally:
            moved.rename(house.path)


def test_a_run_that_is_over_reports_nothing_more(house: ProjectDir) -> None:
    made = house.run("delegate", "Sleep", "--agent", "sleeper", "--step", "one", "--json", check=True).json
    runs = until(lambda: house.run("show", "1", "--json").json["runs"], "a run")
    house.run("stop", "1", "--now", check=True)
    inside = {"OVERHAND_PROJECT": str(house.path), "OVERHAND_TASK": made["task_id"], "OVERHAND_RUN": runs[0]["id"]}
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("handoff", {}),
        ("step", {"step": "1", "state": "done"}),
        ("ask", {"question": "Which?"}),
        ("checkpoint", {"reason": "late"}),
        ("delegate", {"title": "Do a part"}),
        ("finish", {"status": "completed", "summary": "Late."}),
    )
    with At(house, **inside) as server:
        for number, (tool, given) in enumerate(calls, 1):
            assert server.call(number, tool, **given)["error"]["code"] == "STALE_RUN", tool
    shown = house.run("show", "1", "--json").json
    assert (shown["status"], shown["questions"]) == ("cancelled", [])
    assert house.run("checkpoint", "list", "1", "--json").json["checkpoints"] == []


@pytest.mark.parametrize("tool", ["ask", "delegate"])
def test_who_gives_up_waiting_is_no_longer_blocked(house: ProjectDir, tool: str) -> None:
    """Its clock goes on, and it is not parked for a question that it no longer waits for."""
    given = {"ask": {"question": "Which?"}, "delegate": {"title": "Sleep", "agent": "sleeper", "wait": True}}[tool]
    house.agent("caller", command=[sys.executable, GIVES_UP, tool, json.dumps(given)])
    house.run("delegate", "Ask", "--agent", "caller", "--json", check=True)
    store = Store(str(house.path))
    task_id = next(task.id for task in store.tasks() if task.agent == "caller")
    run = until(lambda: store.task(task_id).current_run, "a run")
    place = Path(store.run_folder(task_id, run.id))
    locks = until(lambda: [one for one in place.glob("waiting/*") if is_held(str(one))], "its waiting")
    assert has_waiting_process((Beneath(str(place)),))
    (house.path / "cancel").touch()
    until(lambda: not any(one.exists() and is_held(str(one)) for one in locks), "the end of its waiting")
    if tool == "ask":
        assert not blocked.is_asking((Beneath(str(place)),), store.task(task_id))
    (house.path / "over").touch()
    done = house.run("wait", "1", "--json").json
    assert done["summary"] == "Gone on without an answer."
    assert done["runs"][0]["cause"] == "exit"
