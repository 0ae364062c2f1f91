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


def inert(text: str, start: int, end: int, *, html: bool = False) -> list[tuple[int, int]]:
    """The code spans and comments between two offsets; the one that begins first hides what is inside it.

    In HTML an unclosed comment hides all the rest.
    """
    spans: list[tuple[int, int]] = []
    tick, angle, slash = (text.find(mark, start, end) for mark in ("`", "<!--", "\\"))
    runs = _runs(text, tick, end) if tick >= 0 else {}
    at = start
    while tick >= 0 or angle >= 0:
        tick = text.find("`", at, end) if 0 <= tick < at else tick
        angle = text.find("<!--", at, end) if 0 <= angle < at else angle
        slash = text.find("\\", at, end) if 0 <= slash < at else slash
        if tick < 0 and angle < 0:
            break
        first = min(place for place in (tick, angle) if place >= 0)
        if 0 <= slash < first:
            at = slash + 2
            continue
        if first == angle:
            at = _comment_end(text, angle, end)
            if at < 0 and not html:
                at, angle = first + 4, -1  # no comment is closed after this offset
                continue
            at = at if at >= 0 else end
            spans.append((first, at))
            continue
        width = width_at(text, tick, end)
        at = _closer(runs.get(width), tick + width)
        if at < 0:
            at = tick + width
        else:
            spans.append((tick, at))
    return spans


def _comment_end(text: str, at: int, end: int) -> int:
    for short in ("<!-->", "<!--->"):
        if text.startswith(short, at, end):
            return at + len(short)
    found = text.find("-->", at + 4, end)
    return found + 3 if found >= 0 else -1


def is_open(text: str, start: int, end: int) -> bool:
    """Whether a piece of HTML ends inside a comment."""
    spans = inert(text, start, end, html=True)
    return bool(spans) and text.startswith("<!--", spans[-1][0]) and _comment_end(text, spans[-1][0], end) < 0


def width_at(text: str, at: int, end: int) -> int:
    """How long the run of one character is that begins here."""
    char, first = text[at], at
    while at < end and text[at] == char:
        at += 1
    return at - first


def _runs(text: str, at: int, end: int) -> dict[int, list[int]]:
    """Where the runs of backticks end, by their length, the last one first."""
    found: dict[int, list[int]] = {}
    while at >= 0:
        width = width_at(text, at, end)
        found.setdefault(width, []).append(at + width)
        at = text.find("`", at + width, end)
    for ends in found.values():
        ends.reverse()
    return found


def _closer(ends: list[int] | None, after: int) -> int:
    """The end of the next run of this length, or -1; earlier runs are dropped, as offsets only grow."""
    while ends and ends[-1] <= after:
        ends.pop()
    return ends[-1] if ends else -1


def code(text: str) -> str:
    """`text` as inline code, whatever backticks it holds."""
    if "`" not in text and text[:1] != " ":
        return f"`{text}`"
    fence = "`" * (max(_runs(text, text.find("`"), len(text)), default=0) + 1)
    pad = " " if text.strip(" ") and (text[0] in "` " or text[-1] in "` ") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def leading_code(text: str) -> tuple[str, int] | None:
    """The inline code `text` begins with, and the offset after it."""
    if text[:1] != "`":
        return None
    width = width_at(text, 0, len(text))
    end = _closer(_runs(text, 0, len(text))[width], width)
    if end < 0:
        return None
    inside = text[width : end - width]
    if inside[:1] == " " and inside[-1:] == " " and inside.strip(" "):
        inside = inside[1:-1]
    return inside, end


def cells(row: str) -> list[str]:
    """The cells of one table row; a pipe that is escaped or inside inline code does not split."""
    row = row.strip()
    if "`" not in row and "\\" not in row:
        return [cell.strip() for cell in row.removeprefix("|").removesuffix("|").split("|")]
    inside = iter([*(span for span in inert(row, 0, len(row)) if row[span[0]] == "`"), (len(row), len(row))])
    span = next(inside)
    found: list[str] = []
    begin = 0
    pipe = row.find("|")
    while pipe >= 0:
        while pipe >= span[1]:
            span = next(inside)
        if pipe < span[0] and not _slashes(row, pipe) % 2:
            if pipe:
                found.append(row[begin:pipe])
            begin = pipe + 1
        pipe = row.find("|", pipe + 1)
    if begin < len(row):
        found.append(row[begin:])
    return [uncell(one.strip()) for one in found]


def _slashes(text: str, end: int) -> int:
    """How many backslashes stand before an offset."""
    at = end
    while at and text[at - 1] == "\\":
        at -= 1
    return end - at


def uncell(text: str) -> str:
    """The inverse of `cell`: the backslashes before a pipe are halved."""
    if "\\|" not in text:
        return text
    *parts, last = text.split("|")
    return "|".join([*(part[: len(part) - (_slashes(part, len(part)) + 1) // 2] for part in parts), last])


def cell(text: str) -> str:
    """`text` as it stands in a table cell; `cells` reads it back."""
    *parts, last = text.split("|")
    return "\\|".join([*(part + "\\" * _slashes(part, len(part)) for part in parts), last])


def is_delimiter(row: list[str]) -> bool:
    """Whether a row is the `|---|:--|` line under a table's head."""
    bare = [one.removeprefix(":").removesuffix(":") for one in row]
    return bool(bare) and all(one and not one.strip("-") for one in bare)


_PLAIN_ITEM = re.compile(r"[-*] (`[^`\n]+`[^<\\\n]*)")
_MANY = 200  # lines of a list from which on it is worth looking for this


def plain_items(body: str) -> list[str] | None:
    """The items of a long list in which each is one line that begins with code; None for anything else.

    Nothing in it needs to be understood as Markdown, which takes several times as long.
    """
    if body.count("\n") < _MANY:
        return None
    found = [_PLAIN_ITEM.fullmatch(row) for row in body.strip("\n").split("\n")]
    return [one[1].rstrip() for one in found if one] if all(found) else None
