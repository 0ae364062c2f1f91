"""The quick handoff: what one session leaves to the next on a page at most (`runs/<run>/handoff.md`).

It is read tolerantly: with or without emoji and heading, in any case and order, further sections kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from overhand.documents.layout import (
    Section,
    contain_in_section,
    field_lines,
    list_lines,
    name_of,
    read_sheet,
    render_sections,
    texts_of,
)
from overhand.documents.markdown import markdown_lines, markdown_sections
from overhand.documents.problems import Problem, by_line, warning
from overhand.documents.text import unix_lines

DONE, NEXT = "✅", "🔜"
LONG, TOO_LONG = 300, 5000
_SAMPLE = 30  # lines of code that may stand ready to be copied, under Remaining only

_LABELS = {"current state": "state", "gotchas": "gotchas"}
_KNOWN = {"quick handoff": "quick", **_LABELS}
# `**Gotchas:** none`, `### ⚠️ Gotchas` or `Gotchas:` alone on its line
_LABEL = re.compile(
    r"\*\*[^\w\n]{0,6}(current state|gotchas)[ \t]*(?:\([^()\n]*\))?(?::[ \t]*\*\*|\*\*[ \t]*:?)[ \t]*(.*)"
    r"|#{3,6}[^\w\n]{1,6}(current state|gotchas)(?:[ \t]*:)?[ \t]*|(current state|gotchas)[ \t]*:[ \t]*",
    re.IGNORECASE,
)
# `src/tiles.py:40`, `tiles.py:3,9`, `tiles.py:1-9`
# The look-behind lets a match begin at the start of a word only: no URL's tail, and a long run costs one try.
_REFERENCE = re.compile(
    r"(?<![\w./:@%+~#=&?$\\-])([\w./@+~-]+):"
    r"([0-9]{1,9}(?:[-\u2013][0-9]{1,9})?(?:,[0-9]{1,9}(?:[-\u2013][0-9]{1,9})?)*)(?!\w|-\w|\.[0-9])"
)
# `example.com:443` is a host and its port.
_HOSTS = frozenset(("com", "org", "net", "io"))
_EDGE = re.compile(r"\A(?:[ \t]*\n)+")


@dataclass(frozen=True, slots=True)
class Quick:
    """What the next session must know, on one page."""

    session: str = ""
    status: str = ""
    next: str = ""  # where to begin, as `file:line` if there is one
    text: str = ""
    state: tuple[str, ...] = ()  # what is done and what is next; see `done` and `upcoming`
    gotchas: tuple[str, ...] = ()
    extra: tuple[Section, ...] = ()


class Count(NamedTuple):
    words: int
    tokens: int  # an estimate: four bytes each


def count_words(text: str) -> Count:
    """The words of a text, and about how many tokens it costs."""
    return Count(len(text.split()), (len(text.encode("utf-8", "replace")) + 3) // 4)


def done_entry(text: str) -> str:
    """An entry of Current State that is done."""
    return f"{DONE} {text}"


def upcoming_entry(text: str) -> str:
    """An entry of Current State that comes next."""
    return f"{NEXT} {text}"


class Fields:
    """How the bold fields of a document look: strictly, and as they may look in its first paragraph."""

    def __init__(self, names: Mapping[str, str], *, labels: bool) -> None:
        words = "|".join(names)
        self.names = names
        self.labels = labels
        self.strict = re.compile(
            rf"\*\*[^\w\n]{{0,6}}({words})[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:)[ \t]*(.*)", re.IGNORECASE
        )
        self.loose = re.compile(rf"[^\w\n\\]{{0,20}}({words})[ \t*_]*:[ \t]*[*_]*[ \t]*(.*)", re.IGNORECASE)

    def label(self, row: str) -> re.Match[str] | None:
        """The match if the line is a list's label."""
        return _LABEL.fullmatch(row) if self.labels else None

    def read(self, body: str) -> tuple[dict[str, str], dict[str, list[str]], bool]:
        """The values, the lines under each label, and whether the first paragraph has a field.

        Fences are ignored: the body's escapes are already removed, so one may be left open.
        """
        found: dict[str, str] = {}
        regions: dict[str, list[str]] = {"text": [], "state": [], "gotchas": []}
        where, in_head, has_head = "text", True, False
        for row in body.split("\n"):
            if label := self.label(row):
                where, in_head = _LABELS[(label[1] or label[3] or label[4]).lower()], False
                regions[where] += [label[2]] if label[2] else []
                continue
            in_head = in_head and bool(row.strip())
            match = (self.loose if in_head else self.strict).fullmatch(row)
            name = self.names[match[1].lower()] if match else ""
            if match and name not in found:
                found[name] = match[2].strip()
                has_head = has_head or in_head
            else:
                regions[where].append(row)
        return found, regions, has_head

    def escape(self, text: str, has_head: bool) -> str:
        """`text` with a backslash before each line that would be read as a field or a label."""
        rows = unix_lines(text).split("\n")
        return "\n".join("\\" + row if self._is_special(row, has_head) else row for row in rows)

    def unescape(self, rows: list[str], has_head: bool) -> str:
        """The inverse of `escape`, without surrounding blank lines."""
        plain = (row[1:] if row[:1] == "\\" and self._is_special(row, has_head) else row for row in rows)
        return _EDGE.sub("", "\n".join(plain).rstrip())

    def _is_special(self, row: str, has_head: bool) -> bool:
        row = row.lstrip("\\")
        return bool((self.strict if has_head else self.loose).fullmatch(row) or self.label(row))


