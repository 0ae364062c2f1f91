"""The same answer as `mentions` for files that are easy to read, from a few searches instead of every line.

Easy is a file without CRs whose fences stand at the margin and which has no HTML at the beginning of a line. There, a
place is inert only inside of a fence, or inside of the few lines around it up to the next blank ones.
"""

from __future__ import annotations

from _codecs import utf_16_le_decode

from overhand.documents import mentions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = b" \t>-+*0123456789.)"  # what containers and indents are made of
_PAIR = "\u6060"  # two backticks
_FAR = 200  # bytes: no container begins that far to the right


def live(raw: bytes, places: list[int]) -> list[int]:
    """Those of the places, given in ascending order, that are not inert."""
    found = guess(raw, places)
    return mentions.live_among(mentions.blocks(raw), raw, places) if found is None else found


def guess(raw: bytes, places: list[int]) -> list[int] | None:
    """The same, of at least one place; None if that takes reading every line."""
    start = mentions.body(raw) if raw.startswith((b"---", mentions.BOM)) else 0
    last = places[-1]
    # single bytes are looked for ten times faster than longer marks
    has_tildes = raw.find(b"~", start, last) >= 0
    if not has_tildes and raw.find(b"`", start) < 0 and raw.find(b"<", start, last) < 0:
        return [place for place in places if place >= start] if start else places
    if raw.find(b"\r") >= 0 or _has_html(raw, start, last):
        return None
    fences = None if has_tildes else _simple_fences(raw, start, last)
    if fences is None:
        fences = _fences(raw, start, last)
    return None if fences is None else _outside(raw, places, fences, start)


def _before(raw: bytes, at: int, start: int) -> bytes:
    """What stands before a place in its line, at least the last part of it."""
    low = max(start, at - _FAR)
    return raw[max(raw.rfind(b"\n", low, at) + 1, low) : at]


def _has_html(raw: bytes, start: int, last: int) -> bool:
    """Whether a line up to here begins with what may be HTML."""
    at = raw.find(b"<", start, last)
    while at >= 0:
        if not _before(raw, at, start).strip(_PREFIX):
            return True
        at = raw.find(b"<", at + 1, last)
    return False


def _simple_fences(raw: bytes, start: int, last: int) -> list[tuple[int, int]] | None:
    """The fences that begin before the last place, if all are of three backticks, at the margin, and nothing else is
    like them."""
    found: list[tuple[int, int]] = []
    begin = -1
    for at in _marks(raw, start, last):
        follows = raw[at + 3]  # at least the place itself
        if (raw[at - 1] != 0x0A and at > start) or follows in b"` \t":
            return None
        if begin < 0:
            if follows != 0x0A and raw.find(b"`", at + 3, _line_end(raw, at)) >= 0:
                return None
            begin = at
        elif follows == 0x0A:
            found.append((begin, at + 3))
            begin = -1
    return [*found, (begin, len(raw))] if begin >= 0 else found


def _marks(raw: bytes, start: int, last: int) -> Iterator[int]:
    """Where three backticks stand; of more in a row, at least where the first three do."""
    # Two bytes at a time are read as one character: of three backticks, two always make one, and one character is found
    # several times faster than three bytes.
    head = raw if len(raw) < 2 * last else raw[:last]
    try:
        pairs = utf_16_le_decode(head, "strict", False)[0]
    except UnicodeDecodeError:
        pairs = ""
    if len(pairs) != len(head) // 2:  # four of the bytes would be one character
        at = raw.find(b"```", start, last)
        while at >= 0:
            yield at
            at = raw.find(b"```", at + 3, last)
        return
    stop = (last + 1) // 2
    half = pairs.find(_PAIR, start // 2, stop)
    while half >= 0:
        at = half + half
        if at and raw[at - 1] == 0x60:
            at -= 1
        if raw[at + 2] == 0x60:
            yield at
        half = pairs.find(_PAIR, half + 1, stop)


def _fences(raw: bytes, start: int, last: int) -> list[tuple[int, int]] | None:
    """The fences that begin before the last place; None if one of them may stand inside of something."""
    found: list[tuple[int, int]] = []
    ticks, tildes = raw.find(b"```", start), raw.find(b"~~~", start)
    at = start
    while True:
        ticks = raw.find(b"```", at) if 0 <= ticks < at else ticks
        tildes = raw.find(b"~~~", at) if 0 <= tildes < at else tildes
        first = min(ticks, tildes) if ticks >= 0 and tildes >= 0 else max(ticks, tildes)
        if first < 0 or first >= last:
            return found
        before, run = _before(raw, first, start), _run(raw, first)
        at = first + len(run)
        if not before:
            if run[0] == 0x7E or raw.find(b"`", at, _line_end(raw, at)) < 0:
                at = _close(raw, at, run)
                found.append((first, at))
        elif not before.strip(_PREFIX):
            return None


def _close(raw: bytes, at: int, opener: bytes) -> int:
    """Where a fence at the margin ends."""
    while (at := raw.find(opener, at)) >= 0:
        run, before = _run(raw, at), _before(raw, at, 0)
        at += len(run)
        if len(before) < 4 and not before.strip(b" ") and not raw[at : (end := _line_end(raw, at))].strip(b" \t"):
            return end
    return len(raw)


def _line_end(raw: bytes, at: int) -> int:
    end = raw.find(b"\n", at)
    return end if end >= 0 else len(raw)


def _run(raw: bytes, at: int) -> bytes:
    end = at
    while end < len(raw) and raw[end] == raw[at]:
        end += 1
    return raw[at:end]


def _outside(raw: bytes, places: list[int], fences: list[tuple[int, int]], start: int) -> list[int] | None:
    found: list[int] = []
    low = high = start  # the lines that the last place stood among
    clear = True  # nothing in them hides anything
    inside = iter([*fences, (len(raw), len(raw))])
    fence, floor = next(inside), start
    for index, place in enumerate(places):
        while place >= fence[1]:
            floor = high = min(fence[1] + 1, len(raw))
            fence = next(inside)
        if place < start or place >= fence[0]:
            continue
        if place >= high:  # now those from the blank line before it to the one behind it
            low, high = raw.rfind(b"\n\n", floor, place) + 2, raw.find(b"\n\n", place)
            low, high = (low if low > 1 else floor), (high if high >= 0 else len(raw))
            clear = raw.find(b"`", low, high) < 0 and raw.find(b"<!--", low, high) < 0
            if not clear:
                among = _below(places, index, min(high, fence[0]))
                shown = _by_lines(raw, low, high, among)
                if shown is None and raw[low] in b" \t":
                    return None  # it may belong to a list that began earlier
                found += mentions.live_among(mentions.blocks(raw, low, high), raw, among) if shown is None else shown
        if clear:
            found.append(place)
    return found


def _by_lines(raw: bytes, low: int, high: int, places: list[int]) -> list[int] | None:
    """The live ones, if each line opens and closes its own code spans: then it does not matter what kind it is."""
    text = raw[low:high]
    if text.find(b"\\") >= 0 or text.find(b"``") >= 0 or text.find(b"<!--") >= 0:  # `in` takes longer
        return None
    for line in text.split(b"\n"):
        if line.count(b"`") % 2:
            return None
    found: list[int] = []
    odd, seen = 0, low
    for place in places:
        odd ^= raw.count(b"`", seen, place) & 1
        seen = place
        if not odd:
            found.append(place)
    return found


def _below(places: list[int], index: int, end: int) -> list[int]:
    """The places from this one up to an offset."""
    if places[-1] < end:
        return places[index:]
    stop = index
    while stop < len(places) and places[stop] < end:
        stop += 1
    return places[index:stop]
