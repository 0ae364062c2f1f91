"""One CONTROL line: its parts, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from overhand.documents.problems import Problem, warning
from overhand.documents.text import shorten

WORDS = {
    "PAUSE": "ask a person, and wait for the answer",
    "CHECKPOINT": "save what is known so far, and go on",
    "ESCALATE": "save it, end here, and leave it to a person",
    "RESUME": "read a checkpoint again: the one that is named, or the latest",
    "DELEGATE": "hand a part of the work to another agent",
}
CODES = {
    "control-prefix": "a line looks like a command, but does not begin with `CONTROL:`",
    "control-colon": "there is no colon behind CONTROL",
    "control-empty": "no command stands behind `CONTROL:`",
    "control-unknown": "the command is none of the five",
    "control-case": "a command is not written in capitals",
    "control-extra": "there is text behind the command which is no reason",
    "control-position": "a command does not stand at the start of its line, so it is not heard",
    "control-fence-open": "a command stands behind a code fence that is never closed, so it is not heard",
    "control-agent-missing": "DELEGATE names no agent",
    "control-agent-unknown": "the agent that shall do it does not exist",
    "control-agents-differ": "the line and its `delegation:` block name different agents; the line counts",
    "control-checkpoint-form": "RESUME names something that cannot be a checkpoint",
    "control-checkpoint-unknown": "the checkpoint does not exist",
    "control-no-question": "PAUSE has neither a reason nor a paragraph before it, so nobody knows what to answer",
    "control-no-reason": "PAUSE, CHECKPOINT or ESCALATE has no reason",
    "control-no-task": "DELEGATE has neither a reason nor a `delegation:` block, so there is no task",
    "control-escalate-first": "ESCALATE comes before any CHECKPOINT or PAUSE was tried",
    "control-block-long": "the `delegation:` block is longer than 32 KB",
    "delegation-invalid": "the `delegation:` block cannot be read",
    "delegation-budget": "the token budget is no number of tokens",
    "delegation-no-budget": "the delegation has no token budget",
    "delegation-priority": "the priority is none of CRITICAL, HIGH, MEDIUM and LOW",
}

_CONTROL = re.compile(r"(CONTROL)\b\s*(:|[-=;\uff1a]?)\s*(.*)", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(r"[^\W\d][\w-]*")
_REASON = re.compile(r"\bREASON[ \t]{0,8}:", re.IGNORECASE)
_CHECKPOINT = re.compile(r"ckpt_[A-Za-z0-9_-]+")
_ONE_OF = f"Write `CONTROL: ` and one of {', '.join(WORDS)}."
_WRAPS = {"[": "]", "<": ">", "`": "`", '"': '"', "'": "'"}
_JOINS = "[,;\u2013\u2014- \t"  # what people put between a command and its reason


class Attempt(NamedTuple):
    """A line parsed as a command; without a word it could not be parsed, and the problem says why."""

    word: str
    target: str = ""
    reason: str = ""
    problem: Problem | None = None


class _Rest(NamedTuple):
    target: str
    reason: str
    extra: str  # what is neither


def read(text: str, number: int) -> Attempt | None:
    """The command that an unindented line is, or tries to be; None for any other text."""
    match = _CONTROL.match(text)
    if not match:
        return None
    prefix, colon, rest = match.groups()
    rest = rest.rstrip()
    token = _TOKEN.match(rest)
    said = token.group() if token else ""
    word = said.upper()
    after = _rest(word, rest[len(said) :])
    exact = prefix == "CONTROL" and said == word
    whole = word in WORDS and not after.extra
    # Prose may begin with "Control", too: such a line is a command only if everything else in it fits.
    if (colon != ":" and not (exact and whole)) or (prefix != "CONTROL" and not whole):
        return None
    if not rest:
        message = "There is no command behind CONTROL:."
        return Attempt("", problem=Problem("control-empty", message, line=number, fix=_ONE_OF))
    if word not in WORDS:
        return Attempt("", "", after.reason, _unknown(said or rest, number))
    if problem := _malformed(word, said, after, exact=exact, colon=colon == ":", number=number):
        return Attempt("", after.target, after.reason, problem)
    return Attempt(word, *after[:2], _bad_target(word, after.target, number))


def reason_of(text: str) -> str | None:
    """The text after `REASON:`; None for any other line."""
    match = _REASON.match(text)
    return text[match.end() :].strip() if match else None


def is_whole(text: str) -> bool:
    """Whether `text` is a well-formed command."""
    attempt = read(text, 0)
    return attempt is not None and bool(attempt.word)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean X?`, or nothing."""
    from difflib import get_close_matches

    names = {one.lower(): one for one in known}
    near = get_close_matches(name.lower()[:100], names, 1)
    return f" Did you mean {names[near[0]]}?" if near else ""


