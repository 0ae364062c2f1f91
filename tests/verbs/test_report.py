"""`show --report` and `runs/<run>/report.*`: what a run did, in one screen and as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand import Project
from overhand.testing.project import ProjectDir
from support.warm import make_project
from verbs.test_checkpoint import compare

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {
    "schema", "task_id", "handle", "run_id", "agent", "cause", "commands", "deliverables", "checks", "handoff",
    "checkpoint", "state", "verification", "verified", "proof", "usage", "seconds",
}  # fmt: skip


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """Tasks that ended in different ways."""
    project = make_project(tmp_path_factory.mktemp("office") / "project")
    said = "CONTROL: CHECKPOINT REASON: Half way\\nCONTROL: DELEGATE nobody REASON: Help me\\n"
    project.agent("worker", f"print:{said}", "file:a.txt=hi", "output", control=True)
    project.agent("loser", "exit:3")
    project.agent("asker", "print:CONTROL: PAUSE REASON: Which database?", control=True)
    checks = ("--verify", "test -s a.txt", "--deliverable", "a.txt", "--deliverable", "A short note")
    project.run("delegate", "Write a.txt", "--agent", "worker", *checks, "--wait")
    project.run("delegate", "Write b.txt", "--agent", "loser", "--verify", "false", "--deliverable", "b.txt", "--wait")
    project.run("delegate", "Move the data", "--agent", "asker", "--wait")
    project.run("delegate", "Perhaps later", "--agent", "worker", "--no-start")
    try:
        yield project
    finally:
        project.cleanup()


@pytest.mark.parametrize(("task", "name"), [("1", "completed"), ("2", "failed"), ("3", "needs-input"), ("4", "none")])
def test_texts(office: ProjectDir, task: str, name: str) -> None:
    compare(f"report-{name}", office.run("show", task, "--report"), office)


@pytest.mark.parametrize("task", ["1", "2", "3"])
def test_the_files_say_the_same(office: ProjectDir, task: str) -> None:
    shown = office.run("show", task, "--report", "--json", check=True).json
    assert set(shown) >= KEYS
    place = office.task_record(shown["task_id"]) / "runs" / shown["run_id"]
    kept = json.loads((place / "report.json").read_text())
    assert kept == {key: shown[key] for key in kept}
    assert set(kept) == KEYS
    assert (place / "report.md").read_text() == shown["text"] + "\n"


def test_the_report_of_the_last_verdict_while_the_next_run_is_at_work(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", {"worker": ("exit:3",), "busy": ("touch:up", "until:go", "output")})
    try:
        project.run("delegate", "Write b.txt", "--agent", "worker", "--deliverable", "b.txt", "--wait")
        first = project.run("show", "1", "--report", "--json", check=True).json
        project.run("resume", "1", "--agent", "busy", check=True)
        again = project.run("show", "1", "--report", "--json")
        assert again.code == 0, again.err
        assert {key: again.json[key] for key in KEYS} == {key: first[key] for key in KEYS}
        (project.path / "go").touch()
        project.run("wait", "1")
        assert project.run("show", "1", "--report", "--json", check=True).json["run_id"] != first["run_id"]
    finally:
        project.cleanup()


def test_a_function_has_a_report_when_somebody_asks(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    with Project(folder) as opened:

        @opened.agent("adder")
        def adder(call: object) -> dict[str, str]:
            return {"status": "completed", "summary": "Added."}

        assert opened.delegate("Add it up", agent="adder").wait().status == "completed"
    project = ProjectDir(folder, tmp_path / "config", trust=False, state_home=Path(os.environ["XDG_STATE_HOME"]))
    shown = project.run("show", "1", "--report", "--json", check=True).json
    assert (shown["agent"], shown["state"]["to"]) == ("adder", "completed")
    assert project.run("show", "1", "--report").out.startswith("# Report: run sess_")
