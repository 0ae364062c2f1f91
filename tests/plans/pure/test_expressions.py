"""Verification expressions: what they can say, what is refused, and that nothing is ever called."""

from __future__ import annotations

import ast
import inspect
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from overhand.contracts import expressions, parse_expression
from overhand.contracts.expressions import evaluate

DATA: dict[str, Any] = {
    "issues": [{"severity": "low", "line": 3}, {"severity": "high", "line": 7}],
    "passed": True,
    "count": 2,
    "ratio": 0.5,
    "whole": 2.0,
    "name": "report",
    "number": "2",
    "empty": [],
    "nothing": None,
    "a b": {"x-y": 1},
}
INPUTS = {"records": [1, 2], "limit": 10}

HOLD = [
    "len(data.issues) == 2",
    "data.count == len(inputs.records)",
    "data.count <= inputs.limit and data.passed",
    "0 < data.ratio < 1 <= data.count",
    "not data.empty",
    "data.passed == true",
    "data.nothing == null",
    "data.nothing == None and data.passed == True",
    "data.issues[0].severity in ['low', 'medium']",
    "data.issues[-1].line == 7",
    "'critical' not in [\"low\", 'high']",
    "'port' in data.name",
    "'passed' in data",
    "'missing' not in data or data.missing > 3",
    "data['a b'][\"x-y\"] == 1",
    "data.issues == [data.issues[0], data.issues[1]]",
    "(data.count == 2 or data.count == 3) and not (data.count == 4)",
    "data.count == data.whole",
    "data.number != data.count",
    "data.passed != 1",
    "data.name > 'a'",
    "-1 < -0.5 < 1e3",
    "len(data.name) == 6",
    "len(data) >= 5",
    "len([1, 2, 3,]) == 3",
    "data",
    "'it\\'s' == \"it's\"",
]


@pytest.mark.parametrize("text", HOLD)
def test_holds(text: str) -> None:
    assert evaluate(parse_expression(text), DATA, INPUTS) is True


@pytest.mark.parametrize(
    "text", ["data.count > 2", "not data.passed", "data.empty", "1 < 3 < 2", "1 in [true]", "'2' == 2"]
)
def test_does_not_hold(text: str) -> None:
    assert evaluate(parse_expression(text), DATA, INPUTS) is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data.missing > 1", "data has no missing"),
        ("data.issues[5].line == 1", "data.issues has no [5], it has 2 items"),
        ("data.issues.line == 1", "data.issues.line is not there: data.issues is a list of 2 items"),
        ("data.nothing.x == 1", "data.nothing.x is not there: data.nothing is null"),
        ("data['a b'].z == 1", 'data["a b"] has no z'),
        ("data.name < 3", "“report” < 3 cannot be compared"),
        ("data.passed < 3", "true < 3 cannot be compared"),
        ("len(data.count) == 1", "len() is for text, lists and objects, not for 2"),
        ("1 in data.name", "1 cannot be in “report”"),
        ("inputs.other", "inputs has no other"),
    ],
)
def test_what_cannot_be_evaluated_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 -- the message is compared as a whole
        evaluate(parse_expression(text), DATA, INPUTS)
    assert str(error.value) == message


def test_no_data() -> None:
    with pytest.raises(ValueError, match="data is null"):
        evaluate(parse_expression("data.x == 1"), None, None)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("issues == 1", 1),
        ("data.__class__", 6),
        ("data.x.__init__ == 1", 8),
        ("lambda: 1", 7),
        ("open('x')", 1),
        ("data.items()", 11),
        ("data.x()", 7),
        ("len", 4),
        ("len()", 5),
        ("2 ** 10", 3),
        ("9 * 9 > 1", 3),
        ("data.a + 1 > 2", 8),
        ("data[inputs.x] == 1", 6),
        ("data[1.5]", 6),
        ("[x for x in data]", 2),
        ("data.x if data.y else 1", 8),
        ("data.x = 1", 8),
        ("data.x := 1", 8),
        ("data.x;data.y", 7),
        ("`id`", 1),
        ("f'{data}'", 1),
        ("data.x == 'open", 11),
        ("data . ", 8),
        ("", 1),
        ("data.x ==", 10),
        ("(data.x", 8),
        ("data.x)", 7),
        ("data.x and", 11),
        ("not", 4),
        ("data.x not 3", 8),
        ("1_000 == 1", 1),
        ("0x10 == 16", 1),
        ("{1: 2}", 1),
        ("data.x is None", 8),
        ("import os", 1),
        ("__import__('os')", 1),
        ("data.x # comment", 8),
    ],
)
def test_what_is_not_an_expression_is_refused_with_its_column(text: str, column: int) -> None:
    with pytest.raises(ValueError, match=rf"^column {column}: ") as error:
        parse_expression(text)
    assert "len(…)" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "1" + ")" * 1000,
        "not " * 400 + "1",
        "[" * 900 + "]" * 900,
        "len(" * 300 + "data" + ")" * 300,
        "9" * 1999,
        "1e999999",
        "data" + ".a" * 5000,
        "x" * 10_000_000,
        "'" + "\\" * 1500,
        "- - - 1",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- some are too long, some too deep, some not understood
        parse_expression(text)


