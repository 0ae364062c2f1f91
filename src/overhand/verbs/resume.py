"""`resume`: the same task, a new run that goes on from where the last one stood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents import files
from overhand.drafts.words import budget_of
from overhand.errors import BadInput, NotAllowed, Refused
from overhand.policy import config as configs
from overhand.policy import trust
from overhand.policy.caller import caller
from overhand.questions import record
from overhand.record.events import ABSENT, Accepted
from overhand.runs import checkpoints, spending
from overhand.verbs.ask import give
from overhand.verbs.control import may_run, queue_again, run_plan
from overhand.verbs.reconcile import refresh

if TYPE_CHECKING:
    from overhand.policy.caller import Caller
    from overhand.record.task import Task
    from overhand.verbs import Answer, Session


def resume(
    session: Session,
    id: str,
    answer: str | None = None,
    from_: str | None = None,
    agent: str | None = None,
    budget: str | None = None,
    wait: bool = False,
    open: bool = False,
) -> Answer:
    """Start the next run of a task that ended short, or open its session for a person."""
    if open:
        from overhand.verbs.opening import open_session

        if answer or from_ or agent or budget:
            raise BadInput("--open goes with no other option.", f"overhand resume {id} --open")
        return open_session(session, id)
    from overhand.verbs.delegate import ask_for_trust

    who = caller(session.store)
    task_id = session.store.resolve(id)
    task = refresh(session, session.store.task(task_id))
    may_resume(session, who, task)
    ask_for_trust(session, who)
    if task.is_plan:
        return _resume_plan(session, who, task, answer, from_, agent, budget, wait=wait)
    config = configs.of_task(session.root, configs.load(session.root), task.settings)
    if agent is None and task.runs[-1].attached and task.agent not in files.names(session.root):
        raise Refused(
            f"{task.agent} is a function in a Python process, and cannot be called from here.",
            f"In Python: project.resume({task.handle}), or let another agent take over: --agent NAME",
        )
    chosen = files.find(session.root, agent or task.agent, config)
    trust.require(session.root, chosen.trusted_with)
    trust.require_seal(task)
    text = budget_of(budget)
    spending.require_some_left(session.store, task.but(budget=text or task.budget))
    how = going_on(session, who, task, answer, from_)
    accepted = Accepted(agent=chosen.name, resume=how, budget=ABSENT if text is None else text)
    return queue_again(session, who, task_id, accepted, "resume", wait=wait)


def _resume_plan(
    session: Session,
    who: Caller,
    task: Task,
    answer: str | None,
    from_: str | None,
    agent: str | None,
    budget: str | None,
    *,
    wait: bool,
) -> Answer:
    """Nothing is rolled back: verified nodes stay, from whichever checkpoint."""
    if answer is not None:
        raise BadInput("A plan takes no answer.", "Answer the node that asks: overhand answer")
    text = budget_of(budget)
    spending.require_some_left(session.store, task.but(budget=text or task.budget))
    how = going_on(session, who, task, None, from_)
    return run_plan(session, who, task, how, agent, "resume", wait=wait, budget=text)


def going_on(session: Session, who: Caller, task: Task, answer: str | None, from_: str | None) -> dict[str, Any]:
    """From what the next run goes on; the answer is recorded, and without it nothing may be open."""
    how: dict[str, Any] = {"run": task.runs[-1].id, "why": "resumed"}
    if from_ is not None:
        how["from"] = checkpoints.find(task, from_)
    if answer is not None:
        _take_answer(session, who, task, answer, how)
    elif task.open_questions:
        raise unanswered(task)
    return how


def may_resume(session: Session, who: Caller, task: Task) -> None:
    handle = task.name
    if not who.is_person and not (task.parent and task.parent.run == who.run):
        raise NotAllowed(
            f"Task {handle} was not delegated by this run; it cannot resume it.", "Ask the person who started it."
        )
    if not task.runs:
        raise Refused(f"Task {handle} has not run yet.", f"Start it: overhand run {handle}")
    may_run(session, task)


def _take_answer(session: Session, who: Caller, task: Task, text: str, how: dict[str, Any]) -> None:
    """`--answer`: the answer to the one open question, or a word to go on with."""
    if not text.strip():
        raise BadInput("--answer is empty.", "Write what the agent is to know.")
    if task.open_questions:
        record.choose(task, None)  # says which are open, if there are several
        give(session, who, task.id, None, text, resume=False)
    elif len(text) > 2000:
        raise BadInput("--answer is too long for a note.", "Write it into a file and name the file.")
    else:
        how["note"] = text


def unanswered(task: Task) -> Refused:
    """What it waits for, and how to answer."""
    still_open = task.open_questions
    handle = task.name
    told = "; ".join(f"{q.seq}: {record.shorten(q.text, 100)}" for q in still_open)
    word = f"overhand answer {handle}" + (f" {still_open[0].seq}" if len(still_open) > 1 else "")
    return Refused(f"Task {handle} waits for an answer ({told}).", f"Answer it, and it goes on by itself: {word} TEXT")
