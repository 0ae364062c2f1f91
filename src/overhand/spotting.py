"""Lines with tags from the places that ripgrep names: no second search for them, and no object for each tag."""

from __future__ import annotations

from overhand import tags
from overhand.quickly import live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.ripgrep import Spots


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
            if not raw.startswith(prefix, place):
                return None
            if (is_plain and place and raw[place - 1] == 0x20) or tags.begins(raw, place):
                numbers[place] = number
        found: dict[int, bytes] = {}
        for place in live(raw, list(numbers)) if numbers else ():
            number = numbers[place]
            if number in found:
                continue
            if (is_open and raw[place + size : place + size + 1].isalnum()) or fits(tags.name_at(raw, place)):
                start, end = tags.line_around(raw, place)
                found[number] = raw[start:end]
        return found

    def lines(raw: bytes, spots: Spots | None) -> dict[int, bytes]:
        found = None if spots is None else at(raw, spots)
        if found is not None:
            return found
        return {tag.line: raw[tag.on.start : tag.on.end] for tag in tags.scan(raw, prefix) if fits(tag.name)}

    return lines
