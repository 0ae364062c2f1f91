"""Questions: one durable record in the task's log, whichever door they came through, each answered once.

`ipc/NNN.question` is written before the event `asked`, so a crash in between leaves a file that is taken up like any
other; an answer is recorded first (`answered`, under the lock), then `ipc/NNN.answer` appears, then whoever waits is
woken. A missing answer file is written again by whoever looks next.
"""

from __future__ import annotations

import os

from overhand.errors import BadInput, NotFound, Refused, StaleRun
from overhand.record.events import Accepted, Answered, Asked
from overhand.system import bell as bells
from overhand.system import machine
from overhand.system.files import is_there, random_text, read_file, remove, write_file
from overhand.system.jsonline import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from overhand.record.store import LockedTask, Store
    from overhand.record.task import By, Question, Task
    from overhand.words import Via

_SHORT = 500  # characters of a question in the log; its file has the whole
_LONG = 1500  # an answer beyond this many characters is kept in a file of its own
_MOST = 20  # options
_ROOM = 3000  # characters of an event that a question or an answer may fill
SLOW = 120.0  # seconds between looks of one who waits, should there be nobody who rings its bell


def folder(store: Store, task_id: str) -> str:
    """Where a task's questions and answers are."""
    return f"{store.folder(task_id)}/ipc"


# asking


def ask(
    store: Store,
    task_id: str,
    run_id: str | None,
    by: By,
    text: str,
    *,
    options: Sequence[str] = (),
    closed: bool = False,
    step: str = "",
    via: Via = "ask",
    cause: str = "",
    anew: bool = False,
) -> Question:
    """Record a question of this run; the same one asked by an earlier run is the same record, unless `anew`."""
    text = text.strip()
    if not text:
        raise BadInput("The question is empty.", 'Ask something: overhand ask "Which date column is the sort key?"')
    if closed and not options:
        raise BadInput("--closed needs options to choose from.", "Add --option A --option B.")
    if len(options) > _MOST:
        raise BadInput(f"{len(options)} options are too many to choose from.", f"Offer at most {_MOST}.")
    with store.lock(task_id, by) as locked:
        current = locked.task.current_run
        if run_id is not None and via != "return" and (current is None or current.id != run_id):
            raise StaleRun(f"Run {run_id} no longer holds task {task_id}; its questions are not taken.")
        if cause and cause in locked.task.causes:
            return next(q for q in reversed(locked.task.questions) if q.via == via)
        known = same(store, locked.task, run_id, text, step, via)
        if known is not None and not (anew and not known.is_open):
            if known.run != run_id:
                locked.append(Asked(seq=known.seq, run=run_id, again=True))
            return known
        return _record(locked, run_id, text, options=options, closed=closed, step=step, via=via, cause=cause)


def same(store: Store, task: Task, run_id: str | None, text: str, step: str, via: str) -> Question | None:
    """An open question of the same words, or one that was answered for an earlier run and not taken by this one."""
    short = shorten(text, _SHORT)
    for known in reversed(task.questions):
        if short.startswith(known.text.removesuffix("…")) and known.step == shorten(step, 200):
            if text_of(store, task.id, known) != text:
                continue  # they only begin alike
            taken = known.run == run_id or via in ("pause", "return")  # else it would go on and on by itself
            return None if not known.is_open and taken else known
    return None


def _record(
    locked: LockedTask,
    run_id: str | None,
    text: str,
    *,
    options: Sequence[str],
    closed: bool,
    step: str,
    via: Via,
    cause: str,
) -> Question:
    ipc = folder(locked.store, locked.task_id)
    os.makedirs(ipc, exist_ok=True)
    seq = next_number(locked.task, ipc)
    write_file(f"{ipc}/{seq:03d}.question", question_text(seq, machine.now(), text, options, step))
    event = asked(seq, text, options, step, via=via, run=run_id)
    locked.append(event.replace(**({"closed": True} if closed else {}), **({"cause": cause} if cause else {})))
    return locked.task.questions[-1]


def question_text(seq: int, timestamp: str, text: str, options: Sequence[str], step: str) -> str:
    """A question's file; `documents.ipc` reads it."""
    document: dict[str, Any] = {"seq": seq, "timestamp": timestamp, "question": text}
    if options:
        document["options"] = list(options)
    if step:
        document["checklist_item"] = step
    return dumps(document) + "\n"


def answer_text(seq: int, timestamp: str, text: str) -> str:
    """An answer's file; `documents.ipc` reads it."""
    return dumps({"seq": seq, "timestamp": timestamp, "answer": text}) + "\n"


