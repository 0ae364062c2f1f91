"""What is written when a run is judged: the result, the accepted OUTPUT.md, CONTEXT.md, the report, the decisions."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from overhand.documents import Problem, Section, count_words, parse_output, render_output, return_to_output
from overhand.errors import OverhandError
from overhand.policy import usage_of_task
from overhand.record import ABSENT, Judged
from overhand.runs import handover
from overhand.system import (
    MAX_DOCUMENT,
    Beneath,
    Lock,
    dump_line,
    epoch_of,
    mask_secrets,
    put_file,
    put_new,
    read_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overhand.policy import Actor
    from overhand.record import Run, RunFolders, Store, Task
    from overhand.runs.evidence import Returned
    from overhand.runs.judge import CheckFact, Evidence, Fact, Verdict
    from overhand.runs.proof import Verification
    from overhand.system import Beneath


@dataclass(frozen=True, slots=True)
class Case:
    """A run that has ended, with everything found about it: what is judged, and what the receipt is made of."""

    actor: Actor
    task: Task
    ended: Run
    folders: RunFolders
    returned: Returned
    found: Evidence
    look_at: dict[str, Any]

    def cancelled(self) -> Case:
        """The same, of a task that was cancelled meanwhile."""
        return replace(self, found=replace(self.found, cause="cancelled"))


def write_result(case: Case, verdict: Verdict) -> tuple[dict[str, Any], Judged]:
    """Write the documents; returns the result and the event that vouches for them."""
    actor, task, ended = case.actor, case.task, case.ended
    folder, workspace = case.folders.record, case.folders.workspace_files
    result = without_secrets(result_of(case, verdict), actor.secrets)
    output = _promote(case, folder, verdict)
    if output is not None:
        show_document(workspace, "OUTPUT.md", output)
        result["output"] = actor.store.relative(workspace.shown("OUTPUT.md"))
    if verdict.status != "completed":
        context = handover.leave(actor.store, task, ended, verdict)
        context = mask_secrets(context, actor.secrets)
        put_file(f"{folder}/CONTEXT.md", context)
        show_document(workspace, "CONTEXT.md", context)
        result["context"] = actor.store.relative(workspace.shown("CONTEXT.md"))
    if result["decisions"]:
        try:
            collect_decisions(actor, task, result["decisions"])
        except OverhandError as error:
            result["problems"].append(Problem("decisions-not-kept", error.message, level="warning").as_json())
    encoded = (dump_line(result) + "\n").encode("utf-8", "replace")
    put_new(f"{folder}/result.json", encoded)
    if not ended.attached:  # a function's report is made on request
        written = run_report(actor.store, task, ended, result)
        put_file(f"{case.folders.place}/report.json", dump_line(written) + "\n")
        put_file(f"{case.folders.place}/report.md", "\n".join(report_lines(written)) + "\n")
    part = len(case.look_at.get("changed") or ()) if "part" in case.look_at else 0
    return result, Judged(
        run=ended.id,
        status=verdict.status,
        claimed=verdict.claimed,
        verification=verdict.verification.word,
        proof=verdict.verification.proof or ABSENT,
        summary=result["summary"][:500],
        output=hashlib.sha256(output).hexdigest() if output is not None else None,
        result=hashlib.sha256(encoded).hexdigest(),
        errors=len(verdict.errors),
        part=part or ABSENT,
        why=verdict.errors[0].message[:200] if verdict.errors else ABSENT,
    )


def show_document(workspace: Beneath, name: str, text: bytes | str) -> None:
    """Put a copy of what was judged into the workspace, for people; failing at that never fails a verdict."""
    try:
        workspace.write(name, text, make=True)
    except OverhandError:
        return


def result_of(case: Case, verdict: Verdict) -> dict[str, Any]:
    """The judged result as JSON: what `show` and `wait` print and `r` has in Python."""
    task, ended, found, returned = case.task, case.ended, case.found, case.returned
    output, value = returned.output, returned.value
    decided = output or value
    return {
        "schema": "overhand.result/1",
        "task_id": task.id,
        "run_id": ended.id,
        "status": verdict.status,
        "claimed": verdict.claimed,
        **verification_as_json(verdict.verification),
        "cause": ended.cause,
        "summary": verdict.summary,
        "data": value.data if value else None,
        "deliverables": [_fact(fact) for fact in found.deliverables]
        + [{"text": text, "holds": None, "state": "unverified"} for text in found.prose],
        "decisions": [{"what": d.what, "why": d.why} for d in (decided.decisions if decided else ())],
        "for_primary": output.for_primary if output else "",
        "files_modified": [fact.path for fact in found.named],
        "errors": [asdict(error) for error in value.errors] if value else [],
        "next_steps": value.next_steps if value else "",
        "problems": [p.as_json() for p in verdict.problems],
        **({"last_words": verdict.last_words} if verdict.last_words else {}),
        "checks": checks_as_json(found.checks, found.facts, case.actor.store.root),
        **({"unverified": list(found.unverified)} if found.unverified else {}),
        "usage": usage_of_task(task),
        "source": returned.source,
        "output": None,
        "run_folder": case.actor.store.relative(case.folders.place),
        "look_at": case.look_at,
        "repairs": task.repairs,
    }


def verification_as_json(found: Verification) -> dict[str, Any]:
    """How far a result is verified, what proves it, and why it is not more."""
    verified = found.word == "proved"
    return {
        "verification": found.word,
        "verified": verified,
        "proof": found.proof or None,
        "doubts": list(found.why),
    }


def _fact(fact: Any) -> dict[str, Any]:
    state = "missing" if not fact.exists else "outside" if not fact.inside else "empty" if fact.empty else fact.change
    return {"path": fact.path, "holds": fact.holds, "state": state}


def checks_as_json(checks: Sequence[CheckFact], facts: Sequence[Fact], root: str) -> list[dict[str, Any]]:
    """Everything that Overhand checked, as the receipt shows it."""
    return [*(_check(check, root) for check in checks), *(_fact_as_check(fact) for fact in facts)]


def _fact_as_check(fact: Fact) -> dict[str, Any]:
    """A fact of a plan's contract in the same form as a command."""
    nothing = {"exit": None, "before": None, "already_red": False, "timed_out": False, "seconds": 0.0, "evidence": None}
    shown = {"name": fact.kind, "kind": fact.kind, "command": fact.text, "passed": fact.passed, **nothing, "tree": "."}
    return shown if fact.passed else {**shown, "why": "; ".join(p.message for p in fact.problems)[:2000]}


