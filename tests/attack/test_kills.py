"""kill -9 of a real process before every call that changes something, and in the middle of every write.

Afterwards nothing is lost, nothing was done twice, no document is half, no ghost is left, and `stop` works.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from attack.harness import MUTATING, Point, counted, kill_points, strike
from attack.scenarios import BY_NAME, SCENARIOS
from support.soak import LOT

if TYPE_CHECKING:
    from pathlib import Path

    from attack.harness import Scenario

LOTS = 48
SAMPLED = 2  # in a sample, a lot takes one point of so many: a third of the lots is 300 points
OFTEN = ("delegate", "supervisor", "answer", "step", "finish", "stop", "item-approve", "plan", "ask", "init")
POINTS = 1_500  # of all lots together, at least


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


def every_point(folder: Path) -> list[tuple[Scenario, Point]]:
    return [(one, point) for one in SCENARIOS for point in kill_points(counted(one, MUTATING, folder))]


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


@pytest.mark.parametrize("lot", [pytest.param(lot, marks=LOT) for lot in range(LOTS)])
def test_every_point(folder: Path, lot: int, request: pytest.FixtureRequest) -> None:
    """Each lot takes every 48th point of all scenarios together."""
    points = every_point(folder)[lot::LOTS]
    if seed := request.config.getoption("--sample"):
        points = random.Random(f"{seed} {lot}").sample(points, len(points) // SAMPLED)
    failures = []
    hit = 0
    for scenario, point in points:
        try:
            hit += bool(strike(scenario, point, folder))
        except Exception as failure:  # noqa: BLE001 - the others are struck all the same
            failure.add_note(f"{len(points)} points in this lot")
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(points)} points", failures)
    assert hit >= len(points) * 0.8, "the calls of the scenarios differ from run to run"
