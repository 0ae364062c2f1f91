"""The supervisor's plans: a plan's run lives as long as it is not judged, and is carried by whichever supervisor runs.

A plan takes no slot. What it does is a job of its own task, except that a node's end is told in the job that judged it:
the next node's task is there when that job is done.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from overhand.documents.contracts import validate_data
from overhand.errors import Busy, OverhandError, Refused, StorageFailed
from overhand.plans import task
from overhand.plans.executor import LOCK, Carrying, open_plan
from overhand.system import lock

if TYPE_CHECKING:
    from overhand.record.task import Task
    from overhand.supervisor.loop import Supervisor

_TRIES = 5  # of taking a plan up, before it is given up
_AGAIN = 5.0  # seconds until a plan that somebody else carries is looked at again


def look(boss: Supervisor, state: Task) -> None:
    """A plan that is not judged: carry it, or carry out what is new in its own log."""
    task_id, current = state.id, state.current_run
    if current is None:
        return
    known = boss.plans.get(task_id)
    if known is None and _is_elsewhere(boss, state):
        boss.later[task_id] = time.monotonic() + _AGAIN
        return
    size = boss.store.log_size(task_id)
    if known is not None and known.run_id == current.id and known.seen == size and not known.heard:
        return
    if known is not None:
        known.seen = size
    boss.jobs.start(task_id, partial(_carry, boss, task_id, current.id))


def _is_elsewhere(boss: Supervisor, state: Task) -> bool:
    """Whether a Python process carries it itself, with functions that only it has."""
    return lock.is_held(f"{boss.store.folder(state.id)}/{LOCK}")


def _carry(boss: Supervisor, task_id: str, run_id: str) -> None:
    """The plan's own job."""
    known = boss.plans.get(task_id)
    if known is not None and known.run_id != run_id:
        drop(boss, task_id)
        known = None
    if known is None:
        try:
            known = open_plan(boss.work(task_id), task_id, run_id, call=partial(call, boss, task_id))
        except Busy:
            boss.later[task_id] = time.monotonic() + _AGAIN
            return
        except StorageFailed:
            raise  # it may pass
        except Refused as error:  # what was accepted is not there any more: nobody can go on with it
            _give_up(boss, task_id, run_id, f"{error.message} {error.hint}".strip())
            return
        boss.plans[task_id] = known
        known.go_on()
        validate_data({}, {})  # what judges the first node is loaded while that is at work
    while known.heard:
        known.see(known.heard.popleft())
    known.look_at_plan(boss.store.state(task_id))
    boss.tries.pop(task_id, None)
    if known.over:
        drop(boss, task_id)


def trouble(boss: Supervisor, task_id: str, error: BaseException) -> None:
    """A job failed. What is on disk counts; a plan that nobody can take up from there comes to an end."""
    drop(boss, task_id)
    try:
        state = boss.store.state(task_id)
    except OverhandError:
        return
    current = state.current_run
    if current is None or not current.is_plan_run or isinstance(error, Busy | StorageFailed):
        return
    boss.tries[task_id] = boss.tries.get(task_id, 0) + 1
    if boss.tries[task_id] >= _TRIES or state.stop:
        told = str(error) if isinstance(error, OverhandError) else f"{type(error).__name__}: {error}"
        _give_up(boss, task_id, current.id, f"The plan cannot go on: {told}")


def _give_up(boss: Supervisor, task_id: str, run_id: str, why: str) -> None:
    boss.tries.pop(task_id, None)
    boss.called.extend(task.give_up(boss.work(task_id), task_id, run_id, why))


def gone(boss: Supervisor, task_id: str) -> None:
    """A task was removed: there is no more to do for it, but if it was a node's, its plan hears of it."""
    boss.forget(task_id)
    for known in list(boss.plans.values()):
        if task_id in known.tasks.values():
            known.heard.append(task_id)
            boss.jobs.start(known.task_id, partial(_carry, boss, known.task_id, known.run_id))


def call(boss: Supervisor, plan_id: str, task_id: str) -> None:
    """A node's task is new, or was asked to stop: it runs in the environment of its plan."""
    if plan_id in boss.envs:
        boss.envs[task_id] = boss.envs[plan_id]
    boss.called.append(task_id)
    boss.desk.ring()


def told(boss: Supervisor, child: Task) -> None:
    """A node's task was looked at: if that is news to its plan, it hears of it in its own job."""
    known = _plan_of(boss, child)
    if known is not None and not child.queued:
        known.held.discard(child.id)
    if known is not None and known.is_news(child):
        known.heard.append(child.id)
        boss.jobs.start(known.task_id, partial(_carry, boss, known.task_id, known.run_id))


def paused(boss: Supervisor, child: Task) -> None:
    """A node's task is queued behind its provider's limit: until it begins, its place in the plan is another's."""
    known = _plan_of(boss, child)
    if known is not None and child.id not in known.held:
        known.held.add(child.id)
        told(boss, child)


def ended(boss: Supervisor, child: Task) -> None:
    """A node's task was judged: its plan hears of it here and now, in the job that judged it."""
    known = _plan_of(boss, child)
    if known is None:
        return
    try:
        known.look(child)
    except BaseException:
        drop(boss, known.task_id)  # it is taken up again as it stands on disk
        boss.called.append(known.task_id)
        raise
    if known.over:
        boss.called.append(known.task_id)


def works_for(boss: Supervisor, run_id: str) -> bool:
    """Whether a plan that this run delegated is doing something, so that the run does not wait for a person."""
    plans = [
        known for known in list(boss.plans.values()) if (above := known.ground.state.parent) and above.run == run_id
    ]
    return any(known.works for known in plans)


def _plan_of(boss: Supervisor, child: Task) -> Carrying | None:
    return boss.plans.get(child.parent.task) if child.node and child.parent else None


def drop(boss: Supervisor, task_id: str) -> None:
    """Carry a plan no longer; what is on disk says how it stands."""
    known = boss.plans.pop(task_id, None)
    if known is not None:
        known.close()


def tick(boss: Supervisor) -> None:
    """Timers whose time has come."""
    now = time.time()
    for task_id, known in list(boss.plans.items()):
        if task_id not in boss.jobs.busy and any(at <= now for at in list(known.timers.values())):
            boss.jobs.start(task_id, partial(_carry, boss, task_id, known.run_id))


def examine(boss: Supervisor) -> None:
    """Whoever wrote something into a plan's log may have died before it told us."""
    for task_id, known in list(boss.plans.items()):
        if boss.store.log_size(task_id) != known.seen:
            boss.look(task_id)


def due(boss: Supervisor) -> float:
    """Seconds until the first timer; jobs take plans up and let them go meanwhile."""
    plans = list(boss.plans.values())
    first = min((at for known in plans for at in list(known.timers.values())), default=float("inf"))
    return max(0.0, first - time.time())
