"""Limits of a delegation: depth, cycles, level, time, budget. Counted from recorded runs, not from claims."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.errors import BadInput, CycleDetected, LimitExceeded, Refused, StaleRun, TaskNotFound, TooDeep
from overhand.policy import own_cap
from overhand.record import WORKSPACES
from overhand.words import LEVELS, MAX_DEPTH, is_task_id, option_duration, say_duration

if TYPE_CHECKING:
    from overhand.agents import Agent
    from overhand.policy import Caller, Config, Kind
    from overhand.record import Store


def check_delegation(caller: Caller, agent: Agent) -> tuple[int, list[str]]:
    """Depth and path of a new task, or a refusal that shows the path."""
    shown = " → ".join((*caller.path, agent.name))
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
    if agent.name in caller.path[1:] and not agent.reentrant:
        raise CycleDetected(
            f"A cycle: {shown}. {agent.name} is already at work above.",
            "Delegate to another agent, or set reentrant: true in its file.",
            path=[*caller.path, agent.name],
        )
    return caller.depth + 1, [*caller.path, agent.name]


def level_for(wanted: str, caller: Caller, agent: Agent, promised: list[str]) -> tuple[str, str]:
    """What a task's runs may do, never more than its agent and the caller may; and why it is less than wanted."""
    order = list(LEVELS)
    held = min(caller.level, agent.level, key=order.index)
    if order.index(wanted) <= order.index(held):
        return wanted, ""
    whose = f"agent {agent.name}" if agent.level == held else f"run {caller.run}, which delegates it"
    if held == "read" and (promised or agent.level == held):
        what = f"is to write {', '.join(promised)}" if promised else f"is of level {wanted}"
        raise Refused(
            f"This task {what}, and {whose} may only read.",
            "Delegate it to an agent that may write, or ask for an answer instead: --read-only"
            if agent.level == held
            else "Ask for an answer instead of a file: --read-only",
        )
    return held, f"It may {held}, no more: so it is for {whose}."


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
            above = store.task(parent)
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