@cache  # made when first needed: most processes read no quick handoff
def _fields() -> Fields:
    return Fields({"session": "session", "status": "status", "next": "next"}, labels=True)


def render_quick(quick: Quick) -> str:
    """A quick handoff as a document; `parse_quick` reads it back."""
    text = render_sections({"Quick Handoff": contain_in_section(quick_text(quick))}, quick.extra)
    return text.rstrip("\n") + "\n"


def quick_text(quick: Quick) -> str:
    """A quick handoff without its heading, for quoting."""
    head = field_lines({"Session": quick.session, "Status": quick.status, "Next": quick.next}).rstrip("\n")
    parts = [head, _fields().escape(quick.text, bool(head))]
    for label, texts in (("Current State", quick.state), ("Gotchas", quick.gotchas)):
        if texts:
            parts.append(f"**{label}:**\n{list_lines(texts)}")
    return "\n\n".join(part for part in parts if part)


def parse_quick(text: str) -> tuple[Quick, list[Problem]]:
    """What a quick handoff says, with or without its heading, and what it lacks."""
    sheet = read_sheet(unix_lines(text), _KNOWN, naming=plain_name)
    body, before = sheet.body("quick"), sheet.preamble
    if "quick" not in sheet.bodies:
        body, before = before, ""
    quick = read_quick(body)
    found = replace(
        quick,
        state=quick.state + texts_of(sheet.raw("state")),
        gotchas=quick.gotchas + texts_of(sheet.raw("gotchas")),
        extra=sheet.unknown(before),
    )
    needed = {"Session": found.session, "Status": found.status, "Next": found.next}
    return found, by_line(sheet.problems + fields_missing(needed, sheet.lines.get("quick", 1)))


def read_quick(body: str) -> Quick:
    """What the text below a quick handoff's heading says."""
    values, regions, has_head = _fields().read(body)
    return Quick(
        values.get("session", ""),
        values.get("status", ""),
        values.get("next", ""),
        _fields().unescape(regions["text"], has_head),
        texts_of("\n".join(regions["state"])),
        texts_of("\n".join(regions["gotchas"])),
    )


def plain_name(title: str) -> str:
    """A heading's title as it is looked up: `✅ COMPLETED (with references)` is `completed`."""
    bare = title.partition("(")[0]
    start = next((index for index, char in enumerate(bare) if char.isalnum()), len(bare))
    return name_of(bare[start:])


def fields_missing(needed: Mapping[str, str], line: int) -> list[Problem]:
    """The problems of missing fields that the next session needs."""
    return [
        Problem("handoff-field-missing", f"{name} is missing.", line=line, fix=f"Add `**{name}:** …`.")
        for name, value in needed.items()
        if not value
    ]


def lint_quick(text: str, size_of: Callable[[str], int | None] | None = None) -> list[Problem]:
    """Everything that is wrong with a quick handoff; `size_of` returns a file's number of lines."""
    return by_line(parse_quick(text)[1] + lint_text(text, text, size_of))


