"""`stop`, `run` and `clean`."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from overhand.agents import agent_files, default_agent, find_agent
from overhand.drafts import workspace_of
from overhand.errors import BadInput, Busy, NotAllowed, OverhandError, Refused, StorageFailed, TimedOut, storage_failed
from overhand.policy import (
    Config,
    config_of_task,
    find_caller,
    load_config,
    require_known,
    require_person,
    require_trusted,
)
from overhand.record import (
    ABSENT,
    Accepted,
    Dismissed,
    Judged,
    StopRequested,
    keep_environment,
    open_tasks,
    record_times,
)
from overhand.runs import RUN_MARKER, end_checks, living_members, living_runs, read_task_handoff, same_pid_world
from overhand.supervisor import hand_to_supervisor, running_supervisor
from overhand.system import deadline, epoch_of, random_text, stop_detached
from overhand.verbs.stop_anyway import StopAnyway
from overhand.verbs.tasks import refresh_task
from overhand.verbs.verb import Recorded, Reply, Session, about_task
from overhand.words import option_duration

_BEHIND = 3.0  # seconds that a supervisor may take to record the end of a dead run
_SURE = 2.0  # seconds after the grace in which processes that could not be ended may do so after all

if TYPE_CHECKING:
    from overhand.agents import Agent
    from overhand.policy import Caller
    from overhand.record import Task


def stop_tasks(session: Session, id: list[str] | None = None, all: bool = False, now: bool = False) -> Reply:
    """End tasks; returns when no process of their runs is left."""
    if not id and not all:
        raise BadInput("Stop what?", "Name a task: overhand stop 3, or all of them: overhand stop --all")
    caller = find_caller(session.store)
    anyway = StopAnyway(session)
    task_ids = _open_ids(session, anyway) if all else [session.store.resolve(handle) for handle in id or []]
    require_known(caller, "Stopping a task")
    for task_id in task_ids if not caller.is_person else []:
        parent = session.store.task(task_id).parent
        if not parent or parent.run != caller.run:
            raise Refused(f"Task {task_id} was not delegated by this run.", "Ask the person who started it.")
    task_ids = [*dict.fromkeys(t for task_id in task_ids for t in (task_id, *_awaited(anyway.task(task_id))))]
    graces = {task_id: 0.0 if now else _grace(session, anyway.task(task_id)) for task_id in task_ids}
    was = {
        task_id: anyway.attempt(task_id, partial(ask_to_stop, session, caller, task_id, now), grace)
        for task_id, grace in graces.items()
    }
    asked = [task_id for task_id, what in was.items() if what == "asked"]
    if unbegun := [t for t, what in was.items() if what == "queued" and session.store.task(t).cause]:
        session.hand_over(unbegun)  # the supervisor reports it to the run that delegated it
    _hand_over(session, anyway, {task_id: graces[task_id] for task_id in asked})
    _wait_until_ended(session, anyway, asked, max([graces[task_id] for task_id in asked], default=0.0))
    for task_id in task_ids:
        if (task := anyway.task(task_id)).item and task_id not in anyway.unrecorded:
            refresh_task(session, task)  # its tag shows that it was stopped
    rows = []
    for task in map(anyway.task, task_ids):
        end = {"status": task.status, "cause": task.last_run.cause if task.last_run else None}
        row: dict[str, Any] = {
            "task_id": task.id,
            "handle": task.handle,
            "was": was[task.id],
            **end,
            "headline": task.headline,
        }
        if left := anyway.left(task):
            row["left"] = left
        if task.id in anyway.unrecorded:
            row["problem"] = anyway.unrecorded[task.id]
        rows.append(row)
    failed = any("left" in row or "problem" in row for row in rows)
    return Reply({"schema": "overhand.stop/1", "tasks": rows}, int(failed))


def _open_ids(session: Session, anyway: StopAnyway) -> list[str]:
    """Every task that is queued or at work, and every one whose record can't be read."""
    tasks = sorted(map(anyway.task, session.store.ids()), key=lambda task: (task.handle or 0, task.id))
    broken = [task.id for task in tasks if task.id in anyway.unrecorded or task.damage]
    return [*(task.id for task in open_tasks(tasks) if task.id not in broken), *broken]


