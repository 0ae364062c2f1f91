"""What a live run has used, compared with every limit on it, and what is done at each level.

At 70 % of a budget a person is notified, at 85 % a checkpoint is made, at 95 % the run is stopped. The same for a
context window, but the task then continues in a new run. A child may find that the budget of its parent is used up.
Each level is acted on once (`limit`), except that a run beyond the last one is stopped at every look.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand.errors import BudgetExceeded, OverhandError
from overhand.policy import budget
from overhand.record.events import LimitReached, Notice
from overhand.runs import checkpoints, spending
from overhand.system.files import read_file
from overhand.system.jsonline import loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.policy.actor import Actor
    from overhand.record.task import Run, Task, Usage

NOTE_EVERY = 10.0  # seconds between records of what a live run has used


@dataclass(frozen=True, slots=True)
class Reached:
    """A level of something that is limited."""

    key: str
    level: int
    owner: Task  # whose limit it is


@dataclass(frozen=True, slots=True)
class Counted:
    """What the caller is to do next."""

    stop: str = ""  # why the run is to be stopped
    again: list[str] = field(default_factory=list)  # tasks that are to be counted again


def count(actor: Actor, task_id: str, *, note: bool = True) -> Counted:
    """Compare what a live run and everything around it have used with every limit, and act on what is new."""
    task = actor.store.task(task_id)
    current = task.current_run
    if current is None or current.state == "ended":
        return Counted()
    place = actor.store.run_folder(task_id, current.id)
    usage = spending.reported(place)
    found: list[Reached] = [*_spent(actor, task), *(_context(task, current, place, usage) if usage else ())]
    new = [one for one in found if one.key not in one.owner.limits]
    if usage is not None and (new or note):
        with actor.store.lock(task_id, actor.by) as locked:
            now = locked.task.run(current.id)
            if now is not None and now.state != "ended" and now.usage != usage:
                locked.append(spending.event(current.id, usage))
    again: list[str] = []
    for one in new:
        if _act(actor, one) and one.owner is not task:
            again += [one.owner.id, *(one.owner.reserved if one.level >= budget.STOP else ())]
    return Counted(next((one.key for one in found if one.level >= budget.STOP), ""), again)


def _spent(actor: Actor, task: Task) -> list[Reached]:
    store, found = actor.store, []
    above = spending.capped_above(store, task)
    for owner in (task, *above):
        cap = budget.explicit(owner)
        if level := budget.level(spending.tree(store, owner), cap):
            key = f"{level} % of {budget.say(cap)}"
            found.append(Reached(key, level, owner))
            if owner is not task and level >= budget.STOP:
                found.append(Reached(f"{key}, of task {owner.handle or owner.id}", level, task))
    if above and (level := _share(actor, task, above)) >= budget.CHECKPOINT:
        name = above[0].handle or above[0].id
        found.append(Reached(f"{level} % of what task {name} had left for it", level, task))
    cap = actor.config.budget.day
    if cap.is_cap and (level := budget.level(spending.spent_today(store), cap)):
        found.append(Reached(f"{level} % of {budget.say(cap)} a day", level, task))
    return found


def _share(actor: Actor, task: Task, above: list[Task]) -> int:
    """The level of what it holds of the nearest budget above, after asking for more."""
    held = above[0].reserved.get(task.id)
    if held is not None and budget.level(spending.tree(actor.store, task), held) >= budget.CHECKPOINT:
        held = spending.hold(actor, task, above, budget.CHECKPOINT)
    return budget.level(spending.tree(actor.store, task), held) if held is not None else 0


def _context(task: Task, current: Run, place: str, usage: Usage) -> list[Reached]:
    """The level of the model's window; for an agent that compacts its context itself only a warning."""
    level = budget.context_level(usage)
    if level > budget.WARN:
        try:
            spec = loads((read_file(f"{place}/spec.json") or b"{}").decode("utf-8", "replace"))
        except ValueError:
            spec = {}
        if current.attached or spec.get("agent", {}).get("compacts"):
            level = budget.WARN
    return [Reached(f"{level} % of the context window in {current.id}", level, task)] if level else []


def _act(actor: Actor, one: Reached) -> bool:
    """Record a level, once, and make the checkpoint that belongs to it; whether this call did it."""
    owner = one.owner.id
    full = one.key.startswith(spending.full(""))
    with actor.store.lock(owner, actor.by) as locked:
        if one.key in locked.task.limits:
            return False
        locked.append(LimitReached(key=one.key))
        if full and spending.handovers(locked.task) > spending.MOST_HANDOVERS:
            text = f"Its context window was full {spending.MOST_HANDOVERS + 1} times: it is not handed over once more."
            locked.append(Notice(text=text))
        current = locked.task.current_run
    if current is None or not (full or one.level == budget.CHECKPOINT):
        return True
    try:
        cause = f"{current.id}/limit@{one.key}"
        checkpoints.create(actor.store, owner, actor.by, run=current.id, reason=one.key, why="budget", cause=cause)
    except OverhandError as error:
        with actor.store.lock(owner, actor.by) as locked:
            locked.append(Notice(text=f"No checkpoint could be made at {one.key}: {error.message}"[:1000]))
    return True


def in_process(actor: Actor, task_id: str) -> Callable[[], None]:
    """The meter of a function in the calling process, which cannot be stopped: an exception ends it."""
    noted = [0.0]

    def look() -> None:
        now = time.monotonic()
        note = now - noted[0] >= NOTE_EVERY
        counted = count(actor, task_id, note=note)
        if note:
            noted[0] = now
        if counted.stop:
            raise BudgetExceeded(f"The budget is used up: {counted.stop}.", "Return what is done so far.")

    return look
