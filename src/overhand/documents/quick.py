"""The quick handoff: what one session leaves to the next on a page at most (`runs/<run>/handoff.md`).

It is read tolerantly: with or without emoji and heading, in any case and order, further sections kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from overhand.documents.layout import Section, contain, name_of, read_sheet, section
from overhand.documents.lists import entries, entry
from overhand.documents.markdown import lines, sections
from overhand.documents.problems import Problem, by_line, warning
from overhand.documents.problems import strict as as_strict
from overhand.documents.references import check_references, references
from overhand.documents.text import one_line, unix

DONE, NEXT = "✅", "🔜"
TARGET = (100, 200)
"""The words a quick handoff is meant to have."""
LONG, TOO_LONG = 300, 5000
SAMPLE = 30
"""Lines of code that may stand ready to be copied, under Remaining only."""

_MARKS = {
    **dict.fromkeys((DONE, "✔", "☑", "[x]", "done:"), True),
    **dict.fromkeys((NEXT, "⏭", "⏳", "☐", "[ ]", "next:", "todo:"), False),
}
_KNOWN = {"quick handoff": "quick", "current state": "state", "gotchas": "gotchas"}
_LABELS = {"current state": "state", "gotchas": "gotchas"}
# `**Gotchas:** none`, `### ⚠️ Gotchas` or `Gotchas:` alone on its line
_LABEL = re.compile(
    r"\*\*[^\w\n]{0,6}(current state|gotchas)[ \t]*(?:\([^()\n]*\))?(?::[ \t]*\*\*|\*\*[ \t]*:?)[ \t]*(.*)"
    r"|#{3,6}[^\w\n]{1,6}(current state|gotchas)(?:[ \t]*:)?[ \t]*|(current state|gotchas)[ \t]*:[ \t]*",
    re.IGNORECASE,
)
_EDGE = re.compile(r"\A(?:[ \t]*\n)+")


@dataclass(frozen=True, slots=True)
class Quick:
    """What a successor has to know in a minute."""

    session: str = ""
    status: str = ""
    next: str = ""
    """Where to begin, as `file:line` if there is one."""
    text: str = ""
    state: tuple[str, ...] = ()
    """What is done and what is next; see `done` and `upcoming`."""
    gotchas: tuple[str, ...] = ()
    extra: tuple[Section, ...] = ()


class Count(NamedTuple):
    """How long a text is."""

    words: int
    tokens: int
    """An estimate: four bytes each."""


def count(text: str) -> Count:
    """The words of a text, and about how many tokens it costs."""
    return Count(len(text.split()), (len(text.encode("utf-8", "replace")) + 3) // 4)


def done(text: str) -> str:
    """An entry of Current State that is done."""
    return f"{DONE} {text}"


def upcoming(text: str) -> str:
    """An entry of Current State that comes next."""
    return f"{NEXT} {text}"


def is_done(entry_text: str) -> bool | None:
    """What the mark of an entry says, however it is written; None without a mark."""
    start = entry_text.lstrip().lower()
    return next((known for mark, known in _MARKS.items() if start.startswith(mark)), None)


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
        """The label of a list that a line is."""
        return _LABEL.fullmatch(row) if self.labels else None

    def read(self, body: str) -> tuple[dict[str, str], dict[str, list[str]], bool]:
        """The values, the lines under each label, and whether the first paragraph has a field.

        Fences are not looked at: a body is read after its escapes were removed, when one may be left open.
        """
        found: dict[str, str] = {}
        regions: dict[str, list[str]] = {"text": [], "state": [], "gotchas": []}
        where, in_head, has_head = "text", True, False
        for row in body.split("\n") if body else ():
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
        """`text` with a backslash before each line that would be taken for a field or a label."""
        rows = unix(text).split("\n")
        return "\n".join("\\" + row if self._is_special(row, has_head) else row for row in rows)

    def unescape(self, rows: list[str], has_head: bool) -> str:
        """The text that was escaped, without blank lines around it."""
        plain = (row[1:] if row[:1] == "\\" and self._is_special(row, has_head) else row for row in rows)
        return _EDGE.sub("", "\n".join(plain).rstrip())

    def _is_special(self, row: str, has_head: bool) -> bool:
        row = row.lstrip("\\")
        return bool((self.strict if has_head else self.loose).fullmatch(row) or self.label(row))


_FIELDS = Fields({"session": "session", "status": "status", "next": "next"}, labels=True)


def render_quick(quick: Quick) -> str:
    """A quick handoff as a document; `parse_quick` reads it back."""
    out = [contain(one.body) + "\n\n" for one in quick.extra if not one.title]
    out.append(section("Quick Handoff", contain(quick_text(quick))))
    out += [section(one.title, contain(one.body)) for one in quick.extra if one.title]
    return "".join(out).rstrip("\n") + "\n"


def quick_text(quick: Quick) -> str:
    """A quick handoff without its heading, as it is quoted elsewhere."""
    head = head_lines({"Session": quick.session, "Status": quick.status, "Next": quick.next})
    parts = [head, _FIELDS.escape(quick.text, bool(head))]
    for label, texts in (("Current State", quick.state), ("Gotchas", quick.gotchas)):
        if texts:
            parts.append(f"**{label}:**\n{list_lines(texts)}")
    return "\n\n".join(part for part in parts if part)


def head_lines(values: Mapping[str, str]) -> str:
    """Bold fields, one per line, without those that are empty."""
    return "\n".join(f"**{name}:** {one_line(value)}" for name, value in values.items() if value)


def list_lines(texts: Iterable[str]) -> str:
    """Texts as a list."""
    return "".join(entry(one) for one in texts).rstrip("\n")


def parse_quick(text: str) -> tuple[Quick, list[Problem]]:
    """What a quick handoff says, with or without its heading, and what it lacks."""
    sheet = read_sheet(unix(text), _KNOWN, naming=plain_name)
    body, before = sheet.body("quick"), sheet.preamble
    if "quick" not in sheet.bodies:
        body, before = before, ""
    quick = read_quick(body)
    found = replace(
        quick,
        state=quick.state + texts_of(sheet.bodies.get("state", "")),
        gotchas=quick.gotchas + texts_of(sheet.bodies.get("gotchas", "")),
        extra=tuple([Section("", before), *sheet.extra] if before else sheet.extra),
    )
    needed = {"Session": found.session, "Status": found.status, "Next": found.next}
    return found, by_line([*sheet.problems, *missing(needed, sheet.lines.get("quick", 1))])


def read_quick(body: str) -> Quick:
    """What the text below a quick handoff's heading says."""
    values, regions, has_head = _FIELDS.read(body)
    return Quick(
        values.get("session", ""),
        values.get("status", ""),
        values.get("next", ""),
        _FIELDS.unescape(regions["text"], has_head),
        texts_of("\n".join(regions["state"])),
        texts_of("\n".join(regions["gotchas"])),
    )


