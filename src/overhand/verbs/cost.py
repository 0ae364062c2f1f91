"""`list --cost`: what each task has used, what those below it have, today's sum and the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.policy import budget
from overhand.runs import spending

if TYPE_CHECKING:
    from overhand.record.task import Amount, Task
    from overhand.verbs import Session

_USAGE = ("input", "output", "tokens", "usd", "estimated", "turns", "used_of_budget")


def costs(session: Session, states: list[Task], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of `list` with what was used, each task followed by what it delegated, and the sums."""
    states = [with_reports(session, task) for task in states]
    known = {task.id for task in states}
    below: dict[str | None, list[Task]] = {}
    for task in states:
        parent = task.parent.task if task.parent else None
        below.setdefault(parent if parent in known else None, []).append(task)
    shown = {
        row["task_id"]: {**row, **_cost(task, below.get(task.id, []))} for row, task in zip(rows, states, strict=True)
    }
    ordered: list[dict[str, Any]] = []

    def add(task: Task, level: int) -> list[Task]:
        row = shown[task.id]
        ordered.append(row)
        family = [task]
        for child in below.get(task.id, []):
            family += add(child, level + 1)
        row.update(indent=level, tree={**_sum(family), "tasks": len(family)})
        return family

    for root in below.get(None, []):
        add(root, 0)
    return {"tasks": ordered, "today": vars(spending.spent_today(session.store).rounded()), "total": _sum(states)}


def with_reports(session: Session, task: Task) -> Task:
    """The same task with what its live run has reported by now."""
    for run in task.runs:
        if not run.is_judged:
            place = session.store.run_folder(task.id, run.id)
            run.usage = spending.reported(place) or run.usage
    return task


def _cost(task: Task, below: list[Task]) -> dict[str, Any]:
    usage = budget.usage_of(task)
    if task.is_plan:
        usage = budget.with_nodes(usage, [budget.usage_of(one) for one in below if one.node])
    return {**{key: usage[key] for key in _USAGE}, "budget": usage["budget"]["text"] if usage["budget"] else None}


def _sum(states: list[Task]) -> dict[str, Any]:
    spent: Amount = budget.total(states).rounded()
    estimated = any(run.usage.estimated for task in states for run in task.runs if run.usage)
    return {**vars(spent), "estimated": estimated}
