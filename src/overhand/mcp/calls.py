"""What each tool calls: the verb's own function, with the arguments in the verb's own form."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, NotAllowed, NotFound, TimedOut
from overhand.system import brought
from overhand.verbs import PERMIT as PERMIT_VERB
from overhand.verbs import VERBS, Session, call_verb
from overhand.words import option_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.mcp.handshake import Service
    from overhand.mcp.tools import Tool

    Given = dict[str, Any]
    Payload = dict[str, Any]

_SLICE = 5.0  # seconds between checks for a question while waiting for a result


def call(
    service: Service, tool: Tool, given: Given, progress: Callable[[str], None] | None = None, gone: int = -1
) -> Payload:
    """Call a tool; the result says what exists and what to do next."""
    given = checked(tool, given)
    if not os.path.isdir(service.root):  # else a new project would be created there
        hint = "Start the client again in a folder that exists."
        raise NotFound(f"The project's folder {service.root} is gone.", hint)
    notes: list[str] = []
    session = Session(service.root, "mcp", tell=notes.append, progress=progress)
    session.gone = gone
    found = _CALLS[tool.name](service, session, given)
    if tool.plain:
        return found
    told = {"next": found.get("next", ""), **found}  # `next` first: some clients show the typed result only
    return {**told, "notes": notes} if notes else told


def checked(tool: Tool, given: Given) -> Given:
    """The arguments as the verb takes them; raises with all problems at once."""
    wrong = [f"{key} is missing" for key in tool.needs if given.get(key) in (None, "", [])]
    taken = {}
    for key, value in given.items():
        if key not in tool.takes:
            wrong.append(f"there is no argument {key}")
            continue
        if value is None:
            continue
        kind = tool.takes[key].get("type")
        if kind == "array" and isinstance(value, (str, int)):
            value = [value]  # a single value is a list of one  # noqa: PLW2901
        if kind == "string" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)  # the number of a task  # noqa: PLW2901
        if not _fits(kind, value):
            wrong.append(f"{key} must be {_KINDS[kind]}")
        elif "enum" in tool.takes[key] and value not in tool.takes[key]["enum"]:
            wrong.append(f"{key} cannot be {value!r}")
        else:
            taken[key] = [str(one) for one in value] if kind == "array" else value
    if wrong:
        takes = ", ".join(tool.takes) or "nothing"
        raise BadInput(f"{tool.name}: {'; '.join(wrong)}.", f"It takes: {takes}.", problems=wrong)
    return taken


_KINDS = {"string": "text", "boolean": "true or false", "integer": "a number", "array": "a list of texts"}


def _fits(kind: str | None, value: object) -> bool:
    if kind == "array":
        return isinstance(value, list) and all(isinstance(one, (str, int)) for one in value)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return {"string": isinstance(value, str), "boolean": isinstance(value, bool)}.get(kind or "", True)


def _verb(name: str, session: Session, **given: Any) -> Payload:
    row = next(row for row in VERBS if row.name == name)
    return call_verb(row, session, given).payload


def _delegate(service: Service, session: Session, given: Given) -> Payload:
    again = given.pop("again", None)
    wait = given.pop("wait", False)
    if again is None:
        made = _verb("delegate", session, **given)
        if not wait:
            return _accepted(made)
        again = made["handle"]
    return _wait(service, session, {"id": [str(again)]}, own="delegate", wakes=False)


def _accepted(made: Payload) -> Payload:
    handle = made["handle"]
    keys = (*_BRIEF[:4], "state", "level", "timeout", "budget", "checks", "contract", "warnings", "folder")
    unchecked = "" if made["checks"] else " No check is set for it, so its result will read as not verified."
    more = f"Task {handle} is accepted; {made['agent']} works on it without you.{unchecked}"
    return {**_some(made, keys), "next": f"{more} It can be waited for, stopped and looked at as {handle}."}


def _plan_run(service: Service, session: Session, given: Given) -> Payload:
    """As the verb does it, but without a person to ask: what needs trust is refused."""
    from overhand.verbs import PlanSource, find_plan, plan_dry_run, plan_source

    again, wait = given.pop("again", None), given.pop("wait", False)
    if again is not None:
        return _plan_result(service, session, find_plan(session, str(again)))
    text, file = given.pop("plan", None), given.pop("file", None)
    if (text is None) == (file is None):
        raise BadInput("plan_run: give either `plan`, its text, or `file`, its path.", "One of them, not both.")
    raw = text.encode("utf-8", "replace") if text is not None else b""
    path = os.path.join(session.root, file) if file is not None else "-"
    if "max_parallel" in given:
        given["max_parallel"] = str(given["max_parallel"])
    if given.pop("dry_run", False):
        shown = ("task", "strategy", "merge", "on_failure", "limits", "waves", "commands", "warnings")
        taken = PlanSource("the plan", "", raw) if text is not None else plan_source(path)
        found = _some(plan_dry_run(session, taken, **given), shown)
        return {**found, "next": "Nothing was run. Without dry_run it is."}
    documents = brought.set({"-": raw} if text is not None else None)
    try:
        made = _verb("plan", session, do="run", file_or_id=path, **given)
    finally:
        brought.reset(documents)
    if wait:
        return _plan_result(service, session, made["task_id"])
    keys = (*_BRIEF[:4], "state", "nodes", "strategy", "timeout", "budget", "warnings", "folder")
    more = f"Plan {made['handle']} is accepted (nodes: {made['nodes']}); it goes on without you."
    return {**_some(made, keys), "nodes": [], "next": f"{more} Wait for it: plan_run with again: {made['handle']}."}


def _plan_result(service: Service, session: Session, task_id: str) -> Payload:
    """A plan and its nodes, judged or at the end of our time; a node's question comes first."""
    from overhand.verbs import plan_rows, wait_for_plan

    over = wait_for_plan(session, task_id, time.monotonic() + service.limit)
    keys = (
        "node",
        "agent",
        "state",
        "status",
        "verification",
        "attempt",
        "seconds",
        "tokens",
        "handle",
        "question",
        "why",
    )
    nodes = plan_rows(session, task_id)["nodes"]
    rows = [{key: row[key] for key in keys if row[key] not in (None, "", 0)} for row in nodes]
    shown = _verb("show", session, id=task_id)
    told = _judged(shown, "plan_run") if over else _not_yet([shown], "plan_run")
    asks = [f"node {row['node']} (task {row.get('handle', '-')})" for row in rows if row.get("question")]
    first = f"{', '.join(asks)} asks something: see nodes. " if asks else ""
    return {**told, "nodes": rows, "next": f"{first}{told['next']}"}


