"""What an ACP agent asks for is read whole, however little its request says; and which mode it is put into."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from agents.test_acp import _agents, done, notes, project, question, show, toy
from support.installed import require
from support.real_agents import House, house, output, until

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir

__all__ = ["project"]  # the fixture


@pytest.mark.parametrize("word", ["bare", "titled"])
def test_a_request_that_says_little_is_read_with_what_was_said_before(project: ProjectDir, word: str) -> None:
    toy(project, f"{word}:touch_a", f"{word}:touch_b", "return")
    project.run("delegate", "do it", "--agent", "toy", "--read-only", check=True)
    first = question(project)
    assert first["question"].endswith(": touch a")
    assert first["options"][1] == "Always for this task: execute: touch *"
    project.run("answer", "1", "Allow once", check=True)
    second = until(lambda: [q for q in show(project)["questions"] if q["seq"] == 2])[0]
    assert second["question"].endswith(": touch b")
    project.run("answer", "1", "Reject", check=True)
    project.run("wait", "1")
    assert [line[-3:] for line in notes(project)[-2:]] == ["yes", " no"]


def test_our_own_tools_are_not_asked_for_and_nothing_else_passes_for_one(project: ProjectDir) -> None:
    ours = ("bare:overhand.finish", "other:overhand: step", "other:step (overhand MCP Server)")
    toy(project, *ours, "ask:overhand.sh_now", "ask:overhand/x_now", "bare:mail.send", "return")
    project.run("delegate", "do it", "--agent", "toy", "--read-only", check=True)
    for seq, about in ((1, "overhand.sh now"), (2, "overhand/x now"), (3, "mail.send")):
        asked = until(lambda seq=seq: [q for q in show(project)["questions"] if q["seq"] == seq])[0]  # type: ignore[misc]
        assert about in asked["question"]
        project.run("answer", "1", "Reject", check=True)
    project.run("wait", "1")
    assert [line[-3:] for line in notes(project)[1:]] == ["yes"] * 3 + [" no"] * 3


@pytest.mark.parametrize(
    ("level", "offered", "keys", "chosen"),
    [
        ("full", "default,auto,yolo", {}, "yolo"),
        ("full", "default,auto", {}, "default"),  # `auto` lets a model decide
        ("full", "default,yolo", {"deny": ["execute: rm *"]}, "default"),  # what is not asked for is not denied
        ("work", "plan,default,yolo", {}, "default"),
        ("read", "read-only,yolo", {}, "read-only"),
    ],
)
def test_the_mode_fits_the_level(
    project: ProjectDir, level: str, offered: str, keys: dict[str, Any], chosen: str
) -> None:
    project.config(f'[kinds.fix]\nlevel = "{level}"\n')
    toy(project, f"modes:{offered}", "ask:rm_x", "return", **keys)
    project.run("delegate", "do it", "--agent", "toy", "--kind", "fix", check=True)
    if level == "read":
        question(project)
        project.run("answer", "1", "Reject", check=True)
    project.run("wait", "1")
    denied = bool(keys) or level == "read"
    assert notes(project) == [f"mode {chosen}", f"rm x -> {'no' if denied else 'yes'}"]


def test_a_client_that_is_killed_while_it_asks_is_followed_by_one_that_is_granted(project: ProjectDir) -> None:
    toy(project, "ask:touch_x", "return")
    project.run("delegate", "do it", "--agent", "toy", "--read-only", check=True)
    question(project)
    (place,) = project.record.glob("tasks/*/runs/*")
    os.kill(int((place / "pid").read_text()), signal.SIGKILL)
    until(lambda: show(project)["status"], "its end")
    until(lambda: not _agents(project), "the end of its agent")
    assert len(show(project)["runs"]) == 1  # nobody has answered yet
    project.run("answer", "1", "Allow once", check=True)
    assert project.run("wait", "1").code == 0
    shown = show(project)
    assert (shown["status"], len(shown["runs"]), len(shown["questions"])) == ("completed", 2, 1)
    assert notes(project)[-2].startswith("loaded toy-")
    assert notes(project)[-1] == "touch x -> yes"


REAL = {
    "claude": ["claude-agent-acp"],
    "codex": ["codex-acp"],
    "goose": ["goose", "acp", "--with-builtin", "developer"],
    "gemini": ["gemini", "--acp", "-m", "gemini-2.5-pro"],
    "opencode": ["opencode", "acp"],
    "qwen": ["qwen", "--acp"],
}


def at_home(place: House, name: str) -> None:
    require({"claude": "claude-agent-acp", "codex": "codex-acp"}.get(name, name))
    place.agent("it", driver="acp", command=REAL[name], repair=0)


@pytest.mark.parametrize("name", list(REAL))
@pytest.mark.soak
def test_real_agents_ask_for_the_whole_command_and_never_for_our_tools(name: str, tmp_path: Path) -> None:
    there = tmp_path / "outside.txt"
    extra = {"sandbox_permissions": "require_escalated", "justification": "Outside."} if name == "codex" else {}
    script: list[dict[str, Any]] = [
        {"ops": [{"bash": {"command": f"touch {there}", "extra": extra}}]},
        {"ops": [{"mcp": {"server": "overhand", "tool": "step", "arguments": {}}}]},
        {"text": output(summary="I tried.")},
    ]
    with house(name, tmp_path, {"out": script}) as place:
        at_home(place, name)
        place.delegate("Touch it. script:out", "--agent", "it", "--read-only", wait=False)
        asked = question(place)
        assert asked["question"].endswith(f": touch {there}")
        place.run("answer", "1", "Allow once", check=True)
        shown = place.judged()
        assert there.exists(), place.stream(shown["runs"][-1])
        assert len(shown["questions"]) == 1, shown["questions"]
        if name != "qwen":  # which hides the tools of servers behind a search
            assert "steps" in place.rows("out")[2]["results"][-1]


def test_what_may_not_be_done_is_told_at_once(project: ProjectDir) -> None:
    toy(project, "return", deny="git push")
    ran = project.run("delegate", "do it", "--agent", "toy")
    assert ran.code == 2
    assert "overhand.deny must be a list" in ran.err
    project.agent("it", driver="codex", command=None, deny=["execute: git push*"])
    ran = project.run("delegate", "do it", "--agent", "it")
    assert (ran.code, "codex cannot be held to deny" in ran.err) == (2, True)
    project.config('[drivers.codex]\nallow = ["execute: make"]\n')
    assert project.run("delegate", "do it", "--agent", "codex").code == 2
    toy(project, "return")
    assert done(project)["status"] == "completed"
