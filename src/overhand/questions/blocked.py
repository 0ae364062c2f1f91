"""Runs that wait: whether one is known to be blocked, and what is recorded of it.

A run is known to be blocked while one of its processes waits in `overhand ask` (a lock says so), for half a minute
after such a call told it to call again, while it shows no sign of life after a question in a file, or while it waits
for a task of its own that is blocked itself. While that lasts its clock stands still and it holds no slot.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from overhand.questions import files
from overhand.record.events import RunBlocked, RunUnblocked
from overhand.system import lock
from overhand.system.files import names_in, read_file

if TYPE_CHECKING:
    from overhand.policy.actor import Actor
    from overhand.record.task import Run, Task

AGAIN = 30.0  # seconds within which an agent that was told to call again should do so
QUIET = 5.0  # seconds without a sign of life after which a question in a file is taken to be waited for


def asks(place: str, task: Task) -> bool:
    """Whether one of its processes waits in `ask`, or was told a moment ago to call again."""
    folder = f"{place}/waiting"
    if any(name.startswith("ask-") and lock.is_held(f"{folder}/{name}") for name in names_in(folder)):
        return True
    # only now: a call leaves its mark before it lets go of its lock
    marks = [name for name in names_in(folder) if name.startswith("again-")]
    return any(_is_open(task, name[6:]) and _age(f"{folder}/{name}") < AGAIN for name in marks)


def waits_on(place: str) -> bool:
    """Whether one of its processes still waits for an answer or a task: a look that costs next to nothing."""
    folder = f"{place}/waiting"
    return any(not name.startswith("again-") and lock.is_held(f"{folder}/{name}") for name in names_in(folder))


def waits_for_task(place: str) -> bool:
    """Whether one of its processes waits for a task that it delegated."""
    folder = f"{place}/waiting"
    return any(name[0].isdigit() and lock.is_held(f"{folder}/{name}") for name in names_in(folder))


def has_file_question(task: Task, run: Run) -> bool:
    """Whether something it asked by writing a file is open: only its silence tells that it waits."""
    return any(q.via == "file" and q.run == run.id for q in task.open_questions)


def attend(work: Actor, task_id: str, *, quiet: bool, child_waits: bool) -> bool:
    """Take up what the run asked, and record whether it is blocked now; True if a file must be looked at again."""
    task, unsettled = files.take(work.store, work.store.task(task_id), work.by)
    files.ring_again(work.store, task)
    run = task.current_run
    if run is None or run.has_ended:
        return unsettled
    blocked = is_blocked(work, task, run, quiet=quiet, child_waits=child_waits)
    if blocked != (run.waiting is not None):
        with work.store.lock(task_id, work.by) as locked:
            now = locked.task.run(run.id)
            if now is not None and not now.has_ended and blocked != (now.waiting is not None):
                locked.append((RunBlocked if blocked else RunUnblocked)(run=run.id))
    return unsettled


def is_blocked(work: Actor, task: Task, run: Run, *, quiet: bool, child_waits: bool) -> bool:
    """Known to be blocked, by any of the signs."""
    place = work.store.run_folder(task.id, run.id)
    if asks(place, task):
        return True
    if child_waits and waits_for_task(place):
        return True
    return quiet and has_file_question(task, run)


def may_park(work: Actor, task_id: str) -> bool:
    """Whether the run is still blocked for want of an answer: one that waits for a child, or works on, is not ended."""
    task = work.store.task(task_id)
    run = task.current_run
    if run is None or run.waiting is None or not task.open_questions:
        return False
    place = work.store.run_folder(task_id, run.id)
    return asks(place, task) or has_file_question(task, run)


def _is_open(task: Task, number: str) -> bool:
    return number.isdigit() and any(q.seq == int(number) for q in task.open_questions)


def _age(path: str) -> float:
    try:
        return time.monotonic() - float(read_file(path) or b"-inf")
    except ValueError:
        return float("inf")
