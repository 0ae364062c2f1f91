"""A project that many cases share: one supervisor, many agents, each case with files of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.testing.project import ProjectDir
from support.warm import make_project
from verbs.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """A project with one agent per case of the table, whose files are that case's own, and `steady` for other tests."""
    agents = {case.name: case.actions for case in CASES} | {"steady": ("file:steady/a.txt=hi", "output")}
    project = make_project(tmp_path_factory.mktemp("yard") / "project", agents)
    try:
        yield project
    finally:
        project.cleanup()