def _hand_over(session: Session, anyway: StopAnyway, graces: dict[str, float]) -> None:
    """Have the supervisor stop these; if none can be reached or started, end their processes from here."""
    try:
        if not graces or hand_to_supervisor(session.store, graces):
            return
    except (OverhandError, OSError) as error:
        why = storage_failed(error, "Cannot reach a supervisor") if isinstance(error, OSError) else error
        for task_id, grace in graces.items():
            anyway.not_handed_over(task_id, why, grace)
        return
    raise Refused(
        "The run is in another pid namespace and cannot be ended from here.", "Type the same outside this sandbox."
    )


def _grace(session: Session, task: Task) -> float:
    """How long its run may take to end by itself; broken settings must not prevent a stop."""
    try:
        return config_of_task(session.root, load_config(session.root), task.settings).stop_grace
    except OverhandError:
        return Config().stop_grace


def ask_to_stop(session: Session, caller: Caller, task_id: str, now: bool) -> str:
    """`asked`, or why there was nothing to ask."""
    task = refresh_task(session, session.store.task(task_id))
    with session.store.lock(task_id, caller.by(session.via)) as locked:
        task = locked.task
        current = task.current_run
        if task.queued or (task.created and task.status is None and not task.runs):
            locked.append(Judged(run=None, status="cancelled", summary="Stopped before it began."), sync=True)
            end_checks(session.store.record(task_id))
            return "queued"
        if current is None and (_awaited(task) or (task.status == "needs-input" and task.open_questions)):
            summary = f"Stopped while it waited for {'what it had delegated' if _awaited(task) else 'an answer'}."
            locked.append(Judged(run=None, status="cancelled", summary=summary), sync=True)
            _end_leftovers(session, task)
            return "waiting"
        if current is None:
            return _end_leftovers(session, task)
        locked.append(StopRequested(why="now" if now else "stopped"))
        being_checked = current.has_ended
    if being_checked:
        end_checks(session.store.record(task_id))
    return "asked"


def _awaited(task: Task) -> list[str]:
    """Tasks that a task delegated by CONTROL lines and waits for."""
    if task.status != "blocked" or not task.runs:
        return []
    return task.awaited_children(task.runs[-1].id)


def _end_leftovers(session: Session, task: Task) -> str:
    """A finished task may have left processes behind; `stop` ends those as well."""
    spare = _supervisor(session)
    places = [session.store.run_folder(task.id, run_id) for run_id in living_members(session.store, task, spare)]
    known = {run.id for run in task.runs}
    lost = [place for place in living_runs(session.store, task.id) if os.path.basename(place) not in known]
    for place in (*places, *lost):  # the lines of some may be missing in a damaged log
        stop_detached(place, f"{RUN_MARKER}={os.path.basename(place)}", grace=1.0, spare=spare)
    return "leftovers ended" if places or lost else "nothing ran"


def _supervisor(session: Session) -> frozenset[int]:
    """The supervisor may be a descendant of a run; it doesn't belong to it."""
    pid = running_supervisor(session.store)
    return frozenset({pid} if pid else ())


def _wait_until_ended(session: Session, anyway: StopAnyway, task_ids: list[str], grace: float) -> None:
    """Wait for the verdicts; a dead run whose end the supervisor does not record for a while is tried from here."""
    until, sure = deadline(grace + 30 + len(task_ids)), deadline(grace + _SURE)
    left, dead = task_ids, dict[str, float]()
    with session.store.subscribe(task_ids) as bell:
        while left := [t for t in left if not _is_settled(session, anyway, t, sure)]:
            now = time.monotonic()
            if now >= until:
                raise TimedOut(f"Not ended yet: {', '.join(left)}.", "Look again: overhand list --live")
            some = ", ".join(left) if len(left) < 5 else f"{len(left)} tasks"
            session.progress(f"Stopping {some} …")
            for task_id in left:
                if anyway.is_dead(task_id) and now - dead.setdefault(task_id, now) >= _BEHIND:
                    anyway.help_out(task_id)
            bell.wait(min(until - now, 1.0))
            if len(left) > 20:
                time.sleep(0.2)  # many end at once: reading all of them for each would slow that down


