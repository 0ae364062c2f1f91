"""Function agents in this process: the same folder, guards, judgement and record as a detached run.

While a function asks, its thread waits; its run holds no slot and its clock stands still."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Call, as_return, encode_return, failure_return, read_inputs
from overhand.api.deadline import RunDeadline
from overhand.api.pool import Pool, settle
from overhand.documents import Handoff, promises_files
from overhand.drafts import brief_from_words, only_from_people
from overhand.errors import (
    BudgetExceeded,
    NotShielded,
    OverhandError,
    Refused,
    ToolMissing,
    Unanswered,
    storage_failed,
)
from overhand.policy import Actor, config_of_task, inside_run
from overhand.questions import (
    has_unread_files,
    take_in_files,
)
from overhand.record import ABSENT, INPUTS_FILE, Accepted, LateReturn, RunEnded, RunStarted, new_run_id
from overhand.runs import (
    Collected,
    Prepared,
    archive_last_run,
    check_base,
    collect_return,
    final_usage,
    finish_run,
    gather_evidence,
    in_process_meter,
    judge_run,
    keep_given,
    read_task_handoff,
    reject_task,
    require_no_shield,
    reserve_budget,
    run_created,
    run_prompt,
    settle_budget,
    take_baseline,
    tree_snapshot,
    usage_event,
    write_previous_runs,
    write_result,
)
from overhand.system import hold_life, is_there, repository_of, write_file
from overhand.verbs import draft_in_session, ensure_project, make_tasks, note_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from overhand.agents import Call
    from overhand.api.pool import Pool
    from overhand.drafts import Brief, Draft
    from overhand.policy import Actor, Caller, Config
    from overhand.record import LockedTask, Run, RunFolders, Task
    from overhand.verbs import Session
    from overhand.words import Cause


_MOMENT = 0.1


@dataclass(frozen=True, slots=True)
class FunctionAgent:
    agent: Agent  # as the guards see it
    function: Callable[[Call], object]


class Batch:
    """Tasks accepted together: logs are synced together, before the first start and before results are reported."""

    def __init__(self, session: Session, config: Config, caller: Caller, *, shared: bool) -> None:
        self.session, self.config, self.caller, self.shared = session, config, caller, shared
        self.actor = Actor(session.store, config, caller.by(session.via), sync_results=not shared)
        # with the HANDOFF, as text and parsed; later states are read under the lock
        self.accepted: dict[str, tuple[Task, str, Handoff]] = {}
        self.results: dict[str, tuple[Task, str, dict[str, Any]]] = {}  # as recorded, for waiters in this process
        self.inputs: dict[str, bytes] = {}  # of plans' nodes that were made here
        self.in_repository = repository_of(session.root) is not None
        self._fresh: list[str] = []  # accepted, not yet synced
        self.kept: Future[None] = Future()  # done when that is synced, or the sync failed
        self._called = 0  # handed to the pool and not returned
        self._life: tuple[str, int] | None = None  # TASK/RUN whose `life` all of them share, and its read end
        self._unsynced: set[str] = set()  # judged, not yet synced
        self._syncing = threading.Lock()  # held while results are synced
        self._changed = threading.Condition()

    def accept(self, wanted: Sequence[tuple[dict[str, Any], FunctionAgent]]) -> list[tuple[Task, Brief]]:
        """The same checks and the same events as any delegation; nothing is called before `keep`."""
        briefs = [brief_from_words(given) for given, _ in wanted]
        drafts = [self._draft(brief, function) for brief, (_, function) in zip(briefs, wanted, strict=True)]
        ensure_project(self.session)  # not before: a refusal writes nothing
        tasks = make_tasks(self.session, drafts, self.actor.by, start=False, sync=False)
        self._fresh = [task.id for task in tasks]
        for task, draft in zip(tasks, drafts, strict=True):
            self.accepted[task.id] = task, draft.task.handoff, draft.handoff
        return list(zip(tasks, briefs, strict=True))

    def keep(self) -> None:
        """Sync what was accepted; no function is called before that."""
        try:
            self.session.store.sync(self._fresh)
        except BaseException as error:
            settle(self.kept, error)
            raise
        settle(self.kept)

    def _draft(self, brief: Brief, function: FunctionAgent) -> Draft:
        try:
            only_from_people(self.caller, brief)
            config = config_of_task(self.session.root, self.config, dict(brief.settings))
            return draft_in_session(self.session, brief, function.agent, self.caller, config)
        except Refused as error:
            note_refusal(self.session, self.caller, brief.title, brief.agent, error)
            raise

    def take(self, task: Task, resume: dict[str, Any] | None = None) -> None:
        """A task that was prepared earlier, or one that continues an earlier run."""
        settle(self.kept)
        if resume is not None:
            task = task.but(resume=resume)
            write_previous_runs(self.actor.store, task)
        self.accepted[task.id] = task, *read_task_handoff(self.actor.store, task.id)

    def take_new(self, made: Sequence[tuple[Task, Draft]]) -> None:
        """Tasks that were just created and synced: nothing of them is read again."""
        settle(self.kept)
        for task, draft in made:
            self.accepted[task.id] = task, draft.task.handoff, draft.handoff
            if INPUTS_FILE in draft.task.files:
                self.inputs[task.id] = draft.task.files[INPUTS_FILE]

    def expect(self, more: int) -> None:
        """Add to the number of functions that are to return."""
        with self._changed:
            self._called += more

    def share_life(self, task_id: str, run_id: str) -> str:
        """Show other processes that this one lives: TASK/RUN whose `life` it holds open, made for the first run."""
        with self._changed:
            if self._life is None:
                place = self.session.store.run_folder(task_id, run_id)
                os.makedirs(place, 0o700, exist_ok=True)
                self._life = f"{task_id}/{run_id}", hold_life(place)
            return self._life[0]

    def returned(self) -> None:
        """A function has returned, in time or not; after the last one, none of their runs is alive."""
        with self._changed:
            self._called -= 1
            if self._called:
                return
            self._changed.notify_all()
            if self._life is not None:
                os.close(self._life[1])
                self._life = None

    def add_judged(self, task_id: str) -> None:
        """Note a result that is not on disk yet."""
        with self._changed:
            self._unsynced.add(task_id)

    def sync(self) -> None:
        """Sync every result that is not on disk yet; functions go on meanwhile."""
        with self._syncing:
            with self._changed:
                judged, self._unsynced = self._unsynced, set()
            try:
                self.session.store.sync(judged)
            except BaseException:
                with self._changed:
                    self._unsynced |= judged
                raise

    def before_report(self, task_id: str) -> None:
        """Sync a result before it is reported; those that come within a moment are synced together."""
        with self._changed:
            if task_id in self._unsynced:
                self._changed.wait_for(lambda: self._called == 0, _MOMENT)
        with self._syncing:  # the result may be part of another sync, which must have ended
            is_synced = task_id not in self._unsynced
        if not is_synced:
            self.sync()


@dataclass(frozen=True, slots=True)
class FunctionRun:
    """A run of a function, from its start to its verdict."""

    task: Task
    run_id: str
    folders: RunFolders
    prepared: Prepared
    quick: bool  # nothing slow stands between the return and the verdict


def run_function(batch: Batch, task_id: str, function: FunctionAgent, pool: Pool, future: Future[None]) -> None:
    """One run of a function: claim, call, record, judge."""
    try:
        if (run := _begin(batch, task_id, function, pool)) is not None:
            _perform(batch, run, function, pool, future)
    except OSError as error:
        raise storage_failed(error, f"Task {task_id} cannot go on") from error
    finally:
        batch.returned()


def _perform(batch: Batch, run: FunctionRun, function: FunctionAgent, pool: Pool, future: Future[None]) -> None:

    def past_deadline() -> None:
        """The run is over; its thread goes on, and its result is refused."""
        try:
            _end(batch, run, None, "timeout", pool)
            settle(future)
        except BaseException as error:  # noqa: BLE001 -- it is raised where the result is waited for
            settle(future, error)

    run_deadline = RunDeadline(batch.actor, run.task.id, run.run_id, pool, run.task.timeout, past_deadline)
    value, cause = _outcome(batch, run, function, _call(run, batch, run_deadline), pool)
    run_deadline.end()
    _end(batch, run, value, cause, pool)


def _begin(batch: Batch, task_id: str, function: FunctionAgent, pool: Pool) -> FunctionRun | None:
    """Claim the task: the run's folder first, then, under the same lock, the events that make it one."""
    actor = batch.actor
    task, text, handoff = batch.accepted.pop(task_id)
    take_baseline(actor.store, task, handoff)
    try:
        if task.checks and not task.runs:
            batch.kept.result()
        check_base(actor, task, handoff)
        require_no_shield(actor.config, function.agent, task)
        allowance = reserve_budget(actor, task)
    except (BudgetExceeded, NotShielded, ToolMissing) as error:
        reject_task(actor, task_id, error)
        return None
    if not actor.store.workspace_files(task_id).exists("HANDOFF.md"):  # the disk failed, or it was cleaned away
        actor.store.furnish(task_id)
    tree = tree_snapshot(actor.store.root, steering=bool(task.checks)) if batch.in_repository else None
    prepared = Prepared(function.agent, handoff, text, tree, allowance)
    accepted = Accepted()
    if task.resume is not None:
        cause = task.resume.get("cause", ABSENT)
        accepted = Accepted(agent=function.agent.name, resume=task.resume, cause=cause)
    with pool.paperwork, actor.store.lock(task_id, actor.by, known=task) as locked:
        now = locked.task  # another process may have started or stopped it since it was accepted
        if now.queued or now.stop or now.current_run is not None:
            return None
        if (now.status, len(now.runs)) != (task.status, len(task.runs)):
            return None
        if locked.task.runs:
            archive_last_run(locked, locked.task.runs)
        run_id = new_run_id()
        keep_given(locked, run_id, prepared)
        life = batch.share_life(task_id, run_id)
        # a function waits for room in its own process: only now may others see it as accepted
        made = run_created(run_id, function.agent.name, "function", task.timeout).replace(attached=True)
        shared = ABSENT if life == f"{task_id}/{run_id}" else life
        locked.append(accepted, made, RunStarted(run=run_id, shim=os.getpid(), life=shared))
        quick = not task.checks and prepared.tree is None and not handoff.plan
        quick = quick and not promises_files(handoff)
        folders = actor.store.run_folders(task_id, run_id)
        return FunctionRun(locked.task, run_id, folders, prepared, quick)


