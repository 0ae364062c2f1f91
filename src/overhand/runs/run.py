"""One run from its first event to its end: create, start, adopt, settle, stop. Judging is in finish.py."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from overhand.agents import UNANSWERED, find_driver, lookup
from overhand.errors import PASSING, Busy, OverhandError, Refused, StorageFailed, StorageUnavailable, storage_failed
from overhand.items import claim_tag, sync_locked_tag
from overhand.policy import Actor
from overhand.record import (
    ABSENT,
    Judged,
    LockedTask,
    Notice,
    RunCreated,
    RunEnded,
    RunNeverBegan,
    RunStarted,
    StopRequested,
    Store,
    new_run_id,
    open_tasks,
)
from overhand.runs import prepare, prompt, spending
from overhand.runs.prompt import RUN_MARKER
from overhand.system import (
    Probe,
    boot_id,
    exit_code,
    lives,
    living_leftovers,
    lock_holder,
    machine_id,
    names_in,
    outside_runs,
    pid_namespace,
    probe_process,
    read_file,
    shim_pid,
    start_detached,
    stop_detached,
    write_file,
    write_new,
)
from overhand.words import is_run_id

if TYPE_CHECKING:
    from typing import Any, Literal

    from overhand.agents import Agent
    from overhand.record import Run, Task
    from overhand.words import Cause, Status

    Liveness = Literal["alive", "ended", "never-began", "elsewhere"]
    from overhand.policy import Actor
    from overhand.record import LockedTask, Store

_DIAGNOSE = "Look for the cause: overhand doctor"
_POLL = 3.0  # seconds in which a question to a service elsewhere may end after the process that asked it


def claim_run(locked: LockedTask, agent: Agent, timeout: float, shield: dict[str, Any] | None = None) -> str | None:
    """Record a new run, if the task is queued and no run holds it; exactly one caller ever gets it.

    The tag of an item is claimed before anything starts; an approval that was withdrawn by changing it counts first.
    """
    if locked.task.item:
        sync_locked_tag(locked)
    if not locked.task.queued or locked.task.stop or locked.task.current_run:
        return None
    run_id = new_run_id()
    event = run_created(run_id, agent.name, agent.driver, timeout, control=agent.control)
    event = event.replace(shield=shield) if shield else event
    if waiting := [message.n for message in locked.task.pending_messages]:
        event = event.replace(messages=waiting)  # they are handed over if the run begins, and only then
    locked.append(event)
    if locked.task.item and not claim_tag(locked, run_id):
        return None
    return run_id


def _put_off(actor: Actor, task_id: str, error: StorageUnavailable) -> None:
    """A notice, once, of why a run can't be prepared now; the caller retries."""
    text = f"It starts later: {error.message}"[:1000]
    with actor.store.lock(task_id, actor.by) as locked:
        if text not in locked.task.notices:
            locked.append(Notice(text=text))


def run_created(run_id: str, agent: str, driver_name: str, timeout: float, *, control: bool = False) -> RunCreated:
    return RunCreated(
        run=run_id,
        agent=agent,
        driver=driver_name,
        timeout=timeout,
        machine=machine_id(),
        pidns=pid_namespace(),
        control=control or ABSENT,
    )


