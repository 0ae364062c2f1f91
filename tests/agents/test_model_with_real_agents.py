"""The real programs, bare, against a scripted model: they write, they run commands, they end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from model import scripted_model
from support.installed import LIMIT, SESSIONS, Ran, finish, holds, kill, require, run_bare, start
from support.real_agents import until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.soak  # real agents

AGENTS = ("claude", "codex", "goose", "gemini", "opencode", "qwen")
SCRIPTS: dict[str, Any] = {
    "work": [
        {"text": "First the file.", "ops": [{"write": {"path": "hello.txt", "content": 'it\'s "here"\n'}}]},
        {"ops": [{"bash": {"command": "cat hello.txt > copy.txt"}}, {"read": {"path": "hello.txt"}}]},
        {"text": "All of it is there.", "usage": {"input": 2000, "output": 70}},
    ],
    "ask": [
        {"ops": [{"mcp": {"server": "desk", "tool": "ask", "arguments": {"question": "colour?"}}}]},
        {"ops": [{"bash": {"command": "echo told > told.txt"}}]},
        {"text": "Answered: {result}"},
    ],
    "parts": [{"text": "Part one."}, {"ops": [{"bash": {"command": "echo two > two.txt"}}]}, {"text": "Part two."}],
    "refused": [{"status": 401, "message": "No such key."}],
}
# How each one's stream ends when all went well, and the words of the model in it.
ENDS: dict[str, dict[str, object]] = {
    "claude": {"type": "result", "subtype": "success", "is_error": False},
    "codex": {"type": "turn.completed"},
    "goose": {"type": "complete"},
    "gemini": {"type": "result", "status": "success"},
    "opencode": {"type": "step_finish"},
    "qwen": {"type": "result", "subtype": "success", "is_error": False},
}
DESK = str(Path(__file__).with_name("desk.py"))
PYTHON = sys.executable
WITH_DESK = {
    "claude": (
        *("--mcp-config", json.dumps({"mcpServers": {"desk": {"command": PYTHON, "args": [DESK]}}})),
        *("--strict-mcp-config", "--allowedTools", "Bash,mcp__desk__ask"),
    ),
    "codex": (
        *("-c", f"mcp_servers.desk.command={json.dumps(PYTHON)}", "-c", f"mcp_servers.desk.args=[{json.dumps(DESK)}]"),
        *("-c", 'mcp_servers.desk.default_tools_approval_mode="approve"'),
        *("-c", "mcp_servers.desk.required=true", "-c", "mcp_servers.desk.startup_timeout_sec=60"),
    ),
    "goose": ("--with-extension", f"{PYTHON} {DESK}"),
}
NAMESPACE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    require(name)
    return name


def assert_worked(name: str, ran: Ran, folder: Path) -> None:
    assert ran.code == 0, ran.err
    assert (folder / "work/hello.txt").read_text() == 'it\'s "here"\n'
    assert (folder / "work/copy.txt").read_text() == 'it\'s "here"\n'
    assert ran.turns("work") == [0, 1, 2]
    assert ran.log[-1]["impossible"] == []
    assert any("here" in text for text in ran.log[-1]["results"])
    end = ran.events[-1]
    assert {key: end.get(key) for key in ENDS[name]} == ENDS[name]
    assert "All of it is there." in said(ran)


def said(ran: Ran) -> str:
    """All words of the stream in one, for some agents stream them in pieces."""
    pieces = (text for event in ran.events for text in words(event))
    return "".join(pieces)


def words(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value[key] for key in ("text", "content", "result") if isinstance(value.get(key), str)]
        return own + [text for inner in value.values() for text in words(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in words(inner)]
    return []


@pytest.mark.parametrize("agent", AGENTS, indirect=True)
def test_a_file_a_command_an_end(agent: str, tmp_path: Path) -> None:
    ran = run_bare(agent, SCRIPTS, "Please do what is to be done. script:work", tmp_path)
    assert_worked(agent, ran, tmp_path)


@pytest.mark.parametrize("agent", AGENTS, indirect=True)
def test_a_key_that_is_refused_is_no_success(agent: str, tmp_path: Path) -> None:
    ran = run_bare(agent, SCRIPTS, "script:refused", tmp_path)
    assert "No such key." in ran.out
    assert {row["status"] for row in ran.log} == {401}
    assert ran.code != 0 or agent == "goose"  # which says so in its words only


@pytest.mark.parametrize("agent", WITH_DESK, indirect=True)
def test_a_tool_of_an_mcp_server(agent: str, tmp_path: Path) -> None:
    ran = run_bare(agent, SCRIPTS, "script:ask", tmp_path, *WITH_DESK[agent])
    asked = [row for row in ran.log if row["tools"]]
    assert [row["turn"] for row in asked] == [0, 1, 2], ran.log
    assert "BLUE to colour?" in asked[1]["results"][0]
    assert (tmp_path / "work/told.txt").exists()


RESUME: dict[str, Callable[[dict[str, Any]], tuple[str, ...]]] = {
    "claude": lambda first: ("--resume", first["session_id"]),
    "codex": lambda first: ("resume", first["thread_id"]),
    "goose": lambda _: ("--name", "one", "--resume"),
}


@pytest.mark.parametrize("agent", RESUME, indirect=True)
def test_a_resumed_session_goes_on_with_the_next_turn(agent: str, tmp_path: Path) -> None:
    named = ("--name", "one") if agent == "goose" else ()
    first = run_bare(agent, SCRIPTS, "script:parts", tmp_path, *named)
    assert first.turns("parts") == [0]
    again = run_bare(agent, SCRIPTS, "And now the rest.", tmp_path, *RESUME[agent](first.events[0]))
    assert again.turns("parts") == [1, 2], again.err
    assert (tmp_path / "work/two.txt").read_text() == "two\n"


@pytest.mark.parametrize("agent", RESUME, indirect=True)
def test_killed_while_the_model_thinks_then_resumed(agent: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    once = {"ops": [{"bash": {"command": "echo one > one.txt; echo told-$((40 + 2))"}}]}
    late = {"hang": str(go), "ops": [{"bash": {"command": "echo two > two.txt"}}]}
    named = ("--name", "one") if agent == "goose" else ()
    with scripted_model({"late": [once, late, {"text": "There."}]}) as model:
        first = start(agent, model.url, "script:late", tmp_path, *named)
        rows = model.log()
        while not any(row.get("hang") for row in rows):
            rows = model.wait_for(len(rows) + 1, timeout=LIMIT)
        # It asks the model first and saves its session a moment later: killed in between it would begin again.
        until(lambda: holds(tmp_path / "home" / SESSIONS[agent], b"told-42"), timeout=LIMIT)
        kill(first)
        begun = Ran(-9, *finish(first), model.log())
        go.touch()
        second = start(agent, model.url, "Go on.", tmp_path, *RESUME[agent](begun.events[0]))
        again = Ran(0, *finish(second), model.log()[len(begun.log) :])
    assert again.turns("late") == [1, 2], again.err
    assert (tmp_path / "work/two.txt").read_text() == "two\n"


@pytest.mark.parametrize("agent", AGENTS, indirect=True)
def test_without_any_other_host(agent: str, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace may be made here")
    argv = [*NAMESPACE, sys.executable, "-m", "agents.alone", agent]
    argv += [json.dumps(SCRIPTS), "Please do what is to be done. script:work", str(tmp_path)]
    tests = str(Path(__file__).resolve().parents[1])
    environ = {**os.environ, "PYTHONPATH": tests}
    done = subprocess.run(argv, capture_output=True, text=True, env=environ, timeout=LIMIT + 30, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["interfaces"], told["counted"]) == (["lo"], 1)
    assert told["tried"] == 0, "it tried to reach another host"
    assert_worked(agent, Ran(**told["ran"]), tmp_path)
