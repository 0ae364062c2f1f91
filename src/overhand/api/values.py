"""What Python is given: results, questions, checks and events, with their fields as attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overhand.words import SHOWN_VERIFICATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


class Row(dict[str, Any]):
    """A part of the JSON that a verb prints: its fields are attributes, and keys as they are there."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self[name]!r}" for name in type(self).__annotations__ if name in self)
        return f"{type(self).__name__}({shown})"


class Check(Row):
    """A command that Overhand ran before and after."""

    name: str
    command: str
    passed: bool
    exit: int | None
    before: int | None  # its exit status before the run
    already_red: bool
    timed_out: bool
    seconds: float


class Question(Row):
    """Something that waits for an answer, or had one."""

    task_id: str
    handle: int | None
    title: str
    seq: int
    question: str
    options: list[str]
    closed: bool  # only one of the options is an answer
    step: str
    asked: str
    via: str

    @property
    def text(self) -> str:
        return str(self["question"])


class Answer(Row):
    """An answer as it was recorded."""

    task_id: str
    seq: int
    answer: str
    left: int  # open questions
    resumed: bool


class Run(Row):
    """One run of a task."""

    id: str
    agent: str
    state: str
    cause: str | None
    exit: int | None
    status: str | None
    created: str
    ended: str | None


class Problem(Row):
    """What is wrong with a return."""

    code: str
    level: str
    of: str
    message: str


class Listed(Row):
    """A task as `list` shows it."""

    task_id: str
    handle: int | None
    title: str
    agent: str
    headline: str
    status: str | None
    verification: str
    verified: bool
    run_state: str | None
    summary: str


class Event(Row):
    """Something that happened to a task, or that its agent said or did."""

    e: str
    t: str

    @property
    def kind(self) -> str:
        return str(self["e"])

    def __repr__(self) -> str:
        return f"Event({dict(self)!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """A judged task; it has the names of the JSON that `show` prints."""

    task_id: str
    handle: int | None
    title: str
    agent: str
    kind: str | None
    headline: str
    status: str | None
    verification: str
    verified: bool
    proof: str | None
    run_state: str | None
    cause: str | None
    summary: str
    data: Any
    runs: list[Run]
    deliverables: list[Row]
    decisions: list[Row]
    for_primary: str
    files_modified: list[str]
    errors: list[Row]
    next_steps: str
    questions: list[Question]
    problems: list[Problem]
    checks: list[Check]
    usage: Any
    output: str | None
    json: dict[str, Any] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Judged completed."""
        return self.status == "completed"

    def __repr__(self) -> str:
        word = SHOWN_VERIFICATIONS.get(self.verification, "") if self.status else ""
        said = f"{self.status or self.headline}{f', {word}' if word else ''}"
        return f"<Result {self.handle} {self.title!r}: {said}>"


_ROWS: dict[str, type[Row]] = {
    "runs": Run, "questions": Question, "problems": Problem, "checks": Check,
    "deliverables": Row, "decisions": Row, "errors": Row,
}  # fmt: skip
_NAMES = tuple(name for name in Result.__dataclass_fields__ if name != "json")


def as_result(payload: Mapping[str, Any]) -> Result:
    values = {name: payload.get(name) for name in _NAMES}
    for name, kind in _ROWS.items():
        values[name] = [kind(one) for one in payload.get(name) or ()]
    values["verified"] = bool(values["verified"])
    return Result(**values, json=dict(payload))  # type: ignore[arg-type] # as the verbs print it
