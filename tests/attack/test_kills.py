"""kill -9 of a real process at a call that changes something, in the middle of what it does.

Afterwards nothing is lost, nothing was done twice, no document is half, no ghost is left, and `stop` works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from attack.harness import MUTATING, Point, counted, kill_points, strike
from attack.scenarios import BY_NAME, SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path


OFTEN = ("delegate", "supervisor", "answer", "step", "finish", "stop", "item-approve", "plan", "ask", "init")
POINTS = 1_500  # of all scenarios together, at least


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


def test_there_are_enough_points() -> None:
    """Each scenario says how many it has at least, and fails where it has fewer."""
    assert sum(one.least for one in SCENARIOS) >= POINTS


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.soak) for name in BY_NAME]
)
def test_one_point(folder: Path, name: str) -> None:
    """In the middle of each scenario, for `make test` of some of them; `make soak` takes the others."""
    scenario = BY_NAME[name]
    calls = counted(scenario, MUTATING, folder)
    points = kill_points(calls)
    assert len(points) >= scenario.least, calls
    assert strike(scenario, Point(len(calls) // 2), folder)
