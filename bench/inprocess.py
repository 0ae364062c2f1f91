"""In-process delegation of nothing, with every file written, judged and durable, against LangGraph."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import measure
import peers
from measure import Row

from overhand import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.agents.function import Call

_FAN = 100


def rows(*, quick: bool) -> list[Row]:
    """One after the other, then a hundred at once."""
    with measure.folder() as place:
        os.environ["XDG_CONFIG_HOME"] = measure.environment(place)["XDG_CONFIG_HOME"]
        (place / "ours").mkdir()
        (place / "theirs").mkdir()
        graphs = peers.Graphs(place / "theirs")
        with Project(place / "ours", max_parallel=0) as project:
            project.agent("noop")(_noop)
            one = _compare(lambda: _one(project), graphs.one, 60 if quick else 200, 1)
            many = _compare(lambda: _many(project), lambda: graphs.many(_FAN), 5 if quick else 11, _FAN)
        graphs.close()
    return [
        _row("no-op delegation, in-process function agent, sequential, vs LangGraph + SqliteSaver", one, 0.5, 0.2),
        _row(f"the same, fan-out of {_FAN}, per node", many, 1.0, 0.5),
    ]


def _noop(_: Call) -> dict[str, str]:
    return dict(peers.RETURN)


def _one(project: Project) -> None:
    assert project.delegate("Do nothing", agent="noop").wait().ok


def _many(project: Project) -> None:
    tasks = project.delegate_all([{"title": f"Do nothing, {n}", "agent": "noop"} for n in range(_FAN)])
    assert all(task.wait().ok for task in tasks)


def _compare(ours: Callable[[], None], theirs: Callable[[], None], rounds: int, size: int) -> tuple[float, str]:
    """The ratio of the medians, and both per piece of work; the first round of each only warms up."""
    ours()
    theirs()
    first, second = measure.interleaved(rounds, ours, theirs)
    shown = [measure.spread([seconds / size for seconds in times]) for times in (first, second)]
    return measure.median(first) / measure.median(second), f"{shown[0]} against {shown[1]}"


def _row(what: str, found: tuple[float, str], bar: float, aim: float) -> Row:
    ratio, note = found
    return Row(what, f"{ratio:.2f}x", f"≤ {bar}x", f"{aim}x", ratio <= bar, ratio <= aim, note)
