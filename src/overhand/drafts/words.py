"""The options of `delegate` become a brief: the command line, MCP and Python use the same names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from overhand.agents import installable
from overhand.drafts.build import Brief
from overhand.errors import BadInput, Refused
from overhand.policy import parse_budget, parse_setting
from overhand.words import LEVELS, is_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.policy import Caller

_REPEATED = ("context", "file", "constraint", "deliverable", "returns", "step", "verify", "settings")
_SINGLE = (
    *("title", "agent", "kind", "handoff", "timeout", "budget", "priority", "contract", "model", "level", "session"),
    *("after", "edit", "no_start", "wait", "read_only", "here", "strict"),
)
_RENAMED = {"return": "returns", "set": "settings"}  # words that mean something else in Python


def brief_from_words(given: dict[str, Any]) -> Brief:
    """The brief that the options describe; raises BadInput for an option that can't be read."""
    values = {_RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    names = (*_SINGLE, *_REPEATED)
    for name, value in values.items():
        if name not in names:
            near = get_close_matches(name, names, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise BadInput(f"delegate has no option {name!r}.{meant}", "See them all: overhand delegate --help")
        if name in _REPEATED and isinstance(value, str):  # one where several may be given
            values[name] = [value]
    kind = values.get("kind")
    if kind is not None and not is_name(kind):
        raise BadInput(f"--kind {kind!r} is not a kind.", "A kind is one word, such as research, fix or review.")
    level = _level(values.pop("level", None), read_only=values.pop("read_only", False))
    if checks := _checks(values.pop("verify", ())):
        values["checks"] = checks
    if "timeout" in values:
        values["timeout"] = str(values["timeout"])  # Python may give seconds
    values["budget"] = checked_budget(values.get("budget"))
    values["settings"] = dict(parse_setting(text) for text in values.pop("settings", ()))
    values["priority"] = values.get("priority") or "P2"
    values.pop("here", None)
    return Brief(level=level, **values)


def _level(level: str | None, *, read_only: bool) -> str | None:
    if level is not None and level not in LEVELS:
        raise BadInput(f"--level {level!r} is no level.", f"One of: {', '.join(LEVELS)}")
    if read_only and level not in (None, "read"):
        raise BadInput(f"--read-only and --level {level} contradict each other.", "Say one of them.")
    return "read" if read_only else level


def _checks(commands: Sequence[str]) -> list[dict[str, str]]:
    if any(not command.strip() for command in commands):
        raise BadInput("--verify is empty.", 'Give a command: --verify "pytest -q"')
    names = [f"verify-{number}" if len(commands) > 1 else "verify" for number in range(1, len(commands) + 1)]
    return [{"name": name, "command": command} for name, command in zip(names, commands, strict=True)]


def checked_budget(asked: str | float | None) -> str | None:
    """The budget as it was written, once it can be read."""
    if asked is None:
        return None
    try:
        parse_budget(asked)
    except ValueError as error:
        example = """For example: --budget "200k tokens", or --budget '$5'"""
        raise BadInput(f"--budget: {error}.", example) from None
    return str(asked).strip()


def only_from_people(caller: Caller, brief: Brief) -> None:
    """Checks and settings come from a person or the trusted configuration, never from an agent."""
    if caller.is_person:
        return
    if brief.checks:
        fix = "Put the check into [checks] of the project's settings."
        raise Refused("--verify comes from a person, never from an agent.", fix)
    if brief.session:
        raise Refused("--session comes from a person, never from an agent.", "Leave it out.")
    if brief.settings:
        raise Refused("--set comes from a person, never from an agent.", "Leave it out.")


def session_owner(session: str | None) -> str | None:
    """The program whose session is to be adopted, if one is named and can be one."""
    if session is None:
        return None
    owner, _, name = session.partition(":")
    known = installable()
    if owner not in known or not known[owner].is_session(name):
        example = f"--session {next(iter(known))}:ID (one of {', '.join(known)})"
        raise BadInput(f"--session {session!r} names no session.", f"Write the program and the session's id: {example}")
    return owner
