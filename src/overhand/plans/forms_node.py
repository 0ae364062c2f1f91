"""One node of a plan: the same keys in every form, flat or below `contract`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from overhand.plans import refs
from overhand.plans.forms import Gather
from overhand.plans.forms_plain import IGNORED, waits
from overhand.plans.model import Node, adopted
from overhand.plans.source import Path

CHECKS = ("command", "exists", "schema", "expression")


def verification(gather: Gather, value: Any, path: Path) -> tuple[Any, ...]:
    """What is checked when a node has ended: prose, or a mapping with one of command, exists, schema, expression."""
    if type(value) is str:
        return (value,) if value.strip() else ()
    if value is None:
        return ()
    rows = [((*path, at), one) for at, one in enumerate(value)] if type(value) is list else [(path, value)]
    found: list[Any] = []
    for place, one in rows:
        if type(one) is str:
            found += [one] if one.strip() else []
        elif type(one) is dict:
            found += _checks(gather, one, place)
        else:
            fix = 'Write prose, or {command: "…"}, {exists: path}, {schema: {…}}, {expression: "…"}.'
            gather.typed(one, place, "a text or a mapping", fix)
    return tuple(found)


def _checks(gather: Gather, one: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """A mapping may hold several checks; each becomes one of its own."""
    found: list[dict[str, Any]] = []
    for key, value in one.items():
        place = (*path, key)
        if key not in CHECKS:
            gather.unknown(key, CHECKS, place, "A check")
        elif key == "schema":
            if type(value) is bool or gather.mapping(value, place):
                found.append({key: value})
        elif key == "expression":
            if text := gather.text(value, place):
                found.append({key: text})
        elif type(value) is list:
            if words := gather.words(value, place):
                found += [{key: list(words)}] if key == "command" else [{key: word} for word in words]
        elif text := gather.text(value, place):
            found.append({key: text})
    if not one:
        gather.wrong("plan-missing", "A check is empty.", path, f"Give it one of {', '.join(CHECKS)}.")
    return found


def _verify(gather: Gather, value: Any, path: Path) -> tuple[Any, ...]:
    """The short word: a text is an expression here."""
    if type(value) is str:
        return ({"expression": value.strip()},) if value.strip() else ()
    if type(value) is list:
        found: list[Any] = []
        for at, one in enumerate(value):
            found += _verify(gather, one, (*path, at))
        return tuple(found)
    return verification(gather, value, path)


def _agent(gather: Gather, value: Any, path: Path) -> str:
    return value if type(value) is str else gather.name(value, path)


def _files(gather: Gather, value: Any, path: Path) -> tuple[str, ...]:
    return gather.words(value, path)


def _outputs(gather: Gather, value: Any, path: Path) -> Mapping[str, Any]:
    """Per field its type words or its JSON Schema; a bare list of names promises them with any type."""
    if type(value) is list and all(type(one) is str for one in value):
        return dict.fromkeys(value, "any")
    found = gather.mapping(value, path)
    for key, one in found.items():
        if type(one) is not str and type(one) is not dict:
            fix = f"Write `{key}: string`, or a JSON Schema."
            gather.typed(one, (*path, key), "type words or a JSON Schema", fix)
    return found


def _context(gather: Gather, value: Any, path: Path) -> str:
    if type(value) is dict:
        return "\n".join(f"{key}: {one if isinstance(one, str) else refs.as_text(one)}" for key, one in value.items())
    return gather.text(value, path)


Reader = Callable[[Gather, Any, Path], Any]
FIELDS: dict[str, tuple[str, Reader]] = {
    "agent": ("agent", _agent),
    "task": ("task", Gather.text),
    "description": ("task", Gather.text),
    "dependencies": ("needs", Gather.words),
    "depends_on": ("needs", Gather.words),
    "after": ("needs", Gather.words),
    "inputs": ("inputs", Gather.mapping),
    "outputs": ("outputs", _outputs),
    "constraints": ("constraints", Gather.mapping),
    "verification": ("verification", verification),
    "verify": ("verification", _verify),
    "capabilities": ("capabilities", Gather.words),
    "kind": ("kind", Gather.text),
    "model": ("model", Gather.text),
    "priority": ("priority", Gather.priority),
    "timeout": ("timeout", Gather.seconds),
    "token_budget": ("budget", Gather.tokens),
    "budget": ("budget", Gather.tokens),
    "writes": ("writes", _files),
    "mutates": ("mutates", Gather.flag),
    "requires_approval": ("requires_approval", Gather.flag),
    "key_files": ("key_files", _files),
    "scope": ("key_files", _files),
    "deliverable": ("deliverables", _files),
    "deliverables": ("deliverables", _files),
    "expected_output": ("deliverables", _files),
    "context": ("context", _context),
    "checkpoint_after": ("checkpoint_after", Gather.flag),
}
CONTRACT = ("inputs", "outputs", "constraints", "verification", "verify")
KEYS = (*FIELDS, "id", "contract", *IGNORED)
_LISTS = ("needs", "verification", "writes", "key_files", "deliverables", "capabilities")


def read(gather: Gather, raw: Mapping[str, Any], path: Path, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a node; `more` are keys that the form reads itself."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        if key in FIELDS:
            _take(gather, fields, FIELDS[key], value, (*path, key))
        elif key == "contract":
            inside = (*path, key)
            for name, part in gather.mapping(value, inside).items():
                if name in CONTRACT:
                    _take(gather, fields, FIELDS[name], part, (*inside, name))
                else:
                    gather.unknown(name, CONTRACT, (*inside, name), "A contract")
        elif key in IGNORED:
            if value is not None:
                gather.notes[IGNORED[key]] = None
        elif key != "id" and key not in more:
            gather.unknown(key, (*KEYS, *more), (*path, key), "A node")
    return fields


def _take(gather: Gather, fields: dict[str, Any], entry: tuple[str, Reader], value: Any, path: Path) -> None:
    name, reader = entry
    found = reader(gather, value, path)
    if fields.get(name):
        if name in _LISTS:
            found = (*fields[name], *found)
        else:
            message = f"`{path[-1]}` says again what was said before in this node."
            gather.wrong("plan-key-twice", message, path, "Keep one of the two.")
    fields[name] = found
    if name == "constraints" and found:
        for key in ("timeout", "token_budget"):  # enforced wherever they stand
            if key in found:
                _take(gather, fields, FIELDS[key], found[key], (*path, key))


def node(id: str, fields: dict[str, Any], at: int) -> Node:
    """The node that these fields make."""
    named = [name for key in ("inputs", "task", "context") for name in refs.nodes(fields.get(key))]
    fields["needs"] = waits(id, fields.get("needs", ()), named)
    fields["id"], fields["at"] = id, at
    for name, default in (("agent", ""), ("inputs", {}), ("outputs", {}), ("constraints", {})):
        fields.setdefault(name, default)
    return adopted(Node, fields)
