"""What each tool calls: the verb's own function, with the arguments in the verb's own form."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, NotAllowed, NotFound, TimedOut
from overhand.mcp import words
from overhand.verbs import Session
from overhand.verbs.table import verb
from overhand.words import option_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.mcp.tools import Tool

    Given = dict[str, Any]
    Told = dict[str, Any]

_SLICE = 5.0  # seconds between looks for a question while waiting for a result


class Desk:
    """One connection: the project, and how long a call may block."""

    def __init__(self, root: str, limit: float, *, tell: Callable[[str], None] | None = None) -> None:
        self.root, self.limit, self.tell = root, limit, tell
        self.overview: Any = None  # kept between calls: the next look reads only what is new

    def session(self, notes: list[str], progress: Callable[[str], None] | None, gone: int) -> Session:
        """A session of nobody at a terminal: nothing can be asked or confirmed in it."""
        made = Session(self.root, "mcp", tell=notes.append, progress=progress)
        made.gone = gone
        return made


def call(desk: Desk, tool: Tool, given: Given, progress: Callable[[str], None] | None = None, gone: int = -1) -> Told:
    """Call a tool; what comes back says what exists and what comes next."""
    given = checked(tool, given)
    if not os.path.isdir(desk.root):  # else a new project would be made in its place
        raise NotFound(f"The project's folder {desk.root} is gone.", "Start the client again in a folder that exists.")
    notes: list[str] = []
    session = desk.session(notes, progress, gone)
    found = _CALLS[tool.name](desk, session, given)
    if tool.plain:
        return found
    told = {"next": found.get("next", ""), **found}  # first: some clients show the typed result only
    return {**told, "notes": notes} if notes else told


def checked(tool: Tool, given: Given) -> Given:
    """The arguments as the verb takes them; everything that is wrong with them at once."""
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
            value = [value]  # one is a list of one  # noqa: PLW2901
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


def _delegate(desk: Desk, session: Session, given: Given) -> Told:
    again = given.pop("again", None)
    wait = given.pop("wait", False)
    if again is None:
        made = _verb("delegate", session, **given)
        if not wait:
            return words.accepted(made)
        again = made["handle"]
    return _wait(desk, session, {"id": [str(again)]}, own="delegate", wakes=False)


def _plan_run(desk: Desk, session: Session, given: Given) -> Told:
    """The verb's own way, but that nobody can be asked: what needs trust is refused."""
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
            return words.planned(plan_run.dry(session, taken, **given))
        task, plan, found = plan_run.accept(session, taken, **given)
        if not wait:
            return words.begun(plan_run.receipt(session, task, plan, found))
        task_id = task.id
    else:
        task_id = plan_run.find(session, str(again))
    over = plan_run.wait_until(session, task_id, time.monotonic() + desk.limit)
    rows = [words.node(row) for row in plan_run.seen(session, task_id)["nodes"]]
    shown = _verb("show", session, id=task_id)
    told = words.judged(shown, "plan_run") if over else words.not_yet([shown], "plan_run")
    return words.with_nodes(told, rows)


def _status(desk: Desk, session: Session, _given: Given) -> Told:
    from overhand.verbs.status import Headline

    desk.overview = desk.overview or Headline(session)
    return words.overview(desk.overview.payload())


def _inbox(_desk: Desk, session: Session, _given: Given) -> Told:
    found = _verb("status", session)
    rows = []
    for one in found["groups"]["needs you"]:
        shown = _verb("show", session, id=one["task_id"])
        rows.append({**words.brief(one), "questions": words.open_questions(shown)})
    return words.waiting(found["project"], rows)


def _wait(desk: Desk, session: Session, given: Given, *, own: str = "wait", wakes: bool = True) -> Told:
    """In slices, so that a question in between is seen; a client's own patience is never used up."""
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
                return words.not_yet(shown, own)
            continue
        return words.judged(found, own)


def _seconds(text: str | None, otherwise: float) -> float:
    return otherwise if text is None else option_duration("timeout", text)


def _result(_desk: Desk, session: Session, given: Given) -> Told:
    return words.judged(_verb("show", session, **given), "result")


def _answer(_desk: Desk, session: Session, given: Given) -> Told:
    task = session.store.task(session.store.resolve(given["id"]))
    seq, text = given.pop("seq", None), given.pop("text")
    meant = [q for q in task.open_questions if seq in (None, q.seq)]
    if any(q.via == "permission" for q in meant):
        raise NotAllowed(
            "What an agent wants to be permitted is for a person; it cannot be answered through MCP.",
            f"Ask the person to type: overhand answer {task.name}",
        )
    said = [text] if seq is None else [str(seq), text]
    return words.answered(_verb("answer", session, text=said, **given))


def _stop(_desk: Desk, session: Session, given: Given) -> Told:
    return {**_verb("stop", session, **given), "next": "They have ended. `status` shows what is left."}


def _agents(_desk: Desk, session: Session, given: Given) -> Told:
    found = _verb("agents", session, **given)
    return {**found, "next": "Name one in `agent` of delegate, or name none for the default."}


def _handoff(_desk: Desk, session: Session, _given: Given) -> Told:
    from overhand.verbs.finish_run import handoff

    return words.given(handoff(session).payload)


def _step(_desk: Desk, session: Session, given: Given) -> Told:
    state = given.pop("state", None)
    if state is not None and "step" not in given:
        raise BadInput("Which step?", "Give its number, or a part of its text, in `step`.")
    return words.steps(_verb("step", session, state=None if state is None else [state], **given))


def _ask(desk: Desk, session: Session, given: Given) -> Told:
    again = given.pop("again", None)
    try:
        found = _verb("ask", session, again=None if again is None else str(again), timeout=f"{desk.limit:.3f}", **given)
    except TimedOut as error:
        return words.unanswered(int(str(error.facts["seq"])))
    return {**found, "pending": False, "next": "Go on with this answer."}


def _checkpoint(_desk: Desk, session: Session, given: Given) -> Told:
    found = _verb("checkpoint", session, do="create", **given)
    return {**found, "next": "Go on with your task; files are never rolled back."}


def _finish(_desk: Desk, session: Session, given: Given) -> Told:
    if "data" in given:
        import json

        given["data"] = json.dumps(given["data"])
    return words.finished(_verb("finish", session, **given))


def _permit(_desk: Desk, session: Session, given: Given) -> Told:
    """Blocks until a person has decided; a run that waits too long is parked as with any question."""
    from overhand.mcp.door import prompts_of
    from overhand.policy.caller import caller

    who = caller(session.store)
    permit = prompts_of(session.store, who)
    if permit is None:
        raise BadInput("This run's program has no permission prompt.", "Use the tools that are listed.")
    tool, asked = given["tool_name"], given.get("input", {})
    return permit(session.store, who.task or "", who.run or "", tool, asked, session.gone)


_CALLS: dict[str, Callable[[Desk, Session, Given], Told]] = {
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
