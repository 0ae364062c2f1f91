"""Questions and answers: the JSON in `ipc/NNN.question` and `ipc/NNN.answer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overhand.documents.problems import Problem, has_errors
from overhand.documents.text import (
    FILLED,
    TIMESTAMP,
    is_filled,
    is_texts,
    is_timestamp,
    is_whole,
    load_object,
    missing,
    mistyped,
    unknown,
)


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """What an agent asks while it works."""

    seq: int
    timestamp: str
    question: str
    options: tuple[str, ...] = ()
    checklist_item: str = ""  # the plan step that waits for the answer


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """What a person, or another agent, answered."""

    seq: int
    timestamp: str
    answer: str


def parse_question(text: str, seq: int | None = None) -> tuple[QuestionFile | None, list[Problem]]:
    """A question and everything that is wrong with it; `seq` is the number in the file's name."""
    value, problems = load_object(text)
    if value is None:
        return None, problems
    problems = _common(value, seq, "question")
    options = value.get("options")
    if options is not None and not is_texts(options):
        problems.append(mistyped("options", "a list of strings"))
    item = value.get("checklist_item")
    if item is not None and not isinstance(item, str):
        problems.append(mistyped("checklist_item", "a string"))
    problems += unknown(value, ("seq", "timestamp", "question", "options", "checklist_item"))
    if has_errors(problems):
        return None, problems
    found = QuestionFile(int(value["seq"]), value["timestamp"], value["question"], tuple(options or ()), item or "")
    return found, problems


def parse_answer(text: str, seq: int | None = None) -> tuple[AnswerFile | None, list[Problem]]:
    """An answer and everything that is wrong with it; `seq` is the number in the file's name."""
    value, problems = load_object(text)
    if value is None:
        return None, problems
    problems = _common(value, seq, "answer") + unknown(value, ("seq", "timestamp", "answer"))
    if has_errors(problems):
        return None, problems
    return AnswerFile(int(value["seq"]), value["timestamp"], value["answer"]), problems


def _common(value: Mapping[str, Any], seq: int | None, text: str) -> list[Problem]:
    problems = missing(value, ("seq", "timestamp", text))
    number, stamp, content = value.get("seq"), value.get("timestamp"), value.get(text)
    if number is not None and not is_whole(number, 1):
        problems.append(mistyped("seq", "a whole number from 1"))
    elif number is not None and seq not in (None, number):
        message = f"seq is {number}, the file's name says {seq}."
        problems.append(Problem("seq-mismatch", message, fix="Make the two equal."))
    if stamp is not None and not is_timestamp(stamp):
        problems.append(mistyped("timestamp", TIMESTAMP))
    if content is not None and not (isinstance(content, str) if text == "answer" else is_filled(content)):
        problems.append(mistyped(text, "a string" if text == "answer" else FILLED))
    return problems
