"""Verification expressions: comparisons over `data` and `inputs`, read with Python's own grammar; nothing is called.

`ast` sees only how an expression is built: each field, string, number and constant is masked by a string of its length.
So `data.from` is a field, a string means what it says, and no literal can make the parser expensive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from overhand.contracts.compare import same
from overhand.documents import shorten

_LONGEST = 2000
_DEEPEST = 40
_ALLOWED = (
    "comparisons (== != < <= > >=, in, not in), and, or, not, len(…), numbers, strings, true, false, null, "
    "[lists], and fields of data and inputs such as data.items[0].name"
)
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_COMPARISONS = {
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
    "In": "in",
    "NotIn": "not in",
}
_ORDERS = {"<": lt, "<=": le, ">": gt, ">=": ge}
_WORDS = frozenset(("and", "or", "not", "in", "len"))
_BLANK = r"[ \t\r\n]*"
_INTEGER = rf"(?:-{_BLANK})?\d{{1,30}}"
_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_FIELD = r"[^\W\d]\w*"
_STEP = rf"{_BLANK}(?:\.{_BLANK}(?!__)({_FIELD})|\[{_BLANK}(?:({_INTEGER})|({_STRING})){_BLANK}\])"
_STEPS = re.compile(_STEP, re.DOTALL)
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
      | (?P<number>{_INTEGER}(?:\.\d{{1,30}})?(?:[eE][+-]?\d{{1,3}})?(?![\w.]))
      | (?P<string>{_STRING})
      | (?P<path>(?:data|inputs)\b(?:{_STEP})*)
      | (?P<name>{_FIELD})
      | (?P<sign>==|!=|<=|>=|[<>()\[\],.\-])""",
    re.VERBOSE | re.DOTALL,
)
_BETWEEN = "and, or, or a comparison"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; `paths` are the fields it uses, such as ("data", "issues", 0)."""

    text: str
    root: tuple[Any, ...]
    paths: tuple[tuple[str | int, ...], ...]


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """The expression; raises ValueError with the column and what is allowed."""
    if not isinstance(text, str):
        raise ValueError(f"an expression is text, not {text!r}")  # noqa: TRY004 -- callers catch one kind of error
    if len(text) > _LONGEST:
        raise ValueError(f"the expression has {len(text)} characters, at most {_LONGEST} are allowed")
    import ast

    tokens = _tokens(text)
    _check(tokens)
    start = tokens[0].at  # Python would read leading blanks as indentation
    try:
        root = ast.parse(_masked(tokens)[start:], mode="eval").body
    except SyntaxError as error:
        at = -1 if "never closed" in error.msg else start + (error.offset or 0) - 1
        raise _refusal(next((one for one in tokens if one.at == at), tokens[-1])) from None
    values = {token.at - start: _literal(token) for token in tokens if token.is_value}
    paths = [value[1] for value in values.values() if value[0] == "path"]
    return Expression(text, _tree(root, values), tuple(dict.fromkeys(paths)))


def evaluate(parsed: Expression, data: object, inputs: object) -> bool:
    """Whether it holds; raises ValueError for a missing field or values that cannot be compared."""
    return bool(_value(parsed.root, {"data": data, "inputs": inputs}))


class _Token(NamedTuple):
    kind: str
    word: str
    at: int

    @property
    def is_value(self) -> bool:
        return self.kind in ("number", "string", "path", "constant")


def _tokens(text: str) -> list[_Token]:
    """The text in pieces, the last one an empty `end`."""
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"column {at + 1}: `{text[at]}` is not understood; allowed are {_ALLOWED}")
        kind, word = str(match.lastgroup), match.group()
        if kind != "space":
            found.append(_Token("constant" if kind == "name" and word in _CONSTANTS else kind, word, at))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


def _check(tokens: Sequence[_Token]) -> None:
    """Refuse what Python would accept and an expression does not have, and nesting too deep for a recursive parser.

    That is: unknown names, values side by side (a call, a subscript, joined strings), tuples. Each bracket and each
    `not` before a value is a level of nesting.
    """
    before = _Token("sign", "", 0)
    depth = 0
    outside: list[tuple[str, int]] = []  # the open brackets, and the depth around them
    for this, after in pairwise(tokens):
        word = this.word
        unknown = this.kind == "name" and word not in _WORDS
        negates = word == "not" and after.word != "in"
        begins = this.is_value or unknown or negates or word in ("(", "[", "-", "len")
        if begins and (before.is_value or before.word in (")", "]")):
            if before.kind == "path" and word == "[":
                raise _refusal(after, "a whole number or a quoted name")
            raise _refusal(this, _BETWEEN)
        if unknown or (before.word, word) == ("(", ")"):
            raise _refusal(this)
        if word in (".", "-"):
            raise _refusal(after, "a field's name" if word == "." else "a number")
        if word == "len" and after.word != "(":
            raise _refusal(after, "`(`")
        if word == "," and (not outside or outside[-1][0] == "("):
            raise _refusal(this, "`)`" if outside else _BETWEEN)
        if word in ("(", "["):
            outside.append((word, depth))
        elif word in (")", "]") and outside:
            depth = outside.pop()[1]
        elif word in ("and", "or", ","):
            depth = outside[-1][1] + 1 if outside else 0
        depth += negates or word in ("(", "[")
        if depth > _DEEPEST:
            raise ValueError(f"column {after.at + 1}: the expression is nested deeper than {_DEEPEST} levels")
        before = this


def _refusal(token: _Token, wanted: str = "") -> ValueError:
    found = "the expression ends" if token.kind == "end" else f"there is `{shorten(token.word, 40)}`"
    needed = f" where {wanted or 'a value'} is needed"
    if token.kind == "name" and token.word not in _WORDS and not wanted:
        needed = ", which is not known"
    return ValueError(f"column {token.at + 1}: {found}{needed}; allowed are {_ALLOWED}")


def _masked(tokens: Sequence[_Token]) -> str:
    """The text in one line, with everything at its column and each value as a string of its length."""
    mask = ""
    for token in tokens:
        word = token.word
        if token.is_value:
            word = f"'{'_' * (len(word) - 2)}'" if len(word) > 1 else "0"
        mask += " " * (token.at - len(mask)) + word
    return mask


def _literal(token: _Token) -> tuple[Any, ...]:
    if token.kind == "string":
        return ("literal", _unquoted(token.word))
    if token.kind == "number":
        return ("literal", _number(token.word))
    if token.kind == "constant":
        return ("literal", _CONSTANTS[token.word])
    steps = _STEPS.findall(token.word)
    root = "data" if token.word.startswith("data") else "inputs"
    return ("path", (root, *(name or (_number(index) if index else _unquoted(key)) for name, index, key in steps)))


def _number(word: str) -> int | float:
    digits = re.sub(_BLANK, "", word)
    return int(digits) if digits.removeprefix("-").isdecimal() else float(digits)


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), word[1:-1], flags=re.DOTALL)


def _tree(node: Any, values: Mapping[int, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Python's syntax tree of the mask, with the values put back; only these nodes can occur in it."""
    match type(node).__name__:
        case "Constant":
            return values[node.col_offset]
        case "BoolOp":
            return (type(node.op).__name__.lower(), tuple(_tree(one, values) for one in node.values))
        case "UnaryOp":
            return ("not", _tree(node.operand, values))
        case "Compare":
            signs = (_COMPARISONS[type(one).__name__] for one in node.ops)
            others = (_tree(one, values) for one in node.comparators)
            return ("compare", _tree(node.left, values), tuple(zip(signs, others, strict=True)))
        case "List":
            return ("list", tuple(_tree(one, values) for one in node.elts))
        case "Call":
            return ("len", _tree(node.args[0], values))
        case other:
            raise ValueError(f"{other} is not allowed; allowed are {_ALLOWED}")


