"""Counts what was tried and held, and prints it at the end of the run, from all worker processes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Tally = Callable[[str, int], None]

_NAME = "tried"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Note that so many attempts of a kind were made; they held if the test passes."""

    def note(what: str, tried: int) -> None:
        request.node.user_properties.append((_NAME, (what, tried)))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tried, held = Counter[str](), Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties if report.when == "call" else ():
                if name == _NAME:
                    what, count = value
                    tried[what] += count
                    held[what] += count if outcome == "passed" else 0
    if tried:
        terminalreporter.section("attacks")
        terminalreporter.write_line(f"{'':52}{'tried':>7}{'held':>7}{'open':>7}")
        for what, count in tried.items():
            terminalreporter.write_line(f"{what:52}{count:>7}{held[what]:>7}{count - held[what]:>7}")
