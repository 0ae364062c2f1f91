"""A plan's text: read as JSON or YAML, with the line of everything in it."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overhand.documents import Problem, finite_float, refuse_number, shorten, unix_lines, wrong

JSON_LIMIT = 256 * 1024 * 1024
YAML_LIMIT = 8 * 1024 * 1024
DEPTH = 100
EXPANDED = 100_000  # how many values aliases may add to a file

Path = tuple[str | int, ...]
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
_BLANK = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:]')
_FIX = "Correct the JSON there; commas stand between entries only, strings in double quotes."


@dataclass(frozen=True, slots=True)
class Source:
    """What a text holds: its value, the problems in it, and the line of each path, or of what is around it."""

    value: Any
    problems: list[Problem]
    line: Callable[[Path], int | None] = lambda _: None


def load(text: str | bytes, name: str = "") -> Source:
    """A plan's text as values; `name` tells the format where the text does not."""
    decoded, problems = _decode(text) if isinstance(text, bytes) else _clean(text)
    if problems:
        return Source(None, problems)
    from overhand.plans import yamlsource

    # JSON is nearly always YAML too, but is read a hundred times as fast.
    if name.lower().endswith(".json"):
        return _load_json(decoded)
    if decoded.lstrip()[:1] in ("{", "["):
        found = _load_json(decoded)
        if not any(one.code == "plan-syntax" for one in found.problems):
            return found
        other = yamlsource.load(decoded)
        return found if any(one.code == "plan-syntax" for one in other.problems) else other
    return yamlsource.load(decoded)


def _decode(raw: bytes) -> tuple[str, list[Problem]]:
    if len(raw) > JSON_LIMIT:
        return "", [too_large(len(raw), JSON_LIMIT)]
    try:
        return _clean(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"Byte {error.start} (0x{raw[error.start]:02x}) of the file is not UTF-8."
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            message = "The file is UTF-16."
        return "", [wrong("plan-encoding", message, line, "Save the file as UTF-8.")]


def _clean(text: str) -> tuple[str, list[Problem]]:
    """The text without BOM and with LF only, unless it holds what no file may hold."""
    if len(text) > JSON_LIMIT:
        return "", [too_large(len(text), JSON_LIMIT)]
    text = unix_lines(text.removeprefix("\ufeff"))
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        message = "The text holds half a pair of characters, which cannot be written as UTF-8."
        return "", [wrong("plan-encoding", message, line, "Remove it.")]
    if (at := text.find("\0")) >= 0:
        line = text.count("\n", 0, at) + 1
        fix = "Remove them; they may be a torn write, or the file is not text."
        return "", [wrong("plan-encoding", "The file holds NUL bytes.", line, fix)]
    return text, []


def too_large(size: int, limit: int, kind: str = "a plan") -> Problem:
    message = f"The file has {size / 1048576:.1f} MB; {kind} may have {limit // 1048576}."
    return wrong("plan-too-large", message, fix="Split the plan, or put long material into files and name them.")


def too_deep(line: int) -> Problem:
    fix = "Put the value into a file and name it."
    return wrong("plan-deep", f"Values are nested more than {DEPTH} deep.", line, fix)


def syntax(kind: str, message: str, line: int | None, fix: str) -> Problem:
    return wrong("plan-syntax", f"This is not valid {kind}: {message}.", line, fix)


# JSON


def _load_json(text: str) -> Source:
    """The values of a JSON text, or why it is none."""
    twice = False

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        found = dict(pairs)
        twice = twice or len(found) < len(pairs)
        return found

    try:
        value = json.loads(text, object_pairs_hook=object_of, parse_constant=refuse_number, parse_float=finite_float)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
        return Source(None, [syntax("JSON", reason, error.lineno, _FIX)])
    except RecursionError:
        return Source(None, [_deep(text)])
    except ValueError as error:
        return Source(None, [_number(error, text)])
    depth, halves = _walk(value)
    if halves and (half := _ESCAPED_HALF.search(text)):
        message = "A string holds half a pair of characters, which cannot be written as UTF-8."
        line = text.count("\n", 0, half.start()) + 1
        return Source(None, [wrong("plan-encoding", message, line, "Remove the lone \\ud… escape.")])
    if depth > DEPTH:
        return Source(None, [_deep(text)])
    places = _JsonPlaces(text)
    return Source(value, _twice(text, places) if twice else [], places.line)


def _walk(value: object) -> tuple[int, bool]:
    """How deeply values are nested, and whether a string is half a pair of characters, as an escape can say."""
    deepest, halves = 0, False
    waiting = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, str):
            halves = halves or (not one.isascii() and _HALF.search(one) is not None)
        elif isinstance(one, (dict, list)):
            deepest = max(deepest, depth)
            waiting += [(part, depth + 1) for part in one]
            if isinstance(one, dict):
                waiting += [(part, depth + 1) for part in one.values()]
    return deepest, halves


def _number(error: ValueError, text: str) -> Problem:
    """A number that cannot be held; the parser does not give its place."""
    found = re.search(r"(?<![\w.\"])(?:-?Infinity|NaN|-?\d[\d.]*[eE]\+?\d{3,}|-?\d{309,})", text)
    line = text.count("\n", 0, found.start()) + 1 if found else 1
    reason = str(error) if found is None or len(found[0]) < 100 else "a number has too many digits"
    return syntax("JSON", reason[:100], line, "Write a smaller number, or a string.")


def _deep(text: str) -> Problem:
    depth = at = 0
    for found in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > DEPTH:
            at = found.start()
            break
    return too_deep(text.count("\n", 0, at) + 1)


def _twice(text: str, places: _JsonPlaces) -> list[Problem]:
    """Every key that stands in an object which has it already."""
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
                problems.append(wrong("plan-key-twice", message, places.line_at(at), "Remove one of them."))
            around[-1].add(last)
        else:
            last, at = sign, found.start()
    return problems


class _JsonPlaces:
    """Where the entries of a container begin; each container is stepped through once, the rest never."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [found.start() for found in re.finditer("\n", text)]
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
        return self.line_at(start)

    def line_at(self, offset: int) -> int:
        """The line of the character at `offset`."""
        return bisect_right(self._ends, offset - 1) + 1

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
