"""What `show` and `wait` tell about a plan beside what they tell about any task: its nodes, and what they have used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.errors import NotFound, Refused
from overhand.policy import budget
from overhand.verbs.cost import with_reports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.record.task import Task
    from overhand.verbs import Session

    Row = dict[str, Any]

_MOST = 200  # nodes whose own results are read, to say what was checked
_PARTS = ("conflicts", "variants", "unfilled", "missing")


def parts(session: Session, task: Task, result: Mapping[str, Any]) -> Row:
    """The nodes as they are, each with what was checked, and whatever the merge said."""
    rows = result.get("nodes")
    if rows is None:
        rows = _by_now(session, task)
    for row in rows[:_MOST]:
        row.update(_checked(session, row["task_id"]))
    told: Row = {name: result.get(name, []) for name in _PARTS}
    return {**told, "nodes": rows, "provenance": result.get("provenance", {})}


def usage(session: Session, task: Task, result: Mapping[str, Any]) -> Row:
    """What it has used, which is what its nodes have: in its result, or as they are now."""
    own = budget.usage_of(task)
    if "usage" in result:
        return {**own, **{name: result["usage"][name] for name in budget.OF_NODES}}
    ours = [s for s in session.store.tasks() if s.node and s.parent and s.parent.task == task.id]
    return budget.with_nodes(own, [budget.usage_of(with_reports(session, one)) for one in ours])


def _by_now(session: Session, task: Task) -> list[Row]:
    """Nodes of a plan that is not judged, in the words of a result."""
    from overhand.verbs.planview import View

    try:
        view = View(session, task.id)
    except Refused:
        return []  # its plan.json was changed: nobody knows any more
    view.look()
    seen = {row["node"]: row for row in view.payload(handles=False)["nodes"]}
    return [
        {
            "node": name,
            "task_id": view.tasks.get(name),
            "agent": known.agent,
            "state": known.state,
            "status": known.status or None,
            "verified": view.proofs.get(name, "none"),
            "attempts": known.attempt,
            "seconds": seen[name]["seconds"] or 0.0,
            "tokens": known.spent,
            "checks": None,
            "summary": "",
            "why": known.why,
        }
        for name, known in view.state.nodes.items()
    ]


def _checked(session: Session, task_id: str | None) -> Row:
    """By its own result: what was checked, and what nobody did."""
    from overhand.verbs.look import read_result

    try:
        task = session.store.task(task_id) if task_id else None
    except NotFound:
        task = None  # it was cleaned away
    found = read_result(session, task) if task else {}
    promised = [one for one in found.get("deliverables", ()) if "path" in one]
    return {
        "handle": task.handle if task else None,
        "checked": [
            *(_fact(one["command"], one.get("kind", "command"), one["passed"]) for one in found.get("checks", ())),
            *(_fact(f"{one['path']} ({one['state']})", "deliverable", one["holds"]) for one in promised),
        ],
        "unverified": list(found.get("unverified", ())),
    }


def _fact(command: str, kind: str, passed: object) -> Row:
    return {"command": command, "kind": kind, "passed": bool(passed)}