def _status(service: Service, session: Session, _given: Given) -> Payload:
    from overhand.verbs import Headline

    service.headline = service.headline or Headline(session)
    found = service.headline.payload()
    groups = found["groups"]
    rows = [_brief(one) for name, group in groups.items() if name != "done" for one in group[-_MOST:]]
    needs = len(groups.get("needs you", ()))
    told = f"{needs} need a person: see inbox." if needs else "Nothing needs a person."
    return {"project": found["project"], "counts": found["counts"], "tasks": rows, "next": told}


def _inbox(_service: Service, session: Session, _given: Given) -> Payload:
    found = _verb("status", session)
    rows = []
    for one in found["groups"]["needs you"]:
        shown = _verb("show", session, id=one["task_id"])
        rows.append({**_brief(one), "questions": _open_questions(shown)})
    told = "Ask the person you work for, then pass their words on with answer." if rows else "Nothing waits."
    return {"project": found["project"], "tasks": rows, "next": told}


def _wait(service: Service, session: Session, given: Given, *, own: str = "wait", wakes: bool = True) -> Payload:
    """Wait in slices, so that a question is noticed in between, and return before the client times out."""
    wanted = option_duration("timeout", given["timeout"]) if "timeout" in given else service.limit
    until = time.monotonic() + min(service.limit, wanted)
    task_ids = [session.store.resolve(one) for one in given["id"]]
    while True:
        left = max(0.0, until - time.monotonic())
        try:
            found = _verb("wait", session, id=task_ids, timeout=f"{min(left, _SLICE):.3f}")
        except TimedOut:
            asks = wakes and any(session.store.task(task_id).open_questions for task_id in task_ids)
            if asks or left <= _SLICE or session.is_gone():
                return _not_yet([_verb("show", session, id=task_id) for task_id in task_ids], own)
            continue
        return _judged(found, own)


