"""References to lines of files in prose: `src/tiles.py:40`, `tiles.py:3,9`, `tiles.py:1-9`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from overhand.documents.problems import Problem, by_line, warning

# The look-behind lets a match begin at the start of a word only: no URL's tail, and a long run costs one try.
_REFERENCE = re.compile(
    r"(?<![\w./:@%+~#=&?$\\-])([\w./@+~-]+):"
    r"([0-9]{1,9}(?:[-\u2013][0-9]{1,9})?(?:,[0-9]{1,9}(?:[-\u2013][0-9]{1,9})?)*)(?!\w|-\w|\.[0-9])"
)
# `example.com:443` is a host and its port.
_HOSTS = frozenset(("com", "org", "net", "io"))


@dataclass(frozen=True, slots=True)
class Reference:
    """A file and the lines in it that somebody points at."""

    path: str
    lines: tuple[tuple[int, int], ...]
    """First and last line of each part; equal for a single line."""
    line: int = 0
    """Where the reference stands."""


def references(text: str) -> list[Reference]:
    """Every `file:lines` in a text, also in inline code; no times, versions, hosts or URLs."""
    found: list[Reference] = []
    number, counted = 1, 0
    for match in _REFERENCE.finditer(text):
        path = match.group(1)
        if _is_path(path):
            number += text.count("\n", counted, match.start())
            counted = match.start()
            found.append(Reference(path, tuple(_span(one) for one in match.group(2).split(",")), number))
    return found


def _is_path(text: str) -> bool:
    """Whether a word can be a file: a suffix with a letter in it, or a folder and a name with a letter."""
    folder, _, name = text.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if folder and any(char.isalpha() for char in name):
        return True
    return bool(dot) and any(char.isalpha() for char in suffix) and not (stem and suffix.lower() in _HOSTS)


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.replace("\u2013", "-").partition("-")
    return int(first), int(last or first)


def check_references(refs: Iterable[Reference], size_of: Callable[[str], int | None]) -> list[Problem]:
    """What does not hold; `size_of` tells how many lines a file has, None if it is not there.

    A bare name may stand for the one file of that name that another reference names in full.
    """
    seen: dict[tuple[str, tuple[tuple[int, int], ...]], Reference] = {}
    for one in refs:
        seen.setdefault((one.path, one.lines), one)
    sizes = {path: size_of(path) for path in dict.fromkeys(path for path, _ in seen)}
    problems: list[Problem] = []
    for one in seen.values():
        size = sizes[one.path]
        if size is None:
            longer = [path for path in sizes if path.endswith(f"/{one.path}")]
            size = sizes[longer[0]] if len(longer) == 1 else None
        if size is None:
            fix = "Correct the path, written from the project's folder."
            problems.append(warning("reference-missing", f"The file {one.path} is not there.", one.line, fix))
        else:
            problems += [found for span in one.lines for found in _check_span(one, span, size)]
    return by_line(problems)


def _check_span(one: Reference, span: tuple[int, int], size: int) -> list[Problem]:
    first, last = span
    shown = f"{one.path}:{first}" if first == last else f"{one.path}:{first}-{last}"
    if 1 <= first <= last <= size:
        return []
    if first < 1 or last < first:
        message = f"{shown} names no lines: they are counted from 1, the first one first."
    else:
        message = f"{shown} is beyond the end: the file has {size} line{'' if size == 1 else 's'}."
    return [warning("reference-beyond", message, one.line, "Look up the line again.")]
