"""In-process delegation of nothing, with every file written, judged and durable, against LangGraph."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import measure
from measure import Row
from sides import Side, side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FAN = 100


def rows(*, quick: bool) -> list[Row]:
    """One after the other, then a hundred at once."""

    def one(place: Path) -> tuple[float, str]:
        with _both(place) as (ours, theirs):
            return _compare(lambda: ours("one"), lambda: theirs("one"), 60 if quick else 200, 1)

    def many(place: Path) -> tuple[float, str]:
        with _both(place) as (ours, theirs):
            return _compare(lambda: ours("many", _FAN), lambda: theirs("many", _FAN), 9 if quick else 21, _FAN)

    what = "no-op delegation, in-process function agent, sequential, vs LangGraph + SqliteSaver"
    return [
        _row(what, measure.steady(one), 0.6, 0.3),
        _row(f"the same, fan-out of {_FAN}, per node", measure.steady(many), 1.0, 0.6),
    ]


@contextmanager
def _both(place: Path) -> Iterator[tuple[Side, Side]]:
    env = measure.environment(place)
    with side("ours:Ours", place / "ours", env) as ours, side("peers:Graphs", place / "theirs", env) as theirs:
        yield ours, theirs


def _compare(ours: Callable[[], float], theirs: Callable[[], float], rounds: int, size: int) -> tuple[float, str]:
    """The ratio of the medians, and both per piece of work; the first round of each only warms up."""
    ours()
    theirs()
    first, second = measure.in_turn(rounds, ours, theirs)
    shown = [measure.spread([seconds / size for seconds in times]) for times in (first, second)]
    return measure.median(first) / measure.median(second), f"{shown[0]} against {shown[1]}"


def _row(what: str, found: tuple[float, str], bar: float, aim: float) -> Row:
    ratio, note = found
    return Row(what, f"{ratio:.2f}x", f"≤ {bar}x", f"{aim}x", ratio <= bar, ratio <= aim, note)
