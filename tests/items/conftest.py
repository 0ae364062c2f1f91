"""A project with requests and notes, in which a person may approve without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.items import House
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    """Afterwards the supervisor is ended and no other process of the project may be left."""
    house = House(overhand_project)
    house.settings("approve_without_terminal = true\n")
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")