def _value(part: tuple[Any, ...], names: Mapping[str, object]) -> Any:
    what = part[0]
    if what == "literal":
        return part[1]
    if what == "path":
        return _look(part[1], names)
    if what == "and":
        return all(_value(one, names) for one in part[1])
    if what == "or":
        return any(_value(one, names) for one in part[1])
    if what == "not":
        return not _value(part[1], names)
    if what == "list":
        return [_value(one, names) for one in part[1]]
    if what == "len":
        return _length(_value(part[1], names))
    left = _value(part[1], names)
    for sign, other in part[2]:
        right = _value(other, names)
        if not _holds(left, sign, right):
            return False
        left = right
    return True


def _look(steps: tuple[str | int, ...], names: Mapping[str, object]) -> object:
    value: object = names[str(steps[0])]
    for count, step in enumerate(steps[1:], 1):
        if isinstance(step, str) and isinstance(value, Mapping):
            if step not in value:
                raise ValueError(f"{_spelled(steps[:count])} has no {step}")
            value = value[step]
        elif isinstance(step, int) and isinstance(value, list):
            if not -len(value) <= step < len(value):
                raise ValueError(f"{_spelled(steps[:count])} has no [{step}], it has {_items(len(value))}")
            value = value[step]
        else:
            raise _unfit(steps[: count + 1], value)
    return value


def _unfit(steps: tuple[str | int, ...], value: object) -> ValueError:
    return ValueError(f"{_spelled(steps)} is not there: {_spelled(steps[:-1])} is {_named(value)}")


def _spelled(steps: tuple[str | int, ...]) -> str:
    text = str(steps[0])
    for step in steps[1:]:
        plain = isinstance(step, str) and step.isidentifier()
        text += f".{step}" if plain else f"[{step}]" if isinstance(step, int) else f'["{step}"]'
    return text


def _length(value: object) -> int:
    if isinstance(value, (str, list, dict)):
        return len(value)
    raise ValueError(f"len() is for text, lists and objects, not for {_named(value)}")


def _holds(left: Any, sign: str, right: Any) -> bool:
    if sign in ("==", "!="):
        return same(left, right) is (sign == "==")
    if sign in ("in", "not in"):
        return _inside(left, right) is (sign == "in")
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (left, right))
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        raise ValueError(f"{_named(left)} {sign} {_named(right)} cannot be compared")
    return bool(_ORDERS[sign](left, right))


def _inside(left: object, right: object) -> bool:
    if isinstance(right, list):
        return any(same(left, one) for one in right)
    if isinstance(right, (dict, str)) and isinstance(left, str):
        return left in right
    raise ValueError(f"{_named(left)} cannot be in {_named(right)}")


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _named(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {_items(len(value))}"
    if isinstance(value, Mapping):
        return "an object"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"“{shorten(value, 40)}”" if isinstance(value, str) else shorten(str(value), 40)
