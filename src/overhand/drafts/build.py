"""The one task builder: a brief from any source becomes a task that has passed all guards.

The guards limit depth, cycles, level, time and budget, counted from recorded runs, not from claims.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.documents import contain_in_section, contract_form, parse_handoff, render_handoff, shorten
from overhand.drafts import alerts
from overhand.drafts.brief import CONTRACT_FILE, check, choose_contract, compose
from overhand.errors import BadInput, CycleDetected, LimitExceeded, NotFound, Refused, StaleRun, TaskNotFound, TooDeep
from overhand.policy import own_cap, require_known
from overhand.record import WORKSPACES, NewTask, Record, read_state
from overhand.system import is_there, repository_of, run_git
from overhand.words import LEVELS, MAX_DEPTH, is_task_id, option_duration, say_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from overhand.agents import Agent
    from overhand.documents import Handoff, Problem
    from overhand.drafts.brief import Brief
    from overhand.policy import Caller, Config, Kind
    from overhand.record import Store


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
    depth, path = check_delegation(caller, agent)
    kind = brief.limits or config.kind(brief.kind)
    text, composed = brief.text, None
    if text is None:
        composed = compose(brief, store.root, None if brief.contract else kind.contract)
        if brief.alerts and is_there(f"{store.root}/{config.alerts}"):
            composed = alerts.with_alerts(store.root, config, composed)
        text = render_handoff(composed)
    if edit is not None:
        text, composed = edit(text), None
    handoff, problems = check(text, composed, brief, agent, store.root)
    contract, files = choose_contract(brief, handoff, store.root, kind.contract)
    if contract and not (handoff.contract or brief.text or brief.files.get(contract)):  # no words of the caller's own
        handoff = replace(handoff, contract=contract_form(contract, files.get(CONTRACT_FILE, b"")))
        text = f"{text.rstrip()}\n\n## Contract\n{contain_in_section(handoff.contract)}\n"
    named = shorten(" ".join(brief.title.split()), 80) if isinstance(brief.handoff, str) else ""
    wanted = brief.level or ("work" if kind.level == "read" and brief.writes else kind.level)
    promised = [one.path for one in handoff.deliverables if one.path]
    asked = _asked_of(store, caller) if promised and caller.level == "read" else None
    beyond = [one for one in promised if asked is not None and one not in asked]
    level, note = level_for(wanted, caller, agent, promised, beyond)
    config_checks = [{"name": name, "command": command} for name, command in config.checks]
    created = {
        "title": named or handoff.title,
        "kind": brief.kind,
        "priority": brief.priority,
        "parent": None if caller.is_person else {"task": caller.task, "run": caller.run},
        "node": brief.node,
        "plan": brief.plan,
        "depth": depth,
        "path": path,
        "timeout": time_for(brief.timeout, kind, brief.kind, caller.left if brief.wait else brief.at_most),
        "level": level,
        "begins": _begins(brief, agent, store, config, reads=level == "read" and not promised),
        "contract": contract,
        "checks": list(config_checks if brief.checks is None else brief.checks),
        "after": store.resolve(brief.after) if brief.after else None,
        "settings": _settings(brief, agent, caller),
        "model": brief.model,
        "budget": budget_for(brief.budget, store, config, caller.task),
        "strict": brief.strict,
        "cause": brief.cause,
        "item": brief.item,
    }
    notes = (note,) if note else ()
    return Draft(task=_new_task(agent.name, text, created, files), handoff=handoff, notes=notes, problems=problems)


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
    return Draft(task=_new_task(brief.agent or "outside", render_handoff(handoff), created, {}), handoff=handoff)


def _new_task(agent: str, text: str, created: dict[str, Any], files: Mapping[str, bytes]) -> NewTask:
    """The task as it will be recorded; empty fields are not."""
    created = {name: value for name, value in created.items() if value or value == ""}
    return NewTask(agent=agent, handoff=text, created=created, files=files)


def _settings(brief: Brief, agent: Agent, caller: Caller) -> dict[str, Any]:
    """The task's own settings, and what of its agent and its caller matters wherever the task is read."""
    return {
        **brief.settings,
        **({"exclusive": True} if agent.exclusive else {}),
        **({"real": True} if agent.real else {}),
        **({"session": brief.session} if brief.session else {}),
        **({} if agent.can_delegate else {"can_delegate": False}),
        **({"shielded": True} if caller.shielded else {}),
    }


def _begins(brief: Brief, agent: Agent, store: Store, config: Config, *, reads: bool) -> dict[str, Any] | None:
    """Where the task's own tree begins; None if it works in the project itself."""
    asked = brief.base or brief.committed
    if brief.here or not (asked or (config.trees.default == "tree" and not reads)):
        return None
    in_place = f"{agent.name} works in place" if agent.in_place else ""
    if why := in_place or ("" if repository_of(store.root) else f"{store.root} is not in a git repository"):
        if asked:
            raise Refused(f"A tree of its own is impossible: {why}.", "Leave out --base and --committed.")
        return None
    found: dict[str, Any] = {"committed": True} if brief.committed else {}
    if brief.base and (task := _task_named(store, brief.base)):
        return {"task": task, **found}
    return {"ref": brief.base or "HEAD", **found}


