"""Ending the processes of a run: signals first, records when possible.

A full or read-only disk, a lock that is held, or a damaged log keep nothing of this from working.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from overhand.errors import OverhandError
from overhand.record import Notice
from overhand.runs.prompt import RUN_MARKER
from overhand.system import (
    exit_code,
    lives,
    living_leftovers,
    lock_holder,
    names_in,
    read_file,
    stop_detached,
    write_file,
)
from overhand.words import is_run_id

if TYPE_CHECKING:
    from overhand.policy import Actor
    from overhand.record import LockedTask, Store
    from overhand.words import Cause

COULD_NOT_END = "Processes could not be ended: "


def end_members(actor: Actor, place: str, cause: Cause | None, grace: float) -> list[int]:
    """End every process of a run, after writing down why if that is possible; returns those that could not be ended.

    Without a cause the run has ended already, and these are what it left behind.
    """
    if cause is not None:
        note_cause(place, cause)
    return stop_detached(place, _marker(place), grace=grace, spare=spared(actor.store, actor.spare))


def note_cause(place: str, cause: Cause) -> None:
    """Record why we end it, before the first signal: a successor must know that it wasn't the agent's own end.

    On a full disk an empty file can still be made: then its name says it.
    """
    if stop_cause(place) is not None:
        return
    try:
        write_file(f"{place}/stopped", f"{cause}\n")
    except OverhandError:
        for name in (f"stopped-{cause}", "stopped"):
            try:
                os.close(os.open(f"{place}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))
            except OSError:
                return  # nothing can be written here: the signals are sent all the same


def stop_cause(place: str) -> Cause | None:
    """Why we ended it, or began to."""
    if raw := read_file(f"{place}/stopped"):
        return cast("Cause", raw.decode("ascii", "replace").strip())  # only we write this file
    named = [name for name in names_in(place) if name.startswith("stopped-")]
    return cast("Cause", named[0].removeprefix("stopped-")) if named else None


def is_half_stopped(place: str) -> bool:
    """Whether a stop was begun and the agent has ended: what began it may have died before all members were ended."""
    return stop_cause(place) is not None and (exit_code(place) is not None or not lives(place))


def living_runs(store: Store, task_id: str) -> list[str]:
    """The folders of a task's detached runs that are alive, whatever its log says."""
    runs = f"{store.record(task_id)}/runs"
    places = [f"{runs}/{name}" for name in sorted(names_in(runs)) if is_run_id(name)]
    # a run in the process of its caller, which must not be ended, has no shim and so no `start`
    return [place for place in places if os.path.exists(f"{place}/start") and lives(place)]


def still_alive(store: Store, place: str) -> list[int]:
    """The processes of a run that are there now."""
    return living_leftovers(place, _marker(place), spared(store))


def spared(store: Store, also: frozenset[int] = frozenset()) -> frozenset[int]:
    """The supervisor may descend from a run; it never belongs to it."""
    return also | frozenset(filter(None, [lock_holder(f"{store.own}/lock")]))


def tell_left(locked: LockedTask, left: list[int]) -> None:
    """A notice of the processes that could not be ended, once."""
    text = COULD_NOT_END + ", ".join(map(str, left[:50]))
    if text not in locked.task.notices:
        locked.append(Notice(text=text))


def _marker(place: str) -> str:
    return f"{RUN_MARKER}={os.path.basename(place)}"
