"""A verb brings the record of the task it touches up to date, and makes sure that a supervisor does the rest."""

from __future__ import annotations

import os

from overhand.errors import Refused
from overhand.questions import has_unread_files, take_in_files
from overhand.system import is_held, machine_id
from overhand.verbs.verb import PATIENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record import Task
    from overhand.verbs.verb import Session


def looks_dead(session: Session, task: Task) -> bool:
    """Whether a run that is not recorded as judged is over: its exit is written, or its lock is free."""
    run = task.current_run
    if run is None or run.machine not in ("", machine_id()):
        return False
    if run.has_ended:
        return True
    if run.is_plan_run:
        return False  # it lives until it is judged: any supervisor can carry it on
    from overhand.system import exit_code, lives

    place = session.store.run_folder(task.id, run.id)
    return exit_code(place) is not None or not lives(place)


def refresh_task(session: Session, task: Task) -> Task:
    """Settle and, where that is quick, judge a run that is over; record what a live one asked; see that a supervisor
    does the rest."""
    task = _settle(session, task) if looks_dead(session, task) else _take_questions(session, task)
    if task.item:
        task = _show_tag(session, task)
    # another process than the supervisor may execute a plan
    executed = task.is_plan and not task.queued and is_held(f"{session.store.folder(task.id)}/plan.lock")
    if needs_supervisor(task) and not executed:
        from overhand.supervisor import hand_to_supervisor, running_supervisor, wake_supervisor

        if running_supervisor(session.store) is None:
            hand_to_supervisor(session.store, [task.id])
        elif task.resume if task.queued else task.is_plan:
            # the process that answered may have died before it woke the supervisor, or the one that executed a plan
            wake_supervisor(session.store, [task.id])
    return task


def _show_tag(session: Session, task: Task) -> Task:
    """Write the tag of its item, in case the process that recorded the change was killed; not if the file is busy."""
    from overhand.items import is_tag_behind, sync_tag
    from overhand.policy import find_caller

    try:
        by = find_caller(session.store).by(session.via)
        return sync_tag(session.store, by, task.id) if is_tag_behind(task) else task
    except Refused:
        return task


def _take_questions(session: Session, task: Task) -> Task:
    """Record questions that an agent wrote as files; a busy task is left as it is."""
    if not task.runs or task.status in ("completed", "cancelled", "rejected"):
        return task
    if not has_unread_files(session.store, task):
        return task
    from overhand.policy import find_caller

    try:
        return take_in_files(session.store, task, find_caller(session.store).by(session.via)).task
    except Refused:
        return task


def needs_supervisor(task: Task) -> bool:
    """Whether there is something left that only a supervisor does."""
    if task.queued or (task.item and task.tag is None and task.status is None):
        return True  # it waits to start, or its approval was cut short
    run = task.current_run
    return run is not None and not (run.attached and not run.has_ended)


def _settle(session: Session, task: Task) -> Task:
    """Wait for the running supervisor to do it; without one, do it here."""
    from overhand.supervisor import hand_to_supervisor, running_supervisor

    if running_supervisor(session.store) is not None:
        return _settled_by_supervisor(session, task)
    from overhand.policy import Actor, find_caller, load_config
    from overhand.runs import finish_run, report_to_parent, settle_run, stop_children, unjudged_run

    actor = Actor(
        session.store, load_config(session.root), find_caller(session.store).by(session.via), dict(os.environ)
    )
    task = settle_run(actor, task.id)
    if children := stop_children(actor, task):
        hand_to_supervisor(session.store, children)
    if unjudged_run(task) and not task.checks:
        task = finish_run(actor, task.id)
        if children := stop_children(actor, task):  # its last line may have called for a person
            hand_to_supervisor(session.store, children)
        if task.cause and (parent := report_to_parent(actor, task)):
            hand_to_supervisor(session.store, [parent])
    return task


def _settled_by_supervisor(session: Session, task: Task) -> Task:
    """Wait while a dead run still looks alive, which is only a moment; not for checks, which may take long."""
    import time

    from overhand.supervisor import hand_to_supervisor
    from overhand.system import deadline

    task_id = task.id
    with session.store.subscribe([task_id]) as bell:
        hand_to_supervisor(session.store, [task_id])
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
