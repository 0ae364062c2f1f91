"""What a level allows, what patterns add and take away, and what a record says afterwards."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.agents import OpenPermission, find_driver, permissions
from overhand.agents.drivers.acp import client
from overhand.agents.permissions import Policy, ToolRequest, begin, glob, matches, request, rule, widest
from overhand.questions import answer_question, blocked
from supervisor.parts import Watched
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.scene import Scene

RUN = Policy("work", "/p", "/p/.w/run")


def policy(level: str, **more: Any) -> Policy:
    return Policy(level, "/p", "/p/.w/run", **more)


@pytest.mark.parametrize(
    ("asked", "read", "work"),
    [
        (ToolRequest("read", "cat", paths=("/etc/passwd",)), "allow", "allow"),
        (ToolRequest("search", "grep"), "allow", "allow"),
        (ToolRequest("fetch", "web"), "allow", "allow"),
        (ToolRequest("think", "todo"), "allow", "allow"),
        (ToolRequest("edit", "write", paths=("/p/a",)), "ask", "allow"),
        (ToolRequest("edit", "write", paths=("/p/.w/run/OUTPUT.md",)), "allow", "allow"),
        (ToolRequest("edit", "write", paths=("/p/a", "/q/a")), "ask", "ask"),
        (ToolRequest("edit", "write", paths=("/prefix/a",)), "ask", "ask"),
        (ToolRequest("delete", "rm", paths=("/p",)), "ask", "allow"),
        (ToolRequest("edit", "apply_patch"), "ask", "allow"),
        (ToolRequest("execute", "sh", "make"), "ask", "allow"),
        (ToolRequest("switch_mode", "yolo"), "ask", "ask"),
        (ToolRequest("other", "mail"), "ask", "allow"),
        (ToolRequest("other", "mcp__overhand__ask"), "allow", "allow"),
        (ToolRequest("other", "ask (overhand MCP Server)"), "allow", "allow"),
        (ToolRequest("execute", "overhand.sh", "overhand.sh x"), "ask", "allow"),
        (ToolRequest("edit", "overhand/x", paths=("/q",)), "ask", "ask"),
    ],
)
def test_levels(asked: ToolRequest, read: str, work: str) -> None:
    assert rule(asked, policy("read")) == read
    assert rule(asked, policy("work")) == work
    assert rule(asked, policy("full")) == "allow"
    everything = policy("full", deny=["*"])
    assert rule(asked, everything) == "deny"


def test_what_a_sandboxed_agent_asks_for_lies_outside_its_sandbox() -> None:
    sandboxed = policy("work")
    sandboxed.beyond = True
    assert rule(ToolRequest("execute", "sh", "make"), sandboxed) == "ask"
    assert rule(ToolRequest("edit", "write", paths=("/p/a",)), sandboxed) == "allow"


@pytest.mark.parametrize(
    ("kind", "name", "raw", "found"),
    [
        ("other", "shell · echo hi", {"command": "echo hi"}, "execute: echo hi"),
        (None, "Bash", {"command": "ls"}, "execute: ls"),
        ("execute", "ls -l", {"command": ["ls", "-l"]}, "execute: ls -l"),
        ("other", "write", {"path": "a.txt", "content": ""}, "edit: /cwd/a.txt"),
        (None, "Write", {"file_path": "/x/../y"}, "edit: /y"),
        ("other", "text_editor", {"command": "view", "path": "a"}, "read: /cwd/a"),
        ("other", "text_editor", {"command": "write", "path": "a"}, "edit: /cwd/a"),
        ("other", "evil__read", {"path": "/a"}, "other: /a"),
        (None, "mcp__mail__send", None, "other: mcp__mail__send"),
        ("execute", "rm -rf x", {}, "execute: rm -rf x"),
        ("read", "cat a", {"command": "cat a > b"}, "execute: cat a > b"),
        ("read", "view", {"command": "view", "path": "a"}, "read: /cwd/a"),
        ("execute", "mcp.mail.send", {"server": "mail", "tool": "send", "arguments": {}}, "other: mail.send"),
        ("other", "x", {"server": "overhand", "tool": "ask", "arguments": {}}, "other: x"),
        ("execute", "", None, "execute: something that it does not name"),
    ],
)
def test_tools_by_whatever_name(kind: str | None, name: str, raw: object, found: str) -> None:
    assert str(client.request(kind, name, raw, cwd="/cwd")) == found


def test_a_link_does_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/way").symlink_to(tmp_path)
    asked = request("edit", "write", {"path": "way/x"}, cwd=str(tmp_path / "p"))
    assert rule(asked, Policy("work", str(tmp_path / "p"), str(tmp_path / "p/run"))) == "ask"


@pytest.mark.parametrize(
    ("pattern", "command", "allows", "denies"),
    [
        ("execute: git *", "git log -1", True, True),
        ("execute: git *", "git log; rm -rf /", False, True),
        ("execute: git *", "git log $(rm x)", False, True),
        ("execute: rm *", "cd x && rm -rf y", False, True),
        ("execute: a | b", "a | b", True, True),
        ("Bash(git *)", "git log", False, False),
        ("sh(git *)", "git log", True, True),
        ("execute", "a; b", True, True),
        ("execute: *", "a; b", True, True),
        ("edit: *", "make", False, False),
        ("execute: git push*", "git  push x", False, True),
        ("execute: git push*", "A=1 nohup /usr/bin/git push", False, True),
        ("execute: git push*", "bash -lc 'git push'", False, True),
        ("execute: git push*", "if true; then git push; fi", False, True),
        ("execute: git push*", "echo 'git push'", False, False),
    ],
)
def test_patterns_of_commands(pattern: str, command: str, allows: bool, denies: bool) -> None:
    asked = ToolRequest("execute", "sh", command)
    assert matches(pattern, asked) is allows
    assert matches(pattern, asked, denies=True) is denies


def test_patterns_of_paths() -> None:
    asked = ToolRequest("edit", "write", paths=("/p/a.py", "/p/b.md"))
    assert not matches("edit: *.py", asked)
    assert matches("edit: *.py", asked, denies=True)
    assert matches("edit: /p/*", asked)


@given(st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_globs_are_those_of_everybody(pattern: str, text: str) -> None:
    from fnmatch import fnmatchcase

    assert glob(pattern, text) == fnmatchcase(text, pattern)


@given(st.text(max_size=60), st.text(max_size=60))
def test_always_covers_what_it_was_given_for_and_no_second_command(command: str, other: str) -> None:
    asked = ToolRequest("execute", "sh", command)
    pattern = widest(asked)
    if pattern == permissions.EXACTLY:
        return
    assert matches(pattern, asked)
    assert not matches(pattern, ToolRequest("execute", "sh", f"{command}; {other}"))
    assert not matches(pattern, ToolRequest("edit", "sh", paths=(f"/{other}",)))


def test_no_always_for_what_runs_anything() -> None:
    for command in ("bash -c ls", "sudo rm x", "python3 x.py", "env rm x", "rm *.o", "ls"):
        assert widest(ToolRequest("execute", "sh", command)) == permissions.EXACTLY


# the record


@pytest.fixture
def at_work(scene: Scene) -> Iterator[tuple[str, str]]:
    scene.shell("worker", "sleep 600")
    task = scene.delegate("wait")
    until(lambda: scene.state(task).runs and scene.state(task).runs[-1].state == "running", "it runs")
    yield task, str(scene.state(task).runs[-1].id)
    scene.json("stop", task, "--now", code=None)


def answer(scene: Scene, task: str, text: str) -> None:
    answer_question(scene.store, task, text, {"kind": "person", "via": "test"})


def test_an_answer_belongs_to_exactly_its_request(scene: Scene, at_work: tuple[str, str]) -> None:
    task, run = at_work
    reading = Policy("read", str(scene.path), str(scene.desk(task)))
    one, two = ToolRequest("execute", "sh", "make a;"), ToolRequest("execute", "sh", "make b;")
    first = begin(scene.store, task, run, one, reading, "test")
    assert not isinstance(first, str)
    assert first.text.endswith(": make a;")
    assert begin(scene.store, task, run, one, reading, "test") == first  # still open: the same question
    answer(scene, task, "Always for this task: exactly this")
    assert begin(scene.store, task, run, one, reading, "test") == "allow"
    assert not isinstance(begin(scene.store, task, run, two, reading, "test"), str)
    answer(scene, task, "Reject")
    assert begin(scene.store, task, run, two, reading, "test") == "deny"  # it need not ask twice
    assert len(scene.state(task).questions) == 2


def test_once_is_once_also_for_the_next_run(scene: Scene, at_work: tuple[str, str]) -> None:
    """What was allowed while the run was there to do it is done; what was allowed after its end waits for the next."""
    task, run = at_work
    reading = Policy("read", str(scene.path), str(scene.desk(task)))
    used, parked = ToolRequest("execute", "sh", "git push;"), ToolRequest("execute", "sh", "make b;")
    assert not isinstance(begin(scene.store, task, run, used, reading, "test"), str)
    answer(scene, task, "Allow once")
    assert not isinstance(begin(scene.store, task, run, parked, reading, "test"), str)
    scene.json("stop", task, "--now", code=None)
    answer(scene, task, "Allow once")
    scene.shell("worker", "sleep 600")
    scene.json("resume", task)
    second = until(lambda: [r.id for r in scene.state(task).runs[1:] if r.state == "running"], "it runs")[0]
    assert begin(scene.store, task, second, parked, reading, "test") == "allow"
    again = begin(scene.store, task, second, used, reading, "test")
    assert not isinstance(again, str)
    assert (again.seq, again.answered) == (3, None)


def test_what_is_shown_cannot_hide_anything(scene: Scene, at_work: tuple[str, str]) -> None:
    task, run = at_work
    reading = Policy("read", str(scene.path), str(scene.desk(task)))
    asked = begin(scene.store, task, run, ToolRequest("execute", "sh", "rm x\x1b[2K\r" + "\x1b" * 900), reading, "test")
    assert not isinstance(asked, str)
    assert "rm x\\x1b[2K\\r" in asked.text
    assert asked.options[0] == "Allow once"


def test_a_very_long_request_is_still_only_itself(scene: Scene, at_work: tuple[str, str]) -> None:
    task, run = at_work
    reading = Policy("read", str(scene.path), str(scene.desk(task)))
    one, two = (ToolRequest("execute", "sh", f"echo {'x' * 5000} {end}") for end in "ab")
    assert not isinstance(begin(scene.store, task, run, one, reading, "test"), str)
    answer(scene, task, "2")
    assert begin(scene.store, task, run, one, reading, "test") == "allow"
    quoted = ToolRequest("execute", "sh", f"echo '{'x' * 5000}'")
    assert not isinstance(begin(scene.store, task, run, quoted, reading, "test"), str)
    answer(scene, task, "Allow once")
    assert begin(scene.store, task, run, two, reading, "test") == "allow"  # the pattern `execute: echo *`


def test_who_looked_before_it_was_known_to_wait_is_woken_once_more(scene: Scene, at_work: tuple[str, str]) -> None:
    """The file of its lock is there a moment before it is locked: a supervisor that looks then finds nobody waiting."""
    task, run = at_work
    current, desk, lock = scene.state(task).runs[-1], scene.store.desk_files(task, run), fcntl.flock
    place = desk.shown()
    asked = begin(scene.store, task, run, ToolRequest("execute", "sh", "make a;"), Policy("read", "/p", place), "test")
    assert not isinstance(asked, str)
    watches = Watched(scene.store)
    watches.keep(scene.state(task), current)
    with pytest.MonkeyPatch.context() as patched:

        def look_first(fd: int, how: int) -> None:
            patched.undo()
            watches.stirred()
            assert not blocked.is_asking((desk,), scene.state(task))
            lock(fd, how)

        patched.setattr(fcntl, "flock", look_first)
        waiting = permissions.Waiting(scene.store, task, run, asked)
    assert watches.stirred() == [task]
    assert blocked.is_asking((desk,), scene.state(task))
    waiting.end()
    watches.runs.drop(task)


def test_claude_is_told_in_its_own_form(scene: Scene, at_work: tuple[str, str]) -> None:
    task, run = at_work
    given_ = {"file_path": "/etc/x", "content": ""}
    permit = find_driver("claude").permit
    assert permit is not None
    asked = permit(scene.store, task, run, "Write", given_)
    assert isinstance(asked, OpenPermission)
    assert [question.seq for question in scene.state(task).open_questions] == [asked.question.seq]
    answer(scene, task, "Allow once")
    assert asked.reply(scene.state(task).questions[-1].answer) == {"behavior": "allow", "updatedInput": given_}
    assert asked.reply(None)["behavior"] == "deny"
    inside = {"file_path": str(scene.path / "a"), "content": ""}
    allowed = permit(scene.store, task, run, "Write", inside)
    assert isinstance(allowed, dict)
    assert allowed["behavior"] == "allow"
