"""Settings of coding clients, as text: one entry put in and taken out, every other byte as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import NotJson, drop_entry, put_entry, read_jsonc

ENTRY = {"command": "overhand", "args": ["mcp"]}
PATH = ("mcpServers", "overhand")

FILES = {
    "two spaces": '{\n  "theme": "dark",\n  "mcpServers": {\n    "other": {\n      "command": "x"\n    }\n  }\n}\n',
    "four spaces": '{\n    "mcpServers": {\n        "other": {}\n    },\n    "last": 1\n}',
    "tabs": '{\n\t"mcpServers": {\n\t\t"other": {}\n\t},\n\t"last": [1, 2]\n}\n',
    "one line": '{"a": 1, "mcpServers": {"other": {"command": "x"}}}',
    "no such key": '{\n  "a": 1\n}\n',
    "empty": "{}\n",
    "empty inside": '{\n  "mcpServers": {}\n}\n',
    "comments": '// mine\n{\n  /* kept */ "a": 1, // why\n  "mcpServers": {\n    "x": {} // the last one\n  }\n}\n',
    "a comma behind the last": '{\n  "a": "//no comment",\n  "mcpServers": {\n    "x": {},\n  },\n}\n',
    "lines of another system": '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "x": {}\r\n  }\r\n}\r\n',
    "a mark at the beginning": '\ufeff{\n  "a": "ä"\n}\n',
    "a comment alone": "{\n  // nothing yet\n}\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_an_entry_comes_and_goes_without_a_trace(text: str) -> None:
    with_it = put_entry(text, PATH, ENTRY)
    value = read_jsonc(with_it)
    assert value["mcpServers"]["overhand"] == ENTRY
    assert put_entry(with_it, PATH, ENTRY) == with_it, "twice is once"
    again = drop_entry(with_it, PATH)
    if "mcpServers" not in read_jsonc(text):
        again = drop_entry(again, ("mcpServers",))
    assert again == text


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_every_other_byte_stays(text: str) -> None:
    with_it = put_entry(text, PATH, ENTRY)
    rest = iter(with_it)
    assert all(char in rest for char in text), "what was there is still there, in its order"


def test_an_entry_is_replaced_in_its_place() -> None:
    text = '{\n  "mcpServers": {\n    "overhand": {"old": true}, // ours\n    "x": {}\n  }\n}\n'
    after = put_entry(text, PATH, {"new": 1})
    assert after == text.replace('{"old": true}', '{\n      "new": 1\n    }')
    assert drop_entry(text, PATH) == '{\n  "mcpServers": { // ours\n    "x": {}\n  }\n}\n'


def test_an_entry_looks_as_its_neighbours_do() -> None:
    assert put_entry('{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n', ("a", "c"), {"d": [1]}) == (
        '{\n\t"a": {\n\t\t"b": 1,\n\t\t"c": {\n\t\t\t"d": [\n\t\t\t\t1\n\t\t\t]\n\t\t}\n\t}\n}\n'
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1', "missing"),
        ('{"a" 1}', "line 1: a colon"),
        ('{\n"a": 1 "b": 2}', "line 2: a comma"),
        ("{a: 1}", "a key in quotes"),
        ('{"a": }', "no JSON"),
        ('{"a": 1} x', "behind the end"),
        ("{ /* ", "the comment has no end"),
        ('{"a": "' + "x", "no JSON"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(NotJson, match=told):
        read_jsonc(text)


@pytest.mark.parametrize("text", ["[]", '{"mcpServers": []}', '{"mcpServers": null}'])
def test_what_is_on_the_way_must_be_objects(text: str) -> None:
    with pytest.raises(NotJson, match="not an object"):
        put_entry(text, PATH, ENTRY)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), st.sampled_from([None, 1, 2, "\t"]), JSON)
def test_any_settings(settings: dict[str, object], indent: int | str | None, value: object) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=False)
    assert read_jsonc(text) == settings
    wanted = {**settings, "ours": value}
    with_it = put_entry(text, ("ours",), value)
    assert read_jsonc(with_it) == wanted
    rest = {key: one for key, one in settings.items() if key != "ours"}
    assert read_jsonc(drop_entry(with_it, ("ours",))) == rest
