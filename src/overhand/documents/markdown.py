"""A small Markdown line scanner whose spans are exact offsets into the text it was given.

It knows what moves the meaning of a line: fences, indented code, HTML comment blocks, list nesting,
ATX headings and task boxes. Everything else is text. No character is ever copied back, so an edit is
a replacement of one span and leaves every other byte (CRLF included) alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Blank lines are swallowed by the first group: a line is always matched where the last one ended, so a
# hostile run of blanks or spaces costs one step, and nothing is ever tried twice.
_LINE = re.compile(r"((?:[ \t\r]*\n)*)([ \t]*)([^\n]*)\n?")
_MARKS = frozenset("#`~<-*_+0123456789")  # a line that begins with anything else is text
_BULLET = re.compile(r"(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t]|$)")
_BOX = re.compile(r"\[([ xX?!~])\](?=[ \t]|$)")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_NOTABLE = re.compile(
    r"^([ \t]*(?:(?:[-+*]|[0-9]{1,9}[.)])[ \t]+)*)(#{1,6}(?=[ \t\r\n]|\Z)|```|~~~|<!--)([^\n]*)",
    re.MULTILINE,
)
_TICKS = re.compile(r"`+")
_DELIMITER = re.compile(r":?-+:?$")
_ESCAPED_PIPE = re.compile(r"(\\+)\|")
_ANY_PIPE = re.compile(r"(\\*)\|")
_FRONT = re.compile(r"---[ \t]*\r?\n(?:(.*?)(\r?\n))??(?:---|\.\.\.)[ \t]*(?:\r?\n|$)", re.DOTALL)
_KEY = re.compile(r"^[\w-]+[ \t]*:(?=\s|$)", re.MULTILINE)
_PROSE = re.compile(r"^(?:## |\*\*)", re.MULTILINE)


class Line(NamedTuple):
    """One non-blank line (a tuple, not a dataclass: one is made per line of every file we read)."""

    kind: str
    """`text`, `heading`, `item`, `code` (a fence or inside one), `indented` (code) or `comment`."""
    start: int
    """Offset of the line's first character."""
    end: int
    """Offset after its last character, before `\\n` or `\\r\\n`."""
    number: int
    """Line number, from 1."""
    depth: int
    """How many list items the line is inside of."""
    level: int = 0
    """A heading's level; for an item, the column at which its content begins."""
    box: str = ""
    """The character in a task box, or nothing."""
    at: int = -1
    """Offset of the title or the item's content; in a task item `at + 1` is the box's character."""
    text: str = ""
    """A heading's title, or an item's content without its box."""


class Part(NamedTuple):
    """A heading and what belongs to it, as offsets; level 0 is what stands before the first heading."""

    level: int
    title: str
    number: int
    start: int
    body: int
    end: int


def _heading(rest: str) -> tuple[int, str] | None:
    """Level and title of an ATX heading."""
    level = len(rest) - len(rest.lstrip("#"))
    if level > 6 or rest[level : level + 1] not in ("", " ", "\t"):
        return None
    title = rest[level:].strip(" \t")
    bare = title.rstrip("#")
    if not bare:
        return level, ""
    return level, bare.rstrip(" \t") if bare != title and bare[-1] in " \t" else title


def _opens(rest: str) -> str:
    """What `rest` opens: a run of fence characters, `<!--`, or nothing."""
    first = rest[:1]
    if first in ("`", "~"):
        run = len(rest) - len(rest.lstrip(first))
        if run >= 3 and not (first == "`" and "`" in rest[run:]):
            return first * run
    elif rest.startswith("<!--"):
        return "<!--"
    return ""


def _closes(rest: str, opener: str) -> bool:
    """Whether a line inside a fence or comment is its last one."""
    if opener == "<!--":
        return "-->" in rest
    tail = rest.rstrip(" \t")
    return tail.startswith(opener) and not tail.strip(opener[0])


