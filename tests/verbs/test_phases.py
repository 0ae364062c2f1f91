"""`step --phase`: legal and illegal moves by a person and by a run, and what is said of them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from cli.test_text import compare
from overhand.record import read_log
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

ROUND = ("IDENTIFY", "DOCUMENT", "SOLVE")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ProjectDir]:
    """One task that is prepared."""
    project = make_project(tmp_path / "project")
    project.run("delegate", "Find the leak", "--agent", "worker", "--no-start", check=True)
    try:
        yield project
    finally:
        project.cleanup()


def go(project: ProjectDir, *phases: str) -> None:
    for phase in phases:
        project.run("step", "1", "--phase", phase, check=True)


def events(project: ProjectDir) -> list[dict[str, object]]:
    (folder,) = project.record.glob("tasks/worker-*")
    return read_log(str(folder))


def test_texts(project: ProjectDir) -> None:
    compare("error-phase-first", project.run("step", "1", "--phase", "solve"), project)
    compare("step-phase", project.run("step", "1", "--phase", "initiate"), project)
    go(project, *ROUND)
    compare("error-phase", project.run("step", "1", "--phase", "TEST"), project)
    compare("error-phase-unknown", project.run("step", "1", "--phase", "THINK"), project)
    compare("step-phase-back", project.run("step", "1", "--phase", "misidentified_issue"), project)
    compare("step-phase-checkpoint", project.run("step", "1", "--phase", "CHECKPOINT", "--reason", "Lunch"), project)
    compare("error-phase-aside", project.run("step", "1", "--phase", "CODE"), project)
    go(project, "IDENTIFY")
    compare("step-phase-escalated", project.run("step", "1", "--phase", "ESCALATED", "--reason", "Stuck"), project)


def test_the_whole_way_and_no_further(project: ProjectDir) -> None:
    go(project, "INITIATE", *ROUND, "CODE", "DEPLOY", "TEST", "VALIDATE", "COMPLETE")
    ran = project.run("step", "1", "--phase", "CODE", "--json")
    assert (ran.code, ran.json["error"]["legal"]) == (3, [])
    assert len([e for e in events(project) if e["e"] == "phase"]) == 9


def test_a_refused_move_leaves_no_trace(project: ProjectDir) -> None:
    before = events(project)
    for phase in ("CODE", "", " ", "initiate\n x", "x" * 9000, "\x1b[2J", "--json", "COMPLETE"):
        ran = project.run("step", "1", f"--phase={phase}")
        assert ran.code in (2, 3), phase
        assert "\x1b" not in ran.err
        assert "Traceback" not in ran.err
    assert events(project) == before


def test_to_step_aside_and_back_is_no_round(project: ProjectDir) -> None:
    go(project, "INITIATE", "IDENTIFY", "CHECKPOINT", "SUSPENDED", "IDENTIFY")
    ran = project.run("step", "1", "--phase", "DOCUMENT", "--json")
    assert (ran.json["warnings"], ran.json["iteration"]) == ([], 1)


def test_the_sixth_round_warns_and_the_tenth_is_for_a_person(project: ProjectDir) -> None:
    go(project, "INITIATE", *ROUND)
    for number in range(2, 10):
        told = project.run("step", "1", "--phase", "IDENTIFY", "--json", check=True).json
        assert (told["iteration"], told["escalated"]) == (number, False)
        assert any(f"Iteration {number}" in w for w in told["warnings"]) == (number > 5)
        go(project, "DOCUMENT", "SOLVE")
    told = project.run("step", "1", "--phase", "IDENTIFY", "--json", check=True).json
    assert (told["phase"], told["escalated"]) == ("ESCALATED", True)
    assert told["checkpoint"].startswith("ckpt_find_the_leak")
    assert project.run("step", "1", "--phase", "SOLVE", "--json", check=True).json["phase"] == "SOLVE"


def test_a_run_moves_its_own_task_only(project: ProjectDir) -> None:
    script = (
        """$OVERHAND step --phase INITIATE --json >own.json; $OVERHAND step 1 --phase INITIATE --json >other.json"""
    )
    command = ["/bin/sh", "-c", f"OVERHAND='{sys.executable} -m overhand'; {script}"]
    project.agent("inside", command=command)
    project.run("delegate", "Go through it", "--agent", "inside", "--wait")
    assert json.loads((project.path / "own.json").read_text())["handle"] == 2
    assert json.loads((project.path / "other.json").read_text())["error"]["code"] == "REFUSED"
    assert not [e for e in events(project) if e["e"] == "phase"]
