"""`finish`: a run writes its return, once nothing is wrong with it; `handoff`: what a run was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.documents import Decision, FileNote, Output, Problem, load_json, parse_handoff, render_output
from overhand.errors import BadInput, StaleRun
from overhand.policy import find_caller
from overhand.runs import (
    Evidence,
    deliverable_facts,
    judge_run,
    live_steps,
    named_facts,
    preview_return,
    read_baseline,
    read_spec,
)
from overhand.verbs.verb import Reply, Session, about_task
from overhand.words import CLAIMS

if TYPE_CHECKING:
    from overhand.record import Run, Store, Task
    from overhand.runs import Returned, Verdict


def finish(
    session: Session,
    status: str | None = None,
    summary: str | None = None,
    title: str | None = None,
    deliverable: list[str] | None = None,
    decision: list[str] | None = None,
    modified: list[str] | None = None,
    for_primary: str | None = None,
    data: str | None = None,
    block: str | None = None,
) -> Reply:
    """Write OUTPUT.md of this run; nothing is written while something is wrong with it."""
    caller = find_caller(session.store)
    if caller.is_person or caller.task is None or caller.run is None:
        raise BadInput(
            "`overhand finish` is for an agent inside its run; this is a shell.", "See its result: overhand show ID"
        )
    task = session.store.task(caller.task)
    run = task.current_run
    if run is None or run.id != caller.run or run.has_ended:
        raise StaleRun(
            f"Run {caller.run} no longer holds task {task.id}; its return is not taken.",
            "Nothing more is to be done here: end.",
        )
    value, odd = load_json(data) if data else (None, "")
    if odd:
        raise BadInput(f"--data is not JSON: {odd}.", "Give one JSON value.")
    output = Output(
        title=title or task.title,
        status=status or "completed",
        agent=task.agent,
        summary=(summary or "").strip(),
        deliverables=_notes(deliverable),
        decisions=tuple(Decision(*_pair(one)) for one in decision or ()),
        for_primary=(for_primary or "").strip(),
        files_modified=_notes(modified),
        data=value,
    )
    text = render_output(output) + (f"\n{block.strip()}\n" if block else "")
    problems = _problems(session.store, task, run, text, output.status)
    shown = [problem.as_json() for problem in problems]
    if errors := [problem for problem in problems if problem.level == "error"]:
        raise BadInput(
            f"This return would not hold: {' '.join(problem.message for problem in errors)}",
            f"{' '.join(problem.fix for problem in errors if problem.fix)} Mend all of it, then finish again; "
            "or finish with status partial or blocked and say in for_primary what is missing.".strip(),
            problems=shown,
        )
    desk = session.store.desk_files(task.id, run.id)
    desk.write("OUTPUT.md", text, make=True)
    more = {
        "status": output.status,
        "output": session.store.relative(desk.shown("OUTPUT.md")),
        "problems": shown,
        "checks": [check.command for check in task.checks],
    }
    return Reply({**about_task("finish", task), **more})


def _pair(text: str) -> tuple[str, str]:
    """`what=why`, as `--file path=why` of delegate."""
    what, _, why = text.partition("=")
    return what.strip(), why.strip()


def _notes(given: list[str] | None) -> tuple[FileNote, ...]:
    return tuple(FileNote(*_pair(one)) for one in given or ())


def _problems(store: Store, task: Task, run: Run, text: str, status: str | None) -> list[Problem]:
    """What the judge will find, except for the checks, which run later."""
    if status not in CLAIMS:
        fix = f"One of: {', '.join(CLAIMS)}."
        return [Problem("status-unknown", f"{status!r} is no status of a return.", fix=fix)]
    folders = store.run_folders(task.id, run.id)
    spec = read_spec(store, task, run)
    returned = preview_return(text.encode(), spec, folders)
    if status != "completed":
        return [one for one in returned.problems if one.code not in ("contract-required", "section-required")]
    return list(preview_verdict(store, task, spec, returned).problems)


def preview_verdict(store: Store, task: Task, spec: dict[str, Any], returned: Returned) -> Verdict:
    """The verdict on a return as it stands, before the run is over and without the checks."""
    folder = store.record(task.id)
    handoff = parse_handoff(str(spec.get("handoff", "")))
    baseline = read_baseline(folder)
    return judge_run(
        Evidence(
            returned=returned.value,
            source=returned.source,
            problems=returned.problems,
            complete_form=returned.complete_form,
            deliverables=tuple(deliverable_facts(store.root, handoff.deliverables, baseline)),
            named=tuple(named_facts(store.root, returned.named_files)),
            steps=live_steps(store.workspace_files(task.id), handoff.plan),
            open_questions=len(task.open_questions),
            strict=task.strict,
        )
    )


def handoff_of_caller(session: Session) -> Reply:
    """What this run was given: its HANDOFF.md, the plan as it stands, its answers, and where to return."""
    caller = find_caller(session.store)
    if caller.task is None or caller.run is None:
        raise BadInput("A handoff belongs to a run; this is a shell.", "See a task: overhand show ID")
    task = session.store.task(caller.task)
    if not caller.live:
        raise StaleRun(
            f"Run {caller.run} has ended; its task is no longer its own.", "Nothing more is to be done: end."
        )
    raw = session.store.workspace_files(caller.task).read("HANDOFF.md") or b""
    from overhand.questions import full_answer
    from overhand.runs import read_steps

    more = {
        "run": caller.run,
        "title": task.title,
        "text": raw.decode("utf-8", "replace"),
        "steps": [{"n": one.number, "text": one.text, "state": one.state} for one in read_steps(raw)],
        "answers": [
            {"seq": q.seq, "question": q.text, "answer": full_answer(session.store, caller.task, q)}
            for q in task.questions
            if not q.is_open
        ],
        "open_questions": [question.seq for question in task.open_questions],
        "level": task.level,
        "seconds_left": None if caller.left is None else round(caller.left),
        "checks": [check.command for check in task.checks],
        "can_delegate": caller.can_delegate,
        "output": session.store.desk_files(caller.task, caller.run).shown("OUTPUT.md"),
    }
    return Reply({**about_task("handoff", task), **more})
