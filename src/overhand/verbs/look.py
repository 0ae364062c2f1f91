"""Looking: `show`, `wait`, `log`. Nothing here changes a task, except that `show` on a
terminal notes that a person has seen the result."""

from __future__ import annotations

import os
import time

from overhand.errors import NotFound, OverhandError, TimedOut
from overhand.record.events import Seen
from overhand.system import machine
from overhand.verbs import Answer, Session
from overhand.verbs.listing import queue, row, why_held
from overhand.verbs.reconcile import refresh
from overhand.words import option_duration, say_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.record.task import Run, Task


def show(session: Session, id: str, output: bool = False, report: bool = False) -> Answer:
    """Everything about one task."""
    task_id = session.store.resolve(id)
    task = refresh(session, session.store.task(task_id))
    if output:
        return _show_output(session, task)
    payload = describe(session, task, "show")
    if report:
        return _report(session, task, payload)
    if session.interactive and task.status == "completed" and not task.seen:
        _mark_seen(session, task_id)
        payload["headline"] = "done"
    return Answer(payload)


def _report(session: Session, task: Task, payload: dict[str, Any]) -> Answer:
    from overhand.runs import report as reports

    run = task.run(task.judged_run)
    if run is None:
        how = "Wait for it: overhand wait" if task.run_state else "Start it: overhand run"
        raise NotFound("No run of this task was judged yet.", f"{how} {task.handle}")
    made = reports.kept(session.store, task, run) or reports.report(session.store, task, run, payload)
    return Answer({**made, "schema": "overhand.report/1", "text": "\n".join(reports.text(made)), "raw": True})


def _mark_seen(session: Session, task_id: str) -> None:
    from overhand.policy.caller import caller

    who = caller(session.store)
    if who.is_person:
        try:
            with session.store.lock(task_id, who.by(session.via), patience=0.5) as locked:
                if locked.task.status == "completed" and not locked.task.seen:
                    locked.append(Seen())
        except OverhandError as error:
            session.tell(f"It could not be noted as seen: {error.message}")


def _show_output(session: Session, task: Task) -> Answer:
    from overhand.system.files import read_file

    raw = read_file(f"{session.store.folder(task.id)}/OUTPUT.md")
    if raw is None:
        raise NotFound(
            f"Task {task.name} has no accepted OUTPUT.md.",
            f"See why: overhand show {task.name}",
        )
    text = raw.decode("utf-8", "replace")
    return Answer({"schema": "overhand.show/1", "task_id": task.id, "handle": task.handle, "text": text, "raw": True})


_RESULT_KEYS = (
    "summary",
    "data",
    "deliverables",
    "decisions",
    "for_primary",
    "files_modified",
    "errors",
    "next_steps",
    "problems",
    "checks",
    "unverified",
    "usage",
    "output",
    "claimed",
    "source",
    "context",
    "look_at",
    "repairs",
    "run_folder",
    "nodes",
    "conflicts",
    "provenance",
    "variants",
    "unfilled",
    "missing",
    "winner",
    "tokens",
    "seconds",
)
_MAX_RESULT = 256 * 1024 * 1024  # it may quote an OUTPUT.md of the largest size more than once
_EMPTY: dict[str, Any] = {
    "data": None, "deliverables": [], "decisions": [], "for_primary": "", "files_modified": [], "errors": [],
    "next_steps": "", "problems": [], "checks": [], "unverified": [], "usage": None, "output": None,
    "claimed": None, "source": "",
}  # fmt: skip


