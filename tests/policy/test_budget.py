"""Amounts, levels and shares: what holds for any of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.policy import (
    add_amounts,
    budget,
    budget_level,
    child_holds,
    child_share,
    context_level,
    estimate_usage,
    make_amount,
    own_cap,
    parse_budget,
    say_budget,
    say_tokens,
    tally_reports,
    tighter_cap,
    total_used,
    usage_of_task,
)
from overhand.record import Amount, BudgetReleased, BudgetReserved, Task, Usage, fold
from overhand.record.events import add

tokens = st.integers(0, budget.MOST_TOKENS)
money = st.floats(0, 1e6, allow_nan=False).map(lambda usd: round(usd, 6))
amounts = st.builds(make_amount, tokens, money)
caps = st.builds(make_amount, st.integers(0, 10**9), money)
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.text(),
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.lists(st.integers(), max_size=2),
)


@pytest.mark.parametrize(
    ("text", "cap"),
    [
        ("200k tokens", (200_000, 0)),
        ("200000", (200_000, 0)),
        ("200,000 tokens", (200_000, 0)),
        ("1_000 tok", (1000, 0)),
        ("1.5M", (1_500_000, 0)),
        ("2.5k Tokens", (2500, 0)),
        ("$5", (0, 5)),
        ("5 USD", (0, 5)),
        ("USD 5", (0, 5)),
        ("0.50$", (0, 0.5)),
        ("$0.005", (0, 0.005)),
        ("$1k", (0, 1000)),
        ("200k tokens, $3", (200_000, 3)),
        ("$3 and 200k", (200_000, 3)),
        ("$3+1M tokens", (1_000_000, 3)),
        (5000, (5000, 0)),
    ],
)
def test_a_budget_is_read(text: str | int, cap: tuple[int, float]) -> None:
    assert parse_budget(text) == make_amount(*cap)


@pytest.mark.parametrize(
    "text",
    ["", "plenty", "-5", "0", "$0", "1,00", "5 apples", "$", "k", "200k, 300k", "$1, $2", "1e5", "nan", "$-1", "1.2.3",
     "²", "9" * 40, "5%", "5,", "inf", "0.4"],
)  # fmt: skip
def test_what_is_none_says_what_was_needed(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 200k tokens"):
        parse_budget(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        cap = parse_budget(text)
    except ValueError:
        return
    assert cap.is_cap


@given(caps.filter(lambda cap: cap.is_cap))
def test_what_is_said_is_read_again(cap: Amount) -> None:
    assert vars(parse_budget(say_budget(cap))) == pytest.approx(vars(cap))


@given(tokens)
def test_about_so_many_is_about_right(number: int) -> None:
    text = say_tokens(number)
    units = {"k": 10**3, "M": 10**6, "G": 10**9}
    value = float(text.rstrip("kMG")) * units.get(text[-1], 1)
    assert abs(value - number) <= number * 0.006


@given(amounts, amounts)
def test_sums_and_rests_are_never_negative(one: Amount, other: Amount) -> None:
    whole = one + other
    rest = whole - one
    assert rest.tokens == other.tokens
    assert rest.usd == pytest.approx(other.usd, abs=1e-6)
    nothing = one - whole
    assert (nothing.tokens, nothing.usd) == (0, 0.0)


@given(amounts, caps)
def test_levels(spent: Amount, cap: Amount) -> None:
    level = budget_level(spent, cap)
    part = spent.portion(cap) * 100
    assert level in (0, *budget.LEVELS)
    assert part >= level - 1e-6
    assert all(part < one + 1e-3 for one in budget.LEVELS if one > level)
    assert budget_level(spent + make_amount(1, 0.01), cap) >= level


def test_levels_at_the_very_edge() -> None:
    cap = make_amount(10_000, 1.0)
    found = [budget_level(make_amount(n), cap) for n in (6999, 7000, 8499, 8500, 9499, 9500, 20_000)]
    assert found == [0, 70, 70, 85, 85, 95, 95]
    tenths = add_amounts(*[make_amount(0, 0.1)] * 7)  # 0.7 is a little less as a sum of floats
    assert budget_level(tenths, cap) == 70
    assert budget_level(make_amount(10**12, 99.0), make_amount()) == 0
    assert budget_level(make_amount(0, 0.96), cap) == 95  # either measure is enough


@given(caps, amounts, amounts, st.floats(0.01, 1))
def test_a_share_is_never_more_than_is_left(cap: Amount, committed: Amount, asked: Amount, part: float) -> None:
    given_ = child_share(cap, committed, asked, part)
    left = cap - committed
    assert 0 <= given_.tokens <= left.tokens
    assert 0 <= given_.usd <= left.usd
    if asked.tokens and cap.tokens:
        assert given_.tokens == min(asked.tokens, left.tokens)
    if left.tokens and cap.tokens:
        assert given_.tokens > 0  # 0 would read as no cap


@given(caps, st.lists(amounts, max_size=12), st.floats(0.01, 1))
def test_shares_one_after_the_other_never_exceed_the_cap(cap: Amount, asked: list[Amount], part: float) -> None:
    committed = make_amount()
    for wanted in asked:
        committed = committed + child_share(cap, committed, wanted, part)
    assert committed.tokens <= cap.tokens
    assert committed.usd <= cap.usd + 1e-6


@given(caps, caps)
def test_two_caps_bind_both(one: Amount, other: Amount) -> None:
    both = tighter_cap(one, other)
    assert both == tighter_cap(other, one)
    assert both.tokens == min([cap.tokens for cap in (one, other) if cap.tokens], default=0)
    assert both.usd == min([cap.usd for cap in (one, other) if cap.usd], default=0.0)


# reports


def lines(*turns: object) -> bytes:
    return "".join(json.dumps(turn) + "\n" for turn in turns).encode()


def test_turns_are_added_up() -> None:
    raw = lines(
        {"input": 900, "output": 100, "usd": 0.01, "context": 5000, "window": 8000, "model": "x"},
        {"input": 10, "output": 5, "usd": 0.02, "context": 7000},
    )
    assert tally_reports(raw) == Usage(
        input=910, output=105, usd=0.03, turns=2, context=7000, window=8000, estimated=False
    )


def test_without_a_context_it_is_the_latest_turn() -> None:
    found = tally_reports(lines({"input": 5, "output": 1, "window": 10}, {"input": 6, "output": 2}))
    assert found is not None
    assert (found.context, found.window, context_level(found)) == (8, 10, 70)


def test_junk_is_passed_over() -> None:
    raw = (
        b"hello\n[1]\n{}\n\n"
        b'{"input": -5, "output": "7", "usd": NaN, "context": true}\n\xff\xfe\n'
        b'{"input": 1.9, "output": 2}\n{"input": 1e400}\n{"input": 5, "out'
    )
    found = tally_reports(raw)
    assert found is not None
    assert (found.input, found.output, found.turns) == (budget.MOST_TOKENS, 2, 2)


def test_a_torn_end_counts_once_nothing_more_can_come() -> None:
    raw = lines({"input": 1}) + b'{"input": 2}'
    assert [tally_reports(raw, last=last) for last in (False, True)] == [
        tally_reports(lines({"input": 1})),
        tally_reports(lines({"input": 1}, {"input": 2})),
    ]
    assert tally_reports(b'{"inp', last=True) is None


@given(st.lists(st.dictionaries(st.sampled_from(["input", "output", "usd", "context", "window", "x"]), junk)))
def test_any_report_can_be_recorded(turns: list[dict[str, object]]) -> None:
    found = tally_reports(lines(*turns))
    if found is not None:
        assert all(value >= 0 for value in (found.input, found.output, found.usd, found.context))
        json.dumps(vars(found), allow_nan=False)
        assert context_level(found) in (0, *budget.LEVELS)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_survived(raw: bytes, last: bool) -> None:
    tally_reports(raw, last=last)


def test_an_estimate_says_that_it_is_one() -> None:
    assert estimate_usage(4000, 401) == Usage(
        input=1000, output=100, usd=0.0, turns=0, context=0, window=0, estimated=True
    )


# the fold


def folded(*events: dict[str, object]) -> Task:
    return fold("worker-20261115-191500", [{"t": "2026-11-15T19:15:00.000Z", **event} for event in events])


def test_a_hold_is_replaced_by_what_was_used() -> None:
    task = folded({"e": "created", "budget": "100"}, {"e": "reserved", "child": "a", "tokens": 25, "usd": 0.0})
    assert child_holds(task) == {"a": make_amount(25)}
    for _ in range(2):  # once more changes nothing
        add(task, BudgetReleased(child="a", tokens=7, usd=0.1))
        assert child_holds(task) == {"a": make_amount(7, 0.1)}
    add(task, BudgetReserved(child="a", tokens=30, usd=0.0))
    assert child_holds(task) == {"a": make_amount(30)}


def test_what_a_task_used() -> None:
    task = folded(
        {"e": "created", "budget": "1000 tokens, $2"},
        {"e": "accepted"},
        {"e": "run.created", "run": "sess_1_aaaaaa"},
        {"e": "usage", "run": "sess_1_aaaaaa", "input": 300, "output": 100, "usd": 0.5, "turns": 3},
        {"e": "reserved", "child": "b", "tokens": 100, "usd": 0.0},
    )
    shown = usage_of_task(task)
    assert (shown["input"], shown["output"], shown["tokens"], shown["usd"], shown["turns"]) == (300, 100, 400, 0.5, 3)
    assert (shown["used_of_budget"], shown["estimated"]) == (0.5, False)
    assert shown["budget"] == {"tokens": 1000, "usd": 2.0, "text": "1k tokens, $2.00"}
    assert shown["children"] == {"tokens": 100, "usd": 0.0, "held": ["b"]}
    assert [run["id"] for run in shown["runs"]] == ["sess_1_aaaaaa"]
    assert total_used([task, task]) == make_amount(800, 1.0)


def test_a_task_that_nobody_counts_has_the_same_names() -> None:
    shown = usage_of_task(folded({"e": "created"}, {"e": "run.created", "run": "sess_1_aaaaaa"}))
    counted = usage_of_task(folded({"e": "created", "budget": "$1"}, {"e": "limit", "key": "70 %"}))
    assert list(shown) == list(counted)
    assert (counted["limits"], counted["used_of_budget"]) == (["70 %"], 0.0)
    assert {**counted, "limits": [], "budget": None, "used_of_budget": None} == shown


def test_a_text_from_before_is_no_cap() -> None:
    assert not own_cap(folded({"e": "created", "budget": "be thrifty"})).is_cap


def test_a_new_budget_replaces_the_old_one() -> None:
    task = folded({"e": "created", "budget": "1k"}, {"e": "accepted", "budget": "2k"}, {"e": "accepted"})
    assert own_cap(task) == make_amount(2000)
