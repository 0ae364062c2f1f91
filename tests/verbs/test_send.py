"""A message reaches its agent once: into its run, with its next turn, or in a new run of the same session."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand import Project, Result, Task
from overhand.errors import BadInput
from overhand.record import RunNeverBegan, Store, read_log
from support import player
from support.scene import until

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir


@pytest.fixture
def bench(overhand_project: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = player.put(tmp_path / "bin", "claude", "codex")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def show(project: ProjectDir, handle: str = "1") -> dict[str, Any]:
    return dict(project.run("show", handle, "--json", check=True).json)


def test_from_python(overhand_project: ProjectDir, bench: Path) -> None:
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path) as project:
        task = project.delegate("First", agent="claude")
        assert task.wait().ok
        sent = task.send("use tabs")
        assert (sent["how"], sent["reason"]) == ("in a new run", None)
        assert asyncio.run(_awaited(task)).summary == "Told: use tabs"
        project.send(task.handle or 0, "and spaces")
        result = task.wait()
        assert (result.summary, len(result.runs)) == ("Told: and spaces", 3)
        assert [one["state"] for one in result.json["messages"]] == ["read", "read"]
        with pytest.raises(BadInput):
            task.send("  ")
    assert len({row["session"] for row in player.trail(bench)}) == 1


async def _awaited(task: Task) -> Result:
    return await task


def test_behind_another_writer_the_reason_is_told(overhand_project: ProjectDir, bench: Path) -> None:
    project = overhand_project
    project.run("delegate", "First", "--agent", "claude", "--wait", check=True)
    (bench / "hold").touch()
    project.run("delegate", "Second", "--agent", "codex", check=True)
    until(lambda: show(project, "2")["run_state"] == "running", "it is at work")
    why = "Task 2 (codex) is at work in this checkout; agents that write there go one at a time."
    third = project.run("delegate", "Third", "--agent", "claude", check=True).out
    assert f"waits: {why}" in third
    assert f"waits  {why}" in project.run("show", "3", check=True).out
    sent = project.run("send", "1", "use tabs", "--json", check=True).json
    assert (sent["reason"], sent["state"]) == (why, "queued")
    assert "as soon as it may" in sent["message"]
    beside = project.run("delegate", "Fourth", "--agent", "claude", "--read-only", check=True).out
    assert "waits:" not in beside
    (bench / "hold").unlink()
    project.run("wait", "1", "2", "3", "4", check=True)


def test_what_it_says_and_does_is_told_in_words(overhand_project: ProjectDir, bench: Path) -> None:
    project = overhand_project
    (bench / "hold").touch()
    project.run("delegate", "First", "--agent", "claude", check=True)
    until(lambda: show(project)["lately"] == "I am at it.", "it says so")
    assert "just now  I am at it." in project.run("show", "1", check=True).out
    assert "I am at it." in project.run(check=True).out
    following = project.start("log", "-f", "1")
    (bench / "hold").unlink()
    out, _ = following.communicate(timeout=40)
    assert "      I am at it.\n" in out
    assert "{" not in out, "no JSON"
    told = [json.loads(line) for line in project.run("log", "1", "--json", check=True).out.splitlines()]
    said = [row["text"] for row in told if row["e"] == "said"]
    assert said == ["I am at it."]
    raw = project.run("log", "1", "-o", check=True).out
    assert '{"type": "assistant"' in raw
    assert show(project)["lately"] == ""


def test_to_a_finished_agent_a_new_run_in_its_session(overhand_project: ProjectDir, bench: Path) -> None:
    project = overhand_project
    project.run("delegate", "First", "--agent", "claude", "--wait", check=True)
    folder = project.path / show(project)["folder"]
    first = (folder / "OUTPUT.md").read_text()
    sent = project.run("send", "1", "use", "tabs", "--json", check=True).json
    assert (sent["n"], sent["state"], sent["how"]) == (1, "queued", "in a new run")
    project.run("wait", "1", check=True)
    shown = show(project)
    assert (shown["status"], shown["summary"], len(shown["runs"])) == ("completed", "Told: use tabs", 2)
    one, two = player.trail(bench)
    assert (two["resumed"], two["session"]) == (True, one["session"])
    assert "## A message from the person\n\nuse tabs" in two["prompt"]
    assert "## How to return" in two["prompt"]
    assert shown["messages"][0]["state"] == "read"
    assert (folder / "runs" / shown["runs"][0]["id"] / "OUTPUT.md").read_text() == first, "kept with its run"
    assert "message  1 read: use tabs" in project.run("show", "1", check=True).out


def test_to_a_running_agent_with_its_next_turn(overhand_project: ProjectDir, bench: Path) -> None:
    project = overhand_project
    (bench / "hold").touch()
    project.run("delegate", "First", "--agent", "codex", check=True)
    until(lambda: player.trail(bench), "the agent at work")
    for text in ("one", "two"):
        sent = project.run("send", "1", text, "--json", check=True).json
        assert (sent["how"], sent["state"]) == ("when its run ends", "queued")
    assert "takes no message at work" in sent["message"]
    assert [one["state"] for one in show(project)["messages"]] == ["queued", "queued"]
    (bench / "hold").unlink()
    project.run("wait", "1", check=True)
    shown = show(project)
    assert [run["status"] for run in shown["runs"]] == ["completed", "completed"]
    assert [(one["state"], one["run"]) for one in shown["messages"]] == [("read", shown["runs"][1]["id"])] * 2
    first, second = player.trail(bench)
    assert second["session"] == first["session"]
    assert second["prompt"].count("## A message from the person") == 2


def test_to_a_queued_task_with_its_first_run(overhand_project: ProjectDir, bench: Path) -> None:
    project = overhand_project
    project.run("delegate", "First", "--agent", "claude", "--no-start", check=True)
    assert project.run("send", "1", "mind the gap", "--json", check=True).json["how"] == "with its next run"
    project.run("run", "1", "--wait", check=True)
    assert show(project)["summary"] == "Told: mind the gap"


def test_a_long_message_from_a_file(overhand_project: ProjectDir, bench: Path, tmp_path: Path) -> None:
    project = overhand_project
    project.run("delegate", "First", "--agent", "claude", "--wait", check=True)
    text = "line of a review\n" * 1000
    (tmp_path / "review.md").write_text(text)
    project.run("send", "1", "--file", str(tmp_path / "review.md"), check=True)
    project.run("wait", "1", check=True)
    assert text.strip() in player.trail(bench)[1]["prompt"]
    lines = Path(show(project)["record"], "log.jsonl").read_bytes().splitlines()
    assert max(map(len, lines)) < 4096


def test_a_command_that_listens_finds_it_in_its_ipc_folder(overhand_project: ProjectDir) -> None:
    script = 'cd "$OVERHAND_WORKSPACE/ipc"; until [ -e 001.answer ]; do sleep 0.05; done; cat 001.answer; '
    script += "printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nHeard.\\n' >\"$OVERHAND_OUTPUT\""
    overhand_project.agent("listener", command=["/bin/sh", "-c", script], control=True)
    overhand_project.run("delegate", "Listen", "--agent", "listener", check=True)
    until(lambda: show(overhand_project)["run_state"] == "running", "it runs")
    sent = overhand_project.run("send", "1", "hello", "--json", check=True).json
    assert (sent["how"], sent["state"]) == ("into its run", "delivered")
    overhand_project.run("wait", "1", check=True)
    shown = show(overhand_project)
    assert (shown["summary"], len(shown["runs"]), shown["messages"][0]["state"]) == ("Heard.", 1, "delivered")
    stdout = (overhand_project.path / shown["run_folder"] / "stdout").read_text()
    assert json.loads(stdout)["answer"] == "hello"


def test_exactly_once_however_the_supervisor_dies(overhand_project: ProjectDir, bench: Path) -> None:
    from overhand.supervisor import running_supervisor

    project, store = overhand_project, Store(str(overhand_project.path))
    (bench / "hold").touch()
    project.run("delegate", "First", "--agent", "claude", check=True)
    until(lambda: player.trail(bench), "the agent at work")
    project.run("send", "1", "xyzzy", check=True)
    os.kill(until(lambda: running_supervisor(store), "a supervisor"), 9)
    (bench / "hold").unlink()
    project.run("wait", "1", check=True)
    told = [row["prompt"].count("xyzzy") for row in player.trail(bench)]
    assert told == [0, 1]
    events = read_log(store.record(show(project)["task_id"]))
    assert [event["messages"] for event in events if event.get("messages")] == [[1]]


def test_a_run_that_never_began_has_not_read_it() -> None:
    from overhand.record import fold
    from overhand.record.events import add

    events: list[dict[str, Any]] = [
        {"e": "created", "t": "t0", "title": "x", "agent": "claude"},
        {"e": "accepted", "t": "t1"},
        {"e": "message", "t": "t2", "text": "hello"},
        {"e": "run.created", "t": "t3", "run": "sess_1_aaaaaa", "messages": [1]},
    ]
    task = fold("x", events)
    assert (task.pending_messages, task.messages[0].run) == ([], "sess_1_aaaaaa")
    add(task, RunNeverBegan(run="sess_1_aaaaaa"))
    assert [one.n for one in task.pending_messages] == [1]


def test_what_is_stopped_keeps_it(overhand_project: ProjectDir, bench: Path) -> None:
    project = overhand_project
    (bench / "hold").touch()
    project.run("delegate", "First", "--agent", "claude", check=True)
    until(lambda: player.trail(bench), "the agent at work")
    project.run("send", "1", "later", check=True)
    project.run("stop", "1", "--now", check=True)
    shown = show(project)
    assert (shown["status"], shown["messages"][0]["state"]) == ("cancelled", "queued")
    (bench / "hold").unlink()
    project.run("resume", "1", "--wait", check=True)
    assert show(project)["summary"] == "Told: later"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["1"], 2, "Send what?"),
        (["1", "x", "--file", "y"], 2, "Words and --file at once"),
        (["1", "  "], 2, "The message is empty."),
        (["1", "x" * 100_001], 2, "100001 characters"),
        (["1", "--file", "not-there"], 4, "There is no file"),
        (["9", "x"], 4, ""),
        (["2", "x"], 3, "waits for an answer"),
    ],
)
def test_refused(overhand_project: ProjectDir, words: list[str], code: int, part: str) -> None:
    overhand_project.agent("asker", "output:status=needs-input")
    overhand_project.run("delegate", "First", "--agent", "worker", "--wait", check=True)
    overhand_project.run("delegate", "Second", "--agent", "asker", "--wait")
    ran = overhand_project.run("send", *words)
    assert (ran.code, part in ran.err) == (code, True), ran.err
    assert all(not show(overhand_project, handle)["messages"] for handle in ("1", "2"))


def test_a_run_may_not_send_to_somebody_elses_task(overhand_project: ProjectDir) -> None:
    script = 'python3 -m overhand send 1 "do something else" || echo "refused $?"; true'
    overhand_project.agent("sly", command=["/bin/sh", "-c", script.replace("python3", sys.executable)])
    overhand_project.run("delegate", "First", "--agent", "worker", "--wait", check=True)
    overhand_project.run("delegate", "Second", "--agent", "sly", "--wait")
    assert not show(overhand_project)["messages"]
    place = overhand_project.path / show(overhand_project, "2")["run_folder"]
    assert "refused 3" in (place / "stdout").read_text()
