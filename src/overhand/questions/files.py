"""Questions and answers that somebody wrote as files into `ipc/`: taken into the record, whatever shape they are in."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.documents import ipc as documents
from overhand.documents import jsontext
from overhand.documents.problems import has_errors
from overhand.documents.text import decode
from overhand.errors import BadInput
from overhand.questions import record
from overhand.record.events import Notice
from overhand.system import bell
from overhand.system.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record.store import LockedTask, Store
    from overhand.record.task import By, Question, Task

SETTLE = 2.0  # seconds that a file which cannot be read yet may still be under its writer's hands
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_MOST = 300  # files taken at a time; more is a flood, and the rest comes with the next look


class Found(NamedTuple):
    """What a file says: the question or answer, the rest of its object, and what is wrong with it."""

    text: str
    options: list[str]
    step: str
    problem: str
    sha: str


def take(store: Store, task: Task, by: By, *, last: bool = False) -> tuple[Task, bool]:
    """Record what is new in `ipc/`; also says whether a file must be looked at again, since it is being written.

    With `last` its writers are gone: what is there now is all there will be.
    """
    if not has_news(store, task):
        return task, False
    given: list[Question] = []
    with store.lock(task.id, by) as locked:
        ipc = record.folder(store, locked.task_id)
        news = list(_news(locked.task, ipc))
        unsettled = len(news) > _MOST and not last
        for stem, kind in news if last else news[:_MOST]:
            known = _of_stem(locked.task, stem)
            if not last and _is_unfinished(ipc, stem, kind):
                unsettled = True
            elif not _is_plain(stem):
                _tell(locked, ipc, f"{stem}.{kind}", "has a name that cannot be used. Name it like 001.question.")
            elif kind == "question":
                _take_question(locked, ipc, stem, known)
            elif known is not None and _take_answer(locked, ipc, known):
                given.append(known)
        task = locked.task
    for question in given:
        bell.ring(ipc, question.stem)
    for question in _undelivered(task, ipc):
        whole = record.whole_answer(store, task.id, question)
        record.deliver(store, task.id, question, whole)
    return task, unsettled


def has_news(store: Store, task: Task) -> bool:
    """Whether there is a file that the record does not know, or an answer without its file."""
    ipc = record.folder(store, task.id)
    return any(True for _ in _news(task, ipc)) or bool(_undelivered(task, ipc))


def _news(task: Task, ipc: str) -> Iterator[tuple[str, str]]:
    """Files that the record does not know: questions, answers to open ones, and questions that were changed."""
    by_stem = {question.stem: question for question in task.questions}
    for stem, kind in record.files_in(ipc):
        known = by_stem.get(stem)
        is_question = kind == "question"
        is_new = (known is None or _is_other(ipc, known)) if is_question else (known is not None and known.is_open)
        if is_new and _cause(ipc, f"{stem}.{kind}") not in task.causes:
            yield stem, kind


def _undelivered(task: Task, ipc: str) -> list[Question]:
    """Answers whose file is missing: a crash may have come between the record and the file."""
    return [
        question
        for question in task.questions
        if not question.is_open and not os.path.lexists(f"{ipc}/{question.stem}.answer")
    ]


def ring_again(store: Store, task: Task) -> None:
    """Whoever still waits for what was answered has missed the bell: who was to ring it may have been killed."""
    ipc = record.folder(store, task.id)
    hung = bell.hung(ipc)
    for question in task.questions if hung else ():
        if not question.is_open and any(name.startswith(f".{question.stem}-") for name in hung):
            bell.ring(ipc, question.stem)


def _is_plain(stem: str) -> bool:
    """Whether a file's name can be kept in the record, and another one made beside it."""
    return len(stem) <= 60 and _PLAIN.issuperset(stem)


def _is_unfinished(ipc: str, stem: str, kind: str) -> bool:
    """Whether a file that cannot be read may still be under its writer's hands."""
    path = f"{ipc}/{stem}.{kind}"
    if not _is_young(path):
        return False
    raw = read_file(path)
    return bool(_read_question(raw, stem).problem) if kind == "question" else _read_answer(raw)[0] is None


def _of_stem(task: Task, stem: str) -> Question | None:
    return next((q for q in task.questions if q.stem == stem), None)


def _is_other(ipc: str, known: Question) -> bool:
    """Whether an agent put other bytes where its question was."""
    return bool(known.sha) and known.sha != _sha(read_file(f"{ipc}/{known.stem}.question") or b"")


def _sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:12]


