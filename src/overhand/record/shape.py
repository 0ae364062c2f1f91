"""Whether a line of a log has the shape of its event: a damaged line is left out and named, whatever it says."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from overhand.record.task import Line

EVENT_KIND = "e"  # the key that comes first in every line
DAMAGED = "damaged"  # the kind that stands for a line that is no JSON object
_LARGE = 1 << 53  # beyond it a number of JSON is not exact, and no time or amount
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
}
_OPTIONAL: dict[str, dict[str, tuple[type, ...]]] = {
    "item": {
        **dict.fromkeys(("path", "kind", "stage", "was", "digest", "whole", "line", "how", "mode"), (str,)),
        **dict.fromkeys(("again", "origin", "asked"), (str,)),
        "rank": (int, float),
        "weights": (list, tuple),
    },
    "resume": dict.fromkeys(("run", "why", "from", "note", "cause"), (str, _NONE)),
    "limit": {"driver": (str,), "until": (int, float, str, _NONE), "why": (str, _NONE), "to": (str, _NONE)},
    "by": dict.fromkeys(("kind", "user", "run", "via", "task"), (str, _NONE)),
}


def allowed_types(annotation: str) -> tuple[tuple[type, ...], tuple[type, ...]]:
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


def problem_of(line: Line, fields: Mapping[str, tuple[tuple[type, ...], tuple[type, ...]]]) -> str:
    """What is wrong with the shape of a line, for a kind with these fields; empty if nothing is."""
    for name, value in line.items():
        known = fields.get(name)
        if known is None:
            continue  # of a newer version
        kind = type(value)
        if kind not in known[0]:
            return f"`{name}` is no {known[0][0].__name__}"
        if kind is int or kind is float:
            if not -_LARGE < value < _LARGE:
                return f"`{name}` is out of range"
        elif kind is not str and kind is not bool and value and (wrong := _problem_inside(name, value, known[1])):
            return wrong
    return ""


def _problem_inside(name: str, value: Any, elements: tuple[type, ...]) -> str:
    many = value if isinstance(value, list | tuple) else [value]
    if elements and any(type(one) not in elements for one in many):
        return f"`{name}` has something else in it than {elements[0].__name__}"
    for one in many if isinstance(value, list | tuple | dict) else ():
        for key, types in _NESTED.get(name, {}).items():
            if type(one.get(key)) not in types:
                return f"`{name}.{key}` is no {types[0].__name__}"
        for key, types in _OPTIONAL.get(name, {}).items():
            if key in one and type(one[key]) not in types:
                return f"`{name}.{key}` is no {types[0].__name__}"
    return ""
