"""Merging: one readable example per rule."""

from __future__ import annotations

from typing import Any

import pytest

from overhand.plans.combine import Conflict
from overhand.plans.merge import Merged, members, merge
from overhand.plans.model import Interface, Merge, Node
from plans.pure.examples import plan, result, voters


def codes(found: Merged) -> list[str]:
    """The codes of its problems."""
    return [one.code for one in found.problems]


def aggregated(*given: Any, **more: Any) -> Merged:
    """The data of nodes a, b, c … aggregated."""
    names = "abcdefgh"[: len(given)]
    results = [result(name, data) for name, data in zip(names, given, strict=True)]
    return merge(voters("aggregate", *names, **more), results)


# aggregate


def test_arrays_follow_each_other_in_the_order_of_the_plan() -> None:
    whole = voters("aggregate", "a", "b")
    found = merge(whole, [result("b", {"x": [3]}), result("a", {"x": [1, 2]})])
    assert found.data == {"x": [1, 2, 3]}
    assert found.provenance == {"x": ("a", "b"), "x[0..1]": ("a",), "x[2]": ("b",)}
    assert found.status == "completed"
    assert (found.conflicts, found.problems) == ((), ())


def test_equal_objects_of_different_nodes_are_taken_once() -> None:
    found = aggregated({"x": [{"n": 1, "m": 2}]}, {"x": [{"m": 2, "n": 1.0}, {"n": 2}]}, {"x": [{"n": True, "m": 2}]})
    assert found.data == {"x": [{"n": 1, "m": 2}, {"n": 2}, {"n": True, "m": 2}]}
    assert found.provenance["x[0]"] == ("a", "b")
    assert found.provenance["x[1]"] == ("b",)


def test_equal_objects_of_one_node_and_equal_scalars_are_kept() -> None:
    found = aggregated({"x": [{"n": 1}, {"n": 1}], "names": ["k"]}, {"x": [{"n": 1}], "names": ["k"]})
    assert found.data == {"x": [{"n": 1}, {"n": 1}], "names": ["k", "k"]}


def test_dedupe_false_keeps_everything() -> None:
    assert aggregated({"x": [{"n": 1}]}, {"x": [{"n": 1}]}, dedupe=False).data == {"x": [{"n": 1}, {"n": 1}]}


@pytest.mark.parametrize(
    ("flags", "all_of_them"), [((True, True), True), ((True, False), False), ((False, False), False)]
)
def test_booleans_by_and(flags: tuple[bool, bool], all_of_them: bool) -> None:
    found = aggregated(*({"passed": one} for one in flags))
    assert found.data == {"passed": all_of_them}
    assert found.conflicts == ()
    assert found.provenance == {"passed": ("a", "b")}


def test_objects_are_merged_deep() -> None:
    found = aggregated({"m": {"time": {"cpu": 1}, "n": [1]}}, {"m": {"time": {"wall": 2}, "n": [2]}})
    assert found.data == {"m": {"time": {"cpu": 1, "wall": 2}, "n": [1, 2]}}
    assert found.provenance["m.time.cpu"] == ("a",)
    assert found.provenance["m.time.wall"] == ("b",)


def test_equal_scalars_are_no_conflict() -> None:
    found = aggregated({"n": 1, "s": "x"}, {"n": 1.0, "s": "x"})
    assert (found.data, found.conflicts) == ({"n": 1, "s": "x"}, ())
    assert found.provenance == {"n": ("a", "b"), "s": ("a", "b")}


def test_unequal_scalars_are_recorded_and_the_first_counts() -> None:
    found = aggregated({"n": 1}, {"n": "1"}, {"n": 1})
    assert found.data == {"n": 1}
    assert found.conflicts == (Conflict("n", (("a", 1), ("b", "1"), ("c", 1)), "prefer_first", "a"),)
    assert found.provenance == {"n": ("a", "c")}
    assert found.status == "completed"


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        ("prefer_first", "a"),
        ("prefer_last", "c"),
        ("prefer_longer", "b"),
        ("prefer_newer", "a"),
        ("prefer_priority", "c"),
    ],
)
def test_rules(rule: str, taken: str) -> None:
    results = [
        result("a", {"s": "one"}, at=9.0, priority="P2"),
        result("b", {"s": "longest"}, at=5.0, priority="P1"),
        result("c", {"s": "three"}, at=7.0, priority="P0"),
    ]
    found = merge(voters("aggregate", "a", "b", "c", rule=rule), results)
    assert found.conflicts[0].taken == taken
    assert found.data == {"s": {"a": "one", "b": "longest", "c": "three"}[taken]}


def test_the_rule_fail_leaves_the_field_out_and_says_so() -> None:
    found = aggregated({"n": 1, "m": 1}, {"n": 2, "m": 1}, rule="fail")
    assert (found.data, found.status, codes(found)) == ({"m": 1}, "failed", ["merge-conflict"])
    assert found.problems[0].message == "n: a, b gave different values, and its rule is fail."
    assert found.conflicts[0].as_json()["taken"] is None


