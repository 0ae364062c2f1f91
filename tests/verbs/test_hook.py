"""The stop hook: what holds an agent back before it stops, what does not, and that no mistake of ours ever does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.testing.project import ProjectDir
from support.real_agents import output, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("hook") / "project", {"asker": ("ask:Which?", "hang")})
    project.agent("worker", "hang", control=True)
    project.agent("pauser", "print:CONTROL: PAUSE", "hang", control=True)
    try:
        yield project
    finally:
        project.cleanup()


@contextmanager
def at_work(yard: ProjectDir, *words: str, agent: str = "worker") -> Iterator[Path]:
    """The run's folder in the record, for as long as the run is at work; `desk` is its folder in the workspace."""
    told = yard.run("delegate", "Do it.", "--agent", agent, *words, "--json", check=True).json
    runs = yard.task_record(told["task_id"]) / "runs"
    try:
        yield until(lambda: [found.parent for found in runs.glob("*/stdout")], "the run")[0]
    finally:
        yard.run("stop", str(told["handle"]), "--now", check=True)


def desk(yard: ProjectDir, place: Path) -> Path:
    """Where the run of this folder leaves its return."""
    return yard.workspace(place.parents[1].name) / "runs" / place.name


def hook(yard: ProjectDir, place: Path, stdin: str = "", project: Path | None = None) -> str:
    """What the hook says to an agent that is about to stop."""
    words = [sys.executable, "-P", "-m", "overhand.verbs.hook", str(project or yard.path), str(place)]
    mine, theirs = os.pipe()
    os.write(theirs, stdin.encode())  # before it begins: it does not wait for long
    os.close(theirs)
    ran = subprocess.run(words, stdin=mine, cwd=yard.path, capture_output=True, text=True, timeout=60, check=False)
    os.close(mine)
    assert ran.returncode == 0, ran.stderr
    if not ran.stdout:
        return ""
    said = json.loads(ran.stdout)
    assert set(said) == {"decision", "reason"}  # some agents take nothing else
    assert said["decision"] == "block"
    return str(said["reason"])


def said(text: str) -> str:
    return json.dumps({"hook_event_name": "Stop", "last_assistant_message": text})


def test_everything_at_once_and_at_most_twice(yard: ProjectDir) -> None:
    with at_work(yard, "--deliverable", "never.txt") as place:
        (desk(yard, place) / "OUTPUT.md").write_text(output(files="nowhere.txt"))
        told = hook(yard, place)
        assert "never.txt was promised and does not exist" in told
        assert "nowhere.txt, which does not exist" in told
        assert str(desk(yard, place) / "OUTPUT.md") in told
        assert hook(yard, place) == told
        assert hook(yard, place) == ""


def test_a_return_that_holds_lets_it_stop(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        assert "without a return" in hook(yard, place)
        (desk(yard, place) / "OUTPUT.md").write_text(output())
        assert hook(yard, place) == ""


@pytest.mark.parametrize("status", ["partial", "blocked", "failed", "needs-input"])
def test_who_says_that_it_is_not_done_may_stop(yard: ProjectDir, status: str) -> None:
    with at_work(yard, "--deliverable", "never.txt") as place:
        (desk(yard, place) / "OUTPUT.md").write_text(output(status=status))
        assert hook(yard, place) == ""


def test_a_return_in_its_last_message_counts(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        assert hook(yard, place, said(output())) == ""
        assert hook(yard, place, json.dumps({"prompt_response": output()})) == ""
        assert hook(yard, place, said("I am done.")) != ""


def test_a_result_as_json_counts(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        (desk(yard, place) / "result.json").write_text(json.dumps({"status": "completed", "summary": "Done."}))
        assert hook(yard, place) == ""


def test_who_waits_for_an_answer_may_stop(yard: ProjectDir) -> None:
    with at_work(yard, agent="asker") as place:
        until(lambda: list((desk(yard, place).parents[1] / "ipc").glob("*.question")), "the question")
        assert hook(yard, place) == ""


def test_control_lines_that_end_a_turn_let_it_stop(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        assert hook(yard, place, said("I wait.\n\nCONTROL: PAUSE\nREASON: Which?")) == ""
        assert hook(yard, place, said("CONTROL: ESCALATE REASON: no key")) == ""
        assert hook(yard, place, said("CONTROL: CHECKPOINT REASON: half way")) != ""


def test_a_control_line_in_its_stream_lets_it_stop(yard: ProjectDir) -> None:
    with at_work(yard, agent="pauser") as place:
        until(lambda: "PAUSE" in (place / "stdout").read_text(), "its words")
        assert hook(yard, place) == ""


def test_a_run_that_was_stopped_may_stop(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        pass
    assert hook(yard, place) == ""


def test_an_output_in_the_task_folder_is_left_to_the_judge(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        top = desk(yard, place).parents[1] / "OUTPUT.md"
        top.write_text("Something.\n")
        assert hook(yard, place) == ""
        assert top.exists()
        assert not (desk(yard, place) / "OUTPUT.md").exists()


def test_who_may_only_read_is_not_told_to_write(yard: ProjectDir) -> None:
    with at_work(yard, "--read-only", "--deliverable", "never.txt") as place:
        (desk(yard, place) / "OUTPUT.md").write_text(output())
        assert hook(yard, place) == ""


def test_no_mistake_of_ours_holds_anybody_back(yard: ProjectDir) -> None:
    with at_work(yard) as place:
        assert hook(yard, place, project=Path("/nowhere")) == ""
        assert hook(yard, place / "no" / "run") == ""
        (desk(yard, place) / "held").symlink_to(place / "spec.json")  # where it counts there is something else
        assert hook(yard, place) == ""
        (place / "spec.json").rename(place / "kept.json")
        (place / "spec.json").write_text("{")
        assert hook(yard, place) == ""
        (place / "kept.json").rename(place / "spec.json")
