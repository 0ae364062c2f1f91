"""`answer` without words: everything that waits for an answer, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, Busy, Refused
from overhand.policy.caller import caller
from overhand.questions import files, record
from overhand.verbs import Answer, Session
from overhand.verbs.ask import give
from overhand.verbs.tasks import of_plan

if TYPE_CHECKING:
    from overhand.record.task import By, Question, Task


def walk(session: Session, handle: str | None, *, resume: bool) -> Answer:
    """On a terminal each question is put in turn; elsewhere they are listed."""
    waiting = [(task, question) for task in _states(session, handle) for question in task.open_questions]
    shown = [item(session, task, question) for task, question in waiting]
    payload: dict[str, Any] = {"schema": "overhand.answer/1", "questions": shown, "answered": []}
    if not session.interactive or session.read is None or not waiting:
        if handle is not None and not waiting:
            record.choose(session.store.task(session.store.resolve(handle)), None)
        return Answer(payload)
    who = caller(session.store)
    for number, one in enumerate(shown, 1):
        told = _put(session, one, number, len(shown))
        if told is None:
            break
        if told:
            try:
                payload["answered"].append(give(session, who, one["task_id"], one["seq"], told, resume=resume))
            except Refused as error:  # somebody else was quicker: the others still wait
                session.tell(f"  {error.message}")
    done = {(one["task_id"], one["seq"]) for one in payload["answered"]}
    payload["questions"] = [one for one in shown if (one["task_id"], one["seq"]) not in done]
    return Answer(payload)


def _states(session: Session, handle: str | None) -> list[Task]:
    states = [session.store.task(session.store.resolve(handle))] if handle else session.store.tasks()
    by = caller(session.store).by(session.via)
    wanted = [s for s in states if s.status not in ("completed", "cancelled", "rejected")]
    return [_with_files(session, task, by) for task in wanted]


def _with_files(session: Session, task: Task, by: By) -> Task:
    """The task with what lies in its `ipc/`; one that is held by somebody is shown as it is recorded."""
    try:
        return files.take_in(session.store, task, by).task
    except Busy as error:
        session.tell(error.message)
        return task


def item(session: Session, task: Task, question: Question) -> dict[str, Any]:
    """A question as it is shown wherever questions are: with the path of agents that leads to it."""
    return {
        "task_id": task.id,
        "handle": task.handle,
        "title": task.title,
        "path": task.path,
        "seq": question.seq,
        "question": record.full_text(session.store, task.id, question),
        "options": question.options,
        "closed": question.closed,
        "step": question.step,
        "asked": question.asked,
        "via": question.via,
        "run_state": task.run_state,
        **of_plan(task),
        "command": f"overhand answer {task.name} {question.seq} TEXT",
    }


def _put(session: Session, one: dict[str, Any], number: int, count: int) -> str | None:
    """Ask the person; "" to leave this one for later, None to leave them all."""
    read = session.read
    if read is None:
        return None
    session.tell(f"\n{number} of {count} · task {one['handle']} {one['title']} ({' → '.join(one['path'])})")
    if one["node"]:
        session.tell(f"  node {one['node']} of plan {one['plan_handle'] or one['plan']}")
    if one["step"]:
        session.tell(f"  at the step: {one['step']}")
    session.tell(f"  {one['question']}")
    for at, option in enumerate(one["options"], 1):
        session.tell(f"    {at}. {option}")
    how = "a number" if one["closed"] else "a number or your own words" if one["options"] else "your answer"
    while True:
        said = read(f"  {how}, Enter for later, q to leave: ")
        if said is None or said.strip() == "q":
            return None
        try:
            return _chosen(one, said.strip())
        except BadInput as error:
            session.tell(f"  {error.message}")


def _chosen(one: dict[str, Any], said: str) -> str:
    options: list[str] = one["options"]
    if said.isascii() and said.isdigit() and 0 < int(said) <= len(options):
        return options[int(said) - 1]
    if one["closed"] and said and said.casefold() not in (option.casefold() for option in options):
        raise BadInput(f"One of these is needed: {', '.join(options)}.")
    return said