def test_rules_of_single_fields() -> None:
    one = {"n": 1, "m": {"k": 1, "l": 1}, "o": 1}
    two = {"n": 2, "m": {"k": 2, "l": 2}, "o": 2}
    found = aggregated(one, two, rules={"n": "prefer_last", "m": "prefer_last", "m.l": "prefer_first"})
    assert found.data == {"n": 2, "m": {"k": 2, "l": 1}, "o": 1}
    assert [(one.field, one.rule) for one in found.conflicts] == [
        ("n", "prefer_last"),
        ("m.k", "prefer_last"),
        ("m.l", "prefer_first"),
        ("o", "prefer_first"),
    ]


def test_a_field_with_a_rule_of_its_own_is_not_joined() -> None:
    rules = {"x": "prefer_longer", "ok": "prefer_last"}
    found = aggregated({"x": [1], "ok": False}, {"x": [1, 2], "ok": True}, rules=rules)
    assert found.data == {"x": [1, 2], "ok": True}
    assert len(found.conflicts) == 2


def test_different_types_are_a_conflict_and_the_winners_type_is_merged() -> None:
    found = aggregated({"x": [1]}, {"x": "none"}, {"x": [2]})
    assert found.data == {"x": [1, 2]}
    assert found.conflicts == (Conflict("x", (("a", [1]), ("b", "none"), ("c", [2])), "prefer_first", "a"),)
    assert found.provenance["x"] == ("a", "c")
    found = aggregated({"x": [1]}, {"x": "none"}, {"x": [2]}, rules={"x": "prefer_longer"})
    assert found.data == {"x": "none"}
    assert aggregated({"x": {"k": 1}}, {"x": True}, {"x": True}, rule="prefer_last").data == {"x": True}


def test_null_is_nothing_said() -> None:
    found = aggregated({"x": None, "y": None}, {"x": 3, "y": None})
    assert (found.data, found.conflicts) == ({"x": 3, "y": None}, ())
    assert found.provenance == {"x": ("b",), "y": ("a", "b")}


def test_data_that_are_no_objects() -> None:
    found = aggregated([1], [2])
    assert (found.data, found.provenance) == ([1, 2], {"$": ("a", "b"), "[0]": ("a",), "[1]": ("b",)})
    found = aggregated("x", {"n": 1})
    assert (found.data, found.conflicts[0].field) == ("x", "$")


def test_names_that_are_no_words_stand_in_brackets() -> None:
    found = aggregated({"a.b": {"c d": 1}}, {"a.b": {"c d": 1}})
    assert found.provenance == {'["a.b"]["c d"]': ("a", "b")}


def test_a_missing_node_makes_it_partial() -> None:
    whole = voters("aggregate", "a", "b", "c", "d")
    given = [result("a", {"x": [1]}), result("b", {"x": [2]}, status="failed"), result("c", None)]
    found = merge(whole, given)
    assert (found.data, found.status, found.missing) == ({"x": [1]}, "partial", ("b", "c", "d"))
    assert [one.message for one in found.problems] == [
        "b is failed, so nothing of it was merged.",
        "c returned no data, so nothing of it was merged.",
        "d has no result, so nothing of it was merged.",
    ]


def test_a_partial_node_is_merged_and_makes_it_partial() -> None:
    found = merge(voters("aggregate", "a"), [result("a", {"x": 1}, status="partial")])
    assert (found.data, found.status) == ({"x": 1}, "partial")


def test_data_that_are_no_json_are_left_out() -> None:
    found = aggregated({"x": [1]}, {"x": [float("nan")]})
    assert (found.data, found.status, codes(found)) == ({"x": [1]}, "partial", ["merge-not-json", "merge-missing"])


