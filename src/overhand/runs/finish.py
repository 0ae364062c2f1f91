"""After a run: collect the evidence, run the checks, judge, promote, record."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.agents import QuotaPause, describe_pause, find_stand_in, limit_met, stream_summary
from overhand.documents import parse_handoff, promises_files
from overhand.errors import Busy, StorageUnavailable
from overhand.items import is_tag_behind, recovery_events, sync_tag
from overhand.questions import (
    Asking,
    ask_question,
    ended_waiting,
    has_leftovers,
    let_leftovers_end,
    next_run_after_verdict,
    question_in_return,
    take_in_files,
)
from overhand.record import Accepted, Judged, Notice
from overhand.runs import checks, control, evidence, handover, prepare, result, spending, work, worktree
from overhand.runs.evidence import Collected
from overhand.runs.judge import Evidence, Verdict, judge_run
from overhand.runs.result import Case
from overhand.system import mask_secrets, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from overhand.agents import StreamSummary
    from overhand.policy import Actor
    from overhand.record import Event, Run, Store, Task

MAX_REPAIRS = 2
_OF_WRITERS = ("deliverable-", "read-only-changed")  # problems that only a run which may write can mend


def finish_run(
    actor: Actor, task_id: str, *, patient: bool = False, on_verdict: Callable[[Task], None] = lambda _: None
) -> Task:
    """Judge the run that has ended, once; a second caller finds it judged, or waits for that if patient.

    `on_verdict` is called with our verdict while the task is locked, before an item's tag can show it; with another
    process's verdict when we find it.
    """
    ours: list[Task] = []

    def tell(judged: Task) -> None:
        ours.append(judged)
        on_verdict(judged)

    task = _finish(actor, task_id, patient, tell)
    if not ours and unjudged_run(task) is None:
        on_verdict(task)
    spending.settle_budget(actor, task)
    if task.item and is_tag_behind(task):
        try:
            return sync_tag(actor.store, actor.by, task_id)
        except (Busy, StorageUnavailable):
            return task  # another process keeps writing to the item's file, or the disk is full: a supervisor retries
    return task


def give_up(actor: Actor, task_id: str, why: str) -> None:
    """Judge a task failed that can neither be started nor judged, because its files are damaged."""
    with actor.store.lock(task_id, actor.by) as locked:
        ended = unjudged_run(locked.task)
        if locked.task.queued or ended is not None:
            judged = Judged(run=ended.id if ended else None, status="failed", summary=why[:500])
            locked.append(judged, sync=True)


def _finish(actor: Actor, task_id: str, patient: bool, on_verdict: Callable[[Task], None]) -> Task:
    task = actor.store.recorded(task_id)
    ended = unjudged_run(task)
    if ended is None:
        return task
    task = take_in_files(actor.store, task, actor.by, final=True).task
    if ended.control:
        task = control.drain(actor, task, ended)
    place = actor.store.run_folder(task_id, ended.id)
    with _only_one(place, patient) as mine:
        task = actor.store.recorded(task_id)
        if not mine or unjudged_run(task) is None:
            return task
        folders = actor.store.run_folders(task_id, ended.id)
        noticed = evidence.collect_return(actor.store, task, folders)
        task = spending.close_run(actor, task, ended)
        spec = prepare.read_spec(actor.store, task, ended)
        given = prepare.read_spec(actor.store, task, work.first_attempt(task, ended))  # before the agent could edit it
        handoff = parse_handoff(str(given.get("handoff", "")))
        case = gather_evidence(actor, task, ended, Collected(folders, spec, handoff, noticed))
        if actor.store.recorded(task_id).is_unwanted:
            case = case.cancelled()
        verdict = judge_run(case.found)
        if _met_limit(case, verdict):
            return _wait_for_provider(case)
        if _wants_repair(task, verdict, spec) and not has_leftovers(actor.store, task):
            write_file(f"{place}/problems.json", json.dumps(_to_repair(verdict, actor.secrets)))
            return _queue_again(case, Accepted(repair=ended.id))
        if verdict.status == "needs-input" == verdict.claimed:
            case = _ask_for_it(case, verdict)
        _, event = result.write_result(case, verdict)
        if ended_waiting(task, ended):
            let_leftovers_end(actor.store, task)
        with actor.store.lock(task_id, actor.by) as locked:
            if unjudged_run(locked.task) is not None:
                following = _after_verdict(actor.store, locked.task, event, ended)
                if task.item and not following:
                    following = recovery_events(locked.task, event, ended, case.returned.value)
                locked.append(event, *following, sync=actor.sync_results)
                on_verdict(locked.task)
            return locked.task


def _to_repair(verdict: Verdict, secrets: Mapping[str, str]) -> list[dict[str, Any]]:
    """The problems, as the next run gets them; its last words belong to a return that is missing."""
    shown = [problem.as_json() for problem in verdict.problems]
    for one in shown:
        if one["code"] == "return-missing" and verdict.last_words:
            one["detail"] = "\n".join(filter(None, (str(one.get("detail", "")), verdict.last_words)))
    return [result.without_secrets(one, secrets) for one in shown]


def _ask_for_it(case: Case, verdict: Verdict) -> Case:
    """A return that says needs-input is a question too: it gets a number, and can be answered like any other."""
    details = case.returned.output.for_primary if case.returned.output else ""
    details = details or (case.returned.value.next_steps if case.returned.value else "")
    text = mask_secrets(question_in_return(case.task, case.ended, verdict.summary, details), case.actor.secrets)
    if not text:
        return case
    store, task_id = case.actor.store, case.task.id
    ask_question(store, task_id, case.ended.id, Asking(text=text, via="return"), case.actor.by)
    return replace(case, task=store.recorded(task_id))


def _after_verdict(store: Store, task: Task, judged: Judged, ended: Run) -> list[Event]:
    """What a verdict sets off at once: the next run, or a notice why there is none."""
    if has_leftovers(store, task):
        return []  # nothing is started beside them
    following = next_run_after_verdict(task, ended, judged, leftovers=False)
    if following is not None:
        return [following]
    return [] if ended_waiting(task, ended) else spending.hand_over(task, ended, judged.status)


def unjudged_run(task: Task) -> Run | None:
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


def gather_evidence(actor: Actor, task: Task, ended: Run, collected: Collected) -> Case:
    """Everything the verdict and the receipt rest on."""
    folders, spec, handoff = collected.folders, collected.spec, collected.handoff
    place = folders.place
    summary = stream_summary(place, ended.driver)
    returned = evidence.read_return(folders, spec, collected.given, summary, collected.problems)
    root = task.workplace(actor.store.root)
    promised = promises_files(handoff)
    baseline = worktree.read_baseline(folders.record) if promised else {}
    tree = work.look_at_tree(actor, task, ended) if spec.get("tree", True) else work.TreeNow()
    wants_checks = ended.cause != "cancelled" and bool(task.checks)
    ran = tuple(checks.checks_after(actor, task, f"{place}/checks", ended)) if wants_checks else ()
    if ran and tree.worked:
        work.note_byproducts(actor, task)
    company = work.company_of(actor, task, ended) if tree.changed or (ran and tree.first) else []
    said = _said_last(folders.place, ended, summary, claims=bool(returned.value and returned.value.status))
    found = Evidence(
        returned=returned.value,
        source=returned.source,
        problems=returned.problems,
        complete_form=returned.complete_form,
        cause=ended.cause or "exit",
        exit=ended.exit,
        deliverables=tuple(worktree.deliverable_facts(root, handoff.deliverables, baseline)) if promised else (),
        prose=tuple([d.text for d in handoff.deliverables if d.path is None]),
        named=tuple(worktree.named_facts(root, returned.named_files)),
        checks=ran,
        facts=returned.facts,
        unverified=returned.unverified,
        steps=evidence.live_steps(folders.workspace_files, handoff.plan),
        by_hand=ended.opened,
        final=summary.end if summary else None,
        final_why=summary.why if summary else "",
        last_words=said[0],
        stderr=said[1],
        denied=tuple(dict.fromkeys(summary.denied)) if summary else (),
        open_questions=len(task.open_questions),
        paused=ended_waiting(task, ended),
        escalated=(called.reason or "no reason given") if (called := task.escalation(ended.id)) else "",
        delegated=len(task.awaited_children(ended.id)),
        changed=tuple(tree.changed or ()) if not company else (),
        work=work.work_of(actor, (task, ended), tree, company, ran),
        contract=str(spec.get("contract") or ""),
        asked_by_person=task.depth <= 1,
        read_only=task.level == "read",
        strict=task.strict,
    )
    look_at = work.to_look_at(root, tree, ended, company, ran)
    return Case(actor, task, ended, folders, returned, found, look_at)


def _said_last(place: str, ended: Run, summary: StreamSummary | None, *, claims: bool) -> tuple[str, str]:
    """The agent's last words, if it left no return, and the end of its stderr, if it ended badly or left none."""
    if claims and ended.exit == 0:
        return "", ""
    stderr = handover.tail_of_file(f"{place}/stderr")
    if claims:
        return "", stderr
    return checks.last_lines(summary.last_words) if summary else handover.tail_of_file(f"{place}/stdout"), stderr


