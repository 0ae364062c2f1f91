"""The supervisor's meter: what live runs report, the levels that are reached, and what is done then.

At 70 % of a budget a person is told, at 85 % a checkpoint is made, at 95 % the run is stopped. Of a context window the
same, but what fills it goes on in a new run. Whose level it is matters: a child may find that the budget of its parent
is used up. Each level is acted on once (`limit`), except that what is beyond the last one is stopped whenever it is
looked at.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from overhand.agents import quota
from overhand.errors import BudgetExceeded, OverhandError
from overhand.policy import budget
from overhand.policy import config as configs
from overhand.runs import checkpoints, run, spending
from overhand.system import machine
from overhand.system.files import read_file, size_of, write_file
from overhand.system.jsonline import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from overhand.policy.actor import Actor
    from overhand.policy.config import Config
    from overhand.record.store import Store
    from overhand.record.task import Amount, Run, Task, Usage
    from overhand.runs.spending import Day
    from overhand.supervisor.loop import Supervisor
    from overhand.supervisor.watches import Watch

HELD = "held"  # in the supervisor's folder: why nothing starts, and on which day
_NOTE_EVERY = 10.0  # seconds between records of what a live run has used


@dataclass(frozen=True, slots=True)
class Reached:
    """A level of something that is limited."""

    key: str
    level: int
    owner: Task  # whose limit it is


@dataclass(slots=True)
class Counted:
    """What was found, and is to be done by whoever counted."""

    stop: str = ""  # why the run is to be stopped
    again: list[str] = field(default_factory=list)  # tasks that are to be counted again


def count(work: Actor, task_id: str, *, note: bool = True, day: Day | None = None) -> Counted:
    """Compare what a live run and everything around it have used with every limit, and act on what is new."""
    task = work.store.state(task_id)
    current = task.current_run
    if current is None or current.has_ended:
        return Counted()
    place = work.store.run_folder(task_id, current.id)
    usage = spending.reported(place)
    found: list[Reached] = [*_spent(work, task, day), *(_context(task, current, place, usage) if usage else ())]
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
    with work.store.locked(task_id, work.by) as locked:
        now = locked.task.run(current.id)
        if now is not None and not now.has_ended and now.usage != usage:
            locked.append(spending.event(current.id, usage))


def _spent(work: Actor, task: Task, day: Day | None) -> list[Reached]:
    """Levels of every budget that this task draws on."""
    store, found = work.store, []
    above = spending.capped_above(store, task)
    for owner in (task, *above):
        cap = budget.explicit(owner)
        if level := budget.level(spending.tree(store, owner), cap):
            whose = "" if owner is task else f", of task {owner.name}"
            key = f"{level} % of {budget.say(cap)}"
            found.append(Reached(key, level, owner))
            if whose and level >= budget.STOP:
                found.append(Reached(key + whose, level, task))
    if above and (level := _share(work, task, above)) >= budget.CHECKPOINT:
        name = above[0].name
        found.append(Reached(f"{level} % of what task {name} had left for it", level, task))
    cap = work.config.budget.day
    if cap.is_cap and (level := budget.level((day or spending.Day()).spent(store), cap)):
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
    with work.store.locked(owner, work.by) as locked:
        if one.key in locked.task.limits:
            return False
        locked.append({"e": "limit", "key": one.key})
        if one.key.startswith(spending.full("")) and spending.handovers(locked.task) > spending.MOST_HANDOVERS:
            text = f"Its context window was full {spending.MOST_HANDOVERS + 1} times: it is not handed over once more."
            locked.append({"e": "notice", "text": text})
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
        with work.store.locked(task_id, work.by) as locked:
            locked.append({"e": "notice", "text": f"No checkpoint could be made at {key}: {error.message}"[:1000]})


def in_process(work: Actor, task_id: str) -> Callable[[], None]:
    """The meter of a function inside somebody's process, which nobody can stop: it is told by an exception."""
    noted = [0.0]

    def look() -> None:
        now = time.monotonic()
        note = now - noted[0] >= _NOTE_EVERY
        counted = count(work, task_id, note=note)
        if note:
            noted[0] = now
        if counted.stop:
            raise BudgetExceeded(f"The budget is used up: {counted.stop}.", "Return what is done so far.")

    return look


