"""The contract of a plan's node, checked one by one: data, expressions, files, edges."""

from __future__ import annotations

import glob
import json
import os
from typing import TYPE_CHECKING, Any

from overhand.contracts import judge_data
from overhand.documents import Problem, shorten
from overhand.errors import Damaged
from overhand.record import read_state
from overhand.runs import worktree
from overhand.runs.judge import Fact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOTES = "overhand"  # the key of a contract for what JSON Schema can't express
_MOST = 256 * 1024 * 1024


def contract_in(folder: str) -> dict[str, Any] | None:
    """The contract in a run's or a task's folder, if it is one of a plan's node."""
    found = read_state(f"{folder}/contract.json", fits=lambda one: isinstance(one.get(NOTES, {}), dict))
    return found if found is not None and NOTES in found else None


def inputs_in(folder: str) -> dict[str, Any] | None:
    """The inputs of a node; None if they can't be read any more."""
    try:
        return read_state(f"{folder}/inputs.json", _MOST)
    except Damaged:
        return None


def unverified_promises(contract: Mapping[str, Any]) -> tuple[str, ...]:
    """What the plan asks for and no program can check."""
    return tuple(map(str, contract[NOTES].get("unverified", ())))


def check_promises(
    contract: Mapping[str, Any], data: object, inputs: Mapping[str, Any] | None, root: str
) -> tuple[Fact, ...]:
    """Every assertion of the contract, and whether it holds now."""
    notes = contract[NOTES]
    if inputs is None:
        text = "The inputs of this node cannot be read any more: inputs.json was changed or removed."
        return (Fact("shape", "inputs", (Problem("inputs-unreadable", text, of="substance"),)),)
    plain = {key: value for key, value in contract.items() if key not in (NOTES, "allOf")}
    names = list(plain.get("required") or plain.get("properties") or ())
    parts = [("shape", f"data has {', '.join(names)}" if names else "data", plain)] if plain else []
    parts += [
        ("schema", f"schema {shorten(json.dumps(one, ensure_ascii=False), 100)}", {"allOf": [one]})
        for one in contract.get("allOf", ())
    ]
    parts += [("edge", _edge(one), {NOTES: {"edges": [one]}}) for one in notes.get("edges", ())]
    parts += [("expression", str(one), {NOTES: {"expressions": [one]}}) for one in notes.get("expressions", ())]
    found: list[Fact] = []
    for kind, text, part in parts:
        missing = data is None and bool(found) and not found[0].passed  # reported once
        found.append(Fact(kind, text, found[0].problems if missing else tuple(judge_data(part, data, inputs))))
    return (*found, *(_exists(str(path), root) for path in notes.get("exists", ())))


def problems(
    contract: Mapping[str, Any], data: object, inputs: Mapping[str, Any] | None, facts: Sequence[Fact]
) -> list[Problem]:
    """What is wrong, each thing once: what the next node lacks is not reported again as a wrong type."""
    broken = [fact for fact in facts if not fact.passed]
    if not broken:
        return []
    found = judge_data(contract, data, inputs) if inputs is not None else []
    apart = [one for fact in broken if fact.kind == "exists" or inputs is None for one in fact.problems]
    return [*found, *apart]


def _edge(edge: Mapping[str, Any]) -> str:
    field, needed = str(edge.get("field", "")), ", ".join(map(str, edge.get("required", ())))
    given = f"{field} with {needed}" if field and needed else field or needed or "its data"
    return f"{edge.get('to', '')} gets {given}"


def _exists(path: str, root: str) -> Fact:
    """A path or a glob, inside the tree."""
    found = [os.path.join(root, path), *glob.iglob(os.path.join(glob.escape(root), path), recursive=True)]
    if any(os.path.exists(one) and worktree.path_inside(root, one) is not None for one in found):
        return Fact("exists", path)
    text = f"{path} must exist and is not there, or lies outside the working tree."
    return Fact("exists", path, (Problem("promise-missing", text, of="substance", fix=f"Make {path}."),))
