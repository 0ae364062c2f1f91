"""Processes that wait for an answer, and the mark that says so: a run whose process waits is known to be blocked."""

from __future__ import annotations

import os
import time

from overhand.questions import record
from overhand.system import Bell, random_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record import Question, Store
    from overhand.system import Beneath

SLOW = 120.0  # seconds between looks of a process that waits, should nothing ring its bell


def wait_for_answer(
    store: Store, task_id: str, question: Question, timeout: float, *, cancelled: int = -1
) -> str | None:
    """Block until it is answered, at most this long, or until the descriptor `cancelled` can be read."""
    until = time.monotonic() + timeout
    with PendingAnswer(store, task_id, question) as pending:
        while True:
            answer = pending.answer()
            left = until - time.monotonic()
            if answer is not None or left <= 0 or not pending.bell.wait(left, cancelled):
                return answer


class PendingAnswer:
    """A question that a process waits for, perhaps beside its other work: `fd` can be read once it is answered."""

    def __init__(self, store: Store, task_id: str, question: Question) -> None:
        self._store, self._task_id, self._seq, self._seen = store, task_id, question.seq, -1
        self.bell = Bell(SLOW)
        self.fd = record.ipc_files(store, task_id).hang(self.bell, prefix=record.bell_prefix(question))

    def answer(self) -> str | None:
        """Its answer, once there is one; the log is read only if it has grown."""
        size = self._store.log_size(self._task_id)
        if size == self._seen:
            return None
        self._seen = size
        return record.recorded_answer(self._store, self._task_id, self._seq)

    def __enter__(self) -> PendingAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        self.bell.close()


class WaitingMark:
    """A lock in the run's folder while one of its processes waits, for an answer or for a task it delegated.

    The kernel releases it if the process dies. Without a run, as in a person's shell, there is no mark.
    """

    def __init__(self, desk: Beneath | None, seq: int | None = None) -> None:
        name = f"{os.getpid()}-{random_text(4)}"
        self._desk, self._name = desk, name if seq is None else f"ask-{seq}-{name}"
        self._fd: int | None = None

    def __enter__(self) -> None:
        if self._desk is not None:
            self._fd = self._desk.lock(f"waiting/.{self._name}", make=True)
            self._desk.rename(f"waiting/.{self._name}", f"waiting/{self._name}")  # it is seen as soon as it counts

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            self.remove()
            self.release()

    def remove(self) -> None:
        if self._desk is not None:
            self._desk.remove(f"waiting/{self._name}")

    def release(self) -> None:
        """Let go of the lock as a process that is killed does: the file stays."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def mark_of_caller(store: Store, task_id: str | None, run_id: str | None, seq: int | None = None) -> WaitingMark:
    """The mark of a process that waits for tasks, or an answer: its run, if any, holds no slot meanwhile."""
    return WaitingMark(store.desk_files(task_id, run_id) if task_id is not None and run_id is not None else None, seq)


def leave_waiting_mark(desk: Beneath, seq: int) -> None:
    """The caller is about to call again: for a while the run still counts as blocked."""
    desk.write(f"waiting/again-{seq}", f"{time.monotonic():.3f}\n", make=True)
