"""Runs that wait: whether one is known to be blocked, and what is recorded of it.

A run is known to be blocked while one of its processes waits in `overhand ask` (a lock says so), for half a minute
after such a call asked it to call again, while it shows no sign of life after a question in a file, or while it waits
for a task of its own that is blocked itself. While that lasts its clock stands still and it holds no slot.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from overhand.questions import files
from overhand.record import RunBlocked, RunUnblocked
from overhand.system import is_held, names_in, read_file

if TYPE_CHECKING:
    from typing import Literal

    from overhand.policy import Actor
    from overhand.record import Run, Task

    Blocker = Literal["ask", "child", "file"]

AGAIN = 30.0  # seconds within which an agent should call again after `ask` asked it to
QUIET_SECONDS = 5.0  # seconds without a sign of life after which a run counts as waiting for its question in a file

_FOR_ANSWER, _FOR_TASK = ("ask-",), tuple("0123456789")  # how the names of waiting marks begin


def why_blocked(place: str, task: Task, run: Run, *, quiet: bool, child_waits: bool) -> Blocker | None:
    """What the run is known to wait for; `quiet`: it shows no sign of life, `child_waits`: all it delegated waits."""
    if is_asking(place, task):
        return "ask"
    if child_waits and _has_mark(place, _FOR_TASK):
        return "child"
    return "file" if quiet and files.has_file_question(task, run) else None


def has_waiting_process(place: str) -> bool:
    """Whether one of its processes still waits for an answer or a task; cheap."""
    return _has_mark(place, (*_FOR_ANSWER, *_FOR_TASK))


def update_blocked(actor: Actor, task_id: str, *, quiet: bool, child_waits: bool) -> bool:
    """Take in what the run asked, and record whether it is blocked now; True if a file must be looked at again."""
    taken = files.take_in_files(actor.store, actor.store.task(task_id), actor.by)
    task, run = taken.task, taken.task.current_run
    files.redeliver(actor.store, task)
    if run is not None and not run.has_ended:
        desk = actor.store.desk(task_id, run.id)
        blocker = why_blocked(desk, task, run, quiet=quiet, child_waits=child_waits)
        if (blocker is not None) != (run.waiting is not None):
            record_blocked(actor, task_id, run.id, is_blocked=blocker is not None)
    return taken.unfinished


def record_blocked(actor: Actor, task_id: str, run_id: str, *, is_blocked: bool) -> None:
    """Record that a run is blocked from now on, or no longer, unless that is recorded already."""
    with actor.store.lock(task_id, actor.by) as locked:
        run = locked.task.run(run_id)
        if run is not None and not run.has_ended and is_blocked != (run.waiting is not None):
            locked.append((RunBlocked if is_blocked else RunUnblocked)(run=run_id))


def may_park(actor: Actor, task_id: str) -> bool:
    """Whether the run is still blocked for want of an answer: one that waits for a child, or works on, is not ended."""
    task = actor.store.task(task_id)
    run = task.current_run
    if run is None or run.waiting is None or not task.open_questions:
        return False
    desk = actor.store.desk(task_id, run.id)
    return why_blocked(desk, task, run, quiet=True, child_waits=False) is not None


def is_asking(place: str, task: Task) -> bool:
    """Whether one of its processes waits in `ask`, or is about to call again."""
    if _has_mark(place, _FOR_ANSWER):
        return True
    # only now: a call leaves its mark before it releases its lock
    folder = f"{place}/waiting"
    marks = {f"again-{question.seq}" for question in task.open_questions}.intersection(names_in(folder))
    return any(_age(f"{folder}/{name}") < AGAIN for name in marks)


def _has_mark(place: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a process holds one of the run's waiting marks whose names begin so."""
    folder = f"{place}/waiting"
    return any(name.startswith(prefixes) and is_held(f"{folder}/{name}") for name in names_in(folder))


def _age(path: str) -> float:
    try:
        return time.monotonic() - float(read_file(path) or b"-inf")
    except ValueError:
        return float("inf")
