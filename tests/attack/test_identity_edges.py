"""A project and its record part: moved while a run lives, deleted, cleaned, on a disk that cannot be used."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.items import House
from support.scene import QUICK, until
from support.warm import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    house = House(overhand_project)
    house.shell("worker", QUICK)
    house.shell("long", f"until [ -e go ]; do sleep 0.05; done; {QUICK}")
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")


def at(house: House, path: Path) -> House:
    """The same user in another folder."""
    return House(Project(path, house.project.config_home, trust=False, state_home=house.project.state_home))


def test_moved_while_a_run_lives(house: House) -> None:
    """The record follows, another supervisor takes over, and what is asked for at the new path runs there."""
    task = house.delegate("long", "--agent", "long")
    until(lambda: house.starts(task) == 1, "the agent at work")  # behind its shield, which needs the old path
    before, record = house.supervisor(), house.project.record
    os.rename(house.path, house.path.with_name("moved"))
    moved = at(house, house.path.with_name("moved"))
    told = moved.project.run("list")
    assert f"This project was moved here from {house.path}; its tasks came along. 1 run still works" in told.err
    (row,) = moved.json("list")["tasks"]
    assert (row["task_id"], row["headline"], moved.project.record) == (task, "working", record)
    later = moved.delegate("at the new path")
    assert moved.judged(later).status == "completed", moved.state(later).summary
    assert moved.supervisor() not in (None, before)
    (moved.path / "go").touch()
    moved.judged(task)
    assert (moved.starts(later), len(moved.state(task).runs)) == (1, 1)
    until(moved.is_quiet, f"no process left of {moved.path}; now {moved.left()}")


@pytest.mark.parametrize("left", ["a supervisor", "a run", "nothing"])
def test_the_record_of_a_deleted_project_goes_when_its_last_process_has_ended(house: House, left: str) -> None:
    go = house.path.parent / "go"
    house.shell("long", f"until [ -e {go} ]; do sleep 0.05; done")
    task = house.delegate("long", "--agent", "long")
    until(lambda: house.starts(task) == 1, "the agent at work")  # it needs the folder until then
    record = house.project.record
    if left != "a supervisor":
        house.kill_supervisor()
    if left == "nothing":
        go.touch()
        until(lambda: not house.agents_left(), "the end of its run")
    shutil.rmtree(house.path)
    elsewhere = at(house, house.path.parent)
    ran = elsewhere.project.run("clean", "--gone", "--yes")
    assert ran.code == 0
    assert record.exists() == (left != "nothing")
    assert ("still at work" in ran.err) == (left != "nothing"), ran
    go.touch()
    until(lambda: not house.agents_left(), "the end of its run")


def test_a_lost_state_folder_leaves_documents(house: House) -> None:
    task = house.delegate("Done before the loss")
    house.judged(task)
    house.kill_supervisor()
    shutil.rmtree(house.project.record)
    assert house.json("list")["tasks"] == []
    assert [row["task_id"] for row in house.json("list", "--prepared")["tasks"]] == [task]
    assert house.starts(task) == 1
    assert house.judged(house.delegate("Anew")).status == "completed"


def test_tracked_workspaces_are_named_by_the_first_verb_and_by_doctor(house: House) -> None:
    git = ["git", "-C", str(house.path), "-c", "user.name=x", "-c", "user.email=x@x"]
    house.write(".agent-workspaces/x-20260101-000000/HANDOFF.md", "# Task Handoff\n\n## Task\nx\n")
    for words in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    assert (
        "git tracks 1 files in .agent-workspaces"
        in house.project.run("delegate", "x", "--agent", "worker", "--no-start").err
    )
    assert "git tracks" not in house.project.run("delegate", "y", "--agent", "worker", "--no-start").err, "once"
    assert "tracked" in [one["code"] for one in house.json("doctor", code=1)["findings"]]


def test_a_record_of_the_old_layout_is_left_alone_and_named(house: House) -> None:
    house.write(".agent-workspaces/.supervisor/handles", "1 x-20260101-000000\n")
    found = {one["code"]: one for one in house.json("doctor", code=None)["findings"]}
    assert found["old-layout"]["next"] == "overhand list --prepared"
    assert house.json("list")["tasks"] == []
    assert house.read(".agent-workspaces/.supervisor/handles") == "1 x-20260101-000000\n"


def test_both_places_of_a_task(house: House) -> None:
    task = house.delegate("x", "--no-start")
    places = [str(house.project.workspace(task)), str(house.project.task_record(task))]
    assert house.project.run("show", task, "--path").out.splitlines() == places
    found = house.json("show", task, "--path")
    assert [found["workspace"], found["record"]] == places
    house.write(".agent-workspaces/by-hand-20260101-000000/HANDOFF.md", "# Task Handoff\n\n## Task\nx\n")
    assert house.json("show", "by-hand-20260101-000000", "--path")["record"] is None
