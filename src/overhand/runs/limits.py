"""What a live run has used, compared with every limit on it, and what is done at each level.

At 70 % of a budget a person is told, at 85 % a checkpoint is made, at 95 % the run is stopped. Of a context window the
same, but what fills it goes on in a new run. Whose level it is matters: a child may find that the budget of its parent
is used up. Each level is acted on once (`limit`), except that what is beyond the last one is stopped whenever it is
looked at.
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
    from overhand.record.task import Amount, Run, Task, Usage

NOTE_EVERY = 10.0  # seconds between records of what a live run has used


@dataclass(frozen=True, slots=True)
class Reached:
    """A level of something that is limited."""

    key: str
    level: int
    owner: Task  # whose limit it is


@dataclass(slots=True)
class Counted:
    """What the caller is to do next."""

    stop: str = ""  # why the run is to be stopped
    again: list[str] = field(default_factory=list)  # tasks that are to be counted again


def count(work: Actor, task_id: str, *, note: bool = True) -> Counted:
    """Compare what a live run and everything around it have used with every limit, and act on what is new."""
    task = work.store.task(task_id)
    current = task.current_run
    if current is None or current.state == "ended":
        return Counted()
    place = work.store.run_folder(task_id, current.id)
    usage = spending.reported(place)
    found: list[Reached] = [*_spent(work, task), *(_context(task, current, place, usage) if usage else ())]
    new = [one for one in found if one.key not in one.owner.limits]
    if usage is not None and (new or note):
        _note(work, task_id, current, usage)
    counted = Counted()
    for one in new:
        if _act(work, one) and one.owner is not task:
            counted.again.append(one.owner.id)
            counted.again += one.owner.reserved if one.level >= budget.STOP else ()
    counted.stop = next((one.key for one in found if one.level >= budget.STOP), "")
    return counted


def _note(work: Actor, task_id: str, current: Run, usage: Usage) -> None:
    with work.store.lock(task_id, work.by) as locked:
        now = locked.task.run(current.id)
        if now is not None and now.state != "ended" and now.usage != usage:
            locked.append(spending.event(current.id, usage))


def _spent(work: Actor, task: Task) -> list[Reached]:
    """Levels of every budget that this task draws on."""
    store, found = work.store, []
    above = spending.capped_above(store, task)
    for owner in (task, *above):
        cap = budget.explicit(owner)
        if level := budget.level(spending.tree(store, owner), cap):
            whose = "" if owner is task else f", of task {owner.handle or owner.id}"
            key = f"{level} % of {budget.say(cap)}"
            found.append(Reached(key, level, owner))
            if whose and level >= budget.STOP:
                found.append(Reached(key + whose, level, task))
    if above and (level := _share(work, task, above)) >= budget.CHECKPOINT:
        name = above[0].handle or above[0].id
        found.append(Reached(f"{level} % of what task {name} had left for it", level, task))
    cap = work.config.budget.day
    if cap.is_cap and (level := budget.level(spending.spent_today(store), cap)):
        found.append(Reached(f"{level} % of {budget.say(cap)} a day", level, task))
    return found


def _share(work: Actor, task: Task, above: list[Task]) -> int:
    """The level of what it holds of the nearest budget above, after asking for more."""

    def level(held: Amount | None) -> int:
        return budget.level(spending.tree(work.store, task), held) if held is not None else 0

    found = level(above[0].reserved.get(task.id))
    return level(spending.hold(work, task, above, budget.CHECKPOINT)) if found >= budget.CHECKPOINT else found


def _context(task: Task, current: Run, place: str, usage: Usage) -> list[Reached]:
    """The level of the model's window; of one that looks after its context itself, a person is only told."""
    level = budget.context_level(usage)
    if level > budget.WARN and (current.attached or _compacts(place)):
        level = budget.WARN
    return [Reached(f"{level} % of the context window in {current.id}", level, task)] if level else []


def _compacts(place: str) -> bool:
    try:
        spec = loads((read_file(f"{place}/spec.json") or b"{}").decode("utf-8", "replace"))
    except ValueError:
        return False
    return bool(spec.get("agent", {}).get("compacts"))


def _act(work: Actor, one: Reached) -> bool:
    """Record a level, once, and make the checkpoint that belongs to it; whether it was us."""
    owner = one.owner.id
    with work.store.lock(owner, work.by) as locked:
        if one.key in locked.task.limits:
            return False
        locked.append(LimitReached(key=one.key))
        if one.key.startswith(spending.full("")) and spending.handovers(locked.task) > spending.MOST_HANDOVERS:
            text = f"Its context window was full {spending.MOST_HANDOVERS + 1} times: it is not handed over once more."
            locked.append(Notice(text=text))
        current = locked.task.current_run
    full = one.key.startswith(spending.full(""))
    if current is not None and (one.level == budget.CHECKPOINT or full):
        _save(work, owner, current.id, one.key)
    return True


def _save(work: Actor, task_id: str, run_id: str, key: str) -> None:
    """A checkpoint of its own accord; one that cannot be made keeps nobody from going on."""
    try:
        cause = f"{run_id}/limit@{key}"
        checkpoints.create(work.store, task_id, work.by, run=run_id, reason=key, why="budget", cause=cause)
    except OverhandError as error:
        with work.store.lock(task_id, work.by) as locked:
            locked.append(Notice(text=f"No checkpoint could be made at {key}: {error.message}"[:1000]))


def in_process(work: Actor, task_id: str) -> Callable[[], None]:
    """The meter of a function in the calling process, which cannot be stopped: an exception ends it."""
    noted = [0.0]

    def look() -> None:
        now = time.monotonic()
        note = now - noted[0] >= NOTE_EVERY
        counted = count(work, task_id, note=note)
        if note:
            noted[0] = now
        if counted.stop:
            raise BudgetExceeded(f"The budget is used up: {counted.stop}.", "Return what is done so far.")

    return look