def lint_text(quick: str, whole: str, size_of: Callable[[str], int | None] | None) -> list[Problem]:
    """Problems with the text of a quick handoff and of the document that contains it."""
    found = too_wordy(quick, whole) + _pasted(whole)
    return found + check_references(whole, size_of) if size_of else found


def too_wordy(quick: str, whole: str) -> list[Problem]:
    """Whether the quick handoff, or the document that contains it, has too many words."""
    fix = "Name files and lines instead of telling what they say."
    if (words := count_words(whole).words) > TOO_LONG:
        message = f"The handoff has {words} words; more than {TOO_LONG} are refused."
        return [Problem("handoff-too-long", message, fix=fix)]
    if (words := count_words(quick).words) > LONG:
        message = f"The quick handoff has {words} words; 100 to 200 are meant."
        return [warning("handoff-long", message, fix=fix)]
    return []


def _pasted(text: str) -> list[Problem]:
    """Code blocks where a reference would do."""
    text = unix_lines(text)
    problems: list[Problem] = []
    for part in markdown_sections(text):
        allowed = _SAMPLE if plain_name(part.title) == "remaining" else 0
        for begin, size in _code_blocks(text, part.body, part.end, part.number + (1 if part.level else 0)):
            if size > allowed:
                message = f"{size} line{'s' if size > 1 else ''} of code stand in the handoff."
                fix = "Refer to the file and its lines: src/a.py:10-40"
                problems.append(warning("handoff-code", message, begin, fix))
    return problems


def _code_blocks(text: str, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Where each fenced block begins, and how many lines of it are not blank; neighbours count as one."""
    begin = size = 0
    for line in markdown_lines(text, start, end, number):
        if line.kind == "code":
            begin, size = begin or line.number, size + 1
        elif begin:
            yield begin, size - 2
            begin = size = 0
    if begin:
        yield begin, max(size - 2, 1)


Span = tuple[int, int]  # first and last line


def references(text: str) -> dict[tuple[str, tuple[Span, ...]], int]:
    """Every `file:lines` in a text, also in inline code, and the line where it stands first.

    Times, versions, hosts and URLs are none.
    """
    found: dict[tuple[str, tuple[Span, ...]], int] = {}
    number, counted = 1, 0
    for match in _REFERENCE.finditer(text):
        path, parts = match.groups()
        if _is_path(path):
            number += text.count("\n", counted, match.start())
            counted = match.start()
            ends = (one.partition("-") for one in parts.replace("\u2013", "-").split(","))
            spans = tuple((int(first), int(last or first)) for first, _, last in ends)
            found.setdefault((path, spans), number)
    return found


def _is_path(text: str) -> bool:
    """Whether a word can be a file: a suffix with a letter in it, or a folder and a name with a letter."""
    folder, _, name = text.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if folder and any(char.isalpha() for char in name):
        return True
    return bool(dot) and any(char.isalpha() for char in suffix) and not (stem and suffix.lower() in _HOSTS)


def check_references(text: str, size_of: Callable[[str], int | None]) -> list[Problem]:
    """References to missing files or lines; `size_of` returns a file's number of lines, None if it doesn't exist.

    A bare name may stand for the one file of that name that another reference names in full.
    """
    found = references(text)
    sizes = {path: size_of(path) for path in dict.fromkeys(path for path, _ in found)}
    problems: list[Problem] = []
    for (name, spans), line in found.items():
        size = sizes[name]
        if size is None:
            longer = [path for path in sizes if path.endswith(f"/{name}")]
            size = sizes[longer[0]] if len(longer) == 1 else None
        if size is None:
            fix = "Correct the path, written from the project's folder."
            problems.append(warning("reference-missing", f"The file {name} is not there.", line, fix))
            continue
        for first, last in spans:
            shown = f"{name}:{first}" if first == last else f"{name}:{first}-{last}"
            if first < 1 or last < first:
                message = f"{shown} names no lines: they are counted from 1, the first one first."
            elif last > size:
                message = f"{shown} is beyond the end: the file has {size} line{'' if size == 1 else 's'}."
            else:
                continue
            problems.append(warning("reference-beyond", message, line, "Look up the line again."))
    return by_line(problems)
