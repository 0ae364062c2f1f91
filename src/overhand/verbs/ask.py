"""Asking and answering: `ask` for a running agent, `answer` for whoever can help."""

from __future__ import annotations

from overhand.errors import BadInput, Busy, NotAllowed, NotFound, Refused, TimedOut
from overhand.policy.caller import caller
from overhand.questions import files, record, wait
from overhand.system import lock
from overhand.system.jsonline import loads
from overhand.verbs import Reply, Session
from overhand.words import option_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.policy.caller import Caller
    from overhand.record.task import By, Question, Task

MAX_BLOCK = 100.0


def ask(
    session: Session,
    question: str | None = None,
    option: list[str] | None = None,
    closed: bool = False,
    step: str | None = None,
    again: str | None = None,
    timeout: str | None = None,
) -> Reply:
    """Ask from inside a run, wait, and say the answer."""
    who = caller(session.store)
    if who.is_person or who.task is None or who.run is None:
        raise BadInput(
            "`overhand ask` is for an agent inside its run; this is a shell.",
            "See what waits for an answer: overhand answer",
        )
    seconds = option_duration("--timeout", timeout) if timeout is not None else _max_block(session, who)
    asked = _again(session, who, again) if again is not None else _new(session, who, question, option, closed, step)
    place = session.store.run_folder(who.task, who.run)
    session.progress(f"Waiting for an answer to question {asked.seq} …")
    with wait.WaitingMark(place, asked.seq):
        answer = wait.wait_for_answer(session.store, who.task, asked, seconds, cancelled=session.gone)
        if answer is None and files.has_unread(session.store, session.store.task(who.task)):
            files.take_in(
                session.store, session.store.task(who.task), who.by(session.via)
            )  # written by hand while no supervisor was there to see it
            answer = record.answer_of(session.store, who.task, asked.seq)
        if answer is None and not session.is_gone():  # who gave up does something else meanwhile
            wait.leave_mark(place, asked.seq)
    if answer is None:
        raise TimedOut(
            f"Question {asked.seq} is not answered yet; it stays open.",
            f"Wait on within 30 seconds: overhand ask --again {asked.seq}",
            seq=asked.seq,
        )
    shown = {"schema": "overhand.ask/1", "task_id": who.task, "seq": asked.seq, "question": asked.text}
    return Reply({**shown, "answer": answer})


def _new(
    session: Session, who: Caller, question: str | None, option: list[str] | None, closed: bool, step: str | None
) -> Question:
    if question is None:
        raise BadInput("Ask what?", 'For example: overhand ask "Which one?" --option a --option b')
    asking = record.Asking(text=question, options=option or (), only=closed, step=step or "")
    return record.ask(session.store, who.task or "", who.run, asking, who.by(session.via))


def _again(session: Session, who: Caller, again: str) -> Question:
    """The question of this number; whoever asked it, it is this task's."""
    found = None
    if again.isascii() and again.isdigit():
        found = session.store.task(who.task or "").question(int(again))
    if found is None:
        raise NotFound(f"This task has no question {again}.", 'Ask it: overhand ask "…"')
    return found


def _max_block(session: Session, who: Caller) -> float:
    """How long one call may block, as it was when the run began: shells of agents have limits of their own."""
    from overhand.system.files import read_file

    try:
        spec = loads(
            (read_file(f"{session.store.run_folder(who.task or '', who.run or '')}/spec.json") or b"").decode()
        )
        return float(spec["max_block"])
    except (ValueError, KeyError, TypeError):
        return MAX_BLOCK


def answer(session: Session, id: str | None = None, text: list[str] | None = None, no_resume: bool = False) -> Reply:
    """Answer a question, once; without words walk through everything that waits."""
    if id is None or not text:
        return walk(session, id, resume=not no_resume)
    task_id = session.store.resolve(id)
    seq, said = _meant(session.store.task(task_id), text)
    return Reply(give(session, caller(session.store), task_id, seq, said, resume=not no_resume))


def _meant(task: Task, words: list[str]) -> tuple[int | None, str]:
    """`[SEQ] TEXT`: a number that more words follow is a question's."""
    first = words[0]
    if len(words) > 1 and first.isascii() and first.isdigit() and task.question(int(first)):
        return int(first), " ".join(words[1:])
    return None, " ".join(words)


def give(session: Session, who: Caller, task_id: str, seq: int | None, text: str, *, resume: bool) -> dict[str, Any]:
    """Record one answer and see that somebody carries on."""
    task = session.store.task(task_id)
    _may_answer(session, who, task, seq)
    by = who.by(session.via)
    if files.has_unread(session.store, task):
        files.take_in(session.store, session.store.task(task_id), by)
    if resume and task.current_run is None:
        record.let_end(session.store, task)
    given = record.answer(session.store, task_id, text, by, seq=seq, resume=resume)
    question, task = given.question, given.task
    if resume and not given.resumed and task.current_run is None and record.has_leftovers(session.store, task):
        handle = task.handle or task_id
        session.tell("Processes of its last run are still alive, so it does not go on by itself.")
        session.tell(f"End them, then let it go on: overhand stop {handle}; overhand resume {handle}")
    if given.resumed or task.is_plan or not lock.is_held(f"{session.store.own}/lock"):
        _carry_on(session, task)
    return {
        "schema": "overhand.answer/1",
        "task_id": task_id,
        "handle": task.handle,
        "title": task.title,
        "seq": question.seq,
        "question": question.text,
        "answer": record.full_answer(session.store, task_id, question),
        "resumed": given.resumed,
        "run_state": task.run_state,
        "left": len(task.open_questions),
    }


def _carry_on(session: Session, task: Task) -> None:
    """The next run starts, or a live one is watched again."""
    from overhand.supervisor import client
    from overhand.verbs.reconcile import needs_supervisor

    if needs_supervisor(task):
        try:
            client.hand_over(session.store, [task.id])
        except Refused as error:  # the answer is recorded all the same, and the next verb sees to it
            session.tell(f"{error.message} {error.hint}")


def _may_answer(session: Session, who: Caller, task: Task, seq: int | None) -> None:
    """A person, or a run above the one that asks; nobody answers their own question, and no run permits anything."""
    if who.is_person:
        return
    if any(q.via == "permission" for q in task.open_questions if seq in (None, q.seq)):
        raise NotAllowed(
            f"What task {task.name} wants to be permitted is for a person to say.",
            "Go on with something else, or wait: a person sees the request.",
        )
    above = task.parent
    while above is not None:
        if above.run == who.run:
            return
        above = session.store.task(above.task).parent
    raise Refused(
        f"Run {who.run} may not answer task {task.name}: it did not delegate it.",
        "Only a person, or a run above the one that asks, can answer.",
    )


def walk(session: Session, handle: str | None, *, resume: bool) -> Reply:
    """On a terminal each question is put in turn; elsewhere they are listed."""
    waiting = [(task, question) for task in _states(session, handle) for question in task.open_questions]
    shown = [question_row(session, task, question) for task, question in waiting]
    payload: dict[str, Any] = {"schema": "overhand.answer/1", "questions": shown, "answered": []}
    if not session.interactive or session.read is None or not waiting:
        if handle is not None and not waiting:
            record.choose(session.store.task(session.store.resolve(handle)), None)
        return Reply(payload)
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
    return Reply(payload)


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


def question_row(session: Session, task: Task, question: Question) -> dict[str, Any]:
    """A question as it is shown wherever questions are: with the path of agents that leads to it."""
    from overhand.verbs.tasks import of_plan

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
