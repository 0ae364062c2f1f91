"""`plan run`: check a plan, ask whether it may run, hand it over; with --wait stay until it is judged."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, NotTrusted, Refused
from overhand.policy import caller, trust
from overhand.policy import config as configs
from overhand.policy.actor import Actor
from overhand.record.task import PLAN
from overhand.verbs import Answer, Session
from overhand.verbs import plan as plans
from overhand.verbs.plan import SCHEMA, Source
from overhand.words import option_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.plans.model import Plan
    from overhand.policy.caller import Caller
    from overhand.record.task import Task


def run(
    session: Session,
    word: str,
    strict: bool = False,
    stdin: bool = False,
    wait: bool = False,
    max_parallel: str | None = None,
    dry_run: bool = False,
    budget: str | None = None,
    timeout: str | None = None,
    set: list[str] | None = None,
) -> Answer:
    """From a file or standard input."""
    given = plans.source(word, stdin=stdin)
    limits = {"max_parallel": max_parallel, "budget": budget, "timeout": timeout}
    if dry_run:
        return Answer(dry(session, given, strict=strict, **limits))
    task, plan, found = accept(session, given, strict=strict, settings=set, **limits)
    if wait:
        from overhand.verbs.planlook import wait_for

        return wait_for(session, task.id)
    return Answer(receipt(session, task, plan, found))


def accept(
    session: Session,
    given: Source,
    *,
    strict: bool = False,
    settings: list[str] | None = None,
    max_parallel: str | None = None,
    budget: str | None = None,
    timeout: str | None = None,
) -> tuple[Task, Plan, plans.Checked]:
    """A task for the plan, if nothing is wrong with it and whoever calls may run it."""
    from overhand.verbs.delegate import ask_for_trust, note_refusal
    from overhand.verbs.setup import first_use

    plans.refuse_way_out(session, given)
    who = caller.caller(session.store)
    if settings and not (who.is_person and session.via != "mcp"):
        raise Refused("--set comes from a person, never from an agent.", "Leave it out.")
    wanted = dict(configs.setting(text) for text in settings or ())
    configs.load(session.root, wanted)  # what cannot be set is told before anything else
    found = plans.look_over(session, given, strict=strict)
    plan = limited(plans.sound(given, found), max_parallel=max_parallel, budget=budget, timeout=timeout)
    first_use(session)
    ask_for_trust(session, who)
    try:
        vouched = may_run(session, who, given, plan)
        return _hand_over(session, given, plan, vouched, budget, wanted), plan, found
    except Refused as error:
        note_refusal(session, who, plan.task, PLAN, error)
        raise


def _hand_over(
    session: Session, given: Source, plan: Plan, vouched: bool, budget: str | None, settings: dict[str, Any]
) -> Task:
    options = {
        "name": os.path.basename(given.path) or "plan.yaml",
        "budget": budget,
        "settings": settings,
        "trusted": vouched,
    }
    return submit(session, plan, given.raw.decode("utf-8", "replace"), options)


def submit(session: Session, plan: Plan, source: str, options: Mapping[str, Any]) -> Task:
    """Make the plan's task, under the guards of any delegation, and hand it to the supervisor."""
    from overhand.plans import task
    from overhand.supervisor import client

    who = caller.caller(session.store)
    actor = Actor(session.store, trust.settings(session.root), who.by(session.via))
    state = task.make(actor, who, plan, source, options)
    if not options.get("no_start") and not client.hand_over(session.store, [state.id]):
        session.tell(
            "It is recorded, but no supervisor may be started from inside this sandbox; the next verb outside will."
        )
    return state


def limited(
    plan: Plan, *, max_parallel: str | None = None, budget: str | None = None, timeout: str | None = None
) -> Plan:
    """The plan with what was said on the command line."""
    changes: dict[str, Any] = {}
    if max_parallel is not None:
        if not (max_parallel.isascii() and max_parallel.isdigit() and len(max_parallel) < 7):
            raise BadInput(f"--max-parallel cannot be {max_parallel!r}.", "Write a number: --max-parallel 3")
        changes["max_parallel"] = int(max_parallel)
    if timeout is not None:
        changes["timeout"] = option_duration("--timeout", timeout)
        if not changes["timeout"]:
            raise BadInput("--timeout is no time at all.", "Write it as 30s, 5m or 2h.")
    if budget is not None:
        from overhand.drafts.words import budget_of
        from overhand.policy.budget import parse

        budget_of(budget)
        if tokens := parse(budget).tokens:
            changes["budget"] = int(tokens)
    return replace(plan, **changes) if changes else plan