def _take_question(locked: LockedTask, ipc: str, stem: str, known: Question | None) -> None:
    name = f"{stem}.question"
    if known is not None:
        told = "was changed after it was asked; the first wording stands. Ask anew with a new number."
        _tell(locked, ipc, name, told)
        return
    found = _read_question(read_file(f"{ipc}/{name}"), stem)
    if found.text:
        current = locked.task.current_run
        run = current.id if current else None
        before = record.same(locked.store, locked.task, run, found.text, found.step, "file")
        seq = _number(locked.task, ipc, stem)
        event = record.asked(seq, found.text, found.options, found.step, via="file", run=run)
        locked.append(event.replace(stem=stem, sha=found.sha))
        if before is not None and not before.is_open:  # an earlier run asked the same and was answered
            text = record.whole_answer(locked.store, locked.task_id, before)
            locked.append(record.answered(locked.folder, seq, text, "again"))
    if found.problem:
        _tell(locked, ipc, name, found.problem)


def _number(task: Task, ipc: str, stem: str) -> int:
    """The number in the file's name, if it is one and still free."""
    if stem.isascii() and stem.isdigit() and 0 < int(stem) < 1_000_000 and task.question(int(stem)) is None:
        return int(stem)
    return record.next_number(task, ipc)


def _take_answer(locked: LockedTask, ipc: str, known: Question) -> bool:
    """An answer that somebody wrote by hand; whether it was taken."""
    name = f"{known.stem}.answer"
    text, wrong = _read_answer(read_file(f"{ipc}/{name}"))
    if known.via == "permission":  # whoever may write here may be the one who asks
        handle = locked.task.handle or locked.task_id
        text, wrong = None, f"a permission is given by a person: overhand answer {handle}"
    if text is not None and known.closed:
        try:
            text = record.fitting(known, text)
        except BadInput as error:
            text, wrong = None, error.message
    if text is None:
        _tell(locked, ipc, name, f"cannot be taken as an answer: {wrong}")
        return False
    event = record.answered(locked.folder, known.seq, text, "file")
    due = record.is_due(locked.store, locked.task, known)
    locked.append(event, *([record.go_on(locked.task, known)] if due else []), sync=due)
    return True


def _read_answer(raw: bytes | None) -> tuple[str | None, str]:
    """The answer in a file, or what is wrong with it: the format, any object that has one, or a person's plain text."""
    if raw is None:
        return None, "it is no regular file."
    text = _text(raw)
    answer, problems = documents.parse_answer(text)
    if answer is not None:
        return answer.answer, ""
    value, error = jsontext.load(text)
    if isinstance(value, dict) and isinstance(value.get("answer"), str):
        return value["answer"], ""
    if _is_prose(text, error):
        return text.strip(), ""
    return None, " ".join(p.message for p in problems if has_errors([p])) or "it is empty."


def _is_prose(text: str, error: str) -> bool:
    return bool(error and text.strip() and "\0" not in text and not text.lstrip().startswith(("{", "[")))


def _read_question(raw: bytes | None, stem: str) -> Found:
    """As much of a question as can be read: the format, any object that has one, or the plain text of the file."""
    if raw is None:
        return Found("", [], "", "is no regular file and is not read.", "")
    text = _text(raw)
    seq = int(stem) if stem.isascii() and stem.isdigit() else None
    question, problems = documents.parse_question(text, seq)
    if question is not None:
        return Found(question.question, list(question.options), question.checklist_item, "", _sha(raw))
    wrong = " ".join(p.message for p in problems if has_errors([p]))
    value, error = jsontext.load(text)
    if isinstance(value, dict) and isinstance(value.get("question"), str) and value["question"].strip():
        return Found(
            value["question"], _texts(value.get("options")), "", f"is not quite in the format: {wrong}", _sha(raw)
        )
    if _is_prose(text, error):
        return Found(text.strip(), [], "", "is plain text, not JSON; it was taken as the question.", _sha(raw))
    return Found("", [], "", f"cannot be read as a question: {wrong or 'it is empty.'}", _sha(raw))


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _text(raw: bytes) -> str:
    return decode(raw)[0]


def _is_young(path: str) -> bool:
    try:
        return abs(time.time() - os.lstat(path).st_mtime) < SETTLE  # a clock that is ahead must not hold it up
    except OSError:
        return False


def _cause(ipc: str, name: str) -> str:
    """What says that this state of a file was told of already; two may be written within one tick of its clock."""
    try:
        found = os.lstat(f"{ipc}/{name}")
        return f"ipc/{_shown(name)}@{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"
    except OSError:
        return f"ipc/{_shown(name)}@gone"


def _shown(name: str) -> str:
    """A file's name as it may stand in the record: an agent chose it."""
    return name if name.isascii() and name.isprintable() else ascii(name)[1:-1]


def _tell(locked: LockedTask, ipc: str, name: str, what: str) -> None:
    cause = _cause(ipc, name)
    if cause not in locked.task.causes:
        locked.append(Notice(text=f"ipc/{_shown(name)} {what}"[:1000], cause=cause))