def start_run(actor: Actor, task_id: str) -> bool:
    """Start a queued task's next run, detached; False if another process did or it is no longer wanted."""
    task = actor.store.recorded(task_id)
    try:
        prepared = prepare.prepare(actor, task)
        builder = find_driver(prepared.agent.driver)
        prepared = replace(prepared, allowance=spending.reserve_budget(actor, task))
    except Busy:
        raise  # another process holds a log for a moment: the caller retries
    except StorageUnavailable as error:
        _put_off(actor, task_id, error)
        raise
    except OverhandError as error:
        reject_task(actor, task_id, error)
        return False
    except Exception as error:
        if isinstance(error, OSError) and error.errno in PASSING:
            raise storage_failed(error, "Cannot prepare the run") from error
        # whatever it is, trying again and again would not mend it
        reject_task(actor, task_id, OverhandError(f"It cannot be prepared: {type(error).__name__}: {error}", _DIAGNOSE))
        return False
    with actor.store.lock(task_id, actor.by) as locked:
        run_id = claim_run(locked, prepared.agent, task.timeout, prepared.shield.facts)
        if run_id is None:
            return False
        prepare.archive_last_run(locked)
        place = actor.store.run_folder(task_id, run_id)
        try:
            job = prepare.lay_out_run(actor, locked, run_id, prepared)
            launch = builder.launch(prepared.agent, job)
            for _, name, text in launch.files:
                write_new(f"{place}/{name}", text)
            shim = start_detached(
                place,
                launch.argv if builder.bridges else (*job.enter, *launch.argv),
                cwd=locked.task.workplace(actor.store.root),
                env={
                    **outside_runs(actor.env),
                    **prompt.run_environment(actor.store, locked.task, run_id, prepared.allowance),
                    **launch.env,
                    **{variable: f"{place}/{name}" for variable, name, _ in launch.files},
                },
                stdin=f"{place}/prompt.md" if launch.prompt_on_stdin else os.devnull,
            )
        except Exception as error:  # noqa: BLE001 -- the run is recorded already: it ends with the reason
            _never_started(locked, run_id, place, error)
            return False
        locked.append(RunStarted(run=run_id, shim=shim))
    return True


def _never_started(locked: LockedTask, run_id: str, place: str, error: Exception) -> None:
    """Nothing was spawned: end the run with the reason, so that it isn't started again."""
    if isinstance(error, OSError):
        error = storage_failed(error, "Cannot start the agent")
    elif not isinstance(error, OverhandError):
        error = OverhandError(f"Cannot start the agent: {type(error).__name__}: {error}", _DIAGNOSE)
    try:
        os.makedirs(place, exist_ok=True)
        write_file(f"{place}/stderr", f"{error.message}\n{error.hint}\n")
    except (OSError, Refused):
        pass  # the reason is in the event as well
    locked.append(RunEnded(run=run_id, cause="error", why=error.message[:1000]))


def adopt(actor: Actor, task_id: str) -> Liveness:
    """Find out whether the task's current run is alive, and record what a crash left unrecorded.

    The run's `life` decides, never a pid. A run that is alive but was never recorded as started gets its `run.started`;
    a dead one is ended with its cause; one that never began is queued again without using up an attempt.
    """
    return _settled(actor, task_id)[1]


def settle_run(actor: Actor, task_id: str, *, cause: Cause | None = None) -> Task:
    """Adopt the current run and return the task as it is recorded then; `cause` says why a dead one was ended."""
    return _settled(actor, task_id, cause)[0]


def _settled(actor: Actor, task_id: str, cause: Cause | None = None) -> tuple[Task, Liveness]:
    """Settle under the task's lock; a stop that another process began is finished first, without the lock."""
    with actor.store.lock(task_id, actor.by) as locked:
        run = locked.task.current_run
        place = actor.store.run_folder(task_id, run.id) if run else ""
        ours = run is not None and not (run.has_ended or run.attached or run.is_plan_run) and same_pid_world(run)
        if cause is not None or not ours or not is_half_stopped(place):
            found = _settle(actor, locked, cause)
            return locked.task, found
    why = stop_cause(place)
    left = end_members(actor, place, why or "cancelled", 0.0)
    with actor.store.lock(task_id, actor.by) as locked:
        found = _settle(actor, locked, why)
        if left:
            tell_left(locked, left)
        return locked.task, found


def _settle(actor: Actor, locked: LockedTask, cause: Cause | None = None) -> Liveness:
    run = locked.task.current_run
    if run is None or run.has_ended:
        return "ended"
    if run.machine not in ("", machine_id()):
        return "elsewhere"
    if run.is_plan_run:
        return "alive"  # until it is judged
    place = actor.store.run_folder(locked.task_id, run.id)
    if run.life:
        found = Probe("alive" if actor.store.is_alive(locked.task_id, run) else "lost")
    else:
        found = probe_process(place)
    if found.what == "alive":
        if run.state == "starting" and (shim := shim_pid(place)):
            locked.append(RunStarted(run=run.id, shim=shim))
        return "alive"
    folder_is_gone = run.state == "running" and not os.path.exists(f"{place}/life")
    if found.what == "unbegun" and (run.attached or folder_is_gone):
        found = Probe("lost")  # a function begins before it is recorded, and a removed run may have begun
    if found.what == "unbegun":
        locked.append(RunNeverBegan(run=run.id))
        return "never-began"
    ended = ending(actor.store, locked.task, run, found, cause, actor.spare)
    if _goes_on(locked, run, ended):
        locked.append(RunNeverBegan(run=run.id, why="its job goes on"))
        return "never-began"
    locked.append(ended)
    return "ended"


