"""One figure: of all returns in the corpus, how many are judged right."""

from __future__ import annotations

from collections import Counter

import pytest

_RIGHT, _WRONG = ("passed", "xpassed"), ("failed", "xfailed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    right, every = Counter[str](), Counter[str]()
    for outcome in (*_RIGHT, *_WRONG):
        for report in terminalreporter.stats.get(outcome, ()):
            _, found, name = report.nodeid.partition("test_returns.py::test_judged_right[")
            if found:
                family = name.partition(":")[0]
                every[family] += 1
                right[family] += outcome in _RIGHT
    for family, count in sorted(every.items()):
        terminalreporter.write_line(f"judged right {right[family]} of {count}: {family}")
    if every:
        terminalreporter.write_line(f"judged right {right.total()} of {every.total()}")
