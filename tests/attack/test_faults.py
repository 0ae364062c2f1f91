"""A full disk, a broken one, no free descriptor: at each call that can meet it.

Every error is clear, nothing is lost, nothing was done twice, and `stop` always works.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from attack.harness import FAILING, PATIENCE, Disk, Point, armed, counted, site_at, strike
from attack.scenarios import BY_NAME, DELEGATE, HANGS, SUPERVISOR, kind
from support.scene import QUICK, until
from support.soak import LOT

if TYPE_CHECKING:
    from pathlib import Path

    from attack.harness import Scenario
    from support.tally import Tally

SAMPLED = 2  # points of each scenario in a sample


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


@pytest.mark.parametrize(("name", "error"), [("delegate", "ENOSPC"), ("supervisor", "EIO"), ("stop", "EMFILE")])
def test_one_point(folder: Path, name: str, error: str) -> None:
    """In the middle of what a verb or the supervisor does."""
    scenario = BY_NAME[name]
    calls = counted(scenario, FAILING[error], folder)
    assert strike(scenario, Point(len(calls) // 2, error), folder, FAILING[error])


@pytest.mark.parametrize(
    ("name", "point"),
    [
        pytest.param("supervisor-item", Point(6, "EIO", where=".FIX_REQUEST_MAP.md."), id="tag-of-a-done-item"),
        pytest.param("supervisor-item", Point(2, "ENOSPC", where=".FIX_REQUEST_MAP.md."), id="tag-of-a-claimed-item"),
        pytest.param("item-approve", Point(1, "EMFILE", where=".FIX_REQUEST_MAP.md."), id="tag-of-an-approved-item"),
        pytest.param("item-done", Point(1, "EIO", where=".FIX_REQUEST_MAP.md."), id="tag-by-a-verb"),
        pytest.param("supervisor", Point(7, "EMFILE", where="/ipc/calls"), id="loop-without-a-descriptor"),
        pytest.param("supervisor-checks", Point(1, "ENOSPC", where="/checks"), id="check-before-a-run"),
        pytest.param("supervisor-plan", Point(1, "EMFILE", where="agents/worker.md"), id="agent-of-a-node"),
        pytest.param("supervisor-plan", Point(2, "EMFILE", where="agents/worker.md"), id="agent-of-a-node-again"),
    ],
)
def test_what_could_not_be_written_is_written_later(folder: Path, name: str, point: Point) -> None:
    assert strike(BY_NAME[name], point, folder, FAILING[point.how])


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(Point(1, "EIO", where="/ipc/calls/"), id="bell"),
        pytest.param(Point(1, "EIO", where=".taken"), id="call"),
        pytest.param(Point(1, "ENOSPC", where="/waiting/."), id="mark"),
        pytest.param(Point(1, "ENOSPC", where=".reply"), id="reply"),
    ],
)
def test_a_call_gets_its_reply(tmp_path: Path, point: Point) -> None:
    """The disk fails the supervisor once; the caller waits a little longer, and learns of nothing."""
    with site_at(tmp_path / "site") as site:
        site.shell("helper", QUICK)
        site.shell("worker", f"$O delegate Part --agent helper --wait --json >said; echo $? >code; {QUICK}")
        site.attacked(armed(site, SUPERVISOR, point, FAILING[point.how]), *DELEGATE, "--wait")
        assert (site.path / "code").read_text() == "0\n", (site.path / "said").read_text()
        assert json.loads((site.path / "said").read_text())["status"] == "completed"
        assert [row["status"] for row in site.rows()] == ["completed"] * 2


def test_a_question_that_could_not_be_asked_is_asked_again(tmp_path: Path) -> None:
    """The run goes on, and its agent learns that it may try again."""
    with site_at(tmp_path / "site") as site:
        ask = '$O ask "Which?"'
        site.shell("worker", f"{ask} --json >refused; echo $? >code; {ask} >answer; {QUICK}")
        point = Point(1, "ENOSPC", where="001.question")
        site.attacked(armed(site, SUPERVISOR, point, FAILING["ENOSPC"]), *DELEGATE)
        assert site.settle("1")["status"] == "completed"
        error = json.loads((site.path / "refused").read_text())["error"]
        assert (error["code"], (site.path / "code").read_text()) == ("STORAGE_FAILED", "3\n")
        assert "the disk is full" in error["message"]
        assert (site.path / "answer").read_text() == "blue\n"


def every_point(scenario: Scenario, error: str, folder: Path) -> list[Point]:
    """Once at each call; and for a verb, from there on until it ends. Of a file that is opened again and again while
    no descriptor is free, the first and the last time."""
    calls = counted(scenario, FAILING[error], folder)
    numbers = set(range(1, len(calls) + 1))
    if error == "EMFILE":
        last = {call: number for number, call in enumerate(calls, 1)}
        first = {call: len(calls) - number for number, call in enumerate(reversed(calls))}
        numbers = {*last.values(), *first.values()}
    lasts = ("", "1") if scenario.victim.startswith("overhand ") else ("",)
    return [Point(number, error, how) for number in sorted(numbers) for how in lasts]


@pytest.mark.parametrize("name", [pytest.param(name, marks=LOT) for name in BY_NAME])
@pytest.mark.parametrize("error", FAILING)
def test_every_point(folder: Path, error: str, name: str, tally: Tally, request: pytest.FixtureRequest) -> None:
    scenario = BY_NAME[name]
    points = every_point(scenario, error, folder)
    if seed := request.config.getoption("--sample"):
        points = random.Random(f"{seed} {error} {name}").sample(points, min(len(points), SAMPLED))
    held, failures = 0, list[Exception]()
    for point in points:
        try:
            held += bool(strike(scenario, point, folder, FAILING[error]))
        except Exception as failure:  # noqa: BLE001 - the others are struck all the same
            failures.append(failure)
    tally(f"{error} injected into {kind(scenario)}", held + len(failures), held)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(points)} points", failures)


@pytest.mark.soak
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("words", [("stop", "1"), ("stop", "1", "--now"), ("stop", "--all")])
def test_stop_where_nothing_can_be_written(tmp_path: Path, words: tuple[str, ...], error: str) -> None:
    """What runs is ended although nothing can be recorded; once that is possible again, the record says so."""
    with site_at(tmp_path / "site") as site:
        site.shell("worker", HANGS)
        disk = Disk(site, error)
        site.attacked(disk.variables, *DELEGATE)
        until((site.path / "up").exists, "the agent at work", PATIENCE)
        disk.fill()
        ran = site.attacked(disk.variables, *words)
        until(lambda: not site.agents_left(), f"the end of the agent; stop ended with {ran}", PATIENCE)
        disk.free()
        site.json("stop", "--all", "--now")
        assert site.settle("1")["status"] == "failed"