def _goes_on(locked: LockedTask, run: Run, ended: RunEnded) -> bool:
    """A job elsewhere outlives the process that waited for it: the next run continues with it, and nothing is spent."""
    if ended.cause not in ("lost", "killed") or ended.leftovers:
        return False
    driver = lookup(run.driver)
    return driver is not None and driver.open_job is not None and driver.open_job(locked.record) is not None


def ending(store: Store, task: Task, run: Run, found: Probe, cause: Cause | None, spare: frozenset[int]) -> RunEnded:
    """The event that ends a run: how, with which code, and which processes were left behind."""
    place = store.run_folder(task.id, run.id)
    requested: Cause | None = "cancelled" if task.stop else None
    why = cause or stop_cause(place) or requested
    driver = lookup(run.driver)
    if why is None and driver and driver.parks_itself and store.desk_files(task.id, run.id).exists(UNANSWERED):
        why = "answer-timeout"
    if why is None:
        why = "lost" if found.what == "lost" else "killed" if (found.exit or 0) > 128 else "exit"
    patience = _POLL if driver and driver.open_job else 0.0  # its process only waits for a job elsewhere
    left = living_leftovers(place, f"{RUN_MARKER}={run.id}", spare, patience) if same_pid_world(run) else []
    return RunEnded(run=run.id, cause=why, exit=found.exit, leftovers=left[:50] or ABSENT)


def living_members(store: Store, task: Task, spare: frozenset[int] = frozenset()) -> dict[str, list[int]]:
    """Processes of ended runs that are still there, by run; a shim itself may stay for a supervisor below it."""
    found = {
        run.id: living_leftovers(store.run_folder(task.id, run.id), f"{RUN_MARKER}={run.id}", spare)
        for run in task.runs
        if not run.attached and run.has_ended and same_pid_world(run)
    }
    return {run_id: pids for run_id, pids in found.items() if pids}


def stop_children(actor: Actor, task: Task) -> list[str]:
    """Ask what a stopped or timed-out run delegated to stop as well; returns the tasks that were asked just now."""
    ended = task.last_run
    if ended is None or not ended.has_ended:
        return []
    why = stop_cause(actor.store.run_folder(task.id, ended.id))
    was_stopped = ended.cause in ("cancelled", "timeout", "budget") or why not in (None, "answer-timeout")
    if not was_stopped and task.escalation(ended.id) is None:
        return []  # it ended by itself: its children continue
    asked = []
    for child in open_tasks(actor.store.children(ended.id)):
        if not child.stop:
            with actor.store.lock(child.id, actor.by) as locked:
                if locked.task.queued or locked.task.current_run:
                    locked.append(StopRequested(why="its parent ended"))
                    asked.append(child.id)
    return asked


def same_pid_world(run: Run) -> bool:
    """Whether pids recorded by this run mean anything here."""
    return run.boot == boot_id() and run.pidns in ("", pid_namespace())


def stop_run(actor: Actor, task_id: str, cause: Cause, grace: float) -> Task:
    """End a live run's processes, then record its end: whatever keeps us from recording it, they are ended."""
    task = actor.store.recorded(task_id)
    run = task.current_run
    if run is None or run.has_ended:
        return task
    place = actor.store.run_folder(task_id, run.id)
    if run.attached:  # a function in a caller's Python process can't be ended from outside: its result is refused
        with actor.store.lock(task_id, actor.by) as locked:
            now = locked.task.run(run.id)
            if now and not now.has_ended:
                locked.append(RunEnded(run=run.id, cause=cause, exit=None))
            return locked.task
    if not same_pid_world(run):
        return settle_run(actor, task_id)
    left = end_members(actor, place, cause, grace)
    task = settle_run(actor, task_id, cause=cause)
    if left:
        with actor.store.lock(task_id, actor.by) as locked:
            tell_left(locked, left)
            task = locked.task
        if task.current_run and not task.current_run.has_ended:
            raise Refused(f"{COULD_NOT_END}{', '.join(map(str, left))}.")  # the supervisor tries again
    return task


