"""kill -9 of a real process at every call that changes something, before it and in the middle of every write.

Afterwards nothing is lost, nothing was done twice, no document is half, no ghost is left, and `stop` works.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from attack.harness import MUTATING, Point, counted, kill_points, strike
from attack.scenarios import BY_NAME, SCENARIOS, kind

if TYPE_CHECKING:
    from pathlib import Path

    from attack.harness import Scenario
    from support.tally import Tally

LOTS = 64
SAMPLE = 330  # points of a sample, in all lots together
OFTEN = ("delegate", "supervisor", "answer", "step", "finish", "stop", "item-approve", "plan", "ask", "init")
POINTS = 1_500  # of all scenarios together, at least


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


def test_there_are_enough_points() -> None:
    """Each scenario says how many it has at least, and fails where it has fewer."""
    assert sum(one.least for one in SCENARIOS) >= POINTS


@pytest.mark.parametrize("name", OFTEN)
def test_one_point(folder: Path, name: str) -> None:
    """In the middle of some scenarios, for `make test`."""
    scenario = BY_NAME[name]
    assert strike(scenario, Point(len(counted(scenario, MUTATING, folder)) // 2), folder)


@pytest.mark.parametrize(("name", "document"), [("delegate", "HANDOFF.md"), ("supervisor-plan", "inputs.json")])
def test_no_agent_is_given_half_a_document(folder: Path, name: str, document: str) -> None:
    """The record's copy is opened and written first, then the one in the workspace."""
    assert ".agent-workspaces" in strike(BY_NAME[name], Point(4, "torn", where=document), folder)


def test_a_question_without_a_supervisor_is_asked_once_there_is_one(folder: Path) -> None:
    """The agent waits for an answer for a moment only, and leaves; the question stands, so the task goes on."""
    assert strike(BY_NAME["supervisor-park"], Point(1, where="/ipc/calls"), folder)


def every_point(folder: Path) -> list[tuple[Scenario, Point]]:
    found = []
    for scenario in SCENARIOS:
        points = kill_points(calls := counted(scenario, MUTATING, folder))
        assert len(points) >= scenario.least, calls
        found += [(scenario, point) for point in points]
    return found


@pytest.mark.soak
@pytest.mark.parametrize("lot", range(LOTS))
def test_every_point(folder: Path, lot: int, tally: Tally, request: pytest.FixtureRequest) -> None:
    """Each lot takes every 64th point of all scenarios together, or of a sample of them."""
    points = every_point(folder)
    if seed := request.config.getoption("--sample"):
        points = random.Random(seed).sample(points, SAMPLE)
    points, failures, tried, held = points[lot::LOTS], list[Exception](), Counter[str](), Counter[str]()
    for scenario, point in points:
        try:
            reached = bool(strike(scenario, point, folder))
            held[kind(scenario)] += reached
        except Exception as failure:  # noqa: BLE001 - the others are struck all the same
            reached = True
            failures.append(failure)
        tried[kind(scenario)] += reached
    for what, number in tried.items():
        tally(f"Kills of {what}", number, held[what])
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(points)} points", failures)
    few = 2  # of five, two may be calls that another run of the scenario did not make
    assert tried.total() >= len(points) * 0.8 - few, "the calls of the scenarios differ from run to run"
