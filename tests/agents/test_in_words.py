"""What agents do and how they break off, in the words that people read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from overhand.agents import brief_tool_use, last_activity, stream, stream_summary, translator
from overhand.verbs.log import AgentMessages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": "cat a.txt", "description": "looks"}, "cat a.txt"),
        ({"command": "/bin/bash -lc 'cat a.txt | wc'"}, "cat a.txt | wc"),
        ({"command": ["bash", "-c", "ls -l"]}, "ls -l"),
        ({"command": "/bin/bash -lc ls"}, "ls"),
        ({"file_path": "/atlas/src/a.py", "content": "x" * 999}, "src/a.py"),
        ({"path": "/atlas/.agent-workspaces/t/runs/r/OUTPUT.md"}, "OUTPUT.md"),
        ({"pattern": "def .*\n", "path": None}, "def .*"),
        ({"odd": {"a": 1}}, '{"odd": {"a": 1}}'),
        ({"cmd": "x" * 500}, "x" * 199 + "…"),
        ({}, ""),
    ],
)
def test_what_a_tool_was_used_for(arguments: dict[str, Any], told: str) -> None:
    assert brief_tool_use(arguments, "/atlas/.agent-workspaces/t/runs/r", "/atlas") == told


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (b"", ""),
        (b"\x1b[91m\x1b[1mError: \x1b[0mSession not found\n", "Error: Session not found"),
        (b"warming up\n  error: No provider configured. Run 'goose configure' first.\n\n", "error: No provider"),
        (b"Please set an Auth method in your settings\n", "Please set an Auth method"),
        (b"TypeError: x\nError: it broke\n    at Object.run (a.js:1)\n    at b\n", "Error: it broke"),
        (b'{"type": "init"}\n{"type": "text"', ""),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
    ],
)
def test_why_a_program_broke_off(printed: bytes, told: str) -> None:
    found = stream.complaint(printed)
    assert found.startswith(told)
    assert bool(found) == bool(told)


def test_a_program_that_was_never_configured_is_not_logged_in(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("\n  error: No provider configured. Run 'goose configure' first.\n\n")
    heard = stream_summary(str(tmp_path), "goose")
    assert heard is not None
    assert (heard.end, heard.why) == ("auth", "error: No provider configured. Run 'goose configure' first.")


def test_what_stands_in_a_secret_variable_is_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sesame-open")
    (tmp_path / "stdout").touch()
    (tmp_path / "stderr").write_text("Error: the key sesame-open is bad\n")
    heard = stream_summary(str(tmp_path), "codex")
    assert heard is not None
    assert heard.why == "Error: the key <SOME_API_KEY> is bad"


def line(**event: object) -> str:
    return json.dumps(event) + "\n"


def word(text: str) -> str:
    return line(type="message", message={"role": "assistant", "id": "1", "content": [{"type": "text", "text": text}]})


def test_words_that_come_one_by_one_are_told_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    translate = translator("goose")
    assert translate is not None
    spoken = AgentMessages(str(tmp_path), "r", translate, "/atlas")
    assert list(spoken.lines()) == [], "there is no file yet"
    path.write_text(word("I lo") + word("ok.\nThen") + word(" I"))
    assert [one["text"] for one in spoken.lines()] == ["I look."]
    call = {"type": "toolRequest", "toolCall": {"value": {"name": "shell", "arguments": {"command": "ls"}}}}
    with path.open("a") as file:
        file.write(word(" write.") + line(type="message", message={"role": "assistant", "content": [call]}))
        file.write(line(type="error", error="It broke.") * 2 + word("Bye") + '{"half')
    told = [(one["e"], one.get("tool"), one["text"]) for one in spoken.lines()]
    assert told == [("said", None, "Then I write."), ("did", "shell", "ls"), ("failed", None, "It broke.")]
    assert [one["text"] for one in spoken.lines(last=True)] == ["Bye"]
    assert list(spoken.lines(last=True)) == []
    assert last_activity(str(tmp_path), "goose") == "Bye"


def test_the_end_of_a_long_stream_is_enough(tmp_path: Path) -> None:
    said = line(type="item.completed", item={"type": "agent_message", "text": "word " * 2000})
    done = {"type": "command_execution", "command": "/bin/sh -c 'make test'", "exit_code": 0}
    (tmp_path / "stdout").write_text(said * 50 + line(type="item.completed", item=done))
    assert last_activity(str(tmp_path), "codex") == "shell make test"
    assert last_activity(str(tmp_path), "command") == "", "what has no stream says nothing"
    assert last_activity(str(tmp_path / "nowhere"), "codex") == ""
