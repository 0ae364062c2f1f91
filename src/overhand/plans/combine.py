"""Combine the results of nodes: arrays are concatenated, booleans ANDed, objects merged deep, the rest by a rule.

Then the data take the form that the plan asks for in `final_output_format`. Conflicts are recorded, and
which nodes each field comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overhand.contracts import canonical_json, compare_with_schema, is_optional_field, pick_field, schema_of
from overhand.documents import Problem, one_line, warning
from overhand.plans import refs
from overhand.plans.model import Merge

ROOT = "$"
NOTHING = object()  # no value at all, where null is one
GENERATED = "merge"  # where a generated field comes from, in the provenance

_GENERATED = re.compile(r"\(\s*generated\b", re.IGNORECASE)
_BESIDE_FROM = frozenset(("from", "type", "description", "note", "optional", "required"))


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What one node gave back."""

    id: str
    status: str
    verified: bool = True  # whether its data passed the contract, its edges and its checks
    data: Any = None
    summary: str = ""
    at: float = 0.0  # when it ended
    priority: str = "P2"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field for which nodes gave different values, all of them, and which one was taken."""

    field: str
    values: tuple[tuple[str, Any], ...]  # node and value, in the order of the plan
    rule: str
    taken: str = ""  # the node whose value was taken; "" where none was

    def as_json(self) -> dict[str, object]:
        values = [{"node": node, "value": value} for node, value in self.values]
        return {"field": self.field, "values": values, "rule": self.rule, "taken": self.taken or None}


Given = tuple[NodeResult, Any]  # a node and its value for one field


@dataclass(slots=True)
class Sum:
    """An aggregate in the making."""

    merge: Merge
    unasked: frozenset[str] = frozenset()  # fields that the merge generates, whatever the nodes gave
    conflicts: list[Conflict] = field(default_factory=list)
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)


def combine(total: Sum, given: Sequence[Given], path: str = "") -> Any:
    """One value from the nodes' values, NOTHING where a conflict forbids one; null counts only if no node has more."""
    rows = [one for one in given if one[1] is not None] or list(given)
    kinds = {_kind(value) for _, value in rows}
    if len(kinds) > 1:
        winner = _settle(total, rows, path)
        if winner is None:
            return NOTHING
        rows = [one for one in rows if _kind(one[1]) == _kind(winner[1])]
        if _kind(winner[1]) == "scalar":
            return _take(total, winner, rows, path)
    kind = _kind(rows[0][1])
    if len(rows) == 1 and (kind in ("scalar", "boolean") or (path and kind == "object")):
        return _take(total, rows[0], rows, path)
    if kind == "object":
        return _objects(total, rows, path)
    if path in total.merge.rules:  # a field's own rule counts also where arrays would be joined
        return _scalars(total, rows, path)
    if kind == "array":
        return _arrays(total, rows, path)
    if kind == "boolean":
        _note_origin(total, path, rows)
        return all(value for _, value in rows)
    return _scalars(total, rows, path)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list) else "boolean" if isinstance(value, bool) else "scalar"


def _take(total: Sum, winner: Given, rows: Iterable[Given], path: str) -> Any:
    agreeing = canonical_json(winner[1])
    _note_origin(total, path, [one for one in rows if one is winner or canonical_json(one[1]) == agreeing])
    return winner[1]


def _note_origin(total: Sum, path: str, given: Iterable[Given]) -> None:
    total.provenance[path or ROOT] = tuple(node.id for node, _ in given)


def _objects(total: Sum, rows: Sequence[Given], path: str) -> dict[str, Any]:
    fields: dict[str, list[Given]] = {}
    for node, value in rows:
        for key, one in value.items():
            fields.setdefault(key, []).append((node, one))
    if not fields:
        _note_origin(total, path, rows)
    found = {key: combine(total, given, below(path, key)) for key, given in fields.items()}
    return {key: value for key, value in found.items() if value is not NOTHING}


def below(path: str, key: str) -> str:
    """The path of a field; names that would be misread stand in brackets."""
    if key.replace("-", "_").isidentifier():
        return f"{path}.{key}" if path else key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path}["{escaped}"]'


