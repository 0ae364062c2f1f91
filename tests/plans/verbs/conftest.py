"""One project for tests that only look; one of its own for each that changes something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plans.verbs.house import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = build(tmp_path_factory.mktemp("plans") / "project")
    try:
        yield project
    finally:
        project.cleanup()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ProjectDir]:
    project = build(tmp_path / "project")
    try:
        yield project
    finally:
        project.cleanup()
