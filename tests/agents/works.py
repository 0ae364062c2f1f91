"""What works with which agent, as the tests find it: `make works` runs every test with the mark `case` and writes
`works.json`; `make docs` makes the table of docs/guide/agents.md from it.

    PYTHONPATH=tests python -m agents.works                 run them, write works.json
    PYTHONPATH=tests python -m agents.works --collected     only say which there are, as JSON

A mark names a case of the table, and what its cell says if not a plain yes: `@pytest.mark.case("granted", "ACP")`. The
agent is the parameter `name` of the test, or the mark's `agent`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKS = HERE / "works.json"
AGENTS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "goose": "Goose",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "qwen": "Qwen Code",
}
CASES = {
    "delegation": "a delegation with files and commands",
    "question": "a question in the middle of a run",
    "repair": "a return that is invalid or missing, mended in its session",
    "contract": "an output contract that it is shown, read without a repair",
    "killed": "`kill -9`, then `resume` in its session",
    "denied": "what its level withholds is denied",
    "granted": "what its level withholds is asked of you, and granted",
    "error": "an error of the model's service is told as that",
    "limit": "its provider's limit pauses it, and fails nothing",
    "nested": "delegating below the deepest level is refused",
    "stop": "`stop` leaves nothing of it running",
    "tools": "Overhand's MCP tools inside a run",
    "message": "`send` to a finished agent, in its session",
}
ADAPTERS = {"claude": "claude-agent-acp", "codex": "codex-acp"}  # through which they speak ACP


@dataclass(slots=True)
class Watch:
    """A plugin that notes what is marked and how it ends."""

    marked: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    ends: dict[str, set[str]] = field(default_factory=dict)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Case, agent and words of each mark."""
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        for mark in item.iter_markers("case"):
            case, words = (*mark.args, "yes")[:2]
            agent = mark.kwargs.get("agent") or params.get("name", "")
            self.marked.setdefault(item.nodeid.removeprefix("tests/agents/"), []).append((case, agent, words))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """`passed` alone is a success; a skip proves nothing."""
        self.ends.setdefault(report.nodeid.removeprefix("tests/agents/"), set()).add(report.outcome)


def collected() -> dict[str, list[tuple[str, str, str]]]:
    """Every marked test, by its id, without running it."""
    watch = Watch()
    _pytest(watch, "--collect-only", "-q")
    return watch.marked


def ends() -> dict[str, set[str]]:
    """How each marked test ends, run now."""
    watch = Watch()
    _pytest(watch, "-n", "2")
    return watch.ends


def _pytest(watch: Watch, *words: str) -> None:
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main(
            [*words, "-m", "case", "-p", "no:cacheprovider", "--rootdir", str(ROOT), str(HERE)], plugins=[watch]
        )


def sorted_in(marked: dict[str, list[tuple[str, str, str]]]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """By case, agent and words: the tests."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {case: {agent: {} for agent in AGENTS} for case in CASES}
    for test, marks in sorted(marked.items()):
        for case, agent, words in marks:
            found[case][agent].setdefault(words, []).append(test)
    return found


def pins() -> dict[str, str]:
    """What `make agents ALL=1` installs, whatever the machine."""
    told = runpy.run_path(str(ROOT / "tools/agents.py"))
    wanted = {package.name: package.wanted.replace(f"-{told['PLATFORM']}", "") for package in told["PACKAGES"]}
    return {name: wanted[name] for name in (*AGENTS, *ADAPTERS.values())}


def versions() -> dict[str, str]:
    """What the installed programs say themselves; in a HOME that is nobody's."""
    from support.installed import program  # not before: pytest wants to be the first to import what it brings in

    with tempfile.TemporaryDirectory() as home:
        environ = {"HOME": home, "PATH": os.defpath, "NO_COLOR": "1"}
        return {name: _version([str(program(name)), "--version"], environ) for name in AGENTS}


def _version(argv: list[str], environ: dict[str, str]) -> str:
    said = subprocess.run(argv, capture_output=True, env=environ, text=True, check=True).stdout
    found = re.search(r"\d+(\.\d+)+", said)
    assert found, f"{argv[0]} says no version: {said}"
    return found[0]


def main() -> int:
    marked = collected()
    if "--collected" in sys.argv:
        sys.stdout.write(json.dumps(marked))
        return 0
    came = ends()
    wrong = {test: sorted(came.get(test, {"not run"})) for test in marked if came.get(test) != {"passed"}}
    if wrong:
        listed = "".join(f"  {test}: {', '.join(how)}\n" for test, how in wrong.items())
        sys.stderr.write(f"Nothing is written: these did not pass.\n{listed}All agents are needed: make agents ALL=1\n")
        return 1
    works = {"pins": pins(), "versions": versions(), "cases": sorted_in(marked)}
    WORKS.write_text(json.dumps(works, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