def _result(_service: Service, session: Session, given: Given) -> Payload:
    return _judged(_verb("show", session, **given), "result")


def _answer(_service: Service, session: Session, given: Given) -> Payload:
    task = session.store.task(session.store.resolve(given["id"]))
    seq, text = given.pop("seq", None), given.pop("text")
    meant = [q for q in task.open_questions if seq in (None, q.seq)]
    if any(q.via == "permission" for q in meant):
        why = "What an agent wants to be permitted is for a person; it cannot be answered through MCP."
        raise NotAllowed(why, f"Ask the person to type: overhand answer {task.name}")
    said = [text] if seq is None else [str(seq), text]
    found = _verb("answer", session, text=said, **given)
    told = "Its next run starts by itself." if found["resumed"] else "Whoever asked has it now."
    left = f" Questions still open: {found['left']}." if found["left"] else ""
    return {**found, "next": f"{told}{left} Use wait for the result."}


def _stop(_service: Service, session: Session, given: Given) -> Payload:
    return {**_verb("stop", session, **given), "next": "They have ended. `status` shows what is left."}


def _agents(_service: Service, session: Session, given: Given) -> Payload:
    found = _verb("agents", session, **given)
    return {**found, "next": "Name one in `agent` of delegate, or name none for the default."}


def _handoff(_service: Service, session: Session, _given: Given) -> Payload:
    from overhand.verbs import handoff_of_caller

    told = "Do it, mark its steps with step, ask what you cannot know, then return with finish."
    return {**handoff_of_caller(session).payload, "next": told}


def _step(_service: Service, session: Session, given: Given) -> Payload:
    state = given.pop("state", None)
    if state is not None and "step" not in given:
        raise BadInput("Which step?", "Give its number, or a part of its text, in `step`.")
    found = _verb("step", session, state=None if state is None else [state], **given)
    progress = found.get("progress")
    if progress is None:
        return {**found, "next": "Go on."}
    left = progress["total"] - progress["done"]
    told = f"{left} of {progress['total']} steps are left." if left else "All steps are done: return with finish."
    return {**found, "next": told}


def _ask(service: Service, session: Session, given: Given) -> Payload:
    if "again" in given:
        given["again"] = str(given["again"])
    try:
        found = _verb("ask", session, timeout=f"{service.limit:.3f}", **given)
    except TimedOut as error:
        seq = int(str(error.facts["seq"]))
        told = f"No answer yet; question {seq} stays open. Call ask again with again: {seq} to wait on, at once."
        return {"seq": seq, "answer": None, "pending": True, "next": told}
    return {**found, "pending": False, "next": "Go on with this answer."}


def _checkpoint(_service: Service, session: Session, given: Given) -> Payload:
    found = _verb("checkpoint", session, do="create", **given)
    return {**found, "next": "Go on with your task; files are never rolled back."}


def _finish(_service: Service, session: Session, given: Given) -> Payload:
    if "data" in given:
        import json

        given["data"] = json.dumps(given["data"])
    found = _verb("finish", session, **given)
    checks = f" These checks run now without you: {'; '.join(found['checks'])}." if found["checks"] else ""
    return {**found, "next": f"OUTPUT.md is written. End your turn now; it is judged when your run ends.{checks}"}


