"""The report at the end of a run: what was commanded, delivered, checked, handed on, and what it used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from overhand.documents.quick import count
from overhand.system.files import read_file

if TYPE_CHECKING:
    from overhand.record.store import Store
    from overhand.record.task import Run, Task


def report(store: Store, task: Task, ended: Run, result: dict[str, Any]) -> dict[str, Any]:
    """One run, as JSON."""
    place = store.run_folder(task.id, ended.id)
    handoff = read_file(f"{place}/handoff.md")
    words, tokens = count(handoff.decode("utf-8", "replace")) if handoff is not None else (0, 0)
    made = [e.id for e in task.checkpoints if e.run == ended.id]
    moved = [e for e in task.phases if e.t >= ended.created]
    return {
        "schema": "overhand.report/1",
        "task_id": task.id,
        "handle": task.handle,
        "run_id": ended.id,
        "agent": ended.agent,
        "cause": ended.cause,
        "commands": [
            {
                "command": e.command,
                "target": e.arg,
                "reason": e.reason,
                "done": e.ok,
            }
            for e in task.controls
            if e.run == ended.id
        ],
        "deliverables": result["deliverables"],
        "checks": [_check(check) for check in result["checks"]],
        "handoff": {"path": store.relative(f"{place}/handoff.md"), "words": words, "tokens": tokens}
        if handoff
        else None,
        "checkpoint": made[-1] if made else None,
        "state": {"from": "running", "to": result["status"], "phases": [e.phase for e in moved]},
        "verified": result["verified"],
        "usage": _used(result.get("usage"), ended),
        "seconds": _seconds(ended),
    }


def _check(check: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": check["name"], "passed": check["passed"], "exit": check["exit"]}
    return shown if check.get("kind", "command") == "command" else {**shown, "what": check["command"]}


def kept(store: Store, task: Task, ended: Run) -> dict[str, Any] | None:
    """The report that was written down, once the task has gone on and its result is no longer to be had."""
    if task.status is not None:
        return None
    raw = read_file(f"{store.run_folder(task.id, ended.id)}/report.json")
    try:
        found = json.loads(raw) if raw is not None else None
    except ValueError:
        return None  # somebody wrote to it
    return found if isinstance(found, dict) and found.get("run_id") == ended.id else None


def _used(usage: dict[str, Any] | None, ended: Run) -> dict[str, Any] | None:
    """What this run used, of what the task did."""
    return next((one for one in (usage or {}).get("runs", ()) if one["id"] == ended.id), None)


def _seconds(ended: Run) -> float | None:
    from overhand.system.machine import epoch

    return round(epoch(ended.ended) - epoch(ended.created), 1) if ended.ended else None


def text(report: dict[str, Any]) -> list[str]:
    """The same for people: one line each, with a mark for what holds and what does not."""
    lines = [f"# Report: run {report['run_id']} by {report['agent']}", ""]
    lines += [
        " ".join(part for part in (_mark(c["done"]), "command", c["command"], c["target"], c["reason"]) if part)
        for c in report["commands"]
    ]
    lines += [
        f"{_mark(d['holds'])} deliverable {d.get('path') or d.get('text')} ({d['state']})"
        for d in report["deliverables"]
    ]
    lines += [
        f"{_mark(c['passed'])} check {c['name']} ({c['what'] if 'what' in c else 'exit ' + str(c['exit'])})"
        for c in report["checks"]
    ]
    if report["handoff"]:
        handoff = report["handoff"]
        lines.append(f"- [x] handoff {handoff['path']} ({handoff['words']} words, about {handoff['tokens']} tokens)")
    if report["checkpoint"]:
        lines.append(f"- [x] checkpoint {report['checkpoint']}")
    state = report["state"]
    through = f" ({' → '.join(state['phases'])})" if state["phases"] else ""
    lines.append(f"{_mark(state['to'] == 'completed')} state {state['from']} → {state['to']}{through}")
    used = report["usage"]
    if used:
        about = "~" if used.get("estimated") else ""
        money = f", ${used['usd']:.2f}" if used.get("usd") else ""
        lines.append(f"- [x] tokens {about}{used.get('tokens', 0)}{money}")
    return lines


def _mark(holds: object) -> str:
    if holds is None:
        return "- [ ]"
    return "- [x]" if holds else "- [!]"