def may_run(session: Session, who: Caller, given: Source, plan: Plan) -> bool:
    """Whether somebody vouches for the commands in it; raises where that is needed and nobody does.

    A person's own text is their word. A file of the project has to be trusted, for it may have come with a clone. What
    an agent hands in may name agents, as any delegation may, and no command.
    """
    person = who.is_person and session.via != "mcp"
    name = given.inside(session.root)
    if name is not None and trust.vouches(session.root, name, given.raw):
        return True
    if person and name is None:
        return True
    if person and name is not None:
        _ask(session, given, name)
        return True
    if found := plans.commands(plan):
        raise NotTrusted(
            f"{given.word} would run commands, and nobody has trusted it: {'; '.join(found[:5])}. Nothing was run.",
            "Leave the commands out, or ask the person to type: overhand trust FILE",
            commands=found,
        )
    return False


def _ask(session: Session, given: Source, name: str) -> None:
    """On a terminal the question is asked where it arises; what was read is what must be trusted."""
    refused = NotTrusted(
        f"Not trusted yet: {name}. Nothing was run.", f"Read it, then: overhand trust {given.word}", files=[name]
    )
    if session.confirm is None:
        raise refused
    from overhand.verbs.setup import trust_project

    trust_project(session, file=[given.path])
    if not trust.vouches(session.root, name, given.raw):
        raise refused  # it was changed meanwhile


def dry(session: Session, given: Source, *, strict: bool = False, **limits: str | None) -> dict[str, Any]:
    """What would run when, by whom and within which limits."""
    from overhand.plans.order import waves
    from overhand.plans.strategy import score

    found = plans.look_over(session, given, strict=strict)
    plan = limited(plans.sound(given, found), **limits)
    failure = plan.failure
    told = [failure.policy, *([f"{failure.max_retries} retries"] if failure.max_retries else [])]
    told += [f"then {failure.fallback}"] if failure.fallback else []
    return {
        "schema": SCHEMA,
        "do": "dry-run",
        "file": given.word,
        "task": plan.task,
        "nodes": len(plan.nodes),
        "strategy": score(plan).strategy,
        "merge": plan.merge.strategy,
        "on_failure": ", ".join(told),
        "limits": {
            "max_parallel": _at_once(plan),
            "budget": limits.get("budget") or (f"{plan.budget} tokens" if plan.budget else None),
            "timeout": plan.timeout,
        },
        "waves": [[plans.row(plan, name) for name in wave] for wave in waves(plan.nodes)],
        "commands": plans.commands(plan),
        "warnings": [one.as_json() for one in found.problems],
        "next": [f"overhand plan run {given.word} --wait"],
    }


def _at_once(plan: Plan) -> int | None:
    """How many nodes may be at work together, if the plan says so."""
    return 1 if plan.strategy == "sequential" else plan.max_parallel or None


def receipt(session: Session, task: Task, plan: Plan, found: plans.Checked) -> dict[str, Any]:
    """What `plan run` prints: handle, nodes, limits, what to type next."""
    from overhand.plans.strategy import score

    handle = task.handle
    return {
        "schema": SCHEMA,
        "do": "run",
        "task_id": task.id,
        "handle": handle,
        "title": task.title,
        "agent": task.agent,
        "state": "accepted",
        "nodes": len(plan.nodes),
        "strategy": score(plan).strategy,
        "max_parallel": _at_once(plan),
        "timeout": plan.timeout,
        "budget": task.budget,
        "depth": task.depth,
        "path": task.path,
        "warnings": [one.as_json() for one in found.problems],
        "folder": session.store.relative(session.store.folder(task.id)),
        "next": [f"overhand plan show {handle} --watch", f"overhand wait {handle}", f"overhand stop {handle}"],
    }
