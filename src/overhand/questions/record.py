"""Questions: one durable record in the task's log, whichever way they came in, each answered once.

`ipc/NNN.question` is written before the event `asked`, so a crash in between leaves a file that is taken in like any
other; an answer is recorded first (`answered`, under the lock), then `ipc/NNN.answer` appears, then the processes that
wait are woken. A missing answer file is written again at the next look.
"""

from __future__ import annotations

import os

from overhand.errors import BadInput, NotFound, Refused, StaleRun
from overhand.questions.resume import next_run_after_answer
from overhand.record import Answered, Asked, Record
from overhand.system import dump_line, load_line, now_stamp, read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from overhand.record import By, Event, LockedTask, Question, Store, Task
    from overhand.system import Beneath
    from overhand.words import Via

_SHORT = 500  # characters of a question in the log; its file has the whole
_LONG = 1500  # an answer beyond this many characters is kept in a file of its own
_MOST = 20  # options
_ROOM = 3000  # characters of an event that a question or an answer may fill


def ipc_files(store: Store, task_id: str) -> Beneath:
    """A task's questions and answers."""
    return store.workspace_files(task_id).at("ipc")


def _open_ipc(store: Store, task_id: str) -> Beneath:
    """The same, made where it is missing; what is no folder is moved aside."""
    store.workspace_files(task_id).make_folder("ipc", aside=True)
    return ipc_files(store, task_id)


class Asking(Record, frozen=True):
    """What to ask, and how it came in."""

    text: str
    options: Sequence[str] = ()
    only: bool = False  # only one of the options will do
    step: str = ""  # of the plan or checklist that waits for the answer
    via: Via = "ask"
    cause: str = ""  # the output that asks: it is recorded once


def ask_question(
    store: Store, task_id: str, run_id: str | None, asking: Asking, by: By, *, anew: bool = False
) -> Question:
    """Record a question and return it; the caller decides whether to wait.

    Asking the same text again returns the existing question, answered or not, so a resumed run picks up its answer;
    `anew` asks even though there is an answer. Raises StaleRun if another run holds the task.
    """
    asking = asking.replace(text=asking.text.strip())
    if not asking.text:
        raise BadInput("The question is empty.", 'Ask something: overhand ask "Which date column is the sort key?"')
    if asking.only and not asking.options:
        raise BadInput("--closed needs options to choose from.", "Add --option A --option B.")
    if len(asking.options) > _MOST:
        raise BadInput(f"{len(asking.options)} options are too many to choose from.", f"Offer at most {_MOST}.")
    with store.lock(task_id, by) as locked:
        current = locked.task.current_run
        if run_id is not None and asking.via != "return" and (current is None or current.id != run_id):
            raise StaleRun(
                f"Run {run_id} no longer holds task {task_id}; its questions are not taken.",
                "Stop here: this run is over.",
            )
        if asking.cause and asking.cause in locked.task.causes:
            return next(q for q in reversed(locked.task.questions) if q.via == asking.via)
        known = same(store, locked.task, run_id, asking)
        if known is not None and not (anew and not known.is_open):
            if known.run != run_id:
                locked.append(Asked(seq=known.seq, run=run_id, again=True))
            return known
        ipc = _open_ipc(store, task_id)
        seq = next_number(locked.task, ipc)
        document = question_text(seq, now_stamp(), asking.text, asking.options, asking.step)
        ipc.write(f"{seq:03d}.question", document)
        locked.append(asked(seq, run_id, asking))
        return locked.task.questions[-1]


def same(store: Store, task: Task, run_id: str | None, asking: Asking) -> Question | None:
    """An open question of the same words, or an answered one of an earlier run that this run has not used."""
    short = cut_text(asking.text, _SHORT)
    for known in reversed(task.questions):
        if short.startswith(known.text.removesuffix("…")) and known.step == cut_text(asking.step, 200):
            if full_question(store, task.id, known) != asking.text:
                continue  # they only begin alike
            taken = known.run == run_id or asking.via in ("pause", "return")  # else it would continue for ever
            if not known.is_open and taken and not _is_unread(store, task.id, run_id, known):
                return None
            return known
    return None


def _is_unread(store: Store, task_id: str, run_id: str | None, question: Question) -> bool:
    """Whether the process that asked ended before it had the answer: its mark is still in the run's folder."""
    if run_id is None or question.via != "ask":
        return False
    return any(unread_marks(place, question.seq) for place in store.run_folders(task_id, run_id).both)


def unread_marks(place: Beneath, seq: int) -> list[str]:
    """What processes left that asked this question and ended, killed or out of time, without its answer."""
    with place.at("waiting").held() as marks:
        asked = [name for name in marks.names() if name.startswith(f"ask-{seq}-") and not marks.is_locked(name)]
        again = [f"again-{seq}"] if marks.exists(f"again-{seq}") else []
    return [f"waiting/{name}" for name in asked + again]


