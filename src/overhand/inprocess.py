"""Function agents in this process: the same folder, guards, judgement and record as a detached run."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand import finish, guards, handles, machine, model, run, trees
from overhand.agents import Agent
from overhand.agents.function import Call, as_return, encode, failure
from overhand.documents import handoff as handoffs
from overhand.errors import OverhandError, Refused
from overhand.files import write_file
from overhand.verbs.delegate import _note_refusal, _only_from_people, make

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.config import Config
    from overhand.guards import Caller
    from overhand.model import State
    from overhand.verbs import Session
    from overhand.verbs.delegate import Request

_UNBOUNDED = 1000


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
    """Tasks accepted together: one disk sync before the first starts, one before results are reported."""

    def __init__(self, session: Session, config: Config, who: Caller, *, shared: bool) -> None:
        self.session, self.config, self.who, self.shared = session, config, who, shared
        self.work = run.Work(session.store, config, who.by(session.via))

    def accept(self, request: Request, function: FunctionAgent) -> State:
        """The same checks and the same events as any delegation."""
        try:
            _only_from_people(self.who, request)
            state, _ = make(
                self.session,
                request,
                self.who,
                function.agent(),
                self.config,
                {},
                start=not request.no_start,
                sync=not self.shared,
            )
        except Refused as error:
            _note_refusal(self.session, self.who, request, error)
            raise
        return state

    def sync(self) -> None:
        """Everything accepted is on disk."""
        if self.shared:
            machine.sync_all(self.session.store.workspaces)


class Pool:
    """Runs functions, at most so many at a time; async ones share one event loop."""

    def __init__(self, max_parallel: int) -> None:
        self._size = max_parallel or _UNBOUNDED
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._open = 0

    def submit(self, batch: Batch, task_id: str, function: FunctionAgent) -> Future[None]:
        """Start a function; the future is done when its task is judged."""
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(self._size, thread_name_prefix="overhand")
        return self._pool.submit(perform, batch, task_id, function, self)

    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of async functions, in a thread of its own."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="overhand-async", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """Wait for what is at work."""
        if self._pool:
            self._pool.shutdown(wait=True)
            self._pool = None
        if self._loop:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def perform(batch: Batch, task_id: str, function: FunctionAgent, pool: Pool) -> None:
    """One run of a function: claim, call, record, judge."""
    work = batch.work
    state = work.store.state(task_id)
    text, handoff = run.read_handoff(work.store, task_id)
    run.take_baseline(work.store, state, handoff)
    if state["checks"] and not state["runs"]:
        run.run_checks(work, state, f"{work.store.folder(task_id)}/checks/before")
    prepared = run.Prepared(function.agent(), handoff, text, trees.snapshot(work.store.root))
    with work.store.locked(task_id, work.by) as task:
        run_id = run.claim(task, function.name, "function", state["timeout"], attached=True)
        if run_id is None:
            return
        run.archive(task)
        job = run.lay_out(work, task, run_id, prepared, attached=True)
        place = work.store.run_folder(task_id, run_id)
        life = handles.hold_life(place)
        os.close(os.open(f"{place}/start", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        task.append({"e": "run.started", "run": run_id})
        state = task.state
    try:
        call = _call(state, run_id, place, job.prompt, handoff, work.store.root)
        value, cause = _call_in_time(function, call, state, pool)
        _report(work, state, run_id, place, value, cause)
        finish.finish(work, task_id)
    finally:
        os.close(life)


def _call(state: State, run_id: str, place: str, prompt: str, handoff: handoffs.Handoff, root: str) -> Call:
    workspace = Path(place).parent.parent
    return Call(
        title=state["title"],
        prompt=prompt,
        handoff=handoff,
        workspace=workspace,
        output=Path(f"{place}/OUTPUT.md"),
        result=Path(f"{place}/result.json"),
        data_file=Path(f"{place}/data.json"),
        project=Path(root),
        task_id=state["task_id"],
        run_id=run_id,
    )


def _call_in_time(
    function: FunctionAgent, call: Call, state: State, pool: Pool
) -> tuple[Mapping[str, Any] | None, str]:
    """The function's return and how it ended; a function past its deadline goes on unheard."""
    began = time.monotonic()
    box: Future[object] = Future()

    def body() -> None:
        token = guards.inside_run.set((str(call.project), call.task_id, call.run_id))
        try:
            value = function.function(call)
            if inspect.isawaitable(value):
                left = max(0.0, state["timeout"] - (time.monotonic() - began))
                value = asyncio.run_coroutine_threadsafe(_bounded(value, left), pool.loop()).result()
            box.set_result(value)
        except BaseException as error:  # noqa: BLE001 -- whatever a function raises is its result
            box.set_exception(error)
        finally:
            guards.inside_run.reset(token)

    if state["timeout"] >= _WATCHED:
        body()  # nobody waits hours in a test; a second thread per run would cost more than it gives
    else:
        threading.Thread(target=body, daemon=True, name=f"overhand-{call.run_id}").start()
    try:
        return as_return(box.result(state["timeout"])), "exit"
    except TimeoutError:
        return None, "timeout"
    except OverhandError as error:
        return failure(error), "error"
    except BaseException as error:  # noqa: BLE001 -- as above
        return failure(error), "error"


_WATCHED = 1800.0


async def _bounded(value: Any, seconds: float) -> object:
    return await asyncio.wait_for(value, seconds)


def _report(work: run.Work, state: State, run_id: str, place: str, value: Mapping[str, Any] | None, cause: str) -> None:
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
            return
        if raw is not None:
            write_file(f"{place}/result.json", raw)
        code = None if cause == "timeout" else 0 if cause == "exit" else 1
        task.append({"e": "run.ended", "run": run_id, "cause": cause, "exit": code})
