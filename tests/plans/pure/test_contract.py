"""A node's contract, and data held against it: everything at once, with field paths and both ends of an edge."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand.contracts import judge_data
from overhand.contracts.data import CODES
from overhand.plans.contract import by_source, contract_of
from overhand.plans.model import Interface, Node
from plans.pure.examples import pipeline, plan, review


def judged(node: Node, data: object, inputs: object = None) -> list[str]:
    """What is said about the data of a node that is alone."""
    return [one.message for one in judge_data(contract_of(plan(node), node), data, inputs)]


def test_outputs_are_required_with_their_types() -> None:
    node = Node("a", "x", outputs={"names": "array of strings", "passed": "boolean", "note": "optional string"})
    contract = contract_of(plan(node), node)
    assert contract["required"] == ["names", "passed"]
    assert contract["properties"]["names"] == {"type": "array", "items": {"type": "string"}}
    assert judged(node, {"names": [], "passed": False}) == []
    assert judged(node, {"names": ["a", 3, "b", 4], "passed": "yes", "note": None}) == [
        "names[1], names[3]: each is an integer, but a string is needed.",
        "passed: is a string, but a boolean is needed.",
    ]
    assert judged(node, {}) == ["the data: has no names.", "the data: has no passed."]
    assert judged(node, ["names"]) == ["the data: is an array, but an object is needed."]


def test_a_node_that_declares_nothing_has_no_contract() -> None:
    node = Node("a", "x")
    assert contract_of(plan(node), node) == {}
    assert judge_data({}, None) == judge_data({}, {"anything": 1}) == []


def test_no_data() -> None:
    node = Node("a", "x", outputs={"names": "array", "passed": "boolean"})
    assert judged(node, None) == ["No data were returned; the contract asks for names, passed."]


@pytest.mark.parametrize(
    ("words", "value", "message"),
    [
        ("array", [1, 2, 3], "x: has 3 items, at most 2 are allowed."),
        ("string", "abc", "x: has 3 characters, at most 2 are allowed."),
        ("integer", 3, "x: is 3, but at most 2 is needed."),
        ("number", 2.5, "x: is 2.5, but at most 2 is needed."),
        ("object", {"a": 1, "b": 2, "c": 3}, "x: has 3 fields, at most 2 are allowed."),
        ("whatever", [1, 2, 3], "x: has 3 items, at most 2 are allowed."),
        ("whatever", "abc", "x: has 3 characters, at most 2 are allowed."),
    ],
)
def test_max_of_an_output(words: str, value: object, message: str) -> None:
    node = Node("a", "x", outputs={"x": words}, constraints={"max_x": 2})
    assert judged(node, {"x": value}) == [message]
    contract = contract_of(plan(node), node)
    assert judge_data(contract, {"x": value})[0].code == "data-limit"
    assert "overhand" not in contract


def test_the_plans_own_maximum_counts_unless_the_node_has_one() -> None:
    node = Node("a", "x", outputs={"issues": "array"})
    one = plan(node, constraints={"max_issues": 1, "timeout": "10m"})
    assert [one.message for one in judge_data(contract_of(one, node), {"issues": [1, 2]})]
    own = replace(node, constraints={"max_issues": 5})
    assert judge_data(contract_of(one, own), {"issues": [1, 2]}) == []


def test_what_nobody_checks_is_told() -> None:
    constraints = {"timeout": "5m", "token_budget": 100, "max_cost": 3, "enrich_fields": ["a", "b"]}
    node = Node("a", "x", outputs={"n": "integer"}, constraints=constraints, verification=("n looks right",))
    assert contract_of(plan(node), node)["overhand"] == {
        "unverified": ["n looks right", "constraint max_cost: 3", 'constraint enrich_fields: ["a", "b"]']
    }


def test_verification_by_expression_exists_and_schema() -> None:
    checks = (
        {"expression": "data.n == len(inputs.records)"},
        {"expression": "data.n < data.limit"},
        {"exists": ["a.md", "b.md"]},
        {"schema": {"required": ["m"]}},
        {"schema": "schemas/out.json"},
        {"command": "make test"},
    )
    node = Node("a", "x", outputs={"n": "integer"}, verification=checks)
    contract = contract_of(plan(node), node)
    assert contract["overhand"] == {
        "expressions": ["data.n == len(inputs.records)", "data.n < data.limit"],
        "exists": ["a.md", "b.md"],
        "schemas": ["schemas/out.json"],
    }
    assert judged(node, {"n": 3}, {"records": [1]}) == [
        "the data: has no m.",
        "`data.n == len(inputs.records)` does not hold.",
        "`data.n < data.limit` could not be evaluated: data has no limit.",
    ]
    assert judged(node, {"n": 1, "m": 1, "limit": 2}, {"records": [1]}) == []


def test_an_edge_names_both_its_ends() -> None:
    whole = pipeline()
    contract = contract_of(whole, whole.nodes["validate-data"])
    fine = {"id": 1, "name": "a", "email": "b"}
    data = {"valid_records": [fine, fine, fine, {"id": 2, "name": "c"}], "invalid_records": []}
    assert [one.message for one in judge_data(contract, data)] == [
        "validate-data → enrich-data: valid_records[3] has no email."
    ]
    assert judge_data(contract, {"valid_records": [fine], "invalid_records": []}) == []


def test_an_edge_with_a_type_of_its_own() -> None:
    whole = pipeline()
    contract = contract_of(whole, whole.nodes["validate-data"])
    assert [one.message for one in judge_data(contract, {"valid_records": [], "invalid_records": 3})] == [
        "invalid_records: is an integer, but an array is needed."
    ]
    found = judge_data(contract, {"valid_records": [7], "invalid_records": []})
    assert {one.code for one in found} == {"edge-field-missing"}
    node = Node("a", "x", outputs={"items": "array"})
    to = Node("b", "y", needs=("a",), inputs={"items": "${a.items}"})
    both = plan(node, to, interfaces=(Interface("a", "b", {"items": "array of objects"}),))
    assert [one.message for one in judge_data(contract_of(both, node), {"items": [{}, 3]})] == [
        "a → b: items[1]: is an integer, but an object is needed."
    ]


def test_a_required_output_is_looked_for_at_the_top() -> None:
    whole = review()
    contract = contract_of(whole, whole.nodes["style-review"])
    assert [one.message for one in judge_data(contract, {"issues": []})] == [
        "style-review → merge: the data have no passed."
    ]
    assert judge_data(contract, {"issues": [], "passed": True}) == []


def test_an_output_that_is_missing_altogether_is_told_once() -> None:
    whole = pipeline()
    contract = contract_of(whole, whole.nodes["enrich-data"])
    assert [one.message for one in judge_data(contract, {})] == [
        "enrich-data → store-data: the data have no enriched_records."
    ]


def test_a_required_field_is_looked_for_in_arrays_and_not_in_what_goes_beside_them() -> None:
    node = Node("a", "x", outputs={"rows": "array", "batch": "string"})
    to = Node("b", "y", needs=("a",), inputs={"rows": "${a.rows}", "batch": "${a.batch}"})
    both = plan(node, to, interfaces=(Interface("a", "b", {"rows": "array", "batch": "string"}, ("id", "rows")),))
    contract = contract_of(both, node)
    assert judge_data(contract, {"rows": [{"id": 1}], "batch": "b1"}) == []
    assert [one.message for one in judge_data(contract, {"rows": [{}], "batch": "b1"})] == ["a → b: rows[0] has no id."]


def test_a_dotted_required_field() -> None:
    node = Node("a", "x", outputs={"rows": "array"})
    to = Node("b", "y", needs=("a",), inputs={"rows": "${a.rows}"})
    both = plan(node, to, interfaces=(Interface("a", "b", {"rows": "array"}, ("rows.id", "owner.name")),))
    contract = contract_of(both, node)
    assert judge_data(contract, {"rows": [{"id": 1, "owner": {"name": "n"}}]}) == []
    assert [one.message for one in judge_data(contract, {"rows": [{"owner": {}}]})] == [
        "a → b: rows[0] has no id.",
        "a → b: rows[0] has no owner.name.",
    ]


def test_without_a_format_the_references_of_the_consumer_are_the_edge() -> None:
    node = Node("a", "x", outputs={"rows": "array", "log": "array"})
    to = Node("b", "y", needs=("a",), inputs={"in": "${a.rows}"})
    both = plan(node, to, interfaces=(Interface("a", "b", {}, ("id",)),))
    assert [one.message for one in judge_data(contract_of(both, node), {"rows": [{}], "log": [{}]})] == [
        "a → b: rows[0] has no id."
    ]


def test_all_subtasks_means_those_the_consumer_waits_for() -> None:
    first, second = Node("a", "x"), Node("b", "x")
    last = Node("c", "x", needs=("a",), inputs={"n": "${a.n}"})
    whole = plan(first, second, last, interfaces=(Interface("all_subtasks", "c", {"n": "integer"}, ("n",)),))
    assert contract_of(whole, first)["overhand"]["edges"]
    assert contract_of(whole, second) == contract_of(whole, last) == {}


def test_what_an_edge_says_is_not_said_again() -> None:
    node = Node("a", "x", outputs={"rows": "array of {id, name}"})
    to = Node("b", "y", needs=("a",), inputs={"rows": "${a.rows}"})
    both = plan(node, to, interfaces=(Interface("a", "b", {"rows": "array"}, ("id",)),))
    assert [one.message for one in judge_data(contract_of(both, node), {"rows": [{}]})] == [
        "rows[0]: has no name.",
        "a → b: rows[0] has no id.",
    ]


def test_the_same_fault_in_many_places_is_one_problem() -> None:
    node = Node("a", "x", outputs={"rows": "array of {id}"})
    assert judged(node, {"rows": [{}] * 10}) == ["rows[0], rows[1], rows[2] and 7 more: each has no id."]


def test_ten_megabytes_with_every_item_wrong() -> None:
    whole = pipeline()
    contract = contract_of(whole, whole.nodes["validate-data"])
    data = {"valid_records": [{"id": number, "name": "n" * 80} for number in range(100_000)], "invalid_records": ""}
    assert len(json.dumps(data)) > 10_000_000
    where = "valid_records[0], valid_records[1], valid_records[2] and 99997 more"
    assert [one.message for one in judge_data(contract, data)] == [
        "invalid_records: is a string, but an array is needed.",
        f"validate-data → enrich-data: {where} have no email.",
    ]


def test_what_is_no_json_is_refused() -> None:
    node = Node("a", "x", outputs={"n": "number"})
    contract = contract_of(plan(node), node)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for bad in (float("nan"), {1, 2}, deep):
        assert [one.code for one in judge_data(contract, {"n": bad})] == ["data-not-json"]


def test_a_schema_that_is_none() -> None:
    node = Node("a", "x", outputs={"n": {"type": "string", "pattern": "("}})
    assert [one.code for one in judge_data(contract_of(plan(node), node), {"n": "x"})] == ["schema-invalid"]


def test_an_index_of_edges_changes_nothing() -> None:
    for whole in (pipeline(), review()):
        for node in whole.nodes.values():
            assert contract_of(whole, node, by_source(whole)) == contract_of(whole, node)


def test_contracts_do_not_change_shared_schemas() -> None:
    node = Node("a", "x", outputs={"rows": "array of {q}"}, constraints={"max_rows": 1})
    contract_of(plan(node), node)
    plain = replace(node, constraints={})
    assert "maxItems" not in contract_of(plan(plain), plain)["properties"]["rows"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["valid_records", "issues", "id", "passed"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_any_data_can_be_judged(data: object) -> None:
    for whole in (pipeline(), review()):
        for node in whole.nodes.values():
            contract = contract_of(whole, node)
            json.dumps(contract)
            jsonschema_rs.validator_for({key: value for key, value in contract.items() if key != "overhand"})
            found = judge_data(contract, data, {})
            assert {one.code for one in found} <= set(CODES)
            assert found == judge_data(contract, data, {})
