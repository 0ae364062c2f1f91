"""A project with items and a daemon over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.daemon import Watched
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[Watched]:
    """With a worker that is quick; afterwards nobody of the project may be left."""
    house = Watched(overhand_project)
    house.settings("approve_without_terminal = true\n[limits]\ndebounce = '0.5s'\n")
    house.shell("worker", QUICK)
    house.trusted()
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")
