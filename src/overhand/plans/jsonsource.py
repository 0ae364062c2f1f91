"""A plan as JSON: read by the standard library at its full speed; lines are found by stepping over values."""

from __future__ import annotations

import json
import re
from typing import Any

from overhand.documents.jsontext import finite, refuse
from overhand.documents.problems import Problem, wrong
from overhand.documents.text import shorten
from overhand.plans.source import DEPTH, Newlines, Path, Source, surrogates, syntax

_ESCAPED_HALF = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
_APART = re.compile(r'"[ \t\n]+:')
_BLANK = re.compile(r"[ \t\n\r]*")
_SMALL = 200_000
_FIX = "Correct the JSON there; commas stand between entries only, strings in double quotes."


def load(text: str) -> Source:
    """The values of a JSON text, or why it is none."""
    keys = 0

    def counted(value: dict[str, Any]) -> dict[str, Any]:
        nonlocal keys
        keys += len(value)
        return value

    try:
        value = json.loads(text, object_hook=counted, parse_constant=refuse, parse_float=finite)
    except json.JSONDecodeError as error:
        return Source(None, [syntax("JSON", f"{_lower(error.msg)} at column {error.colno}", error.lineno, _FIX)])
    except RecursionError:
        return Source(None, [_deep(text)])
    except ValueError as error:
        return Source(None, [_number(error, text)])
    escaped = "\\" in text and ("\\ud" in text or "\\uD" in text)
    if escaped and (half := _ESCAPED_HALF.search(text)) and surrogates(value):
        message = "A string holds half a pair of characters, which cannot be written as UTF-8."
        line = text.count("\n", 0, half.start()) + 1
        return Source(None, [wrong("plan-encoding", message, line, "Remove the lone \\ud… escape.")])
    if _too_deep(text, value):
        return Source(None, [_deep(text)])
    # Keeping the pairs of every object to see a key twice would nearly double the time.
    once = keys == text.count(":") or keys == _most_keys(text)
    return Source(value, [] if once else _twice(text), _Places(text).line, eager=len(text) < _SMALL)


def _most_keys(text: str) -> int:
    """How many keys the text can have at most: a key is a string with a colon behind it.

    A quote within a string stands behind a backslash, and a key may end with one.
    """
    most = text.count('":') + len(_APART.findall(text))
    return most - text.count('\\":') + text.count('\\\\":') if "\\" in text else most


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _number(error: ValueError, text: str) -> Problem:
    """A number that cannot be held: where it stands is looked for, the parser does not say it."""
    found = re.search(r"(?<![\w.\"])(?:-?Infinity|NaN|-?\d[\d.]*[eE]\+?\d{3,}|-?\d{309,})", text)
    line = text.count("\n", 0, found.start()) + 1 if found else 1
    said = str(error) if found is None or len(found[0]) < 100 else "a number has too many digits"
    return syntax("JSON", said[:100], line, "Write a smaller number, or a string.")


def _deep(text: str) -> Problem:
    depth = at = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > DEPTH:
            at = found.start()
            break
    line = text.count("\n", 0, at) + 1
    fix = "Put the value into a file and name it."
    return wrong("plan-deep", f"Values are nested more than {DEPTH} deep.", line, fix)


def _too_deep(text: str, value: object) -> bool:
    """Whether values are nested more than `DEPTH` deep; told by the brackets, which is far quicker than by a walk."""
    left = text.encode().translate(None, _NO_BRACKETS)
    for _ in range(DEPTH):
        if not left:
            return False
        left = left.replace(b"[]", b"").replace(b"{}", b"")
    waiting = [(value, 1)]  # brackets in strings have no partners: look at the values themselves
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, (dict, list)):
            if depth > DEPTH:
                return True
            waiting += [(part, depth + 1) for part in (one.values() if isinstance(one, dict) else one)]
    return False


_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _twice(text: str) -> list[Problem]:
    """Every key that stands in an object which has it already."""
    newlines = Newlines(text)
    problems: list[Problem] = []
    around: list[set[str]] = []
    last, at = "", 0
    for found in _TOKEN.finditer(text):
        sign = found[0]
        if sign in "{[":
            around.append(set())
        elif sign in "}]":
            around.pop()
        elif sign == ":":
            if last in around[-1]:
                key = shorten(json.loads(last), 60)
                message = f"The key {key!r} occurs twice in one object."
                problems.append(wrong("plan-key-twice", message, newlines.line(at), "Remove one of them."))
            around[-1].add(last)
        else:
            last, at = sign, found.start()
    return problems


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:]')


class _Places:
    """Where the entries of a container begin; each container is stepped through once, the rest never."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newlines = Newlines(text)
        self._known: dict[int, dict[str | int, tuple[int, int]]] = {}
        self._scan = json.JSONDecoder().raw_decode

    def line(self, path: Path) -> int | None:
        """The line of the key (or the entry of a list) at this path."""
        start = value = self._skip(0)
        for step in path:
            found = self._entries(value).get(step)
            if found is None:
                break
            start, value = found
        return self._newlines.line(start)

    def _skip(self, at: int) -> int:
        return _BLANK.match(self._text, at).end()  # type: ignore[union-attr] # it matches everywhere

    def _entries(self, at: int) -> dict[str | int, tuple[int, int]]:
        """By key or number: where the entry and where its value begins."""
        if at not in self._known:
            try:
                self._known[at] = self._walk(at)
            except (ValueError, IndexError, RecursionError):
                self._known[at] = {}
        return self._known[at]

    def _walk(self, at: int) -> dict[str | int, tuple[int, int]]:
        text, scan, skip = self._text, self._scan, self._skip
        opened = text[at : at + 1]
        found: dict[str | int, tuple[int, int]] = {}
        if opened not in ("{", "["):
            return found
        at = skip(at + 1)
        while text[at] not in "]}":
            start, key = at, len(found)
            if opened == "{":
                key, at = scan(text, at)
                at = skip(skip(at) + 1)
            found.setdefault(key, (start, at))
            at = skip(scan(text, at)[1])
            if text[at] == ",":
                at = skip(at + 1)
        return found
