"""Whether what lies on disk has the shape that was written: a damaged line of a log is left out and named, a damaged
file is refused."""

from __future__ import annotations

import os

from overhand.errors import Damaged
from overhand.system import MAX_DOCUMENT, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from overhand.record.task import Line

EVENT_KIND = "e"  # the key that comes first in every line
DAMAGED = "damaged"  # the kind that stands for a line that is no JSON object
_LARGE = 1 << 53  # beyond it a number of JSON is not exact, and no time or amount
_MOST_OUTLINES = 100
_NONE = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int, float),
    "float": (float, int),
    "bool": (bool, int),
    "Status": (str,),
    "Cause": (str,),
    "Via": (str,),
    "By": (dict,),
    "None": (_NONE,),
}
_ITEMS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "dict": (dict,)}
_NESTED: dict[str, dict[str, tuple[type, ...]]] = {  # by field: what the object in it must have, or may have
    "parent": {"task": (str,), "run": (str,)},
    "checks": {"name": (str,), "command": (str,)},
    "shield": {"held": (bool,)},
}
_OPTIONAL: dict[str, dict[str, tuple[type, ...]]] = {
    "item": {
        **dict.fromkeys(("path", "kind", "stage", "was", "digest", "whole", "line", "how", "mode"), (str,)),
        **dict.fromkeys(("again", "origin", "asked"), (str,)),
        "rank": (int, float),
        "weights": (list, tuple),
    },
    "resume": dict.fromkeys(("run", "why", "from", "note", "cause"), (str, _NONE)),
    "shield": {"how": (str,), "why": (str,), "root": (bool,), "read_only": (list,), "open": (list,)},
    "limit": {"driver": (str,), "until": (int, float, str, _NONE), "why": (str, _NONE), "to": (str, _NONE)},
}


class Shape:
    """What the fields of one kind of event may hold; made when the first line of that kind is read."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self._types: dict[str, tuple[type, ...]] = {}
        self._elements: dict[str, tuple[type, ...]] = {}
        for name, annotation in annotations.items():
            self._types[name], self._elements[name] = _allowed(annotation)
        self._numbers = [name for name, types in self._types.items() if float in types]
        inner = {*_NESTED, *_OPTIONAL, *(name for name, elements in self._elements.items() if elements)}
        self._nested = [name for name, types in self._types.items() if name in inner and {dict, list} & {*types}]
        self._seen: set[tuple[object, ...]] = set()  # names and types of lines that were fine: most are alike

    def problem_of(self, line: Line) -> str:
        """What is wrong with the shape of a line; empty if nothing is."""
        outline = (*line, *map(type, line.values()))
        if outline not in self._seen:
            for name, value in line.items():
                types = self._types.get(name)  # none for a field of a newer version
                if types is not None and type(value) not in types:
                    return f"`{name}` is no {types[0].__name__}"
            if len(self._seen) < _MOST_OUTLINES:
                self._seen.add(outline)
        for name in self._numbers:
            if name in line and not -_LARGE < (line[name] or 0) < _LARGE:
                return f"`{name}` is out of range"
        for name in self._nested:
            if name in line and (value := line[name]) and (wrong := _problem_inside(name, value, self._elements[name])):
                return wrong
        return ""


def _allowed(annotation: str) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """The types that a field with this annotation may have, and those of the elements of its list."""
    types: list[type] = []
    elements: tuple[type, ...] = ()
    for part in annotation.split(" | "):
        if part.startswith("Sequence["):
            types += (list, tuple)
            elements = _ITEMS[part[9:-1].partition("[")[0]]
        elif part.startswith("dict["):
            types.append(dict)
        else:
            types += _TYPES[part]
    return tuple(types), elements


def _problem_inside(name: str, value: Any, elements: tuple[type, ...]) -> str:
    many = value if isinstance(value, list | tuple) else (value,)
    if elements and not {*elements}.issuperset(map(type, many)):
        return f"`{name}` has something else in it than {elements[0].__name__}"
    needed, possible = _NESTED.get(name), _OPTIONAL.get(name)
    if needed is None and possible is None:
        return ""
    for one in many:
        for key, types in (needed or {}).items():
            if type(one.get(key)) not in types:
                return f"`{name}.{key}` is no {types[0].__name__}"
        for key, inner in one.items() if possible else ():
            if key in (possible or {}) and type(inner) not in (possible or {})[key]:
                return f"`{name}.{key}` is no {(possible or {})[key][0].__name__}"
    return ""


def read_state(
    path: str, limit: int = MAX_DOCUMENT, fits: Callable[[Any], bool] | None = None
) -> dict[str, Any] | None:
    """The object in a file; None if there is no file. Raises `Damaged` for anything else, or if it doesn't fit."""
    raw = read_file(path, limit)
    if raw is None:
        return None
    import json  # light verbs do without it

    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or (fits is not None and not fits(found)):
        name = os.path.basename(path)
        raise Damaged(f"{name} is damaged: it is not what Overhand wrote.", f"Look at it: {path}; or delegate anew.")
    return found
