"""Verification expressions: comparisons over `data` and `inputs`, read by a parser of our own; nothing is called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from overhand.contracts.canonical import same
from overhand.documents.text import shorten

LONGEST = 2000
DEEPEST = 40
ALLOWED = (
    "comparisons (== != < <= > >=, in, not in), and, or, not, len(…), numbers, strings, true, false, null, "
    "[lists], and fields of data and inputs such as data.items[0].name"
)
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">", "in", "not in")
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?(?![\w.]))
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[^\W\d]\w*)
      | (?P<sign>==|!=|<=|>=|[<>()\[\],.\-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_WORDS = frozenset(("and", "or", "not", "in", "len"))


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read; `paths` are the fields it asks for, such as ("data", "issues", 0)."""

    text: str
    root: tuple[Any, ...]
    paths: tuple[tuple[str | int, ...], ...]


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """The expression; raises ValueError with the column and what is allowed."""
    if not isinstance(text, str):
        raise ValueError(f"an expression is text, not {text!r}")  # noqa: TRY004 -- whoever reads a plan catches one error
    if len(text) > LONGEST:
        raise ValueError(f"the expression has {len(text)} characters, at most {LONGEST} are allowed")
    reader = _Reader(text)
    root = reader.either(0)
    reader.end()
    return Expression(text, root, tuple(dict.fromkeys(reader.paths)))


def evaluate(parsed: Expression, data: object, inputs: object) -> bool:
    """Whether it holds; raises ValueError for a missing field or things that cannot be compared."""
    return bool(_value(parsed.root, {"data": data, "inputs": inputs}))


