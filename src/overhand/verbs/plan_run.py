"""`plan run`, `plan show` and `plan graph`: start a plan, show its state, and wait for its end."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, NotTrusted, Refused
from overhand.plans import FAILED, HELD, PENDING, READY, SKIPPED, STOPPED, VERIFIED
from overhand.policy import (
    Actor,
    find_caller,
    is_trusted_content,
    load_config,
    parse_setting,
    require_known,
    trusted_config,
)
from overhand.record import PLAN_KIND
from overhand.verbs import plan as plans
from overhand.verbs.plan import SCHEMA, PlanSource
from overhand.verbs.plan_view import View, line
from overhand.verbs.setup import plan_commands
from overhand.verbs.tasks import refresh_task
from overhand.verbs.verb import Pending, Recorded, Reply, Session, is_file
from overhand.words import option_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from overhand.plans import Plan
    from overhand.policy import Caller
    from overhand.record import Task

    Row = dict[str, Any]


def run(
    session: Session,
    word: str,
    strict: bool = False,
    stdin: bool = False,
    wait: bool = False,
    max_parallel: str | None = None,
    dry_run: bool = False,
    budget: str | None = None,
    timeout: str | None = None,
    set: list[str] | None = None,
) -> Reply:
    """Run a plan from a file or standard input."""
    given = plans.plan_source(word, stdin=stdin, folder=session.folder())
    limits = {"max_parallel": max_parallel, "budget": budget, "timeout": timeout}
    if dry_run:
        return Reply(plan_dry_run(session, given, strict=strict, **limits))
    task, held, plan, found = accept_plan(session, given, strict=strict, settings=set, **limits)
    if wait:
        with Recorded(task):
            if held:
                raise Refused(held)
            return wait_for(session, task.id)
    receipt = plan_receipt(session, task, plan, found)
    return Reply({**receipt, "reason": held} if held else receipt)


def accept_plan(
    session: Session,
    given: PlanSource,
    *,
    strict: bool = False,
    settings: list[str] | None = None,
    max_parallel: str | None = None,
    budget: str | None = None,
    timeout: str | None = None,
) -> tuple[Task, str, Plan, plans.Checked]:
    """Make a task for the plan, if nothing is wrong with it and the caller may run it; and why it waits, if it does."""
    from overhand.verbs.delegate import note_refusal
    from overhand.verbs.setup import ask_for_trust, ensure_project

    plans.refuse_link_outside(session, given)
    caller = find_caller(session.store)
    if settings and not (caller.is_person and session.via != "mcp"):
        raise Refused("--set comes from a person, never from an agent.", "Leave it out.")
    wanted = dict(parse_setting(text) for text in settings or ())
    load_config(session.root, wanted)  # an invalid setting is refused before anything else
    found = plans.check_source(session, given, strict=strict)
    plan = with_limits(
        plans.require_sound_plan(given, found), max_parallel=max_parallel, budget=budget, timeout=timeout
    )
    ask_for_trust(session, caller)
    try:
        options = {
            "name": os.path.basename(given.path) or "plan.yaml",
            "budget": budget,
            "settings": wanted,
            "trusted": may_run_plan(session, caller, given, plan),
        }
        ensure_project(session)
        return *submit_plan(session, plan, given.raw.decode("utf-8", "replace"), options), plan, found
    except Refused as error:
        note_refusal(session, caller, plan.task, PLAN_KIND, error)
        raise


def submit_plan(session: Session, plan: Plan, source: str, options: Mapping[str, Any]) -> tuple[Task, str]:
    """Make the plan's task, under the guards of any delegation, and hand it to the supervisor; and why it waits."""
    from overhand.plans import make_plan_task

    caller = find_caller(session.store)
    require_known(caller, "Running a plan")
    actor = Actor(session.store, trusted_config(session.root), caller.by(session.via), session.env)
    made = make_plan_task(actor, caller, plan, source, options)
    return made, "" if options.get("no_start") else session.hand_over([made.id])


