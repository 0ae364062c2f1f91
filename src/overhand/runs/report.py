"""The report at the end of a run: commands, deliverables, checks, handoff, usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from overhand.documents import count_words
from overhand.system import epoch_of, read_file

if TYPE_CHECKING:
    from overhand.record import Run, Store, Task


def run_report(store: Store, task: Task, ended: Run, result: dict[str, Any]) -> dict[str, Any]:
    place = store.run_folder(task.id, ended.id)
    handoff = read_file(f"{place}/handoff.md")
    words, tokens = count_words(handoff.decode("utf-8", "replace")) if handoff is not None else (0, 0)
    made = [e.id for e in task.checkpoints if e.run == ended.id]
    moved = [e for e in task.phases if e.t >= ended.created]
    used = (result.get("usage") or {}).get("runs", ())
    return {
        "schema": "overhand.report/1",
        "task_id": task.id,
        "handle": task.handle,
        "run_id": ended.id,
        "agent": ended.agent,
        "cause": ended.cause,
        "commands": [
            {"command": e.command, "target": e.arg, "reason": e.reason, "done": e.ok}
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
        "usage": next((one for one in used if one["id"] == ended.id), None),
        "seconds": round(epoch_of(ended.ended) - epoch_of(ended.created), 1) if ended.ended else None,
    }


def _check(check: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": check["name"], "passed": check["passed"], "exit": check["exit"]}
    return shown if check.get("kind", "command") == "command" else {**shown, "what": check["command"]}


def kept_report(store: Store, task: Task, ended: Run) -> dict[str, Any] | None:
    """The stored report of a task that continued since, so that its result is gone."""
    if task.status is not None:
        return None
    raw = read_file(f"{store.run_folder(task.id, ended.id)}/report.json")
    try:
        found = json.loads(raw) if raw is not None else None
    except ValueError:
        return None  # it was edited
    return found if isinstance(found, dict) and found.get("run_id") == ended.id else None


def report_lines(report: dict[str, Any]) -> list[str]:
    """The same for people: one line each, with a mark for what holds and what does not."""
    lines = [f"# Report: run {report['run_id']} by {report['agent']}", ""]
    lines += [
        " ".join(part for part in (_mark(c["done"]), "command", c["command"], c["target"], c["reason"]) if part)
        for c in report["commands"]
    ]
    for d in report["deliverables"]:
        lines.append(f"{_mark(d['holds'])} deliverable {d.get('path') or d.get('text')} ({d['state']})")
    for c in report["checks"]:
        what = c["what"] if "what" in c else f"exit {c['exit']}"
        lines.append(f"{_mark(c['passed'])} check {c['name']} ({what})")
    if handoff := report["handoff"]:
        lines.append(f"- [x] handoff {handoff['path']} ({handoff['words']} words, about {handoff['tokens']} tokens)")
    if report["checkpoint"]:
        lines.append(f"- [x] checkpoint {report['checkpoint']}")
    state = report["state"]
    through = f" ({' → '.join(state['phases'])})" if state["phases"] else ""
    lines.append(f"{_mark(state['to'] == 'completed')} state {state['from']} → {state['to']}{through}")
    if used := report["usage"]:
        about = "~" if used.get("estimated") else ""
        money = f", ${used['usd']:.2f}" if used.get("usd") else ""
        lines.append(f"- [x] tokens {about}{used.get('tokens', 0)}{money}")
    return lines


def _mark(holds: object) -> str:
    if holds is None:
        return "- [ ]"
    return "- [x]" if holds else "- [!]"
