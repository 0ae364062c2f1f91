"""Edges: which output of a node a consumer gets, and which fields it must find there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from overhand.contracts.types import kinds_of, schema_of
from overhand.plans import refs
from overhand.plans.model import Interface, Node, Plan

MERGE = "merge"
ALL = "all_subtasks"


class Index(dict[str, list[Interface]]):
    """The plan's interfaces by where they begin; what consumers refer to is looked up once for all who give to them."""

    def __init__(self) -> None:
        super().__init__()
        self._named: dict[tuple[str, str | None], dict[str, list[str]]] = {}
        self._needs: dict[str, frozenset[str]] = {}

    def fields(self, target: Node, source: str, key: str | None = None) -> list[str]:
        """The fields of the source that the inputs of a consumer refer to, or one of them."""
        place = (target.id, key)
        if place not in self._named:
            named = self._named[place] = {}
            for ref in refs.find(target.inputs if key is None else target.inputs.get(key)):
                named.setdefault(ref.node, []).append(ref.field)
        return self._named[place].get(source, [])

    def waits(self, target: Node, source: str) -> bool:
        """Whether the target waits for the source."""
        if target.id not in self._needs:
            self._needs[target.id] = frozenset(target.needs)
        return source in self._needs[target.id]


def by_source(plan: Plan) -> Index:
    """The plan's interfaces by where they begin; made once for many calls of `contract_of`."""
    found = Index()
    for one in plan.interfaces:
        found.setdefault(one.source, []).append(one)
    return found


def leaving(plan: Plan, node: Node, index: Index) -> list[Interface]:
    """The interfaces that begin at a node, by its name or, for who waits for it and the merge, as one of all."""
    found = list(index.get(node.id, ()))
    for one in index.get(ALL, ()):
        target = plan.nodes.get(one.target)
        if one.target == MERGE or (target is not None and index.waits(target, node.id)):
            found.append(one)
    return found


def tied(plan: Plan, node: Node, edge: Interface, index: Index) -> dict[str, str]:
    """For each format key the output that it stands for, by a `${…}` of the consumer, else by name; "": all data."""
    target = plan.nodes.get(edge.target)
    found: dict[str, str] = {}
    for key in edge.format:
        named = index.fields(target, node.id, key) if target else []
        if named:
            found[key] = named[0] or (key if key in node.outputs else "")
        elif key in node.outputs or edge.target == MERGE:
            found[key] = key
    return found


def described(plan: Plan, node: Node, edge: Interface, index: Index) -> list[dict[str, Any]]:
    """The edge as a contract carries it: a row for the data as a whole, and one per output that goes over it."""
    ties = tied(plan, node, edge, index)
    words = {field: edge.format[key] for key, field in ties.items()}
    fields = dict.fromkeys((*words, *_referred(plan, node, edge, index)))
    needs: dict[str, list[str]] = {"": []}
    for name in edge.required:
        first, _, rest = name.partition(".")
        if first in ties or first in node.outputs:
            top = ties.get(first, first)
            needs[""] += [top] if top else []
            if rest:
                needs.setdefault(top, []).append(rest)
            continue
        for field in _with_items(node, fields or node.outputs, words) or ("",):
            needs.setdefault(field, []).append(name)
    rows: list[dict[str, Any]] = []
    for field in dict.fromkeys(("", *fields, *needs)):
        wanted = list(dict.fromkeys(needs.get(field, ())))
        row: dict[str, Any] = {"field": field, "from": node.id, "to": edge.target, "required": wanted}
        schema = schema_of(words.get(field))
        if schema and schema != schema_of(node.outputs.get(field)):
            row["schema"] = schema
        if wanted or "schema" in row:
            rows.append(row)
    return rows


def _with_items(node: Node, fields: Iterable[str], words: Mapping[str, Any]) -> list[str]:
    """The fields in whose items something is looked for: arrays; without any, what may be an array or is an object."""
    kinds = {
        field: kinds_of(schema_of(node.outputs.get(field))) | kinds_of(schema_of(words.get(field))) for field in fields
    }
    arrays = [field for field, found in kinds.items() if "array" in found]
    return arrays or [field for field, found in kinds.items() if not found or "object" in found]


def _referred(plan: Plan, node: Node, edge: Interface, index: Index) -> list[str]:
    """Without a format: whatever the consumer refers to."""
    target = plan.nodes.get(edge.target)
    if edge.format or target is None:
        return []
    return [field for field in index.fields(target, node.id) if field]


def absent(row: Mapping[str, Any], data: object) -> Iterator[tuple[str, str]]:
    """Every place of an edge that lacks a required field, "" for the data as a whole, with the field."""
    try:
        value = value_at(row, data)
    except LookupError:
        yield "", row["field"]
        return
    for name in row["required"]:
        yield from ((place, name) for place in _lacking(value, name, row["field"]))


def value_at(row: Mapping[str, Any], data: object) -> Any:
    """What goes over the edge; LookupError where it is not in the data."""
    return refs.pick(data, row["field"])


def _lacking(value: object, name: str, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for at, one in enumerate(value):
            if not _has(one, name):
                yield f"{where}[{at}]"
    elif not _has(value, name):
        yield where


def _has(value: object, name: str) -> bool:
    if isinstance(value, Mapping) and name in value:
        return True
    if "." not in name:
        return False
    try:
        refs.pick(value, name)
    except LookupError:
        return False
    return True
