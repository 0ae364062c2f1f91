"""Overhand from Python: `Project`, its tasks, their results; and functions as agents, in this process.

An in-process function runs in a thread (an async one in an event loop of its own), its run's `life` is held by this
process, and it takes no slot of the supervisor: `Project(max_parallel=…)` bounds it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from overhand.agents import Agent
from overhand.api.functions import Batch, FunctionAgent, run_function
from overhand.api.plans import FunctionNodes
from overhand.api.pool import Pool
from overhand.api.values import Answer, Event, Listed, Question, Result, as_result
from overhand.errors import BadInput, Refused, TimedOut
from overhand.plans import Plan
from overhand.policy import (
    Config,
    find_caller,
    load_config,
    require_trusted,
    settings_files,
    settings_marks,
    trust_file,
)
from overhand.record import find_root
from overhand.system import brought, deadline
from overhand.verbs import (
    PlanSource,
    Session,
    call_by_file,
    calling_run,
    check_source,
    delegate_task,
    describe_task,
    ensure_project,
    give_answer,
    list_tasks,
    log_events,
    may_run_plan,
    plan_source,
    refresh_task,
    require_resumable,
    require_runnable,
    require_sound_plan,
    resume_from,
    resume_task,
    run_again,
    send_message,
    stop_tasks,
    submit_plan,
    wait_for_tasks,
    walk_questions,
)
from overhand.words import is_agent_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from overhand.agents import Call
    from overhand.record import Task as RecordedTask

    Running = tuple[Batch, Future[None]]
    Texts = str | Sequence[str]  # one, or several
    OnQuestion = Callable[[Question], str | None]
    PlanInput = Plan | str | os.PathLike[str]
    TaskName = str | int


def _is_file(plan: PlanInput) -> bool:
    """Whether a plan is given by the name of its file, not as its text."""
    return not isinstance(plan, str) or ("\n" not in plan and os.path.exists(plan))


def _called(session: Session, verb: str, **values: Any) -> dict[str, Any] | None:
    """What the supervisor replies, if this process is inside a run that it looks after; else None: act here."""
    caller = calling_run(session)
    return call_by_file(session, caller, verb, values).payload if caller is not None else None


class Task:
    """A delegated task: `wait()` for it, or `await` it."""

    def __init__(self, project: Project, task_id: str, handle: int | None, running: Running | None = None) -> None:
        self.project, self.id, self.handle = project, task_id, handle
        self.running = running
        self.on_question: OnQuestion | None = None

    def __repr__(self) -> str:
        task = self.project.session.store.task(self.id)
        return f"<Task {self.handle} {task.title!r}: {task.headline}>"

    @property
    def title(self) -> str:
        return self.project.session.store.task(self.id).title

    @property
    def folder(self) -> Path:
        """Where everything about it can be read."""
        return Path(self.project.session.store.workspace(self.id))

    def show(self) -> Result:
        """The task as it is now."""
        task = refresh_task(self.project.session, self.project.session.store.task(self.id))
        return as_result(describe_task(self.project.session, task, "show"))

    def events(self, *, follow: bool = True) -> Iterator[Event]:
        """What is recorded of it, and what its agent says and does; then what comes, until it is judged."""
        for one in log_events(self.project.session, self.id, follow=follow, out=False):
            yield Event(one)

    def questions(self) -> list[Question]:
        """Its open questions."""
        return [one for one in self.project.questions() if one.task_id == self.id]

    def wait(self, timeout: float | None = None, *, on_question: OnQuestion | None = None) -> Result:
        """The judged result; raises TimedOut, a TimeoutError.

        `on_question` is called with each question while it is open, once; the text that it returns is the answer.
        """
        if (reply := on_question or self.on_question) is not None:
            timeout = self._answer_with(reply, timeout)
        with self.project.pool.without_slot():
            if self.running is None:
                left = None if timeout is None else f"{timeout:.3f}"
                if called := _called(self.project.session, "wait", id=[self.id], timeout=left):
                    return as_result(called)
                return as_result(wait_for_tasks(self.project.session, [self.id], timeout).payload)
            batch, future = self.running
            try:
                future.result(timeout)
            except FutureTimeout:
                raise TimedOut(f"Task {self.handle} is not judged yet.", "Call wait() again.") from None
            batch.before_report(self.id)
        session, known = self.project.session, batch.results.pop(self.id, None)
        if known is not None and reply is None:  # what was answered may have gone on in a later run
            return as_result(describe_task(session, known[0], "wait", known[2]))
        return as_result(describe_task(session, session.store.task(self.id), "wait"))

    def _answer_with(self, reply: OnQuestion, timeout: float | None) -> float | None:
        """Answer what is asked until the task is judged, and return how much time is left."""
        until, seen = deadline(timeout), set[int]()
        store = self.project.session.store
        with self.project.pool.without_slot(), store.subscribe([self.id]) as bell:
            while True:
                for one in [one for one in self.questions() if one.seq not in seen]:
                    seen.add(one.seq)
                    if (text := reply(one)) is not None:
                        self.answer(text, one.seq)
                task = refresh_task(self.project.session, store.task(self.id))
                left = until - time.monotonic()
                begun = self.running is None or self.running[1].done()  # a function is idle before it begins
                over = begun and task.is_idle and not [one for one in self.questions() if one.seq not in seen]
                if left <= 0 or over:
                    return None if timeout is None else max(0.0, left)
                bell.wait(min(left, 1.0))

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.to_thread(self.wait).__await__()

    def answer(self, text: str, seq: int | None = None) -> Answer:
        """Answer its open question; `seq` says which, if there are several."""
        return self.project.answer(self, text, seq)

    def send(self, text: str) -> dict[str, Any]:
        """Tell it something, once: at work it gets it as soon as it can take it; a finished one goes on with it in a
        new run, in its own session where it has one, and `wait()` waits for that."""
        return self.project.send(self, text)

    def resume(self, answer: str | None = None, *, from_: str | None = None, agent: str | None = None) -> Task:
        """Its next run, if it ended short."""
        return self.project.resume(self, answer, from_=from_, agent=agent)

    def stop(self, *, now: bool = False) -> Result:
        """End it; an in-process function goes on unheard, its result is refused."""
        called = _called(self.project.session, "stop", id=[self.id], now=now)
        for row in (called or stop_tasks(self.project.session, id=[self.id], now=now).payload)["tasks"]:
            if pids := row.get("left"):
                raise Refused(f"Processes could not be ended: {', '.join(map(str, pids))}.")
            if problem := row.get("problem"):
                raise Refused(f"Its processes were ended, but this could not be recorded: {problem}")
        return self.show()


class Project:
    """A project folder and the agents that live in this process.

    >>> with Project(".") as project:
    ...     @project.agent("echo")
    ...     def echo(call):
    ...         return call.title
    ...     result = project.delegate("Hello", agent="echo").wait()
    >>> result.ok, result.summary, result.verified
    (True, 'Hello', False)
    >>> result
    <Result 1 'Hello': completed, UNVERIFIED>
    """

    def __init__(self, root: str | os.PathLike[str] = ".", *, max_parallel: int = 3) -> None:
        self.session = Session(find_root(os.fspath(root), given=os.fspath(root)), "api")
        self.max_parallel = max_parallel
        self._functions: dict[str, FunctionAgent] = {}
        self.pool = Pool(max_parallel)
        self._plans: list[threading.Thread] = []  # that execute a plan in this process
        self._known: tuple[object, Config] | None = None

    def __repr__(self) -> str:
        return f"Project({self.session.root!r})"

    @property
    def root(self) -> Path:
        """The project's folder."""
        return Path(self.session.root)

    def agent(
        self, name: str, *, reentrant: bool = False, can_delegate: bool = True
    ) -> Callable[[Callable[[Call], object]], Callable[[Call], object]]:
        """Make a function an agent of this process: `@p.agent("name")`."""
        if not is_agent_name(name):
            raise BadInput(f"{name!r} is no agent name.", "Use letters, digits, dots, - and _, such as code-reviewer.")

        agent = Agent(name, "function", options={"reentrant": reentrant, "can_delegate": can_delegate})

        def register(function: Callable[[Call], object]) -> Callable[[Call], object]:
            self._functions[name] = FunctionAgent(agent, function)
            return function

        return register

    def delegate(
        self,
        title: str = "",
        *,
        agent: str | None = None,
        kind: str | None = None,
        context: Texts | None = None,
        file: Texts | None = None,
        constraint: Texts | None = None,
        deliverable: Texts | None = None,
        returns: Texts | None = None,
        step: Texts | None = None,
        verify: Texts | None = None,
        handoff: str | os.PathLike[str] | None = None,
        contract: str | None = None,
        timeout: str | float | None = None,
        budget: str | None = None,
        level: Literal["read", "work", "full"] | None = None,
        read_only: bool | None = None,
        model: str | None = None,
        priority: Literal["P0", "P1", "P2", "P3"] | None = None,
        session: str | None = None,
        after: Task | TaskName | None = None,
        no_start: bool | None = None,
        here: bool | None = None,
        base: str | None = None,
        committed: bool | None = None,
        strict: bool | None = None,
        settings: Texts | None = None,
        set: Texts | None = None,
        on_question: OnQuestion | None = None,
    ) -> Task:
        """Hand a task over; returns at once. The options are those of `overhand delegate`; `on_question` is for
        `wait()`."""
        given = {name: value for name, value in locals().items() if name not in ("self", "on_question")}
        if settings is not None and set is not None:
            raise BadInput("settings and set are the same.", "Give one of them.")
        if handoff is not None:
            given["handoff"] = os.fspath(handoff)
        if after is not None:
            given["after"] = self._id(after) if isinstance(after, Task) else str(after)
        task = self._delegate([{name: value for name, value in given.items() if value is not None}])[0]
        task.on_question = on_question
        return task

    def delegate_all(self, tasks: Iterable[Mapping[str, Any]]) -> list[Task]:
        """Hand over several at once; in-process ones share their disk syncs."""
        return self._delegate([dict(task) for task in tasks])

    def _delegate(self, wanted: list[dict[str, Any]]) -> list[Task]:
        functions = [self._functions.get(one.get("agent") or "") for one in wanted]
        if not any(functions):
            return [self._detached(one) for one in wanted]
        self._require_outside()
        caller = find_caller(self.session.store)
        batch = Batch(self.session, self._settings(), caller, shared=len(wanted) > 1)
        ours = [(one, function) for one, function in zip(wanted, functions, strict=True) if function]
        accepted = batch.accept(ours)
        if batch.shared:
            batch.keep()
        others = [self._detached(one) for one, function in zip(wanted, functions, strict=True) if not function]
        called = zip(accepted, ours, strict=True)
        running = self._submit(batch, {task.id: own for (task, brief), (_, own) in called if not brief.no_start})
        if not batch.shared:
            batch.keep()  # its folder is laid out meanwhile; of many, the workers would only wait, and call for more
        own, detached = (Task(self, one.id, one.handle, running.get(one.id)) for one, _ in accepted), iter(others)
        return [next(own if function else detached) for function in functions]

    def _settings(self) -> Config:
        """The settings, if they are trusted, for their checks are going to be run; read again when a file changes."""
        marks = settings_marks(self.session.root, trust_file())
        if self._known is None or self._known[0] != marks:
            require_trusted(self.session.root, settings_files(self.session.root))
            self._known = marks, load_config(self.session.root)
        return self._known[1]

    def _detached(self, one: dict[str, Any]) -> Task:
        one = {**one, "wait": False}
        made = _called(self.session, "delegate", **one) or delegate_task(self.session, **one).payload
        return Task(self, made["task_id"], made["handle"])

    def _require_outside(self) -> None:
        """A function of this process needs the record, which a run has no access to."""
        if (caller := calling_run(self.session)) is not None:
            raise Refused(
                f"This process is inside run {caller.run}, where its functions cannot be agents.",
                "Call the function itself, or name it in an agent file (function: module:name) and delegate to that.",
            )

    @overload
    def plan(
        self, plan: PlanInput, *, wait: Literal[True] = True, budget: str | None = None, after: TaskName | None = None
    ) -> Result: ...

    @overload
    def plan(
        self, plan: PlanInput, *, wait: Literal[False], budget: str | None = None, after: TaskName | None = None
    ) -> Task: ...

    def plan(
        self, plan: PlanInput, *, wait: bool = True, budget: str | None = None, after: TaskName | None = None
    ) -> Result | Task:
        """Run a plan: a `Plan`, the name of its file, or its text; its nodes may be functions of this process."""
        if (called := self._call_plan(plan, budget, after)) is not None:
            return called.wait() if wait else called
        made, source, trusted = self._read_plan(plan)
        ensure_project(self.session)
        given = {"budget": budget, "after": after, "trusted": trusted}
        ours = sorted({node.agent for node in made.nodes.values()} & self._functions.keys())
        if ours and after is not None:
            why = f"{ours[0]} is a function of this process: its plan cannot wait for task {after} without it."
            raise BadInput(why, "Wait for that task first, then run the plan.")
        if ours:
            batch = Batch(self.session, self._settings(), find_caller(self.session.store), shared=True)
            nodes = FunctionNodes(batch, self.pool, self._functions)
            state = nodes.begin(made, source, given)
            self._plans.append(nodes.thread)
        else:
            state, _ = submit_plan(self.session, made, source, given)
        task = Task(self, state.id, state.handle)
        return task.wait() if wait else task

    def _call_plan(self, given: PlanInput, budget: str | None, after: TaskName | None) -> Task | None:
        """The plan's task, if this process is inside a run: the supervisor executes it."""
        if calling_run(self.session) is None:
            return None
        if isinstance(given, Plan):
            raise Refused("Inside a run a plan is handed over as text.", "Pass its text, or the name of its file.")
        if after is not None:
            raise Refused("Inside a run a plan starts at once.", f"Wait for task {after} first, then run the plan.")
        text = os.fspath(given)
        word = text if _is_file(given) else "-"
        token = brought.set({"-": text.encode("utf-8", "replace")} if word == "-" else None)
        try:
            made = _called(self.session, "plan", do="run", file_or_id=word, budget=budget)
        finally:
            brought.reset(token)
        return Task(self, made["task_id"], made["handle"]) if made else None

    def _read_plan(self, given: PlanInput) -> tuple[Plan, str, bool]:
        """The plan, without errors; the text it was read from; and whether its commands may run."""
        caller = find_caller(self.session.store)
        if isinstance(given, Plan):
            return given, "", caller.is_person
        text = os.fspath(given)
        source = plan_source(text) if _is_file(given) else PlanSource("the plan", "", text.encode("utf-8", "replace"))
        plan = require_sound_plan(source, check_source(self.session, source, own=self._functions))
        trusted = may_run_plan(self.session, caller, source, plan)
        return plan, source.raw.decode("utf-8", "replace"), trusted

    def task(self, handle: TaskName) -> Task:
        """A task by its number, a part of its title, its id, or `-`."""
        task_id = self.session.store.resolve(str(handle))
        return Task(self, task_id, self.session.store.task(task_id).handle)

    def tasks(self) -> list[Listed]:
        """What `list` shows."""
        return list(map(Listed, list_tasks(self.session).payload["tasks"]))

    def run(self, handle: TaskName, *, agent: str | None = None) -> Task:
        """Start a prepared task, or an ended one once more."""
        task = self._state(handle)
        if (function := self._functions.get(agent or task.agent)) is not None:
            require_runnable(self.session, task)
            went_on = {"run": task.runs[-1].id, "why": "run again"} if task.runs else None
            return self._run_function(task, function, went_on)
        called = _called(self.session, "run", id=task.id, agent=agent)
        made = called or run_again(self.session, id=str(handle), agent=agent).payload
        return Task(self, made["task_id"], made["handle"])

    def resume(
        self, task: Task | TaskName, answer: str | None = None, *, from_: str | None = None, agent: str | None = None
    ) -> Task:
        """The next run of a task that ended short; a function of this process is called again, here."""
        state = self._state(task)
        function = self._functions.get(agent or state.agent)
        if function is None:
            given: dict[str, Any] = {"id": state.id, "answer": answer, "from_": from_, "agent": agent}
            if _called(self.session, "resume", **given) is None:
                resume_task(self.session, **given)
            made = Task(self, state.id, state.handle)
        else:
            caller = find_caller(self.session.store)
            require_resumable(self.session, caller, state)
            how = resume_from(self.session, caller, state, answer, from_)
            made = self._run_function(self.session.store.task(state.id), function, how)
        if isinstance(task, Task):
            task.running = made.running
            return task
        return made

    def _state(self, task: Task | TaskName) -> RecordedTask:
        return refresh_task(self.session, self.session.store.task(self._id(task)))

    def _id(self, task: Task | TaskName) -> str:
        return task.id if isinstance(task, Task) else self.session.store.resolve(str(task))

    def _run_function(self, task: RecordedTask, function: FunctionAgent, went_on: dict[str, Any] | None) -> Task:
        self._require_outside()
        batch = Batch(self.session, self._settings(), find_caller(self.session.store), shared=False)
        batch.take(task, went_on)
        running = self._submit(batch, {task.id: function})
        return Task(self, task.id, task.handle, running[task.id])

    def answer(self, task: Task | TaskName, text: str, seq: int | None = None) -> Answer:
        """Answer an open question, once; a parked task that a supervisor ran goes on by itself, a function's does
        with `resume`."""
        task_id = self._id(task)
        called = _called(self.session, "answer", id=task_id, text=[text] if seq is None else [str(seq), text])
        if called is None:
            called = give_answer(self.session, find_caller(self.session.store), task_id, seq, text, resume=True)
        return Answer(called)

    def send(self, task: Task | TaskName, text: str) -> dict[str, Any]:
        """Tell an agent something; what became of it stands under `messages` of `show()`."""
        name = task.id if isinstance(task, Task) else str(task)
        return _called(self.session, "send", id=name, text=[text]) or send_message(self.session, name, text).payload

    def questions(self) -> list[Question]:
        """Everything in this project that waits for an answer."""
        return list(map(Question, walk_questions(self.session, None, resume=True).payload["questions"]))

    def _submit(self, batch: Batch, functions: Mapping[str, FunctionAgent]) -> dict[str, Running]:
        batch.expect(len(functions))
        futures = self.pool.submit(partial(run_function, batch, *one, self.pool) for one in functions.items())
        return {task_id: (batch, future) for task_id, future in zip(functions, futures, strict=True)}

    def close(self) -> None:
        """Wait for the functions and plans that are still at work."""
        for thread in self._plans:
            thread.join()
        self.pool.close()

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