def _arrays(total: Sum, rows: Sequence[Given], path: str) -> list[Any]:
    """The items in plan order; an object that an earlier node gave as well is not repeated."""
    items: list[Any] = []
    origins: list[list[str]] = []
    places: dict[str, tuple[int, str]] = {}
    for node, value in rows:
        for item in value:
            if total.merge.dedupe and isinstance(item, Mapping) and len(rows) > 1:
                at, owner = places.setdefault(canonical_json(item), (len(items), node.id))
                if owner != node.id:
                    if origins[at][-1] != node.id:  # nodes come one after the other
                        origins[at].append(node.id)
                    continue
            items.append(item)
            origins.append([node.id])
    _note_origin(total, path, rows)
    if len(rows) > 1:
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


def _scalars(total: Sum, rows: Sequence[Given], path: str) -> Any:
    if len({canonical_json(value) for _, value in rows}) == 1:
        return _take(total, rows[0], rows, path)
    winner = _settle(total, rows, path)
    return NOTHING if winner is None else _take(total, winner, rows, path)


def _settle(total: Sum, rows: Sequence[Given], path: str) -> Given | None:
    """The node whose value counts by the field's rule; recorded with the value of each."""
    if path in total.unasked:
        return rows[0]
    rule = _rule_of(total.merge, path)
    winner = None if rule == "fail" else _PICKS[rule](rows)
    values = tuple((node.id, value) for node, value in rows)
    total.conflicts.append(Conflict(path or ROOT, values, rule, winner[0].id if winner else ""))
    return winner


def _rule_of(merge: Merge, path: str) -> str:
    """The rule of a field: its own, that of what it is part of, or the plan's."""
    at = path
    while at:
        if at in merge.rules:
            return merge.rules[at]
        at = at[: max(at.rfind("."), at.rfind("["), 0)]
    return merge.rule


def _length(given: Given) -> int:
    value = given[1]
    return len(value if isinstance(value, str) else canonical_json(value))


_PICKS: Mapping[str, Callable[[Sequence[Given]], Given]] = {
    "prefer_first": lambda rows: rows[0],
    "prefer_last": lambda rows: rows[-1],
    "prefer_longer": lambda rows: max(rows, key=_length),
    "prefer_newer": lambda rows: max(rows, key=lambda one: one[0].at),
    "prefer_priority": lambda rows: min(rows, key=lambda one: one[0].priority),
}
RULES = (*_PICKS, "fail")


# final_output_format


@dataclass(slots=True)
class Shaped:
    """Data in the plan's own form, and what that took."""

    data: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unfilled: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def shape(
    wanted: Mapping[str, Any],
    data: Any,
    provenance: Mapping[str, tuple[str, ...]],
    results: Sequence[NodeResult],
) -> Shaped:
    """The data in `final_output_format`; fields without a value come first among the problems."""
    shaped = Shaped()
    nodes = {one.id: one for one in results}
    for name, spec in wanted.items():
        value, origin = _find(name, spec, data, nodes)
        if value is NOTHING:
            if not is_optional_field(spec):
                shaped.unfilled.append(name)
            continue
        shaped.data[name] = value
        shaped.problems += _mismatches(name, spec, value)
        path = below("", name)
        shaped.provenance |= {path: origin} if isinstance(origin, tuple) else _renamed(provenance, origin, path)
    if shaped.unfilled:
        has = ", ".join(data) if isinstance(data, Mapping) and data else "no fields"
        message = f"Nothing was found for {', '.join(shaped.unfilled)}, which final_output_format asks for."
        fix = f"Name the source, such as `{shaped.unfilled[0]}: {{from: field}}`; the merged data have {has}."
        shaped.problems.insert(0, warning("merge-unfilled", message, fix=fix))
    return shaped


def _mismatches(name: str, spec: Any, value: Any) -> list[Problem]:
    """How a value differs from the type that its entry of the format names, if it names one."""
    words = spec.get("type") if _names_source(spec) else spec
    schema = {} if isinstance(words, str) and "${" in words else schema_of(words)
    return compare_with_schema(schema, value, name, "final_output_format: ", "merge-mismatch") if schema else []


