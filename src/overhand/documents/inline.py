"""The content of a piece of Markdown: code spans and HTML comments, inline code and the cells of a table's row.

Linear in its length: a failed search is not repeated.
"""

from __future__ import annotations


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


_PLAIN_ITEM = r"[-*] (`[^`\n]+`[^<\\\n]*)"
_MANY = 200  # lines of a list from which on it is worth looking for this


def plain_items(body: str) -> list[str] | None:
    """The items of a long list in which each is one line that begins with code; None for anything else.

    Nothing in it needs to be understood as Markdown, which takes several times as long.
    """
    if body.count("\n") < _MANY:
        return None
    import re  # light verbs scan Markdown without it

    item = re.compile(_PLAIN_ITEM)
    found = [item.fullmatch(row) for row in body.strip("\n").split("\n")]
    return [one[1].rstrip() for one in found if one] if all(found) else None
