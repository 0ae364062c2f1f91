"""What the output of a test runner says: which runner it was, and how many tests passed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SUITE, _FIGURE = re.compile(rb"<testsuite [^>]*>"), re.compile(rb' (\w+)="(\d{1,9})"')
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class TestSummary:
    """The figures of a test runner's own summary."""

    __test__ = False  # no test of pytest's

    runner: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0


# by runner: what shows that it ran at all, and where its figures stand; a pattern without a group counts its lines
_RUNNERS = {
    "pytest": (
        "|".join(
            (
                r"^(=+ )?no tests ran\b.* in [\d.]+s",
                r"^(=+ )?\d+ (passed|failed|errors?|skipped|deselected|x\w+ed|tests? collected)\b.* in [\d.]+s",
                r"^=+ (FAILURES|ERRORS|short test summary info|test session starts) =+",
                r"^(FAILED|ERROR) \S+::",
                r"^ImportError while loading conftest",
                r"^ERROR: (not found|file or directory not found|usage):?",
            )
        ),
        r"^(?:=+ )?(?:\d+ \w+, )*(\d+) passed\b.* in [\d.]+s",
        r"^(?:=+ )?(?:\d+ \w+, )*(\d+) (?:failed|errors?)\b.* in [\d.]+s",
        r"^(?:=+ )?(?:\d+ \w+, )*(\d+) (?:skipped|xfailed)\b.* in [\d.]+s",
    ),
    "unittest": (
        r"^Ran \d+ tests? in",
        r"^Ran (\d+) tests? in",
        r"^FAILED \(.*?(?:failures|errors)=(\d+)",
        r"skipped=(\d+)",
    ),
    "jest": (
        r"^Tests:\s+.*total",
        r"^Tests:\s+.*?(\d+) passed",
        r"^Tests:\s+.*?(\d+) failed",
        r"^Tests:\s+.*?(\d+) skipped",
    ),
    "vitest": (
        r"^\s*Test Files\s+\d+ |^\s*Tests\s+\d+ ",
        r"^\s*Tests\s+.*?(\d+) passed",
        r"^\s*Tests\s+.*?(\d+) failed",
        r"^\s*Tests\s+.*?(\d+) skipped",
    ),
    "mocha": (r"^\s*\d+ (passing|failing)\b", r"^\s*(\d+) passing\b", r"^\s*(\d+) failing\b", r"^\s*(\d+) pending\b"),
    "node": (
        r"^[#\u2139] (pass|fail) \d+",
        r"^[#\u2139] pass (\d+)",
        r"^[#\u2139] fail (\d+)",
        r"^[#\u2139] skipped (\d+)",
    ),
    "bun": (r"^\s*\d+ (pass|fail)$", r"^\s*(\d+) pass$", r"^\s*(\d+) fail$", r"^\s*(\d+) skip$"),
    "deno": (
        r"^(ok|FAILED) \| \d+ passed",
        r"^(?:ok|FAILED) \| (\d+) passed",
        r"^FAILED .*?\| (\d+) failed",
        r"\| (\d+) ignored",
    ),
    "go test": (
        r"^(--- FAIL|FAIL\b|ok\s+\S+\s)",
        r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))(?! \[no tests)",
        r"^FAIL\t\S+",
        r"\[no tests to run\]",
    ),
    "cargo test": (
        r"^test result: |^error: test failed",
        r"^test result: \w+\. (\d+) passed",
        r"^test result: \w+\. \d+ passed; (\d+) failed",
        r"^test result: \w+\. .*?(\d+) ignored",
    ),
    "rspec": (
        r"^\d+ examples?, \d+ failures?",
        r"^(\d+) examples?, \d+ failures?",
        r"^\d+ examples?, (\d+) failures?",
        r"^\d+ examples?,.*?(\d+) pending",
    ),
    "phpunit": (
        r"^OK \(\d+ tests?|^Tests: \d+, Assertions:|^No tests executed",
        r"^OK \((\d+) tests?",
        r"^Tests: (\d+), Assertions: .*(?:Failures|Errors):",
        r"^Tests: .*Skipped: (\d+)",
    ),
    "surefire": (
        r"Tests run: \d+, Failures: \d+, Errors: \d+",
        r"^(?:\[\w+\] +)?Tests run: (\d+), Failures: 0, Errors: 0, Skipped: \d+$",
        r"^(?:\[\w+\] +)?Tests run: \d+, Failures: (\d+), .*$",
        r"^(?:\[\w+\] +)?Tests run: .*Skipped: (\d+)$",
    ),
    "ctest": (r"^\d+% tests passed", r"^100% tests passed.* out of (\d+)", r"tests failed out of (\d+)", r"\0"),
    "dotnet test": (
        r"(Passed|Failed)!\s+- Failed:",
        r"Passed!\s+- Failed:\s+0, Passed:\s+(\d+)",
        r"Failed!\s+- Failed:\s+(\d+)",
        r"Skipped:\s+(\d+)",
    ),
    "playwright": (r"^\s+\d+ (passed|failed) \(", r"^\s+(\d+) passed \(", r"^\s+(\d+) failed$", r"^\s+(\d+) skipped$"),
    "bats": (
        r"^\d+ tests?, \d+ failures?",
        r"^(\d+) tests?, 0 failures?",
        r"^\d+ tests?, ([1-9]\d*) failures?",
        r"(\d+) skipped",
    ),
}


def read_test_summary(output: str) -> TestSummary | None:
    """The summary of the test runner that printed this; None if it was none that is known."""
    text = _COLOURS.sub("", output)
    for runner, (seen, *figures) in _RUNNERS.items():
        if re.search(seen, text, re.MULTILINE):
            passed, failed, skipped = (_count(figure, text) for figure in figures)
            if runner == "unittest":
                passed = passed - skipped if re.search(r"^OK\b", text, re.MULTILINE) else 0
            return TestSummary(runner, max(passed, 0), failed, skipped)
    return None


def read_pytest_report(report: bytes) -> TestSummary | None:
    """The figures at the beginning of a report in XML; None if this is none."""
    found = _SUITE.search(report)
    if found is None:
        return None
    figures = {name.decode(): int(count) for name, count in _FIGURE.findall(found[0])}
    failed, skipped = figures.get("errors", 0) + figures.get("failures", 0), figures.get("skipped", 0)
    return TestSummary("pytest", max(0, figures.get("tests", 0) - failed - skipped), failed, skipped)


def _count(pattern: str, text: str) -> int:
    found = re.findall(pattern, text, re.MULTILINE)
    return sum(int(one) if one.isdigit() else 1 for one in found)
