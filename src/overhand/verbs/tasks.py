"""Tasks as verbs see them: brought up to date first, then a row each, which `list` and the headline screen show."""

from __future__ import annotations

import os
import time

from overhand.errors import BadInput, Refused, StorageFailed
from overhand.system import epoch_of, is_held, machine_id, now_stamp
from overhand.verbs.verb import PATIENCE, Reply, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.record import Amount, Task
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
    from overhand.system import exit_code

    ended = exit_code(session.store.run_folder(task.id, run.id)) is not None
    return ended or not session.store.is_alive(task.id, run)


def refresh_task(session: Session, task: Task) -> Task:
    """Settle and, where that is quick, judge a run that is over; record what a live one asked; see that a supervisor
    does the rest."""
    task = _settle(session, task) if looks_dead(session, task) else _take_questions(session, task)
    if task.item:
        task = _show_tag(session, task)
    if needs_supervisor(task) and not _is_executed(session, task):
        from overhand.supervisor import hand_to_supervisor, running_supervisor

        if running_supervisor(session.store) is None:
            hand_to_supervisor(session.store, [task.id])
        else:
            remind_supervisor(session, [task])
    return task


def remind_supervisor(session: Session, tasks: list[Task]) -> None:
    """See that a running supervisor knows these tasks: the process that queued one may have died before it said so."""
    unsure = {(task.id, task.queued_at): task.id for task in tasks if task.queued or task.is_plan}
    if unsure := {key: task_id for key, task_id in unsure.items() if key not in session.reminded}:
        from overhand.supervisor import wake_supervisor

        session.reminded.update(unsure)
        wake_supervisor(session.store, unsure.values())


def _is_executed(session: Session, task: Task) -> bool:
    """Whether another process than the supervisor executes this plan."""
    return task.is_plan and not task.queued and is_held(f"{session.store.record(task.id)}/plan.lock")


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
    from overhand.questions import has_unread_files, take_in_files

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
    return run is not None and (run.has_ended or run.opened or not run.attached)


