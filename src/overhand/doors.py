"""Questions and answers that somebody wrote as files into `ipc/`: taken into the record, whatever shape they are in."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand import model, questions
from overhand.documents import ipc as documents
from overhand.documents import jsontext
from overhand.documents.problems import has_errors
from overhand.documents.text import decode
from overhand.files import read_file

if TYPE_CHECKING:
    from overhand.shapes import Event, Question, State
    from overhand.store import Locked, Store

SETTLE = 2.0  # seconds that a file which cannot be read yet may still be under its writer's hands
_MOST = 300  # files taken at a time; more is a flood, and the rest comes with the next look


class Found(NamedTuple):
    """What a file says: the question or answer, the rest of its object, and what is wrong with it."""

    text: str
    options: list[str]
    step: str
    problem: str
    sha: str


def take(store: Store, state: State, by: Event) -> tuple[State, bool]:
    """Record what is new in `ipc/`; also says whether a file is still being written and must be looked at again."""
    if not has_news(store, state):
        return state, False
    with store.locked(state["task_id"], by) as task:
        ipc = questions.folder(store, task.task_id)
        unsettled = False
        for stem, kind in questions.files_in(ipc)[:_MOST]:
            known = _of_stem(task.state, stem)
            if kind == "question":
                unsettled |= _take_question(task, ipc, stem, known)
            elif known is not None and known["answered"] is None:
                unsettled |= _take_answer(task, ipc, known)
        state = task.state
    for question in state["questions"]:  # a crash may have come between the record and the file
        if question["answered"] is not None and not os.path.lexists(f"{ipc}/{question['stem']}.answer"):
            questions.deliver(
                store, state["task_id"], question, questions.whole_answer(store, state["task_id"], question)
            )
    return state, unsettled


def has_news(store: Store, state: State) -> bool:
    """Whether there is a file that the record does not know, or an answer without its file."""
    ipc = questions.folder(store, state["task_id"])
    found = questions.files_in(ipc)
    if not found and not state["questions"]:
        return False
    answers = {stem for stem, kind in found if kind == "answer"}
    for stem, kind in found:
        known = _of_stem(state, stem)
        if (
            kind == "question"
            and (known is None or _is_other(ipc, known))
            and not _told(state, ipc, f"{stem}.question")
        ):
            return True
        if kind == "answer" and known is not None and known["answered"] is None:
            return not _told(state, ipc, f"{stem}.answer")
    return any(q["answered"] is not None and q["stem"] not in answers for q in state["questions"])


def _of_stem(state: State, stem: str) -> Question | None:
    return next((q for q in state["questions"] if q["stem"] == stem), None)


def _is_other(ipc: str, known: Question) -> bool:
    """Whether an agent put other bytes where its question was."""
    return bool(known["sha"]) and known["sha"] != _sha(read_file(f"{ipc}/{known['stem']}.question") or b"")


def _sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:12]


def _take_question(task: Locked, ipc: str, stem: str, known: Question | None) -> bool:
    name = f"{stem}.question"
    if known is not None:
        if _is_other(ipc, known):
            _tell(
                task, ipc, name, "was changed after it was asked; the first wording stands. Ask anew with a new number."
            )
        return False
    raw = read_file(f"{ipc}/{name}")
    found = _read_question(raw, stem)
    if found.problem and _is_young(f"{ipc}/{name}"):
        return True
    if found.text:
        run = model.current_run(task.state)
        event: Event = {
            "e": "asked",
            "seq": _number(task.state, ipc, stem),
            "stem": stem,
            "question": questions.shorten(found.text, 500),
            "options": [questions.shorten(option, 100) for option in found.options[:20]],
            "step": questions.shorten(found.step, 200),
            "via": "file",
            "run": run["id"] if run else None,
            "sha": found.sha,
        }
        task.append(event)
    if found.problem:
        _tell(task, ipc, name, found.problem)
    return False


def _number(state: State, ipc: str, stem: str) -> int:
    """The number in the file's name, if it is one and still free."""
    if (
        stem.isascii()
        and stem.isdigit()
        and 0 < int(stem) < 1_000_000
        and model.find_question(state, int(stem)) is None
    ):
        return int(stem)
    return questions.next_number(state, ipc)


def _take_answer(task: Locked, ipc: str, known: Question) -> bool:
    name = f"{known['stem']}.answer"
    raw = read_file(f"{ipc}/{name}")
    answer, problems = documents.parse_answer(_text(raw)) if raw is not None else (None, [])
    text = answer.answer if answer else questions.answer_of(task.store, task.task_id, known["stem"])
    if text is None:
        if _is_young(f"{ipc}/{name}"):
            return True
        wrong = " ".join(p.message for p in problems) or "is no regular file."
        _tell(task, ipc, name, f"cannot be read as an answer: {wrong}")
        return False
    event: Event = {"e": "answered", "seq": known["seq"], "answer": questions.shorten(text, 1500), "via": "file"}
    due = questions.is_due(task.state, known)
    task.append(event, *([questions.go_on(task.state, known)] if due else []))
    return False


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
    if error and text.strip() and "\0" not in text and not text.lstrip().startswith(("{", "[")):
        return Found(text.strip(), [], "", "is plain text, not JSON; it was taken as the question.", _sha(raw))
    return Found("", [], "", f"cannot be read as a question: {wrong or 'it is empty.'}", _sha(raw))


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _text(raw: bytes) -> str:
    return decode(raw)[0]


def _is_young(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime < SETTLE
    except OSError:
        return False


def _cause(ipc: str, name: str) -> str:
    """What says that this state of a file was told of already."""
    try:
        found = os.lstat(f"{ipc}/{name}")
        return f"ipc/{name}@{found.st_mtime_ns}-{found.st_size}"
    except OSError:
        return f"ipc/{name}@gone"


def _told(state: State, ipc: str, name: str) -> bool:
    return _cause(ipc, name) in state["causes"]


def _tell(task: Locked, ipc: str, name: str, what: str) -> None:
    cause = _cause(ipc, name)
    if cause not in task.state["causes"]:
        task.append({"e": "notice", "text": f"ipc/{name} {what}"[:1000], "cause": cause})
