"""The next step for a task, from what its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from overhand.record.task import Task

Step = Literal["queue", "cancel", "rest", "judge", "leave", "plan", "attached", "watch"]

STEPS: dict[Step, str] = {
    "queue": "It is queued: it starts when the caps allow it.",
    "cancel": "It is queued and was stopped: it ends before it begins.",
    "rest": "No run holds it: its parent may be owed a report, and its tag an update.",
    "judge": "Its run has ended: it is judged.",
    "leave": "Its run is on another machine: only a person settles it.",
    "plan": "It is a plan: its nodes are executed.",
    "attached": "Its run is part of another process, which looks after it as long as it lives.",
    "watch": "Its run may be alive: it is adopted.",
}


def next_step(task: Task, machine: str) -> Step:
    """What a supervisor on this machine does for the task."""
    current = task.current_run
    if task.queued:
        return "cancel" if task.stop else "queue"
    if current is None:
        return "rest"
    if current.has_ended:
        return "judge"
    if current.machine not in ("", machine):
        return "leave"
    if current.is_plan_run:
        return "plan"
    return "attached" if current.attached else "watch"
