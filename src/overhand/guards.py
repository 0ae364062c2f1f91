"""Who is asking, and may they: depth, cycles, time. Counted from recorded runs, never from what an agent says."""

from __future__ import annotations

import getpass
import os
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from overhand import handles, log, members, model
from overhand.errors import (
    BadInput,
    CycleDetected,
    LimitExceeded,
    NotAllowed,
    OverhandError,
    Refused,
    StaleRun,
    TooDeep,
)
from overhand.store import WORKSPACES, Store

if TYPE_CHECKING:
    from overhand.agents import Agent
    from overhand.config import Kind
    from overhand.shapes import Run, State

# the run that a function agent of this process is in: (project, task, run)
inside_run: ContextVar[tuple[str, str, str] | None] = ContextVar("inside_run", default=None)


@dataclass(frozen=True, slots=True)
class Caller:
    """A person, or a recorded run."""

    task: str | None = None
    run: str | None = None
    depth: int = 0
    path: tuple[str, ...] = ("user",)
    left: float | None = None  # seconds until the calling run's deadline
    live: bool = True
    can_delegate: bool = True

    @property
    def is_person(self) -> bool:
        """Whether no recorded run stands behind this call."""
        return self.run is None

    def by(self, via: str) -> dict[str, Any]:
        """The `by` of an event."""
        if self.run:
            return {"kind": "run", "run": self.run, "via": via}
        return {"kind": "person", "user": user(), "via": via}


@cache  # it cannot change within a process
def user() -> str:
    """Who is at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def caller(store: Store) -> Caller:
    """Who calls: found by context, by descent from a run's shim, or by the marker in an ancestor's environment."""
    for task_id, run_id in _signs(store):
        try:
            state = store.state(task_id)
        except OverhandError:
            continue
        run = model.find_run(state, run_id)
        if run is not None:
            return _from_run(store, state, run)
    return Caller()


def _signs(store: Store) -> list[tuple[str, str]]:
    """Everything that says which run we are in, the kernel's word before the environment's."""
    here = inside_run.get()
    if here is not None:
        return [here[1:]] if here[0] == store.root else []
    known = (os.getpid(), store.root)
    if known not in _process_signs:  # a process stays in the run it was started in
        _process_signs[known] = _signs_of_process(store)
    return _process_signs[known]


_process_signs: dict[tuple[int, str], list[tuple[str, str]]] = {}


def _signs_of_process(store: Store) -> list[tuple[str, str]]:
    chain = members.ancestors(os.getpid())
    supervisor = log.holder(f"{store.own}/lock")
    if supervisor in chain:  # what is above it is whoever happened to start it
        chain = chain[: chain.index(supervisor)]
    found = [sign for pid in chain if (sign := run_of_place(store, members.shim_place(pid)))]
    found += _by_record(store, chain) if not found else []
    for pid in chain:
        run_id = members.environment_of(pid, "OVERHAND_RUN")
        task_id = members.environment_of(pid, "OVERHAND_TASK")
        if run_id and task_id and model.is_run_id(run_id) and model.is_task_id(task_id):
            found.append((task_id, run_id))
    own = os.environ.get("OVERHAND_TASK", ""), os.environ.get("OVERHAND_RUN", "")
    if model.is_task_id(own[0]) and model.is_run_id(own[1]):
        found.append(own)
    return found


def run_of_place(store: Store, place: str | None) -> tuple[str, str] | None:
    """Task and run of a shim's folder in this project; a check of a run counts as that run."""
    before = f"{store.workspaces}/"
    if place is None or not os.path.realpath(place).startswith(before):
        return None
    parts = os.path.realpath(place)[len(before) :].split("/")
    if len(parts) >= 3 and parts[1] == "runs" and model.is_run_id(parts[2]):
        return parts[0], parts[2]
    return None


def _by_record(store: Store, chain: list[int]) -> list[tuple[str, str]]:
    """An orphan of a killed shim keeps its session; below an in-process function stands its process."""
    own = os.getsid(0)
    found = []
    for state in store.states():
        run = model.current_run(state)
        if run is None or run["state"] == "ended":
            continue
        leader = members.known_sessions(store.run_folder(state["task_id"], run["id"])).get(own)
        orphan = leader is not None and members.start_time(own) in (None, leader)
        if orphan or (run["attached"] and run["shim"] in chain[1:]):
            found.append((state["depth"], state["task_id"], run["id"]))
    return [(task_id, run_id) for _, task_id, run_id in sorted(found, reverse=True)]


def _from_run(store: Store, state: State, run: Run) -> Caller:
    import time

    from overhand import machine

    left = None
    if run["boot"] == machine.boot() and run["timeout"]:
        left = max(0.0, run["mono"] + run["timeout"] - time.monotonic())
    place = store.run_folder(state["task_id"], run["id"])
    return Caller(
        task=state["task_id"],
        run=run["id"],
        depth=state["depth"],
        path=tuple(state["path"]),
        left=left,
        live=run["state"] != "ended" and handles.lives(place),
        can_delegate=bool(state["settings"].get("can_delegate", True)),
    )


def require_person(who: Caller, what: str) -> None:
    """Some things only a person may do."""
    if not who.is_person:
        raise NotAllowed(
            f"{what} is for a person; this was called from inside run {who.run}.", "Ask the person who started it."
        )


def check_delegation(who: Caller, agent: Agent) -> tuple[int, list[str]]:
    """Depth and path of a new task, or a refusal that shows the path."""
    shown = " → ".join((*who.path, agent.name))
    if not who.is_person:
        if not who.live:
            raise StaleRun(f"Run {who.run} has ended; it cannot delegate any more.", "Start again from a shell.")
        if who.depth >= model.MAX_DEPTH:
            raise TooDeep(
                f"Too deep: {shown}. A run at depth {who.depth} may not delegate (the limit is {model.MAX_DEPTH}).",
                "Do this part in the run itself, and say in OUTPUT.md what is left.",
                path=[*who.path, agent.name],
            )
        if not who.can_delegate:
            raise Refused(f"Agent {who.path[-1]} may not delegate (can_delegate: false).", "Do it in the run itself.")
    if agent.name in who.path[1:] and not agent.reentrant:
        raise CycleDetected(
            f"A cycle: {shown}. {agent.name} is already at work above.",
            "Delegate to another agent, or set reentrant: true in its file.",
            path=[*who.path, agent.name],
        )
    return who.depth + 1, [*who.path, agent.name]


def time_for(asked: str | None, kind: Kind, name: str | None, parent_left: float | None) -> float:
    """Seconds a run may take."""
    seconds = kind.timeout
    if asked is not None:
        try:
            seconds = model.duration(asked)
        except ValueError:
            raise BadInput(f"--timeout {asked!r} is not a duration.", "Write it as 30s, 5m or 2h.") from None
        if seconds <= 0:
            raise BadInput("--timeout must be more than nothing.", "Write it as 30s, 5m or 2h.")
        if seconds > kind.max_timeout:
            setting = f"kinds.{name or 'none'}.max_timeout"
            longest = f"the longest time for {name or 'this kind of task'}, {model.say_duration(kind.max_timeout)}"
            raise LimitExceeded(
                f"--timeout {asked} is above {longest}.",
                f"Ask for less, or raise {setting} in .overhand/config.toml",
            )
    return seconds if parent_left is None else min(seconds, parent_left)


def workspace_of(path: str) -> str | None:
    """The task id, if this path is a folder directly in `.agent-workspaces`."""
    above, name = os.path.split(os.path.realpath(path))
    return name if os.path.basename(above) == WORKSPACES and model.is_task_id(name) else None