class _Item(NamedTuple):
    columns: list[int]  # where the content of each bullet on the line begins
    offset: int  # of the first bullet's content, in the line
    box: str
    shown: str
    opener: str  # what the content opens, if it opens something
    paragraph: bool


def _item(rest: str, indent: int, in_paragraph: bool) -> _Item | None:
    """Read a line that begins with a bullet (or several: `- 1. x`)."""
    columns: list[int] = []
    first = offset = 0
    content = rest
    # Eight on one line is more than anybody means; a line of ten million dashes must not cost a slice each.
    while len(columns) < 8 and (match := _BULLET.match(rest, offset)):
        after = match.end()
        content = rest[after:].lstrip(" \t")
        offset = len(rest) - len(content)
        gap = offset - after
        if "\t" in rest[after:offset]:
            column = (indent + after) % 4
            gap = len((" " * column + rest[after:offset]).expandtabs(4)) - column
        width = gap if content and gap <= 4 else 1
        columns.append(indent + after + width)
        first = first or offset
        indent += width - (offset - after)
        if not content or gap > 4 or _RULE.match(content):
            content = ""  # nothing, indented code or a rule: it opens nothing and no paragraph
            break
    if not columns:
        return None
    # CommonMark: only a bullet with content, or a list that begins at 1, may cut a paragraph.
    if in_paragraph and (first >= len(rest) or (rest[0] not in "-+*" and rest.lstrip("0")[:2] not in ("1.", "1)"))):
        return None
    opener = _opens(content)
    box = _BOX.match(rest, first) if rest.startswith("[", first) else None
    if box:
        return _Item(columns, first, box.group(1).lower(), rest[box.end() :].strip(" \t"), "", True)
    return _Item(columns, first, "", rest[first:].rstrip(" \t"), opener, bool(content) and not opener)


class Scanner:
    """What earlier lines decide about the next one."""

    __slots__ = ("hidden", "inner", "paragraph", "stack")

    def __init__(self) -> None:
        self.stack: list[int] = []  # content columns of the open list items
        self.hidden = ""  # what opened the fence or comment we are in
        self.inner = 0  # the column our container begins at
        self.paragraph = False  # could this line continue a paragraph?

    def line(self, text: str, number: int) -> Line | None:
        """Classify the next line of a stream, given without its end; None if it is blank."""
        rest = text.lstrip(" \t")
        if not rest.strip(" \t\r"):
            self.paragraph = False
            return None
        pad = text[: len(text) - len(rest)]
        return self.read(rest, len(pad.expandtabs(4)), 0, len(pad), number)

    def read(self, rest: str, indent: int, start: int, at: int, number: int) -> Line:
        """Classify one line, `rest` being what follows its indent at `at`."""
        stack, end = self.stack, at + len(rest)
        if self.hidden:
            if indent >= self.inner:
                return self._inside(rest, indent, start, end, number)
            self.hidden = ""  # a block inside a list item ends with the item, closed or not
        depth = len(stack)
        while depth and indent < stack[depth - 1]:
            depth -= 1
        self.inner = stack[depth - 1] if depth else 0
        first = rest[0]
        if indent - self.inner < 4 and first in _MARKS:
            if first == "#" and (heading := _heading(rest)):
                del stack[depth:]
                self.paragraph = False
                level, title = heading
                at += len(rest) - len(rest[level:].lstrip(" \t"))
                # A heading inside a list item structures the item, not the document.
                return Line("text" if depth else "heading", start, end, number, depth, level, "", at, title)
            if (opener := _opens(rest)) or (first in "-*_" and _RULE.match(rest)):
                del stack[depth:]
                self.paragraph = False
                self._enter(opener, rest)
                return Line(_kind(opener) if opener else "text", start, end, number, depth)
            if item := _item(rest, indent, self.paragraph and depth == len(stack)):
                stack[depth:] = item.columns
                self.inner = stack[-1]
                self.paragraph = item.paragraph
                self._enter(item.opener, item.shown)
                at += item.offset
                return Line("item", start, end, number, depth, item.columns[0], item.box, at, item.shown)
        is_code = indent - self.inner >= 4 and not self.paragraph
        if not self.paragraph:  # else it may be a lazy continuation: the list stays open
            del stack[depth:]
        self.paragraph = not is_code
        return Line("indented" if is_code else "text", start, end, number, depth)

    def _inside(self, rest: str, indent: int, start: int, end: int, number: int) -> Line:
        kind = _kind(self.hidden)
        if (kind == "comment" or indent - self.inner < 4) and _closes(rest, self.hidden):
            self.hidden = ""
        return Line(kind, start, end, number, len(self.stack))

    def _enter(self, opener: str, rest: str) -> None:
        if opener and (opener != "<!--" or "-->" not in rest):
            self.hidden = opener


