"""What Overhand adds to a person's file: `## Response`, one part per run, and `## Recovery`, one entry per step back.

Both are patches of the raw bytes (any line ends, any encoding, no final newline), so nothing else changes. An edit
holds at most one of them, with the change of a tag: each is computed for a file without the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from overhand.documents.layout import (
    FileNote,
    bold_pair,
    contain_in_section,
    file_notes,
    heading,
    list_lines,
    name_of,
    note_lines,
    pair,
    texts_of,
)
from overhand.documents.markdown import BOM, Scanner, front_matter_end, markdown_headings, markdown_sections
from overhand.documents.tags import scan_tags, stage_of_tag
from overhand.documents.text import decode_text, one_line, unix_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.documents.tags import Tag
    from overhand.system import Patch

_ALERT = "#active-alert"
_TICKS = re.compile(rb"`+")
_RUN = re.compile(r"Run (\S+)")
_LINK = re.compile(r"\[[^\]]*\]\((?:<([^>]*)>|([^)]*))\)")


@dataclass(frozen=True, slots=True)
class Response:
    """A run's result as written into the request's file."""

    run: str
    outcome: str
    summary: str = ""
    deliverables: tuple[FileNote, ...] = ()
    link: str = ""


def inert(text: str) -> str:
    """`text` with every tag that would make it an item or an alert turned into inline code, a mere mention."""
    raw = text.encode("utf-8", "replace")
    found = _live(raw)
    if not found:
        return text
    runs = {len(run) for run in _TICKS.findall(raw)}
    # A width that no other run of backticks has cannot pair with one.
    ticks = b"`" * next(width for width in range(1, len(runs) + 2) if width not in runs)
    parts, done = list[bytes](), 0
    for tag in found:
        before = b" " if raw[tag.start - 1 : tag.start] == b"`" else b""
        after = b" " if raw[tag.end : tag.end + 1] == b"`" else b""
        parts += [raw[done : tag.start], before, ticks, raw[tag.start : tag.end], ticks, after]
        done = tag.end
    raw = b"".join([*parts, raw[done:]])
    return hushed(raw, 0, len(raw)).decode()


def hushed(raw: bytes, start: int, end: int) -> bytes:
    """The bytes between the two, with a backslash before each tag there that is live in the whole file.

    The text around (unclosed HTML, for example) decides whether backticks count; a backslash always does.
    """
    while found := [tag.start for tag in _live(raw) if start <= tag.start < end]:
        raw = b"\\".join(raw[at:stop] for at, stop in pairwise([0, *found, len(raw)]))
        end += len(found)
    return raw[start:end]


def with_tags(title: str, tags: Iterable[str], text: str) -> str:
    """A whole document: a heading, its Tags line, and a text in which no tag is live."""
    head = f"{inert(heading(title, 1))}\n**Tags**: {' '.join(tags)}\n\n".encode("utf-8", "replace")
    body = (inert(text).rstrip("\n") + "\n").encode("utf-8", "replace")
    return (head + hushed(head + body, len(head), len(head) + len(body))).decode()


def tags_in(text: str) -> tuple[str, ...]:
    """The words of a document's Tags line."""
    return tuple(tag.name for tag in scan_tags(text.encode("utf-8", "replace")) if tag.on_tags_line)


def _live(raw: bytes) -> list[Tag]:
    return [tag for tag in scan_tags(raw) if stage_of_tag(tag.name) or tag.name == _ALERT]


def put_response(
    raw: bytes, run: str, outcome: str, summary: str, deliverables: Iterable[FileNote] = (), link: str = ""
) -> Patch | None:
    """Put a run's result under `## Response`, replacing that run's earlier one; None if it is already there."""
    quoted = "\n".join(f"> {one}" if one else ">" for one in unix_lines(summary).split("\n"))
    files = tuple(deliverables)
    shown = f"**Deliverables:**\n\n{note_lines(files).rstrip()}" if files else "**Deliverables:** none"
    parts = [f"### Run {run}", f"**Outcome:** {one_line(outcome)}"]
    parts += [inert(quoted)] if summary else []
    parts.append(inert(shown))
    if link:
        target = f"<{link}>" if set(link) & set(" ()") else link
        parts.append(f"**Result:** [{link.rsplit('/', 1)[-1]}]({target})")
    block = "\n\n".join(parts)
    page = _Page(raw)
    for start, end in page.named("response"):
        for level, title, _, at in markdown_headings(page.text[:end], start):
            if level == 3 and (match := _RUN.fullmatch(title)) and match.group(1) == run:
                after = page.text.find("\n", at) + 1 or end
                following = (place for depth, _, _, place in markdown_headings(page.text[:end], after) if depth <= 3)
                return page.replace(at, next(following, end), block)
    return page.append("response", "Response", block)


