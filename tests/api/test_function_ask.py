"""Function agents in a child process ask through the command, and wait for as long as it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.questions import has_leftovers
from overhand.record import Store
from overhand.testing.project import ProjectDir
from support.scene import kill, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record import Task

MODULE = """
import asyncio
from overhand.errors import OverhandError, Unanswered

def asks(call):
    return "It is " + call.ask("--which?", ["--red", "blue=2"], step="Paint") + "."

async def awaits(call):
    return " ".join(await asyncio.gather(*(call.ask_async(f"Question {c}?") for c in "abc")))

def gives_up(call):
    return call.ask("Which?", timeout=0.3)

def copes(call):
    try:
        return call.ask("Which?", timeout=0.3)
    except Unanswered as error:
        return f"Took the first, for {error.facts['seq']} is open."

def wrong(call):
    try:
        call.ask("Which?", closed=True)
    except OverhandError as error:
        return f"{error.code}: {error.message}"

async def cancels(call):
    asking = asyncio.ensure_future(call.ask_async("Which?"))
    while not list(call.ipc.glob("*.question")):
        await asyncio.sleep(0.02)
    asking.cancel()
    try:
        return await asking
    except asyncio.CancelledError:
        return "Enough."
"""
FUNCTIONS = ("asks", "awaits", "gives_up", "copes", "wrong", "cancels")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("workshop") / "project", {}, config="[limits]\nmax_parallel = 0\n")
    (project.path / "tools.py").write_text(MODULE)
    for name in FUNCTIONS:
        keys = {"driver": "function", "command": None, "function": f"tools:{name}", "max_block": 0.3}
        project.agent(name.replace("_", "-"), **keys)
    try:
        yield project
    finally:
        project.cleanup()


def state_of(project: ProjectDir, handle: int) -> Task:
    store = Store(str(project.path))
    return store.task(store.resolve(str(handle)))


def delegate(project: ProjectDir, agent: str, *more: str) -> int:
    handle: int = project.run("delegate", f"Use {agent}", "--agent", agent, *more, "--json", check=True).json["handle"]
    return handle


def asked(project: ProjectDir, handle: int, count: int = 1) -> Task:
    until(lambda: len(state_of(project, handle).questions) >= count, f"{count} questions of {handle}")
    return state_of(project, handle)


def test_asks_again_until_it_is_answered(workshop: ProjectDir) -> None:
    handle = delegate(workshop, "asks")
    (question,) = asked(workshop, handle).questions
    assert (question.text, question.options, question.step) == ("--which?", ["--red", "blue=2"], "Paint")
    place = Path(Store(str(workshop.path)).record(state_of(workshop, handle).id)) / "runs"
    until(lambda: list(place.glob("*/waiting/again-1")), "it was told to call again")
    until(lambda: list(place.glob("*/waiting/ask-1-*")), "it calls again")
    workshop.run("answer", str(handle), "blue=2", check=True)
    shown = workshop.run("wait", str(handle), "--json").json
    assert (shown["status"], shown["summary"]) == ("completed", "It is blue=2.")
    assert len(shown["questions"]) == 1


def test_several_at_once_in_any_order(workshop: ProjectDir) -> None:
    handle = delegate(workshop, "awaits")
    by_text = {q.text[9]: q.seq for q in asked(workshop, handle, 3).questions}
    for letter in "bca":
        workshop.run("answer", str(handle), str(by_text[letter]), letter.upper(), check=True)
    assert workshop.run("wait", str(handle), "--json").json["summary"] == "A B C"


def test_parked_by_its_own_patience_and_resumed_by_the_answer(workshop: ProjectDir) -> None:
    handle = delegate(workshop, "gives-up")
    shown = workshop.run("wait", str(handle), "--json").json
    assert (shown["status"], shown["cause"], shown["problems"]) == ("needs-input", "answer-timeout", [])
    assert workshop.run("answer", str(handle), "This one", "--json", check=True).json["resumed"] is True
    shown = workshop.run("wait", str(handle), "--json").json
    assert (shown["status"], shown["summary"], len(shown["runs"])) == ("completed", "This one", 2)


def test_parked_by_the_project_s(workshop: ProjectDir) -> None:
    handle = delegate(workshop, "asks", "--set", "limits.answer_wait=1s", "--set", "limits.stop_grace=1s")
    shown = workshop.run("wait", str(handle), "--json").json
    assert (shown["status"], shown["cause"]) == ("needs-input", "answer-timeout")
    workshop.run("answer", str(handle), "red", check=True)
    assert workshop.run("wait", str(handle), "--json").json["summary"] == "It is red."


# what each ends with
ENDS = {
    "copes": ("needs-input", "Took the first, for 1 is open."),
    "wrong": ("completed", "VALIDATION_FAILED: --closed needs options to choose from."),
    "cancels": ("needs-input", "Enough."),
}


@pytest.mark.parametrize("agent", ENDS)
def test_without_an_answer(workshop: ProjectDir, agent: str) -> None:
    shown = workshop.run("wait", str(delegate(workshop, agent)), "--json").json
    assert (shown["status"], shown["summary"]) == ENDS[agent]


def test_killed_while_it_waits(workshop: ProjectDir) -> None:
    handle = delegate(workshop, "asks")
    task = asked(workshop, handle)
    place = workshop.task_record(task.id) / "runs" / task.runs[0].id
    kill(int((place / "pid").read_text()))
    shown = workshop.run("wait", str(handle), "--json").json
    assert (shown["status"], shown["cause"], shown["questions"][0]["answered"]) == ("needs-input", "killed", None)
    assert workshop.run("monitor", str(handle)).code == 2
    store = Store(str(workshop.path))
    until(lambda: not has_leftovers(store, state_of(workshop, handle)), "the end of its call")
    assert workshop.run("answer", str(handle), "red", "--json", check=True).json["resumed"] is True
    assert workshop.run("wait", str(handle), "--json").json["summary"] == "It is red."
