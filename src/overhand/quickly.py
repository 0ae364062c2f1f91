"""The same answer as `mentions` for files that are easy to read, from a few searches instead of every line.

Easy is a file without CRs whose fences stand at the margin and which has no HTML at the beginning of a line. There, a
place is inert only inside of a fence, or inside of the few lines around it up to the next blank ones.
"""

from __future__ import annotations

from overhand import mentions

_PREFIX = b" \t>-+*0123456789.)"  # what containers and indents are made of
_BLANK = b" \t"
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
    if not has_tildes and raw.find(b"````", start, last) < 0:
        found = _outside_simple(raw, places, start)
        if found is not None:
            return found
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


def _outside_simple(raw: bytes, places: list[int], start: int) -> list[int] | None:
    """The live ones, if all fences are of three backticks and at the margin: then the nearest ones before a place tell
    whether it is in one."""
    found: list[int] = []
    seen = floor = high = start
    inside, clear = False, True
    for index, place in enumerate(places):
        if place < start:
            continue
        if (mark := raw.rfind(b"```", seen, place)) >= 0:
            told = _is_inside(raw, start, seen, mark, inside)
            if told is None:
                return None
            inside, floor, high = told, mark + 4, mark + 4
        seen = place
        if inside:
            continue
        if place >= high:
            low, high = _around(raw, place, floor)
            clear = raw.find(b"`", low, high) < 0 and raw.find(b"<!--", low, high) < 0
            if not clear:
                shown = None if raw.find(b"```", low, high) >= 0 else _among(raw, low, high, _below(places, index, high))
                if shown is None:
                    return None
                found += shown
        if clear:
            found.append(place)
    return found


def _is_inside(raw: bytes, start: int, seen: int, mark: int, was: bool) -> bool | None:
    """Whether a fence is open behind this mark of one, if it was before what was seen; None if that is hard to tell.

    A mark with a word behind it never closes one, so there one is open in any case. One without opens or closes.
    """
    turns = False
    while mark >= 0:
        follows = raw[mark + 3]
        if follows in _BLANK or (mark > start and raw[mark - 1] != 0x0A):
            return None
        if follows != 0x0A:
            return None if raw.find(b"`", mark + 3, _line_end(raw, mark)) >= 0 else not turns
        turns = not turns
        mark = raw.rfind(b"```", seen, mark)
    return was != turns


def _outside(raw: bytes, places: list[int], fences: list[tuple[int, int]], start: int) -> list[int] | None:
    found: list[int] = []
    high = start  # the end of the lines that the last place stood among
    clear = True  # nothing in them hides anything
    inside = iter([*fences, (len(raw), len(raw))])
    fence, floor = next(inside), start
    for index, place in enumerate(places):
        while place >= fence[1]:
            floor = high = min(fence[1] + 1, len(raw))
            fence = next(inside)
        if place < start or place >= fence[0]:
            continue
        if place >= high:
            low, high = _around(raw, place, floor)
            clear = raw.find(b"`", low, high) < 0 and raw.find(b"<!--", low, high) < 0
            if not clear:
                shown = _among(raw, low, high, _below(places, index, min(high, fence[0])))
                if shown is None:
                    return None
                found += shown
        if clear:
            found.append(place)
    return found


def _around(raw: bytes, place: int, floor: int) -> tuple[int, int]:
    """The lines around a place, from the blank line before it to the one behind it."""
    low, high = raw.rfind(b"\n\n", floor, place) + 2, raw.find(b"\n\n", place)
    return (low if low > 1 else floor), (high if high >= 0 else len(raw))


def _among(raw: bytes, low: int, high: int, places: list[int]) -> list[int] | None:
    """The live ones of the places in these lines; None if the lines may belong to a list that began earlier."""
    shown = _by_lines(raw, low, high, places)
    if shown is not None or raw[low] in _BLANK:
        return shown
    return mentions.live_among(mentions.blocks(raw, low, high), raw, places)


def _by_lines(raw: bytes, low: int, high: int, places: list[int]) -> list[int] | None:
    """The live ones, if each line opens and closes its own code spans: then it does not matter what kind it is."""
    text = raw[low:high]
    if b"\\" in text or b"``" in text or b"<!--" in text:
        return None
    found: list[int] = []
    at, index = low, 0
    for line in text.split(b"\n"):
        count = line.count(b"`")
        if count % 2:
            return None
        end, seen, odd = at + len(line), at, 0
        while index < len(places) and places[index] < end:
            if count:
                odd ^= raw.count(b"`", seen, places[index]) & 1
                seen = places[index]
            if not odd:
                found.append(places[index])
            index += 1
        at = end + 1
    return found


def _below(places: list[int], index: int, end: int) -> list[int]:
    """The places from this one up to an offset."""
    stop = index
    while stop < len(places) and places[stop] < end:
        stop += 1
    return places[index:stop]
