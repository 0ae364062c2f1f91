"""Data checked against the contract of a plan's node: types, limits, edges to other nodes, and expressions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from overhand.contracts import expressions
from overhand.contracts.compare import compare_with_schema, places
from overhand.documents import Problem, shorten, wrong

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
    problems = compare_with_schema(schema, data, known=missing) + problems
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
    """The fields that edges lack, as problems that name both ends, and the places and fields in them."""
    reported: set[tuple[str, str]] = set()
    problems: list[Problem] = []
    for row in rows:
        ends = f"{row['from']} → {row['to']}"
        lacking: dict[str, list[str]] = {}
        for where, name in _absent(row, data):
            lacking.setdefault(name, []).append(where)
            reported.add((where, name))
        for name, found in lacking.items():
            verb = "has" if len(found) == 1 and found[0] else "have"
            fix = f"{row['to']} needs it: return {name} there."
            message = f"{ends}: {places(found, len(found))} {verb} no {name}."
            problems.append(wrong("edge-field-missing", message, fix=fix))
        if row.get("schema") and not lacking:
            problems += compare_with_schema(
                row["schema"], pick_field(data, row["field"]), row["field"], f"{ends}: ", "edge-mismatch"
            )
    return reported, problems


def _absent(row: Mapping[str, Any], data: object) -> list[tuple[str, str]]:
    """Every place of an edge that lacks a required field, "" for the data as a whole, with the field."""
    field = row["field"]
    try:
        value = pick_field(data, field)
    except LookupError:
        return [("", field)]
    found = [(f"{field}[{at}]", one) for at, one in enumerate(value)] if isinstance(value, list) else [(field, value)]
    return [(place, name) for name in row["required"] for place, one in found if not _has(one, name)]


def _has(value: object, name: str) -> bool:
    if isinstance(value, Mapping) and name in value:
        return True
    if "." not in name:
        return False
    try:
        pick_field(value, name)
    except LookupError:
        return False
    return True


def _by_expression(text: str, data: object, inputs: object) -> list[Problem]:
    shown = shorten(text, 120)
    try:
        holds = expressions.evaluate(expressions.parse_expression(text), data, inputs)
    except ValueError as error:
        message = f"`{shown}` could not be evaluated: {error}."
        return [wrong("expression-invalid", message, fix="Return the field, or correct the expression.")]
    if holds:
        return []
    return [wrong("expression-failed", f"`{shown}` does not hold.", fix="Return data for which it holds.")]


def pick_field(data: Any, field: str) -> Any:
    """The value in `data` under a dotted field; LookupError names the first missing part."""
    at = data
    for step in field.split(".") if field else ():
        if isinstance(at, Mapping) and step in at:
            at = at[step]
        elif isinstance(at, (list, tuple)) and step.isascii() and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        else:
            raise LookupError(step)
    return at
