"""Circles, orders and writers against a slow oracle that looks at everything."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from overhand.plans import Plan, check_plan
from overhand.plans.model import Node
from overhand.plans.order import cycles, in_order

NAMES = [f"n{number}" for number in range(7)]
GRAPHS = st.fixed_dictionaries({name: st.lists(st.sampled_from(NAMES), max_size=3, unique=True) for name in NAMES})


@settings(max_examples=300, deadline=None)
@given(GRAPHS)
def test_circles_are_found_and_are_circles(needs: dict[str, list[str]]) -> None:
    needs = {name: [one for one in names if one != name] for name, names in needs.items()}
    try:
        list(TopologicalSorter(needs).static_order())
        knotted = False
    except CycleError:
        knotted = True
    found = cycles(needs)
    assert bool(found) is knotted
    for circle in found:
        assert len(set(circle)) == len(circle)
        assert all(other in needs[one] for one, other in zip(circle, circle[1:] + circle[:1], strict=True))
    reach = {name: _reached(needs, name) for name in NAMES}
    knots = {frozenset(other for other in reach[name] if name in reach[other]) for name in NAMES if name in reach[name]}
    order = list(needs)
    assert [circle[0] for circle in found] == sorted((min(knot, key=order.index) for knot in knots), key=order.index)


@settings(max_examples=200, deadline=None)
@given(GRAPHS)
def test_the_order_has_everybody_behind_his_own(needs: dict[str, list[str]]) -> None:
    needs = {name: [one for one in names if one < name] for name, names in needs.items()}
    order = in_order(needs)
    assert sorted(order) == NAMES
    assert all(order.index(other) < order.index(name) for name, names in needs.items() for other in names)


@settings(max_examples=200, deadline=None)
@given(GRAPHS, st.sets(st.sampled_from(NAMES), min_size=2))
def test_writers_are_warned_of_exactly_when_two_could_run_at_once(
    needs: dict[str, list[str]], writers: set[str]
) -> None:
    needs = {name: [one for one in names if one < name] for name, names in needs.items()}
    nodes = {
        name: Node(name, "w", "Do it", tuple(names), writes=("a.md",) if name in writers else ())
        for name, names in needs.items()
    }
    reach = {name: _reached(needs, name) for name in NAMES}
    loose = [
        pair
        for pair in combinations(sorted(writers), 2)
        if pair[0] not in reach[pair[1]] and pair[1] not in reach[pair[0]]
    ]
    found = [one for one in check_plan(Plan("p", nodes)) if one.code == "plan-writers"]
    assert bool(found) is bool(loose)


def _reached(needs: dict[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(needs[start])
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += needs[one]
    return seen


@settings(max_examples=300, deadline=None)
@given(GRAPHS, st.permutations(NAMES))
def test_the_check_tells_every_circle_and_no_other(needs: dict[str, list[str]], order: list[str]) -> None:
    """In whatever order the nodes stand, and with names that do not exist."""
    plan = Plan("p", {name: Node(name, "w", needs=("nobody", *needs[name])) for name in order})
    told = [one.code for one in check_plan(plan)].count("plan-cycle")
    assert told == len(cycles({name: [one for one in needs[name] if one != name] for name in order}))
