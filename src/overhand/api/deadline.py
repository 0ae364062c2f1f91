"""The deadline of a function's run in this process, which stands still while the function waits for an answer."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from overhand.agents import unanswered_error
from overhand.errors import OverhandError, StaleRun
from overhand.questions import Asking, WaitingMark, ask_question, full_answer, record_blocked, take_in_files
from overhand.supervisor import hand_to_supervisor
from overhand.system import deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.agents import Call, Inquiry
    from overhand.api.pool import Pool
    from overhand.policy import Actor
    from overhand.record import Question


class RunDeadline:
    """The deadline of one run of a function, and how many of its calls wait for an answer."""

    def __init__(
        self, actor: Actor, task_id: str, run_id: str, pool: Pool, seconds: float, past_deadline: Callable[[], None]
    ) -> None:
        self.actor, self.task_id, self.run_id, self.pool = actor, task_id, run_id, pool
        self._past_deadline = past_deadline
        self._lock = threading.Lock()
        self._asking = 0
        self._over = False
        self._left = seconds
        self._start_clock()

    def _start_clock(self) -> None:
        """Start the clock again, unless the function has ended and only a thread of it is left."""
        if self._over:
            return
        self._due = time.monotonic() + self._left
        self._number = self.pool.watchdog.watch(self._left, self._past_deadline)

    def end(self) -> None:
        """The function has ended in time."""
        with self._lock:
            self._over = True
            self.pool.watchdog.cancel(self._number)

    def ask(self, call: Call, inquiry: Inquiry) -> str:
        """Record the question and wait for its answer; raises Unanswered, or StaleRun if the run was ended."""
        by = {"kind": "run", "run": self.run_id, "via": "api"}
        store, limits = self.actor.store, self.actor.config_of(self.actor.store.recorded(self.task_id))
        asking = Asking(
            text=inquiry.question, options=inquiry.options, only=inquiry.closed, step=inquiry.step, via="call"
        )
        asked = ask_question(store, self.task_id, self.run_id, asking, by)
        if not asked.is_open:  # by an earlier run, and answered since
            return full_answer(store, self.task_id, asked)
        patience = [limit for limit in (limits.answer_wait or None, inquiry.timeout) if limit is not None]
        mark = WaitingMark(store.desk_files(call.task_id, call.run_id), asked.seq)
        with self._clock_stopped(), mark:  # after the question is recorded
            return self._await(asked, inquiry, deadline(min(patience, default=None)))

    def _await(self, asked: Question, inquiry: Inquiry, until: float) -> str:
        """Check at every event; an answer in a file, which triggers none, is found by the slow check."""
        store = self.actor.store
        told = False
        with store.subscribe([self.task_id]) as bell:
            while True:
                task = take_in_files(store, store.recorded(self.task_id), self.actor.by).task
                question = task.question(asked.seq)
                if question is not None and not question.is_open:
                    return full_answer(store, self.task_id, question)
                run = task.run(self.run_id)
                if run is None or run.has_ended:
                    raise StaleRun(
                        f"Run {self.run_id} was ended; nobody waits for its question any more.",
                        "Let this pass: what the function returns no longer counts.",
                    )
                left = until - time.monotonic()
                if left <= 0 or inquiry.is_over:
                    raise unanswered_error(asked.seq)
                if not told:
                    self._notify()
                    told = True
                bell.wait(left)

    def _notify(self) -> None:
        """The supervisor notifies people of the question; without one it is only on record."""
        with self.pool.calling:  # the first of several callers starts it, the others find it running
            try:
                hand_to_supervisor(self.actor.store, [self.task_id])
            except OverhandError:
                return

    @contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        """From the first of its calls that waits to the end of the last."""
        with self._lock:
            self._asking += 1
            if self._asking == 1:
                self.pool.watchdog.cancel(self._number)
                self._left = max(0.0, self._due - time.monotonic())
                self._record(is_blocked=True)
                self.pool.make_room()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if self._asking == 0:
                    self.pool.come_back()
                    self._start_clock()
                    self._record(is_blocked=False)

    def _record(self, *, is_blocked: bool) -> None:
        """Record for other processes that the run is blocked, or no longer."""
        try:
            record_blocked(self.actor, self.task_id, self.run_id, is_blocked=is_blocked)
        except OverhandError:
            return  # the deadline stands still all the same
