"""One CONTROL line: its parts, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from overhand.documents.problems import Problem
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
    first = _TOKEN.match(rest)
    token = first.group() if first else ""
    word = token.upper()
    after = _rest(word, rest[len(token) :])
    exact = prefix == "CONTROL" and token == word
    whole = word in WORDS and not after.extra
    # Prose may begin with "Control", too: such a line is a command only if everything else in it fits.
    if (colon != ":" and not (exact and whole)) or (prefix != "CONTROL" and not whole):
        return None
    if not rest:
        message = "There is no command behind CONTROL:."
        return Attempt("", problem=Problem("control-empty", message, line=number, fix=_ONE_OF))
    if word not in WORDS:
        written = shorten(token or rest, 40)
        message = f"There is no command {written}.{did_you_mean(written, WORDS)}"
        problem = Problem("control-unknown", message, line=number, fix=_ONE_OF)
        return Attempt("", "", after.reason, problem)
    if malformed := _malformed(word, token, after, exact=exact, colon=colon == ":", number=number):
        return Attempt("", after.target, after.reason, malformed)
    if word == "RESUME" and after.target and not _CHECKPOINT.fullmatch(after.target):
        fix = "Write its whole name, such as ckpt_auth_phase2, or only `CONTROL: RESUME` for the latest."
        message = f"{shorten(after.target, 40)} is no checkpoint's name."
        problem = Problem("control-checkpoint-form", message, line=number, fix=fix)
        return Attempt(word, after.target, after.reason, problem)
    return Attempt(word, after.target, after.reason)


def reason_of(text: str) -> str | None:
    """The text after `REASON:`; None for any other line."""
    match = _REASON.match(text)
    return text[match.end() :].strip() if match else None


def is_whole(text: str) -> bool:
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
    apart = not tail or tail[0].isspace() or tail[0] in "[<"
    if word not in {"RESUME", "DELEGATE"} or len(target.split(maxsplit=1)) > 1 or not apart:
        return _Rest("", reason, head)
    return _Rest("" if word == "RESUME" and target.lower() == "latest" else target, reason, "")


def _malformed(word: str, token: str, after: _Rest, *, exact: bool, colon: bool, number: int) -> Problem | None:
    right = f"CONTROL: {word}" + (f" {after.target}" if after.target else "")
    if not colon:
        return Problem("control-colon", "There is no colon behind CONTROL.", line=number, fix=f"Write `{right}`.")
    if after.extra:
        extra = shorten(after.extra.lstrip(f":.{_JOINS}"), 60)
        if word == "DELEGATE":
            agent, _, extra = extra.partition(" ")
            right += f" {agent}"
        message = f"Behind CONTROL: {token} stands “{shorten(after.extra, 60)}”, which is no reason."
        fix = f"Write `{right} REASON: {extra}`." if extra else f"Write `{right}`, and why behind `REASON:`."
        return Problem("control-extra", message, line=number, fix=fix)
    if not exact:
        return Problem("control-case", "A command is heard in capitals only.", line=number, fix=f"Write `{right}`.")
    return None
