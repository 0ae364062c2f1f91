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

if TYPE_CHECKING:
    from typing import Literal

    from overhand.policy import Actor
    from overhand.record import Run, Task
    from overhand.system import Beneath

    Places = tuple[Beneath, ...]  # of the run: its desk, and its folder in the record
    Blocker = Literal["ask", "child", "file"]

AGAIN = 30.0  # seconds within which an agent should call again after `ask` asked it to
QUIET_SECONDS = 5.0  # seconds without a sign of life after which a run counts as waiting for its question in a file

_FEW = 100  # bytes of such a mark
_FOR_ANSWER, _FOR_TASK = ("ask-",), tuple("0123456789")  # how the names of waiting marks begin


def why_blocked(places: Places, task: Task, run: Run, *, quiet: bool, child_waits: bool) -> Blocker | None:
    """What the run is known to wait for; `quiet`: it shows no sign of life, `child_waits`: all it delegated waits."""
    if is_asking(places, task):
        return "ask"
    if child_waits and _has_mark(places, _FOR_TASK):
        return "child"
    return "file" if quiet and files.has_file_question(task, run) else None


def has_waiting_process(places: Places) -> bool:
    """Whether one of its processes still waits for an answer or a task; cheap."""
    return _has_mark(places, (*_FOR_ANSWER, *_FOR_TASK))


def update_blocked(actor: Actor, task_id: str, *, quiet: bool, child_waits: bool) -> bool:
    """Take in what the run asked, and record whether it is blocked now; True if a file must be looked at again."""
    taken = files.take_in_files(actor.store, actor.store.recorded(task_id), actor.by)
    task, run = taken.task, taken.task.current_run
    files.redeliver(actor.store, task)
    if run is not None and not run.has_ended:
        places = actor.store.run_folders(task_id, run.id).both
        blocker = why_blocked(places, task, run, quiet=quiet, child_waits=child_waits)
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
    task = actor.store.recorded(task_id)
    run = task.current_run
    if run is None or run.waiting is None or not task.open_questions:
        return False
    places = actor.store.run_folders(task_id, run.id).both
    return why_blocked(places, task, run, quiet=True, child_waits=False) is not None


def is_asking(places: Places, task: Task) -> bool:
    """Whether one of its processes waits in `ask`, or is about to call again."""
    if _has_mark(places, _FOR_ANSWER):
        return True
    # only now: a call leaves its mark before it releases its lock
    again = [f"again-{question.seq}" for question in task.open_questions]
    for place in places:
        with place.at("waiting").held() as marks:
            if any(-1 < _age(marks.read(name, _FEW)) < AGAIN for name in again):  # it is written rounded
                return True
    return False


def _has_mark(places: Places, prefixes: tuple[str, ...]) -> bool:
    """Whether a process holds one of the run's waiting marks whose names begin so."""
    for place in places:
        with place.at("waiting").held() as marks:
            if any(name.startswith(prefixes) and marks.is_locked(name) for name in marks.names()):
                return True
    return False


def _age(written: bytes | None) -> float:
    """The seconds since a call asked to be called again."""
    try:
        return time.monotonic() - float(written or b"-inf")
    except ValueError:
        return float("inf")
