"""A house for the tests of single nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plans.nodes.house import House, build

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir


@pytest.fixture
def house(overhand_project: ProjectDir) -> House:
    return build(overhand_project)