def _settle(session: Session, task: Task) -> Task:
    """Wait for the running supervisor to do it; without one, do it here."""
    from overhand.record import has_lying_calls
    from overhand.supervisor import hand_to_supervisor, running_supervisor

    if running_supervisor(session.store) is not None or has_lying_calls(session.store, task.id):
        return _settled_by_supervisor(session, task)
    from overhand.policy import Actor, find_caller, load_config
    from overhand.runs import finish_run, report_to_parent, settle_run, stop_children, unjudged_run

    actor = Actor(
        session.store, load_config(session.root), find_caller(session.store).by(session.via), dict(session.env)
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

    from overhand.supervisor import hand_to_supervisor, wake_supervisor
    from overhand.system import deadline

    task_id = task.id
    with session.store.subscribe([task_id]) as bell:
        if not wake_supervisor(session.store, [task_id]):  # it keeps the environment in which the task began
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


def row(task: Task, places: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A task in one line."""
    run = task.last_run
    shown: dict[str, Any] = {
        "task_id": task.id,
        "handle": task.handle,
        "title": task.title,
        "agent": task.agent,
        "kind": task.kind,
        "headline": task.headline,
        "status": task.status,
        "verification": task.verification,
        "verified": task.verified,
        "proof": task.proof or None,
        "run_state": task.run_state,
        "cause": run.cause if run else None,
        "priority": task.priority,
        "created": task.created,
        "runs": len(task.runs),
        "parent": task.parent.task if task.parent else None,
        "summary": say_summary(task, task.summary),
        "why": task.why or None,
        **of_plan(task),
    }
    shown.update(places.get(task.id, {}))
    if task.notices and task.status is None:
        shown["notice"] = task.notices[-1]
    return shown


def say_summary(task: Task, summary: str | None) -> str | None:
    """Its summary; of a task that asked and was not resumed, that it has its answer."""
    has_answer = task.status == "needs-input" and bool(task.questions) and not task.open_questions and not task.queued
    return f"It has its answer. Go on with it: overhand resume {task.name}" if has_answer else summary


def of_plan(task: Task) -> dict[str, Any]:
    """Which node of which plan a task is."""
    if not task.node or not task.parent:
        return {"node": None, "plan": None}
    return {"node": task.node, "plan": task.parent.task, "plan_handle": task.plan}


def queue(states: list[Task]) -> dict[str, dict[str, Any]]:
    """The position of each queued task, and what it waits for."""
    queued = sorted((s for s in states if s.queued), key=lambda s: s.queue_place)
    places: dict[str, dict[str, Any]] = {s.id: {"position": number} for number, s in enumerate(queued, 1)}
    if not queued:
        return places
    handles = {s.id: s.handle for s in states}
    working = [s for s in states if (run := s.current_run) and run.waiting is None]
    writer = next((s for s in working if s.writes_here), None)
    urgent = next((s for s in working if s.priority == "P0"), None)
    for s in queued:
        place = places[s.id]
        if s.after:
            place.update(after=s.after, after_handle=handles.get(s.after))
        if writer and s.writes_here:
            why = f"Task {writer.name} ({writer.agent}) is at work in this checkout; "
            place.update(behind=writer.handle or writer.id, reason=f"{why}agents that write there go one at a time.")
        if urgent and s.priority != "P0":
            why = f"Task {urgent.name} is P0: until it ends, nothing of less weight starts."
            place.update(behind=urgent.handle or urgent.id, reason=why)
    return places


def list_tasks(
    session: Session,
    live: bool = False,
    delegated: bool = False,
    resumable: bool = False,
    cost: bool = False,
    prepared: bool = False,
) -> Reply:
    """All tasks, newest last."""
    if prepared:
        bare = session.store.tasks(session.store.prepared())
        rows = [row(task, {}) for task in bare]
        return Reply({"schema": "overhand.list/1", "project": session.root, "prepared": True, "tasks": rows})
    if not (resumable or cost):
        return _list_at_a_glance(session, live=live, delegated=delegated)
    states, places = _up_to_date(session, session.store.tasks())
    if delegated:
        states = [s for s in states if s.queued or s.runs or s.status]
    if resumable:
        from overhand.runs import is_resumable

        states = [s for s in states if is_resumable(s)]
    payload: dict[str, Any] = {"schema": "overhand.list/1", "project": session.root}
    payload |= {"resumable": True} if resumable else {}
    payload["tasks"] = [row(s, places) for s in states]
    if cost:
        payload.update(costs(session, states, payload["tasks"]), cost=True)
    return Reply(payload)


def _up_to_date(session: Session, states: list[Task]) -> tuple[list[Task], dict[str, dict[str, Any]]]:
    """These tasks as they are now, and the place of those that are queued."""
    remind_supervisor(session, [s for s in states if s.queued])  # in one message
    states = [look_at_task(session, s) if needs_supervisor(s) else s for s in states]
    places = queue(states)
    why_held(session, places, states)
    return states, places


def _list_at_a_glance(session: Session, *, live: bool, delegated: bool) -> Reply:
    """Only what isn't at rest is read; nothing else can change the place of a task in the queue."""
    from overhand.record import Overview

    overview = Overview(session.store)
    overview.look()
    states, places = _up_to_date(session, sorted(overview.states.values(), key=lambda s: (s.handle or 0, s.id)))
    for place in places.values():
        if "after" in place:
            place["after_handle"] = overview.handle(place["after"])
    payload = {"schema": "overhand.list/1", "project": session.root}
    if live:
        return Reply({**payload, "live": True, "tasks": [shown for s in states if (shown := _live_row(s))]})
    open_ = [(s.handle or 0, s.id, row(s, places)) for s in states if not delegated or s.queued or s.runs or s.status]
    rows = sorted([*open_, *overview.rows(lambda task: row(task, {}))], key=lambda found: found[:2])
    return Reply({**payload, "tasks": [shown for _, _, shown in rows]})


def look_at_task(session: Session, task: Task) -> Task:
    """The task up to date, as far as that can be: it is shown, although its disk is read-only or it makes no sense."""
    try:
        return refresh_task(session, task)
    except (BadInput, StorageFailed) as error:
        notice = f"It is shown as it is recorded. {error.message}"
        return task if notice in task.notices else task.but(notices=[*task.notices, notice])


def reason_to_wait(session: Session, task_id: str) -> str | None:
    """Why a queued task does not start at once, if that is known."""
    states = session.store.tasks()
    places = queue(states)
    why_held(session, places, states)
    reason: str | None = places.get(task_id, {}).get("reason")
    return reason


def why_held(session: Session, places: dict[str, dict[str, Any]], states: list[Task]) -> None:
    """Add the reasons that the supervisor leaves in files: the day's budget is used up, or a provider's limit."""
    if not places:
        return
    from overhand.record import record_times
    from overhand.system import read_file

    try:
        paused = any(name.startswith("paused-") for name in os.listdir(session.store.own))
    except OSError:
        paused = False
    if paused:
        _why_paused(session, places, states)
    _, replaced = record_times(session.store.home)
    for task in states:
        if task.id in places and (task.queued_at or "") < replaced:
            places[task.id]["reason"] = f"this folder was replaced since; to start it: overhand run {task.name}"
        elif task.requeued and task.id in places:
            from overhand.items import why_it_waits

            places[task.id]["reason"] = why_it_waits(task)

    day, _, why = (read_file(f"{session.store.own}/held") or b"").decode("utf-8", "replace").strip().partition(" ")
    if why and day == now_stamp()[:10]:
        for place in places.values():
            place["reason"] = why


def _why_paused(session: Session, places: dict[str, dict[str, Any]], states: list[Task]) -> None:
    from overhand.agents import all_pauses, describe_pause, driver_of_task
    from overhand.policy import load_config

    paused = all_pauses(session.store)
    if not paused:
        return
    settings = load_config(session.root)
    for task in states:
        driver = driver_of_task(session.root, task, settings) if task.id in places else ""
        if driver in paused:
            places[task.id].update(paused=driver, reason=describe_pause(driver, paused[driver]))


def _live_row(task: Task) -> dict[str, Any] | None:
    """A live run as the registry shows it."""
    run = task.current_run
    if run is None or run.has_ended:
        return None
    began = epoch_of(run.created)
    return {
        "session_id": run.id,
        "handle": task.handle,
        "task_id": task.id,
        "title": task.title,
        "agent": run.agent,
        "driver": run.driver,
        "run_state": run.state,
        "start": run.created,
        "age": round(max(0.0, time.time() - began), 1),
        "deadline": stamp(began + run.timeout) if run.timeout else None,
        "depth": task.depth,
        "path": task.path,
        "pid": run.shim,
        "machine": run.machine if run.machine != machine_id() else None,
    }


def stamp(seconds: float) -> str:
    """A time in whole seconds, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


_USAGE = ("input", "output", "tokens", "usd", "estimated", "turns", "used_of_budget")


def costs(session: Session, states: list[Task], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of `list` with what was used, each task followed by what it delegated, and the sums."""
    from overhand.runs import spent_today

    states = [with_reports(session, task) for task in states]
    known = {task.id for task in states}
    below: dict[str | None, list[Task]] = {}
    for task in states:
        parent = task.parent.task if task.parent else None
        below.setdefault(parent if parent in known else None, []).append(task)
    shown = {
        row["task_id"]: {**row, **_cost(task, below.get(task.id, []))} for row, task in zip(rows, states, strict=True)
    }
    ordered: list[dict[str, Any]] = []

    def add(task: Task, level: int) -> list[Task]:
        row = shown[task.id]
        ordered.append(row)
        family = [task]
        for child in below.get(task.id, []):
            family += add(child, level + 1)
        row.update(indent=level, tree={**_sum(family), "tasks": len(family)})
        return family

    for root in below.get(None, []):
        add(root, 0)
    return {"tasks": ordered, "today": vars(spent_today(session.store).rounded()), "total": _sum(states)}


def with_reports(session: Session, task: Task) -> Task:
    """The same task with what its live run has reported by now."""
    from overhand.runs import reported_usage

    for run in task.runs:
        if not run.is_judged:
            run.usage = reported_usage(session.store.desk_files(task.id, run.id)) or run.usage
    return task


def _cost(task: Task, below: list[Task]) -> dict[str, Any]:
    from overhand.policy import usage_of_task, usage_with_nodes

    usage = usage_of_task(task)
    if task.is_plan:
        usage = usage_with_nodes(usage, [usage_of_task(one) for one in below if one.node])
    return {**{key: usage[key] for key in _USAGE}, "budget": usage["budget"]["text"] if usage["budget"] else None}


def _sum(states: list[Task]) -> dict[str, Any]:
    from overhand.policy import total_used

    spent: Amount = total_used(states).rounded()
    estimated = any(run.usage.estimated for task in states for run in task.runs if run.usage)
    return {**vars(spent), "estimated": estimated}


MAX_RESULT = 256 * 1024 * 1024  # it may quote an OUTPUT.md of the largest size more than once


def read_result(session: Session, task: Task) -> dict[str, Any]:
    """The judged result, if its bytes are the ones the log vouches for."""
    if task.status is None or task.judged_run is None:
        return {}
    import hashlib
    import json

    from overhand.record import read_log
    from overhand.system import read_file

    folder = session.store.record(task.id)
    output = read_file(f"{folder}/OUTPUT.md")  # first: the next run takes away the result before it takes this
    raw = read_file(f"{folder}/result.json", limit=MAX_RESULT)
    judged = next((e for e in reversed(read_log(folder)) if e.get("e") in ("judged", "rechecked")), {})
    if raw is not None and judged.get("result") == hashlib.sha256(raw).hexdigest():
        result: dict[str, Any] = json.loads(raw)
        if judged.get("output") and (output is None or hashlib.sha256(output).hexdigest() != judged["output"]):
            result["mismatch"] = _mismatch("OUTPUT.md")
        return result
    kept = read_file(f"{session.store.run_folder(task.id, task.judged_run)}/judged.json", MAX_RESULT)
    if kept is not None and judged.get("result") == hashlib.sha256(kept).hexdigest():
        earlier: dict[str, Any] = json.loads(kept)  # the next run has begun since
        return earlier
    # a plan that could not go on has none
    return {"mismatch": _mismatch("result.json")} if judged.get("result") else {}


def _mismatch(name: str) -> dict[str, Any]:
    text = f"{name} is not the document that was judged: it was changed or removed afterwards."
    return {"code": "document-changed", "message": text, "level": "error", "of": "substance"}
