"""After a run: collect the evidence, run the checks, judge, promote, record."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.agents import quota, sessions, translator
from overhand.documents import handoff as handoffs
from overhand.documents.problems import Problem
from overhand.errors import Busy
from overhand.items import recovery, sync
from overhand.policy import trust
from overhand.questions import files, record, resume
from overhand.record.events import Accepted, Judged, Notice
from overhand.runs import control, evidence, prepare, result, spending, worktree
from overhand.runs.judge import CheckFact, Evidence, Verdict, judge
from overhand.runs.result import Case
from overhand.system import machine
from overhand.system.files import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.policy.actor import Actor
    from overhand.record.events import Event
    from overhand.record.store import Store
    from overhand.record.task import Run, Task
    from overhand.runs.evidence import Returned

MAX_REPAIRS = 2
_COARSE = 2.0  # seconds that the times of files may be behind
_OF_WRITERS = ("deliverable-", "read-only-changed")  # problems that only somebody who may write can mend


def finish(work: Actor, task_id: str, *, patient: bool = False, told: Callable[[Task], None] = lambda _: None) -> Task:
    """Judge the run that has ended, once; whoever comes second finds it judged, or waits for that if patient.

    `told` hears of a verdict of ours while the task is locked: before anybody can have the tag of an item show it. Of
    somebody else's it hears when we find it.
    """
    ours: list[Task] = []

    def tell(judged: Task) -> None:
        ours.append(judged)
        told(judged)

    task = _finish(work, task_id, patient, tell)
    if not ours and unjudged(task) is None:
        told(task)
    spending.settle(work, task)
    if sync.owes(task):
        try:
            return sync.show(work.store, work.by, task_id)
        except Busy:
            return task  # somebody writes to the item's file all the time: a supervisor tries it again
    return task


def _finish(work: Actor, task_id: str, patient: bool, told: Callable[[Task], None]) -> Task:
    task = work.store.task(task_id)
    ended = unjudged(task)
    if ended is None:
        return task
    task = control.drain(work, files.take_in(work.store, task, work.by, final=True).task)
    place = work.store.run_folder(task_id, ended.id)
    with _only_one(place, patient) as mine:
        task = work.store.task(task_id)
        if not mine or unjudged(task) is None:
            return task
        task = spending.close_run(work, task, ended)
        spec = _json(f"{place}/spec.json") or {}
        handoff = handoffs.parse(str(spec.get("handoff", "")))
        case = gather(work, task, ended, place, spec, handoff)
        if prepare.is_unwanted(work.store, task_id):
            case = case.cancelled()
        verdict = judge(case.found)
        if _met_limit(case, verdict):
            return _wait_for_provider(case)
        if _wants_repair(task, verdict, spec) and not record.has_leftovers(work.store, task):
            return _send_back(work, task_id, ended.id, place, verdict)
        if verdict.status == "needs-input" == verdict.claimed:
            case = _ask_for_it(case, verdict)
        _, event = result.put_documents(case, verdict)
        if resume.ended_waiting(task, ended):
            record.let_end(work.store, task)
        with work.store.lock(task_id, work.by) as locked:
            if unjudged(locked.task) is not None:
                following = _after_verdict(work.store, locked.task, event, ended)
                following = following or recovery.events(locked.task, event, ended, case.returned.value)
                locked.append(event, *following, sync=work.sync_results)
                told(locked.task)
            return locked.task


def _ask_for_it(case: Case, verdict: Verdict) -> Case:
    """A return that says needs-input is a question too: it gets a number, and can be answered like any other."""
    said = case.returned.output.for_primary if case.returned.output else ""
    said = said or (case.returned.value.next_steps if case.returned.value else "")
    text = resume.question_in_return(case.state, case.ended, verdict.summary, said)
    if not text:
        return case
    store, task_id = case.work.store, case.state.id
    record.ask(store, task_id, case.ended.id, record.Asking(text=text, via="return"), case.work.by)
    return replace(case, state=store.task(task_id))


def _after_verdict(store: Store, task: Task, judged: Judged, ended: Run) -> list[Event]:
    """What a verdict sets off at once: the next run, or a word why there is none."""
    if record.has_leftovers(store, task):
        return []  # nothing is started beside them
    following = resume.next_run_after_verdict(task, ended, judged, leftovers=False)
    if following is not None:
        return [following]
    return [] if resume.ended_waiting(task, ended) else spending.hand_over(task, ended, judged.status)


def unjudged(task: Task) -> Run | None:
    """The run that has ended and waits for its verdict."""
    current = task.current_run
    return current if current and current.has_ended else None


@contextmanager
def _only_one(place: str, patient: bool) -> Iterator[bool]:
    """Checks take long, so they run outside the task's lock; this one keeps a second judge out meanwhile."""
    os.makedirs(place, exist_ok=True)
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)  # a folder can be locked as a file can
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
            mine = True
        except BlockingIOError:
            mine = False
        yield mine
    finally:
        os.close(fd)


