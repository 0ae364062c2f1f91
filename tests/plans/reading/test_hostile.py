"""Files that were made to hurt: each is refused with a sentence, and soon."""

from __future__ import annotations

import json

import pytest

from overhand.plans import check_plan, read_plan_text, source
from plans.reading.examples import SHORT

HEAD = "plan: Hurt somebody\nnodes:\n  a: {agent: worker, task: Do it}\n"


def codes(text: str | bytes, name: str = "plan.yaml") -> list[str]:
    found = read_plan_text(text, name)
    assert all(one.line for one in found.problems)
    return [one.code for one in found.problems]


@pytest.mark.parametrize(
    "nested",
    [
        "x: " + "[" * 100_000,
        "x: " + "[" * 100_000 + "]" * 100_000,
        "x: " + "{a: " * 100_000,
        "x:\n  " + "- " * 100_000 + "y",
        "x:\n  " + "? " * 100_000 + "y",
        "x:\n" + "\n".join(" " * depth + "a:" for depth in range(1, 2000)),
        "x:\n" + "\n".join(" " * depth + "a:" for depth in range(1, 400)),
        "x: " + "[" * 700 + "]" * 700,
    ],
    ids=["open", "closed", "flow", "dashes", "marks", "far", "indented", "near"],
)
def test_deep_yaml(nested: str) -> None:
    assert codes(HEAD + nested) == ["plan-deep"]


@pytest.mark.parametrize("depth", [101, 900, 200_000])
def test_deep_json(depth: int) -> None:
    text = '{"plan": "p", "nodes": ' + "[" * depth + "]" * depth + "}"
    assert codes(text, "plan.json") == ["plan-deep"]


def test_brackets_in_texts_are_not_deep() -> None:
    text = json.dumps({"plan": "p", "nodes": {"a": {"agent": "x", "task": "Look at " + "[{" * 500}}})
    assert codes(text, "plan.json") == []


def test_merge_keys_multiply_as_well() -> None:
    rows = ["a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(10)) + "}"]
    rows += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    assert codes("\n".join(rows) + "\n" + HEAD) == ["plan-aliases"]


def test_an_alias_of_nothing() -> None:
    assert codes(HEAD + "x: *nobody\n") == ["plan-syntax"]


def test_too_large() -> None:
    assert [one.code for one in read_plan_text("# " + "x" * source.YAML_LIMIT, "plan.yaml").problems] == [
        "plan-too-large"
    ]


@pytest.mark.parametrize(
    "tail", ["!!binary aGk=", "!!set {a}", "!!timestamp 2024-01-15", "!mine x", "!!int ten", "!!float .inf"]
)
def test_tags(tail: str) -> None:
    assert "plan-tag" in codes(HEAD.replace("Do it", tail))


def test_numbers_without_end() -> None:
    assert codes(HEAD + "complexity: " + "9" * 5000 + "\n") != []
    assert codes('{"plan": "p", "nodes": {}, "complexity": ' + "9" * 5000 + "}", "plan.json") == ["plan-syntax"]
    assert codes('{"plan": "p", "nodes": {}, "complexity": NaN}', "plan.json") == ["plan-syntax"]


def test_control_characters() -> None:
    assert codes(HEAD + "context: \x07\n") == ["plan-syntax"]


def test_flow_style_is_yaml_too() -> None:
    assert read_plan_text("{plan: p, nodes: {a: {agent: x, task: Do the thing}}}").ok


def test_keys_twice_in_json_at_any_depth() -> None:
    text = '{"plan": "p",\n"nodes": {"a": {"agent": "x",\n"inputs": {"k": [{"z": ":",\n"z": 2}]}},\n"a": {}}}'
    found = [(one.code, one.line) for one in read_plan_text(text, "plan.json").problems if one.code == "plan-key-twice"]
    assert found == [("plan-key-twice", 4), ("plan-key-twice", 5)]


def test_a_circle_of_twenty_thousand() -> None:
    count = 20_000
    one = {"agent": "w", "task": "Do one of many", "verify": "true"}
    nodes = {f"n{n}": {**one, "after": [f"n{(n + 1) % count}"]} for n in range(count)}
    found = read_plan_text(json.dumps({"plan": "p", "nodes": nodes}), "plan.json")
    assert found.plan is not None
    cycle = [one for one in check_plan(found.plan, lines=found.lines) if one.code == "plan-cycle"]
    assert len(cycle) == 1
    assert "20,000 nodes" in cycle[0].message


def test_thousands_of_slips() -> None:
    """Each is told; what was meant is looked for only at first."""
    count = 3000
    nodes = {f"node-{n}": {"agent": "w", "tsak": "x", "after": [f"nod-{n}"], "writes": ["*.md"]} for n in range(count)}
    found = read_plan_text(json.dumps({"plan": "p", "nodes": nodes}, indent=1), "plan.json")
    assert found.plan is not None
    problems = [*found.problems, *check_plan(found.plan, {}, lines=found.lines)]
    assert sum(one.code == "plan-node-unknown" for one in problems) == count
    assert sum(one.code == "plan-agent-unknown" for one in problems) == count
    assert len({one.line for one in problems if one.code == "plan-node-unknown"}) == count


def test_short_reads_as_it_should_after_all() -> None:
    assert codes(SHORT) == []


@pytest.mark.parametrize(
    ("inner", "twice"),
    [
        ('"k": 1, "k": 2', True),
        ('"k" : 1, "k"\n\t: 2', True),
        ('"k" : 1, "l"\n:2, "m": "a : b"', False),
        (r'"k": "he said \"k\": 1", "l": ":"', False),
        (r'"k": "\"k\" :", "k": "x"', True),
        (r'"k\\": 1, "l": "\":"', False),
        (r'"k\\": 1, "k\\": "\":"', True),
        (r'"k": "\\", "l": "\\\":"', False),
        (r'"k": "\":\":", "k" : 0', True),
    ],
)
def test_a_key_that_occurs_twice(inner: str, twice: bool) -> None:
    text = f'{{"plan": "p", "nodes": {{"a": {{"agent": "w", "task": "Do the thing", "inputs": {{{inner}}}}}}}}}'
    assert [one.code for one in read_plan_text(text, "plan.json").problems] == ["plan-key-twice"] * twice
