"""Whether a task continues by itself: every order of question, answer, end and verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.questions import ended_waiting, next_run_after_result, next_run_after_verdict, question_in_return
from overhand.questions.resume import next_run_after_answer
from overhand.record import Accepted, Judged, Notice, fold

if TYPE_CHECKING:
    from overhand.record import Task

Line = dict[str, Any]
RUN = "sess_1700000000_abc123"
CREATED: Line = {"e": "created", "v": 1, "task": "worker-1", "handle": 1, "agent": "worker"}
STARTED: list[Line] = [{"e": "accepted"}, {"e": "run.created", "run": RUN}, {"e": "run.started", "run": RUN}]
SHORT = ("needs-input", "blocked", "partial", "failed")
STATUSES = (*SHORT, "completed", "cancelled")
VIAS = ("file", "ask", "pause", "call", "return", "permission", "control", "child")


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}Z"


def asked(seq: int = 1, via: str = "ask") -> Line:
    return {"e": "asked", "seq": seq, "question": "Which?", "via": via, "run": RUN, "t": at(1)}


def answered(seq: int = 1, second: int = 9) -> Line:
    return {"e": "answered", "seq": seq, "answer": "this", "via": "cli", "t": at(second)}


def ended(cause: str = "exit") -> Line:
    return {"e": "run.ended", "run": RUN, "cause": cause, "exit": 0, "t": at(5)}


def delegated(child: str, run: str = RUN) -> Line:
    return {"e": "control", "command": "DELEGATE", "arg": "", "run": run, "at": child, "ok": True, "child": child}


def verdict(status: Any = "blocked", claimed: str | None = None) -> Judged:
    return Judged(run=RUN, status=status, claimed=claimed, summary="s")


def task_of(*lines: Line) -> Task:
    return fold("worker-1", [CREATED, *STARTED, *lines])


def after_verdict(task: Task, judged: Judged, *, leftovers: bool = False) -> Accepted | Notice | None:
    return next_run_after_verdict(task, task.runs[-1], judged, leftovers=leftovers)


def why(found: object) -> str:
    assert isinstance(found, Accepted)
    assert found.resume is not None
    assert found.resume["run"] == RUN
    return str(found.resume["why"])


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Anything that may have happened to a task until its run ended."""
    lines: list[Line] = []
    for seq in range(1, draw(st.integers(0, 3)) + 1):
        lines.append(asked(seq, draw(st.sampled_from(VIAS))))
        if draw(st.booleans()):
            lines.append(answered(seq, draw(st.integers(2, 9))))
    lines += [delegated(f"child-{child}") for child in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        lines.append({"e": "message", "text": "Use tabs."})
    if draw(st.integers(0, 3)) == 0:
        lines.append({"e": "stop", "why": "x"})
    lines.append(ended(draw(st.sampled_from(("exit", "answer-timeout", "budget", "timeout")))))
    task = task_of(*lines)
    task.runs[-1].attached = draw(st.integers(0, 5)) == 0
    return task


@given(tasks(), st.sampled_from(STATUSES), st.sampled_from((None, *SHORT)))
def test_what_a_verdict_may_start(task: Task, status: str, claimed: str | None) -> None:
    judged = verdict(status, claimed)
    found = after_verdict(task, judged)
    assert after_verdict(task, judged, leftovers=True) is None, "nothing is started beside leftovers"
    if found is not None:
        assert not task.open_questions
        assert not task.runs[-1].attached
        assert status != "cancelled"
        assert why(found) in ("a message", "it was answered")
        if why(found) == "it was answered":
            assert status in SHORT
            assert ended_waiting(task, task.runs[-1])


@given(tasks(), st.sampled_from(STATUSES))
def test_what_an_answer_may_start(task: Task, status: str) -> None:
    judged = verdict(status)
    judged.apply(task)
    for question in task.open_questions:
        found = next_run_after_answer(task, question, leftovers=False)
        assert next_run_after_answer(task, question, leftovers=True) is None
        may = status in SHORT and len(task.open_questions) == 1 and not task.runs[-1].attached
        assert (found is not None) == may
        if found is not None:
            assert why(found) == f"question {question.seq} was answered"
            found.apply(task)
            assert task.queued
            assert next_run_after_answer(task, question, leftovers=False) is None, "once"
            return


@pytest.mark.parametrize("status", SHORT)
@pytest.mark.parametrize("via", ["ask", "file", "call", "pause", "permission"])
def test_an_answer_and_the_verdict_in_either_order_start_the_next_run(status: str, via: str) -> None:
    """The run was parked: whichever is recorded first, the second continues the task."""
    judged = verdict(status)
    first = task_of(asked(via=via), ended("answer-timeout"), answered())
    assert why(after_verdict(first, judged)) == "it was answered"
    second = task_of(asked(via=via), ended("answer-timeout"))
    assert after_verdict(second, judged) is None
    judged.apply(second)
    assert why(next_run_after_answer(second, second.questions[0], leftovers=False)) == "question 1 was answered"


def test_an_answer_in_time_leaves_the_claim_to_the_run() -> None:
    assert after_verdict(task_of(asked(), answered(second=2), ended()), verdict("partial", "partial")) is None
    assert (
        after_verdict(task_of(asked(via="pause"), answered(second=2), ended()), verdict("partial", "partial")) is None
    )
    assert why(after_verdict(task_of(asked(via="pause"), answered(second=2), ended()), verdict())) == "it was answered"


def test_a_run_that_called_for_a_person_waits_for_one() -> None:
    called: Line = {"e": "control", "command": "ESCALATE", "arg": "", "run": RUN, "at": "0", "ok": True, "reason": ""}
    assert after_verdict(task_of(asked(), called, ended(), answered()), verdict()) is None
    parent = task_of(delegated("child-1"), called, ended())
    verdict().apply(parent)
    assert next_run_after_result(parent, RUN, "child-1", leftovers=False) is None


def test_the_last_result_continues_the_run_that_waits_for_it() -> None:
    parent = task_of(delegated("child-1"), delegated("child-2"), ended())
    assert parent.awaited_children(RUN) == ["child-1", "child-2"]
    verdict().apply(parent)
    assert next_run_after_result(parent, RUN, "child-1", leftovers=False) is None, "the other is at work"
    parent.causes["child:child-1"] = "asked"
    assert next_run_after_result(parent, RUN, "child-2", leftovers=True) is None
    assert next_run_after_result(parent, "sess_1700000000_other1", "child-2", leftovers=False) is None
    assert why(next_run_after_result(parent, RUN, "child-2", leftovers=False)) == "it was answered"


def test_a_task_that_only_delegates_is_left_to_a_person() -> None:
    earlier = [delegated(f"child-{n}", run=f"run-{n}") for n in range(9)]
    parent = task_of(*earlier, delegated("child-9"), ended())
    verdict().apply(parent)
    found = next_run_after_result(parent, RUN, "child-9", leftovers=False)
    assert isinstance(found, Notice)
    assert "a person decides" in found.text
    asking = task_of(*earlier, delegated("child-9"), asked(via="pause"), answered(), ended())
    verdict().apply(asking)
    assert why(next_run_after_result(asking, RUN, "child-9", leftovers=False)) == "it was answered"


def test_the_question_of_a_return() -> None:
    task = task_of(ended())
    run = task.runs[-1]
    assert question_in_return(task, run, "Which?", "Say which.") == "Which?\n\nSay which."
    assert question_in_return(task, run, "Which?", "Which?") == "Which?"
    assert question_in_return(task_of(asked(), ended()), run, "Which?", "") == "", "something is open already"
    crashed = task_of(asked(via="return"), ended(), answered())
    assert question_in_return(crashed, run, "Which?", "") == "", "it was recorded before a crash"
