"""`wait` until tasks are judged; `monitor` one until it asks or is judged, and say which by the exit status."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overhand.errors import OverhandError, Refused, TimedOut
from overhand.policy import find_caller
from overhand.system import deadline, epoch_of
from overhand.verbs.ask import question_row
from overhand.verbs.show import agent_activity, describe_task, mark_seen
from overhand.verbs.tasks import looks_dead, refresh_task
from overhand.verbs.verb import Pending, Reply, Session, about_task, with_requirement
from overhand.words import option_duration, say_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from overhand.record import Task
    from overhand.system import Beneath


def wait(session: Session, id: list[str], timeout: str | None = None, require: str | None = None) -> Reply:
    """Until all of them are judged."""
    seconds = None if timeout is None else option_duration("--timeout", timeout)
    task_ids = [session.store.resolve(handle) for handle in id]
    return wait_for_tasks(session, task_ids, seconds, require=require)


def wait_for_tasks(
    session: Session, task_ids: list[str], seconds: float | None, verb: str = "wait", *, require: str | None = None
) -> Reply:
    """Wait, showing progress; Ctrl-C ends the waiting, not the work."""
    is_person = find_caller(session.store).is_person
    left = list(task_ids)

    def look(over: bool) -> Reply | None:
        states = [refresh_task(session, session.store.task(task_id)) for task_id in left]
        left[:] = [s.id for s in states if not s.is_idle or (not is_person and awaits_answer(s))]
        if not left:
            return with_requirement(_judged(session, task_ids, verb), require)
        if over:
            handles = " ".join(str(s.handle) for s in states if s.id in left)
            asked = [f"{s.handle} {_asks(s)}." for s in states if s.id in left and s.open_questions]
            told = " ".join([f"Not judged in time: {handles}.", *(asked or ["The work goes on."])])
            raise TimedOut(told, f"Wait on: overhand wait {handles}")
        session.progress(progress(session, states))
        return None

    try:
        return session.wait(Pending(task_ids, look, deadline(seconds)))
    except KeyboardInterrupt:
        handles = " ".join(str(session.store.task(t).handle) for t in left)
        session.tell(f"The work goes on. Wait again: overhand wait {handles} · stop it: overhand stop {handles}")
        raise


def _judged(session: Session, task_ids: list[str], verb: str) -> Reply:
    tasks = [session.store.task(task_id) for task_id in task_ids]
    shown = [describe_task(session, task, verb) for task in tasks]
    if session.interactive or (not session.plain and (verb != "wait" or session.via in ("api", "mcp"))):
        for task in tasks:  # a person reads it now, or the caller that asked for it has it
            mark_seen(session, task)
    holds = [
        one["status"] == "completed" and one["verification"] != "failing" for one in shown
    ]  # a later `check` counts
    code = 0 if all(holds) else 1
    if len(shown) == 1:
        return Reply(shown[0], code)
    return Reply({"schema": f"overhand.{verb}/1", "tasks": shown}, code)


def awaits_answer(task: Task) -> bool:
    """Parked, and an answer starts its next run: an agent waits on, as it would for an answer to its own question."""
    # a question of a return is for the run that delegated
    return task.status == "needs-input" and any(question.via != "return" for question in task.open_questions)


def progress(session: Session, states: list[Task]) -> str:
    parts = []
    for task in states[:4]:
        run = task.current_run
        name = f"{task.handle} {task.agent}"
        if task.open_questions and not task.is_idle:
            parts.append(f"{name}: {_asks(task)}")
        elif task.is_idle:
            parts += [f"{name}: waits for an answer"] if awaits_answer(task) else []
        elif run is None:
            parts.append(f"{name}: queued")
        elif run.has_ended:
            parts.append(f"{name}: being checked")
        else:
            age = say_duration(max(0.0, time.time() - epoch_of(run.created)) // 1)
            latest = agent_activity(session, task) if task.settings.get("real") else _last_line(session, task, run.id)
            parts.append(f"{name}: {run.state} {age}{f' · {latest}' if latest else ''}")
    return " · ".join(parts)


def _asks(task: Task) -> str:
    """Its question, and what to type."""
    question = task.open_questions[0]
    options = f" ({' / '.join(map(str, question.options))})" if question.options else ""
    return f"asks: {' '.join(question.text.split())[:200]}{options} · overhand answer {task.handle} TEXT"


def _last_line(session: Session, task: Task, run_id: str) -> str:
    """The last line that a program without a stream of events has printed."""
    try:
        with open(f"{session.store.run_folder(task.id, run_id)}/stdout", "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 300))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:60]


# what ended the waiting, as the exit status
CODES = {"question": 0, "done": 1, "output": 2, "timeout": 3}
LIFETIME = "15m"
_PID_FILE = ".monitor.pid"


def monitor(session: Session, id: str, timeout: str | None = None) -> Reply:
    """Until it asks, is judged, or the time is over."""
    until = deadline(option_duration("--timeout", timeout or LIFETIME))
    task_id = session.store.resolve(id)
    if (task := session.store.task(task_id)).run_state is None and task.status is None:
        raise Refused(f"Task {task.name} is only prepared: nothing will happen.", f"Start it: overhand run {task.name}")

    def look(over: bool) -> Reply | None:
        task = refresh_task(session, session.store.task(task_id))
        if what := _what(session, task) or ("timeout" if over else ""):
            return Reply(_report(session, task, what), CODES[what])
        session.progress(progress(session, [task]))
        return None

    if session.defers:  # for a run that calls: it has its own sign of waiting
        return session.wait(Pending([task_id], look, until))
    with (
        ended_by_signal() as leave_if_ended,
        _Sign(session.store.workspace_files(task_id).at("ipc")) as sign,
    ):

        def look_again(over: bool) -> Reply | None:
            sign.put_up()
            reply = look(over)
            if reply is None:
                leave_if_ended()
            return reply

        return session.wait(Pending([task_id], look_again, until))


def _what(session: Session, task: Task) -> str:
    """The sign that is there, the end before questions; `.done` counts once the task is judged."""
    if task.status is not None:
        done = session.store.workspace_files(task.id).exists("ipc/.done")
        return "done" if done else "output"
    if task.queued or looks_dead(session, task):
        return ""  # the run that asked is over: its end will be reported
    return "question" if task.open_questions else ""


def _report(session: Session, task: Task, what: str) -> dict[str, Any]:
    shown = {**about_task("monitor", task, "title"), "what": what, "status": task.status}
    asked = [question_row(session, task, question) for question in task.open_questions]
    if what == "question":
        shown.update(question=asked[0], questions=asked)
    elif what != "timeout":
        shown.update(path=None, summary=task.summary, questions=asked)
        files = session.store.workspace_files(task.id)
        if task.output is not None:
            shown["path"] = session.store.relative(files.shown("OUTPUT.md"))
        elif (raw := files.read("CONTEXT.md")) is not None:
            context = raw.decode("utf-8", "replace")
            shown.update(path=session.store.relative(files.shown("CONTEXT.md")), context=context)
    return shown


class _Sign:
    """`.monitor.pid`: names one living monitor, and is locked while that lives; the next takes it over."""

    def __init__(self, ipc: Beneath) -> None:
        self._ipc = ipc
        self._fd: int | None = None

    def put_up(self) -> None:
        """Write the file, unless another monitor holds it."""
        if self._fd is not None:
            return
        with _undisturbed():
            try:
                self._fd = self._ipc.lock(_PID_FILE, make=True)
                if self._fd is not None:
                    os.ftruncate(self._fd, 0)
                    os.write(self._fd, b"%-10d\n" % os.getpid())
            except (OSError, OverhandError):
                return  # the disk is full, or something else is in its place: the waiting itself needs no file

    def __enter__(self) -> _Sign:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            with _undisturbed():
                self._ipc.remove(_PID_FILE)
                os.close(self._fd)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals for a moment: one in between would leave the file behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def ended_by_signal() -> Iterator[Callable[[], None]]:
    """SIGTERM ends it like Ctrl-C does: with clean-up.

    The yielded function ends it if it should have ended before: Python drops what a handler raises in a callback, as
    that of an import.
    """
    received: list[int] = []

    def leave_if_ended() -> None:
        if received:
            raise SystemExit(128 + received[0])

    def leave(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        leave_if_ended()

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield leave_if_ended
    finally:
        signal.signal(signal.SIGTERM, before)
