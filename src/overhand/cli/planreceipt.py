"""The receipt of a plan: what was checked node by node, where nodes disagreed, and whose word was taken."""

from __future__ import annotations

from overhand.cli.words import colour, counted, one_line, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]

_NODES, _CHECKS, _CONFLICTS = 30, 6, 20  # that a screen shows; --json has more


def checked(payload: Payload) -> Iterator[str]:
    """A line for each thing that was checked, below the node that it was checked for."""
    rows = [row for row in payload["nodes"] if row["attempts"]]
    if len(rows) > _NODES:
        rows.sort(key=lambda row: row["state"] == "verified")  # what fell short is to be seen
    for row in rows[:_NODES]:
        checks, name = row.get("checked", ()), one_line(row["node"], 40)
        for check in checks[:_CHECKS]:
            mark = colour("passed", "green") if check["passed"] else colour("FAILED", "red")
            there = " exists" if check["kind"] == "exists" else ""
            yield f"{mark}  {name}: {one_line(check['command'], 100)}{there}"
        if len(checks) > _CHECKS:
            yield f"        {name}: {len(checks) - _CHECKS} more"
        yield from (f"unverified  {name}: {one_line(text, 90)}" for text in row.get("unverified", ())[:_CHECKS])
        if not checks and not row.get("unverified"):
            yield f"{colour('UNVERIFIED', 'yellow')}  {name}: {_counted(row)}"
    if len(rows) > _NODES:
        yield f"… {counted(len(rows) - _NODES, 'more node')}: overhand plan show {payload['handle']}"
    if payload["nodes"] and not rows:
        yield "no node began"


def _counted(row: Payload) -> str:
    """Where its own result cannot be read any more, the plan's still has the figures."""
    known = row["checks"]
    return f"{known['passed']} of {known['of']} checks passed" if known else "nothing was checked"


def conflicts(payload: Payload) -> Iterator[str]:
    """Who said what, and whose value counts."""
    for one in payload["conflicts"][:_CONFLICTS]:
        said = ", ".join(f"{one_line(v['node'], 40)} says {_value(v['value'])}" for v in one["values"][:_CHECKS])
        said += f" and {len(one['values']) - _CHECKS} others" if len(one["values"]) > _CHECKS else ""
        taken = f"taken: {one_line(one['taken'], 40)}" if one["taken"] else "none taken"
        yield f"{printable(one['field'])}: {said} · {taken} ({one['rule']})"
    if len(payload["variants"]) > 1:
        for one in payload["variants"][:_CONFLICTS]:
            yield f"{one_line(', '.join(one['nodes']), 80)}: {_value(one['data'])}"
    if len(payload["conflicts"]) > _CONFLICTS:
        yield f"… {len(payload['conflicts']) - _CONFLICTS} more: overhand show {payload['handle']} --output"


def _value(value: object) -> str:
    import json

    return one_line(json.dumps(value, ensure_ascii=False), 60)


def look_at(payload: Payload) -> Iterator[str]:
    """A plan changes nothing itself."""
    tasks = [str(row["handle"]) for row in payload["nodes"] if row.get("handle")]
    if tasks:
        told = ", ".join(tasks[:5]) + (", …" if len(tasks) > 5 else "")
        yield f"what each node changed is in its own receipt: overhand show {tasks[0]} (tasks {told})"
