"""Asking and answering: `ask` for a running agent, `answer` for whoever can help."""

from __future__ import annotations

import os
import time

from overhand import log, model, questions
from overhand.callers import caller
from overhand.errors import BadInput, NotFound, Refused, TimedOut
from overhand.jsonline import loads
from overhand.verbs import Answer, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.callers import Caller
    from overhand.shapes import Question, State

MAX_BLOCK = 100.0


def ask(
    session: Session,
    question: str | None = None,
    option: list[str] | None = None,
    closed: bool = False,
    step: str | None = None,
    again: str | None = None,
    timeout: str | None = None,
) -> Answer:
    """Ask from inside a run, wait, and say the answer."""
    who = caller(session.store)
    if who.is_person or who.task is None or who.run is None:
        raise BadInput(
            "`overhand ask` is for an agent inside its run; this is a shell.",
            "See what waits for an answer: overhand answer",
        )
    asked = _again(session, who, again) if again is not None else _new(session, who, question, option, closed, step)
    seconds = _seconds(timeout) if timeout is not None else _max_block(session, who)
    folder = f"{session.store.run_folder(who.task, who.run)}/waiting"
    session.progress(f"Waiting for an answer to question {asked['seq']} …")
    with _Blocked(folder, asked["seq"]):
        answer = questions.await_answer(session.store, who.task, asked, seconds)
        if answer is None:
            _leave_mark(folder, asked["seq"])
    if answer is None:
        raise TimedOut(
            f"Question {asked['seq']} is not answered yet; it stays open.",
            f"Wait on within 30 seconds: overhand ask --again {asked['seq']}",
            seq=asked["seq"],
        )
    shown = {"schema": "overhand.ask/1", "task_id": who.task, "seq": asked["seq"], "question": asked["question"]}
    return Answer({**shown, "answer": answer})


def _new(
    session: Session, who: Caller, question: str | None, option: list[str] | None, closed: bool, step: str | None
) -> Question:
    if question is None:
        raise BadInput("Ask what?", 'For example: overhand ask "Which one?" --option a --option b')
    by = who.by(session.via)
    return questions.ask(
        session.store,
        who.task or "",
        who.run,
        by,
        question,
        options=option or (),
        closed=closed,
        step=step or "",
    )


def _again(session: Session, who: Caller, again: str) -> Question:
    """The question of this number; whoever asked it, it is this task's."""
    found = None
    if again.isascii() and again.isdigit():
        found = model.find_question(session.store.state(who.task or ""), int(again))
    if found is None:
        raise NotFound(f"This task has no question {again}.", 'Ask it: overhand ask "…"')
    return found


def _seconds(text: str) -> float:
    try:
        return model.duration(text)
    except ValueError:
        raise BadInput(f"--timeout {text!r} is not a duration.", "Write it as 30s, 5m or 2h.") from None


def _max_block(session: Session, who: Caller) -> float:
    """How long one call may block, as it was when the run began: shells of agents have limits of their own."""
    from overhand.files import read_file

    try:
        spec = loads(
            (read_file(f"{session.store.run_folder(who.task or '', who.run or '')}/spec.json") or b"").decode()
        )
        return float(spec["max_block"])
    except (ValueError, KeyError, TypeError):
        return MAX_BLOCK


class _Blocked:
    """While it waits, its run is known to be blocked: a lock says so, and the kernel drops it if we die."""

    def __init__(self, folder: str, seq: int) -> None:
        self.path = f"{folder}/ask-{seq}-{os.getpid()}"
        self.fd = -1

    def __enter__(self) -> None:
        import fcntl

        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.unlink(self.path)
        os.close(self.fd)


def _leave_mark(folder: str, seq: int) -> None:
    """It was told to call again: for a while the run still counts as blocked."""
    from overhand.files import write_file

    write_file(f"{folder}/again-{seq}", f"{time.monotonic():.3f}\n")


def answer(session: Session, id: str | None = None, text: list[str] | None = None, no_resume: bool = False) -> Answer:
    """Answer a question, once; without words walk through everything that waits."""
    if id is None or not text:
        from overhand.verbs.walk import walk

        return walk(session, id, resume=not no_resume)
    task_id = session.store.resolve(id)
    seq, said = _meant(session.store.state(task_id), text)
    return Answer(give(session, caller(session.store), task_id, seq, said, resume=not no_resume))


def _meant(state: State, words: list[str]) -> tuple[int | None, str]:
    """`[SEQ] TEXT`: a number that more words follow is a question's."""
    first = words[0]
    if len(words) > 1 and first.isascii() and first.isdigit() and model.find_question(state, int(first)):
        return int(first), " ".join(words[1:])
    return None, " ".join(words)


def give(session: Session, who: Caller, task_id: str, seq: int | None, text: str, *, resume: bool) -> dict[str, Any]:
    """Record one answer and see that somebody carries on."""
    state = session.store.state(task_id)
    _may_answer(session, who, state)
    if questions.has_unread(session.store, state):
        from overhand import doors

        doors.take(session.store, state, who.by(session.via))
    question, state, resumed = questions.answer(
        session.store, task_id, who.by(session.via), seq, text, via=session.via, resume=resume
    )
    if resumed or not log.is_held(f"{session.store.own}/lock"):
        _carry_on(session, state)
    return {
        "schema": "overhand.answer/1",
        "task_id": task_id,
        "handle": state["handle"],
        "title": state["title"],
        "seq": question["seq"],
        "question": question["question"],
        "answer": text,
        "resumed": resumed,
        "run_state": model.run_state(state),
        "left": len(model.open_questions(state)),
    }


def _carry_on(session: Session, state: State) -> None:
    """The next run starts, or a live one is watched again."""
    from overhand import summon
    from overhand.verbs.reconcile import needs_supervisor

    if needs_supervisor(state):
        summon.call(session.store, [state["task_id"]])


def _may_answer(session: Session, who: Caller, state: State) -> None:
    """A person, or a run above the one that asks; nobody answers their own question."""
    if who.is_person:
        return
    above = state["parent"]
    while above is not None:
        if above["run"] == who.run:
            return
        above = session.store.state(above["task"])["parent"]
    raise Refused(
        f"Run {who.run} may not answer task {state['handle'] or state['task_id']}: it did not delegate it.",
        "Only a person, or a run above the one that asks, can answer.",
    )
