"""`resume --open`: an agent's own session on the person's terminal, as a run of the task; judged again on exit."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.agents import files, programs, sessions
from overhand.errors import BadInput, Refused, storage_failed
from overhand.policy import config as configs
from overhand.policy import trust
from overhand.policy.actor import Actor
from overhand.policy.caller import caller, require_person
from overhand.record.events import Accepted, RunEnded, RunStarted
from overhand.record.store import new_run_id
from overhand.runs import checks, finish, prepare, prompt, run, worktree
from overhand.system import detached
from overhand.system.files import read_file, write_file
from overhand.verbs import Answer, Session
from overhand.verbs.control import may_run
from overhand.verbs.look import describe
from overhand.verbs.reconcile import refresh

if TYPE_CHECKING:
    from overhand.agents import Agent
    from overhand.record.task import Task


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that a person has on a terminal."""

    run_id: str
    place: str
    life: int
    before: str  # the run whose return stands, if this one leaves none


def open_session(session: Session, id: str) -> Answer:
    """The agent's program in the foreground; when it ends, the task is judged as it is then."""
    who = caller(session.store)
    require_person(who, "Opening a session")
    task = refresh(session, session.store.task(session.store.resolve(id)))
    if not session.interactive:
        raise BadInput("--open needs a terminal.", f"Go on without one: {_instead(task)}")
    config = configs.of_task(session.root, configs.load(session.root), task.settings)
    agent, native = _session(session, task, config)
    trust.require(session.root, agent.trusted_with)
    trust.require_seal(task)
    work = Actor(session.store, config, who.by(session.via), dict(os.environ))
    argv = programs.opened(agent, native)
    opened = _begin(session, work, task.id, agent)
    try:
        session.tell(f"{agent.driver} opens session {native}. When you leave it, the task is judged again.")
        code = _foreground(argv, work, session.store.task(task.id), opened)
    finally:
        os.close(opened.life)
    _end(work, task.id, opened, code)
    task = finish.finish(work, task.id, patient=True)
    return Answer(describe(session, task, "resume"), 0 if task.status == "completed" else 1)


def _session(session: Session, task: Task, config: configs.Config) -> tuple[Agent, str]:
    """The newest native session of the task, and the agent it belongs to."""
    for one in reversed(task.runs):
        if native := sessions.native(session.store, task, one):
            return files.find(session.root, one.agent, config), native
    handle = task.name
    raise Refused(f"Task {handle} has no session that could be opened.", f"Go on with it: {_instead(task)}")


def _instead(task: Task) -> str:
    """What goes on without a terminal: a completed task only with something to do."""
    handle = task.name
    return f"overhand send {handle} TEXT" if task.status == "completed" else f"overhand resume {handle}"


def _begin(session: Session, work: Actor, task_id: str, agent: Agent) -> Opened:
    """Claim the task: the run's folder first, then, under the same lock, the events that make it one."""
    text, handoff = prepare.read_handoff(session.store, task_id)
    prepared = prepare.Prepared(agent, handoff, text, worktree.snapshot(session.root))
    with session.store.lock(task_id, work.by) as locked:
        may_run(session, locked.task, again=True)
        before = locked.task.runs[-1].id
        prepare.archive(locked, locked.task.runs)
        run_id = new_run_id()
        place = session.store.run_folder(task_id, run_id)
        prepare.lay_out(work, locked, run_id, prepared)
        life = detached.take_life(f"{place}/life")  # nobody knows the folder yet
        made = run.created(run_id, agent.name, agent.driver, 0.0).replace(attached=True)
        accepted = Accepted(agent=agent.name, resume={"run": before, "why": "opened"})
        locked.append(accepted, made, RunStarted(run=run_id, shim=os.getpid()))
        return Opened(run_id, place, life, before)


def _foreground(argv: list[str], work: Actor, task: Task, opened: Opened) -> int:
    """The program on our terminal, until it ends; Ctrl-C is for it. It holds `life` too: it may outlive us."""
    env = {**checks.clean_environment(work.env), **prompt.environment(work.store, task, opened.run_id)}
    kept = {number: signal.signal(number, _not_ours) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        code = subprocess.Popen(argv, cwd=work.store.root, env=env, pass_fds=(opened.life,)).wait()
    except OSError as error:
        raise storage_failed(error, f"Cannot start {argv[0]}") from error
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _not_ours(_number: int, _frame: object) -> None:
    """A handler, not «ignore»: what is ignored here would be ignored in the program too."""


def _end(work: Actor, task_id: str, opened: Opened, code: int) -> None:
    """Record its end; a session that returned nothing leaves the earlier return to be judged again."""
    output = f"{opened.place}/OUTPUT.md"
    earlier = read_file(f"{work.store.run_folder(task_id, opened.before)}/OUTPUT.md")
    if earlier is not None and not any(os.path.lexists(p) for p in (output, f"{opened.place}/result.json")):
        write_file(output, earlier)
    with work.store.lock(task_id, work.by) as locked:
        current = locked.task.run(opened.run_id)
        if current is not None and not current.has_ended:
            locked.append(RunEnded(run=opened.run_id, cause="exit", exit=code))
