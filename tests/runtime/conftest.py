"""Every test of this folder ends what it started: its fixture says so, not only its good intentions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.scene import Scene, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture
def scene(overhand_project: ProjectDir) -> Iterator[Scene]:
    """A project; afterwards the supervisor is ended and no other process of the project may be left."""
    scene = Scene(overhand_project)
    yield scene
    until(scene.is_quiet, f"no process left of {scene.path}; now {scene.left()}")
