"""The score of a plan: points that can be counted by hand, and what follows from them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.plans import Plan, explain_score, score_plan
from overhand.plans.model import Failure, Node
from overhand.plans.strategy import level_of, strategy_of, value_of
from plans.pure.examples import plan, review


@pytest.mark.parametrize(
    ("points", "value"),
    [(0, 0), (25, 0.2), (50, 0.4), (100, 0.55), (150, 0.7), (225, 0.85), (300, 1), (301, 1), (100_000, 1)],
)
def test_points_become_a_value_by_straight_lines(points: int, value: float) -> None:
    assert value_of(points) == value


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_more_points_are_never_less_complex(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert 0 <= value_of(low) <= value_of(high) <= 1


def test_every_point_is_counted() -> None:
    found = score_plan(
        plan(
            Node(
                "a",
                "writer",
                key_files=("src/a.py", "./src/b.py", "README.md"),
                deliverables=("docs/a.md", "A report of it all."),
            ),
            Node("b", "writer", needs=("a",), key_files=("src/a.py",)),
            Node("c", "reviewer", needs=("a", "b")),
            failure=Failure("retry", max_retries=2),
        )
    )
    assert {row.what: (row.count, row.points) for row in found.breakdown} == {
        "module": (3, 15),  # src, docs, and the root for README.md
        "dependency level": (2, 20),
        "node": (3, 9),
        "file": (4, 4),
        "edge between different agents": (2, 30),
        "retry": (2, 40),
    }
    assert found.points == 118
    assert found.value == pytest.approx(0.604)
    assert (found.strategy, found.level, found.hint, not found.given) == ("sequential", "medium", "sonnet", True)


@pytest.mark.parametrize(
    ("value", "dependencies", "strategy"),
    [
        (0.3, 0, "parallel"),
        (0.69, 0, "parallel"),
        (0.1, 1, "sequential"),
        (0.69, 9, "sequential"),
        (0.7, 0, "pipeline"),
        (0.7, 2, "pipeline"),
        (0.7, 3, "fan-out-fan-in"),
        (1.0, 3, "fan-out-fan-in"),
    ],
)
def test_strategy_by_value_and_dependencies(value: float, dependencies: int, strategy: str) -> None:
    assert strategy_of(value, dependencies) == strategy


@pytest.mark.parametrize(("value", "level"), [(0.39, "low"), (0.4, "medium"), (0.69, "medium"), (0.7, "high")])
def test_levels(value: float, level: str) -> None:
    assert level_of(value) == level


def test_what_the_plan_gives_wins_and_is_told() -> None:
    found = score_plan(plan(Node("a", "x"), complexity=0.9))
    assert (found.value, found.strategy, found.hint, not found.given) == (0.9, "pipeline", "opus", False)
    assert found.calculated == value_of(3)
    found = score_plan(plan(Node("a", "x"), strategy="fan-out-fan-in"))
    assert (found.strategy, found.given) == ("fan-out-fan-in", ("strategy",))


def test_hints_can_have_other_names() -> None:
    assert score_plan(review(), {"low": "small", "high": "large"}).hint == "small"
    assert score_plan(plan(Node("a", "x"), complexity=0.5), {"low": "small"}).hint == "sonnet"


def test_the_breakdown_for_people() -> None:
    found = score_plan(plan(Node("a", "x"), Node("b", "y", needs=("a",)), failure=Failure(max_retries=1)))
    assert explain_score(found) == [
        "0 modules                        x  5 =    0",
        "1 dependency level               x 10 =   10",
        "2 nodes                          x  3 =    6",
        "0 files                          x  1 =    0",
        "1 edge between different agents  x 15 =   15",
        "1 retry                          x 20 =   20",
        "51 points → complexity 0.40",
        "strategy sequential (1 dependency), model hint sonnet (medium)",
    ]


def test_a_cycle_and_unknown_nodes_do_not_hang() -> None:
    found = score_plan(
        plan(Node("a", "x", needs=("b",)), Node("b", "x", needs=("a",)), Node("c", "x", needs=("gone",)))
    )
    assert found.dependencies == 2


def test_a_chain_of_a_hundred_thousand_nodes() -> None:
    names = [f"n{number}" for number in range(100_000)]
    nodes = {names[0]: Node(names[0], "x")}
    nodes |= {name: Node(name, "x", needs=(before,)) for before, name in pairwise(names)}
    found = score_plan(Plan("long", nodes))
    assert {row.what: row.count for row in found.breakdown}["dependency level"] == 99_999
    assert found.value == 1
