"""How the task of a node stands, as its plan sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import progress

if TYPE_CHECKING:
    from overhand.record.task import Task

NEWS = {  # states of a node to which a situation of its task is news
    "ended": (progress.STARTING, progress.RUNNING, progress.WAITING, progress.STOPPING),
    "waiting": (progress.STARTING, progress.RUNNING),
    "working": (progress.WAITING,),
}


def attempt_of(child: Task) -> int:
    """The attempt of its node that a task is at: the first one made it, each later one is known by its cause."""
    causes = [cause.split(".")[-2:] for cause in child.causes if cause.endswith(".Start")]
    return max((int(attempt) for attempt, _ in causes), default=1)


def is_unbegun(child: Task, attempt: int) -> bool:
    """Whether this attempt was to be made by a function of a process that died before it was."""
    at_rest = not child.queued and child.current_run is None
    return at_rest and (attempt_of(child) != attempt or (child.status is None and not child.runs))


def situation(child: Task) -> str:
    """`ended`, `waiting` for a person, a provider or what it delegated, or `working`."""
    current = child.current_run
    if child.queued:
        return "waiting" if child.paused and "to" not in child.paused else "working"
    if current is not None:
        return "waiting" if current.waiting is not None else "working"
    if child.status is None:
        return "working"
    if child.status == "needs-input" and child.open_questions:
        return "waiting"
    if child.status == "blocked" and child.runs and child.awaited_children(child.runs[-1].id):
        return "waiting"
    return "ended"


def waits_for(child: Task) -> str:
    """In a word."""
    if child.queued:
        return "its provider"
    return "an answer" if child.open_questions else "what it delegated"
