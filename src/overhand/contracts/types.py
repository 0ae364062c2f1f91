"""Types of outputs and inputs: from type words or a JSON Schema to a JSON Schema, and whether two of them fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from overhand.contracts import type_words

Schema = dict[str, Any]

_KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_ROWS = ("anyOf", "oneOf", "allOf", "prefixItems")
_TABLES = ("properties", "patternProperties", "$defs", "dependentSchemas")
_NOTES = frozenset(("description", "title", "note", "example", "examples", "default", "optional"))


def schema_of(spec: object) -> Schema:
    """The JSON Schema of type words, of a mapping of fields, or of a JSON Schema; not to be changed in place."""
    if isinstance(spec, str):
        return _of_words(spec)
    if isinstance(spec, Mapping):
        return _of_mapping(spec)
    if not isinstance(spec, Sequence) or isinstance(spec, (bytes, bytearray)):
        return {}
    # `[string]` is an array of strings; several plain words are the values that are allowed.
    if len(spec) == 1:
        return type_words.array_of(schema_of(spec[0]))
    if spec and all(isinstance(one, (str, int, float, bool)) or one is None for one in spec):
        return {"enum": list(spec)}
    return {"type": "array"}


def is_optional_field(spec: object) -> bool:
    """Whether the field may be missing: an optional mark in words, or `optional: true`, `required: false`."""
    if isinstance(spec, str):
        return type_words.is_optional(spec)
    return isinstance(spec, Mapping) and (spec.get("optional") is True or spec.get("required") is False)


def type_mismatch(produced: object, wanted: object) -> str:
    """Why the produced type does not fit the wanted one, "" if it does; unknown words fit everything."""
    return _compare(schema_of(produced), schema_of(wanted), "")


@lru_cache(maxsize=16384)
def _of_words(text: str) -> Schema:
    found = type_words.read(text)
    return type_words.nullable(found) if found and type_words.is_optional(text) else found


def _of_mapping(spec: Mapping[Any, Any]) -> Schema:
    if _is_schema(spec):
        return _completed(spec)
    words = spec.get("type")
    if isinstance(words, str) and spec.keys() <= _NOTES | {"type", "required"}:
        found = _of_words(words)
        return type_words.nullable(found) if found and is_optional_field(spec) else found
    if not spec:
        return {}
    fields = {str(name).removesuffix("?"): (name, one) for name, one in spec.items()}
    required = [key for key, (name, one) in fields.items() if key == str(name) and not is_optional_field(one)]
    shown: Schema = {"type": "object", "properties": {key: schema_of(one) for key, (_, one) in fields.items()}}
    return {**shown, "required": required} if required else shown


def _is_schema(spec: Mapping[Any, Any]) -> bool:
    """Whether a mapping is a JSON Schema rather than the fields of an object."""
    for key, fits in _MARKS.items():
        if key in spec and fits(spec[key]):
            return all(isinstance(one, str) and one in _KEYWORDS for one in spec)
    return False


def _is_kind(value: object) -> bool:
    if isinstance(value, str):
        return value in _KINDS
    return isinstance(value, list) and bool(value) and all(one in _KINDS for one in value)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


_MARKS = {
    "type": _is_kind,
    "enum": _is_list,
    "const": lambda _: True,
    "$ref": lambda value: isinstance(value, str) and ("#" in value or "/" in value),
    "$schema": lambda value: isinstance(value, str) and "json-schema.org" in value,
    **dict.fromkeys(_ROWS, _is_list),
    **dict.fromkeys(_TABLES, _is_mapping),
    "required": _is_list,
    "items": lambda value: isinstance(value, (Mapping, bool)),
    "additionalProperties": lambda value: isinstance(value, (Mapping, bool)),
    "not": _is_mapping,
    "if": _is_mapping,
}
_ANNOTATIONS = """
$id $anchor $comment $dynamicRef $dynamicAnchor $vocabulary title description default examples deprecated readOnly
writeOnly format pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems
maxItems uniqueItems contains minContains maxContains minProperties maxProperties propertyNames dependentRequired
unevaluatedItems unevaluatedProperties contentEncoding contentMediaType contentSchema then else optional note
"""
_KEYWORDS = frozenset(_MARKS) | frozenset(_ANNOTATIONS.split())


def _completed(spec: Mapping[str, Any]) -> Schema:
    """The schema as given, with type words parsed wherever a schema is expected, and our own marks left out."""
    shown: Schema = {}
    for key, value in spec.items():
        if key in ("optional", "note") or (key == "required" and not isinstance(value, list)):
            continue
        if key in _SCHEMAS and isinstance(value, (str, Mapping)):
            shown[key] = _inner(value)
        elif key in _ROWS and isinstance(value, list):
            shown[key] = [_inner(one) for one in value]
        elif key in _TABLES and isinstance(value, Mapping):
            shown[key] = {name: _inner(one) for name, one in value.items()}
        else:
            shown[key] = value
    return shown


def _inner(value: object) -> object:
    """A schema inside a schema: type words are parsed, everything else is left as it is."""
    if isinstance(value, str):
        return _of_words(value)
    return _completed(value) if isinstance(value, Mapping) else value


def kinds_of_schema(schema: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that a schema allows; none where it does not say."""
    found = schema.get("type")
    if isinstance(found, str):
        return frozenset((found,))
    if isinstance(found, list):
        return frozenset(found)
    if isinstance(schema.get("enum"), list):
        return frozenset(kind_of(one) for one in schema["enum"])
    for key in ("anyOf", "oneOf"):
        rows = schema.get(key)
        if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
            each = [kinds_of_schema(row) for row in rows]
            return frozenset().union(*each) if all(each) else frozenset()
    return frozenset()


