"""`delegate`: make a task of words, check it against every guard, hand it over."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overhand.agents import (
    Agent,
    asks_permission,
    check_programs,
    choose_agent,
    describe_level,
    find_agent,
    find_driver,
    stand_in_problem,
)
from overhand.documents import expected_of_kind
from overhand.drafts import Brief, Draft, brief_from_words, build_draft, nothing_to_do, only_from_people, session_owner
from overhand.errors import BadInput, OverhandError, Refused
from overhand.policy import find_caller, load_config, require_trusted
from overhand.record import ChildRefused
from overhand.runs import expected_shield, is_project_kept, read_task_handoff, require_shield
from overhand.system import Lock
from overhand.verbs.setup import ask_for_trust
from overhand.verbs.verb import Recorded, Reply, Session, about_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from overhand.documents import Handoff, Problem
    from overhand.policy import Caller, Config
    from overhand.record import By, Task


def delegate_task(session: Session, /, **given: Any) -> Reply:
    """Accept a task; a supervisor runs it."""
    require = given.pop("require", None)
    brief = brief_from_words(given)
    if require and not (brief.wait and not brief.no_start):
        raise BadInput("--require needs the result.", "Add --wait, or ask later: overhand wait - --require proved")
    task, agent, draft, config = accept(session, brief)
    with Recorded(task):
        held = "" if brief.no_start else session.hand_over([task.id])
        if brief.wait and not brief.no_start:
            from overhand.verbs.wait import wait_for_tasks

            if held:
                raise Refused(held)
            return wait_for_tasks(session, [task.id], None, verb="delegate", require=require)
        receipt = _receipt(session, task, agent, config, draft.handoff, draft.problems)
        if held:
            receipt["reason"] = held
        elif agent.real and not brief.no_start:
            from overhand.verbs.tasks import reason_to_wait

            receipt["reason"] = reason_to_wait(session, task.id)
        return Reply(receipt)


def accept(session: Session, brief: Brief) -> tuple[Task, Agent, Draft, Config]:
    """Check everything, then make the task; a refusal makes none and is noted in the parent's log."""
    from overhand.verbs.setup import ensure_project

    if not brief.title.strip() and brief.handoff is None:
        raise nothing_to_do()
    caller = find_caller(session.store)
    try:
        only_from_people(caller, brief)
        ask_for_trust(session, caller)
        config = load_config(session.root, dict(brief.settings))
        agent = _agent(session, brief, config)
        draft = draft_in_session(session, brief, agent, caller, config)
        require_shield(session.store, config, agent, draft.task.created.get("settings", {}))
        if caller.is_person or not agent.real:  # an agent's shell may have a PATH of its own; the supervisor's counts
            check_programs(agent, session.root)
        ensure_project(session)  # not before: a refusal writes nothing
        (task,) = make_tasks(session, [draft], caller.by(session.via), start=not brief.no_start)
    except Refused as error:
        note_refusal(session, caller, brief.title, brief.agent, error)
        raise
    return task, agent, draft, config


def _agent(session: Session, brief: Brief, config: Config) -> Agent:
    """The agent that was named, the one whose session is to be continued, or the default."""
    owner = session_owner(brief.session)
    named = brief.agent or owner
    name, why = (named, "") if named else choose_agent(session.root, config)
    if why:
        session.tell(f"No agent was named; {name} is taken: {why}.")
    agent = find_agent(session.root, name, config)
    if owner and agent.driver != owner:
        raise BadInput(
            f"A session of {owner} cannot be continued by {agent.name}, which runs on {agent.driver}.",
            f"Leave --agent out, or name an agent whose driver is {owner}.",
        )
    require_trusted(session.root, agent.trusted_with)
    for warning in agent.warnings:
        session.tell(f"{agent.source}: {warning}")
    if agent.real and (wrong := stand_in_problem(session.root, agent, config)):
        session.tell(wrong)
    return agent


def draft_in_session(session: Session, brief: Brief, agent: Agent, caller: Caller, config: Config) -> Draft:
    """The task as it would be made, if no guard refuses it."""
    cause = _control_line(session, caller)
    caller.live = caller.live or cause is not None  # it asked while it lived
    brief = brief.replace(cause=cause) if cause else brief
    draft = build_draft(
        brief, agent, caller, session.store, config, (lambda text: _edit(text, session)) if brief.edit else None
    )
    for note in draft.notes:
        session.tell(note)
    return draft


def make_tasks(session: Session, drafts: Sequence[Draft], by: By, *, start: bool, sync: bool = True) -> list[Task]:
    """Make the folders and first events of drafted tasks."""
    new = [draft.task for draft in drafts]
    with _only_once(session, drafts) as known:
        if known:
            return [known for _ in new]
        return session.store.new_tasks(new, by, start=start, sync=sync, env=session.env if start else None)


