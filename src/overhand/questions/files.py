"""Questions and answers as files in `ipc/`: taken into the record in whatever shape they are, delivered again, and
waited for; a mark says that a process waits, so that its run is known to be blocked."""

from __future__ import annotations

import os
import time

from overhand.errors import OverhandError, Refused, StorageUnavailable
from overhand.questions import record
from overhand.questions.record import Asking
from overhand.record import Notice, Record
from overhand.system import Bell, random_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record import By, LockedTask, Question, Run, Store, Task
    from overhand.system import Beneath

SETTLE = 2.0  # seconds for which an unreadable file may still be being written
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_MOST = 300  # files taken at a time; more is a flood, and the rest comes with the next look


class TakenIn(Record, frozen=True):
    """The task with what lay in its files; `unfinished` says that one is still being written: look again soon."""

    task: Task
    unfinished: bool


class Found(Record, frozen=True):
    """What the file of a question says, and what is wrong with it."""

    asking: Asking | None = None
    problem: str = ""
    sha: str = ""


def take_in_files(store: Store, task: Task, by: By, *, final: bool = False) -> TakenIn:
    """Record what is new in `ipc/`, and deliver answers whose file is missing.

    With `final` the writers are gone: what is there now is all there will be.
    """
    ipc = record.ipc_files(store, task.id)
    if not any(True for _ in _news(task, ipc)) and not _undelivered(task, ipc):
        return TakenIn(task=task, unfinished=False)
    with store.lock(task.id, by) as locked:
        news = list(_news(locked.task, ipc))
        unfinished = len(news) > _MOST and not final
        for stem, kind in news if final else news[:_MOST]:
            known = next((question for question in locked.task.questions if question.stem == stem), None)
            if not final and _is_unfinished(ipc, stem, kind):
                unfinished = True
            elif len(stem) > 60 or not _PLAIN.issuperset(stem):
                _tell(locked, ipc, f"{stem}.{kind}", "has a name that cannot be used. Name it like 001.question.")
            elif kind == "question":
                _take_question(locked, ipc, stem, known)
            elif known is not None:
                _refuse_answer(locked, ipc, known)
        task = locked.task
    for question in _undelivered(task, ipc):
        try:
            record.deliver_answer(store, task.id, question, record.full_answer(store, task.id, question))
        except Refused:
            continue  # a link is in the way, which is not followed: the agent gets no file
    return TakenIn(task=task, unfinished=unfinished)


def has_unread_files(store: Store, task: Task) -> bool:
    """Whether a question, or an answer to an open one, lies in `ipc/` that the record does not know yet."""
    found = record.files_in(record.ipc_files(store, task.id))
    if not found:  # most never ask
        return False
    known = {question.stem: question.answered for question in task.questions}
    return any(
        stem not in known if kind == "question" else stem in known and known[stem] is None for stem, kind in found
    )


def redeliver(store: Store, task: Task) -> None:
    """Ring again for answers that a process still waits for: the process that answered may have been killed."""
    ipc = record.ipc_files(store, task.id)
    hung = ipc.bells()
    for question in task.questions if hung else ():
        prefix = record.bell_prefix(question)
        if not question.is_open and any(name.startswith(prefix) for name in hung):
            ipc.ring(prefix=prefix)


def _news(task: Task, ipc: Beneath) -> Iterator[tuple[str, str]]:
    """Files that the record does not know: questions, answers to open ones, and questions that were changed."""
    by_stem = {question.stem: question for question in task.questions}
    for stem, kind in record.files_in(ipc):
        known = by_stem.get(stem)
        if kind == "answer":
            is_new = known is not None and known.is_open
        else:
            changed = known and known.sha and known.sha != _sha(ipc.read(f"{stem}.question") or b"")
            is_new = known is None or bool(changed)
        if is_new and _cause(ipc, f"{stem}.{kind}") not in task.causes:
            yield stem, kind


def _undelivered(task: Task, ipc: Beneath) -> list[Question]:
    """Answers whose file is missing: a crash may have come between the record and the file."""
    answered = [question for question in task.questions if not question.is_open]
    return [question for question in answered if not ipc.exists(f"{question.stem}.answer")]


def _is_unfinished(ipc: Beneath, stem: str, kind: str) -> bool:
    """Whether an unreadable file may still be being written."""
    found = ipc.look(f"{stem}.{kind}")
    if found is None or abs(time.time() - found.st_mtime) >= SETTLE:  # a clock that is ahead must not delay it
        return False
    return kind == "question" and bool(_read_question(ipc.read(f"{stem}.{kind}"), stem).problem)