def _permit(_service: Service, session: Session, given: Given) -> Payload:
    """Block until a person has decided."""
    import json

    asked = {"tool": given["tool_name"], "input": json.dumps(given.get("input", {}))}
    return call_verb(PERMIT_VERB, session, asked).payload


_CALLS: dict[str, Callable[[Service, Session, Given], Payload]] = {
    "delegate": _delegate, "plan_run": _plan_run, "status": _status, "wait": _wait, "result": _result,
    "answer": _answer, "inbox": _inbox, "stop": _stop, "agents": _agents, "handoff": _handoff, "step": _step,
    "ask": _ask, "checkpoint": _checkpoint, "finish": _finish, "permit": _permit,
}  # fmt: skip


_BRIEF = ("handle", "task_id", "title", "agent", "headline", "status", "verification", "progress", "step", "question",
          "node", "plan")  # fmt: skip
_RESULT = (
    *("task_id", "handle", "title", "agent", "kind", "headline", "status", "run_state", "cause"),
    *("verification", "verified", "proof", "doubts"),
    *("summary", "data", "deliverables", "decisions", "for_primary", "files_modified", "errors", "next_steps"),
    *("problems", "checks", "unverified", "usage", "output", "folder", "node", "plan"),
)
_MOST = 20  # tasks at rest that a status tells of


def _brief(row: Payload) -> Payload:
    return {key: row[key] for key in _BRIEF if row.get(key) is not None}


def _open_questions(shown: Payload) -> list[Payload]:
    """What is not answered yet, in full."""
    keys = ("seq", "question", "options", "closed", "via")
    return [_some(one, keys) for one in shown["questions"] if one["answered"] is None]


def _not_yet(shown: list[Payload], tool: str) -> Payload:
    """Not judged in time; or a question came in between."""
    rows = [{**_brief(one), "status": one["status"], "questions": _open_questions(one)} for one in shown]
    handles = [one["handle"] for one in shown]
    asked = [str(row["handle"]) for row in rows if row["questions"]]
    told = f"Not judged yet; the work goes on. Call {tool} again"
    told += f" with again: {handles[0]}." if tool in ("delegate", "plan_run") else f" with id: {handles}."
    if asked:
        told = f"Task {', '.join(asked)} asks something: see questions, and answer it. {told}"
    first = {**rows[0]} if len(rows) == 1 else {"tasks": rows}
    return {**first, "pending": True, "next": told}


def _judged(found: Payload, tool: str) -> Payload:
    if "tasks" in found:
        rows = [_judged(one, tool) for one in found["tasks"]]
        return {"tasks": rows, "pending": False, "next": " ".join(row["next"] for row in rows)}
    questions = _open_questions(found)
    told = f"Task {found['handle']}: {_next(found, tool, asks=bool(questions))}"
    return {**_some(found, _RESULT), "questions": questions, "pending": found["status"] is None, "next": told}


def _next(found: Payload, tool: str, *, asks: bool) -> str:
    status = found["status"]
    if asks:
        more = "" if tool == "delegate" else " Ask the person you work for, then use answer."
        return f"it waits for an answer; see questions.{more}"
    if status is None:
        return "it is not judged yet. " + (f"Call {tool} again." if tool != "result" else "Use wait.")
    if status == "completed":
        return _COMPLETED[found["verification"]]
    return f"{status}. `problems` and `for_primary` say why; a person can resume it."


_COMPLETED = {
    "failing": "completed, but a check fails now. Look before you rely on it.",
    "none": "completed, but nothing of it was checked: what it claims is not verified. Look before you rely on it.",
    "passing": "completed, and its checks pass; that alone does not prove it.",
    "proved": "completed and verified.",
}


def _some(found: Payload, keys: tuple[str, ...]) -> Payload:
    return {key: found[key] for key in keys if key in found}
