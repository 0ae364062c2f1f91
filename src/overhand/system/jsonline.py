"""One JSON value from one line, without importing `json`: a light verb starts in half the time."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Scan = Callable[[str, int], tuple[Any, int]]


class _Settings:
    """The attributes that the C scanner reads from a JSONDecoder."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 -- the scanner asks for this attribute; it is never written


def _scanner() -> Scan:
    try:
        from _json import make_scanner
    except ImportError:  # another Python than CPython: take the slow road
        from json import JSONDecoder

        return JSONDecoder(strict=False).raw_decode
    scan: Scan = make_scanner(_Settings)  # type: ignore[arg-type] # it only reads these attributes
    return scan


_scan = _scanner()


def load_line(line: str) -> Any:
    """Parse one line; raises ValueError for anything that is not exactly one JSON value."""
    text = line.strip()
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # Python 3.11 finds no exception to raise as long as `json` is not imported
        raise ValueError(f"not JSON: {text[:60]!r}") from None
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    if end != len(text):
        raise ValueError(f"more than one JSON value: {text[end : end + 60]!r}")
    return value


def dump_line(value: object) -> str:
    """One line without spaces."""
    return _encode(value)


def dump_spaced(value: object) -> str:
    """One line as `json` writes it, with spaces."""
    return _encoder(", ", ": ")(value)


def _encoder(comma: str, colon: str) -> Callable[[object], str]:
    try:
        from _json import encode_basestring, make_encoder
    except ImportError:  # another Python than CPython: take the slow road
        from json import JSONEncoder

        return JSONEncoder(ensure_ascii=False, separators=(comma, colon)).encode
    parts = make_encoder(None, _refuse, encode_basestring, None, colon, comma, False, False, True)
    return lambda value: "".join(parts(value, 0))


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no word in JSON")


_encode = _encoder(",", ":")
