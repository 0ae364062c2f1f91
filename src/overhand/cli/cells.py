"""How many columns a text takes on a terminal: wide characters take two, combining ones none."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_SKIN = range(0x1F3FB, 0x1F400)


def cells(text: str) -> int:
    """Columns it takes."""
    return len(text) if text.isascii() else sum(_widths(text))


def _widths(text: str) -> Iterator[int]:
    """The width of each character; what is joined to the one before it takes no room of its own."""
    from unicodedata import category, east_asian_width

    before, last = "", 0
    for char in text:
        if before == _JOINER or ord(char) in _SKIN or category(char) in ("Mn", "Me", "Cf"):
            width = 1 if char == _EMOJI_STYLE and last == 1 else 0
        else:
            width = last = 2 if east_asian_width(char) in "WF" else 1
        before = char
        yield width


def cut(text: str, most: int) -> str:
    """At most this many columns; what is missing is shown by an ellipsis."""
    if cells(text) <= most:
        return text
    if most < 1:
        return ""
    room, kept = most - 1, 0
    for number, width in enumerate(_widths(text)):
        room -= width
        if room < 0:
            kept = number
            break
    return text[:kept].rstrip() + "…"


def pad(text: str, width: int) -> str:
    """Exactly this many columns."""
    text = cut(text, width)
    return text + " " * (width - cells(text))


def wrap(text: str, width: int, most: int) -> list[str]:
    """At most so many lines, broken between words where there are any."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < most - 1 and cells(rest) > width:
        head = cut(rest, width + 1)[:-1]  # without the ellipsis
        if not rest[len(head) :].startswith(" ") and " " in head.strip():
            head = head[: head.rindex(" ")]
        if not head:
            break  # not even one character fits
        lines.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*lines, cut(rest, width)] if rest else lines