# in the supervisor


def look(boss: Supervisor, task_id: str, known: Watch) -> bool:
    """Count a live run if it has reported something, or if somebody asked for it; whether that is being done now."""
    size = size_of(f"{known.place}/{spending.REPORTS}")
    if known.counted < 0 and not size and not _is_limited(boss, task_id):
        known.counted = 0
    if size == known.counted and not known.recount:
        return False
    known.stirred = True  # whatever else is to be done for it, it is looked at once more
    if task_id in boss.jobs.busy:
        return False
    now = time.monotonic()
    note = now - known.noted >= _NOTE_EVERY
    grace = (known.own or boss.config).stop_grace
    work = boss.work(task_id)

    def do() -> None:
        known.recount = False
        counted = count(work, task_id, note=note, day=boss.day)
        _again(boss, counted.again)
        if counted.stop:
            run.stop(work, task_id, "budget", grace)
        known.counted = size
        known.noted = now if note else known.noted

    boss.jobs.start(task_id, do)
    return True


def _is_limited(boss: Supervisor, task_id: str) -> bool:
    """Whether something may be used up although this run reports nothing."""
    task = boss.slots.get(task_id)
    return task is None or bool(task.budget or task.parent or boss.config.budget.day.is_cap)


def _again(boss: Supervisor, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        if (live := boss.watches.live.get(task_id)) is not None:
            live.recount = True
            boss.called.append(task_id)


def ended(boss: Supervisor, task: Task) -> None:
    """What a task used in the end may be more than it told before: those whose budget it draws on are counted again."""
    if task.parent:
        _again(boss, [above.id for above in spending.capped_above(boss.store, task)])


def is_held(boss: Supervisor) -> bool:
    """Whether the day's budget is used up, so that nothing starts; `list` can tell why."""
    cap = boss.config.budget.day
    held = cap.is_cap and budget.level(boss.day.spent(boss.store), cap) >= budget.STOP
    if held != boss.held:
        why = f"the budget of {budget.say(cap)} a day is used up; it goes on after midnight UTC"
        _hold_back(boss.store, why if held else None)
        boss.held = held
    return held


def _hold_back(store: Store, why: str | None) -> None:
    """Leave word for `list` why queued tasks do not start, or that they do."""
    path = f"{store.own}/{HELD}"
    if why is not None:
        write_file(path, f"{machine.now()[:10]} {why}\n")
    elif os.path.lexists(path):
        os.unlink(path)


def limits(boss: Supervisor, task: Task) -> Config:
    """The settings in force for a task; its own ones count for as long as they can be read."""
    try:
        return configs.of_task(boss.store.root, boss.config, task.settings)
    except OverhandError as error:
        boss.say(str(error))
        return boss.config


def is_paused(
    boss: Supervisor, task: Task, paused: Mapping[str, quota.Pause], known: dict[str, tuple[str, str | None]]
) -> bool:
    """Whether the task's program is paused at its provider's limit; where another agent is to take over, it does."""
    agent = task.agent
    if agent not in known:  # agent files are read once, however many tasks wait
        own = limits(boss, task)
        known[agent] = quota.driver_of(boss.store.root, task, own), quota.stand_in(boss.store, task, own)
    driver, other = known[agent]
    found = paused.get(driver)
    if found is None:
        return False
    if other:
        task_id = task.id
        boss.jobs.start(task_id, partial(quota.hand_over, boss.work(task_id), task_id, agent, other))
    boss.resumes = min(boss.resumes, found.until)
    return True