@pytest.mark.parametrize("levels", [300, 400, 100_000])
def test_data_that_are_nested_too_deeply(levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = {"k": deep}
    assert aggregated(deep, deep).status in ("completed", "failed")
    assert aggregated({"x": 1}, deep).status in ("completed", "partial")


def test_nothing_at_all() -> None:
    found = merge(voters("aggregate", "a"), [])
    assert (found.data, found.status, codes(found)) == (None, "failed", ["merge-missing", "merge-nothing"])


# consensus


def test_two_of_three_agree() -> None:
    given = [result("a", {"n": 2}), result("b", {"m": [1], "n": 1.0}), result("c", {"n": 1, "m": [1.0]})]
    found = merge(voters("consensus", "a", "b", "c"), given)
    assert (found.data, found.status) == ({"m": [1], "n": 1.0}, "completed")
    assert found.provenance == {"m": ("b", "c"), "n": ("b", "c")}
    assert [one.nodes for one in found.variants] == [("b", "c"), ("a",)]


def test_three_different_are_blocked_with_the_variants() -> None:
    given = [result(name, {"n": value}) for name, value in (("a", 1), ("b", "1"), ("c", True))]
    found = merge(voters("consensus", "a", "b", "c"), given)
    assert (found.data, found.status, codes(found)) == (None, "blocked", ["merge-no-majority"])
    assert [(one.nodes, one.data) for one in found.variants] == [
        (("a",), {"n": 1}),
        (("b",), {"n": "1"}),
        (("c",), {"n": True}),
    ]
    assert found.problems[0].message == "1 of 3 nodes agree at most, 2 are needed."


def test_the_majority_is_one_of_the_declared_nodes() -> None:
    whole = voters("consensus", "a", "b", "c")
    assert merge(whole, [result("a", 1), result("b", 1)]).status == "completed"
    assert merge(whole, [result("a", 1)]).status == "blocked"
    assert merge(whole, [result("a", 1), result("b", 2)]).status == "blocked"
    four = voters("consensus", "a", "b", "c", "d")
    assert merge(four, [result("a", 1), result("b", 1)]).status == "blocked"


@pytest.mark.parametrize(
    ("quorum", "status"), [(0.2, "completed"), (0.5, "completed"), (0.67, "blocked"), (1.0, "blocked")]
)
def test_the_quorum_can_be_set(quorum: float, status: str) -> None:
    given = [result("a", 1), result("b", 1), result("c", 2)]
    assert merge(voters("consensus", "a", "b", "c", quorum=quorum), given).status == status


def test_a_quorum_of_one_means_all() -> None:
    given = [result("a", 1), result("b", 1)]
    assert merge(voters("consensus", "a", "b", quorum=1.0), given).status == "completed"


def test_only_the_last_nodes_vote() -> None:
    nodes = (Node("prepare", "x"), *(Node(name, "x", needs=("prepare",)) for name in "abc"))
    whole = plan(*nodes, merge=Merge("consensus"))
    found = merge(whole, [result("prepare", 5), result("a", 1), result("b", 1), result("c", 2)])
    assert (found.data, found.provenance) == (1, {"$": ("a", "b")})


# first_wins


def test_the_first_that_is_complete_and_verified() -> None:
    given = [
        result("a", {"n": 1}, at=3.0),
        result("b", {"n": 2}, at=1.0, verified=False),
        result("c", {"n": 3}, at=2.0),
        result("d", {"n": 4}, at=0.5, status="partial"),
    ]
    found = merge(voters("first_wins", "a", "b", "c", "d", "e"), given)
    assert (found.data, found.status, found.provenance) == ({"n": 3}, "completed", {"n": ("c",)})
    assert found.problems == ()


def test_no_winner() -> None:
    found = merge(voters("first_wins", "a"), [result("a", {"n": 1}, verified=False)])
    assert (found.data, found.status, codes(found)) == (None, "failed", ["merge-nothing"])


# sequential and custom


def test_sequential_takes_what_the_last_nodes_gave() -> None:
    whole = plan(Node("a", "x"), Node("b", "x", needs=("a",)), merge=Merge("sequential"))
    found = merge(whole, [result("a", {"n": 1, "m": 1}), result("b", {"n": 2})])
    assert (found.data, found.status, found.conflicts, found.problems) == ({"n": 2}, "completed", (), ())


def test_custom_without_code_is_sequential_with_a_warning() -> None:
    whole = plan(Node("a", "x"), Node("b", "x", needs=("a",)), merge=Merge("custom"))
    found = merge(whole, [result("a", {"n": 1}), result("b", {"n": 2})])
    assert (found.data, found.status, codes(found)) == ({"n": 2}, "completed", ["merge-custom"])
    assert found.problems[0].level == "warning"


def test_custom_data_are_taken_and_shaped() -> None:
    whole = voters("custom", "a", function="my:merge", shape={"total": "integer"})
    found = merge(whole, [result("a", {"n": 1})], custom={"total": 7, "other": 1})
    assert (found.data, found.provenance) == ({"total": 7}, {"total": ("merge",)})
    found = merge(whole, [result("a", {"n": 1})], custom={"total": "many"})
    assert (found.status, codes(found)) == ("partial", ["merge-mismatch"])
    assert found.problems[0].message == "final_output_format: total: is a string, but an integer is needed."


def test_custom_code_that_gave_nothing() -> None:
    whole = voters("custom", "a", command=("merge.sh", "-x"))
    found = merge(whole, [result("a", {})])
    assert (found.status, codes(found)) == ("failed", ["merge-custom"])
    assert merge(whole, [result("a", {})], custom=None).status == "completed"
    assert codes(merge(whole, [result("a", {})], custom={"n": float("inf")})) == ["merge-not-json"]


# who is merged


def test_interfaces_to_merge_say_who_is_merged() -> None:
    nodes = (Node("a", "x"), Node("b", "x"), Node("c", "x", needs=("a",)))
    assert members(plan(*nodes)) == ("a", "b", "c")
    some = (Interface("c", "merge"), Interface("b", "merge"))
    assert members(plan(*nodes, interfaces=some)) == ("b", "c")
    assert members(plan(*nodes, interfaces=(Interface("all_subtasks", "merge"),))) == ("a", "b", "c")
    for strategy in ("consensus", "first_wins", "sequential", "custom"):
        assert members(plan(*nodes, merge=Merge(strategy))) == ("b", "c")


def test_as_json_leaves_out_what_is_empty() -> None:
    assert aggregated({"n": 1}).as_json() == {"status": "completed", "data": {"n": 1}, "provenance": {"n": ["a"]}}
