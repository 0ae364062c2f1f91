"""Function agents in this process: the same folder, guards, judgement and record as a detached run."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand import config as configs
from overhand import finish, guards, handles, log, model, run, trees
from overhand.agents import Agent
from overhand.agents.function import Call, as_return, encode, failure
from overhand.errors import OverhandError, Refused
from overhand.files import write_file
from overhand.pool import Pool, settle
from overhand.verbs.delegate import make, note_refusal, only_from_people

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from overhand.config import Config
    from overhand.documents.handoff import Handoff
    from overhand.guards import Caller
    from overhand.model import State
    from overhand.verbs import Session
    from overhand.verbs.delegate import Request

# Paperwork of a hundred threads at once is a fight for the interpreter: ten times the thread switches, half the speed.
_desks = threading.BoundedSemaphore(2)


@dataclass(frozen=True, slots=True)
class FunctionAgent:
    """A function under a name."""

    name: str
    function: Callable[[Call], object]
    reentrant: bool = False
    can_delegate: bool = True

    def agent(self) -> Agent:
        """As the guards see it."""
        return Agent(self.name, "function", options={"reentrant": self.reentrant, "can_delegate": self.can_delegate})


class Batch:
    """Tasks accepted together: logs are synced together, before the first start and before results are reported."""

    def __init__(self, session: Session, config: Config, who: Caller, *, shared: bool) -> None:
        self.session, self.config, self.who, self.shared = session, config, who, shared
        self.work = run.Work(session.store, config, who.by(session.via), sync_results=not shared)
        self.states: dict[str, State] = {}  # as accepted; what is true later is read under the task's lock
        self._unsynced: list[str] = []
        self._lock = threading.Lock()

    def accept(self, request: Request, function: FunctionAgent) -> State:
        """The same checks and the same events as any delegation."""
        try:
            only_from_people(self.who, request)
            agent = function.agent()
            settings = dict(configs.setting(text) for text in request.settings)
            config = configs.of_task(self.session.root, self.config, settings)
            state, _ = make(self.session, request, self.who, agent, config, settings, start=False, sync=not self.shared)
        except Refused as error:
            note_refusal(self.session, self.who, request, error)
            raise
        self.states[state["task_id"]] = state
        return state

    def accepted(self) -> None:
        """Everything accepted is on disk before anything starts."""
        if self.shared:
            log.sync([self.session.store.folder(task_id) for task_id in self.states])

    def judged(self, task_id: str) -> None:
        """A result was recorded."""
        if self.shared:
            self._unsynced.append(self.session.store.folder(task_id))

    def before_report(self) -> None:
        """Results are on disk before anybody hears of them; those recorded together are synced together."""
        with self._lock:  # whoever comes while others are synced waits: their own may be among them
            folders, self._unsynced = self._unsynced, []
            log.sync(folders)


def perform(batch: Batch, task_id: str, function: FunctionAgent, pool: Pool, future: Future[None]) -> None:
    """One run of a function: claim, call, record, judge."""
    work = batch.work
    state = batch.states.pop(task_id)
    text, handoff = run.read_handoff(work.store, task_id)
    run.take_baseline(work.store, state, handoff)
    if state["checks"] and not state["runs"]:
        run.run_checks(work, state, f"{work.store.folder(task_id)}/checks/before")
    prepared = run.Prepared(function.agent(), handoff, text, trees.snapshot(work.store.root))
    with _desks, work.store.locked(task_id, work.by) as task:
        run_id = run.claim(task, function.name, "function", state["timeout"], attached=True)
        if run_id is None:
            return
        run.archive(task)
        job = run.lay_out(work, task, run_id, prepared, attached=True)
        place = work.store.run_folder(task_id, run_id)
        life = handles.hold_life(place)
        os.close(os.open(f"{place}/start", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        task.append({"e": "run.started", "run": run_id, "shim": os.getpid()})
        state = task.state

    def end(value: Mapping[str, Any] | None, cause: str) -> None:
        with nullcontext() if state["checks"] else _desks:  # checks may take long
            ended = _report(work, state, run_id, place, value, cause)
            finish.finish(work, task_id, patient=True, known=ended)
        batch.judged(task_id)

    def past_deadline() -> None:
        """The thread goes on, unheard; its run is over."""
        try:
            end(None, "timeout")
            settle(future)
        except BaseException as error:  # noqa: BLE001 -- it is raised where the result is waited for
            settle(future, error)

    try:
        number = pool.watchdog.watch(state["timeout"], past_deadline)
        value, cause = _outcome(function, _call(state, run_id, place, job.prompt, handoff, work.store.root), pool)
        pool.watchdog.take_back(number)
        end(value, cause)
    finally:
        os.close(life)


def _call(state: State, run_id: str, place: str, prompt: str, handoff: Handoff, root: str) -> Call:
    return Call(
        title=state["title"],
        prompt=prompt,
        handoff=handoff,
        workspace=Path(place).parent.parent,
        output=Path(f"{place}/OUTPUT.md"),
        result=Path(f"{place}/result.json"),
        data_file=Path(f"{place}/data.json"),
        project=Path(root),
        task_id=state["task_id"],
        run_id=run_id,
    )


def _outcome(function: FunctionAgent, call: Call, pool: Pool) -> tuple[Mapping[str, Any] | None, str]:
    """What the function returned or raised, and how it ended."""
    token = guards.inside_run.set((str(call.project), call.task_id, call.run_id))
    try:
        value = function.function(call)
        if inspect.isawaitable(value):
            value = asyncio.run_coroutine_threadsafe(_awaited(value), pool.loop()).result()
        return as_return(value), "exit"
    except BaseException as error:  # noqa: BLE001 -- whatever a function raises is its result
        return failure(error), "error"
    finally:
        guards.inside_run.reset(token)


async def _awaited(value: Any) -> object:
    return await value


def _report(
    work: run.Work, state: State, run_id: str, place: str, value: Mapping[str, Any] | None, cause: str
) -> State:
    """Record the end, unless the run was ended meanwhile: then its return is kept and refused."""
    try:
        raw = encode(value) if value is not None else None
    except OverhandError as error:
        raw, cause = encode(failure(error)), "error"
    with work.store.locked(state["task_id"], work.by) as task:
        current = model.find_run(task.state, run_id)
        if current is None or current["state"] == "ended":
            if raw is not None:
                write_file(f"{place}/late-result.json", raw)
            task.append({"e": "late", "run": run_id, "kept": "late-result.json" if raw else None, "code": "STALE_RUN"})
            return task.state
        if raw is not None:
            write_file(f"{place}/result.json", raw)
        code = None if cause == "timeout" else 0 if cause == "exit" else 1
        task.append({"e": "run.ended", "run": run_id, "cause": cause, "exit": code})
        return task.state