def _kind(opener: str) -> str:
    return "comment" if opener == "<!--" else "code"


def lines(text: str, start: int = 0, end: int | None = None, number: int = 1) -> Iterator[Line]:
    """The non-blank lines of `text[start:end]`, classified; `number` is the number of the first line."""
    state = Scanner()
    for match in _LINE.finditer(text, start, len(text) if end is None else end):
        blank, pad, rest = match.groups()
        if blank:
            number += blank.count("\n")
            state.paragraph = False
        if not rest or rest == "\r":
            continue
        if rest[-1] == "\r":
            rest = rest[:-1]
        indent = len(pad.expandtabs(4)) if "\t" in pad else len(pad)
        yield state.read(rest, indent, match.start(2), match.start(3), number)
        number += 1


def _front(text: str) -> re.Match[str] | None:
    """The front matter, told from a document that merely begins with a rule by a `key:` line."""
    match = _FRONT.match(text) if text.startswith("---") else None
    if match and (yaml := match.group(1)) and not (_KEY.search(yaml) and not _PROSE.search(yaml)):
        return None
    return match


def front_matter_end(text: str) -> int:
    """Offset after the YAML front matter, 0 if there is none."""
    match = _front(text)
    return match.end() if match else 0


def front_matter(text: str) -> tuple[str | None, str]:
    """The YAML between the opening `---` and `---` (or `...`), and the text after it."""
    match = _front(text)
    if not match:
        return None, text
    return (match.group(1) or "") + (match.group(2) or ""), text[match.end() :]


def headings(text: str, start: int = 0, number: int = 1) -> list[tuple[int, str, int, int]]:
    """The headings outside lists, code and comments as (level, title, line number, offset)."""
    quick = _quick_headings(text, start, number)
    if quick is not None:
        return quick
    return [
        (line.level, line.text, line.number, line.start)
        for line in lines(text, start, None, number)
        if line.kind == "heading"
    ]


def _quick_headings(text: str, start: int, number: int) -> list[tuple[int, str, int, int]] | None:
    """The same where it is easy: headings and fences at the margin, no comments; None where it is not."""
    found: list[tuple[int, str, int, int]] = []
    opener = ""
    counted = start
    for match in _NOTABLE.finditer(text, start):
        before, mark, rest = match.groups()
        if opener:
            run = mark + rest.rstrip(" \t\r")
            if run.startswith(opener) and not run.strip(opener[0]) and len(before) < 4 and not before.strip(" "):
                opener = ""
        elif before or mark == "<!--":
            return None
        elif mark[0] == "#":
            level, title = _heading(mark + rest.rstrip("\r")) or (0, "")
            at = match.start()
            number += text.count("\n", counted, at)
            counted = at
            found.append((level, title, number, at))
        else:
            opener = _opens(mark + rest)
    return found


