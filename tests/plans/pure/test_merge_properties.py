"""What holds for every merge, whatever the nodes gave back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand.contracts import canonical_json
from overhand.contracts.compare import same
from overhand.plans import Plan
from overhand.plans.combine import RULES, NodeResult, below
from overhand.plans.merge import CODES, MERGES, Merged, merge
from overhand.plans.model import Merge, Node

# Results are small trees of JSON: what takes long to draw is a busy machine, not a fault.
calmly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = ("a", "b", "c", "d")
KEYS = st.sampled_from(["x", "y", "a.b", "c d", 'q"', "issues", "passed", "0"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -0.0, "1", "", "text", "longer text"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
RESULTS = st.lists(
    st.builds(
        NodeResult,
        id=st.sampled_from(NAMES),
        status=st.sampled_from(["completed", "completed", "completed", "partial", "failed"]),
        verified=st.booleans(),
        data=st.dictionaries(KEYS, JSON, max_size=4) | JSON,
        summary=st.text(max_size=10),
        at=st.sampled_from([1.0, 2.0, 3.0]),
        priority=st.sampled_from(["P0", "P1", "P2", "P3"]),
    ),
    unique_by=lambda one: one.id,
    max_size=4,
)
MERGE = st.builds(
    Merge,
    strategy=st.sampled_from(sorted(MERGES)),
    rule=st.sampled_from(RULES),
    rules=st.dictionaries(st.sampled_from(["x", "y.x", "issues", '["a.b"]']), st.sampled_from(RULES), max_size=2),
    dedupe=st.booleans(),
    quorum=st.sampled_from([0.0, 0.5, 0.6, 1.0]),
)
SHAPE = st.dictionaries(
    st.sampled_from(["x", "all_issues", "passed", "summary", "z", "a.b", "c d", "0"]),
    st.sampled_from(["array", "boolean", "string (generated)", {"from": "y.0"}, {"from": "a.x"}, "${a.x}", "whatever"]),
    max_size=4,
)
NEEDS = st.fixed_dictionaries(
    {name: st.sets(st.sampled_from(NAMES[:at] or ("gone",))) for at, name in enumerate(NAMES)}
)


def plan_of(how: Merge, needs: dict[str, set[str]]) -> Plan:
    """Four nodes that wait for each other as given."""
    return Plan(
        "p", {name: Node(name, "x", needs=tuple(sorted(needs[name] & set(NAMES)))) for name in NAMES}, merge=how
    )


PLANS = st.builds(plan_of, MERGE, NEEDS)
SHAPED = st.builds(
    lambda how, shape, needs: plan_of(Merge(how.strategy, rule=how.rule, shape=shape), needs), MERGE, SHAPE, NEEDS
)


def shown(found: Merged) -> str:
    """Everything of a merge, in its order."""
    return json.dumps(found.as_json())


@calmly
@given(PLANS | SHAPED, RESULTS, st.randoms(use_true_random=False))
def test_the_order_of_the_results_does_not_matter(plan: Plan, results: list[NodeResult], dice: Any) -> None:
    first = shown(merge(plan, results))
    assert shown(merge(plan, results)) == first
    mixed = list(results)
    dice.shuffle(mixed)
    assert shown(merge(plan, mixed)) == first


@calmly
@given(PLANS | SHAPED, RESULTS)
def test_what_went_in_is_not_changed(plan: Plan, results: list[NodeResult]) -> None:
    before = json.dumps([one.data for one in results])
    merge(plan, results)
    assert json.dumps([one.data for one in results]) == before


@calmly
@given(PLANS | SHAPED, RESULTS)
def test_every_outcome_is_one_that_is_known(plan: Plan, results: list[NodeResult]) -> None:
    found = merge(plan, results)
    assert found.status in ("completed", "partial", "blocked", "failed")
    assert {one.code for one in found.problems} <= set(CODES)
    assert all(one.message.endswith(".") for one in found.problems)
    if found.status in ("blocked", "failed"):
        assert any(one.level == "error" for one in found.problems)


def leaves(data: Any, path: str = "") -> Iterator[str]:
    """The path of every leaf."""
    if isinstance(data, dict) and data:
        for key, one in data.items():
            yield from leaves(one, below(path, key))
    elif isinstance(data, list) and data:
        for at, one in enumerate(data):
            yield from leaves(one, f"{path}[{at}]")
    else:
        yield path


def covered(path: str, known: set[str]) -> bool:
    """Whether a path, a range that it lies in, or what it is part of has a line in the provenance."""
    return path in known or any(path.startswith(one) and path[len(one) : len(one) + 1] in (".", "[") for one in known)


def spread(provenance: Any) -> set[str]:
    """The paths of a provenance, ranges written out."""
    found: set[str] = set()
    for path in provenance:
        match = re.fullmatch(r"(.*)\[(\d+)\.\.(\d+)\]", path, re.DOTALL)
        if match:
            found |= {f"{match[1]}[{at}]" for at in range(int(match[2]), int(match[3]) + 1)}
        else:
            found.add(path)
    return found


@calmly
@given(PLANS | SHAPED, RESULTS)
def test_the_provenance_covers_every_leaf_with_nodes_that_gave_something(plan: Plan, results: list[NodeResult]) -> None:
    found = merge(plan, results)
    if found.data is None:
        return
    known = spread(found.provenance)
    if "$" not in known:
        assert [path for path in leaves(found.data) if not covered(path, known)] == []
    gave = {one.id for one in results} | {"merge"}
    for path, nodes in found.provenance.items():
        assert nodes, path
        assert set(nodes) <= gave


@calmly
@given(RESULTS, st.sampled_from([rule for rule in RULES if rule != "fail"]))
def test_a_conflict_has_everybodys_value_and_takes_one_of_them(results: list[NodeResult], rule: str) -> None:
    plan = plan_of(Merge("aggregate", rule=rule), {name: set() for name in NAMES})
    for one in merge(plan, results).conflicts:
        nodes = [node for node, _ in one.values]
        assert nodes == [name for name in NAMES if name in nodes]
        assert one.taken in nodes
        assert len({canonical_json(value) for _, value in one.values}) > 1


@calmly
@given(st.dictionaries(st.sampled_from(NAMES), st.lists(JSON, max_size=4), min_size=1))
def test_nothing_of_an_array_is_lost_without_dedupe(lists: dict[str, list[Any]]) -> None:
    plan = plan_of(Merge("aggregate", dedupe=False), {name: set() for name in NAMES})
    found = merge(plan, [NodeResult(name, "completed", data={"x": items}) for name, items in lists.items()])
    assert found.data == {"x": [item for name in NAMES for item in lists.get(name, ())]}


@calmly
@given(RESULTS, st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0]))
def test_a_consensus_has_its_quorum_of_the_declared_nodes(results: list[NodeResult], quorum: float) -> None:
    plan = plan_of(Merge("consensus", quorum=quorum), {name: set() for name in NAMES})
    found = merge(plan, results)
    if found.status in ("completed", "partial"):
        agreeing = found.variants[0].nodes
        assert len(agreeing) > len(NAMES) * quorum or len(agreeing) == len(NAMES)
        assert all(same(one.data, found.data) for one in results if one.id in agreeing)
    votes = [node for one in found.variants for node in one.nodes]
    assert len(votes) == len(set(votes))


@calmly
@given(JSON, JSON)
def test_equal_values_have_one_canonical_text(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == same(one, other)
    assert same(json.loads(canonical_json(one)), one)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        (0, -0.0, True),
        (1e300, int(1e300), True),
        ("1", 1, False),
        (True, 1, False),
        (False, 0, False),
        (None, False, False),
        ([], {}, False),
        ([1, 2], [2, 1], False),
        ("é", "e\u0301", False),
    ],
)
def test_canonical_json(one: Any, other: Any, equal: bool) -> None:
    assert (canonical_json(one) == canonical_json(other)) is equal
    assert same(one, other) is equal


def deep() -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), {"x": [float("-inf")]}, {1: 2}, {1, 2}, b"x", deep()])
def test_what_is_no_json_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|nested"):
        canonical_json(bad)


def test_many_nodes() -> None:
    names = [f"n{number}" for number in range(20_000)]
    plan = Plan("wide", {name: Node(name, "x") for name in names}, merge=Merge("aggregate", shape={"all_x": "array"}))
    results = [
        NodeResult(name, "completed", data={"x": [{"n": at % 10_000}], "ok": True}) for at, name in enumerate(names)
    ]
    found = merge(plan, results)
    assert len(found.data["all_x"]) == 10_000
    assert found.provenance["all_x[9999]"] == ("n9999", "n19999")
