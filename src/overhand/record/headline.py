"""The one word that people see for where a task stands."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record.task import Task
    from overhand.words import Headline


def headline_of(task: Task) -> Headline:
    """The one grouping people see."""
    status = task.status
    if status in ("needs-input", "blocked"):
        return "needs you"
    if status not in ("completed", "cancelled", "rejected") and not task.queued and task.open_questions:
        return "needs you"
    if status == "completed":
        return "done" if task.seen else "ready"
    if status is not None:
        return "stopped"
    if task.queued and task.paused and "to" not in task.paused:
        return "working"  # it waits for its provider
    if is_for_a_person(task):
        return "needs you"
    return "working" if task.current_run and not task.queued else "queued"


def is_for_a_person(task: Task) -> bool:
    """Whether it is an approved item that a person is to open: its route says so."""
    item, shown = task.item, task.tag
    if item is None or shown is None or item.mode != "interactive" or shown.stage != "delegated":
        return False
    return task.status is None and not task.queued and not task.staged and task.current_run is None