def with_limits(
    plan: Plan, *, max_parallel: str | None = None, budget: str | None = None, timeout: str | None = None
) -> Plan:
    """The plan with the limits of the command line."""
    changes: dict[str, Any] = {}
    if max_parallel is not None:
        if not (max_parallel.isascii() and max_parallel.isdigit() and len(max_parallel) < 7):
            raise BadInput(f"--max-parallel cannot be {max_parallel!r}.", "Write a number: --max-parallel 3")
        changes["max_parallel"] = int(max_parallel)
    if timeout is not None:
        changes["timeout"] = option_duration("--timeout", timeout)
        if not changes["timeout"]:
            raise BadInput("--timeout is no time at all.", "Write it as 30s, 5m or 2h.")
    if budget is not None:
        from overhand.drafts import checked_budget
        from overhand.policy import parse_budget

        checked_budget(budget)
        if tokens := parse_budget(budget).tokens:
            changes["budget"] = int(tokens)
    return replace(plan, **changes) if changes else plan


def may_run_plan(session: Session, caller: Caller, given: PlanSource, plan: Plan) -> bool:
    """Whether its commands are trusted; raises where that is needed and they are not.

    A person's own text is trusted. A file of the project has to be trusted first, for it may have come with a clone.
    A plan from an agent may name agents, as any delegation may, but no command.
    """
    name = given.inside(session.root)
    if name is not None and is_trusted_content(session.root, name, given.raw):
        return True
    if caller.is_person and session.via != "mcp":
        if name is not None:
            _ask(session, given, name)
        return True
    if found := plan_commands(plan):
        raise NotTrusted(
            f"{given.word} would run commands, and nobody has trusted it: {'; '.join(found[:5])}. Nothing was run.",
            "Leave the commands out, or ask the person to type: overhand trust FILE",
            commands=found,
        )
    return False


def _ask(session: Session, given: PlanSource, name: str) -> None:
    """Ask on a terminal whether to trust the file; the bytes that were read must be the trusted ones."""
    refused = NotTrusted(
        f"Not trusted yet: {name}. Nothing was run.", f"Read it, then: overhand trust {given.word}", files=[name]
    )
    if session.confirm is None:
        raise refused
    from overhand.verbs.setup import trust_project

    trust_project(session, file=[given.path])
    if not is_trusted_content(session.root, name, given.raw):
        raise refused  # it was changed meanwhile


def plan_dry_run(session: Session, given: PlanSource, *, strict: bool = False, **limits: str | None) -> dict[str, Any]:
    """What would run when, by whom and within which limits."""
    from overhand.plans import plan_waves, score_plan

    found = plans.check_source(session, given, strict=strict)
    plan = with_limits(plans.require_sound_plan(given, found), **limits)
    failure = plan.failure
    on_failure = [failure.policy, *([f"{failure.max_retries} retries"] if failure.max_retries else [])]
    on_failure += [f"then {failure.fallback}"] if failure.fallback else []
    return {
        "schema": SCHEMA,
        "do": "dry-run",
        "file": given.word,
        "task": plan.task,
        "nodes": len(plan.nodes),
        "strategy": score_plan(plan).strategy,
        "merge": plan.merge.strategy,
        "on_failure": ", ".join(on_failure),
        "limits": {
            "max_parallel": _at_once(plan),
            "budget": limits.get("budget") or (f"{plan.budget} tokens" if plan.budget else None),
            "timeout": plan.timeout,
        },
        "waves": [[plans.row(plan, name) for name in wave] for wave in plan_waves(plan.nodes)],
        "commands": plan_commands(plan),
        "warnings": [one.as_json() for one in found.problems],
        "next": [f"overhand plan run {given.word} --wait"],
    }


def _at_once(plan: Plan) -> int | None:
    """How many nodes may be at work together, if the plan says so."""
    return 1 if plan.strategy == "sequential" else plan.max_parallel or None


