"""The one task builder: a brief from any source becomes a task that has passed all guards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.documents import render_handoff
from overhand.drafts import alerts, guards
from overhand.drafts.handoff import check, choose_contract, compose
from overhand.policy import seal_task
from overhand.record import NewTask, Record
from overhand.system import is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from overhand.agents import Agent
    from overhand.documents import Handoff, Problem
    from overhand.policy import Caller, Config, Kind
    from overhand.record import Store


class Brief(Record, frozen=True):
    """What a task should be, before anything is checked; defaults come from its kind or the project."""

    title: str = ""
    agent: str | None = None
    kind: str | None = None

    # the HANDOFF: from options, from the file that `handoff` names, or whole; or `text`, as it is in a folder already
    context: Sequence[str] = ()
    file: Sequence[str] = ()
    constraint: Sequence[str] = ()
    deliverable: Sequence[str] = ()
    returns: Sequence[str] = ()
    step: Sequence[str] = ()
    handoff: str | Handoff | None = None
    text: str | None = None
    alerts: bool = True  # add those in force to the context
    name: str = ""  # begins the message of a refusal
    fix: str = ""  # how to correct a HANDOFF with errors, if not by the options of `delegate`

    # limits
    limits: Kind | None = None  # instead of its kind's
    level: str | None = None
    writes: bool = False  # even if its kind only reads
    timeout: str | float | None = None  # as an option, or in seconds
    at_most: float | None = None  # seconds, whatever its kind allows
    budget: str | None = None
    contract: str | None = None
    checks: Sequence[Mapping[str, str]] | None = None
    strict: bool = False

    # the rest of what is recorded
    priority: str | None = "P2"
    after: str | None = None
    model: str | None = None
    session: str | None = None
    settings: Mapping[str, Any] = {}
    cause: str | None = None  # the CONTROL line it comes from
    item: Mapping[str, Any] | None = None
    node: str | None = None
    plan: int | None = None
    files: Mapping[str, bytes] = {}  # copied into its folder

    # how it is started
    edit: bool = False
    no_start: bool = False
    wait: bool = False


class Draft(Record, frozen=True):
    """A task that can be created: its HANDOFF as an agent reads it, notes for a person, and warnings."""

    task: NewTask
    handoff: Handoff
    notes: Sequence[str] = ()
    problems: Sequence[Problem] = ()


def build_draft(
    brief: Brief,
    agent: Agent | None,
    caller: Caller,
    store: Store,
    config: Config,
    edit: Callable[[str], str] | None = None,
) -> Draft:
    """The task as it would be created; raises if a guard refuses it.

    Without an agent it is recorded and never run. `edit` may change the HANDOFF before it is checked.
    """
    if agent is None:
        return _outside(brief, caller, store)
    depth, path = guards.check_delegation(caller, agent)
    kind = brief.limits or config.kind(brief.kind)
    text = brief.text
    if text is None:
        composed = compose(brief, store.root, kind.contract)
        if brief.alerts and is_there(f"{store.root}/{config.alerts}"):
            composed = alerts.with_alerts(store.root, config, composed)
        text = render_handoff(composed)
    if edit is not None:
        text = edit(text)
    handoff, problems = check(text, brief, agent, store.root)
    contract, files = choose_contract(brief, handoff, store.root, kind.contract)
    wanted = brief.level or ("work" if kind.level == "read" and brief.writes else kind.level)
    promised = [one.path for one in handoff.deliverables if one.path]
    level, note = guards.level_for(wanted, caller, agent, promised)
    config_checks = [{"name": name, "command": command} for name, command in config.checks]
    created = {
        "title": handoff.title,
        "kind": brief.kind,
        "priority": brief.priority,
        "parent": None if caller.is_person else {"task": caller.task, "run": caller.run},
        "node": brief.node,
        "plan": brief.plan,
        "depth": depth,
        "path": path,
        "timeout": guards.time_for(brief.timeout, kind, brief.kind, caller.left if brief.wait else brief.at_most),
        "level": level,
        "contract": contract,
        "checks": list(config_checks if brief.checks is None else brief.checks),
        "after": store.resolve(brief.after) if brief.after else None,
        "settings": _settings(brief, agent),
        "model": brief.model,
        "budget": guards.budget_for(brief.budget, store, config, caller.task),
        "strict": brief.strict,
        "cause": brief.cause,
        "item": brief.item,
    }
    notes = (note,) if note else ()
    return Draft(task=_sealed(agent.name, text, created, files), handoff=handoff, notes=notes, problems=problems)


def _outside(brief: Brief, caller: Caller, store: Store) -> Draft:
    handoff = compose(brief, store.root, None)
    created = {
        "title": brief.title,
        "kind": brief.kind,
        "priority": brief.priority,
        "item": brief.item,
        "depth": caller.depth + 1,
        "path": [*caller.path],
    }
    return Draft(task=_sealed(brief.agent or "outside", render_handoff(handoff), created, {}), handoff=handoff)


def _sealed(agent: str, text: str, created: dict[str, Any], files: Mapping[str, bytes]) -> NewTask:
    """The task with a seal over its fields; empty ones are not recorded."""
    created = {name: value for name, value in created.items() if value not in (None, [], {}, False)}
    created["seal"] = seal_task(created)
    return NewTask(agent=agent, handoff=text, created=created, files=files)


def _settings(brief: Brief, agent: Agent) -> dict[str, Any]:
    """The task's own settings, and those of its agent that matter wherever the task is read."""
    return {
        **brief.settings,
        **({"exclusive": True} if agent.exclusive else {}),
        **({"real": True} if agent.real else {}),
        **({"session": brief.session} if brief.session else {}),
        **({} if agent.can_delegate else {"can_delegate": False}),
    }