def gather(
    work: Actor,
    task: Task,
    ended: Run,
    place: str,
    spec: dict[str, Any],
    handoff: handoffs.Handoff,
    given: object = None,
) -> Case:
    """Everything the verdict and the receipt rest on."""
    folder = work.store.folder(task.id)
    heard = sessions.heard(place, ended.driver)
    returned = evidence.collect(task, folder, place, spec, given, heard)
    root = work.store.root
    promised = handoffs.promises_files(handoff)
    baseline = (_json(f"{folder}/baseline.json") or {}) if promised else {}
    changed, alone = _changes(work, task, ended, place) if spec.get("tree", True) else (None, True)
    wants_checks = ended.cause != "cancelled" and bool(task.checks)
    problems = list(returned.problems)
    if wants_checks and not trust.sealed(task):
        wants_checks = False
        problems.append(Problem("check-not-run", f"{trust.foreign(task)} Its checks were not run.", of="substance"))
    found = Evidence(
        returned=returned.value,
        source=returned.source,
        problems=tuple(problems),
        complete_form=returned.complete_form,
        cause=ended.cause or "exit",
        exit=ended.exit,
        deliverables=tuple(worktree.deliverable_facts(root, handoff.deliverables, baseline)) if promised else (),
        prose=tuple([d.text for d in handoff.deliverables if d.path is None]),
        named=tuple(worktree.named_facts(root, named)) if (named := _named(returned)) else (),
        checks=tuple(checks_after(work, task, f"{place}/checks")) if wants_checks else (),
        facts=returned.facts,
        unverified=returned.unverified,
        steps=evidence.live_steps(folder) if handoff.plan else (),
        by_hand=_by_hand(ended),
        final=heard.end if heard else None,
        final_why=heard.why if heard else "",
        denied=tuple(dict.fromkeys(heard.denied)) if heard else (),
        open_questions=len(task.open_questions),
        paused=resume.ended_waiting(task, ended),
        escalated=control.escalation(task, ended.id),
        delegated=len(task.awaited_children(ended.id)),
        changed=tuple(changed or ()) if alone else (),
        read_only=task.level == "read",
        strict=task.strict,
    )
    look_at = {
        "changed": changed,
        "alone": alone,
        "sensitive": worktree.sensitive(changed or ()),
        "leftovers": ended.leftovers,
    }
    return Case(work, task, ended, place, returned, found, look_at)


def checks_after(work: Actor, task: Task, folder: str) -> list[CheckFact]:
    """The checks on the result, beside what they said on the base."""
    base = f"{work.store.folder(task.id)}/checks/before"
    before = prepare.run_checks(work, task, base) if os.path.isdir(base) else []
    return prepare.run_checks(work, task, folder, before)


