"""The ten lines of verification as a table, and what makes a check's own files."""

from __future__ import annotations

import pytest

from overhand.contracts import TestSummary, own_files, read_test_summary, steering_part
from overhand.documents import Problem, Return
from overhand.runs import Evidence, Fact, verification
from overhand.runs.judge import CheckFact, FileFact
from overhand.runs.proof import Work

DONE = Return(status="completed", summary="Done.", data={"n": 1})
PARTIAL = Return(status="partial", summary="Half.")
TURNED = CheckFact("tests", "pytest -q", after=0, before=1)
GREEN = CheckFact("tests", "pytest -q", after=0, before=0)
ENDLESS = CheckFact("tests", "pytest -q", after=None, before=0, timed_out=True)
WROTE = Work(("app.py",), ("app.py",))
HOLDS, BREAKS = Fact("expression", "n > 0"), Fact("expression", "n > 0", (Problem("expression-failed", "No."),))
THERE = FileFact("report.md")


@pytest.mark.parametrize(
    ("evidence", "word", "proof"),
    [
        (Evidence(DONE), "none", ""),
        (Evidence(DONE, work=WROTE), "none", ""),
        (Evidence(DONE, checks=(TURNED,), work=WROTE), "proved", "red-green"),
        (Evidence(None, checks=(TURNED,), work=WROTE), "proved", "red-green"),
        (Evidence(PARTIAL, checks=(TURNED,), work=WROTE), "passing", ""),
        (Evidence(DONE, checks=(TURNED, ENDLESS), work=WROTE), "failing", ""),
        (Evidence(DONE, checks=(GREEN,), work=WROTE), "passing", ""),
        (Evidence(DONE, checks=(GREEN,), work=Work(())), "none", ""),
        (Evidence(DONE, checks=(TURNED,), work=Work(())), "none", ""),
        (Evidence(DONE, checks=(GREEN,), work=Work()), "passing", ""),
        (Evidence(DONE, checks=(TURNED,), work=Work()), "passing", ""),
        (Evidence(DONE, checks=(GREEN,), work=Work(()), read_only=True), "passing", ""),
        (Evidence(DONE, checks=(TURNED,), work=Work(("a",), ("a",), company=("task 7 (w)",))), "passing", ""),
        (Evidence(DONE, checks=(TURNED,), work=Work(("a",), ("a",), leftovers=True)), "passing", ""),
        (Evidence(DONE, checks=(TURNED,), work=Work(("tests/a.py",), ("tests/a.py",))), "passing", ""),
        (Evidence(DONE, checks=(CheckFact("t", "./new", after=0, before=127),), work=WROTE), "passing", ""),
        (Evidence(DONE, facts=(HOLDS,), work=Work(())), "proved", "data"),
        (Evidence(DONE, facts=(HOLDS,), asked_by_person=False, read_only=True), "passing", ""),
        (Evidence(DONE, facts=(BREAKS,), checks=(TURNED,), work=WROTE), "failing", ""),
        (Evidence(DONE, facts=(Fact("shape", "data has n"), Fact("exists", "a.txt"))), "passing", ""),
        (Evidence(DONE, contract="schema.json"), "proved", "data"),
        (Evidence(DONE, contract="RESEARCH_OUTPUT"), "passing", ""),
        (Evidence(DONE, contract="RESEARCH_OUTPUT", problems=(Problem("contract-required", "None."),)), "failing", ""),
        (Evidence(DONE, deliverables=(THERE,), work=Work(())), "passing", ""),
        (Evidence(DONE, deliverables=(FileFact("a", exists=False),), work=WROTE), "none", ""),
    ],
)
def test_the_word_and_its_proof(evidence: Evidence, word: str, proof: str) -> None:
    found = verification(evidence)
    assert (found.word, found.proof) == (word, proof)


def _turned(before: str, now: str) -> Evidence:
    check = CheckFact(
        "t", "make", after=0, before=2, tests=read_test_summary(now), tests_before=read_test_summary(before)
    )
    return Evidence(DONE, checks=(check,), work=WROTE)


