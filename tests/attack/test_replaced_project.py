"""Another folder lies where a known project was: its tasks are kept, and nothing starts in it without a person."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.items import AT, House
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

TYPED = "# Fix Request: The map\n\n**Tags**: #delegated-fix\n\n## What\nAttacker text.\n"


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    house = House(overhand_project)
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")


def replace(house: House) -> None:
    """Move the project away, and put another one of the same user in its place."""
    house.kill_supervisor()
    os.rename(house.path, house.path.with_name("away"))
    (house.path / ".overhand").mkdir(parents=True)
    house.shell("worker", QUICK)
    house.trusted()


def test_it_is_said_once_and_queued_tasks_wait_for_a_person(house: House) -> None:
    house.shell("worker", QUICK)
    task = house.accepted("Queued in the folder that was here before")
    replace(house)
    told = [house.project.run("list").err for _ in range(2)]
    assert ["was replaced" in text for text in told] == [True, False]
    later = house.delegate("Asked for afterwards")
    assert house.judged(later).status == "completed"
    assert (house.starts(task), house.state(task).queued) == (0, True)
    (row,) = [row for row in house.json("list")["tasks"] if row["task_id"] == task]
    assert "this folder was replaced" in row["reason"], row
    house.json("run", task)
    assert house.judged(task).status == "completed"
    assert house.starts(task) == 1


def test_tags_that_came_with_it_wait_for_a_person(house: House) -> None:
    house.settings("approve_without_terminal = true\n[limits]\ndebounce = '0.2s'\n")
    house.shell("worker", QUICK)
    house.delegate()
    replace(house)
    house.write(AT, TYPED)
    house.json("daemon", "start")
    until(lambda: "came with the project's files" in house.waits().get(f"{AT}#fix", ""), "a look at the tag")
    assert house.items() == []
    house.json("daemon", "stop")
