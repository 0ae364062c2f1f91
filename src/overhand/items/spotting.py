"""Lines with tags from the places that ripgrep names: no second search for them, and no object for each tag."""

from __future__ import annotations

from overhand.documents import tags
from overhand.documents.quickly import live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.items.ripgrep import Spots


def looking(
    prefix: bytes, fits: Callable[[str], bool], *, is_open: bool
) -> Callable[[bytes, Spots | None], dict[int, bytes]]:
    """What finds, by number, the lines with live tags that begin like this and fit (every end does if it is open).

    Without places it looks everywhere.
    """
    size = len(prefix)
    is_plain = prefix[1:2].isalpha()  # so a blank before it makes it a tag

    def at(raw: bytes, spots: Spots) -> dict[int, bytes] | None:
        """The lines with tags at these places; None if something else stands there now."""
        numbers: dict[int, int] = {}
        for number, place in spots:
            if raw[place : place + size] != prefix:
                return None
            if (is_plain and place and raw[place - 1] == 0x20) or tags.begins(raw, place):
                numbers[place] = number
        found: dict[int, bytes] = {}
        for place in live(raw, list(numbers)) if numbers else ():
            number = numbers[place]
            if number in found:
                continue
            if (is_open and raw[place + size : place + size + 1].isalnum()) or fits(tags.name_at(raw, place)):
                start, end = raw.rfind(b"\n", 0, place) + 1, raw.find(b"\n", place)
                if not start or end < 0 or raw[end - 1] == 0x0D:
                    start, end = tags.line_around(raw, place)
                found[number] = raw[start:end]
        return found

    def lines(raw: bytes, spots: Spots | None) -> dict[int, bytes]:
        found = None if spots is None else at(raw, spots)
        return found if found is not None else at(raw, _everywhere(raw, prefix)) or {}

    return lines


def _everywhere(raw: bytes, prefix: bytes) -> Spots:
    """Each place with this text, and the number of its line."""
    found: Spots = []
    number, counted = 1, 0
    place = raw.find(prefix)
    while place >= 0:
        number += raw.count(b"\n", counted, place)
        counted = place
        found.append((number, place))
        place = raw.find(prefix, place + 1)
    return found
