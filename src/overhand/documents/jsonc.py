"""JSON with comments, as in the settings of coding clients: read it; add or remove one entry and change nothing else.

Comments (`//`, `/* */`) and trailing commas are allowed, as those clients allow them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_BLANK = " \t\r\n\ufeff"


class NotJson(ValueError):
    """What is wrong, and where."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key of an object: where it begins, where its value begins and ends."""

    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """An object in the text: its braces and its entries; of a key that occurs twice the last one counts."""

    start: int
    end: int
    entries: dict[str, _Entry]


def read_jsonc(text: str) -> Any:
    """The value; an empty text is an empty object."""
    return _Reader(text).whole()


def put_entry(text: str, path: tuple[str, ...], value: object) -> str:
    """The text with this value at the path; missing objects on the way are created, existing values must be objects."""
    if not text.strip(_BLANK):
        return text + json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    found = _object(text, ())
    for depth, key in enumerate(path):
        entry = found.entries.get(key)
        if entry is None:
            return _added(text, found, key, _nested(path[depth + 1 :], value))
        if depth == len(path) - 1:
            return text[: entry.value] + _shown(value, text, _indent(text, entry.start)) + text[entry.end :]
        found = _object(text, path[: depth + 1])
    raise ValueError("a path has at least one key")


def drop_entry(text: str, path: tuple[str, ...]) -> str:
    """The text without the entry at the path, its comma and the whitespace before it."""
    found = _object(text, path[:-1])
    entry = found.entries.get(path[-1])
    if entry is None:
        return text
    head = text[: entry.start].rstrip(_BLANK)
    after = _next(text, entry.end)
    if text[after] == ",":
        return head + text[entry.end : after] + text[after + 1 :]
    before = [one for one in found.entries.values() if one.start < entry.start]
    if before:
        comma = _next(text, max(before, key=lambda one: one.start).end)
        return text[:comma] + head[comma + 1 :] + text[entry.end :]
    bare = len(head) == found.start + 1 and not text[entry.end : found.end].strip(_BLANK)
    return head + text[found.end if bare else entry.end :]


def _nested(path: tuple[str, ...], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _added(text: str, found: _Object, key: str, value: object) -> str:
    """The text with an entry after the last one, indented like its neighbours."""
    if not found.entries:
        outer = _indent(text, found.start)
        inner = outer + _unit(text)
        inside = text[found.start + 1 : found.end]
        kept = inside.rstrip() if inside.strip() else ""  # comments
        line = f"{_newline(text)}{inner}{json.dumps(key, ensure_ascii=False)}: {_shown(value, text, inner)}"
        return f"{text[: found.start + 1]}{kept}{line}{_newline(text)}{outer}{text[found.end :]}"
    last = max(found.entries.values(), key=lambda entry: entry.start)
    after = _next(text, last.end)
    trailing = text[after] == ","
    at = after + 1 if trailing else last.end
    kept = text[at : found.end].rstrip(_BLANK)  # comments
    inner = _indent(text, last.start)
    alone = "\n" not in text[found.start : last.start] and not kept
    gap = " " if alone else f"{_newline(text)}{inner}"
    entry = f"{json.dumps(key, ensure_ascii=False)}: {_shown(value, text, inner)}{',' if trailing else ''}"
    return f"{text[:at]}{'' if trailing else ','}{kept}{gap}{entry}{text[at + len(kept) :]}"


def _shown(value: object, text: str, indent: str) -> str:
    """The value as JSON, indented like the file."""
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """The indentation of one level: that of the first indented line."""
    for line in text.splitlines():
        bare = line.lstrip(" \t")
        if bare and bare != line and bare[0] in '"}{]/':
            return line[: len(line) - len(bare)]
    return "  "


def _indent(text: str, at: int) -> str:
    """The indentation of the line at this offset."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _object(text: str, path: tuple[str, ...]) -> _Object:
    reader = _Reader(text)
    reader.whole()
    if path not in reader.objects:
        raise NotJson(f"{'.'.join(path) or 'it'} is not an object")
    return reader.objects[path]


def _next(text: str, at: int) -> int:
    """The next offset that is neither whitespace nor comment."""
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise _wrong(text, at, "the comment has no end")
            at = end + 2
        else:
            break
    return at


def _wrong(text: str, at: int, why: str) -> NotJson:
    line = text.count("\n", 0, at) + 1
    return NotJson(f"line {line}: {why}")


class _Reader:
    """Reads a text once and notes where its objects are."""

    def __init__(self, text: str) -> None:
        self.text, self.objects = text, dict[tuple[str, ...], _Object]()
        self.decoder = json.JSONDecoder(strict=False)

    def whole(self) -> Any:
        at = _next(self.text, 0)
        if at == len(self.text):
            return {}
        try:
            value, at = self.value(at, ())
        except RecursionError:
            raise NotJson("it is nested too deep") from None
        at = _next(self.text, at)
        if at < len(self.text):
            raise _wrong(self.text, at, "there is more behind the end")
        return value

    def value(self, at: int, path: tuple[str, ...] | None) -> tuple[Any, int]:
        """A value and where it ends; objects below an array have no path."""
        char = self.text[at : at + 1]
        if char == "{":
            return self.object(at, path)
        if char == "[":
            return self.array(at)
        try:
            return self.decoder.raw_decode(self.text, at)
        except ValueError:
            why = f"{self.text[at : at + 20]!r} is no JSON" if char else "it ends too early"
            raise _wrong(self.text, at, why) from None

    def object(self, start: int, path: tuple[str, ...] | None) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        entries: dict[str, _Entry] = {}
        at = _next(self.text, start + 1)
        while self.text[at : at + 1] != "}":
            if self.text[at : at + 1] != '"':
                raise _wrong(self.text, at, "a key in quotes is missing")
            key, end = self.value(at, None)
            colon = _next(self.text, end)
            if self.text[colon : colon + 1] != ":":
                raise _wrong(self.text, colon, f"a colon is missing behind {key!r}")
            place = _next(self.text, colon + 1)
            found[key], end = self.value(place, None if path is None else (*path, key))
            entries[key] = _Entry(at, place, end)
            at = self.comma(end, "}")
        if path is not None:
            self.objects[path] = _Object(start, at, entries)
        return found, at + 1

    def array(self, start: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = _next(self.text, start + 1)
        while self.text[at : at + 1] != "]":
            one, end = self.value(at, None)
            found.append(one)
            at = self.comma(end, "]")
        return found, at + 1

    def comma(self, end: int, closing: str) -> int:
        """The offset of the next entry, or of the end."""
        at = _next(self.text, end)
        if self.text[at : at + 1] == ",":
            return _next(self.text, at + 1)
        if self.text[at : at + 1] != closing:
            raise _wrong(self.text, min(end, at), f"a comma or {closing} is missing")
        return at
