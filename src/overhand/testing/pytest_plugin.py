"""The pytest fixture `overhand_project`, there as soon as Overhand is installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir


@pytest.fixture
def overhand_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectDir]:
    """A project in a temporary folder, with an agent `worker` that completes; what it started is ended.

    The Python API in the test itself sees the same private user-level configuration and records as the command.
    """
    from overhand.testing.project import make_project

    project = make_project(tmp_path / "project")
    for name in [name for name in os.environ if name.startswith("OVERHAND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.config_home))
    monkeypatch.setenv("XDG_STATE_HOME", str(project.state_home))
    try:
        project.trust_files()  # now: the Python API may be what a test uses first
        yield project
    finally:
        project.cleanup()