@contextmanager
def _only_once(session: Session, drafts: Sequence[Draft]) -> Iterator[Task | None]:
    """The task that a CONTROL line has made already, if so; other processes that delegate for that line wait."""
    cause = next((draft.task.created["cause"] for draft in drafts if "cause" in draft.task.created), None)
    if cause is None:
        yield None
        return
    from overhand.runs import child_of_control

    with Lock(f"{session.store.own}/control.lock", "The lock of delegations by CONTROL lines"):
        yield child_of_control(session.store, cause)


def _control_line(session: Session, caller: Caller) -> str | None:
    """The CONTROL line that this delegation comes from, if the run really printed one at that place."""
    cause = session.env.get("OVERHAND_CAUSE", "")
    run_id, _, place = cause.partition("/stdout@")
    if caller.task is None or caller.run is None or run_id != caller.run or not (place.isascii() and place.isdigit()):
        return None
    from overhand.runs import has_printed_delegation

    return (
        cause
        if len(place) < 16 and has_printed_delegation(session.store, caller.task, caller.run, int(place))
        else None
    )


def _edit(text: str, session: Session) -> str:
    """Let the person change the HANDOFF in their editor."""
    import shlex
    import subprocess
    import tempfile

    from overhand.documents import decode_text
    from overhand.system import read_file, write_file

    if not session.interactive:
        raise BadInput("--edit needs a terminal.", "Write the HANDOFF to a file and use --handoff FILE.")
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/HANDOFF.md"
        write_file(path, text)
        try:
            subprocess.run([*editor, path], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BadInput(
                f"The editor {editor[0]} did not work: {error}.", "Set EDITOR, or use --handoff FILE."
            ) from None
        return decode_text(read_file(path) or b"")[0]


def note_refusal(session: Session, caller: Caller, title: str, agent: str | None, error: Refused) -> None:
    """A refused delegation makes no task, but an event in the log of the calling run's task."""
    if caller.task is None:
        return
    event = ChildRefused(code=error.code, agent=agent, title=title[:200], why=error.message[:1000])
    try:
        with session.store.lock(caller.task, caller.by(session.via), patience=1.0) as locked:
            locked.append(event)
    except OverhandError as second:
        session.tell(f"The refusal could not be noted in the parent's log: {second}")


def receipt_of_task(session: Session, task: Task, *, wait: bool) -> Reply:
    """The reply of a delegation that has made this task and was interrupted then."""
    prepared = not (task.queued or task.runs)
    with Recorded(task):
        if not prepared:
            session.hand_over([task.id])
        if wait and not prepared:
            from overhand.verbs.wait import wait_for_tasks

            return wait_for_tasks(session, [task.id], None, verb="delegate")
        config = load_config(session.root)
        agent = find_agent(session.root, task.agent, config)
        handoff = read_task_handoff(session.store, task.id)[1]
        return Reply(_receipt(session, task, agent, config, handoff, ()))


def _receipt(
    session: Session, task: Task, agent: Agent, config: Config, handoff: Handoff, problems: Sequence[Problem]
) -> dict[str, Any]:
    prepared = not (task.queued or task.runs)
    receipt = {
        **about_task("delegate", task, "title"),
        "agent": agent.name,
        "driver": agent.driver,
        "kind": task.kind,
        "state": "prepared" if prepared else "accepted",
        "depth": task.depth,
        "path": task.path,
        "tree": "a tree of its own" if task.begins is not None else "your checkout",
        "level": task.level,
    }
    expected = [one for one in handoff.deliverables if one not in expected_of_kind(task.kind)]
    shield = expected_shield(session.store, config, agent, task, handoff)
    receipt["shield"] = shield
    if agent.real:
        walled, unheld = is_project_kept(shield), find_driver(agent.driver).unheld
        may = describe_level(task.level, asks=asks_permission(agent), walled=walled)
        receipt["may"] = f"{may}. {unheld}" if unheld and task.level == "read" and not walled else may
    return {
        **receipt,
        "timeout": task.timeout,
        "budget": task.budget,
        "checks": [vars(check) for check in task.checks],
        "contract": task.contract,
        "deliverables": [{"path": one.path} if one.path else {"text": one.text} for one in expected],
        "warnings": [problem.as_json() for problem in problems],
        "folder": session.store.relative(session.store.workspace(task.id)),
        "next": [f"overhand {verb} {task.handle}" for verb in (("run",) if prepared else ("wait", "show", "stop"))],
    }
