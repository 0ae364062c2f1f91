"""Code spans and HTML comments inside of one piece of Markdown: what begins first hides what is in it.

Linear in its length: what was looked for in vain is not looked for again.
"""

from __future__ import annotations


def inert(raw: bytes, start: int, end: int, *, html: bool = False) -> list[tuple[int, int]]:
    """The code spans and comments between two offsets; in HTML a comment that is not closed hides all the rest."""
    spans: list[tuple[int, int]] = []
    runs = _runs(raw, start, end)
    tick, angle, slash = (raw.find(mark, start, end) for mark in (b"`", b"<!--", b"\\"))
    at = start
    while tick >= 0 or angle >= 0:
        tick = raw.find(b"`", at, end) if 0 <= tick < at else tick
        angle = raw.find(b"<!--", at, end) if 0 <= angle < at else angle
        slash = raw.find(b"\\", at, end) if 0 <= slash < at else slash
        if tick < 0 and angle < 0:
            break
        first = min(place for place in (tick, angle) if place >= 0)
        if 0 <= slash < first:
            at = slash + 2
            continue
        if first == angle:
            at = _comment_end(raw, angle, end)
            if at < 0 and not html:
                at, angle = first + 4, -1  # no comment is closed behind this place
                continue
            at = at if at >= 0 else end
            spans.append((first, at))
            continue
        width = width_at(raw, tick, end)
        at = _closer(runs.get(width), tick + width)
        if at < 0:
            at = tick + width
        else:
            spans.append((tick, at))
    return spans


def _comment_end(raw: bytes, at: int, end: int) -> int:
    for short in (b"<!-->", b"<!--->"):
        if raw.startswith(short, at, end):
            return at + len(short)
    found = raw.find(b"-->", at + 4, end)
    return found + 3 if found >= 0 else -1


def is_open(raw: bytes, start: int, end: int) -> bool:
    """Whether a piece of HTML ends inside a comment."""
    spans = inert(raw, start, end, html=True)
    return bool(spans) and raw.startswith(b"<!--", spans[-1][0]) and _comment_end(raw, spans[-1][0], end) < 0


def width_at(raw: bytes, at: int, end: int) -> int:
    """How long the run of one character is that begins here."""
    byte, first = raw[at], at
    while at < end and raw[at] == byte:
        at += 1
    return at - first


def _runs(raw: bytes, start: int, end: int) -> dict[int, list[int]]:
    """Where the runs of backticks end, by their length, the last one first."""
    found: dict[int, list[int]] = {}
    at = raw.find(b"`", start, end)
    while at >= 0:
        width = width_at(raw, at, end)
        found.setdefault(width, []).append(at + width)
        at = raw.find(b"`", at + width, end)
    for ends in found.values():
        ends.reverse()
    return found


def _closer(ends: list[int] | None, after: int) -> int:
    """The end of the next run of this length, or -1; what lies behind us is never asked for again."""
    while ends and ends[-1] <= after:
        ends.pop()
    return ends[-1] if ends else -1
