"""One text for equal JSON values: 1 and 1.0 are equal, true and 1 are not, the order of keys does not matter."""

from __future__ import annotations

import json
from typing import Any


def canonical(value: object) -> str:
    """The value as canonical JSON; raises ValueError for what JSON does not have, such as NaN."""
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal."""
    return _quickly(one, other) if _scalar(one) or _scalar(other) else _alike(one, other)


def _scalar(value: object) -> bool:
    return not isinstance(value, (dict, list))


def _quickly(one: object, other: object) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _alike(one: object, other: object) -> bool:
    todo = [(one, other)]
    while todo:
        left, right = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            todo += [(value, right[key]) for key, value in left.items()]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            todo += zip(left, right, strict=True)
        elif not (_scalar(left) and _scalar(right) and _quickly(left, right)):
            return False
    return True


def _plain(value: Any) -> Any:
    """The value with whole floats as integers; everything else as it is."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is no string")
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
