"""Type words as people write them, and whether two types fit."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand.contracts import is_optional_field, schema_of, type_mismatch

ARRAY = {"type": "array"}
OBJECT = {"type": "object"}
STRINGS = {"type": "array", "items": {"type": "string"}}
PAIR = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
LEVELS = {"enum": ["low", "medium", "high"]}

WORDS: dict[str, dict[str, Any]] = {
    # one word
    "string": {"type": "string"},
    "str": {"type": "string"},
    "integer": {"type": "integer"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "float": {"type": "number"},
    "boolean": {"type": "boolean"},
    "Bool": {"type": "boolean"},
    "null": {"type": "null"},
    "array": ARRAY,
    "list": ARRAY,
    "object": OBJECT,
    "dict": OBJECT,
    "any": {},
    "": {},
    # dates and the like are text
    "date": {"type": "string"},
    "ISO date": {"type": "string"},
    "release date as string": {"type": "string"},
    "file path": {"type": "string"},
    "timestamp": {"type": ["string", "number"]},
    # notes
    "boolean (all must pass)": {"type": "boolean"},
    "array (combined)": ARRAY,
    "string (generated)": {"type": "string"},
    "boolean (true if any issue (or two) is critical)": {"type": "boolean"},
    "string - the path": {"type": "string"},
    "boolean: whether it passed": {"type": "boolean"},
    "array of strings, each non-empty": STRINGS,
    # arrays
    "array of strings": STRINGS,
    "list of strings": STRINGS,
    "string[]": STRINGS,
    "[string]": STRINGS,
    "array[string]": STRINGS,
    "Array<string>": STRINGS,
    "list[str]": STRINGS,
    "string array": STRINGS,
    "a list of paths": STRINGS,
    "array of arrays of integers": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    "array of numbers between 0 and 1": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}},
    "non-empty array of strings": {**STRINGS, "minItems": 1},
    # objects
    "{a, b}": PAIR,
    "{a, b, a}": PAIR,
    "{a, b}[]": {"type": "array", "items": PAIR},
    "array of {a, b}": {"type": "array", "items": PAIR},
    "array of {a, b} objects": {"type": "array", "items": PAIR},
    "array of objects with {a, b}": {"type": "array", "items": PAIR},
    "object with fields a and b": PAIR,
    "object with keys: a, b": PAIR,
    "object: {a, b}": PAIR,
    "object with timing estimates": OBJECT,
    "object with optional notes": OBJECT,
    "{a: string, b?: integer}": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
        "required": ["a"],
    },
    "{a: {b: integer (1-based)}}": {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}},
        "required": ["a"],
    },
    "Array<{a: number; b: string}>": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "string"}},
            "required": ["a", "b"],
        },
    },
    # maps
    "map of integers": {"type": "object", "additionalProperties": {"type": "integer"}},
    "map of string to integer": {"type": "object", "additionalProperties": {"type": "integer"}},
    "dict[str, int]": {"type": "object", "additionalProperties": {"type": "integer"}},
    "map of string to array of {a, b}": {"type": "object", "additionalProperties": {"type": "array", "items": PAIR}},
    # alternatives and values
    "string | null": {"type": ["string", "null"]},
    "string or object": {"type": ["string", "object"]},
    "array of string | null": {"type": ["array", "null"], "items": {"type": "string"}},
    "array of (string | null)": {"type": "array", "items": {"type": ["string", "null"]}},
    "array of strings or numbers": {"type": "array", "items": {"type": ["string", "number"]}},
    "one of low, medium, high": LEVELS,
    "one of: low, medium or high": LEVELS,
    "string, one of low, medium, high": LEVELS,
    "enum [low, medium, high]": LEVELS,
    "low | medium | high": LEVELS,
    "'low' | 'medium' | 'high'": LEVELS,
    "array of one of low, medium, high": {"type": "array", "items": LEVELS},
    "one of 1, 2, '3'": {"enum": [1, 2, "3"]},
    "0..1": {"type": "number", "minimum": 0, "maximum": 1},
    "integer between 1 and 5": {"type": "integer", "minimum": 1, "maximum": 5},
    "positive integer": {"type": "integer", "exclusiveMinimum": 0},
    "optional string": {"type": ["string", "null"]},
    "string?": {"type": ["string", "null"]},
    # the last word says what it is
    "array of customer objects": {"type": "array", "items": OBJECT},
    "integer count": {"type": "integer"},
    "number of issues": {"type": "number"},
    "JSON object": OBJECT,
    # not known, so anything
    "raw customer records": {},
    "array of validated records": ARRAY,
    "array with error reasons": ARRAY,
    "array with added fields": ARRAY,
    "array index": {},
    "comma-separated list of names": {},
    "markdown list": {},
    "whatever comes out": {},
    "path | report": {},
}


@pytest.mark.parametrize("words", WORDS)
def test_words(words: str) -> None:
    assert schema_of(words) == WORDS[words]


@pytest.mark.parametrize(
    "words",
    [
        "optional string",
        "string?",
        "string, optional",
        "string (optional)",
        "array of strings (if any)",
        "Optional[str]",
    ],
)
def test_optional_marks(words: str) -> None:
    assert is_optional_field(words)
    assert jsonschema_rs.is_valid(schema_of(words), None)


@pytest.mark.parametrize(
    "words",
    ["string", "object with optional notes", "boolean (true if any issue is critical)", "{a?}", "did it pass?"],
)
def test_no_optional_marks(words: str) -> None:
    assert not is_optional_field(words)


def test_a_mapping_that_is_a_json_schema_stays() -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": "^a"}, "uniqueItems": True}
    assert schema_of(schema) == schema
    schema = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "maybe"}
    assert schema_of(schema) == schema


def test_words_inside_of_a_json_schema_are_read() -> None:
    schema = {"type": "object", "properties": {"a": "array of strings"}, "required": ["a"]}
    assert schema_of(schema)["properties"] == {"a": STRINGS}
    assert schema_of({"type": "array", "items": "string"}) == STRINGS


def test_a_mapping_of_fields_is_an_object() -> None:
    assert schema_of({"type": "string", "name": "string", "size?": "integer"}) == {
        "type": "object",
        "properties": {"type": {"type": "string"}, "name": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["type", "name"],
    }
    assert schema_of({"title": "string", "description": "string"})["required"] == ["title", "description"]


def test_words_with_a_description() -> None:
    assert schema_of({"type": "array of strings", "description": "the names"}) == STRINGS
    assert is_optional_field({"type": "string", "required": False})
    assert schema_of({"type": "string", "required": False}) == {"type": "string"}


def test_lists() -> None:
    assert schema_of(["string"]) == STRINGS
    assert schema_of(["low", "medium", "high"]) == LEVELS
    assert schema_of([]) == ARRAY


def test_the_same_words_are_read_once() -> None:
    assert schema_of("array of {x, y, z}") is schema_of("array of {x, y, z}")


FITS = [
    ("integer", "number"),
    ("raw customer records", "string"),
    ("string", "something"),
    ("array of validated records", "array of customer objects"),
    ("array of {a, b, c}", "array of {a, b}"),
    ("object", "{a, b}"),
    ("string", "string | null"),
    ("string", "low | high"),
    ("low", "low | high"),
    ("map of integers", "{a}"),
]


@pytest.mark.parametrize(("produced", "wanted"), FITS)
def test_what_fits(produced: str, wanted: str) -> None:
    assert type_mismatch(produced, wanted) == ""


@pytest.mark.parametrize(
    ("produced", "wanted", "why"),
    [
        ("array", "string", "it is an array, but a string is wanted"),
        ("number", "integer", "it is a number, but an integer is wanted"),
        ("string | null", "string", "it may be null, but a string is wanted"),
        ("array of strings", "array of integers", "an item is a string, but an integer is wanted"),
        ("array of {a, b}", "array of {a, c}", "an item has no c, only a, b"),
        ("{a: {b: string}}", "{a: {b: integer}}", "b of a is a string, but an integer is wanted"),
        ("low | high", "low | medium", "it may be “high”, which is not one of low, medium"),
        ({"type": "boolean"}, "array (combined)", "it is a boolean, but an array is wanted"),
    ],
)
def test_what_does_not_fit(produced: object, wanted: str, why: str) -> None:
    assert type_mismatch(produced, wanted) == why


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(st.text(alphabet="abz {}[]()<>|?,:;.'\"-01ofr\n", max_size=200) | st.text(max_size=100))
def test_any_text_is_a_valid_schema(text: str) -> None:
    jsonschema_rs.validator_for(schema_of(text))
    is_optional_field(text)
    assert type_mismatch(text, text) == ""


JSONLIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(sorted(WORDS)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b?", "x y", "name"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSONLIKE)
def test_any_value_is_a_valid_schema(spec: object) -> None:
    jsonschema_rs.validator_for(schema_of(spec))
    assert type_mismatch(spec, spec) == ""


@pytest.mark.parametrize(
    "text", ["{" * 100_000, "array of " * 50_000, "(" * 100_000, "a | " * 50_000, "[" * 4000 + "]" * 4000]
)
def test_hostile_words_allow_anything(text: str) -> None:
    jsonschema_rs.validator_for(schema_of(text))
