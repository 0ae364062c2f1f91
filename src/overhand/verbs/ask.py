"""Asking and answering: `ask` for a running agent, `answer` for a person or the agent that delegated."""

from __future__ import annotations

from overhand.errors import BadInput, Busy, NotAllowed, NotFound, Refused, TimedOut
from overhand.policy import find_caller, require_known
from overhand.questions import (
    Asking,
    answer_question,
    ask_question,
    choose_question,
    full_answer,
    full_question,
    has_leftovers,
    has_unread_files,
    leave_waiting_mark,
    let_leftovers_end,
    recorded_answer,
    take_in_files,
    unread_marks,
)
from overhand.system import deadline, has_live_holder, load_line
from overhand.verbs.verb import Pending, Reply, Session, about_task
from overhand.words import option_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from overhand.policy import Caller
    from overhand.record import By, Question, RunFolders, Task

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
    """Ask from inside a run, and wait for the answer."""
    caller = find_caller(session.store)
    if caller.is_person or caller.task is None or caller.run is None:
        raise BadInput(
            "`overhand ask` is for an agent inside its run; this is a shell.",
            "See what waits for an answer: overhand answer",
        )
    folders = session.store.run_folders(caller.task, caller.run)
    seconds = option_duration("--timeout", timeout) if timeout is not None else _max_block(folders.place)
    if again is not None:
        known = session.store.task(caller.task).question(int(again)) if again.isascii() and again.isdigit() else None
        if known is None:
            raise NotFound(f"This task has no question {again}.", 'Ask it: overhand ask "…"')
        asked = known
    elif question is None:
        raise BadInput("Ask what?", 'For example: overhand ask "Which one?" --option a --option b')
    else:
        asking = Asking(text=question, options=option or (), only=closed, step=step or "")
        asked = ask_question(session.store, caller.task, caller.run, asking, caller.by(session.via))
    session.progress(f"Waiting for an answer to question {asked.seq} …")
    task_id = caller.task

    def look(over: bool) -> Reply | None:
        return _look_for_answer(session, folders, task_id, asked, over)

    return session.wait(Pending([task_id], look, deadline(seconds), seq=asked.seq))


def _look_for_answer(session: Session, folders: RunFolders, task_id: str, asked: Question, over: bool) -> Reply | None:
    answer = recorded_answer(session.store, task_id, asked.seq)
    if answer is None and over:
        if not session.is_gone():  # a client that is gone does not wait
            leave_waiting_mark(folders.both[session.defers], asked.seq)
        raise TimedOut(
            f"Question {asked.seq} is not answered yet; it stays open.",
            f"Wait on within 30 seconds: overhand ask --again {asked.seq}",
            seq=asked.seq,
        )
    if answer is None:
        return None
    for place in folders.both:
        for mark in unread_marks(place, asked.seq):
            place.remove(mark)  # of an earlier call: now the answer is read
    shown = {"schema": "overhand.ask/1", "task_id": task_id, "seq": asked.seq, "question": asked.text}
    return Reply({**shown, "answer": answer})


def _max_block(place: str) -> float:
    """How long one call may block, as it was when the run began: shells of agents have limits of their own."""
    from overhand.system import read_file

    try:
        return float(load_line((read_file(f"{place}/spec.json") or b"").decode())["max_block"])
    except (ValueError, KeyError, TypeError):
        return MAX_BLOCK


def answer(session: Session, id: str | None = None, text: list[str] | None = None, no_resume: bool = False) -> Reply:
    """Answer a question, once; without words walk through everything that waits."""
    if id is None or not text:
        return walk_questions(session, id, resume=not no_resume)
    task_id = session.store.resolve(id)
    seq, first = None, text[0]
    if len(text) > 1 and first.isascii() and first.isdigit() and session.store.task(task_id).question(int(first)):
        seq, text = int(first), text[1:]  # `SEQ TEXT`
    return Reply(give_answer(session, find_caller(session.store), task_id, seq, " ".join(text), resume=not no_resume))


def give_answer(
    session: Session, caller: Caller, task_id: str, seq: int | None, text: str, *, resume: bool
) -> dict[str, Any]:
    """Record one answer and see that the task continues."""
    task = session.store.task(task_id)
    _may_answer(session, caller, task, seq)
    by = caller.by(session.via)
    if has_unread_files(session.store, task):
        take_in_files(session.store, session.store.task(task_id), by)
    if resume and task.current_run is None:
        let_leftovers_end(session.store, task)
        from overhand.record import keep_environment

        keep_environment(session.store, task_id, session.env)
    given = answer_question(session.store, task_id, text, by, seq=seq, resume=resume)
    question, task = given.question, given.task
    if resume and not given.resumed and task.current_run is None and has_leftovers(session.store, task):
        session.tell("Processes of its last run are still alive, so it does not go on by itself.")
        session.tell(f"End them, then let it go on: overhand stop {task.name}; overhand resume {task.name}")
    if given.resumed or task.is_plan or not has_live_holder(f"{session.store.own}/lock"):
        _carry_on(session, task)
    return {
        **about_task("answer", task, "title"),
        "seq": question.seq,
        "question": question.text,
        "answer": full_answer(session.store, task_id, question),
        "resumed": given.resumed,
        "run_state": task.run_state,
        "left": len(task.open_questions),
    }