def question_text(seq: int, timestamp: str, text: str, options: Sequence[str], step: str) -> str:
    """A question's file; `documents.ipc` reads it."""
    document: dict[str, Any] = {"seq": seq, "timestamp": timestamp, "question": text}
    if options:
        document["options"] = list(options)
    if step:
        document["checklist_item"] = step
    return dump_line(document) + "\n"


def answer_text(seq: int, timestamp: str, text: str) -> str:
    """An answer's file; `documents.ipc` reads it."""
    return dump_line({"seq": seq, "timestamp": timestamp, "answer": text}) + "\n"


def asked(seq: int, run_id: str | None, asking: Asking) -> Asked:
    """The event of a question; a text that is long, or long once escaped, is cut and stands in its file."""
    for size in (_SHORT, _SHORT // 4, _SHORT // 16):
        event = Asked(
            seq=seq,
            question=cut_text(asking.text, size),
            options=[cut_text(option, size // 5) for option in asking.options[:_MOST]],
            step=cut_text(asking.step, 200),
            via=asking.via,
            run=run_id,
        )
        if len(dump_line(event.line)) < _ROOM:
            break
    if asking.only:
        event = event.replace(closed=True)
    return event.replace(cause=asking.cause) if asking.cause else event


def next_number(task: Task, ipc: Beneath) -> int:
    """The next free number: they continue over resumes, and files that are not recorded yet have theirs."""
    taken = [q.seq for q in task.questions]
    taken += [int(stem) for stem, _ in files_in(ipc) if stem.isascii() and stem.isdigit() and len(stem) < 7]
    return max(taken, default=0) + 1


def cut_text(text: str, length: int) -> str:
    """At most this long; what was cut off shows as …"""
    return text if len(text) <= length else text[: length - 1] + "…"


def plain_text(text: str, most: int) -> str:
    """A text for the log: short, without characters that need escaping or control a terminal."""
    shown = "".join(c if c.isprintable() or c == "\n" else " " for c in text[: most + 1])
    return cut_text(shown.strip(), most)


def recorded_answer(store: Store, task_id: str, seq: int) -> str | None:
    """The recorded answer; one in a file counts once it is recorded."""
    question = store.recorded(task_id).question(seq)
    return full_answer(store, task_id, question) if question and not question.is_open else None


def full_question(store: Store, task_id: str, question: Question) -> str:
    """The whole question, where the log has only its beginning."""
    if not question.text.endswith("…"):
        return question.text
    raw = ipc_files(store, task_id).read(f"{question.stem}.question") or b""
    try:
        whole = str(load_line(raw.decode("utf-8", "replace").removeprefix("\ufeff"))["question"])
    except (ValueError, KeyError, TypeError):
        whole = raw.decode("utf-8", "replace").strip()
    begins = whole.startswith(question.text.removesuffix("…"))  # else the file was changed: the record stands
    return whole if begins else question.text


class Given(Record, frozen=True):
    """An answer that was recorded: the question, the task then, and whether its next run was queued thereby."""

    question: Question
    task: Task
    resumed: bool


def answer_question(
    store: Store, task_id: str, text: str, by: By, *, seq: int | None = None, resume: bool = True
) -> Given:
    """Record the answer to an open question, once, and deliver it; `resume` lets a task that waits for it continue."""
    with store.lock(task_id, by) as locked:
        question = choose_question(locked.task, seq)
        text = fitting(question, text)
        next_run = record_answer(locked, question, text, by["via"], resume=resume)
        task = locked.task
    deliver_answer(store, task_id, question, text)
    return Given(question=question, task=task, resumed=next_run)


def record_answer(locked: LockedTask, question: Question, text: str, via: str, *, resume: bool = True) -> bool:
    """Append the answer, and with it the next run if the task waited for nothing else; whether there is one."""
    next_run = None
    if resume:
        left = has_leftovers(locked.store, locked.task)
        next_run = next_run_after_answer(locked.task, question, leftovers=left)
    event = answered(locked.record, question.seq, text, via)
    locked.append(event, *([next_run] if next_run else []), sync=next_run is not None)
    return next_run is not None


def choose_question(task: Task, seq: int | None) -> Question:
    """The open question of this number, or the only one."""
    handle, still_open = task.name, task.open_questions
    if seq is not None:
        question = task.question(seq)
        if question is None:
            numbers = ", ".join(str(q.seq) for q in still_open) or "none"
            hint = f"See them: overhand show {handle}"
            raise NotFound(f"Task {handle} has no question {seq} (open: {numbers}).", hint)
        if not question.is_open:
            raise Refused(
                f"Question {seq} of task {handle} was answered already: {cut_text(question.answer or '', 200)}",
                f"See what happened: overhand log {handle}",
            )
        return question
    if not still_open:
        hint = f"See what it does: overhand show {handle}"
        if task.status not in (None, "completed"):
            hint = f"Let it go on with a word from you: overhand resume {handle} --answer TEXT"
        raise Refused(f"Task {handle} has no open question.", hint)
    if len(still_open) > 1:
        some = "; ".join(f"{q.seq}: {cut_text(q.text, 60)}" for q in still_open)
        raise BadInput(
            f"Task {handle} has {len(still_open)} open questions: {some}.",
            f"Say which: overhand answer {handle} {still_open[0].seq} TEXT",
        )
    return still_open[0]


def fitting(question: Question, text: str) -> str:
    """The answer itself; for a closed question one of the options, by its text or its number."""
    if not text.strip():
        raise BadInput("The answer is empty.", "Write what the agent is to know.")
    if not question.closed or text in question.options:
        return text
    number = text.strip()
    for option in question.options:
        if option.casefold() == number.casefold():
            return option
    if number.isascii() and number.isdigit() and 0 < int(number) <= len(question.options):
        return question.options[int(number) - 1]
    options = ", ".join(question.options)
    raise BadInput(f"Question {question.seq} takes one of: {options}.", "Answer with one of these words.")


def has_leftovers(store: Store, task: Task) -> bool:
    """Whether processes of its last run are still there: nothing is started beside them."""
    last = task.last_run
    if last is None or not last.leftovers:
        return False
    from overhand.system import living_leftovers, lock_holder

    spare = frozenset(filter(None, [lock_holder(f"{store.own}/lock")]))
    return bool(living_leftovers(store.run_folder(task.id, last.id), f"OVERHAND_RUN={last.id}", spare))


def let_leftovers_end(store: Store, task: Task) -> None:
    """Wait a moment for the last run's processes: a call that waited for the answer ends a little after its agent."""
    import time

    until = time.monotonic() + 2.0
    while has_leftovers(store, task) and time.monotonic() < until:
        time.sleep(0.02)


def answered(task_folder: str, seq: int, text: str, via: str) -> Answered:
    """The event of an answer; a long one is kept in a file first."""
    event = Answered(seq=seq, answer=cut_text(text, _LONG), via=via)
    if len(text) > _LONG or len(dump_line(event.line)) > _ROOM:
        return event.replace(answer=cut_text(text, _LONG // 4), blob=keep_text(task_folder, text))
    return event


def keep_text(task_folder: str, text: str) -> str:
    """A long text in a file named by its hash, before the event that speaks of it."""
    import hashlib

    raw = text.encode("utf-8", "replace")
    name = hashlib.sha256(raw).hexdigest()
    os.makedirs(f"{task_folder}/files", exist_ok=True)
    write_file(f"{task_folder}/files/{name}", raw)
    return name


def hand_over_events(locked: LockedTask, run_id: str, handed: Asking, text: str) -> list[Event]:
    """The events that give a run something as `ipc/NNN.answer`: asked and answered at once."""
    seq = next_number(locked.task, ipc_files(locked.store, locked.task_id))
    asked = Asked(seq=seq, question=plain_text(handed.text, _SHORT), via=handed.via, run=run_id, cause=handed.cause)
    return [asked, answered(locked.record, seq, text, handed.via)]


def deliver_answer(store: Store, task_id: str, question: Question, text: str) -> None:
    """Write the answer's file, then ring the bell of every process that waits for it."""
    ipc = _open_ipc(store, task_id)
    ipc.write(f"{question.stem}.answer", answer_text(question.seq, question.answered or now_stamp(), text))
    ipc.ring(prefix=bell_prefix(question))


def bell_prefix(question: Question) -> str:
    """How the names of the bells begin that ring when this question is answered."""
    return f".{question.stem}-"


def full_answer(store: Store, task_id: str, question: Question) -> str:
    return kept_text(store, task_id, question.blob, question.answer or "")


def kept_text(store: Store, task_id: str, name: str | None, short: str) -> str:
    """The whole of a long text from the file in which `keep` put it, or what the log has of it."""
    raw = read_file(f"{store.record(task_id)}/files/{name}") if name else None
    return short if raw is None else raw.decode("utf-8", "replace")


def files_in(ipc: Beneath) -> list[tuple[str, str]]:
    """Stem and kind of every question and answer file."""
    found = [name.rpartition(".") for name in ipc.names() if not name.startswith(".")]
    return sorted((stem, kind) for stem, _, kind in found if kind in ("question", "answer") and stem)
