"""From bytes to text, and from text to JSON: the one place that handles encodings, line ends, sizes, and how
strictly JSON is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from overhand.documents.problems import Problem, warning

LIMIT = 16 * 1024 * 1024
_SURROGATE = re.compile("[\ud800-\udfff]")
_WIDE = 100_000
# The same pattern stands in the schemas: a date, a time, and Z or an offset.
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})"
)
TIMESTAMP = "a string like 2026-02-25T11:30:00Z"
FILLED = "a string that is not blank"


def decode_text(raw: bytes) -> tuple[str, list[Problem]]:
    """Text with the BOM removed and every line end (CRLF, CR) normalised to LF.

    Documents are read as values, so line ends are normalised here; edits in place work on the undecoded
    text through `overhand.documents.markdown`, whose spans keep CRLF.
    """
    if len(raw) > LIMIT:
        size = f"{len(raw) / 1048576:.1f} MB"
        fix = "Put long material into files and name them here."
        return "", [Problem("too-large", f"The document has {size}; at most 16 MB are read.", fix=fix)]
    problems: list[Problem] = []
    if wide := _wide_encoding(raw):
        return unix_lines(raw.decode(wide, "replace").removeprefix("\ufeff")), problems
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        text = raw.decode("utf-8", "replace")
        message = f"Byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8; it was replaced."
        problems.append(warning("broken-utf8", message, line, "Save the file as UTF-8."))
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        problems.append(
            warning("nul-byte", "The text holds NUL bytes.", line, "Remove them; they may be a torn write.")
        )
    return unix_lines(text), problems


def _wide_encoding(raw: bytes) -> str:
    """UTF-16 by its mark, or by every other byte being zero, as shells on Windows write it."""
    head = raw[:200]
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(head) < 8 or b"\0" not in head:
        return ""
    zeros = head[0::2].count(0), head[1::2].count(0)
    if max(zeros) < len(head) * 0.4 or min(zeros) > 2:
        return ""
    return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"


def plain_quotes(text: str) -> str:
    """JSON whose quotes were made typographic, as it was; a text that has real ones is left alone."""
    return text.replace("“", '"').replace("”", '"') if "“status”" in text and '"' not in text else text


def unix_lines(text: str) -> str:
    """`text` with LF as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def one_line(text: str) -> str:
    """`text` reduced to one line."""
    return " ".join(part for part in unix_lines(text).split("\n") if part) if "\n" in text or "\r" in text else text


def shorten(text: str, limit: int) -> str:
    """`text` cut at a word, with an ellipsis, if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    head = cut.rsplit(" ", 1)[0] if " " in cut[limit // 2 :] else cut
    return head.rstrip(" ,;:") + "…"


def load_json(text: str) -> tuple[object, str]:
    """The value and "", or None and an error message; NaN and infinities are refused."""
    import json

    try:
        return json.loads(text, parse_constant=refuse_number, parse_float=finite_float), ""
    except json.JSONDecodeError as error:
        return None, f"{error.msg} (line {error.lineno}, column {error.colno})"
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, str(error)


def refuse_number(word: str) -> float:
    """Raise for a number that JSON doesn't have or a float can't hold; for `parse_constant`."""
    raise ValueError(f"the number {word[:20]} cannot be held")


def finite_float(digits: str) -> float:
    """A finite float; for `parse_float`."""
    number = float(digits)
    return number if abs(number) != float("inf") else refuse_number(digits)


def dump_json(value: object) -> str:
    """Indented JSON with readable characters; large values on one line, which is written much faster."""
    import json

    text = json.dumps(value, ensure_ascii=False)
    if len(text) < _WIDE:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    # Half a character pair cannot be written as UTF-8; as an escape it can.
    return json.dumps(value, indent=2) if _SURROGATE.search(text) else text


def load_object(text: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The one JSON object that a file holds, or what is wrong with the file."""
    value, error = load_json(text)
    if error:
        fix = "Write one JSON object."
        return None, [Problem("not-json", f"The file is not JSON: {error}.", of="substance", fix=fix)]
    if not isinstance(value, dict):
        return None, [Problem("not-an-object", "The file holds no JSON object.", fix="Write {…}.")]
    return value, []


def missing(value: Mapping[str, Any], keys: Iterable[str]) -> list[Problem]:
    """The keys that an object must have and lacks."""
    return [Problem("field-missing", f"{key} is missing.", fix=f"Add {key}.") for key in keys if value.get(key) is None]


def mistyped(key: str, needed: str) -> Problem:
    """The problem of a value with the wrong type."""
    return Problem("field-type", f"{key} must be {needed}.", fix=f"Write {key} as {needed}.")


def unknown(value: Mapping[str, Any], known: Iterable[str]) -> list[Problem]:
    """The keys that the format doesn't have."""
    extra = sorted(value.keys() - set(known))
    return [warning("field-unknown", f"Not part of the format, ignored: {', '.join(extra)}.")] if extra else []


def is_timestamp(value: object) -> bool:
    """Whether this is a timestamp as all documents write it: `2026-02-25T11:30:00Z`."""
    return isinstance(value, str) and bool(_TIMESTAMP.fullmatch(value))


def is_filled(value: object) -> bool:
    """Whether this is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_texts(value: object) -> bool:
    """Whether this is a list of texts."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_whole(value: object, least: int, most: float = float("inf")) -> bool:
    """Whether this is a whole number in these bounds; 1.0 is one to JSON Schema, and to us."""
    whole = value.is_integer() if isinstance(value, float) else type(value) is int
    return whole and least <= value <= most  # type: ignore[operator] # it is a number by now
