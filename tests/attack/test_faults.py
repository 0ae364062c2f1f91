"""A full disk, a broken one, no free descriptor, at a call that can meet it.

Every error is clear, nothing is lost, nothing was done twice, and `stop` always works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from attack.harness import FAILING, PATIENCE, Disk, Point, counted, site_at, strike
from attack.scenarios import BY_NAME, DELEGATE, HANGS
from support.scene import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


@pytest.mark.parametrize(("name", "error"), [("delegate", "ENOSPC"), ("supervisor", "EIO"), ("stop", "EMFILE")])
def test_one_point(folder: Path, name: str, error: str) -> None:
    """In the middle of what a verb or the supervisor does."""
    scenario = BY_NAME[name]
    calls = counted(scenario, FAILING[error], folder)
    assert strike(scenario, Point(len(calls) // 2, error), folder, FAILING[error])


@pytest.mark.soak
@pytest.mark.parametrize("words", [("stop", "1"), ("stop", "1", "--now"), ("stop", "--all")])
def test_stop_on_a_full_disk(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What runs is ended although nothing can be recorded; once there is room again, the record says so."""
    with site_at(tmp_path / "site") as site:
        site.shell("worker", HANGS)
        disk = Disk(site)
        site.attacked(disk.variables, *DELEGATE)
        until((site.path / "up").exists, "the agent at work", PATIENCE)
        disk.fill()
        ran = site.attacked(disk.variables, *words)
        until(lambda: not site.agents_left(), f"the end of the agent; stop ended with {ran}", PATIENCE)
        disk.free()
        site.json("stop", "--all", "--now")
        assert site.settle("1")["status"] == "failed"
