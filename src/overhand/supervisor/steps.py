"""The next step for a task, from what its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from overhand.record import Task

Step = Literal["queue", "cancel", "rest", "judge", "leave", "plan", "attached", "watch"]


def next_step(task: Task, machine: str) -> Step:
    """What a supervisor on this machine does for the task."""
    current = task.current_run
    if task.queued:
        return "cancel" if task.stop else "queue"
    if current is None:
        return "rest"  # its parent may be owed a report, and its tag an update
    if current.has_ended:
        return "judge"
    if current.machine not in ("", machine):
        return "leave"  # only a person settles it
    if current.is_plan_run:
        return "plan"
    return "attached" if current.attached else "watch"  # attached: another process looks after it while that lives