def asked(seq: int, text: str, options: Sequence[str], step: str, *, via: Via, run: str | None) -> Asked:
    """The event of a question; what is long, or long once it is escaped, is cut off and stands in its file."""
    for size in (_SHORT, _SHORT // 4, _SHORT // 16):
        event = Asked(
            seq=seq,
            question=shorten(text, size),
            options=[shorten(option, size // 5) for option in options[:_MOST]],
            step=shorten(step, 200),
            via=via,
            run=run,
        )
        if len(dumps(event.line)) < _ROOM:
            break
    return event


def next_number(task: Task, ipc: str) -> int:
    """The next free number: they go on over resumes, and files that nobody recorded yet have theirs."""
    taken = [q.seq for q in task.questions]
    taken += [int(stem) for stem, _ in files_in(ipc) if stem.isascii() and stem.isdigit() and len(stem) < 7]
    return max(taken, default=0) + 1


def shorten(text: str, length: int) -> str:
    """At most this long; what was cut off shows as …"""
    return text if len(text) <= length else text[: length - 1] + "…"


def await_answer(store: Store, task_id: str, question: Question, seconds: float, gone: int = -1) -> str | None:
    """Block until it is answered, at most this long; a FIFO of our own beside the file rings.

    `gone` is a descriptor that can be read once nobody wants the answer any more.
    """
    import select
    import time

    ipc = folder(store, task_id)
    until, seen = time.monotonic() + seconds, -1
    bell, fd = bells.hang(ipc, question.stem)
    try:
        while True:
            size = store.log_size(task_id)
            text = answer_of(store, task_id, question.seq) if size != seen else None
            left, seen = until - time.monotonic(), size
            if text is not None or left <= 0:
                return text
            rung = select.select([fd] if gone < 0 else [fd, gone], [], [], min(left, SLOW))[0]
            if gone in rung:
                return None
            if rung:
                os.read(fd, 4096)
    finally:
        os.close(fd)
        remove(bell)


class Blocked:
    """While one of its calls waits for an answer, a run is known to be blocked: a lock says so, and dies with us."""

    def __init__(self, run_folder: str, seq: int) -> None:
        self.path = f"{run_folder}/waiting/ask-{seq}-{os.getpid()}-{random_text(4)}"
        self.fd = -1

    def __enter__(self) -> None:
        import fcntl

        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        remove(self.path)
        os.close(self.fd)


def answer_of(store: Store, task_id: str, seq: int) -> str | None:
    """The recorded answer; what somebody wrote into a file counts from when it was taken into the record."""
    question = store.task(task_id).question(seq)
    if question is None or question.is_open:
        return None
    return whole_answer(store, task_id, question)


def text_of(store: Store, task_id: str, question: Question) -> str:
    """The whole question, where the log has only its beginning."""
    if not question.text.endswith("…"):
        return question.text
    raw = read_file(f"{folder(store, task_id)}/{question.stem}.question") or b""
    try:
        whole = str(loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))["question"])
    except (ValueError, KeyError, TypeError):
        whole = raw.decode("utf-8", "replace").strip()
    begins = whole.startswith(question.text.removesuffix("…"))  # else the file was changed: the record stands
    return whole if begins else question.text


def has_unread(store: Store, task: Task) -> bool:
    """Whether a question, or an answer to an open one, lies in `ipc/` that the record does not know yet."""
    found = files_in(folder(store, task.id))
    if not found:  # most never ask
        return False
    known = {question.stem: question.answered for question in task.questions}
    return any(
        stem not in known if kind == "question" else stem in known and known[stem] is None for stem, kind in found
    )


# answering


def answer(
    store: Store, task_id: str, by: By, seq: int | None, text: str, *, via: str, resume: bool = True
) -> tuple[Question, Task, bool]:
    """Record the answer, once; returns the question, the task and whether its next run was queued thereby."""
    with store.lock(task_id, by) as locked:
        question = choose(locked.task, seq)
        text = fitting(question, text)
        event = answered(locked.folder, question.seq, text, via)
        going_on = [go_on(locked.task, question)] if resume and is_due(store, locked.task, question) else []
        locked.append(event, *going_on, sync=bool(going_on))
        task = locked.task
    deliver(store, task_id, question, text)
    return question, task, bool(going_on)


def choose(task: Task, seq: int | None) -> Question:
    """The open question that is meant."""
    handle = task.name
    still_open = task.open_questions
    if seq is not None:
        question = task.question(seq)
        if question is None:
            numbers = ", ".join(str(q.seq) for q in still_open) or "none"
            raise NotFound(
                f"Task {handle} has no question {seq} (open: {numbers}).", f"See them: overhand show {handle}"
            )
        if not question.is_open:
            raise Refused(
                f"Question {seq} of task {handle} was answered already: {shorten(question.answer or '', 200)}",
                f"See what happened: overhand log {handle}",
            )
        return question
    if not still_open:
        raise Refused(
            f"Task {handle} has no open question.",
            f"Let it go on with a word from you: overhand resume {handle} --answer TEXT"
            if task.status not in (None, "completed")
            else f"See what it does: overhand show {handle}",
        )
    if len(still_open) > 1:
        some = "; ".join(f"{q.seq}: {shorten(q.text, 60)}" for q in still_open)
        raise BadInput(
            f"Task {handle} has {len(still_open)} open questions: {some}.",
            f"Say which: overhand answer {handle} {still_open[0].seq} TEXT",
        )
    return still_open[0]


def fitting(question: Question, text: str) -> str:
    """The answer itself; where only the options will do, one of them by its words or its number."""
    if not text.strip():
        raise BadInput("The answer is empty.", "Write what the agent is to know.")
    if not question.closed or text in question.options:
        return text
    same = [one for one in question.options if one.casefold() == text.strip().casefold()]
    number = text.strip()
    if same:
        return same[0]
    if number.isascii() and number.isdigit() and 0 < int(number) <= len(question.options):
        return question.options[int(number) - 1]
    raise BadInput(
        f"Question {question.seq} takes one of: {', '.join(question.options)}.", "Answer with one of these words."
    )


def is_due(store: Store, task: Task, last: Question | None = None) -> bool:
    """Whether the task goes on by itself: it ended short, nothing of it is left or open (after `last`)."""
    left = [q for q in task.open_questions if q is not last]
    ended = task.status in ("needs-input", "blocked", "partial", "failed")
    asked = task.status == "needs-input" or last is not None or bool(task.questions)
    detached = bool(task.runs) and not task.runs[-1].attached
    at_rest = detached and not left and not task.queued and not task.stop
    return ended and asked and at_rest and not has_leftovers(store, task)


def has_leftovers(store: Store, task: Task) -> bool:
    """Whether processes of its last run are still there: nothing is started beside them."""
    last = task.last_run
    if last is None or not last.leftovers:
        return False
    from overhand.system import detached as handles
    from overhand.system import lock

    spare = frozenset(filter(None, [lock.holder(f"{store.own}/lock")]))
    return bool(handles.leftovers(store.run_folder(task.id, last.id), f"OVERHAND_RUN={last.id}", spare))


def let_end(store: Store, task: Task, seconds: float = 2.0) -> None:
    """Give what is left of its last run a moment: a call that waited for the answer ends a little after its agent."""
    import time

    until = time.monotonic() + seconds
    while has_leftovers(store, task) and time.monotonic() < until:
        time.sleep(0.02)


def go_on(task: Task, question: Question | None = None) -> Accepted:
    """The event that queues the next run because the answer is there: the answer is the approval."""
    why = f"question {question.seq} was answered" if question else "it was answered"
    return Accepted(resume={"run": task.runs[-1].id, "why": why})


def answered(task_folder: str, seq: int, text: str, via: str) -> Answered:
    """The event of an answer; a long one is kept in a file first."""
    event = Answered(seq=seq, answer=shorten(text, _LONG), via=via)
    if len(text) > _LONG or len(dumps(event.line)) > _ROOM:
        return event.replace(answer=shorten(text, _LONG // 4), blob=keep(task_folder, text))
    return event


def keep(task_folder: str, text: str) -> str:
    """A long text in a file named by its hash, before the event that speaks of it."""
    import hashlib

    raw = text.encode("utf-8", "replace")
    name = hashlib.sha256(raw).hexdigest()
    os.makedirs(f"{task_folder}/files", exist_ok=True)
    write_file(f"{task_folder}/files/{name}", raw)
    return name


def deliver(store: Store, task_id: str, question: Question, text: str) -> None:
    """The answer's file, then the bell of everybody who waits for it."""
    ipc = folder(store, task_id)
    os.makedirs(ipc, exist_ok=True)
    document = answer_text(question.seq, question.answered or machine.now(), text)
    write_file(f"{ipc}/{question.stem}.answer", document)
    bells.ring(ipc, question.stem)


def whole_answer(store: Store, task_id: str, question: Question) -> str:
    """The answer as it was given, however long."""
    if question.blob:
        raw = read_file(f"{store.folder(task_id)}/files/{question.blob}")
        if raw is not None:
            return raw.decode("utf-8", "replace")
    return question.answer or ""


def files_in(ipc: str) -> list[tuple[str, str]]:
    """Stem and kind of every question and answer file."""
    try:
        names = os.listdir(ipc) if is_there(ipc) else []  # most never ask
    except OSError:
        return []
    found = [name.rpartition(".") for name in names if not name.startswith(".")]
    return sorted((stem, kind) for stem, _, kind in found if kind in ("question", "answer") and stem)
