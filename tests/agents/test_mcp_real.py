"""The real programs call Overhand's MCP server: inside a run as the agent, outside as a host."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from model.clients import CLIENTS
from support.installed import command, finish
from support.real_agents import FIRST, REST, House, house, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents


def mcp(tool: str, **arguments: Any) -> dict[str, Any]:
    """An operation that calls a tool of ours."""
    return {"mcp": {"server": "overhand", "tool": tool, "arguments": arguments}}


RUN: list[dict[str, Any]] = [
    {"ops": [mcp("handoff")]},
    {"ops": [mcp("step", step="1", state="done")]},
    {"ops": [mcp("ask", question="Which colour?", option=["red", "blue"])]},
    {"ops": [{"write": {"path": "{project}/wall.txt", "content": "blue\n"}}]},
    {"ops": [mcp("finish", status="completed", summary="It is.", deliverable=["wall.txt=the wall", "no.txt=none"])]},
    {
        "ops": [
            mcp("finish", status="completed", summary="It is blue.", deliverable=["wall.txt=it"], data={"c": "blue"})
        ]
    },
    {"text": "Over."},
]


def questions_of(place: House, handle: int = 1) -> list[Any]:
    """What it asks and nobody has answered."""
    return [one for one in place.show(handle)["questions"] if one["answered"] is None]


@pytest.mark.case("tools")
@pytest.mark.parametrize("name", [*FIRST, *(name for name in REST if name != "gemini")])  # which takes no server
def test_an_agent_steps_asks_and_returns_through_its_server(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"run": RUN}) as place:
        words = ("--step", "Choose", "--deliverable", "wall.txt", "--verify", "grep blue wall.txt")
        place.delegate("Paint the wall. script:run", *words, wait=False)
        until(partial(questions_of, place), "the question")
        place.run("answer", "1", "blue", check=True)
        done = place.judged()
        assert (done["status"], done["verification"], done["problems"]) == ("completed", "passing", []), place.stream(
            done["runs"][0]
        )
        assert (done["summary"], done["data"]) == ("It is blue.", {"c": "blue"})
        assert len(done["runs"]) == 1
        rows = [row for row in place.rows("run") if any("finish" in tool for tool in row["tools"])]
        assert [row["turn"] for row in rows[:7]] == [0, 1, 2, 3, 4, 5, 6]
        told = [row["results"][-1] for row in rows[1:7]]
        assert "Paint the wall" in told[0]
        assert "All steps are done" in told[1]
        assert "blue" in told[2]
        assert "no.txt" in told[4]
        assert "End your turn now" in told[5]
        place.is_over(done["runs"][0]["id"])


@pytest.mark.parametrize("name", FIRST)
def test_an_agent_file_can_do_without_it(name: str, tmp_path: Path) -> None:
    script = [{"ops": [mcp("handoff")]}, {"text": "Over."}]
    with house(name, tmp_path, {"run": script}) as place:
        place.agent("quiet", driver=name, command=None, mcp=False)
        place.delegate("Look. script:run", "--agent", "quiet")
        assert "no tool handoff" in place.rows("run")[0]["impossible"][0]


def test_two_live_agents_have_servers_of_their_own(tmp_path: Path) -> None:
    scripts = {
        word: [
            {"ops": [mcp("ask", question=f"{word}?")]},
            {"ops": [mcp("finish", status="completed", summary="{result}")]},
            {"text": "Over."},
        ]
        for word in ("one", "two")
    }
    with house("claude", tmp_path, scripts) as place:
        for word in scripts:
            place.delegate(f"Ask. script:{word}", "--read-only", wait=False)
        for handle, word in ((1, "one"), (2, "two")):
            until(partial(questions_of, place, handle), "the question")
            place.run("answer", str(handle), f"{word}!", check=True)
        assert [f"{word}!" in place.judged(handle)["summary"] for handle, word in ((1, "one"), (2, "two"))] == [
            True,
            True,
        ]


HOST: list[dict[str, Any]] = [
    {"ops": [mcp("delegate", title="Write the notes", agent="worker")]},
    {"ops": [mcp("wait", id=["1"])]},
    {"ops": [mcp("result", id="1")]},
    {"ops": [mcp("status")]},
    {"text": "It is done."},
]
LET = {
    "claude": ("--allowedTools", "mcp__overhand"),
    "codex": (
        *("-c", 'mcp_servers.overhand.default_tools_approval_mode="approve"'),
        *("-c", "mcp_servers.overhand.required=true", "-c", "mcp_servers.overhand.startup_timeout_sec=60"),
        *("-c", 'mcp_servers.overhand.env_vars=["XDG_CONFIG_HOME", "PYTHONPATH"]'),  # where Overhand is not installed
    ),
}


def as_host(place: House, prompt: str, *flags: str) -> tuple[str, str]:
    """The bare program, as a person uses it in a project that was connected."""
    process = subprocess.Popen(
        command(place.name, prompt, *flags),
        cwd=place.path,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return finish(process)


@pytest.mark.parametrize("name", LET)
def test_a_host_delegates_and_takes_the_result(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"host": HOST}) as place:
        place.agent("worker", "output")
        place.run("connect", name, "--write", check=True)
        out, err = as_host(place, "Have the notes written. script:host", *LET[name])
        assert place.turns("host") == [0, 1, 2, 3, 4], out + err
        told = [row["results"][-1] for row in place.rows("host")[1:]]
        assert "Task 1 is accepted" in told[0]
        assert "not verified" in told[1]
        assert "Did the scripted work" in told[2]
        assert "Nothing needs a person" in told[3]
        assert place.show()["status"] == "completed"


def test_the_plugin_has_a_command_a_skill_and_the_server(tmp_path: Path) -> None:
    host = [{"ops": [{"mcp": {"server": "plugin_overhand_overhand", "tool": "agents"}}]}, {"text": "Over."}]
    with house("claude", tmp_path, {"host": host}) as place:
        place.agent("worker", "output")
        place.run("connect", "claude", "--plugin", str(tmp_path / "plugin"), check=True)
        flags = ("--plugin-dir", str(tmp_path / "plugin"), "--allowedTools", "mcp__plugin_overhand_overhand")
        out, err = as_host(place, "/overhand:dispatch @worker write it script:host", *flags)
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        begun = next(event for event in events if event.get("subtype") == "init")
        assert "overhand:dispatch" in begun["slash_commands"], out + err
        assert any("overhand" in one for one in begun.get("skills", []))
        assert [one["status"] for one in begun["mcp_servers"]] == ["connected"]
        asked = json.dumps(place.model.log())
        assert '"turn": 1' in asked
        assert "worker" in place.rows("host")[1]["results"][-1]
    assert CLIENTS["claude"].headless[0] == "claude"


@pytest.mark.case("denied", agent="claude")
def test_a_change_of_the_project_is_refused_unasked_at_level_read(tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [
        {"ops": [{"write": {"path": "{project}/new.txt", "content": "new\n"}}]},
        {"ops": [{"bash": {"command": "echo it >new.txt"}}]},
        {"ops": [mcp("finish", status="completed", summary="Tried it.")]},
        {"text": "Over."},
    ]
    with house("claude", tmp_path, {"run": script}) as place:
        place.delegate("Write it. script:run", "--read-only", "--set", "shield=require", wait=False)
        (asked,) = until(partial(questions_of, place), "the question")
        assert asked["question"].endswith("echo it >new.txt")
        place.run("answer", "1", "Allow once", check=True)
        done = place.judged()
        first, second = (str(row["results"][-1]) for row in place.rows("run")[1:3])
        assert "the project is read-only" in first
        assert "Read-only file system" in second
        assert not (place.path / "new.txt").exists()
        assert (done["summary"], len(done["questions"])) == ("Tried it.", 1)


@pytest.mark.case("granted", agent="claude")
@pytest.mark.case("denied", agent="claude")
@pytest.mark.parametrize("answer", ["Allow once", "Reject"])
def test_what_a_level_withholds_is_asked_of_a_person(answer: str, tmp_path: Path) -> None:
    there = tmp_path / "new.txt"
    script: list[dict[str, Any]] = [
        {"ops": [{"write": {"path": str(there), "content": "new\n"}}]},
        {"ops": [mcp("finish", status="completed", summary="Tried it.")]},
        {"text": "Over."},
    ]
    with house("claude", tmp_path, {"run": script}) as place:
        place.delegate("Write it. script:run", "--read-only", wait=False)
        (asked,) = until(partial(questions_of, place), "the question")
        assert (asked["via"], asked["closed"]) == ("permission", True)
        assert asked["question"].endswith(f"; the project stays read-only): {there}")
        assert answer in asked["options"]
        place.run("answer", "1", answer, check=True)
        done = place.judged()
        assert there.exists() == (answer != "Reject")
        assert done["summary"] == "Tried it."
        offered = {tool for row in place.rows("run") for tool in row["tools"]}
        assert not [tool for tool in offered if "permit" in tool]
