"""The supervisor's ear: questions and CONTROL lines of live runs, runs that are blocked, and when they are parked."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from overhand.errors import OverhandError
from overhand.questions import blocked as parking
from overhand.record import log, model
from overhand.runs import control, run
from overhand.supervisor import meter, plans
from overhand.system import detached
from overhand.system.files import size_of

if TYPE_CHECKING:
    from overhand.record.task import Task
    from overhand.supervisor.loop import Supervisor
    from overhand.supervisor.watches import Watch

_ATTEND_EVERY = 5.0  # seconds between looks at a run that waits, should nothing wake us
_HEAR_AGAIN = 1.0  # the same, of one that is heard
_SIZE_EVERY = 3.0
_SETTLED = 30.0  # seconds after which a run that is blocked is no longer looked at for whom it has started
_HEAR_EVERY = 0.05  # seconds between looks at a stream in which CONTROL lines are heard


def watch(boss: Supervisor, task: Task) -> None:
    """A run that is not recorded as ended: see whether it lives, and keep an eye on it."""
    task_id, current = task.id, task.current_run
    if current is None:
        return
    place = boss.store.run_folder(task_id, current.id)
    if detached.exit_code(place) is not None or not detached.lives(place):
        boss.watches.drop(task_id)
        boss.jobs.start(task_id, lambda: boss.close(task_id))
        return
    limits = meter.limits(boss, task)
    # first of all: what a killed shim left is known to nobody else, and whoever stops the run must find it
    boss.watches.keep(task_id, current, place, limits if limits is not boss.config else None)
    if task.stop:
        grace = 0.0 if task.stop == "now" else limits.stop_grace
        boss.jobs.start(task_id, lambda: boss.end(task_id, "cancelled", grace), waits=True)
        return
    if control.escalation(task, current.id):
        boss.jobs.start(task_id, partial(boss.end, task_id, "exit", limits.stop_grace), waits=True)
        return
    known = boss.watches.live[task_id]
    if known.pidfd is None and detached.exit_code(place) is not None:  # it ended before we could listen
        boss.watches.drop(task_id)
        boss.jobs.start(task_id, lambda: boss.close(task_id))
        return
    if current.state == "starting" and known.pidfd is not None:  # who started it was killed before it said so
        boss.jobs.start(task_id, partial(run.settle, boss.work(task_id), task_id))
        return
    stir_parent(boss, task)
    known.asked = parking.has_file_question(task, current)
    known.park_at = float("inf")
    if known.waiting is not None and limits.answer_wait and task.open_questions:
        known.park_at = known.waiting + limits.answer_wait
    meter.look(boss, task_id, known)


def stirred(boss: Supervisor) -> None:
    """Something appeared in the folders of these runs."""
    now = time.monotonic()
    for task_id in boss.watches.stirred():
        known = boss.watches.live.get(task_id)
        if known is None or meter.look(boss, task_id, known):
            continue
        if task_id not in boss.jobs.busy and boss.watches.has_talk(known):
            known.stirred = False  # whether it ended is told by its shim, or seen at the next look
            attend(boss, task_id, known, now)


def is_due(known: Watch, now: float) -> bool:
    """Whether a run that waits must be looked at, although nothing woke us; there may be hundreds that wait on."""
    if known.hearing is not None:
        blocked = known.asked or known.waiting is not None or known.hearing.listener.waiting
        return blocked and now - known.attended >= _HEAR_AGAIN
    if not (known.asked or known.waiting is not None) or now - known.attended < _ATTEND_EVERY:
        return False
    if not has_news(known) and known.attended and not known.asked and parking.waits_on(known.place):
        known.attended = now + _ATTEND_EVERY  # a lock says so: nothing else need be looked at, and less often
        return False
    return True


def has_news(known: Watch) -> bool:
    """Whether something was recorded of its task since the last look, an answer perhaps by one who was killed then."""
    before, known.logged = known.logged, size_of(f"{known.place}/../../{log.LOG}")
    return known.logged != before


def attend(boss: Supervisor, task_id: str, known: Watch, now: float) -> None:
    """It may have asked something, or be blocked, or no longer be."""
    if known.hearing is not None and now - known.attended < _HEAR_EVERY:
        known.stirred = True  # it prints a lot: with the next look
        return
    known.attended = now
    quiet = known.asked and boss.watches.is_quiet(known, now, parking.QUIET)
    child_waits = not any(works(boss, s) for s in children(boss, known.run)) and not plans.works_for(boss, known.run)
    work = boss.work(task_id)

    def do() -> None:
        if known.hearing is not None:
            control.hear(work, task_id, known.hearing)
        if parking.attend(work, task_id, quiet=quiet, child_waits=child_waits):
            known.attended = 0.0  # a file was half-written: soon again
            known.stirred = True

    boss.jobs.start(task_id, do)


def children(boss: Supervisor, run_id: str) -> list[Task]:
    """Tasks at work or queued that this run delegated."""
    at_work = (*boss.slots.values(), *boss.queue.values())
    return [s for s in at_work if s.parent and s.parent.run == run_id]


def stir_parent(boss: Supervisor, task: Task) -> None:
    """Whoever waits for this task may be blocked by it now, or no longer be."""
    parent = boss.watches.live.get(task.parent.task) if task.parent else None
    if parent is not None:
        parent.stirred = True


def works(boss: Supervisor, task: Task) -> bool:
    """Whether a child is doing something, so that its parent does not wait for a person."""
    known = boss.watches.live.get(task.id)
    return known is None or known.waiting is None


def park(boss: Supervisor, task_id: str, known: Watch, now: float) -> None:
    """Nobody answered: the run ends, the question stays open, and its answer will start the next run."""
    if known.asked and not boss.watches.is_quiet(known, now, 0.0):
        attend(boss, task_id, known, now)  # it has gone on to work since the last look
        return
    work, grace = boss.work(task_id), (known.own or boss.config).stop_grace

    def do() -> None:
        if parking.may_park(work, task_id):
            run.stop(work, task_id, "answer-timeout", grace)

    boss.jobs.start(task_id, do)


def note(boss: Supervisor, task_id: str, known: Watch, now: float) -> None:
    """A run without any sign of life for long is told of, once."""
    stall = (known.own or boss.config).stall
    if known.waiting is not None and now - known.began > _SETTLED:
        known.sign = now  # why it is silent is known
        known.note_at = (now // _SETTLED + 2) * _SETTLED  # all of them at the same time: each would wake us
        return
    silent = boss.watches.note(known, now, stall)
    if stall and silent > stall and not known.stalled:
        known.stalled = True
        notice(boss, task_id, f"No sign of life for {model.say_duration(silent)}: no output, no CPU.")


def examine(boss: Supervisor, task_id: str, known: Watch, now: float) -> None:
    """One live run: has it ended, does it flood? There may be hundreds, so mostly one look at its folder."""
    touched = boss.watches.touched(known)
    if touched or known.pidfd is None:
        if detached.exit_code(known.place) is not None or (known.pidfd is None and not detached.lives(known.place)):
            boss.look(task_id)
            return
        boss.watches.watch_shim(task_id, known)
    if (touched or not known.folders) and meter.look(boss, task_id, known):
        return
    if (touched and boss.watches.has_talk(known)) or is_due(known, now):
        attend(boss, task_id, known, now)
        return
    if not touched and now - known.sized < _SIZE_EVERY * (1 if known.waiting is None else 4):
        return
    known.sized = now
    size = sum(size_of(f"{known.place}/{name}") for name in ("stdout", "stderr"))
    most = (known.own or boss.config).max_output
    if size > most:
        boss.jobs.start(task_id, lambda: stop_flood(boss, task_id, most))
    if size != known.size:
        known.size, known.sign = size, now


def notice(boss: Supervisor, task_id: str, text: str) -> None:
    """Leave a line for the person."""
    try:
        with boss.store.locked(task_id, boss.work(task_id).by, patience=0.5) as locked:
            locked.append({"e": "notice", "text": text})
    except OverhandError as error:
        boss.say(f"{task_id}: {text} ({error})")


def open_window(boss: Supervisor, task_id: str) -> None:
    """A window for a run of an item, if the settings ask for one; whatever becomes of it, the run goes on."""
    task = boss.store.state(task_id)
    if task.item is None or not meter.limits(boss, task).watch_in_tmux:
        return
    env = boss.work(task_id).env  # it is forgotten with the run, which may be over before a thread comes to this

    def do() -> None:
        from overhand.supervisor.tmux import watch_in_tmux

        try:
            watch_in_tmux(boss.store.root, task, env)
        except OverhandError as error:
            boss.say(f"{task_id}: {error.message}")

    boss.jobs.pool.submit(do)  # beside the task's own job: tmux may take its time


def stop_flood(boss: Supervisor, task_id: str, most: int) -> None:
    """An agent that prints without end is stopped; what it printed stays."""
    notice(boss, task_id, f"It printed more than {most} bytes and was stopped.")
    boss.end(task_id, "error", 0.0)
