"""What was asked for: the words of `delegate` made into a HANDOFF, a contract and checks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from overhand.documents import handoff as handoffs
from overhand.documents.contracts import CONTRACTS, contract_name
from overhand.documents.text import decode
from overhand.errors import BadInput, NotFound
from overhand.policy import budget
from overhand.system.files import read_file, write_file

if TYPE_CHECKING:
    from overhand.agents import Agent
    from overhand.documents.handoff import Handoff
    from overhand.documents.problems import Problem
    from overhand.policy.config import Config
    from overhand.verbs import Session

MAX_TITLE = 2000


@dataclass(frozen=True, slots=True)
class Request:
    """Everything `delegate` can be told."""

    title: str = ""
    agent: str | None = None
    kind: str | None = None
    context: list[str] = field(default_factory=list)
    file: list[str] = field(default_factory=list)
    constraint: list[str] = field(default_factory=list)
    deliverable: list[str] = field(default_factory=list)
    returns: list[str] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    verify: list[str] = field(default_factory=list)
    handoff: str | None = None
    edit: bool = False
    no_start: bool = False
    wait: bool = False
    timeout: str | None = None
    budget: str | float | None = None
    priority: str | None = None
    contract: str | None = None
    model: str | None = None
    level: str | None = None
    read_only: bool = False
    here: bool = False
    session: str | None = None
    after: str | None = None
    settings: list[str] = field(default_factory=list)
    strict: bool = False


def request_of(given: dict[str, Any]) -> Request:
    """The command line's names, where Python has its own meaning for them."""
    renamed = {"return": "returns", "set": "settings"}
    values = {renamed.get(name, name): value for name, value in given.items() if value is not None}
    unknown = [name for name in values if name not in Request.__dataclass_fields__]
    if unknown:
        near = get_close_matches(unknown[0], Request.__dataclass_fields__, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise BadInput(f"delegate has no option {unknown[0]!r}.{meant}", "See them all: overhand delegate --help")
    for name, value in values.items():
        if name in _REPEATED and isinstance(value, str):  # one where several may be given
            values[name] = [value]
    return Request(**values)


_REPEATED = ("context", "file", "constraint", "deliverable", "returns", "step", "verify", "settings")


def nothing_to_do() -> BadInput:
    return BadInput("There is nothing to do: the task is empty.", 'Say what: overhand delegate "what to do"')


def build_handoff(session: Session, request: Request, contract: str | None) -> Handoff:
    """From a file, or from the words of the command line."""
    title = " ".join(request.title.split()) if "\n" not in request.title else request.title.strip()
    if len(title) > MAX_TITLE:
        raise BadInput(
            f"The title has {len(title)} characters.",
            "Keep it to a line; put the rest into --context or --handoff FILE.",
        )
    base = handoffs.Handoff(task="")
    if request.handoff is not None:
        base = handoffs.parse(read_document(request.handoff))
    if not title and not base.task.strip():
        raise nothing_to_do()
    returns = [f"- {line}" for line in request.returns]
    if contract and not handoffs.wanted_contract(base):
        returns.append(f"Use: {contract} contract")
    promised = (*base.deliverables, *(_deliverable(session, text) for text in request.deliverable))
    asked = replace(
        base,
        task=title or base.task,
        context=_joined(base.context, "\n\n".join(request.context)),
        key_files=(*base.key_files, *(_key_file(text) for text in request.file)),
        constraints=(*base.constraints, *request.constraint),
        deliverables=promised,
        return_requirements=_joined(base.return_requirements, "\n".join(returns)),
        plan=(*base.plan, *(handoffs.Step(" ", text) for text in request.step)),
    )
    return handoffs.filled(asked, request.kind)


def _joined(first: str, second: str) -> str:
    return "\n\n".join(part for part in (first.strip(), second.strip()) if part)


def _key_file(text: str) -> handoffs.KeyFile:
    path, _, why = text.partition("=")
    return handoffs.KeyFile(path.strip(), why.strip())


def _deliverable(session: Session, text: str) -> handoffs.Deliverable:
    """A path or a sentence: a path has no blanks and a slash, a suffix or a glob, or it exists."""
    text = text.strip()
    waived = text.endswith("(may be unchanged)")
    bare = text.removesuffix("(may be unchanged)").strip().strip("`")
    is_path = bool(bare) and not any(c.isspace() for c in bare) and (
        "/" in bare or "*" in bare or "." in bare.strip(".") or os.path.exists(f"{session.root}/{bare}")
    )  # fmt: skip
    return handoffs.Deliverable(text="" if is_path else text, path=bare if is_path else None, may_be_unchanged=waived)


def read_document(path: str) -> str:
    """A document from a file or, for `-`, from standard input."""
    import sys

    if path == "-":
        raw = sys.stdin.buffer.read(16 * 1024 * 1024 + 1)
    else:
        found = read_file(os.path.realpath(path))
        if found is None:
            raise NotFound(f"There is no file {path}.", "Name an existing file, or - for standard input.")
        raw = found
    text, problems = decode(raw)
    errors = [p for p in problems if p.level == "error"]
    if errors:
        raise BadInput(f"{path}: {errors[0].message}", "Give a smaller text document in UTF-8.")
    return text


def choose_contract(
    session: Session, request: Request, handoff: Handoff, of_kind: str | None
) -> tuple[str | None, bytes]:
    """Asked for by option, by a line of the HANDOFF, or by kind: its name, and the schema if it is a file."""
    wanted = request.contract or handoffs.wanted_contract(handoff) or of_kind
    if not wanted:
        return None, b""
    if wanted.endswith(".json"):
        return wanted, read_schema(os.path.join(os.getcwd() if request.contract else session.root, wanted))
    name = contract_name(wanted)
    if name not in CONTRACTS:
        raise BadInput(f"There is no contract {wanted!r}.", f"Use {', '.join(CONTRACTS)}, or a JSON Schema file.")
    return name, b""


def read_schema(path: str) -> bytes:
    """A JSON Schema from a file; one that is none is told now, not after the work."""
    from overhand.documents.contracts import validate_data
    from overhand.documents.jsontext import load

    raw = read_file(os.path.realpath(path))
    if raw is None:
        raise NotFound(f"There is no contract file {path}.", "Name a JSON Schema file.")
    schema, error = load(decode(raw)[0])
    if not error and not isinstance(schema, dict):
        error = "an object was needed"
    if not error:
        wrong = [p.message for p in validate_data(schema, {}) if p.code == "schema-invalid"]  # type: ignore[arg-type] # a dict
        error = wrong[0] if wrong else ""
    if error:
        raise BadInput(f"{path} is not a JSON Schema: {error}", "Mend it, then try again.")
    return json.dumps(schema).encode()


_FLAGS = {
    "context": "--context",
    "key_files": "--file",
    "constraints": "--constraint",
    "deliverables": "--deliverable",
    "return_requirements": "--return",
    "plan": "--step",
}


def check_handoff(session: Session, text: str, agent: Agent, strict: bool) -> list[Problem]:
    """All problems at once; errors refuse, warnings are told."""
    root = session.root
    problems = handoffs.lint(text, exists=lambda path: os.path.exists(os.path.join(root, path)), strict=strict)
    parsed = handoffs.parse(text)
    missing = [word for word in agent.needs if not getattr(parsed, word, None)]
    errors = [p.message for p in problems if p.level == "error"]
    errors += [f"Agent {agent.name} needs the section {word.replace('_', ' ')}." for word in missing]
    if errors:
        hint = " ".join(f"{_FLAGS[word]} …" for word in missing if word in _FLAGS) or "--handoff FILE"
        raise BadInput(" ".join(errors), f"Add it: {hint}", problems=[p.as_json() for p in problems])
    return problems


def edit(text: str, session: Session) -> str:
    """Let the person change the HANDOFF in their editor."""
    import shlex
    import subprocess
    import tempfile

    if not session.interactive:
        raise BadInput("--edit needs a terminal.", "Write the HANDOFF to a file and use --handoff FILE.")
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/HANDOFF.md"
        write_file(path, text)
        try:
            subprocess.run([*editor, path], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BadInput(
                f"The editor {editor[0]} did not work: {error}.", "Set EDITOR, or use --handoff FILE."
            ) from None
        return decode(read_file(path) or b"")[0]


def budget_of(asked: str | float | None) -> str | None:
    """The budget as it was written, once it can be read."""
    if asked is None:
        return None
    try:
        budget.parse(asked)
    except ValueError as error:
        example = """For example: --budget "200k tokens", or --budget '$5'"""
        raise BadInput(f"--budget: {error}.", example) from None
    return str(asked).strip()


def checks_of(request: Request, config: Config) -> list[dict[str, str]]:
    """`--verify`, else the project's own checks."""
    if request.verify:
        empty = [command for command in request.verify if not command.strip()]
        if empty:
            raise BadInput("--verify is empty.", 'Give a command: --verify "pytest -q"')
        return [
            {"name": f"verify-{n}" if len(request.verify) > 1 else "verify", "command": c}
            for n, c in enumerate(request.verify, 1)
        ]
    return [{"name": name, "command": command} for name, command in config.checks]
