"""Overhand from Python: projects, tasks, results, and functions as agents in this very process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import overhand
from overhand import Project, Result
from overhand.errors import AgentNotFound, BadInput, CycleDetected, OverhandError, TaskNotFound, TimedOut, TooDeep
from overhand.testing import functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.agents import Call
    from overhand.testing.project import ProjectDir


@pytest.fixture
def project(overhand_project: ProjectDir) -> Iterator[Project]:
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path) as opened:
        yield opened


def codes(result: Result) -> list[str]:
    return [problem["code"] for problem in result.problems]


# ---- the names scripts rely on


def test_a_command_agent_from_python(project: Project) -> None:
    task = project.delegate("Do it", agent="worker", verify=["true"], deliverable=[])
    result = task.wait()
    assert (result.status, result.verification, result.ok, result.handle) == ("completed", "passing", True, task.handle)
    assert result.json["schema"] == "overhand.wait/1"
    assert task.folder.joinpath("HANDOFF.md").exists()
    assert project.task("-").id == project.task(1).id == project.task("do-it").id == task.id
    assert [row["title"] for row in project.tasks()] == ["Do it"]
    assert task.show().status == "completed"
    assert project.root.joinpath(str(result.output)).exists()


def test_a_result_has_the_names_of_the_json(project: Project, overhand_project: ProjectDir) -> None:
    result = project.delegate("Do it", agent="worker").wait()
    shown = overhand_project.run("show", "1", "--json").json
    assert (result.headline, shown["headline"]) == ("ready", "done"), "the program that asked for it has it now"
    names = [name for name in Result.__dataclass_fields__ if name not in ("json", "headline")]
    assert {name: getattr(result, name) for name in names} == {name: shown[name] for name in names}


def test_one_word_where_a_list_is_meant(project: Project) -> None:
    result = project.delegate("Do it", agent="worker", verify="true", step="Look", context="It is old.").wait()
    assert [check["command"] for check in result.checks] == ["true"]


def test_prepared_and_run(project: Project) -> None:
    task = project.delegate("Later", agent="worker", no_start=True)
    assert task.show().run_state is None
    assert project.run(task.id).wait().status == "completed"


def test_the_package_has_three_names() -> None:
    assert {"Project", "Result", "Task"} <= set(overhand.__all__)
    with pytest.raises(AttributeError):
        getattr(overhand, "Nothing")  # noqa: B009 -- a type checker refuses the plain way


def test_errors_are_exceptions(project: Project) -> None:
    with pytest.raises(AgentNotFound, match="Did you mean worker"):
        project.delegate("x", agent="wroker")
    with pytest.raises(BadInput):
        project.delegate("", agent="worker")
    with pytest.raises(TaskNotFound):
        project.task(99)
    with pytest.raises(BadInput):
        project.agent("Bad Name")
    with pytest.raises(TypeError, match="colour"):
        project.delegate("x", agent="worker", colour="red")  # type: ignore[call-arg]
    assert project.tasks() == []


def test_no_such_folder() -> None:
    with pytest.raises(OverhandError):
        Project("/nowhere/at/all")


# ---- functions in this process


CASES: dict[str, tuple[Any, str, list[str]]] = {
    "completes": (functions.completes("Tidied.", {"a.txt": "hi"}, data={"n": 1}), "completed", []),
    "text": (lambda call: f"Did {call.title}.", "completed", []),
    "blocked": (functions.reports("blocked"), "blocked", []),
    "partial": (functions.reports("partial"), "partial", []),
    "needs-input": (functions.reports("needs-input"), "needs-input", []),
    "claims-falsely": (functions.claims_falsely(), "failed", ["file-missing"]),
    "raises": (functions.raises(ValueError("no")), "failed", ["exit-not-zero"]),
    "leaves": (functions.raises(SystemExit(3)), "failed", ["exit-not-zero"]),
    "interrupts": (functions.raises(KeyboardInterrupt()), "failed", ["exit-not-zero"]),
    "nothing": (lambda _: None, "failed", ["return-missing"]),
    "number": (lambda _: 42, "failed", ["exit-not-zero"]),
    "unknown-name": (lambda _: {"summary": "x", "colour": "red"}, "failed", ["exit-not-zero"]),
    "not-json": (lambda _: {"summary": "x", "data": {1}}, "failed", ["exit-not-zero"]),
    "not-a-number": (lambda _: {"summary": "x", "data": float("inf")}, "failed", ["exit-not-zero"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_is_judged_like_any_agent(project: Project, name: str) -> None:
    function, status, problems = CASES[name]
    project.agent("fn")(function)
    result = project.delegate("Tidy", agent="fn").wait()
    assert (result.status, codes(result)) == (status, problems), result
    assert result.runs[0]["agent"] == "fn"


def test_rubbish_from_a_function(project: Project) -> None:
    project.agent("fn")(functions.returns_rubbish())
    result = project.delegate("Tidy", agent="fn").wait()
    assert result.status == "failed"
    assert "return-missing" in codes(result)


def test_a_function_writes_its_own_output(project: Project) -> None:
    @project.agent("writer")
    def write(call: Call) -> None:
        call.output.write_text(f"# Task Complete: x\n\n**Status:** completed\n\n## Summary\n{call.handoff.task}!\n")
        call.data_file.write_text('{"n": 2}')

    result = project.delegate("Write", agent="writer").wait()
    assert (result.status, result.summary, result.data) == ("completed", "Write!", {"n": 2})


def test_deliverables_and_checks_of_a_function(project: Project) -> None:
    project.agent("fn")(functions.completes(files={"a.txt": "hi"}))
    result = project.delegate("Write", agent="fn", deliverable=["a.txt", "b.txt"], verify=["test -s a.txt"]).wait()
    assert (result.status, result.verification, result.verified) == ("partial", "passing", False)
    assert (result.checks[0]["before"], result.checks[0]["exit"]) == (1, 0)


def test_a_setting_for_one_task(project: Project) -> None:
    project.agent("fn")(functions.completes())
    result = project.delegate("x", agent="fn", verify="exec sleep 600", set="limits.check_timeout=0.2s").wait()
    assert (result.status, result.checks[0]["timed_out"]) == ("failed", True)


def test_async_functions_and_awaiting(project: Project) -> None:
    gate = threading.Event()

    @project.agent("slow")
    async def slow(call: Call) -> str:
        await asyncio.to_thread(gate.wait)
        return f"{call.title} done."

    async def main() -> list[Result]:
        tasks = project.delegate_all([{"title": f"T{n}", "agent": "slow"} for n in range(3)])
        gate.set()
        return [await task for task in tasks]

    results = asyncio.run(main())
    assert [result.summary for result in results] == ["T0 done.", "T1 done.", "T2 done."]
    assert all(result.ok for result in results)


def test_delegate_all_mixes_functions_and_programs(project: Project) -> None:
    project.agent("fn")(lambda _: "Here.")
    tasks = project.delegate_all([{"title": "A", "agent": "fn"}, {"title": "B", "agent": "worker"}])
    assert [task.wait().summary for task in tasks] == ["Here.", "Did the scripted work."]
    assert project.delegate_all([]) == []


def test_a_refused_function_refuses_the_whole_batch(project: Project) -> None:
    project.agent("fn")(lambda _: "Here.")
    before = len(project.tasks())
    with pytest.raises(BadInput):
        project.delegate_all([{"title": "A", "agent": "fn"}, {"title": "B", "agent": "fn", "kind": "No Kind"}])
    assert len(project.tasks()) == before
    assert project.delegate("C", agent="fn").handle == before + 1


def test_functions_that_wait_for_each_other_are_all_at_work(overhand_project: ProjectDir) -> None:
    """One thread is not enough for those that block, however many are handed over at once."""
    meeting = threading.Barrier(40)
    with Project(overhand_project.path, max_parallel=0) as wide:
        wide.agent("fn")(lambda _: f"Number {meeting.wait(60)}.")
        tasks = wide.delegate_all([{"title": f"T{n}", "agent": "fn"} for n in range(40)])
        assert sorted(task.wait().summary for task in tasks) == sorted(f"Number {n}." for n in range(40))
        assert [task.handle for task in tasks] == list(range(1, 41))


def test_functions_that_wait_for_room_are_left_alone_by_the_supervisor(
    project: Project, overhand_project: ProjectDir
) -> None:
    begun, gate = threading.Event(), threading.Event()

    @project.agent("narrow")
    def narrow(call: Call) -> str:
        begun.set()
        gate.wait()
        return "Done."

    with Project(overhand_project.path, max_parallel=1) as single:
        single.agent("narrow")(narrow)
        tasks = single.delegate_all([{"title": f"T{n}", "agent": "narrow"} for n in range(3)])
        try:
            begun.wait()
            overhand_project.run("delegate", "Beside them", "--agent", "worker", "--wait", check=True)
            assert len(overhand_project.run("list", "--json").json["tasks"]) == 4
            assert tasks[2].stop().status == "cancelled"
        finally:
            gate.set()
    assert [task.wait().status for task in tasks] == ["completed", "completed", "cancelled"]


def test_nested_delegations_are_guarded_by_the_context(project: Project) -> None:
    refused: list[OverhandError] = []

    @project.agent("first")
    def first(call: Call) -> str:
        return project.delegate("Deeper", agent="second").wait().summary

    @project.agent("second")
    async def second(call: Call) -> str:
        with pytest.raises(CycleDetected) as caught:
            project.delegate("Back", agent="first")
        refused.append(caught.value)
        return (await project.delegate("Deepest", agent="third")).summary

    @project.agent("third")
    def third(call: Call) -> str:
        with pytest.raises(TooDeep) as caught:
            project.delegate("Too deep", agent="worker")
        refused.append(caught.value)
        return "At the bottom."

    result = project.delegate("Begin", agent="first").wait()
    assert (result.status, result.summary) == ("completed", "At the bottom.")
    assert [error.facts["path"] for error in refused] == [
        ["user", "first", "second", "first"],
        ["user", "first", "second", "third", "worker"],
    ]
    paths = {row["title"]: project.task(row["handle"]).show().json["path"] for row in project.tasks()}
    assert paths == {
        "Begin": ["user", "first"],
        "Deeper": ["user", "first", "second"],
        "Deepest": ["user", "first", "second", "third"],
    }


def test_outside_its_function_the_caller_is_a_person_again(project: Project) -> None:
    project.agent("fn")(lambda _: "Done.")
    for _ in range(2):
        assert project.delegate("x", agent="fn").wait().json["path"] == ["user", "fn"]


def test_a_reentrant_function(project: Project) -> None:
    @project.agent("loop", reentrant=True)
    def loop(call: Call) -> str:
        return "Bottom." if call.title == "2" else project.delegate("2", agent="loop").wait().summary

    assert project.delegate("1", agent="loop").wait().summary == "Bottom."


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_function_past_its_deadline_goes_unheard(project: Project, kind: str) -> None:
    gate = threading.Event()

    async def waits(call: Call) -> str:
        await asyncio.to_thread(gate.wait)
        return "Too late."

    project.agent("slow")(functions.hangs(gate) if kind == "sync" else waits)
    try:
        result = project.delegate("Hurry", agent="slow", timeout="0.2s").wait()
        assert (result.status, result.cause, codes(result)) == ("failed", "timeout", ["return-missing"])
    finally:
        gate.set()


def test_waiting_can_be_given_up(project: Project) -> None:
    gate = threading.Event()
    project.agent("slow")(functions.hangs(gate))
    task = project.delegate("Wait", agent="slow")
    try:
        with pytest.raises(TimedOut):
            task.wait(timeout=0.05)
    finally:
        gate.set()
    assert task.wait().status == "completed"


def test_leaving_the_project_waits_for_everything(overhand_project: ProjectDir) -> None:
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path, max_parallel=1) as single:
        single.agent("fn")(lambda _: "Done.")
        tasks = single.delegate_all([{"title": f"T{n}", "agent": "fn"} for n in range(4)])
    assert {task.show().status for task in tasks} == {"completed"}


def test_stopping_a_function_refuses_its_result(project: Project) -> None:
    begun, gate = threading.Event(), threading.Event()

    @project.agent("slow")
    def slow(call: Call) -> str:
        begun.set()
        gate.wait()
        return "Too late."

    task = project.delegate("Wait", agent="slow")
    begun.wait()
    try:
        assert task.stop(now=True).status == "cancelled"
    finally:
        gate.set()
    assert task.wait().status == "cancelled"
    project.close()
    (kept,) = Path(project.session.store.record(task.id)).glob("runs/*/late-result.json")
    assert "Too late." in kept.read_text()


def test_a_question_left_open_needs_the_person(project: Project) -> None:
    @project.agent("asker")
    def ask(call: Call) -> str:
        (call.ipc / "001.question").write_text('{"seq": 1, "question": "Which?"}')
        return "Done, I think."

    result = project.delegate("Ask", agent="asker").wait()
    assert (result.status, result.headline, codes(result)) == ("needs-input", "needs you", ["question-open"])
