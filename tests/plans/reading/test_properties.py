"""Reading never raises, records lose nothing, references keep types."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand.contracts import pick_field
from overhand.plans import AgentFacts, Plan, check_plan, formats, read_plan_text, refs
from overhand.plans.check import CODES
from overhand.plans.combine import RULES
from overhand.plans.merge import MERGES
from overhand.plans.model import POLICIES, Failure, Interface, Merge, Node
from plans.reading.examples import ALL

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
IDS = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MAPPINGS = st.dictionaries(TEXT, JSON, max_size=3)
WORDS = st.lists(TEXT, max_size=3).map(tuple)
NODES = st.builds(
    Node,
    id=IDS,
    agent=TEXT,
    task=TEXT,
    needs=WORDS,
    inputs=MAPPINGS,
    outputs=MAPPINGS,
    constraints=MAPPINGS,
    verification=st.lists(TEXT | st.dictionaries(st.sampled_from(["command", "expression"]), TEXT), max_size=2).map(
        tuple
    ),
    capabilities=WORDS,
    kind=st.none() | TEXT,
    model=st.none() | TEXT,
    priority=TEXT,
    timeout=st.none() | st.floats(0.1, 1e6),
    budget=st.none() | st.integers(1, 10**9),
    writes=WORDS,
    mutates=st.booleans(),
    requires_approval=st.booleans(),
    key_files=WORDS,
    deliverables=WORDS,
    context=TEXT,
    checkpoint_after=st.booleans(),
    at=st.integers(0, 9),
)
PLANS = st.builds(
    Plan,
    task=TEXT,
    nodes=st.lists(NODES, max_size=4).map(lambda nodes: {node.id: node for node in nodes}),
    interfaces=st.lists(st.builds(Interface, TEXT, TEXT, MAPPINGS, WORDS), max_size=2).map(tuple),
    merge=st.builds(
        Merge,
        strategy=st.sampled_from(sorted(MERGES)),
        note=TEXT,
        rule=st.sampled_from(RULES),
        dedupe=st.booleans(),
        rules=st.dictionaries(TEXT, st.sampled_from(RULES), max_size=2),
        command=WORDS,
        shape=MAPPINGS,
    ),
    failure=st.builds(Failure, st.sampled_from(POLICIES), st.integers(0, 3), TEXT, TEXT),
    context=st.lists(st.tuples(TEXT, JSON), max_size=2).map(tuple),
    constraints=MAPPINGS,
    strategy=TEXT,
    complexity=st.none() | st.floats(0, 1),
    max_parallel=st.integers(0, 9),
    budget=st.none() | st.integers(1, 10**9),
    timeout=st.none() | st.floats(0.1, 1e6),
    form=TEXT,
    labels=st.dictionaries(TEXT, TEXT, max_size=2),
    told=MAPPINGS,
    notes=WORDS,
    checkpoint_after=st.booleans(),
)
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)


@QUIET
@given(PLANS)
def test_a_record_loses_nothing(plan: Plan) -> None:
    assert formats.load(json.loads(json.dumps(formats.dump(plan)))) == plan


@QUIET
@given(PLANS)
def test_any_plan_can_be_checked(plan: Plan) -> None:
    for agents in (None, {}, {"worker": AgentFacts(("lint",))}):
        assert {one.code for one in check_plan(plan, agents)} <= set(CODES)


@QUIET
@given(st.text(max_size=200) | st.binary(max_size=200), st.sampled_from(["", "a.json", "a.yaml"]))
def test_any_text_can_be_read(text: str | bytes, name: str) -> None:
    found = read_plan_text(text, name)
    assert found.plan is not None or found.problems


@st.composite
def torn(draw: st.DrawFn) -> str:
    """An example with a piece of itself put elsewhere."""
    text = draw(st.sampled_from(sorted(ALL.values())))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    piece = draw(
        st.sampled_from(
            ["", "${", "}", ": ", "- ", "[", "{", "null", "\t", "\n", "&a", "*a", "'", '"', "0", "id: merge"]
        )
    )
    return text[: cuts[0]] + piece + (text[cuts[0] : cuts[1]] if draw(st.booleans()) else "") + text[cuts[1] :]


@settings(QUIET, max_examples=150)
@given(torn())
def test_a_torn_plan_can_be_read_and_checked(text: str) -> None:
    found = read_plan_text(text, "plan.yaml")
    problems = [*found.problems, *(check_plan(found.plan, {}, lines=found.lines) if found.plan else [])]
    assert {one.code for one in problems} <= set(CODES)
    assert all(1 <= (one.line or 1) <= text.count("\n") + 1 for one in problems)


@st.composite
def shaped(draw: st.DrawFn) -> dict[str, Any]:
    """Known keys with anything behind them."""
    keys = (
        "delegation",
        "subtasks",
        "interfaces",
        "merge_plan",
        "failure_handling",
        "nodes",
        "agents",
        "task",
        "steps",
    )
    more = (
        "id",
        "agent",
        "contract",
        "inputs",
        "outputs",
        "verification",
        "from",
        "to",
        "format",
        "step",
        "dependencies",
    )
    inner: st.SearchStrategy[Any] = st.recursive(
        JSON,
        lambda one: st.lists(one, max_size=2) | st.dictionaries(st.sampled_from((*keys, *more)), one, max_size=4),
        max_leaves=12,
    )
    heads = (*keys, "parallel_delegation", "sequential_delegation", "plan")
    return draw(st.dictionaries(st.sampled_from(heads), inner, min_size=1, max_size=5))


@settings(QUIET, max_examples=200)
@given(shaped())
def test_any_value_behind_the_keys_can_be_read(value: dict[str, Any]) -> None:
    found = read_plan_text(json.dumps(value), "plan.json")
    problems = [*found.problems, *(check_plan(found.plan, None, lines=found.lines) if found.plan else [])]
    assert {one.code for one in problems} <= set(CODES)
    if found.plan:
        assert formats.load(json.loads(json.dumps(formats.dump(found.plan)))) == found.plan


@QUIET
@given(IDS, JSON)
def test_a_reference_alone_keeps_the_type(name: str, value: Any) -> None:
    assert refs.resolve({"a": [f"${{{name}}}"]}, lambda _: value) == {"a": [value]}
    found = refs.resolve(f"${{{name}.field}}", lambda ref: {"field": value}[ref.field])
    assert found == value
    assert type(found) is type(value)


@QUIET
@given(JSON)
def test_what_has_no_reference_stays(value: Any) -> None:
    if not refs.texts(value):
        assert refs.resolve(value, _none) == value


def _none(ref: refs.Ref) -> Any:
    raise AssertionError(ref)


@QUIET
@given(TEXT.filter(lambda text: "$" not in text and "{" not in text), IDS, JSON)
def test_in_the_middle_it_becomes_text(around: str, name: str, value: Any) -> None:
    found = refs.resolve(f"{around}|${{{name}}}|", lambda _: value)
    assert found == f"{around}|{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}|"


def test_escapes_and_what_is_no_reference() -> None:
    assert refs.resolve("$${HOME} and ${a}", lambda _: 1) == "${HOME} and 1"
    assert refs.find("$${a.b} ${a.b} ${a.c.0} ${a.b} ${ c }") == [
        refs.Ref("a", "b"),
        refs.Ref("a", "c.0"),
        refs.Ref("c"),
    ]
    text = "${} ${a ${a b} ${a..b} $${"
    assert [text[start:] for ref, start, _ in refs.scan(text) if ref is None] == [
        "${} ${a ${a b} ${a..b} $${",
        "${a ${a b} ${a..b} $${",
        "${a b} ${a..b} $${",
        "${a..b} $${",
    ]
    assert pick_field({"a": [{"b": 1}]}, "a.0.b") == 1