def _rest(word: str, tail: str) -> _Rest:
    """Parse the text after the command: a target if the command takes one, and the reason."""
    head, reason = tail.strip(), ""
    if match := _REASON.search(tail):
        reason, before = tail[match.end() :].strip(), tail[: match.start()].rstrip()
        if before.endswith("[") and reason.endswith("]"):
            reason = reason[:-1].rstrip()
        head = before.strip().rstrip(_JOINS)
    target = head
    if len(target) > 1 and target[-1] == _WRAPS.get(target[0]):
        target = target[1:-1].strip()
    if word not in {"RESUME", "DELEGATE"} or len(target.split(maxsplit=1)) > 1 or not _apart(tail):
        return _Rest("", reason, head)
    return _Rest("" if word == "RESUME" and target.lower() == "latest" else target, reason, "")


def _apart(tail: str) -> bool:
    return not tail or tail[0].isspace() or tail[0] in "[<"


def _malformed(word: str, said: str, after: _Rest, *, exact: bool, colon: bool, number: int) -> Problem | None:
    right = f"CONTROL: {word}" + (f" {after.target}" if after.target else "")
    if not colon:
        return Problem("control-colon", "There is no colon behind CONTROL.", line=number, fix=f"Write `{right}`.")
    if after.extra:
        extra = shorten(after.extra.lstrip(f":.{_JOINS}"), 60)
        if word == "DELEGATE":
            agent, _, extra = extra.partition(" ")
            right += f" {agent}"
        message = f"Behind CONTROL: {said} stands “{shorten(after.extra, 60)}”, which is no reason."
        fix = f"Write `{right} REASON: {extra}`." if extra else f"Write `{right}`, and why behind `REASON:`."
        return Problem("control-extra", message, line=number, fix=fix)
    if not exact:
        return Problem("control-case", "A command is heard in capitals only.", line=number, fix=f"Write `{right}`.")
    return None


def _unknown(said: str, number: int) -> Problem:
    said = shorten(said, 40)
    message = f"There is no command {said}.{did_you_mean(said, WORDS)}"
    return Problem("control-unknown", message, line=number, fix=_ONE_OF)


def _bad_target(word: str, target: str, number: int) -> Problem | None:
    if word == "RESUME" and target and not _CHECKPOINT.fullmatch(target):
        fix = "Write its whole name, such as ckpt_auth_phase2, or only `CONTROL: RESUME` for the latest."
        message = f"{shorten(target, 40)} is no checkpoint's name."
        return Problem("control-checkpoint-form", message, line=number, fix=fix)
    return None


def no_agent(number: int) -> Problem:
    """DELEGATE without a name."""
    fix = "Write `CONTROL: DELEGATE` and the agent's name; `overhand agents` shows them."
    return Problem("control-agent-missing", "DELEGATE names no agent.", line=number, fix=fix)


def no_task(number: int) -> Problem:
    """DELEGATE without anything to do."""
    message = "DELEGATE says who, but not what: it is refused."
    fix = "Add `REASON:` and the task on the same or the next line, or a `delegation:` block behind it."
    return warning("control-no-task", message, number, fix)


def no_question(number: int) -> Problem:
    """PAUSE without anything to answer."""
    message = "PAUSE asks nothing: it has no reason, and no paragraph before it."
    return warning("control-no-question", message, number, "Add `REASON:` and the question.")


def long_block(number: int) -> Problem:
    """A block that is larger than a task can be."""
    fix = "Put long material into files and name them under scope."
    return Problem("control-block-long", "The delegation: block is longer than 32 KB.", line=number, fix=fix)
