"""What a live run has used, compared with every limit on it, and what is done at each level.

At 70 % of a budget a person is notified, at 85 % a checkpoint is made, at 95 % the run is stopped. The same for a
context window, but the task then continues in a new run. A child may find that the budget of its parent is used up.
Each level is acted on once (`limit`), except that a run beyond the last one is stopped at every look.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand.errors import BudgetExceeded, Busy, OverhandError, StorageFailed
from overhand.policy import CHECKPOINT_LEVEL, STOP_LEVEL, WARN_LEVEL, budget_level, context_level, own_cap, say_budget
from overhand.record import LimitReached, Notice
from overhand.runs import checkpoints, spending
from overhand.system import load_line, read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.policy import Actor
    from overhand.record import Run, Task, Usage

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


def count_usage(actor: Actor, task_id: str, *, note: bool = True) -> Counted:
    """Compare what a live run and everything around it have used with every limit, and act on what is new."""
    task = actor.store.recorded(task_id)
    current = task.current_run
    if current is None or current.state == "ended":
        return Counted()
    place = actor.store.run_folder(task_id, current.id)
    usage = spending.reported_usage(actor.store.desk_files(task_id, current.id))
    found: list[Reached] = [*_spent(actor, task), *(_context(task, current, place, usage) if usage else ())]
    new = [one for one in found if one.key not in one.owner.limits]
    counted = Counted(next((one.key for one in found if one.level >= STOP_LEVEL), ""))
    try:
        if usage is not None and (new or note):
            with actor.store.lock(task_id, actor.by) as locked:
                now = locked.task.run(current.id)
                if now is not None and now.state != "ended" and now.usage != usage:
                    locked.append(spending.usage_event(current.id, usage))
        for one in new:
            if _act(actor, one) and one.owner is not task:
                counted.again.extend([one.owner.id, *(one.owner.reserved if one.level >= STOP_LEVEL else ())])
    except (Busy, StorageFailed):
        if not counted.stop:
            raise
    return counted  # a run that has used up its budget is stopped, whether that could be recorded or not


def _spent(actor: Actor, task: Task) -> list[Reached]:
    store, found = actor.store, []
    above = spending.capped_above(store, task)
    for owner in (task, *above):
        cap = own_cap(owner)
        if level := budget_level(spending.tree_spending(store, owner), cap):
            key = f"{level} % of {say_budget(cap)}"
            found.append(Reached(key, level, owner))
            if owner is not task and level >= STOP_LEVEL:
                found.append(Reached(f"{key}, of task {owner.handle or owner.id}", level, task))
    if above and (level := _share(actor, task, above)) >= CHECKPOINT_LEVEL:
        name = above[0].handle or above[0].id
        found.append(Reached(f"{level} % of what task {name} had left for it", level, task))
    cap = actor.config.budget.day
    if cap.is_cap and (level := budget_level(spending.spent_today(store), cap)):
        found.append(Reached(f"{level} % of {say_budget(cap)} a day", level, task))
    return found


def _share(actor: Actor, task: Task, above: list[Task]) -> int:
    """The level of what it holds of the nearest budget above, after asking for more."""
    held = above[0].reserved.get(task.id)
    if held is not None and budget_level(spending.tree_spending(actor.store, task), held) >= CHECKPOINT_LEVEL:
        held = spending.hold(actor, task, above, CHECKPOINT_LEVEL)
    return budget_level(spending.tree_spending(actor.store, task), held) if held is not None else 0


def _context(task: Task, current: Run, place: str, usage: Usage) -> list[Reached]:
    """The level of the model's window; for an agent that compacts its context itself only a warning."""
    level = context_level(usage)
    if level > WARN_LEVEL:
        try:
            spec = load_line((read_file(f"{place}/spec.json") or b"{}").decode("utf-8", "replace"))
        except ValueError:
            spec = {}
        if current.attached or spec.get("agent", {}).get("compacts"):
            level = WARN_LEVEL
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
    if current is None or not (full or one.level == CHECKPOINT_LEVEL):
        return True
    try:
        cause = f"{current.id}/limit@{one.key}"
        new = checkpoints.NewCheckpoint(run=current.id, reason=one.key, why="budget", cause=cause)
        checkpoints.create_checkpoint(actor.store, owner, actor.by, new)
    except OverhandError as error:
        with actor.store.lock(owner, actor.by) as locked:
            locked.append(Notice(text=f"No checkpoint could be made at {one.key}: {error.message}"[:1000]))
    return True


def in_process_meter(actor: Actor, task_id: str) -> Callable[[], None]:
    """The meter of a function in the calling process, which cannot be stopped: an exception ends it."""
    noted = [0.0]

    def look() -> None:
        now = time.monotonic()
        note = now - noted[0] >= NOTE_EVERY
        counted = count_usage(actor, task_id, note=note)
        if note:
            noted[0] = now
        if counted.stop:
            raise BudgetExceeded(f"The budget is used up: {counted.stop}.", "Return what is done so far.")

    return look