def test_the_fields_that_an_expression_asks_for() -> None:
    found = parse_expression("len(data.issues) > 0 and data.issues[0].line < inputs.limit")
    assert found.paths == (("data", "issues"), ("data", "issues", 0, "line"), ("inputs", "limit"))


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="an expression is text"):
        parse_expression(True)


WORDS = """
data inputs . [ ] ( ) , == != < <= > >= in not and or len true false null 1 -2 0.5 'a' "b" a b issues __class__ lambda
( [ 0 -1 ; = + * ** { } import
"""
PIECES = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "issues"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=14).map(" ".join) | st.text(max_size=60), JSON, JSON)
@example("data.a == data.b", {"a": float("nan"), "b": 10**400}, None)
def test_nothing_but_value_errors(text: str, data: object, inputs: object) -> None:
    with suppress(ValueError):
        assert isinstance(evaluate(parse_expression(text), data, inputs), bool)


def operands() -> st.SearchStrategy[str]:
    return st.sampled_from(["data.a", "data.b", "inputs", "1", "'a'", "len(data)", "[1, 'a']", "null", "data['a']"])


COMPARED = st.builds(" ".join, st.tuples(operands(), st.sampled_from(["==", "<", "in", "not in"]), operands()))
GROWN = st.recursive(
    COMPARED,
    lambda inner: st.builds("({}) and ({})".format, inner, inner) | st.builds("not ({})".format, inner),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(GROWN, JSON, JSON)
def test_what_is_allowed_is_read_and_gives_a_boolean_or_says_why_not(text: str, data: object, inputs: object) -> None:
    found = parse_expression(text)
    with suppress(ValueError):
        assert isinstance(evaluate(found, data, inputs), bool)


class Trap(dict[str, Any]):
    """An object that would tell if anything of it were called or read as an attribute."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was read")

    def __call__(self) -> Any:
        raise AssertionError("it was called")


def test_fields_are_looked_up_never_read_as_attributes() -> None:
    trap = Trap(keys=[1], x=Trap())
    assert evaluate(parse_expression("data.keys == [1] and 'x' in data and len(data.x) == 0"), trap, trap)
    with pytest.raises(ValueError, match="data has no items"):
        evaluate(parse_expression("data.items"), trap, trap)


def test_python_lends_its_grammar_and_nothing_else() -> None:
    """Its keywords are fields, its prefixes and escapes have no meaning, and neither have its numbers."""
    data = {"from": "x", "class": [7], "is": {"in": 1}, "ﬁ": 2}
    held = "data.from == 'x' and data.class[0] == 007 and data.is.in == 1 and data.ﬁ == 2 and '\\d\\x41' == 'dx41'"
    assert evaluate(parse_expression(held), data, None)
    for text in (
        "r'a' == 'a'",
        "'a' 'b' == 'ab'",
        "(data).from",
        "len(data,)",
        "[1][0]",
        "1, 2",
        "()",
        "1 if 2 else 3",
    ):
        with pytest.raises(ValueError, match=r"^column "):
            parse_expression(text)


def test_the_source_has_no_way_to_run_anything() -> None:
    tree = list(ast.walk(ast.parse(inspect.getsource(expressions))))
    names = {node.id for node in tree if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec", "compile", "getattr", "__import__"}
    assert {node.attr for node in tree if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ast"} == {
        "parse"
    }
