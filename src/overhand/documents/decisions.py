"""The decisions of a return: a list, a table or paragraphs with headings. "None" is no decision."""

from __future__ import annotations

import re
from dataclasses import dataclass

from overhand.documents.inline import cells, is_delimiter
from overhand.documents.layout import entries, pair

_NOTHING = re.compile(
    r"(?:none|n/?a|nil|nothing|not applicable|(?:no|none)(?: \w+){0,3} (?:decisions?|files?|changes?)(?: \w+){0,4}"
    r"|(?:none|nothing) (?:was |were )?(?:made|needed|required|taken|created|changed|modified)"
    r"|no decisions?(?: \w+){0,4})",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"#?\d*\.?")


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided, and why."""

    what: str
    why: str = ""


def is_nothing(text: str) -> bool:
    """Whether a text says that there is nothing: `None.`, `N/A`, a dash."""
    bare = text.strip()
    return bare in ("", "-", "—", "\u2013") or bool(_NOTHING.fullmatch(bare.strip("*_()[]. \t-—\u2013")))


def read_decisions(body: str) -> tuple[Decision, ...]:
    """The decisions that a section holds."""
    found: list[Decision] = []
    is_open = False  # a heading waits for its text
    read = entries(body, boxes=True)
    has_list = any(one.is_item for one in read)  # then a paragraph beside it is no decision
    for one in read:
        first, _, rest = one.text.partition("\n")
        if not one.is_item and "|" in first and "|" in rest:
            found += _rows(one.text.split("\n"))
        elif not one.is_item and first.startswith("#"):
            found.append(Decision(first.strip("# \t*"), rest.strip()))
            is_open = not rest.strip()
            continue
        elif not one.is_item and is_open:
            found[-1] = Decision(found[-1].what, one.text)
        elif one.is_item or not has_list:
            found.append(Decision(*pair(one.text)))
        is_open = False
    return tuple(one for one in found if not is_nothing(one.what))


def _rows(lines: list[str]) -> list[Decision]:
    """A table of decisions: the column of that name, or the first that is no number, and what stands beside it."""
    read = [cells(row) for row in lines if row.strip()]
    head: list[str] = []
    if len(read) > 1 and is_delimiter(read[1]):
        head, read = [cell.lower().strip("* ") for cell in read[0]], read[2:]
    found = []
    for row in read:
        at = next((i for i, cell in enumerate(head[: len(row)]) if "decision" in cell), None)
        if at is None:
            at = next((i for i, cell in enumerate(row) if not _NUMBER.fullmatch(cell)), 0)
        found.append(Decision(row[at].strip("* "), " | ".join(row[at + 1 :])))
    return found
