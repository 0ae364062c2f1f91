"""Questions and answers: the JSON in `ipc/NNN.question` and `ipc/NNN.answer`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overhand.documents.jsontext import dump, load
from overhand.documents.problems import Problem, has_errors, warning

# The same pattern stands in the schemas: a date, a time, and Z or an offset.
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asks while it works."""

    seq: int
    timestamp: str
    question: str
    options: tuple[str, ...] = ()
    checklist_item: str = ""
    """The plan step that waits for the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person, or another agent, answered."""

    seq: int
    timestamp: str
    answer: str


def is_timestamp(value: object) -> bool:
    """Whether this is a moment in the form all documents use: `2026-02-25T11:30:00Z`."""
    return isinstance(value, str) and bool(_TIMESTAMP.fullmatch(value))


def file_name(seq: int, kind: str) -> str:
    """`001.question`, `001.answer`."""
    return f"{seq:03d}.{kind}"


def render_question(question: Question) -> str:
    """The text of a question's file."""
    shown: dict[str, Any] = {
        "seq": question.seq,
        "timestamp": question.timestamp,
        "question": question.question,
    }
    if question.options:
        shown["options"] = list(question.options)
    if question.checklist_item:
        shown["checklist_item"] = question.checklist_item
    return dump(shown) + "\n"


def render_answer(answer: Answer) -> str:
    """The text of an answer's file."""
    return dump({"seq": answer.seq, "timestamp": answer.timestamp, "answer": answer.answer}) + "\n"


def parse_question(text: str, seq: int | None = None) -> tuple[Question | None, list[Problem]]:
    """A question and everything that is wrong with it; `seq` is the number in the file's name."""
    value, problems = _object(text)
    return read_question(value, seq) if value is not None else (None, problems)


def parse_answer(text: str, seq: int | None = None) -> tuple[Answer | None, list[Problem]]:
    """An answer and everything that is wrong with it; `seq` is the number in the file's name."""
    value, problems = _object(text)
    return read_answer(value, seq) if value is not None else (None, problems)


def _object(text: str) -> tuple[Mapping[str, Any] | None, list[Problem]]:
    value, error = load(text)
    if error:
        fix = "Write one JSON object."
        return None, [Problem("not-json", f"The file is not JSON: {error}.", of="substance", fix=fix)]
    if not isinstance(value, dict):
        return None, [Problem("not-an-object", "The file holds no JSON object.", fix="Write {…}.")]
    return value, []


def read_question(value: Mapping[str, Any], seq: int | None = None) -> tuple[Question | None, list[Problem]]:
    """A question from its object."""
    problems = _common(value, seq, "question")
    options = value.get("options")
    if options is not None and not (isinstance(options, list) and all(_is_text(one) for one in options)):
        problems.append(_type("options", "a list of strings"))
    item = value.get("checklist_item")
    if item is not None and not isinstance(item, str):
        problems.append(_type("checklist_item", "a string"))
    problems += _unknown(value, ("seq", "timestamp", "question", "options", "checklist_item"))
    if has_errors(problems):
        return None, problems
    found = Question(int(value["seq"]), value["timestamp"], value["question"], tuple(options or ()), item or "")
    return found, problems


def read_answer(value: Mapping[str, Any], seq: int | None = None) -> tuple[Answer | None, list[Problem]]:
    """An answer from its object."""
    problems = _common(value, seq, "answer") + _unknown(value, ("seq", "timestamp", "answer"))
    if has_errors(problems):
        return None, problems
    return Answer(int(value["seq"]), value["timestamp"], value["answer"]), problems


def _common(value: Mapping[str, Any], seq: int | None, text: str) -> list[Problem]:
    problems = [
        Problem("field-missing", f"{key} is missing.", fix=f"Add {key}.")
        for key in ("seq", "timestamp", text)
        if value.get(key) is None
    ]
    number = value.get("seq")
    if number is not None:
        # 1.0 is an integer to JSON Schema, and to us.
        whole = number.is_integer() if isinstance(number, float) else type(number) is int
        if not whole or number < 1:
            problems.append(_type("seq", "a whole number from 1"))
        elif seq is not None and number != seq:
            message = f"seq is {number}, the file's name says {seq}."
            problems.append(Problem("seq-mismatch", message, fix="Make the two equal."))
    stamp = value.get("timestamp")
    if stamp is not None and not is_timestamp(stamp):
        problems.append(_type("timestamp", "a string like 2026-02-25T11:30:00Z"))
    said = value.get(text)
    if said is not None and not (_is_text(said) and (text == "answer" or said.strip())):
        problems.append(_type(text, "a string" if text == "answer" else "a string that is not blank"))
    return problems


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _type(key: str, needed: str) -> Problem:
    return Problem("field-type", f"{key} must be {needed}.", fix=f"Write {key} as {needed}.")


def _unknown(value: Mapping[str, Any], known: tuple[str, ...]) -> list[Problem]:
    extra = sorted(key for key in value if key not in known)
    message = f"Not part of the format, ignored: {', '.join(extra)}."
    return [warning("field-unknown", message)] if extra else []
