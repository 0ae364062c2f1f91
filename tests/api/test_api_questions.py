"""Functions in a process of their own ask; real answers come from outside, or never."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from api.host import host
from overhand import Project
from overhand.errors import BadInput, Refused
from overhand.testing import functions
from support.scene import Scene, kill, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.agents import Call
    from overhand.testing.project import ProjectDir

ASKER = """
with Project(".", max_parallel=1) as p:
    {decorate}
    {define} asker(call):
        return "It is " + {ask}("Which?", ["red", "blue"], closed=True, step="Paint", timeout={timeout}) + "."
    say(*told(p.delegate("Paint it", agent="asker"{more}).wait()))
"""
DECORATE = '@p.agent("asker")'
SYNC = {"decorate": DECORATE, "define": "def", "ask": "call.ask", "timeout": "None", "more": ""}
ASYNC = {**SYNC, "define": "async def", "ask": "await call.ask_async"}


@pytest.fixture
def project(overhand_project: ProjectDir) -> Iterator[Project]:
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path) as opened:
        yield opened


@pytest.mark.parametrize("how", [SYNC, ASYNC], ids=["sync", "async"])
def test_a_function_asks_and_goes_on(overhand_project: ProjectDir, how: dict[str, str]) -> None:
    there = host(overhand_project, ASKER.format(**how))
    there.asked()
    (asked,) = there.state().questions
    assert (asked.text, asked.options, asked.closed) == ("Which?", ["red", "blue"], True)
    assert (asked.step, asked.via) == ("Paint", "call")
    shown = overhand_project.run("show", "1", "--json").json
    assert (shown["headline"], shown["run_state"]) == ("needs you", "waiting")
    assert overhand_project.run("monitor", "1").code == 0
    assert overhand_project.run("answer", "1", "green").code == 2, "only the options will do"
    until(lambda: there.state().runs[0].waiting, "known to be blocked")
    assert there.answer("1", "2")["answer"] in ("2", "blue")
    assert there.says() == ["completed", "exit", "It is blue."]
    there.end()
    names = [event["e"] for event in there.events()]
    kept = ["asked", "run.waiting", "answered", "run.going", "run.ended", "judged"]
    assert [name for name in names if name in kept] == kept


def test_an_answer_in_a_file_is_none(overhand_project: ProjectDir) -> None:
    there = host(overhand_project, ASKER.format(**SYNC))
    there.asked()
    (question,) = overhand_project.path.glob(".agent-workspaces/*/ipc/001.question")
    question.with_suffix(".tmp").write_text('{"seq": 1, "timestamp": "2026-01-01T00:00:00Z", "answer": "red"}')
    question.with_suffix(".tmp").rename(question.with_suffix(".answer"))
    shown = overhand_project.run("show", "1", "--json").json
    assert any("is no answer" in text for text in shown["notices"])
    there.answer("1", "blue")
    assert there.says() == ["completed", "exit", "It is blue."]
    there.end()
    assert there.state().questions[0].answer == "blue"


@pytest.mark.parametrize("how", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("whose", ["setting", "own"])
def test_nobody_answers(overhand_project: ProjectDir, how: dict[str, str], whose: str) -> None:
    more = {"more": ', set=["limits.answer_wait=0.3s"]'} if whose == "setting" else {"timeout": "0.3"}
    there = host(overhand_project, ASKER.format(**{**how, **more}))
    assert there.says() == ["needs-input", "answer-timeout", "It waits for an answer."]
    there.end()
    shown = overhand_project.run("show", "1", "--json").json
    assert (shown["headline"], shown["status"], shown["problems"]) == ("needs you", "needs-input", [])
    assert [(q["seq"], q["answered"]) for q in shown["questions"]] == [(1, None)]
    context = (overhand_project.path / str(shown["context"])).read_text()
    assert "Question 1 is open: Which?" in context
    assert overhand_project.run("list", "--resumable", "--json").json["tasks"][0]["handle"] == 1
    assert there.answer("1", "blue")["resumed"] is False, "nobody but its own process can call the function"
    refused = overhand_project.run("resume", "1")
    assert (refused.code, "project.resume(1)" in refused.err) == (3, True)
    again = host(
        overhand_project,
        f"""
        with Project(".") as p:
            {how["decorate"]}
            {how["define"]} asker(call):
                assert "**Answer:** blue" in call.prompt and "Previous Worker Context" in call.prompt
                return "Now " + {how["ask"]}("Which?", ["red", "blue"], closed=True, step="Paint") + "."
            say(*told(p.resume(1).wait()))
        """,
    )
    assert again.says() == ["completed", "exit", "Now blue."], "the answer that came meanwhile counts"
    again.end()
    task = again.state()
    assert [run.status for run in task.runs] == ["needs-input", "completed"]
    assert len(task.questions) == 1


def test_a_function_may_go_on_without_the_answer(project: Project) -> None:
    @project.agent("asker")
    def ask(call: Call) -> str:
        try:
            return call.ask("Which?", timeout=0.05)
        except TimeoutError as error:
            return f"{type(error).__name__}: I took the first."

    result = project.delegate("Ask", agent="asker").wait()
    assert (result.status, result.summary) == ("needs-input", "Unanswered: I took the first.")
    assert (result.cause, [problem["code"] for problem in result.problems]) == ("exit", ["question-open"])


def test_many_wait_at_once_and_are_answered_in_any_order(overhand_project: ProjectDir) -> None:
    there = host(
        overhand_project,
        """
        with Project(".", max_parallel=2) as p:
            @p.agent("even")
            def even(call):
                return call.ask(f"What of {call.title}?")
            @p.agent("odd")
            async def odd(call):
                return await call.ask_async(f"What of {call.title}?")
            tasks = p.delegate_all([{"title": f"T{n}", "agent": ("even", "odd")[n % 2]} for n in range(20)])
            say([task.handle for task in tasks])
            for task in tasks:
                say(*told(task.wait()))
        """,
    )
    assert there.says() == [list(range(1, 21))]
    for handle in range(1, 21):
        there.asked(handle=handle)
    listed = overhand_project.run("answer", "--json").json["questions"]
    assert len(listed) == 20
    for handle in [*range(20, 0, -2), *range(1, 21, 2)]:
        there.answer(str(handle), f"Answer {handle}")
    assert [there.says() for _ in range(20)] == [["completed", "exit", f"Answer {n}"] for n in range(1, 21)]
    there.end()


def test_one_function_with_several_questions(overhand_project: ProjectDir) -> None:
    there = host(
        overhand_project,
        """
        with Project(".") as p:
            @p.agent("asker")
            async def asker(call):
                return " ".join(await asyncio.gather(*(call.ask_async(f"Question {c}?") for c in "abc")))
            say(*told(p.delegate("Ask", agent="asker").wait()))
        """,
    )
    there.asked(3)
    until(lambda: len(list(overhand_project.path.glob(".agent-workspaces/*/runs/*/waiting/ask-*"))) == 3, "all to wait")
    by_text = {q.text[9]: q.seq for q in there.state().questions}
    assert overhand_project.run("answer", "1", "to whom?").code == 2
    for letter in "cab":
        there.answer("1", str(by_text[letter]), letter.upper())
    assert there.says() == ["completed", "exit", "A B C"]
    there.end()
    events = [event["e"] for event in there.events()]
    assert (events.count("run.waiting"), events.count("run.going")) == (1, 1)


def test_cancelling_gives_up_waiting(project: Project) -> None:
    @project.agent("asker")
    async def ask(call: Call) -> str:
        try:
            return await asyncio.wait_for(call.ask_async("Which?"), 0.2)
        except TimeoutError:
            return "Enough."

    assert project.delegate("Ask", agent="asker").wait().summary == "Enough."


def test_its_clock_stands_still(overhand_project: ProjectDir) -> None:
    """Its time is over long before the answer comes, and yet it has most of it left."""
    there = host(overhand_project, ASKER.format(**{**SYNC, "more": ', timeout="10s"'}))
    there.asked()
    began = until(lambda: there.state().runs[0].waiting, "known to be blocked")
    until(lambda: time.monotonic() > began + 10.5, "its time to be over")
    there.answer("1", "red")
    assert there.says() == ["completed", "exit", "It is red."]
    there.end()
    assert there.state().runs[0].waited > there.state().timeout


def test_past_its_deadline_before_it_asks(project: Project) -> None:
    gate, caught = threading.Event(), threading.Event()

    @project.agent("slow")
    def slow(call: Call) -> str:
        gate.wait()
        with pytest.raises(Refused, match="no longer holds"):
            call.ask("Which?")
        caught.set()
        return "Late."

    result = project.delegate("Hurry", agent="slow", timeout="0.2s").wait()
    gate.set()
    assert caught.wait(30)
    assert (result.status, result.questions) == ("failed", [])


def test_stopped_while_it_waits(overhand_project: ProjectDir) -> None:
    there = host(overhand_project, ASKER.format(**SYNC))
    there.asked()
    assert overhand_project.run("stop", "1", "--json").json["tasks"][0]["status"] == "cancelled"
    assert there.says()[:2] == ["cancelled", "cancelled"]
    there.end()


def test_killed_while_it_waits(overhand_project: ProjectDir) -> None:
    there = host(overhand_project, ASKER.format(**SYNC))
    there.asked()
    kill(there.process.pid)
    there.process.communicate()
    ran = overhand_project.run("monitor", "1", "--json")
    assert (ran.code, ran.json["status"], ran.json["questions"][0]["seq"]) == (2, "needs-input", 1)
    shown = overhand_project.run("show", "1", "--json").json
    assert (shown["cause"], shown["headline"], shown["questions"][0]["answered"]) == ("lost", "needs you", None)
    assert overhand_project.run("list", "--resumable", "--json").json["tasks"][0]["handle"] == 1
    again = host(overhand_project, ASKER.format(**SYNC).replace('p.delegate("Paint it", agent="asker")',
                                                                'p.resume(1, answer="blue")'))  # fmt: skip
    assert again.says() == ["completed", "exit", "It is blue."]
    again.end()


def test_a_dead_run_is_not_said_to_ask(overhand_project: ProjectDir) -> None:
    """A supervisor is at work, and has not come to it yet."""
    scene = Scene(overhand_project)
    overhand_project.agent("sleeper", command=["sleep", "1000"])
    there = host(overhand_project, ASKER.format(**SYNC))
    there.asked()
    overhand_project.run("delegate", "Rest", "--agent", "sleeper", check=True)
    task_id = scene.store.resolve("1")
    until(lambda: there.state().runs[0].waiting, "known to be blocked")
    with scene.store.lock(task_id, {"kind": "person", "via": "test"}):
        kill(there.process.pid)
        there.process.communicate()
        monitor = overhand_project.start("monitor", "1", "--json")
        waiters = Path(scene.store.record(task_id), ".waiters")
        until(lambda: len(list(waiters.glob(f"{monitor.pid}-*"))) == 2 or monitor.poll() is not None, "it to wait")
        assert monitor.poll() is None
    told = json.loads(monitor.communicate()[0])
    assert (monitor.returncode, told["what"], told["status"]) == (2, "output", "needs-input")
    overhand_project.run("stop", "2", "--now", check=True)


# ---- from Python


def test_answer_questions_and_resume_from_python(project: Project) -> None:
    project.agent("asker")(functions.consults("Which?", ["red", "blue"]))
    task = project.delegate("Paint it", agent="asker", set=["limits.answer_wait=0"])
    until(project.questions, "the question")
    (asked,) = project.questions()
    assert (asked["task_id"], asked["question"], asked["options"]) == (task.id, "Which?", ["red", "blue"])
    assert task.answer("blue")["left"] == 0
    assert (task.wait().summary, project.questions()) == ("blue", [])
    with pytest.raises(Refused, match="completed"):
        task.resume()


def test_a_parked_function_is_resumed_where_it_lives(project: Project) -> None:
    calls: list[str] = []

    @project.agent("asker")
    def ask(call: Call) -> str:
        calls.append(call.prompt)
        return call.ask("Which?")

    task = project.delegate("Ask", agent="asker", set=["limits.answer_wait=0.1s"])
    first = task.wait()
    assert (first.status, [q["question"] for q in first.questions]) == ("needs-input", ["Which?"])
    with pytest.raises(Refused, match="waits for an answer"):
        project.resume(task)
    assert project.resume(task, answer="This") is task
    assert (task.wait().summary, len(calls)) == ("This", 2)
    assert "Previous Worker Context" not in calls[0]
    assert "**Answer:** This" in calls[1]
    assert (task.folder / "runs" / first.runs[0]["id"] / "CONTEXT.md").exists()
    assert not (task.folder / "CONTEXT.md").exists()
    with pytest.raises(Refused, match="completed"):
        project.run(task.id)


def test_a_return_that_needs_input_is_a_question_too(project: Project) -> None:
    @project.agent("asker")
    def ask(call: Call) -> dict[str, str]:
        if "**Answer:** Blue" in call.prompt:
            return {"summary": "Painted."}
        return {"status": "needs-input", "summary": "Half done.", "next_steps": "Which colour?"}

    task = project.delegate("Paint", agent="asker")
    assert task.wait().status == "needs-input"
    assert [q["question"] for q in project.questions()] == ["Half done.\n\nWhich colour?"]
    assert task.resume("Blue").wait().summary == "Painted."


def test_a_failed_function_runs_again(project: Project) -> None:
    outcomes = iter([RuntimeError("dry"), None])

    @project.agent("pump")
    def pump(call: Call) -> str:
        error = next(outcomes)
        if error is not None:
            raise error
        return "Wet."

    task = project.delegate("Pump", agent="pump")
    assert task.wait().status == "failed"
    assert project.run(task.id).wait().summary == "Wet."
    with pytest.raises(Refused, match="has not run yet"):
        project.resume(project.delegate("Later", agent="pump", no_start=True))


def test_tasks_of_the_supervisor_through_the_same_methods(project: Project, overhand_project: ProjectDir) -> None:
    overhand_project.agent("asker", "overhand-ask:Which?=red|blue", "output")
    overhand_project.run("trust", "--yes", check=True)
    task = project.delegate("Ask", agent="asker", set=["limits.answer_wait=0.5s", "limits.stop_grace=0.2s"])
    parked = task.wait()
    assert (parked.status, parked.cause, parked.questions[0]["options"]) == (
        "needs-input", "answer-timeout", ["red", "blue"],
    )  # fmt: skip
    assert project.answer(task, "red")["resumed"] is True
    assert task.wait().status == "completed"
    overhand_project.agent("quitter", "output:status=failed")
    overhand_project.run("trust", "--yes", check=True)
    failed = project.delegate("Fail", agent="quitter")
    assert failed.wait().status == "failed"
    assert failed.resume("Try the worker", agent="worker").wait().status == "completed"
    assert "Try the worker" in (failed.folder / "HANDOFF.md").read_text()


def test_ask_in_an_async_function_is_told_how(project: Project) -> None:
    @project.agent("asker")
    async def ask(call: Call) -> str:
        with pytest.raises(BadInput, match="hold up every other"):
            call.ask("Which?")
        with pytest.raises(BadInput, match="empty"):
            await call.ask_async(" ")
        return "Told."

    assert project.delegate("Ask", agent="asker").wait().summary == "Told."
