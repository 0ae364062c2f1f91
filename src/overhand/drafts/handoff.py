"""A brief becomes a HANDOFF: composed of options or given whole, checked, its contract chosen."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from overhand.documents import (
    CONTRACTS,
    Deliverable,
    Handoff,
    HandoffStep,
    KeyFile,
    contract_name,
    decode_text,
    lint_handoff,
    parse_handoff,
    wanted_contract,
    with_kind_defaults,
)
from overhand.errors import BadInput, NotFound
from overhand.system import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.agents import Agent
    from overhand.documents import Handoff, Problem
    from overhand.drafts.build import Brief

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
    base = parse_handoff(read_document(brief.handoff)) if brief.handoff is not None else Handoff(task="")
    if not title and not base.task.strip():
        raise nothing_to_do()
    returns = [f"- {line}" for line in brief.returns]
    if contract and not wanted_contract(base):
        returns.append(f"Use: {contract} contract")
    pairs = (text.partition("=") for text in brief.file)
    key_files = (KeyFile(path.strip(), why.strip()) for path, _, why in pairs)
    asked = replace(
        base,
        task=title or base.task,
        context=_joined(base.context, "\n\n".join(brief.context)),
        key_files=(*base.key_files, *key_files),
        constraints=(*base.constraints, *brief.constraint),
        deliverables=(*base.deliverables, *(_deliverable(root, text) for text in brief.deliverable)),
        return_requirements=_joined(base.return_requirements, "\n".join(returns)),
        plan=(*base.plan, *(HandoffStep(" ", text) for text in brief.step)),
    )
    return with_kind_defaults(asked, brief.kind)


def _joined(first: str, second: str) -> str:
    return "\n\n".join(part for part in (first.strip(), second.strip()) if part)


def _deliverable(root: str, text: str) -> Deliverable:
    """A path or a sentence: a path has no blanks and a slash, a suffix or a glob, or it exists."""
    text = text.strip()
    waived = text.endswith("(may be unchanged)")
    bare = text.removesuffix("(may be unchanged)").strip().strip("`")
    is_path = bool(bare) and not any(c.isspace() for c in bare) and (
        "/" in bare or "*" in bare or "." in bare.strip(".") or os.path.exists(f"{root}/{bare}")
    )  # fmt: skip
    return Deliverable(text="" if is_path else text, path=bare if is_path else None, may_be_unchanged=waived)


def read_document(path: str) -> str:
    """A document from a file or, for `-`, from standard input."""
    raw = sys.stdin.buffer.read(16 * 1024 * 1024 + 1) if path == "-" else read_file(os.path.realpath(path))
    if raw is None:
        raise NotFound(f"There is no file {path}.", "Name an existing file, or - for standard input.")
    text, problems = decode_text(raw)
    errors = [p for p in problems if p.level == "error"]
    if errors:
        raise BadInput(f"{path}: {errors[0].message}", "Give a smaller text document in UTF-8.")
    return text


def check(text: str, brief: Brief, agent: Agent, root: str) -> tuple[Handoff, list[Problem]]:
    """The HANDOFF as parsed, and its warnings; errors are raised together."""
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
        schema = read_schema(os.path.join(os.getcwd() if brief.contract else root, wanted))
        return wanted, {**brief.files, CONTRACT_FILE: schema}
    name = contract_name(wanted)
    if name not in CONTRACTS:
        raise BadInput(f"There is no contract {wanted!r}.", f"Use {', '.join(CONTRACTS)}, or a JSON Schema file.")
    return name, brief.files


def read_schema(path: str) -> bytes:
    """A JSON Schema from a file; an invalid one is refused now, not after the work."""
    from overhand.documents import load_json, validate_data

    raw = read_file(os.path.realpath(path))
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