def reject_task(actor: Actor, task_id: str, error: OverhandError) -> None:
    """Refused before it started: the task keeps the reason."""
    with actor.store.lock(task_id, actor.by) as locked:
        waiting = locked.task.status is None and not locked.task.runs  # a function is not queued before it begins
        if locked.task.queued or waiting:
            summary = f"{error.message} {error.hint}".strip()
            locked.append(Judged(run=None, status="rejected", code=error.code, summary=summary[:1500]), sync=True)


def cancel_queued(actor: Actor, task_id: str, why: str, status: Status = "cancelled") -> bool:
    """Take a task that has no run yet out of the queue."""
    with actor.store.lock(task_id, actor.by) as locked:
        if not locked.task.queued:
            return False
        locked.append(Judged(run=None, status=status, summary=why), sync=True)
        return True


COULD_NOT_END = "Processes could not be ended: "


def end_members(actor: Actor, place: str, cause: Cause | None, grace: float) -> list[int]:
    """End every process of a run, after writing down why if that is possible; returns those that could not be ended.

    Without a cause the run has ended already, and these are what it left behind.
    """
    if cause is not None:
        note_cause(place, cause)
    return stop_detached(place, _marker(place), grace=grace, spare=spared(actor.store, actor.spare))


def note_cause(place: str, cause: Cause) -> None:
    """Record why we end it, before the first signal: a successor must know that it wasn't the agent's own end.

    On a full disk an empty file can still be made: then its name says it.
    """
    if stop_cause(place) is not None:
        return
    try:
        write_file(f"{place}/stopped", f"{cause}\n")
    except OverhandError:
        for name in (f"stopped-{cause}", "stopped"):
            try:
                os.close(os.open(f"{place}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))
            except OSError:
                return  # nothing can be written here: the signals are sent all the same


def stop_cause(place: str) -> Cause | None:
    """Why we ended it, or began to."""
    if raw := read_file(f"{place}/stopped"):
        return cast("Cause", raw.decode("ascii", "replace").strip())  # only we write this file
    named = [name for name in names_in(place) if name.startswith("stopped-")]
    return cast("Cause", named[0].removeprefix("stopped-")) if named else None


def is_half_stopped(place: str) -> bool:
    """Whether a stop was begun and the agent has ended: what began it may have died before all members were ended."""
    return stop_cause(place) is not None and (exit_code(place) is not None or not lives(place))


def living_runs(store: Store, task_id: str) -> list[str]:
    """The folders of a task's detached runs that are alive, or may be, whatever its log says."""
    runs = f"{store.record(task_id)}/runs"
    places = [f"{runs}/{name}" for name in sorted(names_in(runs)) if is_run_id(name)]
    # a run in the process of its caller, which must not be ended, has no shim and so no `start`
    return [place for place in places if os.path.exists(f"{place}/start") and _may_live(place)]


def _may_live(place: str) -> bool:
    try:
        return lives(place)
    except StorageFailed:
        return True  # only its processes can tell


def still_alive(store: Store, place: str) -> list[int]:
    """The processes of a run that are there now."""
    return living_leftovers(place, _marker(place), spared(store))


def spared(store: Store, also: frozenset[int] = frozenset()) -> frozenset[int]:
    """The supervisor may descend from a run; it never belongs to it."""
    return also | frozenset(filter(None, [lock_holder(f"{store.own}/lock")]))


def tell_left(locked: LockedTask, left: list[int]) -> None:
    """A notice of the processes that could not be ended, once."""
    text = COULD_NOT_END + ", ".join(map(str, left[:50]))
    if text not in locked.task.notices:
        locked.append(Notice(text=text))


def _marker(place: str) -> str:
    return f"{RUN_MARKER}={os.path.basename(place)}"