def plan_receipt(session: Session, task: Task, plan: Plan, found: plans.Checked) -> dict[str, Any]:
    """The object of `plan run`."""
    from overhand.plans import score_plan

    handle = task.handle
    return {
        "schema": SCHEMA,
        "do": "run",
        "task_id": task.id,
        **{key: getattr(task, key) for key in ("handle", "title", "agent")},
        "state": "accepted",
        "nodes": len(plan.nodes),
        "strategy": score_plan(plan).strategy,
        "max_parallel": _at_once(plan),
        "timeout": plan.timeout,
        "budget": task.budget,
        "depth": task.depth,
        "path": task.path,
        "warnings": [one.as_json() for one in found.problems],
        "folder": session.store.relative(session.store.workspace(task.id)),
        "next": [f"overhand plan show {handle} --watch", f"overhand wait {handle}", f"overhand stop {handle}"],
    }


# the words of the output form; of all other states: running
_STATUSES = {
    VERIFIED: "completed",
    FAILED: "failed",
    SKIPPED: "skipped",
    STOPPED: "cancelled",
    PENDING: "pending",
    HELD: "pending",
    READY: "pending",
}


def find_plan(session: Session, word: str) -> str:
    """The task of a plan; - is the last plan, not the last of its nodes."""
    task = session.store.task(session.store.resolve(word))
    if word == "-" and not task.is_plan:
        made = sorted(session.store.tasks(), key=lambda one: one.handle or 0)
        task = next((one for one in reversed(made) if one.is_plan), task)
    if not task.is_plan:
        of = task.plan if task.node else None
        hint = f"It is a node of plan {of}: overhand plan show {of}" if of else f"See it: overhand show {task.name}"
        raise BadInput(f"Task {task.name} is no plan.", hint)
    refresh_task(session, task)
    return task.id


def show(session: Session, word: str, watch: bool = False, format: str = "text") -> Reply:
    """The tree, once or until it is judged; or the plan with its states as a document."""
    if format not in ("text", "yaml", "json"):
        raise BadInput(f"--format cannot be {format!r}.", "One of: text, yaml, json")
    if watch and format != "text":
        raise BadInput(f"--watch shows text, not {format}.", "Leave one of them out; --json --watch prints JSON lines.")
    view = View(session, find_plan(session, word))
    view.look()
    if format != "text":
        return Reply(_document(session, view, format))
    if not watch:
        return Reply(view.payload())
    if not session.plain:
        answer = Reply({"schema": SCHEMA})
        answer.stream = _stream(session, view, answer)
        return answer
    for _ in _each(session, view):
        _draw(session, view)
    payload = view.payload()
    return Reply(payload, 0 if payload["status"] == "completed" else 1)


def _document(session: Session, view: View, format: str) -> Row:
    """The output form, with the states and results of now."""
    from overhand.plans import as_yaml, plan_document, result_value

    rows: dict[str, Row] = {}
    for name, known in view.state.nodes.items():
        status = _STATUSES.get(known.state, "running")
        rows[name] = {"status": "partial" if status == "completed" and known.status == "partial" else status}
        if known.state == VERIFIED and name in view.tasks:
            value = result_value(session.store, view.tasks[name], known.digest)
            rows[name]["result"] = {"summary": value.summary} if value.data is None else value.data
    own = session.store.task(view.task_id)
    status = own.status if own.status is not None else "running" if own.runs else "pending"
    made = plan_document(view.plan, str(status), rows)
    text = as_yaml(made) if format == "yaml" else json.dumps(made, ensure_ascii=False, indent=2, default=str)
    head = {"schema": SCHEMA, "do": "show", "task_id": view.task_id, "handle": own.handle, "format": format}
    return {**head, "plan": made, "text": text, "raw": True}


def graph(session: Session, word: str, format: str = "mermaid", out: str | None = None) -> Reply:
    """The plan of a file, or of a task with the states of its nodes."""
    from overhand.plans import PICTURE_FORMATS, draw_plan

    if format not in PICTURE_FORMATS:
        raise BadInput(f"--format cannot be {format!r}.", f"One of: {', '.join(PICTURE_FORMATS)}")
    states: dict[str, str] = {}
    if is_file(word):
        given = plans.plan_source(word)
        found = plans.check_source(session, given)
        plan = found.plan or plans.require_sound_plan(given, found)  # one with errors can be drawn, a cycle shows
    else:
        view = View(session, find_plan(session, word))
        view.look()
        plan, states = view.plan, view.states()
    text = draw_plan(plan, states, format)
    payload = {"schema": SCHEMA, "do": "graph", "format": format, "nodes": len(plan.nodes), "text": text}
    if out is None or out == "-":
        return Reply({**payload, "raw": True})
    from overhand.system import write_file

    if os.path.isdir(out):
        raise BadInput(f"--out {out} is a folder.", f"Name the file to write, such as plan.{format}")
    write_file(os.path.realpath(out), text)
    return Reply({**payload, "out": out})


