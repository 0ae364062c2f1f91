"""`check`: lint a protocol document, or run a task's checks again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from overhand.documents import as_errors as as_strict
from overhand.documents import by_line, decode_text, document_kind, lint_document
from overhand.errors import BadInput, Refused
from overhand.policy import (
    Actor,
    Config,
    find_caller,
    load_config,
    require_person,
    require_trusted,
    settings_files,
)
from overhand.record import ABSENT, Rechecked, read_log
from overhand.system import MAX_PLAN, random_text, read_file, read_named, write_file
from overhand.verbs.tasks import MAX_RESULT, read_result
from overhand.verbs.verb import Reply, Session, about_task, is_file, with_requirement

if TYPE_CHECKING:
    from overhand.documents import Problem
    from overhand.record import Task
    from overhand.runs import Fact, Verification


def check(
    session: Session,
    file_or_id: str | None = None,
    stdin: bool = False,
    strict: bool = False,
    require: str | None = None,
) -> Reply:
    if require and (stdin or (file_or_id and is_file(file_or_id))):
        raise BadInput("--require is about a task, not a document.", "Name the task: overhand check 3 --require proved")
    if stdin:
        return _lint(session, file_or_id or "-", sys.stdin.buffer.read(MAX_PLAN + 1), strict)
    if file_or_id is None:
        raise BadInput("Check what?", "Name a file or a task: overhand check OUTPUT.md, overhand check 3")
    if is_file(file_or_id):
        raw = read_named(file_or_id, "document", "Name an existing file, a task, or use --stdin.")
        return _lint(session, file_or_id, raw, strict)
    return with_requirement(_check_task(session, session.store.resolve(file_or_id)), require)


def _lint(session: Session, name: str, raw: bytes, strict: bool) -> Reply:
    folder = os.path.dirname(os.path.realpath(name)) if name != "-" else os.getcwd()

    def exists(path: str) -> bool:
        return any(os.path.exists(os.path.join(base, path)) for base in (session.root, folder))

    def size_of(path: str) -> int | None:
        found = (read_file(os.path.realpath(os.path.join(base, path))) for base in (session.root, folder))
        inside = next((one for one in found if one is not None), None)
        return None if inside is None else inside.count(b"\n") + (inside[-1:] not in (b"", b"\n"))

    called = os.path.basename(name) if name != "-" else ""
    if is_plan(called, raw):
        from overhand.verbs.plan import PlanSource, check_source, report

        given = PlanSource(name, "" if name == "-" else os.path.realpath(name), raw)
        told, code = report(given, check_source(session, given, strict=strict))
        return Reply({**told, "schema": "overhand.check/1"}, code)
    kind, problems = lint_document(called, raw, exists=exists, size_of=size_of, strict=strict)
    if kind == "unknown" and (found := _control(session, raw, strict)) is not None:
        kind, problems = "control", found
    source = os.path.join(folder, called).removeprefix(f"{os.path.realpath(session.root)}/")
    among_agents = "agents" in source.split("/")[:-1] and called.lower().endswith(".md")
    if kind == "agent" or (kind == "unknown" and among_agents):
        from overhand.agents import read_agent

        agent = called[: -len(".md")] if among_agents else ""  # there, the file's name is the agent's
        _, problems = read_agent(session.root, agent, raw, load_config(session.root), source)
        kind, problems = "agent", as_strict(problems) if strict else problems
    errors = sum(p.level == "error" for p in problems)
    payload = {
        "schema": "overhand.check/1",
        "file": name,
        "document": kind,
        "errors": errors,
        "warnings": len(problems) - errors,
        "problems": [p.as_json() for p in problems],
    }
    return Reply(payload, 1 if errors else 0)


def is_plan(name: str, raw: bytes) -> bool:
    """Whether a document is a plan: YAML always is, JSON and text without a name by their keys."""
    if name.endswith((".yaml", ".yml")):
        return True
    if name and not name.endswith(".json"):
        return False
    begin = raw[: 1 << 16].decode("utf-8", "replace")
    if not any(line.strip(' {"').startswith(_PLAN_KEYS) for line in begin.splitlines()):
        return False
    return document_kind(name, begin) == "unknown"  # a handoff or a return may mention a plan


_PLAN_KEYS = tuple(
    f"{key}{end}"
    for key in ("plan", "nodes", "subtasks", "delegation", "parallel_delegation", "sequential_delegation", "merge_plan")
    for end in (":", '":')
)


def _control(session: Session, raw: bytes, strict: bool) -> list[Problem] | None:
    """The problems of a text with CONTROL lines; None if there are none in it."""
    from overhand.agents import agent_files
    from overhand.documents import is_control, lint_control

    text, problems = decode_text(raw)
    if not is_control(text):
        return None
    found = [*problems, *lint_control(text, strict=strict, agents=agent_files(session.root))]
    return by_line(as_strict(found) if strict else found)


def _check_task(session: Session, task_id: str) -> Reply:
    """Run its checks again in the tree as it is now; the receipt keeps the newest result."""
    from overhand.runs import contract_in

    task = session.store.task(task_id)
    require_person(find_caller(session.store), "Running checks")
    if task.status is None or task.judged_run is None:
        verb = "wait" if task.run_state else "run"
        raise Refused(f"Task {task.name} has not been judged yet.", f"First: overhand {verb} {task.name}")
    config = load_config(session.root)
    known = {command for _, command in config.checks}
    if any(check.command in known for check in task.checks):
        require_trusted(session.root, settings_files(session.root))
    contract = contract_in(session.store.record(task.id)) if task.node else None
    if not task.checks and contract is None:
        raise Refused(f"Task {task.handle} has no checks.", 'Give some when you delegate: --verify "pytest -q"')
    session.progress(f"Running its checks ({len(task.checks)}) …")
    return _recheck(session, task, config, contract)


def _recheck(session: Session, task: Task, config: Config, contract: dict[str, Any] | None) -> Reply:
    from overhand.documents import Return
    from overhand.runs import Evidence, check_promises, checks_after, checks_as_json, inputs_in, verification

    actor = Actor(session.store, config, find_caller(session.store).by(session.via))
    place = session.store.run_folder(task.id, task.judged_run or "")
    facts = checks_after(actor, task, f"{place}/checks-{random_text(6)}", task.run(task.judged_run))
    kept: tuple[Fact, ...] = ()
    result = read_result(session, task)
    if contract is not None and result.get("claimed") == "completed":
        inputs = inputs_in(session.store.record(task.id))
        kept = check_promises(contract, result.get("data"), inputs, session.root)
    checks = checks_as_json(facts, kept, session.root)
    said = Return(status=result.get("claimed"), summary="", data=result.get("data"))
    evidence = Evidence(returned=said, checks=tuple(facts), facts=kept, asked_by_person=task.depth <= 1)
    found = verification(evidence, None if task.status == "completed" else ())
    now = _verified_now(task, result, found)
    _note(actor, task, {**now, "checks": checks})
    payload = {**about_task("check", task, "status"), **now, "before": task.verification, "checks": checks}
    return Reply(payload, 0 if all(check["passed"] for check in checks) else 1)


def _verified_now(task: Task, result: dict[str, Any], found: Verification) -> dict[str, Any]:
    """The word after checks ran again: whether red to green proves anything was looked at when the run had ended."""
    from overhand.runs import verification_as_json

    now = verification_as_json(found)
    if found.word != "passing":
        return now
    kept = {key: result[key] for key in now if key in result} if task.verification != "failing" else {}
    return {**now, "doubts": [], **kept}


def _note(actor: Actor, task: Task, now: dict[str, Any]) -> None:
    """The receipt has the newest run of the checks, and what they say of the result; its status stays as it was."""
    folder = actor.store.record(task.id)
    with actor.store.lock(task.id, actor.by) as locked:
        raw = read_file(f"{folder}/result.json", MAX_RESULT)
        if raw is None or locked.task.judged_run != task.judged_run or locked.task.current_run:
            return
        judged: dict[str, Any] = next(
            (e for e in reversed(read_log(folder)) if e.get("e") in ("judged", "rechecked")), {}
        )
        if hashlib.sha256(raw).hexdigest() != judged.get("result"):
            return  # it is not what was judged: `show` says so, and the receipt stays as it is
        result = {**json.loads(raw), **now}
        encoded = (json.dumps(result, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
        write_file(f"{folder}/result.json", encoded)
        digest = hashlib.sha256(encoded).hexdigest()
        word, proof = now["verification"], now["proof"] or ABSENT
        locked.append(Rechecked(verification=word, proof=proof, output=locked.task.output, result=digest))
