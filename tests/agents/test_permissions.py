"""Permissions of real agents: over kills and parking, for the whole task, denied for good, and asked from below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overhand.testing import processes
from support.installed import require
from support.real_agents import FIRST, House, house, kill, output, returns, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

ASK = {"claude": None, "codex": ["codex-acp"], "goose": ["goose", "acp", "--with-builtin", "developer"]}
SOON = '[limits]\nanswer_wait = "1s"\nstop_grace = "3s"\n'


def agent(place: House, name: str, **keys: object) -> None:
    """An agent that asks: Claude Code headless, the others through ACP."""
    if name == "codex":
        require("codex-acp")
    driver = "claude" if name == "claude" else "acp"
    place.agent("it", driver=driver, **{"command": ASK[name], "repair": 0, **keys})


def shell(name: str, command: str) -> dict[str, Any]:
    """An operation that level `read` withholds; Codex asks only for what its sandbox does not let it do."""
    extra = {"sandbox_permissions": "require_escalated", "justification": "It must be."} if name == "codex" else {}
    return {"ops": [{"bash": {"command": command, "extra": extra}}]}


def delegate(place: House, script: str, *words: str) -> None:
    place.delegate(f"Do it. script:{script}", "--agent", "it", *words, wait=False)


def open_questions(place: House, handle: object = "1") -> list[dict[str, Any]]:
    return [one for one in place.show(handle)["questions"] if one["answered"] is None]


@pytest.mark.parametrize("name", list(ASK))
def test_granted_after_the_supervisor_was_killed_and_done_once(name: str, tmp_path: Path) -> None:
    there = tmp_path / "outside.txt"
    script = [shell(name, f"echo it >> {there}"), {"text": output(summary="I did it.")}]
    with house(name, tmp_path, {"out": script}) as place:
        agent(place, name)
        delegate(place, "out", "--read-only")
        until(lambda: open_questions(place), "the request")
        supervisors = processes.supervisors(place.path)
        assert supervisors
        kill(list(supervisors))
        (asked,) = open_questions(place)
        assert asked["question"].endswith(f"echo it >> {there}")
        place.run("answer", "1", "Allow once", check=True)
        done = place.judged()
        assert there.read_text() == "it\n", place.stream(done["runs"][-1])
        assert (len(done["runs"]), len(done["questions"])) == (1, 1)


@pytest.mark.parametrize("name", list(ASK))
def test_parked_then_gone_on_with_in_the_same_session_and_done_once(name: str, tmp_path: Path) -> None:
    there = tmp_path / "outside.txt"
    command = shell(name, f"echo it >> {there}")
    again = [] if name == "goose" else [command]  # Goose forgets the call that was interrupted, and makes it again
    scripts = {"out": [command, *again, {"text": output(summary="I did it.")}]}
    with house(name, tmp_path, scripts, config=SOON) as place:
        agent(place, name)
        delegate(place, "out", "--read-only")
        until(lambda: place.show()["status"] == "needs-input", "parking")
        parked = place.show()
        assert parked["runs"][0]["cause"] == "answer-timeout"
        assert not place.running(parked["runs"][0]["id"])
        assert not there.exists()
        place.run("answer", "1", "Allow once", check=True)
        done = place.judged()
        assert there.read_text() == "it\n", place.stream(done["runs"][-1])
        assert (len(done["runs"]), len(done["questions"])) == (2, 1)
        first, second = place.sessions()
        assert first == second != ""


@pytest.mark.parametrize("name", list(ASK))
def test_always_for_this_task_holds_in_its_next_run(name: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    scripts = {
        "one": [shell(name, f"touch {one}"), {"text": output(summary="One.")}],
        "two": [shell(name, f"touch {two}"), {"text": output(summary="Two.")}],
    }
    with house(name, tmp_path, scripts) as place:
        agent(place, name)
        delegate(place, "one", "--read-only")
        until(lambda: open_questions(place), "the request")
        place.run("answer", "1", "2", check=True)
        assert place.judged()["summary"] == "One."
        place.run("send", "1", "Now script:two", check=True)
        done = place.judged()
        assert done["summary"] == "Two.", place.stream(done["runs"][-1])
        assert (one.exists(), two.exists(), len(done["questions"])) == (True, True, 1)


@pytest.mark.parametrize("level", ["work", "full"])
@pytest.mark.parametrize("name", ["claude", "goose"])
def test_what_is_denied_is_denied_at_every_level(name: str, level: str, tmp_path: Path) -> None:
    script = [
        *(shell(name, command) for command in ("touch fine.txt", "touch bad.txt", "cd . && touch  bad.txt")),
        {"text": output(summary="I tried.")},
    ]
    with house(name, tmp_path, {"out": script}, config=f'[kinds.fix]\nlevel = "{level}"\n') as place:
        agent(place, name, deny=["execute: touch bad*"])
        delegate(place, "out", "--kind", "fix")
        done = place.judged()
        assert (place.path / "fine.txt").exists(), place.stream(done["runs"][-1])
        assert not (place.path / "bad.txt").exists()
        told = [one["message"] for one in done["problems"] if one["code"] == "permission-denied"]
        assert any("touch bad.txt" in one for one in told), done["problems"]
        assert done["questions"] == []


def test_an_edit_outside_the_project_is_asked_for(tmp_path: Path) -> None:
    there = tmp_path / "outside.txt"
    writes = [{"ops": [{"write": {"path": path, "content": "x"}}]} for path in ("{project}/in.txt", str(there))]
    with house("claude", tmp_path, {"out": [*writes, returns(summary="Both."), {"text": "Over."}]}) as place:
        agent(place, "claude")
        told = place.delegate("Do it. script:out", "--agent", "it", wait=False)
        assert "what else it wants becomes a question" in told["may"]
        (asked,) = until(lambda: open_questions(place), "the request")
        assert asked["question"].endswith(str(there))
        assert (place.path / "in.txt").exists()
        place.run("answer", "1", "Allow once", check=True)
        done = place.judged()
        assert (done["status"], there.exists(), len(done["questions"])) == ("completed", True, 1)


@pytest.mark.parametrize("door", ["shell", "mcp"])
def test_a_request_from_below_is_answered_at_the_top(door: str, tmp_path: Path) -> None:
    there = tmp_path / "outside.txt"
    hand_on = {
        "shell": {"bash": {"command": "../bin/overhand delegate 'A part. script:part' --agent it --wait"}},
        "mcp": {
            "mcp": {
                "server": "overhand",
                "tool": "delegate",
                "arguments": {"title": "A part. script:part", "agent": "it", "wait": True},
            }
        },
    }[door]
    scripts: dict[str, object] = {
        "whole": [{"ops": [hand_on]}, returns(summary="{result}"), {"text": "Over."}],
        "part": [
            {"ops": [{"write": {"path": str(there), "content": "x"}}]},
            returns(summary="The part is there."),
            {"text": "Over."},
        ],
    }
    with house("claude", tmp_path, scripts, config="[limits]\nmax_parallel = 1\n") as place:
        agent(place, "claude")
        place.agent("boss", driver="claude", command=None, repair=0)
        place.delegate("The whole. script:whole", "--agent", "boss", wait=False)
        listed = until(lambda: place.run("answer", "--json").json["questions"], "the request")
        assert listed[0]["path"] == ["user", "boss", "it"]
        assert str(there) in listed[0]["question"]
        assert place.run("status", "--json").json["counts"]["needs you"] >= 1
        place.run("answer", str(listed[0]["handle"]), "Allow once", check=True)
        done = place.judged()
        assert (done["status"], there.exists()) == ("completed", True), place.stream(done["runs"][-1])
        assert len(done["runs"]) == 1
        assert "The part is there." in done["summary"]


@pytest.mark.parametrize("name", FIRST)
def test_a_reading_task_may_write_the_file_that_it_is_asked_for(name: str, tmp_path: Path) -> None:
    write = {"ops": [{"write": {"path": "{project}/docs/report.md", "content": "found\n"}}]}
    script = [write, {"text": output(summary="Wrote it.", files="docs/report.md")}]
    with house(name, tmp_path, {"out": script}, config='[kinds.look]\nlevel = "read"\n') as place:
        words = ("--kind", "look", "--deliverable", "docs/report.md")
        done = place.delegate("Do it. script:out", *words)
        assert (place.path / "docs/report.md").read_text() == "found\n", place.stream(done["runs"][-1])
        assert (done["status"], done["questions"], len(done["runs"])) == ("completed", [], 1), done["problems"]