def describe(session: Session, task: Task, verb: str, result: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object that `show`, `wait` and `delegate --wait` print; the result is read, unless it was just recorded."""
    folder = session.store.folder(task.id)
    known = result
    result = read_result(session, task) if result is None else result
    usage = known["usage"] if known else _usage(session, task, result)
    places = queue(session.store.tasks()) if task.queued else {}
    why_held(session, places, [task])
    shown = row(task, places)
    shown.update(_EMPTY)
    shown.update({key: result[key] for key in _RESULT_KEYS if key in result})
    shown.update(
        schema=f"overhand.{verb}/1",
        summary=result.get("summary") or task.summary,
        runs=[_run(run) for run in task.runs],
        questions=_questions(session, task),
        folder=session.store.relative(folder),
        level=task.level,
        timeout=task.timeout,
        path=task.path,
        depth=task.depth,
        notices=task.notices,
        messages=_messages(session, task),
        tree="your checkout",
        wanted_checks=[vars(check) for check in task.checks],
        usage=usage,
        lately=lately(session, task),
        **_item(task),
    )
    if task.is_plan:
        from overhand.verbs import planreceipt

        shown.update(planreceipt.parts(session, task, result))
    if result.get("mismatch"):
        shown["problems"] = [*shown["problems"], result["mismatch"]]
    return shown


def _item(task: Task) -> dict[str, Any]:
    """Where the item stands whose approval made the task, and at which stage its tag was last written."""
    shown = task.tag
    if task.item is None or shown is None:
        return {"item": None, "stage": None}
    return {"item": f"{shown.path}#{task.kind}", "stage": shown.stage}


def _usage(session: Session, task: Task, result: dict[str, Any]) -> dict[str, Any] | None:
    """What it has used by now."""
    if not task.runs and not task.budget:
        return None
    if task.is_plan:
        from overhand.verbs import planreceipt

        return planreceipt.usage(session, task, result)
    from overhand.policy.budget import usage_of
    from overhand.verbs.cost import with_reports

    return usage_of(with_reports(session, task))


def _questions(session: Session, task: Task) -> list[dict[str, Any]]:
    """Everything it asked, with the answers."""
    if not task.questions:
        return []
    from overhand.questions import record

    keys = ("seq", "options", "closed", "step", "via", "run", "asked", "answered", "answer")
    return [
        {
            "question": record.text_of(session.store, task.id, one),
            **{key: vars(one)[key] for key in keys},
            "path": task.path,
        }
        for one in task.questions
    ]


def _messages(session: Session, task: Task) -> list[dict[str, Any]]:
    """What was sent to it, and how far that came."""
    if not task.messages:
        return []
    from overhand.runs import messages

    return messages.shown(session.store, task)


def _run(run: Run) -> dict[str, Any]:
    keys = ("id", "agent", "state", "cause", "exit", "created", "ended", "status", "leftovers")
    return {key: vars(run)[key] for key in keys}


def read_result(session: Session, task: Task) -> dict[str, Any]:
    """The judged result, if its bytes are the ones the log vouches for."""
    if task.status is None or task.judged_run is None:
        return {}
    import hashlib
    import json

    from overhand.record import log
    from overhand.system.files import read_file

    folder = session.store.folder(task.id)
    output = read_file(f"{folder}/OUTPUT.md")  # first: the next run takes away the result before it takes this
    raw = read_file(f"{folder}/result.json", limit=_MAX_RESULT)
    judged = next((e for e in reversed(log.read(folder)) if e.get("e") in ("judged", "rechecked")), {})
    if raw is not None and judged.get("result") == hashlib.sha256(raw).hexdigest():
        result: dict[str, Any] = json.loads(raw)
        if judged.get("output") and (output is None or hashlib.sha256(output).hexdigest() != judged["output"]):
            result["mismatch"] = _mismatch("OUTPUT.md")
        return result
    kept = read_file(f"{session.store.run_folder(task.id, task.judged_run)}/judged.json", _MAX_RESULT)
    if kept is not None and judged.get("result") == hashlib.sha256(kept).hexdigest():
        earlier: dict[str, Any] = json.loads(kept)  # the next run has begun since we were told
        return earlier
    # A plan that could not go on has none.
    return {"mismatch": _mismatch("result.json")} if judged.get("result") else {}


def _mismatch(name: str) -> dict[str, Any]:
    text = f"{name} is not the document that was judged: it was changed or removed afterwards."
    return {"code": "document-changed", "message": text, "level": "error", "of": "substance"}


def wait(session: Session, id: list[str], timeout: str | None = None) -> Answer:
    """Until all of them are judged."""
    seconds = None if timeout is None else option_duration("--timeout", timeout)
    task_ids = [session.store.resolve(handle) for handle in id]
    return wait_for(session, task_ids, seconds)


def wait_for(session: Session, task_ids: list[str], seconds: float | None, verb: str = "wait") -> Answer:
    """Wait, telling what happens; Ctrl-C ends the waiting, not the work."""
    from overhand.policy.caller import caller
    from overhand.questions import wait as waiting

    until = waiting.deadline(seconds)
    who = caller(session.store)
    left = list(task_ids)
    try:
        with waiting.bell(session.store, task_ids) as bell, waiting.without_slot(session.store, who.task, who.run):
            if not who.is_person:
                from overhand.supervisor import client

                client.hand_over(session.store, task_ids)  # our slot is free now
            while True:
                states = [refresh(session, session.store.task(task_id)) for task_id in left]
                left = [s.id for s in states if not at_rest(s) or (not who.is_person and goes_on(s))]
                if not left:
                    break
                if time.monotonic() >= until:
                    handles = " ".join(str(s.handle) for s in states if s.id in left)
                    raise TimedOut(
                        f"Not judged in time: {handles}. The work goes on.", f"Wait on: overhand wait {handles}"
                    )
                session.progress(progress(session, states))
                bell.wait(until - time.monotonic())
    except KeyboardInterrupt:
        handles = " ".join(str(session.store.task(t).handle) for t in left)
        session.tell(f"The work goes on. Wait again: overhand wait {handles} · stop it: overhand stop {handles}")
        raise
    shown = [describe(session, session.store.task(task_id), verb) for task_id in task_ids]
    code = 0 if all(one["status"] == "completed" for one in shown) else 1
    if len(shown) == 1:
        return Answer(shown[0], code)
    return Answer({"schema": f"overhand.{verb}/1", "tasks": shown}, code)


def at_rest(task: Task) -> bool:
    """Nothing more will happen to it by itself."""
    return task.status is not None or (not task.queued and not task.runs)


def goes_on(task: Task) -> bool:
    """Parked, and an answer starts its next run: an agent waits on, as it would for an answer to its own question."""
    asked = [q for q in task.open_questions if q.via != "return"]  # a return is for whoever delegated
    return task.status == "needs-input" and bool(asked)


def progress(session: Session, states: list[Task]) -> str:
    """One line about tasks that are not done yet."""
    parts = []
    for task in states[:4]:
        run = task.current_run
        name = f"{task.handle} {task.agent}"
        if at_rest(task):
            parts += [f"{name}: waits for an answer"] if goes_on(task) else []
        elif run is None:
            parts.append(f"{name}: queued")
        elif run.has_ended:
            parts.append(f"{name}: being checked")
        else:
            age = say_duration(max(0.0, time.time() - machine.epoch(run.created)) // 1)
            parts.append(f"{name}: {run.state} {age}{_last_words(session, task, run.id)}")
    return " · ".join(parts)


def _last_words(session: Session, task: Task, run_id: str) -> str:
    """What it said or did last; of a program without a stream the last line it printed."""
    place = session.store.run_folder(task.id, run_id)
    if task.settings.get("real"):
        words = lately(session, task)
        return f" · {words}" if words else ""
    try:
        with open(f"{place}/stdout", "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 300))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f" · {words[:60]}" if words else ""


def lately(session: Session, task: Task) -> str:
    """What a coding agent that is at work said or did last."""
    run = task.current_run
    if run is None or run.has_ended or not task.settings.get("real"):
        return ""
    from overhand.agents import sessions

    return sessions.lately(session.store.run_folder(task.id, run.id), run.driver, session.root)


def show_log(session: Session, id: str, follow: bool = False, out: bool = False, window: bool = False) -> Answer:
    """Events, as a stream, here or in a window of their own."""
    from overhand.verbs.follow import events

    task_id = session.store.resolve(id)
    task = refresh(session, session.store.task(task_id))
    if window:
        from overhand.supervisor.tmux import watch_in_tmux

        opened = watch_in_tmux(session.root, task)
        payload = {"schema": "overhand.log/1", "task_id": task_id, "handle": task.handle, "window": opened}
        return Answer({**payload, "next": [f"tmux attach -t {opened}"]})
    stream = events(session, task_id, follow=follow, out=out)
    return Answer({"schema": "overhand.log/1", "task_id": task_id, "handle": task.handle}, stream=stream)