_PAUSE = 0.5  # seconds; a plan's own events ring no bell


def _each(session: Session, view: View, until: float = float("inf")) -> Iterator[Task]:
    """Yields after every change of the plan, until it is at rest or the time is over."""
    with session.store.subscribe([view.task_id]) as bell:
        while True:
            task = refresh_task(session, session.store.task(view.task_id))
            view.look()
            if task.is_idle or time.monotonic() >= until or session.is_gone():
                return
            yield task
            bell.wait(min(_PAUSE, until - time.monotonic()))


def _stream(session: Session, view: View, answer: Reply) -> Iterator[Row]:
    before: Row = {}
    for _ in _each(session, view):
        payload = view.payload()
        rows = [{key: value for key, value in row.items() if key != "seconds"} for row in payload["nodes"]]
        steady = {**payload, "seconds": None, "nodes": rows}  # without the times, which always change
        if steady != before:
            before = steady
            yield payload
    payload = view.payload()
    answer.code = 0 if payload["status"] == "completed" else 1
    yield payload


def _draw(session: Session, view: View) -> None:
    """The tree on a terminal that redraws it in place, else a line about it."""
    if session.draw is not None:
        session.draw(view.payload(handles=False))
    else:
        session.progress(line(view))


def plan_rows(session: Session, task_id: str) -> Row:
    """The tree as it is now."""
    view = View(session, task_id)
    view.look()
    return view.payload()


def wait_for_plan(session: Session, task_id: str, until: float) -> bool:
    """Show progress until it is at rest (then True), a node asks something or the time is over."""
    view = View(session, task_id)
    wakes = find_caller(session.store).is_person  # a run waits on, as it does for an answer to its own question
    with _slotless(session, task_id):
        for _ in _each(session, view, until):
            session.progress(line(view))
            if wakes and view.asks():
                break
    return session.store.task(task_id).is_idle


@contextmanager
def _slotless(session: Session, task_id: str) -> Iterator[None]:
    """A run that waits for its plan holds no slot."""
    from overhand.questions import mark_of_caller
    from overhand.supervisor import hand_to_supervisor

    caller = find_caller(session.store)
    with mark_of_caller(session.store, caller.task, caller.run):
        if not caller.is_person:
            hand_to_supervisor(session.store, [task_id])  # our slot is free now
        yield


def wait_for(session: Session, task_id: str) -> Reply:
    """Wait until the plan is judged and show its tree; the same reply as `wait`."""
    from overhand.verbs.show import describe_task

    view = View(session, task_id)

    def judged() -> Reply:
        task = session.store.task(task_id)
        view.look()
        shown = {**describe_task(session, task, "plan"), "do": "run", "nodes": view.payload()["nodes"]}
        if task.status == "completed":
            return Reply(shown)
        return Reply({**shown, "reason": task.summary}, 1)

    def look(_over: bool) -> Reply | None:
        view.look()
        if refresh_task(session, session.store.task(task_id)).is_idle:
            return judged()
        session.progress(line(view))
        return None

    if session.defers:
        return session.wait(Pending([task_id], look, float("inf")))
    try:
        with _slotless(session, task_id):
            for _ in _each(session, view):
                _draw(session, view)
            if session.draw is not None:
                session.draw(view.payload())
    except KeyboardInterrupt:
        handle = session.store.task(task_id).handle
        session.tell(f"The work goes on. See it: overhand plan show {handle} --watch · stop it: overhand stop {handle}")
        raise
    return judged()