@pytest.mark.parametrize(
    ("before", "now", "doubt"),
    [
        ("1 failed in 0.1s", "1 passed in 0.1s", ""),
        ("1 failed, 2 passed in 0.1s", "=== 3 passed, 1 warning in 2.51s ===", ""),
        ("1 error in 0.1s", "4 passed in 0.1s", ""),
        ("1 failed in 0.1s", "", "without the summary of pytest"),
        ("1 failed in 0.1s", "1 test collected in 0.01s", "no test ran"),
        ("1 failed, 2 passed in 0.1s", "1 passed in 0.1s", "fewer tests passed than ran before (1 of 3)"),
        ("1 failed, 2 passed in 0.1s", "3 passed, 1 skipped in 0.1s", "tests are skipped now"),
        ("Ran 3 tests in 0.1s\n\nFAILED (failures=1)", "Ran 3 tests in 0.1s\n\nOK", ""),
        ("Ran 3 tests in 0.1s\n\nFAILED (failures=1)", "Ran 0 tests in 0.0s\n\nOK", "no test ran"),
        ("Tests:       1 failed, 1 passed, 2 total", "Tests:       2 passed, 2 total", ""),
        ("FAIL\tshop/cart\t0.1s", "ok  \tshop/cart\t0.1s", ""),
        ("FAIL\tshop/cart\t0.1s", "ok  \tshop/cart\t0.1s [no tests to run]", "no test ran"),
        ("test result: FAILED. 1 passed; 1 failed; 0 ignored", "test result: ok. 2 passed; 0 failed; 0 ignored", ""),
        ("# pass 1\n# fail 1", "# pass 2\n# fail 0", ""),
        ("AssertionError", "", ""),
    ],
)
def test_a_runner_that_passes_says_so(before: str, now: str, doubt: str) -> None:
    found = verification(_turned(before, now))
    assert (found.word, doubt in " ".join(found.why)) == ("passing" if doubt else "proved", True)


def test_figures_of_a_coloured_summary() -> None:
    text = "\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 0.01s\x1b[0m"
    assert read_test_summary(text) == TestSummary("pytest", passed=2, failed=1)


CHANGED = ["app.py", "check.sh", "sub/check.sh", "checks/verify.py", "tool/__main__.py", "new.py"]


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("pytest -q", []),
        ("python3 app.py", ["app.py"]),
        ("python3 -W error -X dev app.py", ["app.py"]),
        ("./check.sh", ["check.sh"]),
        ("cd sub && ./check.sh", ["sub/check.sh"]),
        ("if ! sh check.sh; then exit 1; fi", ["check.sh"]),
        ("bash -ec './check.sh | grep -q ok'", ["check.sh"]),
        ("sh < check.sh", ["check.sh"]),
        ("cat check.sh | sh", ["check.sh"]),
        ('test "$(./check.sh)" = ok', ["check.sh"]),
        (". ./check.sh", ["check.sh"]),
        ("FOO=1 timeout 20 nice -n 5 ./check.sh >out 2>&1", ["check.sh"]),
        ("uv run pytest checks/verify.py::test_it", ["checks/verify.py"]),
        ("python3 -m unittest app", ["app.py"]),
        ("python -m doctest app.py", ["app.py", "checks/verify.py", "new.py", "tool/__main__.py"]),
        ("python -m tool", ["tool/__main__.py"]),
        ("make -f check.sh", ["check.sh"]),
        ("python3 -c 'import app; assert app.ok'", []),
        ("test -f new.py", []),
        ("diff app.py new.py", []),
        ("grep -q x app.py >check.sh", []),
    ],
)
def test_the_script_that_a_command_runs_is_its_own(command: str, run: list[str]) -> None:
    assert sorted(one.path for one in own_files(command, CHANGED)) == run


@pytest.mark.parametrize(
    "path",
    [
        *("tests/helper.py", "src/__tests__/a.js", "test_a.py", "pkg/a_test.go", "a.spec.ts", "a.test.js"),
        *("conftest.py", "a/b/conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg"),
        *("pyproject.toml", "sitecustomize.py", "usercustomize.py", "a.pth", "pytest.py", "pytest/__init__.py"),
        *("_pytest/config.py", "GNUmakefile", "makefile", "Makefile", "justfile", "package.json", ".npmrc"),
        *("jest.config.js", "vitest.config.ts", ".mocharc.yml", "playwright.config.ts", ".cargo/config.toml"),
        *("crates/a/.cargo/config.toml", "build.rs", "bin/pytest", "named/by/settings.txt"),
    ],
)
def test_what_steers_a_runner_is_the_checks_own(path: str) -> None:
    assert [one.path for one in own_files("python3 -m pytest -q", [path], ["named/by"])] == [path]


def test_of_some_files_only_a_part_steers() -> None:
    with_tool = '[project]\nversion = "1"\n[tool.pytest.ini_options]\naddopts = "-q"\n'
    assert steering_part("pyproject.toml", with_tool) == steering_part("pyproject.toml", with_tool.replace("1", "2"))
    assert steering_part("pyproject.toml", with_tool) != steering_part("pyproject.toml", with_tool.replace("-q", "-x"))
    assert steering_part("a/package.json", '{"scripts": {"test": "a"}, "version": "1"}') == steering_part(
        "a/package.json", '{"scripts": {"test": "a"}}'
    )
    assert steering_part("package.json", "[broken") == "[broken"