def _sha(raw: bytes) -> str:
    import hashlib

    return hashlib.sha256(raw).hexdigest()[:12]


def _take_question(locked: LockedTask, ipc: Beneath, stem: str, known: Question | None) -> None:
    name = f"{stem}.question"
    if known is not None:
        problem = "was changed after it was asked; the first wording stands. Ask anew with a new number."
        _tell(locked, ipc, name, problem)
        return
    found = _read_question(ipc.read(name), stem)
    if found.asking:
        current = locked.task.current_run
        run_id = current.id if current else None
        before = record.same(locked.store, locked.task, run_id, found.asking)
        is_number = stem.isascii() and stem.isdigit() and 0 < int(stem) < 1_000_000
        is_free = is_number and locked.task.question(int(stem)) is None
        seq = int(stem) if is_free else record.next_number(locked.task, ipc)
        locked.append(record.asked(seq, run_id, found.asking).replace(stem=stem, sha=found.sha))
        if before is not None and not before.is_open:  # an earlier run asked the same and was answered
            text = record.full_answer(locked.store, locked.task_id, before)
            locked.append(record.answered(locked.record, seq, text, "again"))
    if found.problem:
        _tell(locked, ipc, name, found.problem)


def _refuse_answer(locked: LockedTask, ipc: Beneath, known: Question) -> None:
    """A file that is in the place of an answer, and that Overhand did not write: the agent itself may have."""
    hint = f"overhand answer {locked.task.name} TEXT"
    _tell(locked, ipc, f"{known.stem}.answer", f"is no answer: Overhand did not write it. To answer: {hint}")


def _is_prose(text: str, error: str) -> bool:
    return bool(error and text.strip() and "\0" not in text and not text.lstrip().startswith(("{", "[")))


def _read_question(raw: bytes | None, stem: str) -> Found:
    """As much of a question as can be read: the format, any object that has one, or the plain text of the file."""
    from overhand.documents import has_errors, load_json, parse_question

    if raw is None:
        return Found(problem="is no regular file and is not read.")
    text, sha = _text(raw), _sha(raw)
    seq = int(stem) if stem.isascii() and stem.isdigit() else None
    question, problems = parse_question(text, seq)
    if question is not None:
        step = question.checklist_item
        return Found(asking=Asking(text=question.question, options=question.options, step=step, via="file"), sha=sha)
    wrong = " ".join(p.message for p in problems if has_errors([p]))
    value, error = load_json(text)
    if isinstance(value, dict) and isinstance(value.get("question"), str) and value["question"].strip():
        given = value.get("options")
        options = tuple(text for text in given if isinstance(text, str)) if isinstance(given, list) else ()
        asking = Asking(text=value["question"], options=options, via="file")
        return Found(asking=asking, problem=f"is not quite in the format: {wrong}", sha=sha)
    if _is_prose(text, error):
        problem = "is plain text, not JSON; it was taken as the question."
        return Found(asking=Asking(text=text.strip(), via="file"), problem=problem, sha=sha)
    return Found(problem=f"cannot be read as a question: {wrong or 'it is empty.'}", sha=sha)


def _text(raw: bytes) -> str:
    from overhand.documents import decode_text

    return decode_text(raw)[0]


def _cause(ipc: Beneath, name: str) -> str:
    """A name for this state of a file, which is reported once; two may be written within one tick of the clock."""
    found = ipc.look(name)
    state = "gone" if found is None else f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"
    return f"ipc/{_shown(name)}@{state}"


def _shown(name: str) -> str:
    """A file's name, escaped for the record: an agent chose it."""
    return name if name.isascii() and name.isprintable() else ascii(name)[1:-1]


def _tell(locked: LockedTask, ipc: Beneath, name: str, what: str) -> None:
    cause = _cause(ipc, name)
    if cause not in locked.task.causes:
        locked.append(Notice(text=f"ipc/{_shown(name)} {what}"[:1000], cause=cause))


def has_file_question(task: Task, run: Run) -> bool:
    """Whether a question that it asked by writing a file is open: only its silence shows that it waits."""
    return any(q.via == "file" and q.run == run.id for q in task.open_questions)


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
            try:
                self._desk.rename(f"waiting/.{self._name}", f"waiting/{self._name}")  # it is seen as soon as it counts
            except OverhandError:
                self.release()
                raise

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
    try:
        desk.write(f"waiting/again-{seq}", f"{time.monotonic():.3f}\n", make=True)
    except StorageUnavailable:
        return  # then it counts as working