def plain_name(title: str) -> str:
    """A heading's title as it is looked up: `✅ COMPLETED (with references)` is `completed`."""
    bare = title.partition("(")[0]
    start = next((index for index, char in enumerate(bare) if char.isalnum()), len(bare))
    return name_of(bare[start:])


def texts_of(body: str) -> tuple[str, ...]:
    """The entries of a list, and the paragraphs beside it."""
    return tuple(one.text for one in entries(body))


def missing(needed: Mapping[str, str], line: int) -> list[Problem]:
    """The fields without which a successor cannot begin."""
    return [
        Problem("handoff-field-missing", f"{name} is missing.", line=line, fix=f"Add `**{name}:** …`.")
        for name, value in needed.items()
        if not value
    ]


def lint_quick(text: str, *, size_of: Callable[[str], int | None] | None = None, strict: bool = False) -> list[Problem]:
    """Everything that is wrong with a quick handoff; `size_of` tells how many lines a file has."""
    problems = parse_quick(text)[1] + wordy(text, text) + pasted(text)
    if size_of is not None:
        problems += check_references(references(text), size_of)
    return as_strict(by_line(problems)) if strict else by_line(problems)


def wordy(quick: str, whole: str) -> list[Problem]:
    """Whether the quick handoff, or the document it stands in, has too many words."""
    fix = "Name files and lines instead of telling what they say."
    if (words := count(whole).words) > TOO_LONG:
        message = f"The handoff has {words} words; more than {TOO_LONG} are refused."
        return [Problem("handoff-too-long", message, fix=fix)]
    if (words := count(quick).words) > LONG:
        message = f"The quick handoff has {words} words; {TARGET[0]} to {TARGET[1]} are meant."
        return [warning("handoff-long", message, fix=fix)]
    return []


def pasted(text: str) -> list[Problem]:
    """Code blocks where a reference would do."""
    text = unix(text)
    problems: list[Problem] = []
    for part in sections(text):
        allowed = SAMPLE if plain_name(part.title) == "remaining" else 0
        for begin, size in _code_blocks(text, part.body, part.end, part.number + (1 if part.level else 0)):
            if size > allowed:
                message = f"{size} line{'s' if size > 1 else ''} of code stand in the handoff."
                fix = "Refer to the file and its lines: src/a.py:10-40"
                problems.append(warning("handoff-code", message, begin, fix))
    return problems


def _code_blocks(text: str, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Where each fenced block begins, and how many lines of it are not blank; neighbours count as one."""
    begin = size = 0
    for line in lines(text, start, end, number):
        if line.kind == "code":
            begin, size = begin or line.number, size + 1
        elif begin:
            yield begin, size - 2
            begin = size = 0
    if begin:
        yield begin, max(size - 2, 1)
