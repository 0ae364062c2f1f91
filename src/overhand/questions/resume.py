"""Whether a task continues by itself: after an answer, after a verdict, after the result of a task it delegated.

Pure. `leftovers` says whether processes of its last run are still there: nothing is started beside them.
"""

from __future__ import annotations

from overhand.record import Accepted, Notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record import Judged, Question, Run, Task

_ENDED_SHORT = ("needs-input", "blocked", "partial", "failed")
_HANDED_OVER = ("child", "control")  # what came without a person
_ROUNDS = 10  # runs of a task that may each delegate and be followed by the next without a person


def next_run_after_answer(task: Task, question: Question, *, leftovers: bool) -> Accepted | None:
    """The next run, if this was the last open question of a task that ended short: the answer is the approval."""
    if leftovers or not _may_continue(task, question):
        return None
    return _continuation(task, f"question {question.seq} was answered")


def next_run_after_verdict(task: Task, run: Run, judged: Judged, *, leftovers: bool) -> Accepted | Notice | None:
    """The next run, if a message came while the run worked, or the answer while it was being ended.

    To be recorded with the verdict in one write: a crash between them would leave an answered task at rest.
    """
    if leftovers:
        return None
    is_over = judged.status == "cancelled" or run.cause == "budget"
    if task.pending_messages and not (task.open_questions or run.attached or is_over):
        return Accepted(resume={"run": run.id, "why": "a message"})
    if not ended_waiting(task, run):
        return None
    if task.escalation(run.id) or (judged.claimed and not _was_answered_late(task, run)):
        return None  # it wants a person; or it had its answer in time, and its return says how far it got
    return _next_round(task.but(status=judged.status, queued=False, stop=None), run.id)


def next_run_after_result(task: Task, run_id: str, child: str, *, leftovers: bool) -> Accepted | Notice | None:
    """The next run, if this child's was the last result that the run ended to wait for."""
    last = task.last_run
    if leftovers or last is None or last.id != run_id or task.status != "blocked":
        return None
    if task.escalation(run_id) or any(other != child for other in task.awaited_children(run_id)):
        return None
    return _next_round(task, run_id, asked=True)


def ended_waiting(task: Task, run: Run) -> bool:
    """Whether the run ended because, or while, it waited for an answer that has come since, or that ends its turn."""
    ends_turn = any(q.run == run.id and q.via in ("pause", "child") for q in task.questions)
    return ends_turn or _was_answered_late(task, run)


def question_in_return(task: Task, run: Run, summary: str, details: str) -> str:
    """The question that a return with `needs-input` asks; either text may hold it.

    Empty if something is open already, or if this very return was recorded as a question before a crash.
    """
    if any(q.is_open or (q.via == "return" and q.run == run.id) for q in task.questions):
        return ""
    return "\n\n".join(dict.fromkeys(part for part in (summary, details) if part))


def _was_answered_late(task: Task, run: Run) -> bool:
    """Whether the run was ended for want of an answer, or one came after its end; a checkpoint it reads is none."""
    return run.cause == "answer-timeout" or any(
        q.run == run.id and q.via != "control" and (q.answered or "") >= (run.ended or "") for q in task.questions
    )


def _may_continue(task: Task, answered: Question | None = None, *, asked: bool = False) -> bool:
    """Whether the task ended short, was asked for something, and nothing else of it is open or under way."""
    last = task.last_run
    if task.status not in _ENDED_SHORT or last is None or last.attached or task.queued or task.stop:
        return False
    asked = asked or task.status == "needs-input" or bool(task.questions)
    return asked and all(question is answered for question in task.open_questions)


def _next_round(task: Task, run_id: str, *, asked: bool = False) -> Accepted | Notice | None:
    """The next run, now that nothing is open; a task that only delegates, run after run, is left to a person."""
    if not _may_continue(task, asked=asked):
        return None
    rounds = {control.run for control in task.controls if control.child}
    by_itself = all(q.via in _HANDED_OVER for q in task.questions if q.run == run_id)
    if by_itself and len(rounds) >= _ROUNDS:
        return Notice(text=f"It delegated in {_ROUNDS} runs and went on by itself; now a person decides.")
    return _continuation(task, "it was answered")


def _continuation(task: Task, why: str) -> Accepted:
    return Accepted(resume={"run": task.runs[-1].id, "why": why})