def _task_named(store: Store, name: str) -> str | None:
    """The task that a base names, unless git knows something by that name."""
    if run_git(store.root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") is not None:
        return None
    try:
        return store.resolve(name)
    except NotFound:
        raise NotFound(f"{name} is neither a commit nor a task here.", "See: git log, overhand list") from None


def check_delegation(caller: Caller, agent: Agent) -> tuple[int, list[str]]:
    """Depth and path of a new task, or a refusal that shows the path."""
    shown = " → ".join((*caller.path, agent.name))
    require_known(caller, "Delegating")
    if not caller.is_person:
        if not caller.live:
            raise StaleRun(f"Run {caller.run} has ended; it cannot delegate any more.", "Start again from a shell.")
        if caller.depth >= MAX_DEPTH:
            raise TooDeep(
                f"Too deep: {shown}. A run at depth {caller.depth} may not delegate (the limit is {MAX_DEPTH}).",
                "Do this part in the run itself, and say in OUTPUT.md what is left.",
                path=[*caller.path, agent.name],
            )
        if not caller.can_delegate:
            raise Refused(
                f"Agent {caller.path[-1]} may not delegate (can_delegate: false).", "Do it in the run itself."
            )
    require_no_cycle(caller.path, agent)
    return caller.depth + 1, [*caller.path, agent.name]


def require_no_cycle(above: Sequence[str], agent: Agent) -> None:
    """Refuse an agent that is at work above, by the path of the run that delegates to it."""
    if agent.name in above[1:] and not agent.reentrant:
        raise CycleDetected(
            f"A cycle: {' → '.join((*above, agent.name))}. {agent.name} is already at work above.",
            "Delegate to another agent, or set reentrant: true in its file.",
            path=[*above, agent.name],
        )


def level_for(wanted: str, caller: Caller, agent: Agent, promised: list[str], beyond: list[str]) -> tuple[str, str]:
    """What a task's runs may do, never more than its agent and the caller may; and why it is less than wanted.

    `beyond` are promised files that a caller which may only read is not asked for itself.
    """
    order = list(LEVELS)
    held = min(caller.level, agent.level, key=order.index)
    is_less = order.index(wanted) > order.index(held)
    for_agent = is_less and agent.level == held
    whose = f"agent {agent.name}" if for_agent else f"run {caller.run}, which delegates it"
    if beyond or (is_less and held == "read" and agent.level == held):
        files = beyond or promised
        what = f"is to write {', '.join(files)}" if files else f"is of level {wanted}"
        raise Refused(
            f"This task {what}, and {whose} may only read.",
            "Delegate it to an agent that may write, or ask for an answer instead: --read-only"
            if for_agent
            else "Ask for an answer instead of a file: --read-only",
        )
    return (held, f"It may {held}, no more: so it is for {whose}.") if is_less else (wanted, "")


def _asked_of(store: Store, caller: Caller) -> list[str]:
    """The files that the calling run was asked for when its task began, and may therefore write."""
    task = store.task(caller.task or "")
    first = next((run.id for run in task.runs), "")
    given = (read_state(f"{store.run_folder(task.id, first)}/spec.json") or {}).get("handoff") if first else None
    return [one.path for one in parse_handoff(str(given or "")).deliverables if one.path]


def time_for(asked: str | float | None, kind: Kind, name: str | None, at_most: float | None) -> float:
    """Seconds a run may take; `asked` is an option's text, or seconds."""
    seconds = kind.timeout
    if asked is not None:
        seconds = option_duration("--timeout", asked) if isinstance(asked, str) else asked
        if isinstance(asked, str) and seconds <= 0:
            raise BadInput("--timeout must be more than nothing.", "Write it as 30s, 5m or 2h.")
        if seconds > kind.max_timeout:
            setting = f"kinds.{name or 'none'}.max_timeout"
            longest = f"the longest time for {name or 'this kind of task'}, {say_duration(kind.max_timeout)}"
            what = f"--timeout {asked}" if isinstance(asked, str) else f"Its timeout of {say_duration(seconds)}"
            raise LimitExceeded(
                f"{what} is above {longest}.", f"Ask for less, or raise {setting} in .overhand/config.toml"
            )
    return seconds if at_most is None else min(seconds, at_most)


def budget_for(asked: str | None, store: Store, config: Config, parent: str | None) -> str | None:
    """The budget that was asked for; else the project's budget of a task, unless a task above has one."""
    text = config.budget.task if asked is None else asked
    while text and asked is None and parent is not None:
        try:
            above = store.recorded(parent)
        except TaskNotFound:
            break  # its folder was removed, and its budget with it
        if own_cap(above).is_cap:
            return None
        parent = above.parent.task if above.parent else None
    return text or None


def workspace_of(path: str) -> str | None:
    """The task id, if this path is a folder directly in `.agent-workspaces`."""
    above, name = os.path.split(os.path.realpath(path))
    return name if os.path.basename(above) == WORKSPACES and is_task_id(name) else None
