"""`--require`: a script asks for a word of verification, and hears by the exit status whether a result has it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

CHECK = ("--verify", "grep -q new app.txt")


@pytest.fixture
def project(overhand_project: ProjectDir) -> ProjectDir:
    """Two agents in a repository: one turns the check green, the other leaves it green."""
    (overhand_project.path / "app.txt").write_text("old\n")
    git = ("git", "-C", str(overhand_project.path), "-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (("init", "-q"), ("add", "app.txt"), ("commit", "-qm", "begin")):
        subprocess.run([*git, *words], check=True)
    overhand_project.agent("turner", "file:app.txt=new", "output")
    overhand_project.agent("keeper", "file:app.txt=new again", "output")
    return overhand_project


def test_a_proved_result_is_enough_and_a_passing_one_is_not(project: ProjectDir) -> None:
    first = project.run("delegate", "Turn it", "--agent", "turner", *CHECK, "--wait", "--require", "proved", "--json")
    assert (first.code, first.json["verification"]) == (0, "proved")
    assert (first.json["required"], first.json["unmet"]) == ("proved", [])
    second = project.run("delegate", "Keep it", "--agent", "keeper", *CHECK, "--wait", "--require=proved")
    told = "Task 2: PASSES, but --require proved asks for VERIFIED: "
    assert (second.code, second.out.splitlines()[-1].startswith(told)) == (1, True)
    assert project.run("wait", "2").code == 0, "without it, completed is enough"
    assert project.run("wait", "1", "2", "--require", "passing").code == 0
    both = project.run("wait", "1", "2", "--require", "proved", "--json")
    assert (both.code, [one[: len(told)] for one in both.json["unmet"]]) == (1, [told])


def test_checks_that_run_again_are_asked_too(project: ProjectDir) -> None:
    project.run("delegate", "Turn it", "--agent", "turner", *CHECK, "--wait", check=True)
    assert project.run("check", "1", "--require", "proved").code == 0
    (project.path / "app.txt").write_text("old\n")
    again = project.run("check", "1", "--require", "passing")
    assert (again.code, "FAILING, but --require passing asks for PASSES" in again.out) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["delegate", "Turn it", "--agent", "turner", "--require", "proved"], "Add --wait"),
        (["check", "app.txt", "--require", "proved"], "about a task"),
        (["wait", "1", "--require", "green"], "passing, proved"),
    ],
)
def test_what_cannot_be_required_is_refused(project: ProjectDir, words: list[str], told: str) -> None:
    ran = project.run(*words)
    assert (ran.code, told in ran.err) == (2, True), ran.err


def test_a_check_that_turned_red_is_red_for_those_who_wait(project: ProjectDir) -> None:
    project.run("delegate", "Turn it", "--agent", "turner", *CHECK, "--wait", check=True)
    (project.path / "app.txt").write_text("old\n")
    assert (project.run("check", "1").code, project.run("wait", "1").code) == (1, 1)
    (project.path / "app.txt").write_text("new\n")
    assert (project.run("check", "1").code, project.run("wait", "1").code) == (0, 0)
