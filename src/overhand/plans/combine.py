"""Aggregation: arrays one after the other, booleans by AND, objects deep, unequal values by a rule, all of it told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overhand.contracts.compare import canonical
from overhand.plans.merged import Conflict, NodeResult
from overhand.plans.model import Merge

Given = tuple[NodeResult, Any]
"""A node and its value for one field."""

ROOT = "$"
NOTHING = object()
"""No value at all, where null is one."""


@dataclass(slots=True)
class Sum:
    """An aggregate in the making."""

    merge: Merge
    unasked: frozenset[str] = frozenset()
    """Fields that the merge writes itself, so that it does not matter what the nodes said."""
    conflicts: list[Conflict] = field(default_factory=list)
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)


def combine(total: Sum, given: Sequence[Given], path: str = "") -> Any:
    """One value from the nodes' values, NOTHING where a conflict forbids one; null counts only if nobody has more."""
    said = [one for one in given if one[1] is not None] or list(given)
    kinds = {_kind(value) for _, value in said}
    if len(kinds) > 1:
        winner = _settle(total, said, path)
        if winner is None:
            return NOTHING
        said = [one for one in said if _kind(one[1]) == _kind(winner[1])]
        if _kind(winner[1]) == "scalar":
            return _take(total, winner, said, path)
    kind = _kind(said[0][1])
    if len(said) == 1 and (kind in ("scalar", "boolean") or (path and kind == "object")):
        return _take(total, said[0], said, path)
    if kind == "object":
        return _objects(total, said, path)
    if path in total.merge.rules:  # who names a field wants its rule, also where arrays would be joined
        return _scalars(total, said, path)
    if kind == "array":
        return _arrays(total, said, path)
    if kind == "boolean":
        _told(total, path, said)
        return all(value for _, value in said)
    return _scalars(total, said, path)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list) else "boolean" if isinstance(value, bool) else "scalar"


def _take(total: Sum, winner: Given, said: Iterable[Given], path: str) -> Any:
    agreeing = canonical(winner[1])
    _told(total, path, [one for one in said if one is winner or canonical(one[1]) == agreeing])
    return winner[1]


def _told(total: Sum, path: str, given: Iterable[Given]) -> None:
    total.provenance[path or ROOT] = tuple(node.id for node, _ in given)


def _objects(total: Sum, said: Sequence[Given], path: str) -> dict[str, Any]:
    fields: dict[str, list[Given]] = {}
    for node, value in said:
        for key, one in value.items():
            fields.setdefault(key, []).append((node, one))
    if not fields:
        _told(total, path, said)
    found = {key: combine(total, given, below(path, key)) for key, given in fields.items()}
    return {key: value for key, value in found.items() if value is not NOTHING}


def below(path: str, key: str) -> str:
    """The path of a field; names that would be misread stand in brackets."""
    if key.replace("-", "_").isidentifier():
        return f"{path}.{key}" if path else key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path}["{escaped}"]'


def _arrays(total: Sum, said: Sequence[Given], path: str) -> list[Any]:
    """The items in plan order; an object that an earlier node gave as well is not repeated."""
    items: list[Any] = []
    origins: list[list[str]] = []
    places: dict[str, tuple[int, str]] = {}
    for node, value in said:
        for item in value:
            if total.merge.dedupe and isinstance(item, Mapping) and len(said) > 1:
                at, owner = places.setdefault(canonical(item), (len(items), node.id))
                if owner != node.id:
                    if origins[at][-1] != node.id:  # nodes come one after the other
                        origins[at].append(node.id)
                    continue
            items.append(item)
            origins.append([node.id])
    _told(total, path, said)
    if len(said) > 1:
        total.provenance.update(_ranges(path, origins))
    return items


def _ranges(path: str, origins: Sequence[Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The origin of each item, neighbours of one origin together: issues[0..4]."""
    found: dict[str, tuple[str, ...]] = {}
    start = 0
    for at in range(1, len(origins) + 1):
        if at == len(origins) or origins[at] != origins[start]:
            span = f"{start}" if at - start == 1 else f"{start}..{at - 1}"
            found[f"{path}[{span}]"] = tuple(origins[start])
            start = at
    return found


def _scalars(total: Sum, said: Sequence[Given], path: str) -> Any:
    if len({canonical(value) for _, value in said}) == 1:
        return _take(total, said[0], said, path)
    winner = _settle(total, said, path)
    return NOTHING if winner is None else _take(total, winner, said, path)


def _settle(total: Sum, said: Sequence[Given], path: str) -> Given | None:
    """The node whose value counts by the field's rule; recorded with everybody's value."""
    if path in total.unasked:
        return said[0]
    rule = rule_of(total.merge, path)
    winner = None if rule == "fail" else _PICKS[rule](said)
    values = tuple((node.id, value) for node, value in said)
    total.conflicts.append(Conflict(path or ROOT, values, rule, winner[0].id if winner else ""))
    return winner


def rule_of(merge: Merge, path: str) -> str:
    """The rule of a field: its own, that of what it is part of, or the plan's."""
    at = path
    while at:
        if at in merge.rules:
            return merge.rules[at]
        at = at[: max(at.rfind("."), at.rfind("["), 0)]
    return merge.rule


def _length(given: Given) -> int:
    value = given[1]
    return len(value) if isinstance(value, str) else len(canonical(value))


_PICKS: Mapping[str, Callable[[Sequence[Given]], Given]] = {
    "prefer_first": lambda said: said[0],
    "prefer_last": lambda said: said[-1],
    "prefer_longer": lambda said: max(said, key=_length),
    "prefer_newer": lambda said: max(said, key=lambda one: one[0].at),
    "prefer_priority": lambda said: min(said, key=lambda one: one[0].priority),
}