def read_responses(body: str) -> tuple[Response, ...]:
    """The parts of a `## Response` that runs wrote."""
    found: list[Response] = []
    starts = [(title, at) for level, title, _, at in markdown_headings(body) if level <= 3]
    for index, (title, at) in enumerate(starts):
        if match := _RUN.fullmatch(title):
            end = starts[index + 1][1] if index + 1 < len(starts) else len(body)
            found.append(_read_response(match.group(1), body[body.find("\n", at) + 1 or end : end]))
    return tuple(found)


def _read_response(run: str, body: str) -> Response:
    rows = body.split("\n")
    quoted = [row[1:].removeprefix(" ") for row in rows if row.startswith(">")]
    rest = "\n".join(row for row in rows if not row.startswith(">"))
    head, _, tail = rest.partition("**Deliverables:**")
    files, _, result = tail.rpartition("**Result:**") if "**Result:**" in tail else (tail, "", "")
    outcome = head.partition("**Outcome:**")[2].strip()
    link = _LINK.search(result)
    return Response(
        run, outcome, "\n".join(quoted), file_notes(files.strip()), (link.group(1) or link.group(2)) if link else ""
    )


def add_recovery(raw: bytes, date: str, reason: str, prior_session: str, action: str) -> Patch | None:
    """Add a step back under `## Recovery`; None if there is one for that session already."""
    values = (("Date", date), ("Reason", reason), ("Prior Session", prior_session), ("Action", action))
    block = inert(list_lines(bold_pair(name, one_line(value)) for name, value in values if value))
    page = _Page(raw)
    for start, end in page.named("recovery"):
        noted = map(pair, texts_of(decode_text(raw[page.begin + start : page.begin + end])[0]))
        if prior_session and ("Prior Session", prior_session) in noted:
            return None
    return page.append("recovery", "Recovery", block)


def add_note(raw: bytes, title: str, text: str) -> Patch:
    """Add a paragraph at the end of the section with this title."""
    return _Page(raw).append(name_of(title), title, inert(contain_in_section(text)))


class _Page:
    """A file's bytes, read one character per byte so that offsets are offsets in the file."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.begin = len(BOM) if raw.startswith(BOM) else 0
        self.text = raw[self.begin :].decode("latin-1")
        first = self.text.find("\n")
        self.eol = "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    def named(self, name: str) -> list[tuple[int, int]]:
        """The bodies of the sections of this name."""
        return [
            (one.body, one.end) for one in markdown_sections(self.text) if one.level == 2 and name_of(one.title) == name
        ]

    def replace(self, start: int, end: int, block: str) -> Patch | None:
        """Replace the text between the offsets with `block`, without the blank lines after it."""
        patch = self._patch(start, self._last(start, end), block)
        old = self.raw[patch[0] : patch[1]]
        same = old.replace(b"\\#", b"#") == patch[2].replace(b"\\#", b"#")  # an earlier addition may have escaped a tag
        return None if same else patch

    def append(self, name: str, title: str, block: str) -> Patch:
        """Add `block` at the end of the section `name`, which is created at the end of the file if it is missing."""
        there = self.named(name)
        start, end = there[-1] if there else (0, len(self.text))
        at = self._last(start, end)
        # Close an open fence or comment, so that what is added after it is visible.
        state = Scanner()
        for line in self.text[start if there else front_matter_end(self.text) : at].split("\n"):
            state.line(line, 0)
        opened = "" if state.stack else state.hidden  # a list item ends where our heading begins
        parts = [opened, "" if there else f"## {title}", block]
        new = "\n\n".join(part for part in parts if part)
        end_of_file = "\n" if at == len(self.text) else ""
        return self._patch(at, at, ("\n\n" if at else "") + new + end_of_file)

    def _last(self, start: int, end: int) -> int:
        """Where the last line that is not blank ends, between the two."""
        kept = start + len(self.text[start:end].rstrip(" \t\r\n"))
        stop = self.text.find("\n", kept, end)
        stop = end if stop < 0 else stop
        return stop - 1 if stop > kept and self.text[stop - 1] == "\r" else stop

    def _patch(self, start: int, end: int, text: str) -> Patch:
        """Replace the text between the offsets with `text`, without a live tag."""
        new = text.replace("\n", self.eol).encode("utf-8", "replace")
        start, end = self.begin + start, self.begin + end
        return start, end, hushed(self.raw[:start] + new + self.raw[end:], start, start + len(new))