def _is_settled(session: Session, anyway: StopAnyway, task_id: str, sure: float) -> bool:
    """Whether there is nothing more to wait for."""
    task = anyway.task(task_id)
    if task_id in anyway.unrecorded:
        return True
    try:
        task = refresh_task(session, task)
    except (Busy, StorageFailed):
        return task.status is not None  # it is tried again
    return task.status is not None or (time.monotonic() >= sure and anyway.has_given_up(task))


def run_again(
    session: Session, id: str = "", agent: str | None = None, wait: bool = False, monitor_tags: bool = False
) -> Reply:
    """Start a prepared folder, or an ended task once more."""
    if monitor_tags and not (id or agent or wait):
        from overhand.verbs.daemon import daemon

        return daemon(session)
    if monitor_tags or not id:
        raise BadInput("Run what?", "Name a task: overhand run 3; or watch tags, and nothing else: --monitor-tags")
    from overhand.verbs.setup import ask_for_trust, ensure_project

    ensure_project(session)
    caller = find_caller(session.store)
    task_id = workspace_of(id) if os.path.isdir(id) and os.sep in id else None
    if task_id is None:
        task_id = session.store.resolve(id)
    elif os.path.realpath(id) != os.path.realpath(session.store.workspace(task_id)):
        raise BadInput(
            f"{id} is not in this project's .agent-workspaces.",
            f"Name that project: overhand --project DIR run {task_id}",
        )
    task = session.store.task(task_id)
    _require_own(caller, task)
    ask_for_trust(session, caller)
    task = refresh_task(session, task)
    if task.is_plan:
        accepted = next_plan_run(task, {"why": "run again"}, agent)
        return queue_again(session, caller, task_id, accepted, "run", wait=wait)
    config = config_of_task(session.root, load_config(session.root), task.settings)
    chosen = find_agent(session.root, agent or _agent_of(session, task, config), config)
    require_trusted(session.root, chosen.trusted_with)
    if task.created is None:
        _record_folder(session, caller, task, chosen, config)
    return queue_again(session, caller, task_id, Accepted(agent=chosen.name), "run", wait=wait)


def _require_own(caller: Caller, task: Task) -> None:
    """A run starts only what it delegated itself: what a person prepared may be allowed more than the run is."""
    require_known(caller, "Starting a task")
    if caller.is_person or (task.parent and task.parent.run == caller.run):
        return
    raise NotAllowed(
        f"Task {task.name} was not delegated by this run; it cannot start it.", "Ask the person who prepared it."
    )


def queue_again(session: Session, caller: Caller, task_id: str, accepted: Accepted, verb: str, *, wait: bool) -> Reply:
    """Queue a free task for its next run, which continues from an earlier one."""
    with session.store.lock(task_id, caller.by(session.via)) as locked:
        if locked.task.item:
            require_person(caller, "Starting an item")  # as for approving
        require_runnable(session, locked.task)
        if locked.task.runs:
            how = accepted.resume or {}
            accepted = accepted.replace(resume={**how, "run": how.get("run", locked.task.runs[-1].id)})
        keep_environment(session.store, task_id, session.env)
        locked.append(accepted, sync=True)
        task = locked.task
    with Recorded(task):
        held = session.hand_over([task_id])
        if wait:
            from overhand.verbs.wait import wait_for_tasks

            if held:
                raise Refused(held)
            return wait_for_tasks(session, [task_id], None, verb=verb)
    follow = [f"overhand {name} {task.handle}" for name in ("wait", "show", "stop")]
    reason = {"reason": held} if held else {}
    return Reply({**about_task(verb, task, "title", "agent"), **reason, "next": follow})


def next_plan_run(task: Task, how: dict[str, Any], agent: str | None, budget: str | None = None) -> Accepted:
    """The next run of a plan, to be queued: verified nodes stay, the rest continues."""
    if agent is not None:
        raise BadInput("A plan has no agent of its own.", "Name the agents of its nodes in its file.")
    return Accepted(resume=how if task.runs else ABSENT, budget=ABSENT if budget is None else budget)


