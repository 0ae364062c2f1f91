"""What each tool calls: the verb's own function, with the arguments in the verb's own form."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, NotAllowed, NotFound, TimedOut
from overhand.verbs import Session
from overhand.verbs.table import verb
from overhand.words import option_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.mcp.tools import Tool

    Given = dict[str, Any]
    Told = dict[str, Any]

_SLICE = 5.0  # seconds between checks for a question while waiting for a result


class Connection:
    """One connection: the project, and how long a call may block."""

    def __init__(self, root: str, limit: float, *, tell: Callable[[str], None] | None = None) -> None:
        self.root, self.limit, self.tell = root, limit, tell
        self.overview: Any = None  # kept between calls, so that the next one reads only what is new

    def session(self, notes: list[str], progress: Callable[[str], None] | None, gone: int) -> Session:
        """A session without a terminal: nothing can be asked or confirmed in it."""
        made = Session(self.root, "mcp", tell=notes.append, progress=progress)
        made.gone = gone
        return made


def call(
    desk: Connection, tool: Tool, given: Given, progress: Callable[[str], None] | None = None, gone: int = -1
) -> Told:
    """Call a tool; the result says what exists and what to do next."""
    given = checked(tool, given)
    if not os.path.isdir(desk.root):  # else a new project would be created there
        raise NotFound(f"The project's folder {desk.root} is gone.", "Start the client again in a folder that exists.")
    notes: list[str] = []
    session = desk.session(notes, progress, gone)
    found = _CALLS[tool.name](desk, session, given)
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


def _verb(name: str, session: Session, **given: Any) -> Told:
    row = verb(name)
    if row is None:
        raise BadInput(f"There is no verb {name}.")
    return row.function()(session, **given).payload


def _delegate(desk: Connection, session: Session, given: Given) -> Told:
    again = given.pop("again", None)
    wait = given.pop("wait", False)
    if again is None:
        made = _verb("delegate", session, **given)
        if not wait:
            return accepted(made)
        again = made["handle"]
    return _wait(desk, session, {"id": [str(again)]}, own="delegate", wakes=False)


def _plan_run(desk: Connection, session: Session, given: Given) -> Told:
    """As the verb does it, but without a person to ask: what needs trust is refused."""
    from overhand.verbs import plan_run
    from overhand.verbs.plan import Source, source

    again, wait = given.pop("again", None), given.pop("wait", False)
    if again is None:
        text, file = given.pop("plan", None), given.pop("file", None)
        if (text is None) == (file is None):
            raise BadInput("plan_run: give either `plan`, its text, or `file`, its path.", "One of them, not both.")
        taken = (
            Source("the plan", "", text.encode("utf-8", "replace"))
            if text is not None
            else source(os.path.join(session.root, file))
        )
        if "max_parallel" in given:
            given["max_parallel"] = str(given["max_parallel"])
        if given.pop("dry_run", False):
            return planned(plan_run.dry(session, taken, **given))
        task, plan, found = plan_run.accept(session, taken, **given)
        if not wait:
            return begun(plan_run.receipt(session, task, plan, found))
        task_id = task.id
    else:
        task_id = plan_run.find(session, str(again))
    over = plan_run.wait_until(session, task_id, time.monotonic() + desk.limit)
    rows = [node(row) for row in plan_run.seen(session, task_id)["nodes"]]
    shown = _verb("show", session, id=task_id)
    told = judged(shown, "plan_run") if over else not_yet([shown], "plan_run")
    return with_nodes(told, rows)


def _status(desk: Connection, session: Session, _given: Given) -> Told:
    from overhand.verbs.status import Headline

    desk.overview = desk.overview or Headline(session)
    return overview(desk.overview.payload())


def _inbox(_desk: Connection, session: Session, _given: Given) -> Told:
    found = _verb("status", session)
    rows = []
    for one in found["groups"]["needs you"]:
        shown = _verb("show", session, id=one["task_id"])
        rows.append({**brief(one), "questions": open_questions(shown)})
    return waiting(found["project"], rows)


def _wait(desk: Connection, session: Session, given: Given, *, own: str = "wait", wakes: bool = True) -> Told:
    """Wait in slices, so that a question is noticed in between, and return before the client times out."""
    seconds = min(desk.limit, _seconds(given.get("timeout"), desk.limit))
    until = time.monotonic() + seconds
    task_ids = [session.store.resolve(one) for one in given["id"]]
    while True:
        left = max(0.0, until - time.monotonic())
        try:
            found = _verb("wait", session, id=task_ids, timeout=f"{min(left, _SLICE):.3f}")
        except TimedOut:
            asks = wakes and any(session.store.task(task_id).open_questions for task_id in task_ids)
            if asks or left <= _SLICE or session.is_gone():
                shown = [_verb("show", session, id=task_id) for task_id in task_ids]
                return not_yet(shown, own)
            continue
        return judged(found, own)


def _seconds(text: str | None, otherwise: float) -> float:
    return otherwise if text is None else option_duration("timeout", text)


def _result(_desk: Connection, session: Session, given: Given) -> Told:
    return judged(_verb("show", session, **given), "result")


def _answer(_desk: Connection, session: Session, given: Given) -> Told:
    task = session.store.task(session.store.resolve(given["id"]))
    seq, text = given.pop("seq", None), given.pop("text")
    meant = [q for q in task.open_questions if seq in (None, q.seq)]
    if any(q.via == "permission" for q in meant):
        raise NotAllowed(
            "What an agent wants to be permitted is for a person; it cannot be answered through MCP.",
            f"Ask the person to type: overhand answer {task.name}",
        )
    said = [text] if seq is None else [str(seq), text]
    return answered(_verb("answer", session, text=said, **given))


def _stop(_desk: Connection, session: Session, given: Given) -> Told:
    return {**_verb("stop", session, **given), "next": "They have ended. `status` shows what is left."}


def _agents(_desk: Connection, session: Session, given: Given) -> Told:
    found = _verb("agents", session, **given)
    return {**found, "next": "Name one in `agent` of delegate, or name none for the default."}


def _handoff(_desk: Connection, session: Session, _given: Given) -> Told:
    from overhand.verbs.finish_run import handoff

    return given(handoff(session).payload)


def _step(_desk: Connection, session: Session, given: Given) -> Told:
    state = given.pop("state", None)
    if state is not None and "step" not in given:
        raise BadInput("Which step?", "Give its number, or a part of its text, in `step`.")
    return steps(_verb("step", session, state=None if state is None else [state], **given))


def _ask(desk: Connection, session: Session, given: Given) -> Told:
    again = given.pop("again", None)
    try:
        found = _verb("ask", session, again=None if again is None else str(again), timeout=f"{desk.limit:.3f}", **given)
    except TimedOut as error:
        return unanswered(int(str(error.facts["seq"])))
    return {**found, "pending": False, "next": "Go on with this answer."}


def _checkpoint(_desk: Connection, session: Session, given: Given) -> Told:
    found = _verb("checkpoint", session, do="create", **given)
    return {**found, "next": "Go on with your task; files are never rolled back."}


def _finish(_desk: Connection, session: Session, given: Given) -> Told:
    if "data" in given:
        import json

        given["data"] = json.dumps(given["data"])
    return finished(_verb("finish", session, **given))


def _permit(_desk: Connection, session: Session, given: Given) -> Told:
    """Block until a person has decided; a run that waits too long is parked, as with any question."""
    from overhand.mcp.door import prompts_of
    from overhand.policy.caller import caller

    client = caller(session.store)
    permit = prompts_of(session.store, client)
    if permit is None:
        raise BadInput("This run's program has no permission prompt.", "Use the tools that are listed.")
    tool, asked = given["tool_name"], given.get("input", {})
    return permit(session.store, client.task or "", client.run or "", tool, asked, session.gone)


_CALLS: dict[str, Callable[[Connection, Session, Given], Told]] = {
    "delegate": _delegate,
    "plan_run": _plan_run,
    "status": _status,
    "wait": _wait,
    "result": _result,
    "answer": _answer,
    "inbox": _inbox,
    "stop": _stop,
    "agents": _agents,
    "handoff": _handoff,
    "step": _step,
    "ask": _ask,
    "checkpoint": _checkpoint,
    "finish": _finish,
    "permit": _permit,
}


_BRIEF = ("handle", "task_id", "title", "agent", "headline", "status", "verified", "progress", "step", "question",
          "node", "plan")  # fmt: skip
_RESULT = (
    *("task_id", "handle", "title", "agent", "kind", "headline", "status", "verified", "run_state", "cause"),
    *("summary", "data", "deliverables", "decisions", "for_primary", "files_modified", "errors", "next_steps"),
    *("problems", "checks", "unverified", "usage", "output", "folder", "node", "plan"),
)
_MOST = 20  # tasks at rest that a status tells of


def accepted(made: Told) -> Told:
    """A task that was handed over."""
    handle = made["handle"]
    keys = (*_BRIEF[:4], "state", "level", "timeout", "budget", "checks", "contract", "warnings", "folder")
    unchecked = "" if made["checks"] else " No check is set for it, so its result will read as not verified."
    more = f"Task {handle} is accepted; {made['agent']} works on it without you.{unchecked}"
    return {**_some(made, keys), "next": f"{more} It can be waited for, stopped and looked at as {handle}."}


def begun(made: Told) -> Told:
    """A plan that was handed over."""
    keys = (*_BRIEF[:4], "state", "nodes", "strategy", "timeout", "budget", "warnings", "folder")
    handle = made["handle"]
    more = f"Plan {handle} is accepted (nodes: {made['nodes']}); it goes on without you."
    return {**_some(made, keys), "nodes": [], "next": f"{more} Wait for it: plan_run with again: {handle}."}


def planned(found: Told) -> Told:
    """What a plan would do."""
    keys = ("task", "strategy", "merge", "on_failure", "limits", "waves", "commands", "warnings")
    return {**_some(found, keys), "next": "Nothing was run. Without dry_run it is."}


def node(row: Told) -> Told:
    """A node of a plan in a few words."""
    keys = ("node", "agent", "state", "status", "verified", "attempt", "seconds", "tokens", "handle", "question", "why")
    return {key: row[key] for key in keys if row[key] not in (None, "", 0)}


def with_nodes(told: Told, rows: list[Told]) -> Told:
    """A plan and its nodes; what one of them asks comes first."""
    asks = [f"node {row['node']} (task {row.get('handle', '-')})" for row in rows if row.get("question")]
    first = f"{', '.join(asks)} asks something: see nodes. " if asks else ""
    return {**told, "nodes": rows, "next": f"{first}{told['next']}"}


def overview(found: Told) -> Told:
    """The headline screen as rows."""
    groups = found["groups"]
    rows = [brief(one) for name, group in groups.items() if name != "done" for one in group[-_MOST:]]
    needs = len(groups.get("needs you", ()))
    told = f"{needs} need a person: see inbox." if needs else "Nothing needs a person."
    return {"project": found["project"], "counts": found["counts"], "tasks": rows, "next": told}


def brief(row: Told) -> Told:
    """A task in a few words."""
    return {key: row[key] for key in _BRIEF if row.get(key) is not None}


def open_questions(shown: Told) -> list[Told]:
    """What is not answered yet, in full."""
    keys = ("seq", "question", "options", "closed", "via")
    return [_some(one, keys) for one in shown["questions"] if one["answered"] is None]


def waiting(project: str, rows: list[Told]) -> Told:
    """Everything that waits for a person."""
    told = "Ask the person you work for, then pass their words on with answer." if rows else "Nothing waits."
    return {"project": project, "tasks": rows, "next": told}


def not_yet(shown: list[Told], tool: str) -> Told:
    """Not judged in time; or a question came in between."""
    rows = [{**brief(one), "status": one["status"], "questions": open_questions(one)} for one in shown]
    handles = [one["handle"] for one in shown]
    asked = [str(row["handle"]) for row in rows if row["questions"]]
    told = f"Not judged yet; the work goes on. Call {tool} again"
    told += f" with again: {handles[0]}." if tool in ("delegate", "plan_run") else f" with id: {handles}."
    if asked:
        told = f"Task {', '.join(asked)} asks something: see questions, and answer it. {told}"
    first = {**rows[0]} if len(rows) == 1 else {"tasks": rows}
    return {**first, "pending": True, "next": told}


def judged(found: Told, tool: str) -> Told:
    """One result, or several."""
    if "tasks" in found:
        rows = [_one(one, tool) for one in found["tasks"]]
        return {"tasks": rows, "pending": False, "next": " ".join(row["next"] for row in rows)}
    return _one(found, tool)


def _one(found: Told, tool: str) -> Told:
    shown = {**_some(found, _RESULT), "questions": open_questions(found), "pending": found["status"] is None}
    return {**shown, "next": f"Task {found['handle']}: {_next(found, shown['questions'], tool)}"}


def _next(found: Told, questions: list[Told], tool: str) -> str:
    status = found["status"]
    if questions:
        return "it waits for an answer; see questions." + (
            "" if tool == "delegate" else " Ask the person you work for, then use answer."
        )
    if status is None:
        return "it is not judged yet. " + (f"Call {tool} again." if tool != "result" else "Use wait.")
    if status == "completed" and found["verified"] in (None, "none"):
        return "completed, but no check of Overhand's ran: what it claims is not verified. Look before you rely on it."
    if status == "completed":
        return "completed, and checked."
    return f"{status}. `problems` and `for_primary` say why; a person can resume it."


def answered(found: Told) -> Told:
    """An answer that was recorded."""
    told = "Its next run starts by itself." if found["resumed"] else "Whoever asked has it now."
    left = f" Questions still open: {found['left']}." if found["left"] else ""
    return {**found, "next": f"{told}{left} Use wait for the result."}


def unanswered(seq: int) -> Told:
    """Before the client's patience ends."""
    told = f"No answer yet; question {seq} stays open. Call ask again with again: {seq} to wait on, at once."
    return {"seq": seq, "answer": None, "pending": True, "next": told}


def given(found: Told) -> Told:
    """A run's own task."""
    return {**found, "next": "Do it, mark its steps with step, ask what you cannot know, then return with finish."}


def steps(found: Told) -> Told:
    """The plan, or one step of it."""
    progress = found.get("progress")
    if progress is None:
        return {**found, "next": "Go on."}
    left = progress["total"] - progress["done"]
    told = f"{left} of {progress['total']} steps are left." if left else "All steps are done: return with finish."
    return {**found, "next": told}


def finished(found: Told) -> Told:
    """A return that was written."""
    checks = f" These checks run now without you: {'; '.join(found['checks'])}." if found["checks"] else ""
    return {**found, "next": f"OUTPUT.md is written. End your turn now; it is judged when your run ends.{checks}"}


def _some(found: Told, keys: tuple[str, ...]) -> Told:
    return {key: found[key] for key in keys if key in found}
