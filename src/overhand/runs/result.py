"""What is written when a run is judged: the result, the accepted OUTPUT.md, CONTEXT.md, the report, the decisions."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from overhand.documents import Section, parse_output, render_output, return_to_output
from overhand.errors import OverhandError
from overhand.policy import usage_of_task
from overhand.record import Judged
from overhand.runs import handover, report, worktree
from overhand.system import Lock, dump_line, put_file, read_file, second_name, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.policy import Actor
    from overhand.record import Run, Task
    from overhand.runs.evidence import Returned
    from overhand.runs.judge import CheckFact, Evidence, Fact, Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """A run that has ended, with everything found about it: what is judged, and what the receipt is made of."""

    actor: Actor
    task: Task
    ended: Run
    place: str
    returned: Returned
    found: Evidence
    look_at: dict[str, Any]

    def cancelled(self) -> Case:
        """The same, of a task that was cancelled meanwhile."""
        return replace(self, found=replace(self.found, cause="cancelled"))


def write_result(case: Case, verdict: Verdict) -> tuple[dict[str, Any], Judged]:
    """Write the documents; returns the result and the event that vouches for them."""
    actor, task, ended = case.actor, case.task, case.ended
    folder = actor.store.folder(task.id)
    result = result_of(case, verdict)
    output = _promote(folder, case.place, task, case.returned, verdict)
    if output is not None:
        result["output"] = actor.store.relative(f"{folder}/OUTPUT.md")
    if verdict.status != "completed":
        put_file(f"{folder}/CONTEXT.md", handover.leave(actor.store, task, ended, verdict))
        result["context"] = actor.store.relative(f"{folder}/CONTEXT.md")
    encoded = (dump_line(result) + "\n").encode("utf-8", "replace")
    put_file(f"{folder}/result.json", encoded)
    if not ended.attached:  # a function's report is made on request
        written = report.run_report(actor.store, task, ended, result)
        put_file(f"{case.place}/report.json", dump_line(written) + "\n")
        put_file(f"{case.place}/report.md", "\n".join(report.report_lines(written)) + "\n")
    if verdict.status == "completed" and result["decisions"]:
        collect_decisions(actor, task, result["decisions"])
    return result, Judged(
        run=ended.id,
        status=verdict.status,
        claimed=verdict.claimed,
        verified=verdict.verified,
        summary=verdict.summary[:500],
        output=hashlib.sha256(output).hexdigest() if output is not None else None,
        result=hashlib.sha256(encoded).hexdigest(),
        errors=len(verdict.errors),
    )


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
        "verified": verdict.verified,
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
        "checks": checks_as_json(found.checks, found.facts, case.actor.store.root),
        **({"unverified": list(found.unverified)} if found.unverified else {}),
        "usage": usage_of_task(task),
        "source": returned.source,
        "output": None,
        "run_folder": case.actor.store.relative(case.place),
        "look_at": case.look_at,
        "repairs": task.repairs,
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
        "evidence": os.path.relpath(check.evidence, root),
    }


def _promote(folder: str, place: str, task: Task, returned: Returned, verdict: Verdict) -> bytes | None:
    """The accepted return becomes the task's OUTPUT.md; a phantom never does, it stays in the run's folder."""
    if returned.value is None or verdict.claimed is None:
        return None
    raw = returned.raw
    if raw is None:
        output = return_to_output(returned.value, task.title, task.agent)
        raw = render_output(output).encode("utf-8", "replace")
        put_file(f"{place}/OUTPUT.md", raw)
        if verdict.status == verdict.claimed and second_name(f"{place}/OUTPUT.md", f"{folder}/OUTPUT.md"):
            return raw
    if verdict.status == "partial" and verdict.claimed == "completed":
        raw = _corrected(raw, verdict)
    elif verdict.status != verdict.claimed:
        return None
    elif any(problem.code == "status-filled-in" for problem in verdict.problems):
        output, _ = parse_output(raw.decode("utf-8", "replace"))
        raw = render_output(replace(output, status=verdict.status)).encode("utf-8", "replace")
    put_file(f"{folder}/OUTPUT.md", raw)
    return raw


def _corrected(raw: bytes, verdict: Verdict) -> bytes:
    """The agent's OUTPUT.md under the status it was judged to have."""
    output, _ = parse_output(raw.decode("utf-8", "replace"))
    body = "\n".join(f"- {p.message}" for p in verdict.errors)
    section = Section("Judged By Overhand", f"Claimed completed, judged partial:\n\n{body}")
    return render_output(replace(output, status="partial", extra=(*output.extra, section))).encode("utf-8", "replace")


def collect_decisions(actor: Actor, task: Task, decisions: list[dict[str, str]]) -> None:
    """Add each decision of a judged result once to the project's list."""
    place = actor.config_of(task).decisions
    path = os.path.join(actor.store.root, place)
    if worktree.path_inside(actor.store.root, place) is None:
        raise OverhandError(f"decisions = {place!r} is outside the project.")
    link = os.path.relpath(actor.store.folder(task.id), os.path.dirname(path))
    with Lock(f"{actor.store.own}/decisions.lock", "The list of decisions"):
        raw = read_file(path)
        text = raw.decode("utf-8", "replace") if raw else "# Decisions\n\n"
        known = set(text.splitlines())
        lines = [f"- **{d['what']}**: {d['why']} ([{task.id}]({link}/OUTPUT.md))" for d in decisions]
        new = [line for line in dict.fromkeys(" ".join(line.split()) for line in lines) if line not in known]
        if new:
            gap = "\n" if text.startswith("# ") and len(known) <= 2 else ""
            write_file(path, text.rstrip("\n") + "\n" + gap + "\n".join(new) + "\n")
