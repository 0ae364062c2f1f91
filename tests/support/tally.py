"""Counts what was tried and held, and prints it at the end of the run, from all worker processes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from typing import Protocol

    class Tally(Protocol):
        def __call__(self, what: str, tried: int, held: int | None = None) -> None: ...


_NAME = "tried"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Note that so many attempts of a kind were made, and how many held: without a number all, if the test passes."""

    def note(what: str, tried: int, held: int | None = None) -> None:
        request.node.user_properties.append((_NAME, (what, tried, held)))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tried, held = Counter[str](), Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties if report.when == "call" else ():
                if name == _NAME:
                    what, count, sound = value
                    tried[what] += count
                    held[what] += sound if sound is not None else count if outcome == "passed" else 0
    if tried:
        terminalreporter.section("attacks")
        terminalreporter.write_line(f"{'':52}{'tried':>7}{'held':>7}{'open':>7}")
        for what, count in tried.items():
            terminalreporter.write_line(f"{what:52}{count:>7}{held[what]:>7}{count - held[what]:>7}")
