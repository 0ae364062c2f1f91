"""JSON as it stands in documents: strict reading, readable writing."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE = 100_000


def load(text: str) -> tuple[object, str]:
    """The value and "" or None and what is wrong, in words; NaN and infinities are refused."""
    import json

    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite), ""
    except json.JSONDecodeError as error:
        return None, f"{error.msg} (line {error.lineno}, column {error.colno})"
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, str(error)


def _refuse(word: str) -> float:
    raise ValueError(f"the number {word[:20]} cannot be held")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _refuse(digits)


def dump(value: object) -> str:
    """Indented JSON with readable characters; large values on one line, which is written much faster."""
    import json

    text = json.dumps(value, ensure_ascii=False)
    if len(text) < _WIDE:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    # Half a character pair cannot be written as UTF-8; as an escape it can.
    return json.dumps(value, indent=2) if _SURROGATE.search(text) else text
