"""`check`: lint a protocol document, or run a task's checks again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from overhand import callers, model, run, trust
from overhand import config as configs
from overhand.documents import agentfile
from overhand.documents.lint import lint_document
from overhand.documents.problems import by_line, wrong
from overhand.documents.problems import strict as as_strict
from overhand.documents.text import decode
from overhand.errors import BadInput, NotFound, Refused
from overhand.files import MAX_DOCUMENT, random_text, read_file, write_file
from overhand.verbs import Answer, Session

if TYPE_CHECKING:
    from overhand.documents.problems import Problem
    from overhand.shapes import State


def check(session: Session, file_or_id: str | None = None, stdin: bool = False, strict: bool = False) -> Answer:
    """A file (it has a `/` or a suffix), standard input, or a task."""
    if stdin:
        return _lint(session, file_or_id or "-", sys.stdin.buffer.read(MAX_DOCUMENT + 1), strict)
    if file_or_id is None:
        raise BadInput("Check what?", "Name a file or a task: overhand check OUTPUT.md, overhand check 3")
    if _is_file(file_or_id):
        if os.path.isdir(file_or_id):
            raise BadInput(f"{file_or_id} is a folder.", "Name a document in it.")
        raw = read_file(os.path.realpath(file_or_id))
        if raw is None and os.path.exists(file_or_id):
            raise BadInput(f"{file_or_id} is no regular file, or may not be read.", "Name a document, or use --stdin.")
        if raw is None:
            raise NotFound(f"There is no file {file_or_id}.", "Name an existing file, a task, or use --stdin.")
        return _lint(session, file_or_id, raw, strict)
    return check_task(session, session.store.resolve(file_or_id))


def _is_file(text: str) -> bool:
    return "/" in text or "." in text.strip(".")


def _lint(session: Session, name: str, raw: bytes, strict: bool) -> Answer:
    folder = os.path.dirname(os.path.realpath(name)) if name != "-" else os.getcwd()

    def exists(path: str) -> bool:
        return any(os.path.exists(os.path.join(base, path)) for base in (session.root, folder))

    def size_of(path: str) -> int | None:
        found = (read_file(os.path.realpath(os.path.join(base, path))) for base in (session.root, folder))
        inside = next((one for one in found if one is not None), None)
        return None if inside is None else inside.count(b"\n") + (inside[-1:] not in (b"", b"\n"))

    called = os.path.basename(name) if name != "-" else ""
    kind, problems = lint_document(called, raw, exists=exists, size_of=size_of, strict=strict)
    if kind == "unknown" and (found := _control(session, raw, strict)) is not None:
        kind, problems = "control", found
    if kind == "agent" and os.path.basename(folder) == "agents":
        problems = [*problems, *_agent_name(os.path.basename(name), raw)]
    errors = sum(p.level == "error" for p in problems)
    payload = {
        "schema": "overhand.check/1",
        "file": name,
        "document": kind,
        "errors": errors,
        "warnings": len(problems) - errors,
        "problems": [p.as_json() for p in problems],
    }
    return Answer(payload, 1 if errors else 0)


def _control(session: Session, raw: bytes, strict: bool) -> list[Problem] | None:
    """The problems of a text with CONTROL lines; None if there are none in it."""
    from overhand import control
    from overhand.agents.files import names

    text, problems = decode(raw)
    if not control.is_control(text):
        return None
    found = [*problems, *control.lint(text, strict=strict, agents=names(session.root))]
    return by_line(as_strict(found) if strict else found)


def _agent_name(name: str, raw: bytes) -> list[Problem]:
    """Where agents are found, the file's name is the agent's."""
    found, _ = agentfile.parse(decode(raw)[0])
    if found is None or not found.name or name == f"{found.name}.md":
        return []
    return [
        wrong("agent-name", f"The name {found.name!r} differs from the file's name.", fix=f"Write `name: {name[:-3]}`.")
    ]


def check_task(session: Session, task_id: str) -> Answer:
    """Run its checks again in the tree as it is now; the receipt keeps the newest answer."""
    state = session.store.state(task_id)
    callers.require_person(callers.caller(session.store), "Running checks")
    if state["status"] is None or state["judged_run"] is None:
        verb = "wait" if model.run_state(state) else "run"
        raise Refused(f"Task {state['handle']} has not been judged yet.", f"First: overhand {verb} {state['handle']}")
    config = configs.load(session.root)
    known = {command for _, command in config.checks}
    if any(check["command"] in known for check in state["checks"]):
        trust.require(session.root, configs.present(session.root))
    trust.require_seal(state)
    if not state["checks"]:
        raise Refused(f"Task {state['handle']} has no checks.", 'Give some when you delegate: --verify "pytest -q"')
    session.progress(f"Running {len(state['checks'])} checks …")
    return _recheck(session, state, config)


def _recheck(session: Session, state: State, config: configs.Config) -> Answer:
    from overhand.finish import checks_after
    from overhand.paperwork import check_as_json

    who = callers.caller(session.store)
    work = run.Work(session.store, config, who.by(session.via))
    place = session.store.run_folder(state["task_id"], state["judged_run"] or "")
    facts = checks_after(work, state, f"{place}/checks-{random_text(6)}")
    checks = [check_as_json(fact, session.root) for fact in facts]
    passed = sum(fact.passed for fact in facts)
    verified = "none" if passed == 0 else "all" if passed == len(facts) else "some"
    payload: dict[str, Any] = {
        "schema": "overhand.check/1",
        "task_id": state["task_id"],
        "handle": state["handle"],
        "status": state["status"],
        "verified": verified,
        "checks": checks,
    }
    _note(session, state, who, verified, checks)
    return Answer(payload, 0 if passed == len(facts) else 1)


def _note(session: Session, state: State, who: callers.Caller, verified: str, checks: list[dict[str, Any]]) -> None:
    """The receipt tells the newest run of the checks; the verdict of record stays as it was."""
    folder = session.store.folder(state["task_id"])
    with session.store.locked(state["task_id"], who.by(session.via)) as task:
        raw = read_file(f"{folder}/result.json")
        if raw is None or task.state["judged_run"] != state["judged_run"] or model.current_run(task.state):
            return
        result = {**json.loads(raw), "verified": verified, "checks": checks}
        encoded = (json.dumps(result, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
        write_file(f"{folder}/result.json", encoded)
        event = {"e": "rechecked", "verified": verified, "output": task.state["output"]}
        task.append({**event, "result": hashlib.sha256(encoded).hexdigest()})
