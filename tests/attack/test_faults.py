"""A full disk, a broken one, no free descriptor: at each call that can meet it.

Every error is clear, nothing is lost, nothing was done twice, and `stop` always works.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from attack.harness import FAILING, PATIENCE, Disk, Point, counted, site_at, strike
from attack.scenarios import BY_NAME, DELEGATE, HANGS, SCENARIOS
from support.scene import until
from support.soak import LOT

if TYPE_CHECKING:
    from pathlib import Path

    from attack.harness import Scenario

LOTS = 12
SAMPLED = 6  # in a sample, a lot takes one point of so many


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


def every_point(error: str, folder: Path) -> list[tuple[Scenario, Point]]:
    """Once at each call; and for a verb, from there on until it ends."""
    found = []
    for scenario in SCENARIOS:
        numbers = range(1, len(counted(scenario, FAILING[error], folder)) + 1)
        found += [(scenario, Point(number, error)) for number in numbers]
        if scenario.victim.startswith("overhand "):
            found += [(scenario, Point(number, error, "1")) for number in numbers]
    return found


@pytest.mark.parametrize(("name", "error"), [("delegate", "ENOSPC"), ("supervisor", "EIO"), ("stop", "EMFILE")])
def test_one_point(folder: Path, name: str, error: str) -> None:
    """`make soak` takes the others."""
    scenario = BY_NAME[name]
    calls = counted(scenario, FAILING[error], folder)
    assert strike(scenario, Point(len(calls) // 2, error), folder, FAILING[error])


@pytest.mark.parametrize("lot", [pytest.param(lot, marks=LOT) for lot in range(LOTS)])
@pytest.mark.parametrize("error", FAILING)
def test_every_point(folder: Path, error: str, lot: int, request: pytest.FixtureRequest) -> None:
    points = every_point(error, folder)[lot::LOTS]
    if seed := request.config.getoption("--sample"):
        points = random.Random(f"{seed} {error} {lot}").sample(points, len(points) // SAMPLED)
    failures = []
    for scenario, point in points:
        try:
            strike(scenario, point, folder, FAILING[error])
        except Exception as failure:  # noqa: BLE001 - the others are struck all the same
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(points)} points", failures)


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
