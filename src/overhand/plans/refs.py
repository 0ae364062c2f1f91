"""References: `${node.field}` in a plan, found and filled in with their types kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
_REF = re.compile(rf"\$\{{[ \t]*({_NAME})((?:\.{_NAME})*)[ \t]*\}}")
_ANY = re.compile(r"\$?\$\{")


class Ref(NamedTuple):
    """What a `${…}` names: a node and a field of its data, dotted; without one all its data."""

    node: str
    field: str = ""

    def __str__(self) -> str:
        return f"${{{self.node}.{self.field}}}" if self.field else f"${{{self.node}}}"


def find(value: Any) -> list[Ref]:
    """Every reference in a value, in order, each once."""
    return list(dict.fromkeys(ref for text in texts(value) for ref, _, _ in scan(text) if ref is not None))


def whole(text: str) -> Ref | None:
    """The reference that a text is, if it is nothing else."""
    match = _REF.fullmatch(text)
    return Ref(match[1], match[2][1:]) if match else None


def texts(value: Any) -> list[str]:
    """The strings in a value that hold a `${`; keys are not looked at."""
    if isinstance(value, str):
        return [value] if "${" in value else []
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [text for one in value for text in texts(one)]


def resolve(value: Any, lookup: Callable[[Ref], Any]) -> Any:
    """The value with every reference filled in; one that stands alone keeps the type of what it names.

    `lookup` gives what a reference names, or raises LookupError.
    """
    if isinstance(value, str):
        return _fill(value, lookup) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: resolve(one, lookup) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolve(one, lookup) for one in value]
    return value


def _fill(text: str, lookup: Callable[[Ref], Any]) -> Any:
    alone = whole(text)
    if alone is not None:
        return lookup(alone)
    parts: list[str] = []
    last = 0
    for ref, start, end in scan(text, escapes=True):
        parts += (text[last:start], as_text(lookup(ref)) if ref is not None else text[start:end].replace("$${", "${"))
        last = end
    return "".join([*parts, text[last:]])


def as_text(value: Any) -> str:
    """A value as it stands in the middle of a text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def scan(text: str, *, escapes: bool = False) -> Iterator[tuple[Ref | None, int, int]]:
    """Every `${`: the reference or None, its start and end; `$${` only where it is asked for."""
    at = 0
    while found := _ANY.search(text, at):
        start, at = found.span()
        if found.group() == "$${":
            if escapes:
                yield None, start, at
            continue
        match = _REF.match(text, start)
        at = match.end() if match else at
        yield Ref(match[1], match[2][1:]) if match else None, start, at