def _find(name: str, spec: Any, data: Any, nodes: Mapping[str, NodeResult]) -> tuple[Any, tuple[str, ...] | str]:
    """A field's value, and the nodes it comes from or the merged field that it was."""
    source = _source_of(spec)
    if source:
        value = NOTHING if source.node else _pick(data, source.field)
        if value is not NOTHING:
            return value, _path_of(data, source.field)
        node, _, field = (source.node, "", source.field) if source.node else source.field.partition(".")
        return (_pick(nodes[node].data, field) if node in nodes else NOTHING), (node,)
    if _is_generated(name, spec):
        return _summary(nodes.values()), (GENERATED,)
    for candidate in (name, name.removeprefix("all_")):
        value = _pick(data, candidate)
        if value is not NOTHING:
            return value, _path_of(data, candidate)
    return (_summary(nodes.values()), (GENERATED,)) if name == "summary" else (NOTHING, "")


def _is_generated(name: str, spec: Any) -> bool:
    return isinstance(spec, str) and bool(_GENERATED.search(spec)) and name.endswith("summary")


def generated(wanted: Mapping[str, Any]) -> frozenset[str]:
    """The fields that the merge writes itself and nothing else of the format takes from the nodes."""
    taken = {source.field.partition(".")[0] for spec in wanted.values() if (source := _source_of(spec))}
    written = {name for name, spec in wanted.items() if _is_generated(name, spec)}
    names = written - taken - {name.removeprefix("all_") for name in wanted if name not in written}
    return frozenset(below("", name) for name in names)


def _source_of(spec: Any) -> refs.Ref | None:
    """The node or the field that an entry of the format names: `${node.field}`, `{from: field}`."""
    given = spec.get("from") if _names_source(spec) else spec
    if not isinstance(given, str):
        return None
    if "${" in given:
        return next(iter(refs.find(given)), None)
    return refs.Ref("", given.strip()) if given is not spec and given.strip() else None


def _names_source(spec: Any) -> bool:
    """`{from: x}`, which `{from: string, to: string}` is not."""
    return isinstance(spec, Mapping) and "from" in spec and spec.keys() <= _BESIDE_FROM


def _pick(data: Any, path: str) -> Any:
    if isinstance(data, Mapping) and path in data:
        return data[path]
    if not path:
        return NOTHING if data is None else data
    try:
        return pick_field(data, path)
    except LookupError:
        return NOTHING


def _path_of(data: Any, field: str) -> str:
    """The path in a provenance of a field that is there; a name with a dot may be one field or several."""
    path, at = "", data
    for name in (field,) if isinstance(data, Mapping) and field in data else field.split("."):
        listed = isinstance(at, list)
        path = f"{path}[{int(name)}]" if listed else below(path, name)
        at = at[int(name)] if listed else at[name]
    return path


def _renamed(known: Mapping[str, tuple[str, ...]], old: str, new: str) -> dict[str, tuple[str, ...]]:
    """The lines of a provenance at and below a path, under another; without any, that of what it is part of."""
    inside = (f"{old}.", f"{old}[")
    found = {new + path[len(old) :]: nodes for path, nodes in known.items() if path == old or path.startswith(inside)}
    if found:
        return found
    above = [path for path in known if old.startswith((f"{path}.", f"{path}["))]
    return {new: known[max(above, key=len)] if above else known.get(ROOT, ())}


def _summary(results: Iterable[NodeResult]) -> str:
    """The nodes' summaries as one text, one line each."""
    lines = []
    for one in results:
        text = one.summary
        if not text and isinstance(one.data, Mapping) and isinstance(one.data.get("summary"), str):
            text = one.data["summary"]
        text = one_line(text.strip())
        if one.status != "completed":
            text = f"{one.status}. {text}" if text else one.status
        lines.append(f"{one.id}: {text or 'completed'}")
    return "\n".join(lines)
