"""`resume`: a new run of the same task that continues from the last one, or its session opened for a person."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.agents import agent_files, find_agent, native_session, session_command
from overhand.drafts import checked_budget, require_no_cycle
from overhand.errors import BadInput, NotAllowed, Refused, storage_failed
from overhand.policy import (
    Actor,
    Config,
    config_of_task,
    find_caller,
    load_config,
    require_known,
    require_person,
    require_trusted,
)
from overhand.questions import choose_question, cut_text
from overhand.record import ABSENT, Accepted, RunEnded, RunStarted, new_run_id
from overhand.runs import (
    Prepared,
    archive_last_run,
    enter_git,
    find_checkpoint,
    finish_run,
    lay_out_run,
    read_task_handoff,
    require_budget_left,
    run_created,
    run_environment,
    shield_of,
    tree_snapshot,
)
from overhand.system import hold_life, outside_runs, read_file
from overhand.verbs.ask import give_answer
from overhand.verbs.control import next_plan_run, queue_again, require_runnable
from overhand.verbs.show import describe_task
from overhand.verbs.tasks import refresh_task
from overhand.verbs.verb import Reply, Session

if TYPE_CHECKING:
    from overhand.agents import Agent
    from overhand.policy import Caller
    from overhand.record import Task
    from overhand.system import Beneath


def resume_task(
    session: Session,
    id: str,
    answer: str | None = None,
    from_: str | None = None,
    agent: str | None = None,
    budget: str | None = None,
    wait: bool = False,
    open: bool = False,
) -> Reply:
    """Start the next run of a task that ended short, or open its session for a person."""
    if open:
        if answer or from_ or agent or budget:
            raise BadInput("--open goes with no other option.", f"overhand resume {id} --open")
        return open_session(session, id)
    from overhand.verbs.setup import ask_for_trust

    caller = find_caller(session.store)
    require_known(caller, "Resuming a task")
    task_id = session.store.resolve(id)
    task = refresh_task(session, session.store.task(task_id))
    require_resumable(session, caller, task)
    ask_for_trust(session, caller)
    if task.is_plan:
        if answer is not None:
            raise BadInput("A plan takes no answer.", "Answer the node that asks: overhand answer")
        text = checked_budget(budget)
        require_budget_left(session.store, task.but(budget=text or task.budget))
        how = resume_from(session, caller, task, None, from_)
        return queue_again(session, caller, task_id, next_plan_run(task, how, agent, text), "resume", wait=wait)
    config = config_of_task(session.root, load_config(session.root), task.settings)
    if agent is None and task.runs[-1].attached and task.agent not in agent_files(session.root):
        raise Refused(
            f"{task.agent} is a function in a Python process, and cannot be called from here.",
            f"In Python: project.resume({task.handle}), or let another agent take over: --agent NAME",
        )
    chosen = find_agent(session.root, agent or task.agent, config)
    require_trusted(session.root, chosen.trusted_with)
    if chosen.name != task.agent:
        require_no_cycle(task.path[:-1], chosen)
    text = checked_budget(budget)
    require_budget_left(session.store, task.but(budget=text or task.budget))
    how = resume_from(session, caller, task, answer, from_)
    accepted = Accepted(agent=chosen.name, resume=how, budget=ABSENT if text is None else text)
    return queue_again(session, caller, task_id, accepted, "resume", wait=wait)


def resume_from(session: Session, caller: Caller, task: Task, answer: str | None, from_: str | None) -> dict[str, Any]:
    """Where the next run continues from; the answer is recorded, and without one no question may be open."""
    how: dict[str, Any] = {"run": task.runs[-1].id, "why": "resumed"}
    if from_ is not None:
        how["from"] = find_checkpoint(task, from_)
    if answer is not None:
        _take_answer(session, caller, task, answer, how)
    elif task.open_questions:
        raise unanswered_refusal(task)
    return how


def require_resumable(session: Session, caller: Caller, task: Task) -> None:
    handle = task.name
    if not caller.is_person and not (task.parent and task.parent.run == caller.run):
        raise NotAllowed(
            f"Task {handle} was not delegated by this run; it cannot resume it.", "Ask the person who started it."
        )
    if not task.runs:
        raise Refused(f"Task {handle} has not run yet.", f"Start it: overhand run {handle}")
    require_runnable(session, task)


def _take_answer(session: Session, caller: Caller, task: Task, text: str, how: dict[str, Any]) -> None:
    """`--answer`: the answer to the one open question, or a note for the next run."""
    if not text.strip():
        raise BadInput("--answer is empty.", "Write what the agent is to know.")
    if task.open_questions:
        choose_question(task, None)  # says which are open, if there are several
        give_answer(session, caller, task.id, None, text, resume=False)
    elif len(text) > 2000:
        raise BadInput("--answer is too long for a note.", "Write it into a file and name the file.")
    else:
        how["note"] = text


def unanswered_refusal(task: Task) -> Refused:
    """The refusal to run a task with open questions."""
    still_open, handle = task.open_questions, task.name
    asked = "; ".join(f"{q.seq}: {cut_text(q.text, 100)}" for q in still_open)
    word = f"overhand answer {handle}" + (f" {still_open[0].seq}" if len(still_open) > 1 else "")
    return Refused(f"Task {handle} waits for an answer ({asked}).", f"Answer it, and it goes on by itself: {word} TEXT")


@dataclass(frozen=True, slots=True)
class Opened:
    """A run in the foreground, on a person's terminal."""

    run_id: str
    desk: Beneath
    life: int
    before: str  # the run whose return stands, if this one leaves none
    enter: tuple[str, ...]  # words that put up its shield


