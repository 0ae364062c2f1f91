"""A tag that a run's leftover process wrote is the run's, also when that process has ended before anybody looks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from overhand.items import handle_changed_file, note_ended_leftovers, unrecorded_tags
from overhand.policy import load_config
from overhand.system import lives
from support.items import AT, BY, REQUEST, House
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

LEAVES = f"(setsid sh -c 'until [ -e end ]; do sleep 0.05; done; cp tagged {AT}' >/dev/null 2>&1 &); {QUICK}"
TYPED = REQUEST.replace("#needs-fix", "#delegated-fix")
LATER = 10.0  # seconds: the daemon looks after its debounce


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    house = House(overhand_project)
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")


def leave_and_end(house: House) -> str:
    """A judged task whose leftover wrote the tag and ended; the supervisor is gone, so that nobody has looked."""
    (house.path / "requests").mkdir()
    (house.path / "tagged").write_text(TYPED)
    house.shell("worker", LEAVES)
    task = house.delegate()
    state = house.judged(task)
    assert state.runs[-1].leftovers
    place = str(house.place(task))
    house.kill_supervisor()
    (house.path / "end").touch()
    until(lambda: not lives(place), "the end of what the run left behind")
    assert (house.path / AT).read_text() == TYPED
    return task


def test_it_waits_for_a_person(house: House) -> None:
    task = leave_and_end(house)
    config = load_config(str(house.path))
    assert handle_changed_file(house.store, config, AT, BY, since=time.time() + LATER) == []
    assert (house.items(), len(unrecorded_tags(house.store))) == ([], 1)
    assert any("it waits for a person" in text for text in house.state(task).notices)


def test_a_tag_typed_after_its_end_was_noted_is_a_persons(house: House) -> None:
    task = leave_and_end(house)
    note_ended_leftovers(house.store.run_folder(task, house.state(task).runs[-1].id))
    config = load_config(str(house.path))
    assert len(handle_changed_file(house.store, config, AT, BY, since=time.time() + LATER)) == 1
