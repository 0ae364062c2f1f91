"""Function agents from an agent file (`module:function`): a child process with the same judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overhand.testing.project import ProjectDir
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = """
import asyncio, os, signal, sys

def text(call):
    return f"Did {call.title}."

def mapping(call):
    (call.project / "m.txt").write_text("hi")
    return {"summary": "Mapped.", "artifacts": [{"path": "m.txt"}], "data": {"n": 3}}

async def asynchronous(call):
    await asyncio.sleep(0)
    return "Awaited."

def writes(call):
    call.output.write_text("# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nWrote it.\\n")

def nothing(call):
    return None

def blocked(call):
    return {"status": "blocked", "summary": "Waits for a key."}

def false_claim(call):
    return {"summary": "Done.", "artifacts": [{"path": "never.txt"}]}

def raises(call):
    raise RuntimeError("the pump is dry")

def number(call):
    return 42

def unknown(call):
    return {"summary": "x", "colour": "red"}

def unwritable(call):
    return {"summary": "x", "data": {1, 2}}

def not_a_number(call):
    return {"summary": "x", "data": float("nan")}

def leaves(call):
    sys.exit(7)

def dies(call):
    os.kill(os.getpid(), signal.SIGKILL)

class Deep:
    @staticmethod
    def inside(call):
        return "Deep."

constant = 3
"""

# function: status, exit, part of the summary
CASES: dict[str, tuple[str, int, str]] = {
    "text": ("completed", 0, "Did Use text."),
    "mapping": ("completed", 0, "Mapped."),
    "asynchronous": ("completed", 0, "Awaited."),
    "writes": ("completed", 0, "Wrote it."),
    "Deep.inside": ("completed", 0, "Deep."),
    "nothing": ("failed", 0, "without a return"),
    "blocked": ("blocked", 0, "Waits for a key."),
    "false_claim": ("failed", 0, "Done."),
    "raises": ("failed", 1, "RuntimeError: the pump is dry"),
    "number": ("failed", 1, "returned int"),
    "unknown": ("failed", 1, "unknown names: colour"),
    "unwritable": ("failed", 1, "cannot be written as JSON"),
    "not_a_number": ("failed", 1, "cannot be written as JSON"),
    "leaves": ("failed", 7, "without a return"),
    "dies": ("failed", 137, "without a return"),
    "absent": ("failed", 1, "absent"),
    "constant": ("failed", 1, "not callable"),
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """A project with one agent file per function."""
    project = make_project(tmp_path_factory.mktemp("workshop") / "project", {})
    (project.path / "tools.py").write_text(MODULE)
    for name in CASES:
        project.agent(agent_of(name), driver="function", command=None, function=f"tools:{name}")
    try:
        yield project
    finally:
        project.cleanup()


def agent_of(function: str) -> str:
    return function.lower().replace("_", "-").replace(".", "-")


@pytest.mark.parametrize("function", CASES)
def test_judged(workshop: ProjectDir, function: str) -> None:
    status, code, summary = CASES[function]
    agent = agent_of(function)
    shown: dict[str, Any] = workshop.run("delegate", f"Use {function}", "--agent", agent, "--wait", "--json").json
    assert (shown["status"], shown["runs"][0]["exit"]) == (status, code), shown["problems"]
    assert summary in shown["summary"]
    if function == "mapping":
        assert (shown["data"], shown["files_modified"]) == ({"n": 3}, ["m.txt"])


def test_a_spec_that_is_none_is_told_at_once(workshop: ProjectDir) -> None:
    workshop.agent("crooked", driver="function", command=None, function="no colon")
    ran = workshop.run("delegate", "x", "--agent", "crooked")
    assert (ran.code, "module:name" in ran.err) == (2, True)