def _agent_of(session: Session, task: Task, config: Config) -> str:
    """The recorded agent; for a hand-made folder the one its name begins with, else the default."""
    if task.created is not None:
        return task.agent
    known = agent_files(session.root)
    named = [name for name in known if task.id == name or task.id.startswith(f"{name}-")]
    return max(named, key=len) if named else default_agent(session.root, config)


def _record_folder(session: Session, caller: Caller, task: Task, agent: Agent, config: Config) -> None:
    """A hand-written folder becomes a recorded task, under the same guards as `delegate`."""
    import hashlib

    from overhand.drafts import Brief, build_draft

    text, _ = read_task_handoff(session.store, task.id)
    drafted = build_draft(Brief(text=text, priority=None), agent, caller, session.store, config).task.created
    created: dict[str, Any] = {
        "title": drafted["title"],
        "agent": agent.name,
        **{name: drafted[name] for name in ("depth", "path", "timeout", "level")},
        "contract": drafted.get("contract"),
        "checks": drafted.get("checks", []),
        "handoff": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        "parent": drafted.get("parent"),
        **{name: drafted[name] for name in ("settings", "budget") if name in drafted},
    }
    session.store.adopt_folder(task.id, text.encode("utf-8", "replace"), created, caller.by(session.via))


def require_runnable(session: Session, task: Task, *, again: bool = False) -> None:
    """Refuse a task that a run holds, one with living leftovers, and a completed one unless `again`."""
    handle = task.handle
    if task.damage:
        number, why = task.damage[0]
        raise Refused(
            f"Line {number} of the log of task {task.name} is damaged ({why}): what it did so far is not known.",
            "What to do: overhand doctor",
        )
    if task.queued and (task.queued_at or "") >= record_times(session.store.home)[1]:
        raise Refused(f"Task {handle} is queued already.", f"Wait for it: overhand wait {handle}")
    current = task.current_run
    if current is not None:
        raise Refused(
            f"Task {handle} is held by run {current.id} ({current.state}).",
            f"Wait for it, or stop it: overhand stop {handle}",
        )
    if task.item and task.staged and task.staged.stage == "claimed":
        at = f"{task.item.path}#{task.item.kind}"
        raise Refused(f"Task {handle} is claimed by somebody outside.", f"Take it back: overhand item approve {at}")
    if task.item:
        _require_item(session, task)
    if task.status == "completed" and not again:
        raise Refused(f"Task {handle} is completed.", f"Tell it what is still to do: overhand send {handle} TEXT")
    for run_id in living_members(session.store, task, _supervisor(session)):
        raise Refused(f"Processes of run {run_id} are still alive.", f"End them first: overhand stop {handle}")


def _require_item(session: Session, task: Task) -> None:
    """Refuse an item that was dismissed, or that belongs to another task now."""
    from overhand.items import DISMISSED, items_in_file, record_of_item, wanted_stage

    handle, path = task.handle, task.tag.path if task.tag else ""
    if wanted_stage(task) == DISMISSED:
        raise Refused(
            f"The item of task {handle} was dismissed.",
            f"If it is wanted after all, note it again: overhand tag add {path} '#needs-{task.kind}'",
        )
    there = [place for place in items_in_file(session.root, path) if place.kind == task.kind] if path else []
    if any(place.task == task.id for place in there):
        return
    for now in (record_of_item(session.store, place) for place in there):
        if now is not None and now.tag and now.tag.path == path:
            raise Refused(
                f"The item of task {handle} is task {now.handle}'s now.",
                f"Look at that one: overhand show {now.handle}",
            )


