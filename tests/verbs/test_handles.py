"""People never type an id: a number, a part of the title, or `-`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from support.scene import Scene, kill
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

TITLES = ("Fix the login page", "Fix the logout page", "Überprüfe Straße №5", "Write docs")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """Four prepared tasks."""
    project = make_project(tmp_path_factory.mktemp("shelf") / "project")
    for title in TITLES:
        project.run("delegate", title, "--no-start", check=True)
    try:
        yield project
    finally:
        project.cleanup()


@pytest.mark.parametrize(
    ("handle", "number"),
    [
        ("1", 1),
        ("01", 1),
        ("-", 4),
        ("login", 1),
        ("Fix the login page", 1),
        ("fix-the-logout", 2),
        ("STRASSE", None),
        ("straße", 3),
        ("überprüfe", 3),
        ("docs", 4),
    ],
)
def test_found(shelf: ProjectDir, handle: str, number: int | None) -> None:
    ran = shelf.run("show", handle, "--json")
    if number is None:
        assert ran.json["error"]["code"] == "TASK_NOT_FOUND"
    else:
        assert (ran.code, ran.json["handle"], ran.json["title"]) == (0, number, TITLES[number - 1])
        assert shelf.run("show", ran.json["task_id"], "--json").json["handle"] == number


def test_an_ambiguous_part_names_the_candidates(shelf: ProjectDir) -> None:
    ran = shelf.run("show", "fix")
    assert ran.code == 2
    assert "fits 2 tasks: 1 (Fix the login page), 2 (Fix the logout page)" in ran.err


HOSTILE = ("../x", "..", ".", "/etc/passwd", "", " ", "9", "0", "9" * 40, "\x1b[31m", ".supervisor", "a\nb", "٣", "*")


@pytest.mark.parametrize(
    ("verb", "handle"),
    [*(("show", handle) for handle in HOSTILE), *((verb, "../x") for verb in ("log", "run", "stop", "wait"))],
)
def test_hostile_handles_find_nothing(shelf: ProjectDir, verb: str, handle: str) -> None:
    ran = shelf.run(verb, "--json", "--", handle)
    assert (ran.code, ran.json["error"]["code"]) == (4, "TASK_NOT_FOUND")
    assert ran.json["error"]["hint"]
    assert ran.err == ""


def test_a_title_without_letters_is_not_found_by_nothing(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "!!!", "--no-start", check=True)
    assert overhand_project.run("show", "").code == 4
    assert overhand_project.run("show", "1").code == 0


@pytest.mark.parametrize("verb", ["show", "log", "run", "stop", "wait", "check"])
def test_no_task_yet(overhand_project: ProjectDir, verb: str) -> None:
    ran = overhand_project.run(verb, "-", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "TASK_NOT_FOUND")
    assert "overhand delegate" in ran.json["error"]["hint"]


def test_a_number_is_never_used_again(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "output:status=failed")
    for _ in range(2):
        overhand_project.run("delegate", "Try", "--wait")
    overhand_project.run("dismiss", "1", "2", check=True)
    removed = overhand_project.run("clean", "--older", "0s", "--yes", "--json").json
    assert len(removed["removed"]) == 2
    assert os.listdir(overhand_project.record / "tasks") == []
    assert overhand_project.run("show", "2").code == 4
    assert overhand_project.run("delegate", "Try", "--no-start", "--json").json["handle"] == 3
    assert overhand_project.run("show", "-", "--json").json["handle"] == 3


def test_the_last_one_after_cleaning_is_the_last_that_is_there(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Stays", "--no-start", check=True)
    overhand_project.agent("worker", "output:status=failed")
    overhand_project.run("delegate", "Goes", "--wait")
    overhand_project.run("dismiss", "-", check=True)
    overhand_project.run("clean", "--older", "0s", "--yes", check=True)
    assert overhand_project.run("show", "-", "--json").json["title"] == "Stays"


def test_numbers_survive_the_loss_of_their_file(overhand_project: ProjectDir) -> None:
    for title in ("One", "Two"):
        overhand_project.run("delegate", title, "--no-start", check=True)
    (overhand_project.record / "handles").unlink()
    assert overhand_project.run("show", "1", "--json").json["title"] == "One"
    assert overhand_project.run("delegate", "Three", "--no-start", "--json").json["handle"] == 3


def test_clean_keeps_what_nobody_has_seen(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Done", "--wait", check=True)
    overhand_project.run("delegate", "Prepared", "--no-start", check=True)
    shown = overhand_project.run("clean", "--older", "0s", "--yes", "--json").json
    assert (shown["removed"], shown["kept"]) == ([], 1)
    assert len(overhand_project.run("list", "--json").json["tasks"]) == 2


def test_clean_only_says_what_would_go(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "output:status=failed")
    overhand_project.run("delegate", "Try", "--wait")
    overhand_project.run("dismiss", "1", check=True)
    assert "0 would be removed" in overhand_project.run("clean", "--dry-run", check=True).out, "younger than 7 days"
    assert "1 would be removed" in overhand_project.run("clean", "--dry-run", "--older", "0s", check=True).out
    ran = overhand_project.run("clean", "--older", "0s")
    assert (ran.code, "--yes" in ran.err) == (2, True)
    assert overhand_project.run("show", "1").code == 0


def test_clean_waits_for_what_was_left_behind_and_for_no_shim(overhand_project: ProjectDir) -> None:
    """A shim stays as long as somebody is left, and may be kept from leaving for a moment after that."""
    scene = Scene(overhand_project)
    scene.agent("messy", "spawn:child", "output:status=failed")
    task = scene.delegate("Leave somebody", "--agent", "messy")
    scene.json("wait", task, code=1)
    scene.json("dismiss", task)
    (stray,), shim = scene.strays(task), scene.pid(task, "shim")
    assert scene.json("clean", "--older", "0s", "--yes")["removed"] == []
    os.kill(shim, signal.SIGSTOP)
    try:
        kill(stray)
        assert scene.json("clean", "--older", "0s", "--yes")["removed"] == [task]
    finally:
        kill(shim)


def test_a_number_whose_task_was_never_made_is_passed_over(overhand_project: ProjectDir) -> None:
    """As after a kill in the middle of a fan-out: numbered, with a folder, and nothing in it."""
    overhand_project.run("delegate", "Made", "--no-start", check=True)
    overhand_project.workspace("worker-20260102-030405").mkdir()
    overhand_project.task_record("worker-20260102-030405").mkdir()
    with open(overhand_project.record / "handles", "a", encoding="ascii") as handles:
        handles.write("2 worker-20260102-030405\n")
    assert overhand_project.run("show", "-", "--json").json["handle"] == 1
    assert overhand_project.run("show", "2", "--json").code == 4
    assert overhand_project.run("delegate", "Next", "--no-start", "--json", check=True).json["handle"] == 3