def _check(check: CheckFact, root: str) -> dict[str, Any]:
    return {
        "name": check.name,
        "kind": "command",
        "command": check.command,
        "passed": check.passed,
        "exit": check.after,
        "before": check.before,
        "already_red": check.already_red,
        "timed_out": check.timed_out,
        "seconds": check.seconds,
        "tree": ".",
        "evidence": check.evidence.removeprefix(f"{root}/"),
        **({"why": check.tail} if check.tail else {}),
    }


def without_secrets(result: dict[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """The same with the values of secret variables masked, wherever the agent wrote them."""
    text = dump_line(result) if secrets else ""
    found = any(dump_line(value)[1:-1] in text for value in secrets.values())  # as they are written in JSON
    return _masked(result, secrets) if found else result


def _masked(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return mask_secrets(value, secrets)
    if isinstance(value, dict):
        return {_masked(key, secrets): _masked(one, secrets) for key, one in value.items()}
    return [_masked(one, secrets) for one in value] if isinstance(value, list | tuple) else value


def _promote(case: Case, folder: str, verdict: Verdict) -> bytes | None:
    """The accepted return becomes the task's OUTPUT.md; a phantom never does, it stays in the run's folder."""
    place, task, returned = case.folders.place, case.task, case.returned
    if returned.value is None or verdict.claimed is None:
        return None
    raw = returned.raw
    if raw is None:
        output = return_to_output(returned.value, task.title, task.agent)
        raw = render_output(output).encode("utf-8", "replace")
        if verdict.status != verdict.claimed and returned.source != "OUTPUT.md":  # else it is the task's
            os.makedirs(place, 0o700, exist_ok=True)
            put_file(f"{place}/OUTPUT.md", _mask(raw, case.actor.secrets))
    if verdict.status == "partial" and verdict.claimed == "completed":
        raw = _corrected(raw, verdict)
    elif verdict.status != verdict.claimed:
        return None
    elif any(problem.code == "status-filled-in" for problem in verdict.problems):
        output, _ = parse_output(raw.decode("utf-8", "replace"))
        raw = render_output(replace(output, status=verdict.status)).encode("utf-8", "replace")
    raw = _mask(raw, case.actor.secrets)
    put_new(f"{folder}/OUTPUT.md", raw)
    return raw


def _mask(raw: bytes, secrets: Mapping[str, str]) -> bytes:
    """A document without the values of secret variables."""
    if not secrets:
        return raw
    return mask_secrets(raw.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")


def _corrected(raw: bytes, verdict: Verdict) -> bytes:
    """The agent's OUTPUT.md under the status it was judged to have."""
    output, _ = parse_output(raw.decode("utf-8", "replace"))
    body = "\n".join(f"- {p.message}" for p in verdict.errors)
    section = Section("Judged By Overhand", f"Claimed completed, judged partial:\n\n{body}")
    return render_output(replace(output, status="partial", extra=(*output.extra, section))).encode("utf-8", "replace")


def collect_decisions(actor: Actor, task: Task, decisions: list[dict[str, str]]) -> None:
    """Add each decision of a judged result once to the project's list."""
    store, place = actor.store, os.path.normpath(actor.config_of(task).decisions)
    files = Beneath(store.root)
    link = os.path.relpath(store.workspace(task.id), os.path.dirname(files.shown(place)))
    with Lock(f"{store.own}/decisions.lock", "The list of decisions"):
        raw = files.read(place) or b""
        text = raw.decode("utf-8", "replace") or "# Decisions\n\n"
        known = set(text.splitlines())
        lines = [f"- **{d['what']}**: {d['why']} ([{task.id}]({link}/OUTPUT.md))" for d in decisions]
        new = [line for line in dict.fromkeys(" ".join(line.split()) for line in lines) if line not in known]
        if new and len(raw) <= MAX_DOCUMENT:
            gap = "\n" if text.startswith("# ") and len(known) <= 2 else ""
            files.write(place, text.rstrip("\n") + "\n" + gap + "\n".join(new) + "\n")


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
        "checks": [_reported_check(check) for check in result["checks"]],
        "handoff": {"path": store.relative(f"{place}/handoff.md"), "words": words, "tokens": tokens}
        if handoff
        else None,
        "checkpoint": made[-1] if made else None,
        "state": {"from": "running", "to": result["status"], "phases": [e.phase for e in moved]},
        "verification": result["verification"],
        "verified": result["verified"],
        "proof": result["proof"],
        "usage": next((one for one in used if one["id"] == ended.id), None),
        "seconds": round(epoch_of(ended.ended) - epoch_of(ended.created), 1) if ended.ended else None,
    }


def _reported_check(check: dict[str, Any]) -> dict[str, Any]:
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
    change = report["state"]
    through = f" ({' → '.join(change['phases'])})" if change["phases"] else ""
    lines.append(f"{_mark(change['to'] == 'completed')} state {change['from']} → {change['to']}{through}")
    if used := report["usage"]:
        about = "~" if used.get("estimated") else ""
        money = f", ${used['usd']:.2f}" if used.get("usd") else ""
        lines.append(f"- [x] tokens {about}{used.get('tokens', 0)}{money}")
    return lines


def _mark(holds: object) -> str:
    if holds is None:
        return "- [ ]"
    return "- [x]" if holds else "- [!]"
