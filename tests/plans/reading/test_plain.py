"""What a program writes is read the quick way; a key more, and the same is read the slow way: nothing else differs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overhand.plans import forms_plain
from overhand.plans.check import check
from overhand.plans.forms import Gather
from overhand.plans.reader import Reading, read
from overhand.plans.source import Source

WORDS = st.sampled_from(
    ["", " ", "a", " a ", "b", "c-d", "-x", "merge", "all_subtasks", "é", "a b", "x" * 65, "5m", "2h"]
)
TEXTS = st.sampled_from(
    ["${a.out}", "see ${b} and ${a.out.x}", "${", "$${a}", "${self.out}", "array of strings", "string"]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.sampled_from([0, 1, 300, -1, 1.5]), WORDS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS, inner, max_size=2)),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from(["out", "records", "x"]), VALUES, max_size=2)
TYPES = st.dictionaries(
    st.sampled_from(["out", "records", "x"]), st.sampled_from(["string", "array of strings"]), min_size=1
)
CHECKS = st.one_of(
    st.fixed_dictionaries({"expression": st.sampled_from(["len(data.out) > 0", " true ", "", "not one"])}),
    st.fixed_dictionaries({"command": VALUES}),
    VALUES,
)
CONTRACTS = st.fixed_dictionaries(
    {"inputs": FIELDS, "outputs": st.one_of(TYPES, TYPES, FIELDS), "verification": CHECKS},
    optional={
        "constraints": st.dictionaries(st.sampled_from(["timeout", "token_budget", "max_out"]), SCALARS, max_size=2)
    },
)
NODES = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b", "c-d", "self", "merge", "", " a"]), "contract": CONTRACTS},
    optional={
        "agent": SCALARS,
        "task": SCALARS,
        "dependencies": st.one_of(st.lists(st.sampled_from(["a", "b", "self", "nobody"]), max_size=3), VALUES),
        "status": SCALARS,
        "result": SCALARS,
    },
)
EDGES = st.fixed_dictionaries(
    {
        "from": st.sampled_from(["a", "b", "all_subtasks", " a", "", "self"]),
        "to": st.sampled_from(["a", "merge", "c-d", "self"]),
    },
    optional={"format": st.one_of(TYPES, VALUES), "required_fields": st.one_of(st.lists(WORDS, max_size=2), VALUES)},
)


def told(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> Reading:
    plan = {
        "delegation": {"task": "Work through all the parts"},
        "subtasks": nodes,
        "interfaces": edges,
        "merge_plan": {"strategy": "aggregate"},
        "failure_handling": {"policy": "abort"},
    }
    return read(json.dumps(plan), "plan.json")


@settings(max_examples=400, deadline=None)
@given(st.lists(NODES, min_size=1, max_size=3), st.lists(EDGES, max_size=2))
def test_the_quick_way_reads_what_the_slow_one_reads(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
    nodes = [*nodes, *({**node, "id": f"{node['id']}-again"} for node in nodes)]  # with times that were read before
    quick = told(nodes, edges)
    slow = told(
        [{**node, "priority": "P2"} for node in nodes],
        [{("required" if key == "required_fields" else key): one for key, one in edge.items()} for edge in edges],
    )
    assert quick.plan == slow.plan
    assert [one.code for one in quick.problems] == [one.code for one in slow.problems]
    assert quick.plan is not None
    assert slow.plan is not None
    assert [one.message for one in check(quick.plan)] == [one.message for one in check(slow.plan)]


def test_what_a_program_writes_takes_the_quick_way() -> None:
    contract = {"inputs": {"x": "${a.out}"}, "outputs": {"out": "string"}, "verification": {"expression": "true"}}
    raw: dict[str, Any] = {
        "id": "b",
        "agent": "worker",
        "contract": contract,
        "dependencies": [],
        "status": "pending",
        "result": None,
    }
    found = forms_plain.node(Gather(Source(None, [])), raw, "Do it", 0)
    assert found is not None
    assert found.needs == ("a",)
    assert forms_plain.interface({"from": "a", "to": "b", "format": {"x": "string"}, "required_fields": ["id"]})


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
    assert [one.code for one in read(text, "plan.json").problems] == ["plan-key-twice"] * twice
