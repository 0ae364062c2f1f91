"""`plan show` and `plan graph`: where a plan stands, as a tree, a document or a picture; and waiting for its end."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput
from overhand.plans import progress
from overhand.verbs import Answer, Session
from overhand.verbs.planview import SCHEMA, View, line
from overhand.verbs.reconcile import refresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record.task import Task

    Row = dict[str, Any]

# the words of the output form
_STATUSES = {
    progress.VERIFIED: "completed",
    progress.FAILED: "failed",
    progress.SKIPPED: "skipped",
    progress.STOPPED: "cancelled",
    progress.PENDING: "pending",
    progress.HELD: "pending",
    progress.READY: "pending",
}


def find(session: Session, word: str) -> str:
    """The task of a plan; - is the last plan, not the last of its nodes."""
    task = session.store.task(session.store.resolve(word))
    if word == "-" and not task.is_plan:
        made = sorted(session.store.tasks(), key=lambda one: one.handle or 0)
        task = next((one for one in reversed(made) if one.is_plan), task)
    name = task.name
    if not task.is_plan:
        of = task.plan if task.node else None
        hint = f"It is a node of plan {of}: overhand plan show {of}" if of else f"See it: overhand show {name}"
        raise BadInput(f"Task {name} is no plan.", hint)
    refresh(session, task)
    return task.id


def show(session: Session, word: str, watch: bool = False, format: str = "text") -> Answer:
    """The tree, once or until it is judged; or the plan with its states as a document."""
    if format not in ("text", "yaml", "json"):
        raise BadInput(f"--format cannot be {format!r}.", "One of: text, yaml, json")
    if watch and format != "text":
        raise BadInput(f"--watch shows text, not {format}.", "Leave one of them out; --json --watch prints JSON lines.")
    view = View(session, find(session, word))
    view.look()
    if format != "text":
        return Answer(_document(session, view, format))
    if not watch:
        return Answer(view.payload())
    if not session.plain:
        answer = Answer({"schema": SCHEMA})
        answer.stream = _stream(session, view, answer)
        return answer
    for _ in _each(session, view):
        _draw(session, view)
    payload = view.payload()
    return Answer(payload, 0 if payload["status"] == "completed" else 1)


def _document(session: Session, view: View, format: str) -> Row:
    """The output form, with the states and results of now."""
    from overhand.plans import formats, results

    rows: dict[str, Row] = {}
    for name, known in view.state.nodes.items():
        status = _STATUSES.get(known.state, "running")
        rows[name] = {"status": "partial" if status == "completed" and known.status == "partial" else status}
        if known.state == progress.VERIFIED and name in view.tasks:
            value = results.value_of(session.store, view.tasks[name], known.digest)
            rows[name]["result"] = {"summary": value.summary} if value.data is None else value.data
    own = session.store.task(view.task_id)
    status = own.status if own.status is not None else "running" if own.runs else "pending"
    made = formats.written(view.plan, str(status), rows)
    head = {"schema": SCHEMA, "do": "show", "task_id": view.task_id, "handle": own.handle, "format": format}
    if format == "yaml":
        return {**head, "plan": made, "text": formats.as_yaml(made), "raw": True}
    import json

    return {**head, "plan": made, "text": json.dumps(made, ensure_ascii=False, indent=2, default=str), "raw": True}


def graph(session: Session, word: str, format: str = "mermaid", out: str | None = None) -> Answer:
    """The plan of a file, or of a task with the states of its nodes."""
    from overhand.plans.graph import FORMATS, picture
    from overhand.verbs import plan as plans
    from overhand.verbs.check import is_file

    if format not in FORMATS:
        raise BadInput(f"--format cannot be {format!r}.", f"One of: {', '.join(FORMATS)}")
    states: dict[str, str] = {}
    if is_file(word):
        given = plans.source(word)
        found = plans.look_over(session, given)
        plan = found.plan or plans.sound(given, found)  # one with errors can be drawn, a cycle shows
    else:
        view = View(session, find(session, word))
        view.look()
        plan, states = view.plan, view.states()
    text = picture(plan, states, format)
    told = {"schema": SCHEMA, "do": "graph", "format": format, "nodes": len(plan.nodes), "text": text}
    if out is None or out == "-":
        return Answer({**told, "raw": True})
    from overhand.system.files import write_file

    if os.path.isdir(out):
        raise BadInput(f"--out {out} is a folder.", f"Name the file to write, such as plan.{format}")
    write_file(os.path.realpath(out), text)
    return Answer({**told, "out": out})


# waiting


def _each(session: Session, view: View, until: float = float("inf")) -> Iterator[Task]:
    """Whenever something happened to the plan, until it is at rest or the time is over."""
    from overhand.questions import wait
    from overhand.verbs.look import at_rest

    with wait.bell(session.store, [view.task_id]) as bell:
        while True:
            task = refresh(session, session.store.task(view.task_id))
            view.look()
            if at_rest(task) or time.monotonic() >= until or session.is_gone():
                return
            yield task
            bell.wait(min(_PAUSE, until - time.monotonic()))


_PAUSE = 0.5  # a plan's own events ring no bell


def _stream(session: Session, view: View, answer: Answer) -> Iterator[Row]:
    before: Row = {}
    for _ in _each(session, view):
        payload = view.payload()
        steady = _steady(payload)
        if steady != before:
            before = steady
            yield payload
    payload = view.payload()
    answer.code = 0 if payload["status"] == "completed" else 1
    yield payload


def _steady(payload: Row) -> Row:
    """Without the times, which always change."""
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in payload["nodes"]]
    return {**payload, "seconds": None, "nodes": rows}


def _draw(session: Session, view: View) -> None:
    """The tree where a terminal shows it in place, else a line about it."""
    if session.draw is not None:
        session.draw(view.payload(handles=False))
    else:
        session.progress(line(view))


def seen(session: Session, task_id: str) -> Row:
    """The tree as it is now."""
    view = View(session, task_id)
    view.look()
    return view.payload()


def wait_until(session: Session, task_id: str, until: float) -> bool:
    """Tell how it goes, node by node, until it is at rest (then True), a node asks something or the time is over."""
    from overhand.policy.caller import caller
    from overhand.verbs.look import at_rest

    view = View(session, task_id)
    wakes = caller(session.store).is_person  # a run waits on, as it does for an answer to its own question
    with _slotless(session, task_id):
        for _ in _each(session, view, until):
            session.progress(line(view))
            if wakes and view.asks():
                break
    return at_rest(session.store.task(task_id))


@contextmanager
def _slotless(session: Session, task_id: str) -> Iterator[None]:
    """A run that waits for its plan holds no slot."""
    from overhand.policy.caller import caller
    from overhand.questions import wait
    from overhand.supervisor import client

    who = caller(session.store)
    with wait.without_slot(session.store, who.task, who.run):
        if not who.is_person:
            client.hand_over(session.store, [task_id])  # our slot is free now
        yield


def wait_for(session: Session, task_id: str) -> Answer:
    """Until the plan is judged, with its tree in sight; as `wait` does for any task, and with the same answer."""
    from overhand.verbs.look import describe

    view = View(session, task_id)
    try:
        with _slotless(session, task_id):
            for _ in _each(session, view):
                _draw(session, view)
            if session.draw is not None:
                session.draw(view.payload())
    except KeyboardInterrupt:
        handle = session.store.task(task_id).handle
        session.tell(f"The work goes on. See it: overhand plan show {handle} --watch · stop it: overhand stop {handle}")
        raise
    task = session.store.task(task_id)
    shown = {**describe(session, task, "plan"), "do": "run", "nodes": view.payload()["nodes"]}
    return Answer(shown, 0 if task.status == "completed" else 1)