def _met_limit(case: Case, verdict: Verdict) -> bool:
    """Whether its provider's limit kept the run from its end; a result that holds all the same is a result."""
    short = verdict.status != "completed" and verdict.claimed in (None, "completed")
    return short and case.found.final == "rate-limit" and case.found.cause in ("exit", "killed")


def _wait_for_provider(case: Case) -> Task:
    """Queue the task again, without a verdict: it continues after the reset, or another agent takes over now."""
    store = case.actor.store
    summary = stream_summary(case.folders.place, case.ended.driver)
    if summary is None:
        return case.task
    event = limit_met(store, case.task, case.ended, summary)
    if other := find_stand_in(store, case.task, case.actor.config_of(case.task)):
        event = event.replace(agent=other, limit={**(event.limit or {}), "to": other})
    paused = describe_pause(case.ended.driver, QuotaPause((event.limit or {})["until"]))
    then = f"{other} takes over." if other else "It goes on then by itself."
    return _queue_again(case, event, Notice(text=f"{paused}. {then}"))


def _wants_repair(task: Task, verdict: Verdict, spec: dict[str, Any]) -> bool:
    current = task.current_run
    if current is None or current.cause not in ("exit", "killed") or current.opened:
        return False
    reruns = task.repairs < MAX_REPAIRS and bool(spec.get("agent", {}).get("reruns"))
    return reruns and can_be_mended(verdict, spec)


def can_be_mended(verdict: Verdict, spec: dict[str, Any]) -> bool:
    """Whether a better return would change the verdict."""
    if not verdict.errors or verdict.claimed not in (None, "completed"):
        return False
    if any(problem.code == "final-event" for problem in verdict.problems):
        return False  # its return is not what is wrong: the next run would meet the same error
    # a run that may only read can't mend what takes a writer
    return spec.get("level") != "read" or not all(p.code.startswith(_OF_WRITERS) for p in verdict.errors)


def _queue_again(case: Case, *events: Event) -> Task:
    """Record the task's next run instead of a verdict."""
    with case.actor.store.lock(case.task.id, case.actor.by) as locked:
        if unjudged_run(locked.task):
            locked.append(*events)
        return locked.task
