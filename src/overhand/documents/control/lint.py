"""What is wrong with the CONTROL lines of a text: those that are recognized, and those that never will be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from overhand.documents.control import lines
from overhand.documents.control.delegation import parse_delegation, unknown_agent, vague
from overhand.documents.control.listener import LINE_LIMIT, ControlCommand, ControlListener
from overhand.documents.markdown import Scanner
from overhand.documents.problems import Problem, by_line, has_errors, warning
from overhand.documents.problems import as_errors as as_strict
from overhand.documents.text import shorten

_NEEDS_REASON = ("PAUSE", "CHECKPOINT", "ESCALATE")
_ANY = re.compile(r"^[^\w\n]{0,40}CONTROL\b[ \t]*:", re.MULTILINE)
_MARKS = re.compile(r"(?:[ \t]|[-+*](?=[ \t])|[0-9]{1,9}[.)](?=[ \t])|#|\*|_|\")*")
_BARE = re.compile(
    r"(?:PAUSE|CHECKPOINT|ESCALATE|RESUME(?:[ \t]+\[?ckpt_[\w-]+\]?)?|DELEGATE(?:[ \t]+\[?[A-Za-z0-9][\w.-]*\]?)?)"
    r"(?:[ \t]+REASON[ \t]*:.*)?"
)
_WISH = re.compile(
    r"(?:(?:please|just|now|ok|okay|let us|let's|i|we|will|should|must|need to|have to|want to)[,]?[ \t]+)*"
    r"(pause|checkpoint|escalate|resume)(?:[ \t]+(?:this|it|here|now|everything|please|(?:the|my|our)[ \t]+\w+))*"
    r"[ \t]*[.!]?",
    re.IGNORECASE,
)


def lint_control(
    text: str,
    *,
    strict: bool = False,
    agents: Collection[str] | None = None,
    checkpoints: Collection[str] | None = None,
) -> list[Problem]:
    """Everything that is wrong, by line; `agents` and `checkpoints` are the names that exist, if they are known."""
    commands = _commands(text)
    problems = [*_unrecognized(text, {one.line for one in commands})]
    tried = False
    for command in commands:
        problems += command.problems
        if strict and command.word in _NEEDS_REASON and not command.reason:
            fix = "Add `REASON:` and why, on the same or the next line."
            message = f"{command.word} has no reason."
            problems.append(Problem("control-no-reason", message, line=command.line, fix=fix))
        if command.word == "DELEGATE":
            problems += _lint_delegate(command, agents)
        if command.word == "RESUME" and checkpoints is not None and not command.refused:
            problems += _lint_resume(command, checkpoints)
        if command.word == "ESCALATE" and not tried:
            message = "ESCALATE is the last resort, and nothing was tried before it."
            fix = "Try CHECKPOINT first, then PAUSE with a question; escalate when neither helps."
            problems.append(warning("control-escalate-first", message, command.line, fix))
        tried = tried or command.word in {"CHECKPOINT", "PAUSE"}
    return as_strict(by_line(problems)) if strict else by_line(problems)


def is_control(text: str) -> bool:
    """Whether a text that is no other document is about CONTROL lines, right or wrong ones."""
    if _ANY.search(text) or _commands(text):
        return True
    return has_errors(_unrecognized(text, set()))


def _commands(text: str) -> list[ControlCommand]:
    listener = ControlListener()
    return [*listener.feed(text), *listener.finish()]


def _lint_delegate(command: ControlCommand, agents: Collection[str] | None) -> Iterator[Problem]:
    if command.target and agents is not None and command.target not in agents:
        yield unknown_agent(command.target, agents, command.line)
    if not command.block:
        yield from vague(command.reason, command.line) if command.reason else ()
        return
    asked, problems = parse_delegation(command.block, line=command.line)
    if asked.agent and asked.agent != command.target:
        message = f"The line names {command.target}, its block {shorten(asked.agent, 40)}; the line counts."
        yield warning("control-agents-differ", message, command.line, "Name the same agent in both.")
    yield from problems


def _lint_resume(command: ControlCommand, checkpoints: Collection[str]) -> Iterator[Problem]:
    if not checkpoints:
        message, fix = "There is no checkpoint to resume from.", "Make one first: `CONTROL: CHECKPOINT`."
        yield Problem("control-checkpoint-unknown", message, line=command.line, fix=fix)
    elif command.target and command.target not in checkpoints:
        name = shorten(command.target, 60)
        message = f"There is no checkpoint {name}.{lines.did_you_mean(command.target, checkpoints)}"
        fix = "Name one that exists, or write only `CONTROL: RESUME` for the latest."
        yield Problem("control-checkpoint-unknown", message, line=command.line, fix=fix)


def _unrecognized(text: str, recognized: set[int]) -> Iterator[Problem]:
    """Lines that may have been meant as commands, but that the listener doesn't recognize."""
    scanner, alone = Scanner(), "\n" not in text.strip()
    opened, swallowed = 0, False  # the line of the open fence, and whether it hides a command
    for number, row in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        was_hidden = bool(scanner.hidden)
        line = scanner.line(row, number)
        if scanner.hidden and not was_hidden:
            opened, swallowed = number, False
        if line is None or number in recognized or len(row) > LINE_LIMIT:
            continue
        if line.kind in ("code", "comment"):
            swallowed = swallowed or lines.is_whole(row)
        elif line.kind != "indented" and (problem := _meant(row.strip(), number, alone)):
            yield problem
    if scanner.hidden and swallowed:
        message = f"The fence or comment of line {opened} is never closed: no command behind it is heard."
        yield warning("control-fence-open", message, opened, "Close it before the command.")


def _meant(row: str, number: int, alone: bool) -> Problem | None:
    if len(row) > 400:
        return None
    marks = _MARKS.match(row)
    bare = row[marks.end() if marks else 0 :].rstrip('*_" \t\r')
    if lines.is_whole(bare):
        message = "The command does not stand at the start of its line: it is not heard."
        fix = f"Put `{shorten(bare, 60)}` on a line of its own, at the margin."
        return warning("control-position", message, number, fix)
    bare = row.strip('" \t\r')
    if _BARE.fullmatch(bare):  # with no mark before it: a list of commands only names them
        message = f"“{shorten(bare, 60)}” is not heard: it does not begin with CONTROL:."
        return Problem("control-prefix", message, line=number, fix=f"Write `CONTROL: {shorten(bare, 60)}`.")
    if len(row.split()) > 1 and (match := _WISH.fullmatch(row)):
        message = f"“{shorten(row, 60)}” is not heard: a command begins with CONTROL:."
        fix = f"If it is meant as a command, write `CONTROL: {match.group(1).upper()}`."
        # In prose it may be just a sentence; standing alone it is meant as a command.
        return Problem("control-prefix", message, "error" if alone else "warning", line=number, fix=fix)
    return None