def sections(text: str, level: int = 2) -> list[Part]:
    """The text cut at headings of `level` and above; the first part (level 0) stands before them."""
    begin = front_matter_end(text)
    number = text.count("\n", 0, begin) + 1
    found: list[Part] = []
    head: tuple[int, str, int, int, int] = (0, "", number, begin, begin)
    for depth, title, at, start in headings(text, begin, number):
        if depth <= level:
            found.append(Part(*head, start))
            head = (depth, title, at, start, text.find("\n", start) + 1 or len(text))
    found.append(Part(*head, len(text)))
    return found


def tasks(text: str, start: int = 0, end: int | None = None, number: int = 1) -> Iterator[Line]:
    """The task items (`- [ ]`, `1. [x]` …) outside code and comments; `at + 1` is the marker's offset."""
    return (line for line in lines(text, start, end, number) if line.box)


def code_spans(text: str) -> list[tuple[int, int]]:
    """Spans of inline code, backticks included, as CommonMark pairs equal runs; linear in the text."""
    runs = [match.span() for match in _TICKS.finditer(text)]
    closer: list[int] = [-1] * len(runs)
    seen: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        width = runs[index][1] - runs[index][0]
        closer[index] = seen.get(width, -1)
        seen[width] = index
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        if closer[index] < 0:
            index += 1
            continue
        spans.append((runs[index][0], runs[closer[index]][1]))
        index = closer[index] + 1
    return spans


def code(text: str) -> str:
    """`text` as inline code, whatever backticks it holds."""
    if "`" not in text and text[:1] != " ":
        return f"`{text}`"
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * (longest + 1 if longest else 1)
    pad = " " if text.strip(" ") and (text[0] in "` " or text[-1] in "` ") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def leading_code(text: str) -> tuple[str, int] | None:
    """The inline code `text` begins with, and the offset after it."""
    if text[:1] != "`":
        return None
    run = len(text) - len(text.lstrip("`"))
    end = text.find("`", run)
    if run == 1 and text[end + 1 : end + 2] != "`" and text[1:2] != " ":
        return (text[1:end], end + 1) if end > 0 else None
    for match in _TICKS.finditer(text, run):
        if match.end() - match.start() == run:
            inside = text[run : match.start()]
            if inside[:1] == " " and inside[-1:] == " " and inside.strip(" "):
                inside = inside[1:-1]
            return inside, match.end()
    return None


def cells(row: str) -> list[str]:
    """The cells of one table row; a pipe that is escaped or inside inline code does not split."""
    row = row.strip()
    if "`" not in row and "\\" not in row:
        return [cell.strip() for cell in row.removeprefix("|").removesuffix("|").split("|")]
    if "\\" not in row and "``" not in row:
        parts = row.removeprefix("|").removesuffix("|").split("|")
        if not any(part.count("`") % 2 for part in parts):  # every span of code begins and ends in its cell
            return [part.strip() for part in parts]
    inside = iter([*code_spans(row), (len(row), len(row))])
    span = next(inside)
    found: list[str] = []
    begin = 0
    for match in _ANY_PIPE.finditer(row):
        pipe = match.end() - 1
        while pipe >= span[1]:
            span = next(inside)
        if pipe >= span[0] or len(match.group(1)) % 2:
            continue
        if pipe:
            found.append(row[begin:pipe])
        begin = pipe + 1
    if begin < len(row):
        found.append(row[begin:])
    return [uncell(one.strip()) for one in found]


def uncell(text: str) -> str:
    """What `cell` escaped, as it was: the backslashes before a pipe are halved."""
    if "\\|" not in text:
        return text
    return _ESCAPED_PIPE.sub(lambda match: "\\" * (len(match.group(1)) // 2) + "|", text)


def cell(text: str) -> str:
    """`text` as it stands in a table cell; `cells` reads it back."""
    return _ANY_PIPE.sub(lambda match: match.group(1) * 2 + "\\|", text) if "|" in text else text


def is_delimiter(row: list[str]) -> bool:
    """Whether a row is the `|---|:--|` line under a table's head."""
    return bool(row) and all(_DELIMITER.match(one) for one in row)
