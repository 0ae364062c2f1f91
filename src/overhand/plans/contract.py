"""A node's contract: one JSON Schema of its outputs, and beside it the other checks, such as those of its edges.

An edge says which output of a node a consumer gets, and which fields the consumer must find there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from overhand.contracts import is_optional_field, kinds_of_schema, schema_of
from overhand.documents import one_line, shorten
from overhand.plans import refs
from overhand.plans.model import Interface, Node, Plan

MERGE = "merge"
ALL = "all_subtasks"
ENFORCED = frozenset(("timeout", "token_budget", "max_parallel"))  # constraints that are kept to without the contract

LIMITS = {
    "array": "maxItems",
    "string": "maxLength",
    "object": "maxProperties",
    "number": "maximum",
    "integer": "maximum",
}


def contract_of(plan: Plan, node: Node, index: Index | None = None) -> dict[str, Any]:
    """The node's contract; {} where it declares nothing. `index` is `by_source(plan)`, for large plans."""
    contract: dict[str, Any] = {}
    limits, prose = _limits(plan, node)
    if node.outputs:
        properties = {name: _limited(schema_of(spec), limits.get(name)) for name, spec in node.outputs.items()}
        contract = {"type": "object", "properties": properties}
        contract["required"] = [name for name, spec in node.outputs.items() if not is_optional_field(spec)]
    beside: dict[str, list[Any]] = {"expressions": [], "exists": [], "schemas": [], "edges": [], "unverified": []}
    schemas = [one for entry in node.verification for one in _sorted(entry, beside)]
    if schemas:
        contract["allOf"] = schemas
    index = by_source(plan) if index is None else index
    for edge in _leaving(plan, node, index):
        beside["edges"] += _described(plan, node, edge, index)
    beside["unverified"] += prose
    kept = {key: value for key, value in beside.items() if value}
    return {**contract, "overhand": kept} if kept else contract


def _sorted(entry: object, beside: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """One verification put where it belongs; the schemas that come out hold for the whole data."""
    if isinstance(entry, str):
        beside["unverified"].append(entry)
    if not isinstance(entry, Mapping):
        return []
    schemas = []
    for key, value in entry.items():
        if key == "schema" and isinstance(value, Mapping):
            schemas.append(schema_of(value))
        elif key in ("expression", "exists", "schema"):
            rows = beside[key if key == "exists" else f"{key}s"]
            rows += [value] if isinstance(value, str) else [str(one) for one in value or ()]
    return schemas


def _limits(plan: Plan, node: Node) -> tuple[dict[str, float], list[str]]:
    """The `max_<output>` constraints, and others as prose, which nothing checks; a node's own win over the plan's."""
    limits: dict[str, float] = {}
    prose: list[str] = []
    for name, value in {**plan.constraints, **node.constraints}.items():
        output = name.removeprefix("max_")
        most = _number(value)
        if output != name and output in node.outputs and most is not None:
            limits[output] = most
        elif name not in ENFORCED:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            prose.append(f"constraint {name}: {shorten(one_line(text), 200)}")
    return limits, prose


def _number(value: object) -> float | None:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _limited(schema: dict[str, Any], most: float | None) -> dict[str, Any]:
    """The schema with a limit for each type that it allows; each keyword leaves other types alone."""
    if most is None:
        return schema
    keys = {LIMITS[kind] for kind in kinds_of_schema(schema) if kind in LIMITS} or set(LIMITS.values())
    return {**schema, **{key: most if key == "maximum" else int(max(most, 0)) for key in sorted(keys)}}


# edges


class Index(dict[str, list[Interface]]):
    """The plan's interfaces by where they begin; what a consumer refers to is looked up once."""

    def __init__(self) -> None:
        super().__init__()
        self._named: dict[tuple[str, str | None], dict[str, list[str]]] = {}

    def fields(self, target: Node, source: str, key: str | None = None) -> list[str]:
        """The fields of the source that the inputs of a consumer refer to, or one of them."""
        place = (target.id, key)
        if place not in self._named:
            named = self._named[place] = {}
            for ref in refs.find(target.inputs if key is None else target.inputs.get(key)):
                named.setdefault(ref.node, []).append(ref.field)
        return self._named[place].get(source, [])


def by_source(plan: Plan) -> Index:
    """The index of a plan, made once for many calls of `contract_of`."""
    found = Index()
    for one in plan.interfaces:
        found.setdefault(one.source, []).append(one)
    return found


def _leaving(plan: Plan, node: Node, index: Index) -> list[Interface]:
    """The interfaces that begin at a node, by name or, to the merge and to nodes that wait for it, as one of all."""
    found = list(index.get(node.id, ()))
    for one in index.get(ALL, ()):
        target = plan.nodes.get(one.target)
        if one.target == MERGE or (target is not None and node.id in target.needs):
            found.append(one)
    return found


def _tied(plan: Plan, node: Node, edge: Interface, index: Index) -> dict[str, str]:
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


def _described(plan: Plan, node: Node, edge: Interface, index: Index) -> list[dict[str, Any]]:
    """The edge as a contract carries it: a row for the data as a whole, and one per output that goes over it."""
    ties = _tied(plan, node, edge, index)
    words = {field: edge.format[key] for key, field in ties.items()}
    target = plan.nodes.get(edge.target)
    referred = index.fields(target, node.id) if target and not edge.format else ()  # without a format: all it refers to
    fields = dict.fromkeys((*words, *filter(None, referred)))
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
        field: kinds_of_schema(schema_of(node.outputs.get(field))) | kinds_of_schema(schema_of(words.get(field)))
        for field in fields
    }
    arrays = [field for field, found in kinds.items() if "array" in found]
    return arrays or [field for field, found in kinds.items() if not found or "object" in found]