def _call(run: FunctionRun, batch: Batch, run_deadline: RunDeadline) -> Call:
    given = batch.inputs.pop(run.task.id, None)
    kept = f"{run.folders.record}/{INPUTS_FILE}" if run.task.node else ""
    return Call(
        title=run.task.title,
        handoff=run.prepared.handoff,
        task_id=run.task.id,
        run_id=run.run_id,
        place=run.folders.desk,
        root=batch.session.root,
        inputs=json.loads(given) if given else read_inputs(kept),
        _prompt=partial(run_prompt, batch.actor.store, run.task, run.run_id, run.prepared),
        _ask=run_deadline.ask,
        _count=in_process_meter(run_deadline.actor, run.task.id),
    )


def _outcome(
    batch: Batch, run: FunctionRun, function: FunctionAgent, call: Call, pool: Pool
) -> tuple[Mapping[str, Any] | None, Cause]:
    """What the function returned or raised, and how it ended."""
    token = inside_run.set((call.root, call.task_id, call.run_id))
    try:
        batch.kept.result()
        reserve_budget(batch.actor, run.task)  # a hold of a run that is not recorded as begun can be released
        value = function.function(call)
        if inspect.isawaitable(value):
            value = asyncio.run_coroutine_threadsafe(_awaited(value), pool.loop()).result()
        return as_return(value), "exit"
    except Unanswered:
        return None, "answer-timeout"
    except BudgetExceeded:
        return None, "budget"
    except BaseException as error:  # noqa: BLE001 -- whatever a function raises is its result
        return failure_return(error), "error"
    finally:
        inside_run.reset(token)