def open_session(session: Session, id: str) -> Reply:
    """The agent's program in the foreground; when it ends, the task is judged as it is then."""
    caller = find_caller(session.store)
    require_person(caller, "Opening a session")
    task = refresh_task(session, session.store.task(session.store.resolve(id)))
    if not session.interactive:
        raise BadInput("--open needs a terminal.", f"Go on without one: {_instead(task)}")
    config = config_of_task(session.root, load_config(session.root), task.settings)
    agent, native = _session(session, task, config)
    require_trusted(session.root, agent.trusted_with)
    actor = Actor(session.store, config, caller.by(session.via), dict(os.environ))
    argv = session_command(agent, native)
    opened = _begin(session, actor, task.id, agent)
    try:
        session.hand_over([task.id])  # what it calls is for the supervisor
        session.tell(f"{agent.driver} opens session {native}. When you leave it, the task is judged again.")
        code = _foreground(argv, actor, session.store.task(task.id), opened)
    finally:
        os.close(opened.life)
    _end(actor, task.id, opened, code)
    task = finish_run(actor, task.id, patient=True)
    return Reply(describe_task(session, task, "resume"), 0 if task.status == "completed" else 1)


def _session(session: Session, task: Task, config: Config) -> tuple[Agent, str]:
    """The newest native session of the task, and the agent it belongs to."""
    for one in reversed(task.runs):
        if native := native_session(session.store, task, one):
            return find_agent(session.root, one.agent, config), native
    raise Refused(f"Task {task.name} has no session that could be opened.", f"Go on with it: {_instead(task)}")


def _instead(task: Task) -> str:
    """What to type without a terminal: a completed task continues only with something to do."""
    return f"overhand send {task.name} TEXT" if task.status == "completed" else f"overhand resume {task.name}"


def _begin(session: Session, actor: Actor, task_id: str, agent: Agent) -> Opened:
    """Claim the task: the run's folder first, then, under the same lock, the events that make it one."""
    text, handoff = read_task_handoff(session.store, task_id)
    task = session.store.task(task_id)
    shield = shield_of(actor, agent, task, handoff, opened=True)
    enter = enter_git(session.store, shielded=task.runs[-1].is_shielded)
    prepared = Prepared(agent, handoff, text, tree_snapshot(session.root, enter, git=True), shield=shield)
    with session.store.lock(task_id, actor.by) as locked:
        require_runnable(session, locked.task, again=True)
        before = locked.task.runs[-1].id
        archive_last_run(locked, locked.task.runs)
        run_id = new_run_id()
        place = session.store.run_folder(task_id, run_id)
        lay_out_run(actor, locked, run_id, prepared)
        life = hold_life(place)
        made = run_created(run_id, agent.name, agent.driver, 0.0).replace(attached=True, opened=True)
        made = made.replace(shield=shield.facts) if shield.facts else made
        accepted = Accepted(agent=agent.name, resume={"run": before, "why": "opened"})
        locked.append(accepted, made, RunStarted(run=run_id, shim=os.getpid()))
        return Opened(run_id, session.store.desk_files(task_id, run_id), life, before, shield.enter)


def _foreground(argv: list[str], actor: Actor, task: Task, opened: Opened) -> int:
    """The program on our terminal, until it ends; Ctrl-C is for it. It holds `life` too: it may outlive us."""
    env = {**outside_runs(actor.env), **run_environment(actor.store, task, opened.run_id)}
    # a handler, not «ignore»: an ignored signal would be ignored in the program too
    kept = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        words = [*opened.enter, *argv]
        code = subprocess.Popen(words, cwd=actor.store.root, env=env, pass_fds=(opened.life,)).wait()
    except OSError as error:
        raise storage_failed(error, f"Cannot start {argv[0]}") from error
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _end(actor: Actor, task_id: str, opened: Opened, code: int) -> None:
    """Record its end; a session that returned nothing leaves the earlier return to be judged again."""
    earlier = read_file(f"{actor.store.run_folder(task_id, opened.before)}/OUTPUT.md")
    if earlier is not None and not any(map(opened.desk.exists, ("OUTPUT.md", "result.json"))):
        opened.desk.write("OUTPUT.md", earlier, make=True)
    with actor.store.lock(task_id, actor.by) as locked:
        current = locked.task.run(opened.run_id)
        if current is not None and not current.has_ended:
            locked.append(RunEnded(run=opened.run_id, cause="exit", exit=code))