def _carry_on(session: Session, task: Task) -> None:
    """Have a supervisor start the next run, or watch a live one."""
    from overhand.supervisor import hand_to_supervisor
    from overhand.verbs.tasks import needs_supervisor

    if needs_supervisor(task):
        try:
            hand_to_supervisor(session.store, [task.id])
        except Refused as error:  # the answer is recorded anyway, and the next verb tries again
            session.tell(f"{error.message} {error.hint}")


def _may_answer(session: Session, caller: Caller, task: Task, seq: int | None) -> None:
    """A person may, or a run above the one that asks; a permission is only for a person."""
    if caller.is_person:
        return
    require_known(caller, "Answering")
    if any(q.via == "permission" for q in task.open_questions if seq in (None, q.seq)):
        raise NotAllowed(
            f"What task {task.name} wants to be permitted is for a person to say.",
            "Go on with something else, or wait: a person sees the request.",
        )
    above = task.parent
    while above is not None:
        if above.run == caller.run:
            return
        above = session.store.task(above.task).parent
    raise Refused(
        f"Run {caller.run} may not answer task {task.name}: it did not delegate it.",
        "Only a person, or a run above the one that asks, can answer.",
    )


def walk_questions(session: Session, handle: str | None, *, resume: bool) -> Reply:
    """On a terminal each question is asked in turn; elsewhere they are listed."""
    tasks = [session.store.task(session.store.resolve(handle))] if handle else session.store.tasks()
    by = find_caller(session.store).by(session.via)
    open_tasks = [_with_files(session, s, by) for s in tasks if s.status not in ("completed", "cancelled", "rejected")]
    shown = [question_row(session, task, question) for task in open_tasks for question in task.open_questions]
    payload: dict[str, Any] = {"schema": "overhand.answer/1", "questions": shown, "answered": []}
    if not session.interactive or session.read is None or not shown:
        if handle is not None and not shown:
            choose_question(session.store.task(session.store.resolve(handle)), None)
        return Reply(payload)
    caller = find_caller(session.store)
    for number, one in enumerate(shown, 1):
        text = _ask_person(session, session.read, one, f"{number} of {len(shown)}")
        if text is None:
            break
        if text:
            try:
                payload["answered"].append(
                    give_answer(session, caller, one["task_id"], one["seq"], text, resume=resume)
                )
            except Refused as error:  # another process answered it first
                session.tell(f"  {error.message}")
    done = {(one["task_id"], one["seq"]) for one in payload["answered"]}
    payload["questions"] = [one for one in shown if (one["task_id"], one["seq"]) not in done]
    return Reply(payload)


def _with_files(session: Session, task: Task, by: By) -> Task:
    """The task with the files in its `ipc/` recorded; a busy one as it is recorded already."""
    try:
        return take_in_files(session.store, task, by).task
    except Busy as error:
        session.tell(error.message)
        return task


def question_row(session: Session, task: Task, question: Question) -> dict[str, Any]:
    """A question as every verb shows it: with the path of agents that leads to it."""
    from overhand.verbs.tasks import of_plan

    return {
        "task_id": task.id,
        "handle": task.handle,
        "title": task.title,
        "path": task.path,
        "seq": question.seq,
        "question": full_question(session.store, task.id, question),
        "options": question.options,
        "closed": question.closed,
        "step": question.step,
        "asked": question.asked,
        "via": question.via,
        "run_state": task.run_state,
        **of_plan(task),
        "command": f"overhand answer {task.name} {question.seq} TEXT",
    }


def _ask_person(session: Session, read: Callable[[str], str | None], one: dict[str, Any], place: str) -> str | None:
    """The answer; "" to leave this question for later, None to leave them all."""
    session.tell(f"\n{place} · task {one['handle']} {one['title']} ({' → '.join(one['path'])})")
    if one["node"]:
        session.tell(f"  node {one['node']} of plan {one['plan_handle'] or one['plan']}")
    if one["step"]:
        session.tell(f"  at the step: {one['step']}")
    session.tell(f"  {one['question']}")
    for at, option in enumerate(one["options"], 1):
        session.tell(f"    {at}. {option}")
    options: list[str] = one["options"]
    how = "a number" if one["closed"] else "a number or your own words" if options else "your answer"
    while True:
        line = read(f"  {how}, Enter for later, q to leave: ")
        if line is None or line.strip() == "q":
            return None
        text = line.strip()
        if text.isascii() and text.isdigit() and 0 < int(text) <= len(options):
            return options[int(text) - 1]
        if not one["closed"] or not text or text.casefold() in (option.casefold() for option in options):
            return text
        session.tell(f"  One of these is needed: {', '.join(options)}.")
