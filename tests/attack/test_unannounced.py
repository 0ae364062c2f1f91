"""A queued task runs although the process that queued it was killed before it could tell the supervisor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.record import Accepted
from overhand.supervisor.queue import Unannounced
from support.items import AT, House
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir
    from support.scene import Scene

BY = {"kind": "person", "via": "test"}


@pytest.fixture
def busy(scene: Scene) -> Iterator[Scene]:
    """A supervisor that does not leave: it has a run to watch."""
    scene.shell("waiter", f"until [ -e go ]; do sleep 0.05; done; {QUICK}")
    scene.shell("worker", QUICK)
    task = scene.delegate("wait", "--agent", "waiter")
    scene.running(task)
    yield scene
    (scene.path / "go").touch()
    scene.judged(task)


def test_a_new_task_is_found_by_the_supervisor_itself(busy: Scene) -> None:
    task = busy.accepted()
    assert busy.judged(task).status == "completed"
    assert busy.starts(task) == 1


@pytest.mark.parametrize("verb", [("list",), ("show", "{}"), ("wait", "{}"), ("--all",), ()])
def test_any_look_at_a_task_that_was_queued_again_hands_it_over(busy: Scene, verb: tuple[str, ...]) -> None:
    task = busy.delegate()
    busy.judged(task)
    with busy.store.lock(task, BY) as locked:
        locked.append(Accepted(), sync=True)
    busy.project.run(*(word.format(task) for word in verb), "--json", check=True)
    until(lambda: busy.state(task).status == "completed" and len(busy.state(task).runs) == 2, "its second run")
    assert busy.starts(task) == 2


def test_an_approval_that_a_list_completes_is_handed_over(overhand_project: ProjectDir) -> None:
    house = House(overhand_project)
    house.settings("approve_without_terminal = true\n")
    house.shell("waiter", f"until [ -e go ]; do sleep 0.05; done; {QUICK}")
    house.shell("worker", QUICK)
    house.project.config('default_agent = "worker"\n')
    house.write()
    waiting = house.delegate("wait", "--agent", "waiter")
    house.running(waiting)
    assert house.kill_at(99, "record", f"{AT}#fix")
    house.json("item", "list")
    (task,) = house.items()
    assert house.judged(task).status == "completed"
    (house.path / "go").touch()
    house.judged(waiting)
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")


def test_a_folder_whose_log_comes_later_is_not_overlooked(scene: Scene) -> None:
    store = scene.store
    store.ensure()
    found = Unannounced(store)
    assert found.look() == []
    folder = _folder(scene, "worker-20260101-000000")
    assert found.look() == []
    (folder / "log.jsonl").write_text('{"e":"created"}\n')
    assert found.look() == ["worker-20260101-000000"]
    assert found.look() == []


def _folder(scene: Scene, name: str) -> Path:
    folder = Path(scene.store.record(name))
    folder.mkdir()
    return folder
