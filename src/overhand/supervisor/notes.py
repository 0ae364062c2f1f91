"""What is worth notifying a person of: from two states of a task, without I/O, to a note or none.

A note holds Overhand's own text, the title and the question, but nothing else that an agent printed or wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.words import SHOWN_VERIFICATIONS, STATUSES

if TYPE_CHECKING:
    from overhand.record import Question, Task

NEEDS = ("question", "parked", "blocked")  # a person must act before the task can continue
_OF_STATUS = {
    "completed": "ready",
    "needs-input": "parked",
    "blocked": "blocked",
    "failed": "stopped",
    "partial": "stopped",
    "rejected": "stopped",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to tell a person."""

    kind: str
    task_id: str
    handle: int | None
    title: str
    agent: str
    headline: str
    text: str
    command: str
    project: str
    key: str  # equal notes have equal keys, and are sent once


def note_of(before: Task | None, after: Task, root: str) -> Note | None:
    """What is new and worth a person's attention; of several things, the one that matters most.

    `before` is None if the task was not seen before: then only what waits for a person is worth a note.
    """
    for look in (_judged, _asked, _noticed, _spent):
        if found := look(before, after):
            kind, key, text = found
            return Note(
                kind=kind,
                task_id=after.id,
                handle=after.handle,
                title=after.title,
                agent=after.agent,
                headline=after.headline,
                text=text,
                command=f"overhand {'answer' if kind in NEEDS[:2] else 'show'} {after.name}",
                project=root.rstrip("/").rpartition("/")[2],
                key=f"{after.id} {kind} {key}",
            )
    return None


Found = tuple[str, str, str] | None  # kind, key, text


def _judged(before: Task | None, after: Task) -> Found:
    status = after.status
    kind = _OF_STATUS.get(status or "")
    if status is None or kind is None or after.seen:
        return None  # a person stopped it, or has seen it
    if before is not None and (before.judged, before.status) == (after.judged, status):
        return None
    if kind not in NEEDS and (before is None or after.parent):
        return None  # a child's result is for its parent
    return kind, after.judged or "", _verdict(after, kind, status)


def _verdict(task: Task, kind: str, status: str) -> str:
    waiting = task.open_questions
    if kind == "parked" and waiting:
        return f"It waits for an answer: {_text(waiting)}"
    if kind == "ready":
        return f"Judged completed, {SHOWN_VERIFICATIONS[task.verification]}."
    run = task.last_run
    cause = f" ({run.cause})" if run and run.cause not in (None, "exit") else ""
    return f"Judged {status}{cause}: {STATUSES[status]}."


def _asked(before: Task | None, after: Task) -> Found:
    if after.headline != "needs you":
        return None
    known = {question.seq for question in before.questions} if before else set()
    new = [question for question in after.open_questions if question.seq not in known]
    return ("question", str(new[-1].seq), f"{after.agent} asks: {_text(new)}") if new else None


def _text(questions: list[Question]) -> str:
    """The first of them, and how many more."""
    more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
    one = questions[0]
    options = f" [{' | '.join(one.options)}]" if one.options else ""
    return f"{one.text}{options}{more}"


def _noticed(before: Task | None, after: Task) -> Found:
    if before is None or after.status is not None or not after.notices or after.notices == before.notices:
        return None
    text = after.notices[-1]
    return "notice", f"{after.last_run.id if after.last_run else ''} {text}", text


def _spent(before: Task | None, after: Task) -> Found:
    if before is None or len(after.limits) <= len(before.limits):
        return None
    key = after.limits[-1]
    return "budget", key, f"A level of its budget was reached: {key}."