async def _awaited(value: Any) -> object:
    return await value


def _end(batch: Batch, run: FunctionRun, value: Mapping[str, Any] | None, cause: Cause, pool: Pool) -> None:
    """Record the end and the verdict: at once where that is quick, else with the checks in between."""
    with run.folders.workspace_files.held() as files:
        held = run.folders.replace(workspace_files=files)
        _record_end(batch, FunctionRun(run.task, run.run_id, held, run.prepared, run.quick), value, cause, pool)


def _record_end(batch: Batch, run: FunctionRun, value: Mapping[str, Any] | None, cause: Cause, pool: Pool) -> None:
    actor = batch.actor
    quick = run.quick and cause == "exit" and (value is None or value["status"] == "completed")
    # a status and a text, and nothing else, are kept whole in OUTPUT.md
    plain = quick and value is not None and value.keys() <= {"status", "summary"}
    plain = plain and value is not None and all(isinstance(one, str) for one in value.values())
    try:
        raw = encode_return(value) if value is not None and not plain else None
    except OverhandError as error:
        raw, cause, quick = encode_return(failure_return(error)), "error", False
    if "ipc" in run.folders.workspace_files.names() and has_unread_files(actor.store, run.task):
        take_in_files(actor.store, actor.store.recorded(run.task.id), actor.by, final=True)
    with pool.paperwork if quick else nullcontext(), actor.store.lock(run.task.id, actor.by, known=run.task) as locked:
        current = locked.task.run(run.run_id)
        if current is None or current.has_ended:
            late = encode_return(value) if value is not None and plain else raw
            if late is not None:
                _keep(run, "late-result.json", late)
            kept = "late-result.json" if late else None
            locked.append(LateReturn(run=run.run_id, kept=kept, code="STALE_RUN"))
            quick = False  # the process that ended it may still be judging, and a result is waited for
        else:
            if raw is not None:
                _keep(run, "result.json", raw)
            code = {"exit": 0, "error": 1}.get(cause)
            ended = RunEnded(run=run.run_id, cause=cause, exit=code)
            if quick:
                _judge_at_once(batch, run, locked, current, ended, value)
            else:
                locked.append(ended)
    if quick:
        settle_budget(actor, locked.task)
    else:
        finish_run(actor, run.task.id, patient=True)
    if batch.shared:
        batch.add_judged(run.task.id)


def _keep(run: FunctionRun, name: str, raw: bytes) -> None:
    """Put a file into the run's folder, which is made when it is first used."""
    os.makedirs(run.folders.place, 0o700, exist_ok=True)
    write_file(f"{run.folders.place}/{name}", raw)


def _judge_at_once(
    batch: Batch, run: FunctionRun, locked: LockedTask, current: Run, ended: RunEnded, given: object
) -> None:
    """The same evidence and the same verdict, and both events in one write."""
    over = current.replace(state="ended", cause=ended.cause, exit=ended.exit)
    spec = {"contract": run.task.contract, "tree": False}  # a quick run has no tree
    noticed = collect_return(batch.actor.store, locked.task, run.folders)
    if is_there(run.folders.place) and (usage := final_usage(run.folders.place, current)) is not None:
        locked.append(usage_event(run.run_id, usage))
    case = gather_evidence(
        batch.actor, locked.task, over, Collected(run.folders, spec, run.prepared.handoff, noticed, given)
    )
    if locked.task.stop:
        case = case.cancelled()
    result, judged = write_result(case, judge_run(case.found))
    locked.append(ended, judged, sync=batch.actor.sync_results)
    batch.results[run.task.id] = locked.task, str(judged.result), result
