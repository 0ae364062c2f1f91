"""`monitor`: wait until one task asks something or is judged, and say which by the exit status."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overhand.errors import Refused
from overhand.policy.caller import caller
from overhand.questions import wait
from overhand.supervisor import client
from overhand.system import lock
from overhand.system.files import read_file
from overhand.verbs import Answer, Session
from overhand.verbs.look import progress
from overhand.verbs.reconcile import looks_dead, refresh
from overhand.verbs.walk import item
from overhand.words import option_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from overhand.record.task import Task

# what ended the waiting, as the exit status
CODES = {"question": 0, "done": 1, "output": 2, "timeout": 3}
LIFETIME = "15m"
_SIGNED = 11  # bytes of a pid file: the lock's signature


def monitor(session: Session, id: str, timeout: str | None = None) -> Answer:
    """Until it asks, is judged, or the time is over."""
    until = wait.deadline(option_duration("--timeout", timeout or LIFETIME))
    task_id = session.store.resolve(id)
    if (task := session.store.task(task_id)).run_state is None and task.status is None:
        handle = task.handle or task_id
        raise Refused(f"Task {handle} is only prepared: nothing will happen.", f"Start it: overhand run {handle}")
    who = caller(session.store)
    with (
        _ended_by_signal(),
        _Sign(f"{session.store.folder(task_id)}/ipc") as sign,
        wait.bell(session.store, [task_id]) as bell,
        wait.without_slot(session.store, who.task, who.run),
    ):
        if not who.is_person:
            client.hand_over(session.store, [task_id])  # our slot is free now
        while True:
            sign.put_up()
            task = refresh(session, session.store.task(task_id))
            left = until - time.monotonic()
            what = _what(session, task) or ("timeout" if left <= 0 else "")
            if what:
                return Answer(_told(session, task, what), CODES[what])
            session.progress(progress(session, [task]))
            bell.wait(left)


def _what(session: Session, task: Task) -> str:
    """The sign that is there, the end before questions; `.done` counts once the task is judged."""
    if task.status is not None:
        done = os.path.lexists(f"{session.store.folder(task.id)}/ipc/.done")
        return "done" if done else "output"
    if task.queued or looks_dead(session, task):
        return ""  # what it asked is no longer asked by anybody who waits: the end will be told
    return "question" if task.open_questions else ""


def _told(session: Session, task: Task, what: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "schema": "overhand.monitor/1",
        "task_id": task.id,
        "handle": task.handle,
        "title": task.title,
        "what": what,
        "status": task.status,
    }
    asked = [item(session, task, question) for question in task.open_questions]
    if what == "question":
        shown.update(question=asked[0], questions=asked)
    elif what != "timeout":
        shown.update(path=None, summary=task.summary, questions=asked)
        folder = session.store.folder(task.id)
        if task.output is not None:
            shown["path"] = session.store.relative(f"{folder}/OUTPUT.md")
        elif (raw := read_file(f"{folder}/CONTEXT.md")) is not None:
            shown.update(path=session.store.relative(f"{folder}/CONTEXT.md"), context=raw.decode("utf-8", "replace"))
    return shown


class _Sign:
    """`.monitor.pid`: names one living monitor; of several the next takes it over when the first has gone.

    It is locked while its process lives, so that the file of a killed one is not taken for a monitor.
    """

    def __init__(self, ipc: str) -> None:
        self._ipc = ipc
        self._lock = lock.Lock(f"{ipc}/.monitor.pid", "The monitor's file", patience=0.0)

    def put_up(self) -> None:
        """Sign, if nobody else has."""
        if self._lock.fd >= 0:
            return
        with _undisturbed():
            try:
                os.makedirs(self._ipc, exist_ok=True)
                self._lock.__enter__()
                os.ftruncate(self._lock.fd, _SIGNED)
            except (OSError, Refused):
                return  # another monitor is there, or the disk takes nothing: the waiting itself needs no file

    def __enter__(self) -> _Sign:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock.fd < 0:
            return
        with _undisturbed():
            try:
                os.unlink(self._lock.path)
            except OSError:
                pass  # somebody cleaned up before us
            self._lock.__exit__(None, None, None)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A signal in between would leave a file behind that nobody takes down; it waits for a moment."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM ends it like Ctrl-C does: what it put up is taken down."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
