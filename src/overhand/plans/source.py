"""A plan's text: read as YAML or JSON, and the line of everything in it, found only when somebody asks."""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from overhand.documents.problems import Problem, wrong
from overhand.documents.text import unix

JSON_LIMIT = 256 * 1024 * 1024
YAML_LIMIT = 8 * 1024 * 1024
DEPTH = 100
EXPANDED = 100_000
"""How many values aliases may add to a file."""

Path = tuple[str | int, ...]
Locate = Callable[[Path], int | None]


class Source:
    """What a text holds: its value, what is wrong with it, and where things stand."""

    __slots__ = ("_locate", "eager", "problems", "value")

    def __init__(
        self, value: Any, problems: list[Problem], locate: Locate | None = None, *, eager: bool = False
    ) -> None:
        self.value = value
        self.problems = problems
        self._locate = locate
        self.eager = eager
        """Whether a line costs next to nothing, so that every node can know its own."""

    def line(self, path: Path) -> int | None:
        """The line on which the thing at this path stands, else that of what is around it."""
        return self._locate(path) if self._locate else None


def load(text: str | bytes, name: str = "") -> Source:
    """A plan's text as values; `name` tells the format where the text does not."""
    if isinstance(text, bytes):
        decoded, problems = _decode(text)
    else:
        decoded, problems = _clean(text)
    if problems:
        return Source(None, problems)
    from overhand.plans import jsonsource, yamlsource

    # JSON is nearly always YAML too, but is read a hundred times as fast.
    if name.lower().endswith(".json"):
        return jsonsource.load(decoded)
    if decoded.lstrip()[:1] in ("{", "["):
        found = jsonsource.load(decoded)
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
        wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        message = (
            "The file is UTF-16."
            if wide
            else f"Byte {error.start} (0x{raw[error.start]:02x}) of the file is not UTF-8."
        )
        return "", [wrong("plan-encoding", message, line, "Save the file as UTF-8.")]


def _clean(text: str) -> tuple[str, list[Problem]]:
    """The text without BOM and with LF only, unless it holds what no file may hold."""
    if len(text) > JSON_LIMIT:
        return "", [too_large(len(text), JSON_LIMIT)]
    text = unix(text.removeprefix("\ufeff"))
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
    """The file is beyond what is read."""
    message = f"The file has {size / 1048576:.1f} MB; {kind} may have {limit // 1048576}."
    return wrong("plan-too-large", message, fix="Split the plan, or put long material into files and name them.")


def syntax(kind: str, message: str, line: int | None, fix: str) -> Problem:
    """The text is not what it should be."""
    return wrong("plan-syntax", f"This is not valid {kind}: {message}.", line, fix)


class Newlines:
    """From a place in a text to the number of its line."""

    __slots__ = ("_ends", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: Sequence[int] | None = None

    def line(self, offset: int) -> int:
        """The line of the character at `offset`."""
        if self._ends is None:
            self._ends = [found.start() for found in re.finditer("\n", self._text)]
        return bisect_right(self._ends, offset - 1) + 1


def surrogates(value: object) -> bool:
    """Whether a string in here is half a pair of characters (an escape can say so)."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if not one.isascii() and _HALF.search(one):
                return True
        elif isinstance(one, dict):
            waiting += one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False


_HALF = re.compile("[\ud800-\udfff]")


@contextmanager
def without_collecting(large: bool) -> Iterator[None]:
    """A large plan is hundreds of thousands of values that all stay: searching them for garbage doubles the time."""
    pause = large and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()
