"""The brief of a task: made of the options of `delegate`, then a HANDOFF, composed or given whole, and checked.

The command line, MCP and Python use the same names of options.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.agents import installable
from overhand.documents import (
    CONTRACTS,
    DEFAULT_RETURN,
    Deliverable,
    Handoff,
    HandoffStep,
    KeyFile,
    contract_name,
    decode_text,
    expected_of_kind,
    is_flawless,
    lint_handoff,
    parse_handoff,
    promised_path,
    wanted_contract,
    with_kind_defaults,
)
from overhand.errors import BadInput, NotFound, Refused
from overhand.policy import parse_budget, parse_setting
from overhand.record import Record
from overhand.system import read_file, read_given
from overhand.words import LEVELS, is_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overhand.agents import Agent
    from overhand.documents import Handoff, Problem
    from overhand.policy import Caller, Kind

MAX_TITLE = 2000
CONTRACT_FILE = "contract.json"  # in the task's folder, where the contract is a JSON Schema

_FLAGS = {
    "context": "--context",
    "key_files": "--file",
    "constraints": "--constraint",
    "deliverables": "--deliverable",
    "return_requirements": "--return",
    "plan": "--step",
}
_REPEATED = ("context", "file", "constraint", "deliverable", "returns", "step", "verify", "settings")
_SINGLE = (
    *("title", "agent", "kind", "handoff", "timeout", "budget", "priority", "contract", "model", "level", "session"),
    *("after", "edit", "no_start", "wait", "read_only", "here", "base", "committed", "strict"),
)
_OF_ALL_TASKS = ("limits.max_parallel", "limits.agents", "limits.kinds")
_RENAMED = {"return": "returns", "set": "settings"}  # words that mean something else in Python


class Brief(Record, frozen=True):
    """What a task should be, before anything is checked; defaults come from its kind or the project."""

    title: str = ""
    agent: str | None = None
    kind: str | None = None

    # the HANDOFF: from options, from the file that `handoff` names, or whole; or `text`, as it is in a folder already
    context: Sequence[str] = ()
    file: Sequence[str] = ()
    constraint: Sequence[str] = ()
    deliverable: Sequence[str] = ()
    returns: Sequence[str] = ()
    step: Sequence[str] = ()
    handoff: str | Handoff | None = None
    text: str | None = None
    alerts: bool = True  # add those in force to the context
    name: str = ""  # begins the message of a refusal
    fix: str = ""  # how to correct a HANDOFF with errors, if not by the options of `delegate`

    # limits
    limits: Kind | None = None  # instead of its kind's
    level: str | None = None
    writes: bool = False  # even if its kind only reads
    timeout: str | float | None = None  # as an option, or in seconds
    at_most: float | None = None  # seconds, whatever its kind allows
    budget: str | None = None
    contract: str | None = None
    checks: Sequence[Mapping[str, str]] | None = None
    strict: bool = False

    # the rest of what is recorded
    priority: str | None = "P2"
    after: str | None = None
    here: bool = False  # in the project itself, whatever the settings say
    base: str | None = None  # a commit, or a task whose result it begins with
    committed: bool = False  # without uncommitted files
    model: str | None = None
    session: str | None = None
    settings: Mapping[str, Any] = {}
    cause: str | None = None  # the CONTROL line it comes from
    item: Mapping[str, Any] | None = None
    node: str | None = None
    plan: int | None = None
    files: Mapping[str, bytes] = {}  # copied into its folder

    # how it is started
    edit: bool = False
    no_start: bool = False
    wait: bool = False


def brief_from_words(given: dict[str, Any]) -> Brief:
    """The brief that the options describe; raises BadInput for an option that can't be read."""
    values = {_RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    names = (*_SINGLE, *_REPEATED)
    for name, value in values.items():
        if name not in names:
            from difflib import get_close_matches

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
    if values.get("after") == "":
        raise BadInput("--after is empty.", "Name the task to wait for: --after 3")
    if not all(text.partition("=")[0].strip() for text in values.get("file", ())):
        raise BadInput("--file names no file.", 'Write the path first: --file "src/app.py=where totals are made"')
    if "timeout" in values:
        values["timeout"] = str(values["timeout"])  # Python may give seconds
    values["budget"] = checked_budget(values.get("budget"))
    values["settings"] = dict(parse_setting(text) for text in values.pop("settings", ()))
    if shared := [key for key in values["settings"] if key.startswith(_OF_ALL_TASKS)]:
        fix = f"Set it for the project: {shared[0]} in .overhand/config.toml"
        raise BadInput(f"--set {shared[0]}: this limit is for all tasks together, not for one.", fix)
    values["priority"] = values.get("priority") or "P2"
    if values.get("here") and (values.get("base") or values.get("committed")):
        raise BadInput("--here works in your checkout as it stands.", "Leave out --here, or --base and --committed.")
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


def nothing_to_do() -> BadInput:
    return BadInput("There is nothing to do: the task is empty.", 'Say what: overhand delegate "what to do"')


def compose(brief: Brief, root: str, contract: str | None) -> Handoff:
    """The HANDOFF that a brief asks for, with the defaults of its kind."""
    if brief.handoff is not None and not isinstance(brief.handoff, str):
        return with_kind_defaults(brief.handoff, brief.kind)
    title = " ".join(brief.title.split()) if "\n" not in brief.title else brief.title.strip()
    if len(title) > MAX_TITLE:
        raise BadInput(
            f"The title has {len(title)} characters.",
            "Keep it to a line; put the rest into --context or --handoff FILE.",
        )
    base = parse_handoff(read_document(brief.handoff)) if brief.handoff is not None else _EMPTY
    if not title and not base.task.strip():
        raise nothing_to_do()
    returns = [f"- {line}" for line in brief.returns]
    if contract and not wanted_contract(base):
        returns.append(f"Use: {contract} contract")
    pairs = (text.partition("=") for text in brief.file)
    key_files = (KeyFile(path.strip(), why.strip()) for path, _, why in pairs)
    deliverables = (*base.deliverables, *(_deliverable(root, text) for text in brief.deliverable))
    return replace(
        base,
        task=base.task if base.task.strip() else title,
        context=_joined(base.context, "\n\n".join(brief.context)),
        key_files=(*base.key_files, *key_files),
        constraints=(*base.constraints, *brief.constraint),
        deliverables=deliverables or expected_of_kind(brief.kind),
        return_requirements=_joined(base.return_requirements, "\n".join(returns)) or DEFAULT_RETURN,
        plan=(*base.plan, *(HandoffStep(" ", text) for text in brief.step)),
    )


_EMPTY = Handoff(task="")


def _joined(first: str, second: str) -> str:
    return "\n\n".join([part for part in (first.strip(), second.strip()) if part])


def _deliverable(root: str, text: str) -> Deliverable:
    """A path or a sentence; a path that leaves the tree can never hold, so it is refused."""
    text = text.strip()
    waived = text.endswith("(may be unchanged)")

    def look(path: str) -> str:
        whole = os.path.join(root, path)
        return "folder" if os.path.isdir(whole) else "file" if os.path.exists(whole) else ""

    path, note = promised_path(text.removesuffix("(may be unchanged)").strip(), look)
    if path is None:
        return Deliverable(text=text, may_be_unchanged=waived)
    whole = os.path.normpath(os.path.join(root, os.path.expanduser(path)))
    if whole != root and not whole.startswith(root + os.sep):
        raise BadInput(f"The deliverable {path} is outside the project.", "Name a file below the project's folder.")
    return Deliverable(text=note, path=path, may_be_unchanged=waived)


def read_document(path: str) -> str:
    """A document from a file or, for `-`, from standard input."""
    raw = read_given(path)
    if raw is None:
        raise NotFound(f"There is no file {path}.", "Name an existing file, or - for standard input.")
    text, problems = decode_text(raw)
    errors = [p for p in problems if p.level == "error"]
    if errors:
        raise BadInput(f"{path}: {errors[0].message}", "Give a smaller text document in UTF-8.")
    return text


def check(text: str, composed: Handoff | None, brief: Brief, agent: Agent, root: str) -> tuple[Handoff, list[Problem]]:
    """The HANDOFF as parsed, unless it was composed and that changes nothing, and its warnings; errors are raised
    together."""
    if composed is not None and is_flawless(composed):
        handoff, problems = composed, []
    else:
        problems = lint_handoff(text, exists=lambda path: os.path.exists(os.path.join(root, path)), strict=brief.strict)
        handoff = parse_handoff(text)
    missing = [word for word in agent.needs if not getattr(handoff, word, None)]
    errors = [p.message for p in problems if p.level == "error"]
    errors += [f"Agent {agent.name} needs the section {word.replace('_', ' ')}." for word in missing]
    if errors:
        options = " ".join(f"{_FLAGS[word]} …" for word in missing if word in _FLAGS) or "--handoff FILE"
        message = f"{brief.name}: {' '.join(errors)}" if brief.name else " ".join(errors)
        raise BadInput(message, brief.fix or f"Add it: {options}", problems=[p.as_json() for p in problems])
    return handoff, problems


def choose_contract(
    brief: Brief, handoff: Handoff, root: str, of_kind: str | None
) -> tuple[str | None, Mapping[str, bytes]]:
    """The contract of the brief, of a line of the HANDOFF, or of the kind: its name, and the task folder's files."""
    wanted = brief.contract or wanted_contract(handoff) or of_kind
    if not wanted or brief.files.get(wanted):
        return wanted, brief.files
    if wanted.endswith(".json"):
        path = os.path.join(os.getcwd() if brief.contract else root, wanted)
        if brief.contract or wanted_contract(handoff):  # the caller named it, not the project's settings
            raw = read_given(wanted if brief.contract else path)
        else:
            raw = read_file(os.path.realpath(path))
        return wanted, {**brief.files, CONTRACT_FILE: read_schema(path, raw)}
    name = contract_name(wanted)
    if name not in CONTRACTS:
        raise BadInput(f"There is no contract {wanted!r}.", f"Use {', '.join(CONTRACTS)}, or a JSON Schema file.")
    return name, brief.files


def read_schema(path: str, raw: bytes | None) -> bytes:
    """A JSON Schema from a file with these bytes; an invalid one is refused now, not after the work."""
    from overhand.documents import load_json, validate_data

    if raw is None:
        raise NotFound(f"There is no contract file {path}.", "Name a JSON Schema file.")
    schema, error = load_json(decode_text(raw)[0])
    if not error and not isinstance(schema, dict):
        error = "an object was needed"
    if not error:
        wrong = [p.message for p in validate_data(schema, {}) if p.code == "schema-invalid"]  # type: ignore[arg-type] # a dict
        error = wrong[0] if wrong else ""
    if error:
        raise BadInput(f"{path} is not a JSON Schema: {error}", "Mend it, then try again.")
    return json.dumps(schema).encode()
