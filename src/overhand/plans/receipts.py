"""What a plan brings back: merged data, conflicts, where each field came from, and how each node fared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.documents import output as outputs
from overhand.documents.layout import Section
from overhand.documents.problems import Problem, wrong
from overhand.plans.progress import FAILED, SKIPPED, STOPPED, VERIFIED
from overhand.policy import budget
from overhand.record.task import PLAN
from overhand.system import machine
from overhand.words import CLAIMS, say_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.plans.executor import Carrying
    from overhand.plans.progress import Command, NodeState
    from overhand.record.task import Task

_ROWS = 1000  # nodes that OUTPUT.md names; result.json has all
_CAUSES = {"timeout": "timeout", "budget": "budget", "cancelled": "cancelled"}
_WHY = {
    "failed": "a node failed",
    "timeout": "its time was over",
    "budget": "its budget was used up",
    "cancelled": "a person stopped it",
    "won": "",
}


def result_of(
    carried: Carrying, command: Command, task: Task, merged: Mapping[str, Any]
) -> tuple[dict[str, Any], bytes]:
    """The plan's result as JSON, in the names of every result, and its OUTPUT.md."""
    status, why = command.facts["status"], command.facts.get("why", "")
    rows = [_row(carried, known) for known in (carried.state.nodes[name] for name in carried.plan.nodes)]
    problems = [*merged.get("problems", ()), *(one.as_json() for one in _problems(carried))]
    summary = _summary(carried, status, why, merged)
    store, run = carried.work.store, task.runs[-1]
    result = {
        "schema": "overhand.result/1",
        "task_id": carried.task_id,
        "run_id": carried.run_id,
        "status": status,
        "claimed": status if status in CLAIMS else None,
        "verified": _verified(rows, status),
        "cause": "cancelled" if status == "cancelled" else _CAUSES.get(why, "exit"),
        "summary": summary,
        "data": merged.get("data"),
        "deliverables": [],
        "decisions": [],
        "for_primary": "",
        "files_modified": [],
        "errors": [],
        "next_steps": "" if status == "completed" else f"overhand resume {task.handle}: verified nodes stay.",
        "problems": problems,
        "checks": [],
        "usage": budget.with_nodes(budget.usage_of(task), [one.get("usage", {}) for one in carried.ends.values()]),
        "source": "plan",
        "output": store.relative(f"{store.folder(carried.task_id)}/OUTPUT.md"),
        "run_folder": store.relative(store.run_folder(carried.task_id, carried.run_id)),
        "look_at": {"changed": None, "alone": True, "sensitive": [], "leftovers": []},
        "repairs": 0,
        "nodes": rows,
        "tokens": sum(row["tokens"] for row in rows),
        "seconds": round(machine.epoch(machine.now()) - machine.epoch(run.created), 3),
        "merge": carried.plan.merge.strategy,
        "winner": carried.state.winner or None,
        "conflicts": merged.get("conflicts", []),
        "provenance": merged.get("provenance", {}),
        "variants": merged.get("variants", []),
        "unfilled": merged.get("unfilled", []),
        "missing": merged.get("missing", []),
    }
    return result, _output(carried, result).encode("utf-8", "replace")


def _row(carried: Carrying, known: NodeState) -> dict[str, Any]:
    facts = carried.ends.get(known.spec.id, {})
    passed = facts.get("checks")
    return {
        "node": known.spec.id,
        "task_id": carried.tasks.get(known.spec.id),
        "agent": known.agent,
        "state": known.state,
        "status": known.status or None,
        "verified": facts.get("verified", "none"),
        "attempts": known.attempt,
        "seconds": facts.get("seconds", 0.0),
        "tokens": facts.get("tokens", 0),
        "checks": {"passed": passed[0], "of": passed[1]} if passed else None,
        "summary": facts.get("summary", ""),
        "why": known.why,
    }


def _verified(rows: list[dict[str, Any]], status: str) -> str:
    """Of what the result is made of: all of it was verified by us, some, or none."""
    counted = [row["verified"] for row in rows if row["state"] == VERIFIED]
    if not counted or status in ("failed", "cancelled") or all(one == "none" for one in counted):
        return "none"
    return "all" if all(one == "all" for one in counted) else "some"


def _problems(carried: Carrying) -> list[Problem]:
    return [
        wrong("node-failed", f"Node {known.spec.id} ({known.agent}) failed: {known.why}")
        for known in carried.state.order
        if known.state == FAILED
    ]


def _summary(carried: Carrying, status: str, why: str, merged: Mapping[str, Any]) -> str:
    nodes = carried.state.order
    count = {kind: [k.spec.id for k in nodes if k.state == kind] for kind in (VERIFIED, FAILED, SKIPPED, STOPPED)}
    whole = f"{len(nodes)} nodes are" if len(nodes) != 1 else "1 node is"
    parts = [f"{len(count[VERIFIED])} of {whole} completed"]
    parts += [
        f"{kind}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for kind, names in count.items()
        if names and kind != VERIFIED
    ]
    told = "; ".join(parts) + "."
    reason = _WHY.get(why, why)
    if status != "completed" and reason:
        told += f" It ended {status}: {reason.rstrip('.')}."
    if conflicts := merged.get("conflicts"):
        told += f" {len(conflicts)} {'conflicts were' if len(conflicts) != 1 else 'conflict was'} solved by rule."
    return told


def _output(carried: Carrying, result: dict[str, Any]) -> str:
    lines = ["| Node | Agent | Task | Verified | Checks | Attempts | Time | Tokens |", "|---" * 8 + "|"]
    for row in result["nodes"][:_ROWS]:
        told = row["state"] if row["status"] in (None, "completed") else f"{row['state']} ({row['status']})"
        checks = f"{row['checks']['passed']} of {row['checks']['of']}" if row["checks"] else "-"
        cells = (row["node"], row["agent"], told, row["verified"], checks, row["attempts"], f"{row['seconds']:.1f}s")
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in (*cells, row["tokens"])) + " |")
    if len(result["nodes"]) > _ROWS:
        lines.append(f"\nThe other {len(result['nodes']) - _ROWS} are in result.json.")
    extra = [Section("Nodes", "\n".join(lines))]
    if result["conflicts"]:
        extra.append(Section("Conflicts", _fenced(result["conflicts"])))
    if result["provenance"]:
        extra.append(Section("Where It Came From", _fenced(result["provenance"])))
    if result["problems"]:
        told = "\n".join(f"- {one['message']}" for one in result["problems"][:100])
        extra.append(Section("Problems", told))
    return outputs.render(
        outputs.Output(
            title=carried.plan.task.strip().split("\n")[0][:120] or "A plan",
            status=result["status"],
            duration=say_duration(result["seconds"]),
            agent=PLAN,
            summary=result["summary"],
            for_primary=result["next_steps"],
            data=result["data"],
            extra=tuple(extra),
        )
    )


def _fenced(value: Any) -> str:
    from overhand.documents.jsontext import dump

    return f"```json\n{dump(value)}\n```"
