"""`show`: everything about one task. On a terminal it notes that a person has seen the result."""

from __future__ import annotations

from overhand.errors import NotFound, OverhandError
from overhand.record import Seen
from overhand.verbs.tasks import look_at_task, queue, read_result, row, say_summary, why_held
from overhand.verbs.verb import Reply, Session, about_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.record import Run, Task


def show(
    session: Session, id: str, output: bool = False, path: bool = False, report: bool = False, diff: bool = False
) -> Reply:
    if diff:
        from overhand.verbs.diff import diff as show_diff

        return show_diff(session, id)
    task = look_at_task(session, session.store.task(session.store.resolve(id)))
    if output:
        from overhand.system import read_file

        raw = read_file(f"{session.store.record(task.id)}/OUTPUT.md")
        if raw is None:
            raise NotFound(f"Task {task.name} has no accepted OUTPUT.md.", f"See why: overhand show {task.name}")
        return Reply({**about_task("show", task), "text": raw.decode("utf-8", "replace"), "raw": True})
    if path:
        record = session.store.record(task.id) if task.created else None
        places = {"workspace": session.store.workspace(task.id), "record": record}
        places |= {"tree": task.tree.path} if task.tree else {}
        text = "".join(f"{place}\n" for place in places.values() if place)
        return Reply({**about_task("show", task), **places, "text": text, "raw": True})
    payload = describe_task(session, task, "show")
    if report:
        return _report(session, task, payload)
    if session.interactive and mark_seen(session, task):
        payload["headline"] = "done"
    return Reply(payload)


def _report(session: Session, task: Task, payload: dict[str, Any]) -> Reply:
    from overhand.runs import kept_report, report_lines, run_report

    run = task.run(task.judged_run)
    if run is None:
        how = "Wait for it: overhand wait" if task.run_state else "Start it: overhand run"
        raise NotFound("No run of this task was judged yet.", f"{how} {task.handle}")
    made = kept_report(session.store, task, run) or run_report(session.store, task, run, payload)
    return Reply({**made, "schema": "overhand.report/1", "text": "\n".join(report_lines(made)), "raw": True})


def mark_seen(session: Session, task: Task) -> bool:
    """Note that a person has seen its result, or that its caller has it; whether that made a difference."""
    from overhand.policy import find_caller

    if task.headline not in ("ready", "failed"):
        return False
    caller = find_caller(session.store)
    if not caller.is_person:
        return False
    try:
        with session.store.lock(task.id, caller.by(session.via), patience=0.5) as locked:
            if locked.task.headline in ("ready", "failed"):
                locked.append(Seen())
    except OverhandError as error:
        session.tell(f"It could not be noted as seen: {error.message}")
        return False
    return True


_RESULT_KEYS = (
    "summary", "data", "deliverables", "decisions", "for_primary", "files_modified", "errors", "next_steps",
    "problems", "checks", "unverified", "doubts", "usage", "output", "claimed", "source", "context", "look_at",
    "repairs", "run_folder", "nodes", "conflicts", "provenance", "variants", "unfilled", "missing", "winner", "tokens",
    "seconds", "last_words",
)  # fmt: skip
_RUN_KEYS = ("id", "agent", "state", "cause", "exit", "created", "ended", "status", "leftovers")
_EMPTY: dict[str, Any] = {
    "data": None, "deliverables": [], "decisions": [], "for_primary": "", "files_modified": [], "errors": [],
    "next_steps": "", "problems": [], "checks": [], "unverified": [], "doubts": [], "usage": None, "output": None,
    "claimed": None, "source": "",
}  # fmt: skip


def describe_task(session: Session, task: Task, verb: str, result: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object that `show`, `wait` and `delegate --wait` print; the result is read, unless it was just recorded."""
    if result:
        usage = result["usage"]
    else:
        result = read_result(session, task) if result is None else result
        usage = _usage(session, task, result)
    places = queue(session.store.tasks()) if task.queued else {}
    why_held(session, places, [task])
    shown = row(task, places)
    shown.update(_EMPTY)
    shown.update({key: result[key] for key in _RESULT_KEYS if key in result})
    shown.update(
        schema=f"overhand.{verb}/1",
        summary=say_summary(task, result.get("summary") or task.summary),
        runs=[{**{key: vars(run)[key] for key in _RUN_KEYS}, "shield": _shield(task, run)} for run in task.runs],
        questions=_questions(session, task),
        folder=session.store.relative(session.store.workspace(task.id)),
        record=session.store.record(task.id) if task.created else None,
        level=task.level,
        timeout=task.timeout,
        path=task.path,
        depth=task.depth,
        notices=task.notices,
        messages=_messages(session, task),
        tree="its tree" if task.begins is not None else "your checkout",
        works_in=_tree(task),
        wanted_checks=[vars(check) for check in task.checks],
        usage=usage,
        lately=agent_activity(session, task),
        item=f"{task.tag.path}#{task.kind}" if task.item and task.tag else None,
        stage=task.tag.stage if task.item and task.tag else None,
    )
    if task.is_plan:
        from overhand.verbs import plan_view

        shown.update(plan_view.parts(session, task, result))
    if result.get("mismatch"):
        shown["problems"] = [*shown["problems"], result["mismatch"]]
    return shown


def _tree(task: Task) -> dict[str, Any] | None:
    """The tree that the task works in, and how it began."""
    if task.tree is None:
        return None
    names = ("path", "base", "behind", "carried", "left", "ports")
    return {name: getattr(task.tree, name) for name in names}


def _shield(task: Task, run: Run) -> dict[str, Any] | None:
    """What held for a run, or why not."""
    if run.is_shielded or (run.shield is None and not run.attached):
        return run.shield
    from overhand.runs import unshielded

    return unshielded(run, task.level)


def _usage(session: Session, task: Task, result: dict[str, Any]) -> dict[str, Any] | None:
    if not task.runs and not task.budget:
        return None
    if task.is_plan:
        from overhand.verbs import plan_view

        return plan_view.usage(session, task, result)
    from overhand.policy import usage_of_task
    from overhand.verbs.tasks import with_reports

    return usage_of_task(with_reports(session, task))


def _questions(session: Session, task: Task) -> list[dict[str, Any]]:
    if not task.questions:
        return []
    from overhand.questions import full_question

    keys = ("seq", "options", "closed", "step", "via", "run", "asked", "answered", "answer")
    rows = []
    for question in task.questions:
        text = full_question(session.store, task.id, question)
        rows.append({"question": text, **{key: vars(question)[key] for key in keys}, "path": task.path})
    return rows


def _messages(session: Session, task: Task) -> list[dict[str, Any]]:
    if not task.messages:
        return []
    from overhand.runs import shown_messages

    return shown_messages(session.store, task)


def agent_activity(session: Session, task: Task) -> str:
    """What a running coding agent said or did last."""
    run = task.current_run
    if run is None or run.has_ended or not task.settings.get("real"):
        return ""
    from overhand.agents import last_activity

    return last_activity(session.store.run_folder(task.id, run.id), run.driver, session.root)
