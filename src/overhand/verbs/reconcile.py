"""A verb finds the truth about the task it touches, and makes sure that somebody carries on."""

from __future__ import annotations

import os

from overhand.errors import Refused
from overhand.questions import files
from overhand.system import lock, machine
from overhand.verbs import PATIENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record.task import Task
    from overhand.verbs import Session


def looks_dead(session: Session, task: Task) -> bool:
    """Whether a run that is not recorded as judged is over: its exit is written, or nobody holds its lock."""
    run = task.current_run
    if run is None or run.machine not in ("", machine.machine()):
        return False
    if run.has_ended:
        return True
    if run.is_plan_run:
        return False  # it lives until it is judged: whichever supervisor runs carries it
    from overhand.system import detached

    place = session.store.run_folder(task.id, run.id)
    return detached.exit_code(place) is not None or not detached.lives(place)


def refresh(session: Session, task: Task) -> Task:
    """Settle and, where that is quick, judge a run that is over; take up what a live one asked; see that a supervisor
    does the rest."""
    if looks_dead(session, task):
        task = _settle(session, task)
    elif _may_ask(task) and files.has_unread(session.store, task):
        task = _take_questions(session, task)
    if task.item:
        task = _show_tag(session, task)
    if needs_supervisor(task) and not _is_carried(session, task):
        from overhand.supervisor import client

        if client.running(session.store) is None:
            client.hand_over(session.store, [task.id])
        elif task.resume if task.queued else task.is_plan:
            # whoever answered may have died before it said so; and so may the program that carried a plan of its own
            client.wake(session.store, [task.id])
    return task


def _show_tag(session: Session, task: Task) -> Task:
    """The tag of its item follows the record, should whoever wrote that have been killed; unless the file is busy."""
    from overhand.items import sync
    from overhand.policy.caller import caller

    try:
        by = caller(session.store).by(session.via)
        return sync.show(session.store, by, task.id) if sync.owes(task) else task
    except Refused:
        return task


def _may_ask(task: Task) -> bool:
    """Whether a question of this task would still matter to anybody."""
    return bool(task.runs) and task.status not in ("completed", "cancelled", "rejected")


def _take_questions(session: Session, task: Task) -> Task:
    """What an agent asked by a file that nobody has recorded yet; who only looks is not held up by a busy task."""
    from overhand.policy.caller import caller

    try:
        return files.take_in(session.store, task, caller(session.store).by(session.via)).task
    except Refused:
        return task


def needs_supervisor(task: Task) -> bool:
    """Whether there is something left that only a supervisor does."""
    if task.queued or (task.item and task.tag is None and task.status is None):
        return True  # it waits to start, or its approval was cut short
    run = task.current_run
    return run is not None and not (run.attached and not run.has_ended)


def _is_carried(session: Session, task: Task) -> bool:
    """Whether a process carries this plan already: it need not be the supervisor."""
    if task.queued or not task.is_plan:
        return False
    return lock.is_held(f"{session.store.folder(task.id)}/plan.lock")


def _settle(session: Session, task: Task) -> Task:
    """A supervisor that is at work does it, and we wait for that; without one, we do it ourselves."""
    from overhand.supervisor import client

    if client.running(session.store) is not None:
        return _settled_by_supervisor(session, task)
    from overhand.policy import config
    from overhand.policy.actor import Actor
    from overhand.policy.caller import caller
    from overhand.runs import control, finish, run

    work = Actor(session.store, config.load(session.root), caller(session.store).by(session.via), dict(os.environ))
    task = run.settle(work, task.id)
    if children := run.stop_children(work, task):
        client.hand_over(session.store, children)
    if finish.unjudged(task) and not task.checks:
        task = finish.finish(work, task.id)
        if children := run.stop_children(work, task):  # its last words may have called for a person
            client.hand_over(session.store, children)
        if parent := control.report_to_parent(work, task):
            client.hand_over(session.store, [parent])
    return task


def _settled_by_supervisor(session: Session, task: Task) -> Task:
    """It is only a moment behind, in which a dead run would look alive; one that has more to do is not waited for."""
    import time

    from overhand.supervisor import client
    from overhand.system.bell import deadline

    task_id = task.id
    with session.store.subscribe([task_id]) as bell:
        client.hand_over(session.store, [task_id])
        until = deadline(session.patience)
        while looks_dead(session, task := session.store.task(task_id)):
            run = task.current_run
            if run and run.has_ended and task.checks:
                return task
            session.patience = max(0.0, until - time.monotonic())
            if not session.patience:
                return task
            bell.wait(session.patience)
    session.patience = PATIENCE
    return task