def kinds_of_spec(spec: object) -> frozenset[str]:
    """The JSON types that type words or a schema allow; none where they do not say."""
    return kinds_of_schema(schema_of(spec))


def kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"


def _compare(produced: Schema, wanted: Schema, where: str) -> str:
    have, want = kinds_of_schema(produced), kinds_of_schema(wanted)
    if have and want:
        if "number" in want:
            want |= {"integer"}
        beyond = sorted(have - want)
        if beyond:
            may = "may be" if have & want else "is"
            needed = with_article(" or ".join(sorted(kinds_of_schema(wanted))))
            return f"{where or 'it'} {may} {with_article(' or '.join(beyond))}, but {needed} is wanted"
    if isinstance(produced.get("enum"), list) and isinstance(wanted.get("enum"), list):
        other = [one for one in produced["enum"] if one not in wanted["enum"]]
        if other:
            listed = ", ".join(map(str, wanted["enum"]))
            return f"{where or 'it'} may be “{other[0]}”, which is not one of {listed}"
    if isinstance(produced.get("items"), Mapping) and isinstance(wanted.get("items"), Mapping):
        found = _compare(dict(produced["items"]), dict(wanted["items"]), f"an item{_of(where)}")
        if found:
            return found
    return _compare_fields(produced, wanted, where)


def _compare_fields(produced: Schema, wanted: Schema, where: str) -> str:
    """Compare the fields of objects; a list of fields is complete, so a wanted one that is not in it is missing."""
    has, needs = produced.get("properties"), wanted.get("properties")
    if not isinstance(has, Mapping) or not has:
        return ""
    required = wanted.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in has and produced.get("additionalProperties") in (None, False):
            return f"{where or 'it'} has no {name}, only {', '.join(map(str, has))}"
    if isinstance(needs, Mapping):
        for name, one in needs.items():
            if isinstance(has.get(name), Mapping) and isinstance(one, Mapping):
                found = _compare(dict(has[name]), dict(one), f"{name}{_of(where)}")
                if found:
                    return found
    return ""


def _of(where: str) -> str:
    return f" of {where}" if where else ""


def with_article(kind: str) -> str:
    """A JSON type as it stands in a sentence."""
    return kind if kind == "null" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