def dismiss(session: Session, id: list[str]) -> Reply:
    """Put what ended, or was never started, among what is done; an item loses its tag."""
    require_person(find_caller(session.store), "Dismissing")
    rows = []
    for word in id:
        if "#" in word:
            from overhand.verbs.item import item

            rows.append({**item(session, "dismiss", [word]).payload, "was": "item"})
            continue
        task = refresh_task(session, session.store.task(session.store.resolve(word)))
        with session.store.lock(task.id, find_caller(session.store).by(session.via)) as locked:
            task = locked.task
            if task.queued or task.current_run:
                raise Refused(f"Task {task.name} is {task.run_state}.", f"First: overhand stop {task.name}")
            was = task.headline
            if task.status is None:
                locked.append(Judged(run=None, status="cancelled", summary="Dismissed before it began."))
            if not task.dismissed:
                locked.append(Dismissed())
        rows.append({**about_task("dismiss", locked.task, "title", "status", "headline"), "was": was})
    return Reply({"schema": "overhand.dismiss/1", "tasks": rows})


def clean(
    session: Session, older: str | None = None, dry_run: bool = False, yes: bool = False, gone: bool = False
) -> Reply:
    """Remove tasks that ended long ago and that a person has seen, or the records of projects that are gone."""
    require_person(find_caller(session.store), "Cleaning")
    if gone:
        return _clean_gone(session, dry_run=dry_run, yes=yes)
    before = time.time() - option_duration("--older", older or "7d", "Write it as 7d or 12h.")
    found, kept = [], 0
    states = list(session.store.tasks())
    plans = {task.id: task for task in states if task.is_plan}
    above = {s.id: plans.get(s.parent.task, s) if s.node and s.parent else s for s in states}
    alive = {above[s.id].id for s in states if not _is_over(session, s)}
    for task in states:
        whole = above[task.id]
        long_ago = epoch_of(whole.judged) <= before
        if whole.id not in alive and long_ago and whole.headline == "done":
            found.append(task)
        elif task.status is not None:
            kept += 1
    if found and not dry_run and not yes:
        _confirm_removal(session, f"Remove what is finished (tasks: {len(found)})?")
    removed = [] if dry_run else [s.id for s in found if _remove(session, s)]
    rows = [{"task_id": s.id, "handle": s.handle, "title": s.title, "status": s.status} for s in found]
    return Reply({"schema": "overhand.clean/1", "dry_run": dry_run, "tasks": rows, "removed": removed, "kept": kept})


def _confirm_removal(session: Session, question: str) -> None:
    if session.confirm is None:
        raise BadInput(f"{question} There is no terminal to ask.", "Add --yes, or look first: --dry-run")
    if not session.confirm(question):
        raise Refused("Nothing was removed.", "See what would go: overhand clean --dry-run")


def _clean_gone(session: Session, *, dry_run: bool, yes: bool) -> Reply:
    """Remove the records of projects whose folder no longer exists."""
    from overhand.record import known_roots, remove_record

    gone = [one for one in known_roots() if one.gone]
    if gone and not dry_run and not yes:
        _confirm_removal(session, f"Remove the records of projects that are gone ({len(gone)})?")
    removed = []
    for one in gone if not dry_run else ():
        try:
            remove_record(one.folder)
            removed.append(one.root)
        except Refused as error:
            session.tell(error.message)
    rows = [{"project": one.root, "record": one.folder} for one in gone]
    return Reply({"schema": "overhand.clean/1", "dry_run": dry_run, "projects": rows, "removed": removed})


def _is_over(session: Session, task: Task) -> bool:
    """Whether no process of its runs lives; the shim of an ended run doesn't count: it exits after the verdict."""
    if task.status is None or task.current_run:
        return False
    for one in task.runs:
        if session.store.is_alive(task.id, one):
            if one.attached or not same_pid_world(one):
                return False
            if one.id in living_members(session.store, task, _supervisor(session)):
                return False
    return True


def _remove(session: Session, task: Task) -> bool:
    """Renamed in one step, then deleted: a crash leaves no half task."""
    try:
        with session.store.lock(task.id, {"kind": "person"}) as locked:
            if locked.task.judged != task.judged:
                return False
            grave = f"{session.store.own}/removed-{random_text(8)}"
            os.rename(session.store.record(task.id), grave)
        shutil.rmtree(grave)
        session.store.files.remove_tree(task.id)
    except (OSError, OverhandError) as error:
        told = error.message if isinstance(error, OverhandError) else f"{task.id} could not be removed: {error}"
        session.tell(told)
        return False
    return True
