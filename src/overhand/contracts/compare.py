"""JSON values compared: with each other, and with a JSON Schema, with messages for people.

Equal values have one canonical text: 1 and 1.0 are equal, true and 1 are not, the order of keys does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from overhand.contracts.types import kind_of, with_article
from overhand.documents import Problem, one_line, shorten, wrong

_SHOWN = 3
_LIMITS = frozenset(("maxItems", "maxLength", "maxProperties", "maximum"))
_COUNTS = {
    "maxItems": ("at most", "items"),
    "maxLength": ("at most", "characters"),
    "maxProperties": ("at most", "fields"),
    "minItems": ("at least", "items"),
    "minLength": ("at least", "characters"),
    "minProperties": ("at least", "fields"),
}
_BOUNDS = {
    "maximum": "at most",
    "minimum": "at least",
    "exclusiveMaximum": "less than",
    "exclusiveMinimum": "more than",
}


def compare_with_schema(
    schema: Mapping[str, Any],
    data: object,
    under: str = "",
    begin: str = "",
    code: str = "",
    known: Collection[tuple[str, str]] = (),
) -> list[Problem]:
    """Everything in the data that the schema does not allow; the same fault in many places is reported once.

    `under` is the data's path, `begin` starts each message, `known` are places and fields reported elsewhere.
    """
    if not schema:
        return []
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema), mask="it")
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        message = f"The contract's schema is not valid: {shorten(str(error).splitlines()[0], 200)}"
        return [wrong("schema-invalid", message, fix="Correct the JSON Schema (draft 2020-12).")]
    groups: dict[tuple[str, tuple[Any, ...], str], list[tuple[Any, ...]]] = {}
    try:
        for one in validator.iter_errors(data):
            path = tuple(one.instance_path)
            if known and one.kind.name == "required" and (place(path), one.kind.as_dict()["property"]) in known:
                continue
            pattern = tuple("*" if isinstance(key, int) else key for key in path)
            kind = "data-limit" if one.kind.name in _LIMITS else "data-mismatch"
            groups.setdefault((kind, pattern, _message(one, data, path)), []).append(path)
    except (ValueError, TypeError, RecursionError) as error:
        return [wrong("data-not-json", f"{begin}The data are not JSON: {error}.", fix="Return one JSON value.")]
    problems = []
    for (kind, _, message), paths in groups.items():
        each = "each " if len(paths) > 1 and message.startswith(("is ", "has ")) else ""
        where = places([place(path, under) for path in paths[:_SHOWN]], len(paths))
        problems.append(wrong(code or kind, f"{begin}{where}: {each}{message}", fix="Change the data there."))
    return problems


def places(found: Sequence[str], count: int) -> str:
    """Places as text: the first few of `count`, and how many more."""
    names = ", ".join(one or "the data" for one in found[:_SHOWN])
    return f"{names} and {count - _SHOWN} more" if count > _SHOWN else names


def place(path: Iterable[Any], under: str = "") -> str:
    """A path into data as it is written: issues[3].severity."""
    text = under
    for key in path:
        plain = isinstance(key, str) and key.replace("-", "_").isidentifier()
        text += f"[{key}]" if isinstance(key, int) else (f".{key}" if text else key) if plain else f'["{key}"]'
    return text


def _message(error: Any, data: Any, path: Sequence[Any]) -> str:
    """The message for an error, equal for equal faults."""
    name, kind = error.kind.name, error.kind
    for key in path:
        data = data[key]
    if name in _COUNTS:
        more, things = _COUNTS[name]
        return f"has {len(data)} {things}, {more} {kind.limit} are allowed."
    if name in _BOUNDS:
        return f"is {data}, but {_BOUNDS[name]} {kind.limit} is needed."
    if name == "required":
        return f"has no {kind.property}."
    if name == "type":
        wanted = " or ".join(with_article(one) for one in kind.types)
        return f"is {with_article(kind_of(data))}, but {wanted} is needed."
    if name == "enum":
        return f"is not one of {shorten(', '.join(map(_value, kind.options)), 150)}."
    if name == "anyOf":
        return f"is {with_article(kind_of(data))} that fits none of the forms that are allowed."
    return shorten(one_line(str(error.message)), 200) + "."


def _value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return f"“{value}”" if isinstance(value, str) else str(value)


def canonical_json(value: object) -> str:
    """The value as canonical JSON; raises ValueError for values that JSON lacks, such as NaN."""
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def same(one: object, other: object) -> bool:
    todo = [(one, other)]
    while todo:
        left, right = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            todo += [(value, right[key]) for key, value in left.items()]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            todo += zip(left, right, strict=True)
        elif isinstance(left, bool) != isinstance(right, bool) or left != right:
            return False
    return True


def _plain(value: Any) -> Any:
    """The value with whole floats as integers; everything else as it is."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is no string")
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
