"""A node's contract: one JSON Schema of its outputs with what else is checked beside it, and data held against it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from overhand.contracts import expressions
from overhand.contracts.compare import compare, places
from overhand.contracts.types import kinds_of, optional, schema_of
from overhand.documents.problems import Problem, wrong
from overhand.documents.text import one_line, shorten
from overhand.plans import edges
from overhand.plans.model import Node, Plan

CODES = {
    "data-missing": "The node returned no data, and its contract asks for some.",
    "data-mismatch": "The data do not match the type words or the JSON Schema of the contract.",
    "data-limit": "A value is larger than its `max_…` constraint allows.",
    "data-not-json": "The data hold something that JSON does not have, or are nested too deeply.",
    "edge-field-missing": "A field that a later node or the merge requires is not in the data.",
    "edge-mismatch": "What goes over an edge is not of the type that its format names.",
    "expression-failed": "A verification expression does not hold.",
    "expression-invalid": "A verification expression could not be read, or not be evaluated with these data.",
    "schema-invalid": "The contract's JSON Schema is not a schema.",
}
ENFORCED = frozenset(("timeout", "token_budget", "max_parallel"))
"""Constraints that are kept to without the contract."""

LIMITS = {
    "array": "maxItems",
    "string": "maxLength",
    "object": "maxProperties",
    "number": "maximum",
    "integer": "maximum",
}


def contract_of(plan: Plan, node: Node, index: edges.Index | None = None) -> dict[str, Any]:
    """The node's contract; {} where it declares nothing. `index` is `edges.by_source(plan)`, for large plans."""
    contract: dict[str, Any] = {}
    limits, prose = _limits(plan, node)
    if node.outputs:
        properties = {name: _limited(schema_of(spec), limits.get(name)) for name, spec in node.outputs.items()}
        contract = {"type": "object", "properties": properties}
        contract["required"] = [name for name, spec in node.outputs.items() if not optional(spec)]
    beside: dict[str, list[Any]] = {"expressions": [], "exists": [], "schemas": [], "edges": [], "unverified": []}
    schemas = [one for entry in node.verification for one in _sorted(entry, beside)]
    if schemas:
        contract["allOf"] = schemas
    index = edges.by_source(plan) if index is None else index
    for edge in edges.leaving(plan, node, index):
        beside["edges"] += edges.described(plan, node, edge, index)
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
    """The `max_<output>` constraints, and every other one as what nobody checks; a node's own win over the plan's."""
    limits: dict[str, float] = {}
    prose: list[str] = []
    for name, value in {**plan.constraints, **node.constraints}.items():
        output = name.removeprefix("max_")
        most = _number(value)
        if output != name and output in node.outputs and most is not None:
            limits[output] = most
        elif name not in ENFORCED:
            prose.append(f"constraint {name}: {_shown(value)}")
    return limits, prose


def _number(value: object) -> float | None:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _limited(schema: dict[str, Any], most: float | None) -> dict[str, Any]:
    """The schema with a limit for each type that it allows; each keyword leaves other types alone."""
    if most is None:
        return schema
    keys = {LIMITS[kind] for kind in kinds_of(schema) if kind in LIMITS} or set(LIMITS.values())
    return {**schema, **{key: most if key == "maximum" else int(max(most, 0)) for key in sorted(keys)}}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(one_line(text), 200)


def judge_data(contract: Mapping[str, Any], data: object, inputs: object = None) -> list[Problem]:
    """Everything in the data that the contract, its edges and its expressions do not allow."""
    beside = contract.get("overhand") or {}
    schema = {key: value for key, value in contract.items() if key != "overhand"}
    if data is None and schema:
        wanted = ", ".join(schema.get("required", ())) or "data"
        fix = "Return the outputs as one JSON object."
        return [wrong("data-missing", f"No data were returned; the contract asks for {wanted}.", fix=fix)]
    if schema and (why := _not_json(data)):
        return [wrong("data-not-json", f"The data are not JSON: {why}.", fix="Return JSON; NaN and Infinity are none.")]
    missing, problems = _at_edges(beside.get("edges", ()), data)
    problems = compare(schema, data, known=missing) + problems
    for text in beside.get("expressions", ()):
        problems += _by_expression(text, data, inputs)
    return list(dict.fromkeys(problems))


def _not_json(data: object) -> str:
    try:
        json.dumps(data, allow_nan=False)
    except RecursionError:
        return "they are nested too deeply"
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _at_edges(rows: Sequence[Mapping[str, Any]], data: object) -> tuple[set[tuple[str, str]], list[Problem]]:
    """What edges lack, with both their ends, and the places and fields that are told thereby."""
    told: set[tuple[str, str]] = set()
    problems: list[Problem] = []
    for row in rows:
        ends = f"{row['from']} → {row['to']}"
        lacking: dict[str, list[str]] = {}
        for where, name in edges.absent(row, data):
            lacking.setdefault(name, []).append(where)
            told.add((where, name))
        for name, found in lacking.items():
            verb = "has" if len(found) == 1 and found[0] else "have"
            fix = f"{row['to']} needs it: return {name} there."
            message = f"{ends}: {places(found, len(found))} {verb} no {name}."
            problems.append(wrong("edge-field-missing", message, fix=fix))
        if row.get("schema") and not lacking:
            problems += compare(row["schema"], edges.value_at(row, data), row["field"], f"{ends}: ", "edge-mismatch")
    return told, problems


def _by_expression(text: str, data: object, inputs: object) -> list[Problem]:
    shown = shorten(text, 120)
    try:
        holds = expressions.evaluate(expressions.parse(text), data, inputs)
    except ValueError as error:
        message = f"`{shown}` could not be evaluated: {error}."
        return [wrong("expression-invalid", message, fix="Return the field, or correct the expression.")]
    if holds:
        return []
    return [wrong("expression-failed", f"`{shown}` does not hold.", fix="Return data for which it holds.")]