def _changes(work: Actor, task: Task, ended: Run, place: str) -> tuple[list[str] | None, bool]:
    """Files that changed since the run began, or the one that it repairs, and whether nobody else was at work then."""
    first = ended
    for earlier in reversed([run_ for run_ in task.runs if run_.id != ended.id]):
        if earlier.status != "repair":
            break
        first, place = earlier, work.store.run_folder(task.id, earlier.id)
    before = _json(f"{place}/tree.json")
    if before is None:
        return None, True
    changed = worktree.changed_between(work.store.root, before, worktree.snapshot(work.store.root))
    if not changed:
        return changed, True  # whoever else was at work: there is nothing that it could be taken for
    began = machine.epoch(first.created)
    others = [s for s in work.store.at_work(began - _COARSE) if s.id != task.id]
    alone = not any(_was_live_since(other, began, ended.ended) for other in others)
    return changed, alone


def _was_live_since(task: Task, began: float, ended: str | None) -> bool:
    """Whether one of its runs overlapped the time from `began` to `ended`."""
    until = machine.epoch(ended) or float("inf")
    return any(
        machine.epoch(run_.created) < until and (run_.ended is None or machine.epoch(run_.ended) > began)
        for run_ in task.runs
    )


def _named(returned: Returned) -> list[tuple[str, str]]:
    """Files that the return names, each once."""
    notes: dict[str, str] = {}
    if returned.output:
        for note in (*returned.output.files_modified, *returned.output.deliverables):
            notes.setdefault(note.path, note.note)
    if returned.value and not returned.output:
        for artifact in returned.value.artifacts:
            if artifact.path:
                notes.setdefault(artifact.path, artifact.summary)
    return [(path, note) for path, note in notes.items() if path and "://" not in path]


def _met_limit(case: Case, verdict: Verdict) -> bool:
    """Whether its provider's limit kept the run from its end; a result that holds all the same is a result."""
    short = verdict.status != "completed" and verdict.claimed in (None, "completed")
    return short and case.found.final == "rate-limit" and case.found.cause in ("exit", "killed")


def _wait_for_provider(case: Case) -> Task:
    """The task is queued again, without a verdict: it goes on after the reset, or another agent takes over now."""
    work, task_id = case.work, case.state.id
    heard = sessions.heard(case.place, case.ended.driver)
    if heard is None:
        return case.state
    event = quota.met(work.store, case.state, case.ended, heard)
    if other := quota.stand_in(work.store, case.state, work.config_of(case.state)):
        event = event.replace(agent=other, limit={**(event.limit or {}), "to": other})
    paused = quota.say(case.ended.driver, quota.Pause((event.limit or {})["until"]))
    then = f"{other} takes over." if other else "It goes on then by itself."
    with work.store.lock(task_id, work.by) as locked:
        if unjudged(locked.task):
            locked.append(event, Notice(text=f"{paused}. {then}"))
        return locked.task


def _by_hand(run: Run) -> bool:
    """Whether a person had it on a terminal; what else is attached is a function in a Python process."""
    return run.attached and translator(run.driver) is not None


def _wants_repair(task: Task, verdict: Verdict, spec: dict[str, Any]) -> bool:
    current = task.current_run
    if not (verdict.errors and current and current.cause in ("exit", "killed")):
        return False
    if _by_hand(current):
        return False
    if task.repairs >= MAX_REPAIRS or not can_be_mended(verdict, spec):
        return False
    return bool(spec.get("agent", {}).get("reruns"))


def can_be_mended(verdict: Verdict, spec: dict[str, Any]) -> bool:
    """Whether a better return would change the verdict."""
    if not verdict.errors or verdict.claimed not in (None, "completed"):
        return False
    if any(problem.code == "final-event" for problem in verdict.problems):
        return False  # its return is not what is wrong: the next run would meet the same error
    # who may only read cannot mend what only a writer can
    return spec.get("level") != "read" or not all(p.code.startswith(_OF_WRITERS) for p in verdict.errors)


def _send_back(work: Actor, task_id: str, run_id: str, place: str, verdict: Verdict) -> Task:
    write_file(f"{place}/problems.json", json.dumps([p.as_json() for p in verdict.problems]))
    with work.store.lock(task_id, work.by) as locked:
        if unjudged(locked.task):
            locked.append(Accepted(repair=run_id))
        return locked.task


def _json(path: str) -> Any:
    raw = read_file(path)
    return json.loads(raw) if raw else None
