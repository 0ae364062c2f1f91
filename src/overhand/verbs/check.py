"""`check`: lint a protocol document, or run a task's checks again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from overhand.documents.lint import lint_document
from overhand.documents.problems import by_line
from overhand.documents.problems import strict as as_strict
from overhand.documents.text import decode
from overhand.errors import BadInput, Refused
from overhand.policy import caller, trust
from overhand.policy import config as configs
from overhand.policy.actor import Actor
from overhand.record.events import Rechecked
from overhand.system.files import MAX_PLAN, random_text, read_file, read_named, write_file
from overhand.verbs import Reply, Session, is_file

if TYPE_CHECKING:
    from overhand.documents.problems import Problem
    from overhand.record.task import Task
    from overhand.runs.judge import Fact


def check(session: Session, file_or_id: str | None = None, stdin: bool = False, strict: bool = False) -> Reply:
    """A file (it has a `/` or a suffix), standard input, or a task."""
    if stdin:
        return _lint(session, file_or_id or "-", sys.stdin.buffer.read(MAX_PLAN + 1), strict)
    if file_or_id is None:
        raise BadInput("Check what?", "Name a file or a task: overhand check OUTPUT.md, overhand check 3")
    if is_file(file_or_id):
        raw = read_named(file_or_id, "document", "Name an existing file, a task, or use --stdin.")
        return _lint(session, file_or_id, raw, strict)
    return check_task(session, session.store.resolve(file_or_id))


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
        from overhand.verbs.plan import Source, look_over, report

        given = Source(name, "" if name == "-" else os.path.realpath(name), raw)
        told, code = report(given, look_over(session, given, strict=strict))
        return Reply({**told, "schema": "overhand.check/1"}, code)
    kind, problems = lint_document(called, raw, exists=exists, size_of=size_of, strict=strict)
    if kind == "unknown" and (found := _control(session, raw, strict)) is not None:
        kind, problems = "control", found
    among_agents = os.path.basename(folder) == "agents" and called.endswith(".md")
    if kind == "agent" or (kind == "unknown" and among_agents):
        kind, problems = "agent", _agent(session, called.removesuffix(".md") if among_agents else "", raw, strict)
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
    """Whether a document is a plan: YAML is always taken for one, JSON and text without a name by their keys."""
    if name.endswith((".yaml", ".yml")):
        return True
    if name and not name.endswith(".json"):
        return False
    begin = raw[: 1 << 16].decode("utf-8", "replace")
    return any(line.strip(' {"').startswith(_PLAN_KEYS) for line in begin.splitlines()) and not _is_known(name, begin)


_PLAN_KEYS = tuple(
    f"{key}{end}"
    for key in ("plan", "nodes", "subtasks", "delegation", "parallel_delegation", "sequential_delegation", "merge_plan")
    for end in (":", '":')
)


def _is_known(name: str, text: str) -> bool:
    """A handoff may speak of a plan, and so may an agent's return."""
    from overhand.documents.lint import kind_of

    return kind_of(name, text) != "unknown"


def _control(session: Session, raw: bytes, strict: bool) -> list[Problem] | None:
    """The problems of a text with CONTROL lines; None if there are none in it."""
    from overhand.agents.files import names
    from overhand.documents import control

    text, problems = decode(raw)
    if not control.is_control(text):
        return None
    found = [*problems, *control.lint(text, strict=strict, agents=names(session.root))]
    return by_line(as_strict(found) if strict else found)


def _agent(session: Session, name: str, raw: bytes, strict: bool) -> list[Problem]:
    """What `delegate` would find; where agents are found, the file's name is the agent's."""
    from overhand.agents import files

    _, problems = files.read(session.root, name, raw, configs.load(session.root), name)
    return as_strict(problems) if strict else problems


def check_task(session: Session, task_id: str) -> Reply:
    """Run its checks again in the tree as it is now; the receipt keeps the newest answer."""
    task = session.store.task(task_id)
    caller.require_person(caller.caller(session.store), "Running checks")
    if task.status is None or task.judged_run is None:
        verb = "wait" if task.run_state else "run"
        raise Refused(f"Task {task.handle} has not been judged yet.", f"First: overhand {verb} {task.handle}")
    config = configs.load(session.root)
    known = {command for _, command in config.checks}
    if any(check.command in known for check in task.checks):
        trust.require(session.root, configs.present(session.root))
    trust.require_seal(task)
    if not task.checks and not _has_promises(session, task):
        raise Refused(f"Task {task.handle} has no checks.", 'Give some when you delegate: --verify "pytest -q"')
    session.progress(f"Running its checks ({len(task.checks)}) …")
    return _recheck(session, task, config)


def _has_promises(session: Session, task: Task) -> bool:
    """Whether the contract of a plan's node says something that can be looked at again."""
    from overhand.runs import promises as assertions

    return bool(task.node) and assertions.contract_in(session.store.folder(task.id)) is not None


def _promises(session: Session, task: Task) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    """What the contract says of the result of record, looked at again; nothing for what was never completed."""
    from overhand.runs import promises as assertions
    from overhand.verbs.tasks import read_result

    folder = session.store.folder(task.id)
    contract = assertions.contract_in(folder) if task.node else None
    result = read_result(session, task) if contract is not None else {}
    if contract is None or result.get("claimed") != "completed":
        return (), ()
    facts = assertions.look(contract, result.get("data"), assertions.inputs_in(folder), session.root)
    return facts, assertions.unverified(contract)


def _recheck(session: Session, task: Task, config: configs.Config) -> Reply:
    from overhand.runs.finish import checks_after
    from overhand.runs.judge import verified as verified_by
    from overhand.runs.result import checks_as_json

    who = caller.caller(session.store)
    work = Actor(session.store, config, who.by(session.via))
    place = session.store.run_folder(task.id, task.judged_run or "")
    facts = checks_after(work, task, f"{place}/checks-{random_text(6)}")
    promises, unverified = _promises(session, task)
    checks = checks_as_json(facts, promises, session.root)
    verified = verified_by(facts, promises, unverified)
    payload: dict[str, Any] = {
        "schema": "overhand.check/1",
        "task_id": task.id,
        "handle": task.handle,
        "status": task.status,
        "verified": verified,
        "checks": checks,
    }
    _note(session, task, who, verified, checks)
    return Reply(payload, 0 if all(check["passed"] for check in checks) else 1)


def _note(session: Session, task: Task, who: caller.Caller, verified: str, checks: list[dict[str, Any]]) -> None:
    """The receipt tells the newest run of the checks; the verdict of record stays as it was."""
    folder = session.store.folder(task.id)
    with session.store.lock(task.id, who.by(session.via)) as locked:
        raw = read_file(f"{folder}/result.json")
        if raw is None or locked.task.judged_run != task.judged_run or locked.task.current_run:
            return
        result = {**json.loads(raw), "verified": verified, "checks": checks}
        encoded = (json.dumps(result, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
        write_file(f"{folder}/result.json", encoded)
        digest = hashlib.sha256(encoded).hexdigest()
        locked.append(Rechecked(verified=verified, output=locked.task.output, result=digest))
