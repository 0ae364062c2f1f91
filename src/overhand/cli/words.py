"""The words, colours and columns that every text is made of."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}

# of the groups that people see
TONES = {"needs you": "yellow", "working": "blue", "queued": "dim", "ready": "green", "stopped": "red", "done": "dim"}


def colour(text: str, tone: str) -> str:
    """Coloured on a terminal, unless NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[tone]}m{text}\x1b[0m"


# C0 (but tab and newline), DEL, C1, and the marks that turn the direction of writing
_UNSEEN = {*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SEEN = dict.fromkeys(_UNSEEN - {9, 10}, "\ufffd")


def printable(text: object) -> str:
    """Without control characters: what an agent wrote must not drive the terminal."""
    return str(text).replace("\r\n", "\n").translate(_SEEN)


def verbatim(verb: str, text: str) -> list[str]:
    """What a verb has to say as it stands; what is not found takes no line."""
    shown = printable(text).rstrip("\n")
    return [shown] if shown or verb != "tag" else []


def one_line(text: object, width: int) -> str:
    """Printable, in one line, cut to this many characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def counted(count: int, what: str) -> str:
    """`1 node`, `2 nodes`, `3 retries`, `2 edges between different agents`."""
    first, blank, rest = what.partition(" between")
    several = f"{first[:-1]}ies" if first.endswith("try") else f"{first}s"
    return f"{count} {first if count == 1 else several}{blank}{rest}"


def terminal(fd: int, columns: int = 80) -> os.terminal_size:
    """Its size; where there is none, 24 lines of so many columns."""
    try:
        return os.get_terminal_size(fd)
    except OSError:
        return os.terminal_size((columns, 24))


def width() -> int:
    return max(60, min(120, terminal(1, 100).columns))


def folded(text: str, lead: str = "", begin: int = 3) -> list[str]:
    """A line, broken to the width of a terminal: each further one begins below the words behind the lead."""
    room = width() - begin - len(lead)
    if not sys.stdout.isatty() or "\x1b" in text:
        return [f"{' ' * begin}{lead}{text}"]

    rows = wrap(text, room, 50) or [""]
    return [f"{' ' * begin}{lead if number == 0 else ' ' * len(lead)}{row}" for number, row in enumerate(rows)]


def of_plan(row: dict[str, Any]) -> str:
    """Which node of which plan a task is, if it is one."""
    return f"node {one_line(row['node'], 60)} of plan {row['plan_handle'] or row['plan']}" if row.get("node") else ""


def state_word(row: dict[str, Any]) -> str:
    """Status where there is one, else what is happening."""
    if row["status"] == "completed":
        mark = {"all": "verified", "some": "partly verified", "none": "UNVERIFIED"}[row["verified"]]
        return f"completed {mark}"
    if row["status"]:
        return str(row["status"])
    if row["run_state"] == "queued":
        if row.get("after"):
            return f"queued after {row['after_handle'] or row['after']}"
        if row.get("paused"):
            return f"{row['paused']} paused (limit)"
        if row.get("behind"):
            return f"queued behind {row['behind']}"
        if row.get("reason"):
            return "queued: no budget"
        return f"queued #{row['position']}" if row.get("position") else "queued"
    if row["run_state"] == "ended":
        return "being checked"
    return row["run_state"] or "prepared"


_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_SKIN = range(0x1F3FB, 0x1F400)


def cells(text: str) -> int:
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
    return _beginning(text, most - 1) + "…"


def _beginning(text: str, most: int) -> str:
    """As much as goes into so many columns."""
    for number, width in enumerate(_widths(text)):
        most -= width
        if most < 0:
            return text[:number].rstrip()
    return text


def pad(text: str, width: int) -> str:
    text = cut(text, width)
    return text + " " * (width - cells(text))


def wrap(text: str, width: int, most: int) -> list[str]:
    """At most so many lines, broken between words where there are any."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < most - 1 and cells(rest) > width:
        head = _beginning(rest, width)
        if not rest[len(head) :].startswith(" ") and " " in head.strip():
            head = head[: head.rindex(" ")]
        if not head:
            break  # not even one character fits
        lines.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*lines, cut(rest, width)] if rest else lines
