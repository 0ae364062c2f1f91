"""Every test of this folder ends what it started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plans.running.stage import Stage
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture
def stage(overhand_project: ProjectDir) -> Iterator[Stage]:
    """A project; afterwards the supervisor is ended and no other process of the project may be left."""
    stage = Stage(overhand_project)
    yield stage
    until(stage.is_quiet, f"no process left of {stage.path}; now {stage.left()}")
