"""Read the values of a plan by their types; every problem is gathered with its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from overhand.documents import Problem, one_line, shorten, warning, wrong
from overhand.plans.model import RESERVED
from overhand.plans.source import Path, Source
from overhand.words import duration

PRIORITIES = {"CRITICAL": "P0", "HIGH": "P1", "MEDIUM": "P2", "LOW": "P3", **{f"P{one}": f"P{one}" for one in range(4)}}
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
AGENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_BUDGET = re.compile(r"(\d[\d_,]*(?:\.\d+)?)\s*([kKmM]?)(?:\s*tokens?)?")
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_SUGGESTIONS = 100  # problems with a suggestion: each takes time


class Gather:
    """Reads values by their type; what is wrong is noted and replaced by nothing."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[tuple[Problem, Path]] = []
        self.notes: dict[str, None] = {}

    def wrong(self, code: str, message: str, path: Path, fix: str) -> None:
        self.found.append((wrong(code, message, fix=fix), path))

    def warn(self, code: str, message: str, path: Path, fix: str) -> None:
        self.found.append((warning(code, message, fix=fix), path))

    def problems(self) -> list[Problem]:
        """Everything that was noted, with its line."""
        return [replace(one, line=self.source.line(path)) for one, path in self.found]

    def typed(self, value: Any, path: Path, wanted: str, fix: str) -> None:
        """Note that a value has another type than was wanted."""
        name = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this entry" if path else "the plan"
        self.wrong("plan-type", f"{name} must be {wanted}, not {kind(value)}.", path, fix)

    def unknown(self, key: str, known: Iterable[str], path: Path, where: str) -> None:
        """Note a key that is not read: an error where it looks like a typo, else a warning."""
        near = nearest(key, known) if len(self.found) < _SUGGESTIONS else ""
        shown = shorten(one_line(key), 60)
        if near:
            message = f"{where} has no key `{shown}`. Did you mean `{near}`?"
            self.wrong("plan-key", message, path, f"Write `{near}:`, or remove the line.")
        else:
            message = f"{where} has no key `{shown}`; it is not read."
            self.warn("plan-key", message, path, f"Remove it, or use one of {', '.join(sorted(known))}.")

    # single values

    def text(self, value: Any, path: Path) -> str:
        if type(value) is str:
            return value.strip()
        if value is not None:
            self.typed(value, path, "a text", f'Write `{path[-1] if path else "key"}: "…"` with quotes.')
        return ""

    def name(self, value: Any, path: Path) -> str:
        """A name; a number is one too."""
        if type(value) is str:
            return value.strip()
        if type(value) is int and abs(value) < 10**18:
            return str(value)
        if value is not None:
            self.typed(value, path, "a name", "Write one word.")
        return ""

    def flag(self, value: Any, path: Path) -> bool:
        if type(value) is bool:
            return value
        if value is not None:
            self.typed(value, path, "true or false", f"Write `{path[-1]}: true` or `{path[-1]}: false`.")
        return False

    def mapping(self, value: Any, path: Path) -> Mapping[str, Any]:
        if type(value) is dict:
            return value
        if value is not None:
            fix = f"Write `{path[-1] if path else 'key'}:` and `name: value` lines below it."
            self.typed(value, path, "a mapping", fix)
        return {}

    def rows(self, value: Any, path: Path) -> list[Any]:
        if type(value) is list:
            return value
        if value is not None:
            self.typed(value, path, "a list", f"Write `{path[-1]}: [a, b]`, or lines that begin with `- `.")
        return []

    def words(self, value: Any, path: Path) -> tuple[str, ...]:
        """A list of texts; a single one is a list too."""
        if type(value) is str:
            return (value.strip(),) if value.strip() else ()
        found = []
        for number, one in enumerate(self.rows(value, path)):
            if isinstance(one, str | int) and type(one) is not bool:
                found.append(self.name(one, (*path, number)))
            else:
                self.typed(one, (*path, number), "a text", "Put quotes around it.")
        return tuple(one for one in found if one)

    def choice(self, value: Any, path: Path, allowed: Collection[str], default: str) -> str:
        if type(value) is str and value.strip() in allowed:
            return value.strip()
        if value is None:
            return default
        if type(value) is not str:
            self.typed(value, path, f"one of {', '.join(allowed)}", f"Write `{path[-1]}: {next(iter(allowed))}`.")
            return default
        shown = shorten(one_line(value), 40)
        message = f"`{path[-1]}` is {shown!r}, which is none of its values.{meant(value, allowed)}"
        self.wrong("plan-value", message, path, f"Write one of {', '.join(allowed)}.")
        return default

    def seconds(self, value: Any, path: Path) -> float | None:
        if value is None:
            return None
        if type(value) in (str, int, float):
            try:
                found = duration(value)
            except (ValueError, OverflowError):
                found = 0.0
            if found > 0:
                return found
        message = f"`{path[-1]}` is {shorten(one_line(str(value)[:100]), 40)!r}, which is not a duration above zero."
        self.wrong("plan-duration", message, path, "Write seconds, or `30s`, `5m`, `5min`, `2h`, `1d`.")
        return None

    def tokens(self, value: Any, path: Path) -> int | None:
        if value is None:
            return None
        if type(value) is int and 0 < value < 10**15:
            return value
        match = _BUDGET.fullmatch(value.strip()[:40]) if type(value) is str else None
        found = round(float(match[1].replace("_", "").replace(",", "")) * _TIMES[match[2].lower()]) if match else 0
        if not 0 < found < 10**15:
            message = f"`{path[-1]}` is {shorten(one_line(str(value)[:100]), 40)!r}, which is not a number of tokens."
            self.wrong("plan-budget-value", message, path, "Write `token_budget: 12000` or `12k`.")
            return None
        return found

    def count(self, value: Any, path: Path, top: int = 1_000_000) -> int:
        """A whole number from 0."""
        if type(value) is int and 0 <= value <= top:
            return value
        if value is not None:
            self.typed(value, path, f"a whole number from 0 to {top:,}", f"Write `{path[-1]}: 1`.")
        return 0

    def part(self, value: Any, path: Path) -> float | None:
        if type(value) in (int, float) and 0 <= value <= 1:
            return float(value)
        if value is not None:
            self.typed(value, path, "a number from 0 to 1", f"Write `{path[-1]}: 0.5`.")
        return None

    def priority(self, value: Any, path: Path) -> str:
        """P0 to P3, or the word for it."""
        if type(value) is str and (found := PRIORITIES.get(value.strip().upper())):
            return found
        self.choice(value, path, PRIORITIES, "")
        return "P2"

    def id(self, value: Any, path: Path) -> str:
        """A node's id, or nothing if it cannot be one."""
        name = value if type(value) is str else self.name(value, path)
        if not name:
            if type(value) in (str, type(None)):
                self.wrong("plan-missing", "A node has no id.", path, "Add `id: a-name`.")
            return ""
        if not ID.fullmatch(name):
            message = f"The id {shorten(repr(name), 60)} cannot name a node."
            self.wrong("plan-id", message, path, "Use letters, digits, `-` and `_`, at most 64 of them.")
            return ""
        if name in RESERVED:
            message = f"The id `{name}` has a meaning of its own: {_MEANINGS[name]}."
            self.wrong("plan-id-reserved", message, path, "Give the node another id.")
            return ""
        return name


_MEANINGS = {"all_subtasks": "every node of the plan", "merge": "the step that makes one result of all"}
_KINDS: dict[type, str] = {list: "a list", dict: "a mapping", type(None): "nothing"}


def kind(value: Any) -> str:
    """What a value is, in words."""
    if isinstance(value, str):
        return f"the text {shorten(one_line(value[:200]), 30)!r}" if value else "an empty text"
    if isinstance(value, (bool, int, float)) and len(shown := str(value).lower()) < 30:
        return shown
    return _KINDS.get(type(value), "a number")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or nothing."""
    from difflib import get_close_matches

    wanted = name.strip().lower()[:100]
    names = {one.lower(): one for one in known}
    if wanted in names:
        return names[wanted]
    if len(names) > 2000:  # comparing with all of them takes seconds
        names = {low: one for low, one in names.items() if abs(len(low) - len(wanted)) < 2 and low[:2] == wanted[:2]}
        names = dict(list(names.items())[:2000])
    near = get_close_matches(wanted, names, 1, 0.7)
    return names[near[0]] if near else ""


def meant(name: str, known: Iterable[str]) -> str:
    """` Did you mean X?`, or nothing."""
    near = nearest(name, known)
    return f" Did you mean {near}?" if near else ""
