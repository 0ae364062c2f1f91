"""`delegate`: make a task of words, check it against every guard, hand it over."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, files, find_driver, installable, permissions, programs, quota
from overhand.documents import handoff as handoffs
from overhand.drafts import guards
from overhand.errors import BadInput, OverhandError, Refused
from overhand.items import alerts
from overhand.policy import caller, trust
from overhand.policy import config as configs
from overhand.record.events import ChildRefused
from overhand.runs import spending
from overhand.supervisor import client
from overhand.system import lock
from overhand.verbs import Answer, Session
from overhand.verbs.request import (
    Request,
    budget_of,
    build_handoff,
    check_handoff,
    checks_of,
    choose_contract,
    edit,
    nothing_to_do,
    request_of,
)
from overhand.words import LEVELS, is_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from overhand.documents.problems import Problem
    from overhand.policy.caller import Caller
    from overhand.policy.config import Config
    from overhand.record.store import Draft, Piece
    from overhand.record.task import By, Task


def delegate(session: Session, /, **given: Any) -> Answer:
    """Accept a task; a supervisor carries on."""
    request = request_of(given)
    task, agent, problems = accept(session, request)
    if not request.no_start and not client.hand_over(session.store, [task.id]):
        session.tell(
            "It is recorded, but no supervisor may be started from inside this sandbox; the next verb outside will."
        )
    if request.wait and not request.no_start:
        from overhand.verbs.look import wait_for

        return wait_for(session, [task.id], None, verb="delegate")
    receipt = receipt_of_start(session, task, agent, problems, request)
    if agent.real and not request.no_start:
        from overhand.verbs.listing import waits

        receipt["reason"] = waits(session, task.id)
    return Answer(receipt)


def accept(session: Session, request: Request, *, start: bool = True) -> tuple[Task, Agent, list[Problem]]:
    """Check everything, then make the task; a refusal makes none and is noted in the parent's log."""
    from overhand.verbs.setup import first_use

    if not request.title.strip() and request.handoff is None:
        raise nothing_to_do()
    first_use(session)
    who = caller.caller(session.store)
    try:
        return _accept(session, request, who, start=start and not request.no_start)
    except Refused as error:
        note_refusal(session, who, request, error)
        raise


def _accept(session: Session, request: Request, who: Caller, *, start: bool) -> tuple[Task, Agent, list[Problem]]:
    only_from_people(who, request)
    ask_for_trust(session, who)
    settings = dict(configs.setting(text) for text in request.settings)
    config = configs.load(session.root, settings)
    owner = session_owner(request)
    named = request.agent or owner
    name, why = (named, "") if named else files.choose(session.root, config)
    if why:
        session.tell(f"No agent was named; {name} is taken: {why}.")
    agent = files.find(session.root, name, config)
    if owner and agent.driver != owner:
        raise BadInput(
            f"A session of {owner} cannot be continued by {agent.name}, which runs on {agent.driver}.",
            f"Leave --agent out, or name an agent whose driver is {owner}.",
        )
    trust.require(session.root, agent.trusted_with)
    for warning in agent.warnings:
        session.tell(f"{agent.source}: {warning}")
    if agent.real and (wrong := quota.no_stand_in(session.root, agent, config)):
        session.tell(wrong)
    drafted, problems = draft(session, request, who, agent, config, settings)
    (task,) = make(session, [drafted], who.by(session.via), start=start)
    return task, agent, problems


def draft(
    session: Session, request: Request, who: Caller, agent: Agent, config: Config, settings: dict[str, Any]
) -> tuple[Draft, list[Problem]]:
    """The task as it would be made, if no guard refuses it; with the problems of its HANDOFF."""
    if request.kind is not None and not is_name(request.kind):
        raise BadInput(
            f"--kind {request.kind!r} is not a kind.", "A kind is one word, such as research, fix or review."
        )
    cause = _control_line(session, who)
    who.live = who.live or cause is not None  # it asked while it lived
    depth, path = guards.check_delegation(who, agent)
    kind = config.kind(request.kind)
    handoff = alerts.told(session.root, config, build_handoff(session, request, kind.contract))
    contract, schema = choose_contract(session, request, handoff, kind.contract)
    text = edit(handoffs.render(handoff), session) if request.edit else handoffs.render(handoff)
    problems = check_handoff(session, text, agent, request.strict)
    if who.is_person or not agent.real:  # an agent's shell may have a PATH of its own; the supervisor's counts
        check_program(session, agent)
    handoff = handoffs.parse(text)
    promised = [d.path for d in handoff.deliverables if d.path]
    level, why = guards.level_for(_wanted_level(request) or kind.level, who, agent, promised)
    if why:
        session.tell(why)
    created = {
        "title": handoff.title,
        "kind": request.kind,
        "priority": request.priority or "P2",
        "parent": None if who.is_person else {"task": who.task, "run": who.run},
        "depth": depth,
        "path": path,
        "timeout": guards.time_for(request.timeout, kind, request.kind, who.left if request.wait else None),
        "level": level,
        "contract": contract,
        "checks": checks_of(request, config),
        "after": session.store.resolve(request.after) if request.after else None,
        "settings": {
            **settings,
            **({"exclusive": True} if agent.exclusive else {}),
            **({"real": True} if agent.real else {}),
            **({"session": request.session} if request.session else {}),
            **({} if agent.can_delegate else {"can_delegate": False}),
        },
        "model": request.model,
        "budget": budget_of(request.budget) or spending.default(session.store, config, who.task),
        "strict": request.strict,
        "cause": cause,
    }
    created = {name: value for name, value in created.items() if value not in (None, [], {}, False)}
    created["seal"] = trust.seal(created)
    return (agent.name, text, created, schema), problems


