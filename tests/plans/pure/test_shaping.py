"""final_output_format: merged data under the names that the plan asks for."""

from __future__ import annotations

from overhand.plans.merge import merge
from plans.pure.examples import pipeline, result, review, voters


def test_the_code_review() -> None:
    issue = {"severity": "low", "file": "a", "line": 1, "description": "d"}
    given = [
        result("security-review", {"issues": [issue], "passed": True, "summary": "safe"}, summary="Looked at 3 files."),
        result("perf-review", {"issues": [issue, {**issue, "line": 2}], "passed": False, "metrics": {"ms": 3}}),
        result("style-review", None, status="failed", summary="The linter\ncrashed."),
    ]
    found = merge(review(), given)
    assert found.data == {
        "all_issues": [issue, {**issue, "line": 2}],
        "passed": False,
        "summary": "security-review: Looked at 3 files.\nperf-review: completed\n"
        "style-review: failed. The linter crashed.",
    }
    assert found.provenance == {
        "all_issues": ("security-review", "perf-review"),
        "all_issues[0]": ("security-review", "perf-review"),
        "all_issues[1]": ("perf-review",),
        "passed": ("security-review", "perf-review"),
        "summary": ("merge",),
    }
    assert (found.status, found.unfilled, found.missing) == ("partial", (), ("style-review",))


def test_the_pipeline_runs_as_it_stands_and_says_what_cannot_be_filled() -> None:
    data = {"stored_count": 2, "storage_location": "db"}
    given = [result("validate-data", {}), result("enrich-data", {}), result("store-data", data)]
    found = merge(pipeline(), given)
    assert (found.data, found.status, found.unfilled) == (data, "completed", ("processed", "stored", "errors"))
    assert [one.code for one in found.problems] == ["merge-custom", "merge-unfilled"]
    assert found.problems[1].message.startswith("Nothing was found for processed, stored, errors,")
    assert "stored_count, storage_location" in found.problems[1].fix


def test_fields_are_found_by_name_by_source_and_by_all() -> None:
    shape = {
        "n": "integer",
        "count": {"from": "m.size", "type": "integer"},
        "all_x": "array",
        "of_b": "${b.x}",
        "of_a": {"from": "a.n"},
        "whole_b": {"from": "${b}"},
        "gone": "string",
        "maybe": "optional string",
    }
    whole = voters("aggregate", "a", "b", shape=shape)
    found = merge(whole, [result("a", {"n": 1, "m": {"size": 4}, "x": [1]}), result("b", {"n": 2, "x": [2]})])
    assert found.data == {
        "n": 1,
        "count": 4,
        "all_x": [1, 2],
        "of_b": [2],
        "of_a": 1,
        "whole_b": {"n": 2, "x": [2]},
    }
    assert found.unfilled == ("gone",)
    assert found.provenance == {
        "n": ("a",),
        "count": ("a",),
        "all_x": ("a", "b"),
        "all_x[0]": ("a",),
        "all_x[1]": ("b",),
        "of_b": ("b",),
        "of_a": ("a",),
        "whole_b": ("b",),
    }


def test_a_reference_is_a_node_even_where_a_field_has_its_name() -> None:
    shape = {"one": "${a.n}", "other": {"from": "a.n"}}
    found = merge(voters("aggregate", "a", shape=shape), [result("a", {"n": 1, "a": {"n": 2}})])
    assert found.data == {"one": 1, "other": 2}


def test_a_source_that_gave_nothing() -> None:
    shape = {"n": "integer", "one": "${b.n}", "other": "${c.n}"}
    whole = voters("aggregate", "a", "b", shape=shape)
    found = merge(whole, [result("a", {"n": 1}), result("b", None, status="failed")])
    assert (found.data, found.unfilled, found.status) == ({"n": 1}, ("one", "other"), "partial")


def test_names_with_dots_keep_their_provenance() -> None:
    shape = {"x.y": "array", "deep": {"from": "m.k.0"}}
    given = [result("a", {"x.y": [1], "m": {"k": [7]}}), result("b", {"x.y": [2]})]
    found = merge(voters("aggregate", "a", "b", shape=shape), given)
    assert found.data == {"x.y": [1, 2], "deep": 7}
    assert found.provenance == {
        '["x.y"]': ("a", "b"),
        '["x.y"][0]': ("a",),
        '["x.y"][1]': ("b",),
        "deep": ("a",),
    }


def test_a_field_whose_name_is_a_number() -> None:
    found = merge(voters("aggregate", "a", shape={"0": "integer"}), [result("a", {"0": 5})])
    assert (found.data, found.provenance) == ({"0": 5}, {'["0"]': ("a",)})


def test_a_range_is_no_source() -> None:
    whole = voters("aggregate", "a", shape={"span": {"from": "string", "to": "string"}})
    found = merge(whole, [result("a", {"span": {"from": "x", "to": "y"}})])
    assert (found.data, found.problems) == ({"span": {"from": "x", "to": "y"}}, ())


def test_types_are_checked_after_shaping() -> None:
    whole = voters("aggregate", "a", shape={"passed": "boolean (all must pass)", "all_x": "array of strings"})
    found = merge(whole, [result("a", {"passed": "yes", "x": ["k", 1]})])
    assert [one.message for one in found.problems] == [
        "final_output_format: passed: is a string, but a boolean is needed.",
        "final_output_format: all_x[1]: is an integer, but a string is needed.",
    ]
    assert (found.status, {one.code for one in found.problems}) == ("partial", {"merge-mismatch"})
    assert found.data == {"passed": "yes", "all_x": ["k", 1]}


def test_a_summary_of_the_nodes_own_is_kept_unless_it_is_to_be_generated() -> None:
    given = [result("a", {"summary": "mine"}, summary="told")]
    assert merge(voters("aggregate", "a", shape={"summary": "string"}), given).data == {"summary": "mine"}
    assert merge(voters("aggregate", "a", shape={"summary": "string (generated)"}), given).data == {
        "summary": "a: told"
    }
    plain = [result("a", {"n": 1}, summary="told")]
    assert merge(voters("aggregate", "a", shape={"summary": "string"}), plain).data == {"summary": "a: told"}


def test_what_nodes_say_about_a_generated_field_is_no_conflict() -> None:
    given = [result("a", {"summary": "one", "n": 1}), result("b", {"summary": "two", "n": 2})]
    written = {"summary": "string (generated)", "n": "integer"}
    found = merge(voters("aggregate", "a", "b", shape=written), given)
    assert ([one.field for one in found.conflicts], found.data["n"]) == (["n"], 1)
    assert found.data["summary"] == "a: one\nb: two"
    strict = merge(voters("aggregate", "a", "b", shape=written, rules={"summary": "fail"}), given)
    assert strict.status == "completed", "nobody asks what the nodes called it"
    taken = {**written, "said": {"from": "summary"}}
    kept = merge(voters("aggregate", "a", "b", shape=taken), given)
    assert [one.field for one in kept.conflicts] == ["summary", "n"]
    named = merge(voters("aggregate", "a", "b", shape={"summary": "string"}), given)
    assert [one.field for one in named.conflicts] == ["summary", "n"], "this one is taken from the nodes"