class _Reader:
    """Reads one expression from left to right; every rule is one method, and each level of nesting is counted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.paths: list[tuple[str | int, ...]] = []

    def either(self, depth: int) -> tuple[Any, ...]:
        """one or other."""
        parts = [self.both(depth)]
        while self.take("or"):
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else ("or", tuple(parts))

    def both(self, depth: int) -> tuple[Any, ...]:
        """one and other."""
        parts = [self.negation(depth)]
        while self.take("and"):
            parts.append(self.negation(depth))
        return parts[0] if len(parts) == 1 else ("and", tuple(parts))

    def negation(self, depth: int) -> tuple[Any, ...]:
        """not one."""
        self.bound(depth)
        return ("not", self.negation(depth + 1)) if self.take("not") else self.comparison(depth)

    def comparison(self, depth: int) -> tuple[Any, ...]:
        """one < other <= third."""
        first = self.operand(depth)
        chain: list[tuple[str, tuple[Any, ...]]] = []
        while sign := self.sign():
            chain.append((sign, self.operand(depth)))
        return ("compare", first, tuple(chain)) if chain else first

    def sign(self) -> str:
        """The comparison that stands here, or ""."""
        if self.word() == "not" and self.word(1) == "in":
            self.at += 2
            return "not in"
        found = self.word()
        if found in _COMPARISONS and self.tokens[self.at][0] != "string":
            self.at += 1
            return found
        return ""

    def operand(self, depth: int) -> tuple[Any, ...]:
        """A value: a literal, a list, a length, a field, or something in parentheses."""
        self.bound(depth)
        kind, word, _ = self.tokens[self.at]
        if kind == "string":
            self.at += 1
            return ("literal", _unquoted(word))
        if kind == "number" or word == "-":
            return ("literal", self.number())
        if self.take("("):
            inner = self.either(depth + 1)
            self.need(")")
            return inner
        if self.take("["):
            return self.listing(depth + 1)
        if word == "len" and kind == "name":
            self.at += 1
            self.need("(")
            inner = self.either(depth + 1)
            self.need(")")
            return ("len", inner)
        if kind == "name" and word in _CONSTANTS:
            self.at += 1
            return ("literal", _CONSTANTS[word])
        if kind == "name" and word in ("data", "inputs"):
            return self.path()
        raise self.refusal()

    def listing(self, depth: int) -> tuple[Any, ...]:
        """[one, other]"""
        parts: list[tuple[Any, ...]] = []
        while not self.take("]"):
            if parts:
                self.need(",")
                if self.take("]"):
                    break
            parts.append(self.either(depth))
        return ("list", tuple(parts))

    def path(self) -> tuple[Any, ...]:
        """data.items[0]["some name"]"""
        steps: list[str | int] = [self.tokens[self.at][1]]
        self.at += 1
        while True:
            if self.take("."):
                kind, word, _ = self.tokens[self.at]
                if kind != "name" or word.startswith("__"):
                    raise self.refusal("a field's name")
                steps.append(word)
                self.at += 1
            elif self.take("["):
                steps.append(self.index())
                self.need("]")
            else:
                break
        self.paths.append(tuple(steps))
        return ("path", tuple(steps))

    def index(self) -> str | int:
        """What may stand in brackets after a field: a whole number or a quoted name."""
        kind, word, _ = self.tokens[self.at]
        if kind == "string":
            self.at += 1
            return _unquoted(word)
        if kind == "number" or word == "-":
            found = self.number()
            if isinstance(found, int):
                return found
            self.at -= 1
        raise self.refusal("a whole number or a quoted name")

    def number(self) -> int | float:
        """A number, with its sign."""
        negative = self.take("-")
        kind, word, _ = self.tokens[self.at]
        if kind != "number":
            raise self.refusal("a number")
        self.at += 1
        found = int(word) if word.isdecimal() else float(word)
        return -found if negative else found

    def word(self, ahead: int = 0) -> str:
        """The token that stands here, or some tokens ahead; "" for strings, which are no words."""
        kind, word, _ = self.tokens[min(self.at + ahead, len(self.tokens) - 1)]
        return "" if kind == "string" else word

    def take(self, word: str) -> bool:
        """Whether the word stands here; if so it is passed."""
        if self.word() == word and word:
            self.at += 1
            return True
        return False

    def need(self, word: str) -> None:
        """Pass a word that must stand here."""
        if not self.take(word):
            raise self.refusal(f"`{word}`")

    def end(self) -> None:
        """Nothing may follow."""
        if self.tokens[self.at][0] != "end":
            raise self.refusal("and, or, or a comparison")

    def bound(self, depth: int) -> None:
        """Refuse what is nested deeper than anybody writes."""
        if depth > DEEPEST:
            column = self.tokens[self.at][2] + 1
            raise ValueError(f"column {column}: the expression is nested deeper than {DEEPEST} levels")

    def refusal(self, wanted: str = "") -> ValueError:
        """What is wrong with the token that stands here."""
        kind, word, column = self.tokens[self.at]
        found = "the expression ends" if kind == "end" else f"there is `{shorten(word, 40)}`"
        needed = f" where {wanted} is needed" if wanted else " where a value is needed"
        if kind == "name" and word not in _WORDS and not wanted:
            needed = ", which is not known"
        return ValueError(f"column {column + 1}: {found}{needed}; allowed are {ALLOWED}")


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"column {at + 1}: `{text[at]}` is not understood; allowed are {ALLOWED}")
        if match.lastgroup and match.lastgroup != "space":
            found.append((match.lastgroup, match.group(), at))
        at = match.end()
    return [*found, ("end", "", len(text))]


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), word[1:-1], flags=re.DOTALL)


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
                raise ValueError(f"{spelled(steps[:count])} has no {step}")
            value = value[step]
        elif isinstance(step, int) and isinstance(value, list):
            if not -len(value) <= step < len(value):
                raise ValueError(f"{spelled(steps[:count])} has no [{step}], it has {_items(len(value))}")
            value = value[step]
        else:
            raise _unfit(steps[: count + 1], value)
    return value


def _unfit(steps: tuple[str | int, ...], value: object) -> ValueError:
    return ValueError(f"{spelled(steps)} is not there: {spelled(steps[:-1])} is {_named(value)}")


def spelled(steps: tuple[str | int, ...]) -> str:
    """A path as it is written."""
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
    return bool(
        left < right
        if sign == "<"
        else left <= right
        if sign == "<="
        else left > right
        if sign == ">"
        else left >= right
    )


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