def _wanted_level(request: Request) -> str | None:
    """What it may do, where somebody said so."""
    if request.level is not None and request.level not in LEVELS:
        raise BadInput(f"--level {request.level!r} is no level.", f"One of: {', '.join(LEVELS)}")
    if request.read_only and request.level not in (None, "read"):
        raise BadInput(f"--read-only and --level {request.level} contradict each other.", "Say one of them.")
    return "read" if request.read_only else request.level


def make(
    session: Session, drafts: Sequence[Draft], by: By, *, start: bool, pieces: list[Piece] | None = None
) -> list[Task]:
    """The folders and first events of tasks that were drafted."""
    with _only_once(session, drafts) as known:
        return [known for _ in drafts] if known else session.store.new_tasks(drafts, by, start=start, pieces=pieces)


@contextmanager
def _only_once(session: Session, drafts: Sequence[Draft]) -> Iterator[Task | None]:
    """The task that a CONTROL line has made already, if so; who delegates for the same line meanwhile waits."""
    cause = next((created["cause"] for _, _, created, _ in drafts if "cause" in created), None)
    if cause is None:
        yield None
        return
    from overhand.runs.control import child_of

    with lock.Lock(f"{session.store.own}/control.lock", "The lock of delegations by CONTROL lines"):
        yield child_of(session.store, cause)


def _control_line(session: Session, who: Caller) -> str | None:
    """The CONTROL line that this delegation comes from, if the run really printed one at that place."""
    cause = os.environ.get("OVERHAND_CAUSE", "")
    run_id, _, place = cause.partition("/stdout@")
    if who.task is None or who.run is None or run_id != who.run or not (place.isascii() and place.isdigit()):
        return None
    from overhand.runs.control import has_printed

    return cause if len(place) < 16 and has_printed(session.store, who.task, who.run, int(place)) else None


def session_owner(request: Request) -> str | None:
    """The program whose session is to be adopted, if one is named and can be one."""
    if request.session is None:
        return None
    owner, _, name = request.session.partition(":")
    known = installable()
    if owner not in known or not known[owner].is_session(name):
        example = f"--session {next(iter(known))}:ID (one of {', '.join(known)})"
        raise BadInput(
            f"--session {request.session!r} names no session.",
            f"Write the program and the session's id: {example}",
        )
    return owner


def only_from_people(who: Caller, request: Request) -> None:
    """Checks and settings come from a person or the trusted configuration, never from an agent."""
    if not who.is_person and request.verify:
        raise Refused(
            "--verify comes from a person, never from an agent.",
            "Put the check into [checks] of the project's settings.",
        )
    if not who.is_person and request.session:
        raise Refused("--session comes from a person, never from an agent.", "Leave it out.")
    if not who.is_person and request.settings:
        raise Refused("--set comes from a person, never from an agent.", "Leave it out.")


def note_refusal(session: Session, who: Caller, request: Request, error: Refused) -> None:
    """A refused delegation makes no task; the run that wanted it keeps a note."""
    if who.task is None:
        return
    event = ChildRefused(code=error.code, agent=request.agent, title=request.title[:200], why=error.message[:1000])
    try:
        with session.store.lock(who.task, who.by(session.via), patience=1.0) as locked:
            locked.append(event)
    except OverhandError as second:
        session.tell(f"The refusal could not be noted in the parent's log: {second}")


def ask_for_trust(session: Session, who: Caller) -> None:
    """On a terminal the question is asked where it arises."""
    if session.confirm is not None and who.is_person and trust.untrusted(session.root, files.runnable(session.root)):
        from overhand.verbs.setup import trust_project

        configs.load(session.root)  # what cannot be read is told, not put up for trust
        trust_project(session, yes=False)


def check_program(session: Session, agent: Agent) -> None:
    """A missing program is told now, not after the task was accepted."""
    programs.check(agent, session.root)


def receipt_of_start(
    session: Session, task: Task, agent: Agent, problems: list[Problem], request: Request
) -> dict[str, Any]:
    """What `delegate` prints: handle, agent, tree, limits, checks, what to type next."""
    prepared = request.no_start
    handle = task.handle
    return {
        "schema": "overhand.delegate/1",
        "task_id": task.id,
        "handle": handle,
        "title": task.title,
        "agent": agent.name,
        "driver": agent.driver,
        "kind": task.kind,
        "state": "prepared" if prepared else "accepted",
        "depth": task.depth,
        "path": task.path,
        "tree": "your checkout",
        "level": task.level,
        **({"may": _may(task, agent)} if agent.real else {}),
        "timeout": task.timeout,
        "budget": task.budget,
        "checks": [vars(check) for check in task.checks],
        "contract": task.contract,
        "warnings": [p.as_json() for p in problems],
        "folder": session.store.relative(session.store.folder(task.id)),
        "next": [f"overhand run {handle}"]
        if prepared
        else [f"overhand wait {handle}", f"overhand show {handle}", f"overhand stop {handle}"],
    }


def _may(task: Task, agent: Agent) -> str:
    """What it may do, and whether its program can be held to that."""
    told, unheld = permissions.said(task.level, asks=programs.asks(agent)), find_driver(agent.driver).unheld
    return f"{told}. {unheld}" if task.level == "read" and unheld else told
