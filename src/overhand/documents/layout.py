"""What the Markdown documents share: sections with titles and bodies, lists, and lists or tables of files.

Writing and reading are inverse. A body that would break out of its section (a heading, an unclosed
fence) is written with a backslash before each such line, and read without it. An entry of a list needs
no escaping: its further lines are indented, and the scanner ends whatever the entry opened (a fence, a
comment) with the entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from overhand.documents.inline import cell, cells, code, is_delimiter, leading_code, plain_items
from overhand.documents.markdown import MarkdownLine, Part, markdown_lines, markdown_sections
from overhand.documents.problems import Problem, warning
from overhand.documents.text import one_line, unix_lines

# Lines that would mean something to a reader of the whole document, alone or behind bullets.
_BEFORE = r"^([ \t]*(?:(?:[-+*]|[0-9]{1,9}[.)])[ \t]+)*"
_SPECIAL = r"(?:#{1,6}(?=[ \t]|$)|```|~~~|<!--|=== [A-Z][A-Z _]* ===[ \t]*$)"
_MEANT = re.compile(rf"{_BEFORE}\\*)(?={_SPECIAL})", re.MULTILINE)
_ESCAPED = re.compile(rf"{_BEFORE})\\(?=\\*{_SPECIAL})", re.MULTILINE)
_BLOCK = re.compile(r"[ \t]*=== [A-Z][A-Z _]* ===[ \t]*$")
_EDGE = re.compile(r"\A(?:[ \t]*\n)+")
_NUMBERED = re.compile(r"^\d+[.)]\s+")
# The look-behinds let a match start only at the beginning of a run of blanks: a long run costs one try.
_DASH = re.compile(r"(?<!\s)\s+(?:—|\u2013|--?|→)(?:\s+|$)|(?<!\s)\s*:(?:\s+|$)")
# unrolled, not possessive: early 3.11 releases get possessive groups wrong
_BOLD = re.compile(
    r"\*\*(?!\*\*)([^\\*]*(?:(?:\\.|\*(?!\*))[^\\*]*)*)\*\*(\s*(?::|—|\u2013|--?)(?=\s|$))?\s*", re.DOTALL
)
_STAR = re.compile(r"\\([\\*])")
_NOTHING = frozenset(("", "none", "none.", "n/a", "-", "—", "nothing", "(none)", "_none_"))
_NAMES = frozenset(("file", "path", "files", "name", "deliverable", "artifact"))


@dataclass(frozen=True, slots=True)
class Section:
    """An unknown section, kept as it is; without a title, the text before all sections."""

    title: str
    body: str


Extra = tuple[Section, ...]


@dataclass(slots=True)
class Sheet:
    """A document cut into its known sections."""

    title: str | None = None
    preamble: str = ""
    bodies: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """Line of each known section's heading; the body's first line is the next one."""
    extra: list[Section] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def raw(self, name: str) -> str:
        """The text of a known section as it stands in the document, or nothing."""
        return self.bodies.get(name, "")

    def body(self, name: str) -> str:
        """The text of a known section without its escapes, or nothing."""
        return tidy(self.raw(name))

    def missing(self, code: str, titles: Mapping[str, str]) -> list[Problem]:
        """A warning for each of these sections that is missing or empty."""
        return [
            warning(code, f"“{title}” is missing or empty.", self.lines.get(name), f"Add `## {title}`.")
            for name, title in titles.items()
            if not self.body(name)
        ]

    def unknown(self, before: str) -> tuple[Section, ...]:
        """The unknown parts; `before` is the text before all sections."""
        return tuple([Section("", before), *self.extra] if before else self.extra)


def name_of(title: str) -> str:
    """A heading's title as it is looked up: lower case, without numbering, emphasis or a colon."""
    name = title.strip().strip("*_`").rstrip(":").strip().lower()
    return _NUMBERED.sub("", name).replace("_", " ")


def read_sheet(text: str, known: Mapping[str, str], *, naming: Callable[[str], str] = name_of) -> Sheet:
    """Cut `text` into the sections that `known` names (title in lower case → field)."""
    found = markdown_sections(text)
    sheet = Sheet()
    if not any(part.level == 2 and (part.title.lower() in known or naming(part.title) in known) for part in found):
        found = _other_level(text, known, found, naming, sheet.problems)
    for index, part in enumerate(found):
        if part.level == 0:
            sheet.preamble = text[part.body : part.end]
            continue
        body = text[part.body : part.end]
        name = known.get(part.title.lower()) or known.get(naming(part.title))
        if name is None:
            if part.level == 1 and sheet.title is None and index == 1:
                sheet.title = part.title
                sheet.preamble += body
            else:
                sheet.extra.append(Section(part.title, tidy(body)))
        elif name in sheet.bodies:
            message = f"The section “{part.title}” occurs again; the first one counts."
            sheet.problems.append(warning("duplicate-section", message, part.number, "Merge the two sections."))
            sheet.extra.append(Section(part.title, tidy(body)))
        else:
            sheet.bodies[name] = body
            sheet.lines[name] = part.number
    sheet.preamble = tidy(sheet.preamble)
    return sheet


def _other_level(
    text: str, known: Mapping[str, str], found: list[Part], naming: Callable[[str], str], problems: list[Problem]
) -> list[Part]:
    """Sections of a document whose author used another heading level than two."""
    deep = markdown_sections(text, 6)
    levels = [part.level for part in deep if part.level and naming(part.title) in known]
    if not levels:
        return found
    level = min(levels)
    first = next(part for part in deep if part.level == level and naming(part.title) in known)
    message = f"Sections are headings of level {level}; level 2 was expected."
    problems.append(warning("heading-level", message, first.number, "Write `## " + first.title + "`."))
    return markdown_sections(text, level)


def tidy(body: str) -> str:
    """A section's text: no blank lines around it, escapes removed."""
    body = body.rstrip()
    if body[:1] in ("\n", " ", "\t"):
        body = _EDGE.sub("", body)
    return _unescape(body) if "\\" in body and _ESCAPED.search(body) else body


def _visible(body: str) -> Iterator[MarkdownLine]:
    """The lines outside fences and comments."""
    return (line for line in markdown_lines(body) if line.kind not in ("code", "comment"))


def _unescape(body: str) -> str:
    """Remove one backslash from each escaped line outside fences and comments."""
    out: list[str] = []
    done = 0
    for line in _visible(body):
        if match := _ESCAPED.match(body, line.start, line.end):
            out += body[done : match.end() - 1], body[match.end() : line.end]
            done = line.end
    return "".join(out) + body[done:]


def _never(_: str) -> bool:
    return False


def _breaks_out(body: str, line: MarkdownLine, begins: Callable[[str], object]) -> bool:
    """Whether a visible line would be read as a section's or a contract block's beginning, or as escaped."""
    if line.kind == "heading":
        return line.level <= 2 or bool(begins(line.text))
    return bool(_BLOCK.match(body, line.start, line.end) or _ESCAPED.match(body, line.start, line.end))


def _is_contained(body: str, begins: Callable[[str], object]) -> bool:
    """Whether `body`, put under a heading, stays there and is read back as it is."""
    if not _MEANT.search(body):
        return True
    # A sentinel heading tells whether a fence or comment is still open at the end.
    probe = body + "\n\n# end"
    last = 0
    for line in _visible(probe):
        last = line.start
        if last < len(body) and _breaks_out(probe, line, begins):
            return False
    return last > len(body)


def is_plain(body: str) -> bool:
    """Whether `body`, put under a heading, is written as it is and read back as it is."""
    return "\r" not in body and body == body.strip() and not _MEANT.search(body)


def contain_in_section(body: str, begins: Callable[[str], object] = _never) -> str:
    """`body` written so that it cannot leave its section; `begins` tells which titles begin one at any level."""
    if not body:
        return ""
    body = unix_lines(body)
    if _is_contained(body, begins):
        return body
    out: list[str] = []
    done = 0
    for line in _visible(body):
        if _breaks_out(body, line, begins) and (match := _MEANT.match(body, line.start, line.end)):
            out += body[done : match.end()], "\\", body[match.end() : line.end]
            done = line.end
    gentle = "".join(out) + body[done:]
    if _unescape(gentle) == body and [part.level for part in markdown_sections(gentle + "\n\n# end")] == [0, 1]:
        return gentle
    # Escaping changed the nesting: escape every such line, so that no fence is left.
    return _MEANT.sub(r"\1\\", body)


def fences(body: str) -> list[tuple[str, str]]:
    """The fenced blocks of a section as (info string, content)."""
    found: list[tuple[str, str]] = []
    opener = info = ""
    begin = 0
    for line in markdown_lines(body):
        if line.kind != "code":
            continue
        text = body[line.start : line.end].strip()
        if not opener:
            info = text.lstrip(text[0])
            opener, begin = text[: len(text) - len(info)], line.end + 1
        elif text.startswith(opener) and not text.strip(opener[0]):
            found.append((info.strip(), body[begin : line.start]))
            opener = ""
    if opener:
        found.append((info.strip(), body[begin:]))
    return found


def heading(title: str, level: int = 2) -> str:
    """A heading line; a title that ends in `#` gets the closing run that protects it."""
    title = title.replace("\r", " ").replace("\n", " ").strip()
    return f"{'#' * level} {title}{' ##' if title.endswith('#') else ''}\n"


def field_lines(values: Mapping[str, str | None]) -> str:
    """Bold fields, one per line, without those that are empty."""
    return "".join(f"**{name}:** {one_line(value)}\n" for name, value in values.items() if value)


def section(title: str, body: str) -> str:
    """A section with its heading, ready to be joined."""
    return f"{heading(title)}{body}\n\n" if body else f"{heading(title)}\n"


def render_document(
    title: str,
    fields: Mapping[str, str | None],
    bodies: Mapping[str, str],
    extra: Extra = (),
    contain: Callable[[str], str] = contain_in_section,
) -> str:
    """A whole document: heading, bold fields and sections."""
    head = f"{heading(title, 1)}\n{field_lines(fields)}\n"
    return (head + render_sections(bodies, extra, contain=contain)).rstrip("\n") + "\n"


def render_sections(
    bodies: Mapping[str, str], extra: Extra, always: str = "", contain: Callable[[str], str] = contain_in_section
) -> str:
    """The sections that have a body (and the one titled `always`), in this order, between the unknown parts."""
    out = [contain(one.body) + "\n\n" for one in extra if not one.title]
    out += [section(title, body) for title, body in bodies.items() if body or title == always]
    out += [section(one.title, contain(one.body)) for one in extra if one.title]
    return "".join(out)


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file that an entry names and its note; an entry that names no file has the path ""."""

    path: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list, or one paragraph beside it."""

    text: str
    line: int
    box: str = ""
    is_item: bool = True


def texts_of(body: str) -> tuple[str, ...]:
    """The entries of a list, and the paragraphs beside it."""
    return tuple(one.text for one in entries(body))


def entries(body: str, line: int = 1, *, boxes: bool = False) -> list[Entry]:
    """The top-level entries of a section, continuation lines dedented; paragraphs count as entries.

    With `boxes` a task box is read; without, it is part of the text.
    """
    found: list[Entry] = []
    begin = number = column = last = 0
    box, is_item = "", True

    def close(stop: int) -> None:
        first, *rest = body[begin:stop].strip().split("\n")
        if number and first:
            text = "\n".join([first, *(_dedent(one, column) for one in rest)])
            found.append(Entry(text, number, box, is_item))

    for one in markdown_lines(body, 0, None, line):
        if one.depth == 0:
            if one.kind == "item":
                close(one.start)
                box = one.box if boxes else ""
                begin, number, column, is_item = one.at + (3 if box else 0), one.number, one.level, True
            elif one.kind == "comment":
                close(one.start)
                number = 0
            elif not number or (one.kind != "code" and body.count("\n", last, one.start) > 1):
                close(one.start)
                begin, number, column, box, is_item = one.start, one.number, 0, "", False
        last = one.end
    close(len(body))
    return found


def _dedent(text: str, column: int) -> str:
    """A line of an entry without the indent that made it part of the entry."""
    pad = text[: len(text) - len(text.lstrip(" \t"))]
    if len(pad) == len(text):
        return text
    if text.startswith(" " * column):
        return text[column:]
    if "\t" in pad:
        pad, text = pad.expandtabs(4), pad.expandtabs(4) + text[len(pad) :]
    return text[min(column, len(pad)) :]


def entry(text: str, box: str | None = None) -> str:
    """One list entry with its further lines indented under it."""
    first = text = unix_lines(text)
    if "\n" in text:
        first, *rest = text.split("\n")
        text = "\n".join([first, *("  " + one if one.strip(" \t") else one for one in rest)])
    if box is not None:
        return f"- [{box}] {text}\n"
    # `- - -` would be a rule.
    return f"- {text}\n" if first.strip("- \t") else f"* {text}\n"


def list_lines(texts: Iterable[str]) -> str:
    """Texts as a list, without a final newline."""
    return "".join([entry(one) for one in texts]).rstrip("\n")


def split_note(text: str) -> tuple[str, str]:
    """`head — rest`, `head: rest`: the two sides of the first dash or colon."""
    match = _DASH.search(text)
    return (text[: match.start()], text[match.end() :]) if match else (text, "")


def pair(text: str) -> tuple[str, str]:
    """`**x**: why` as (x, why); without bold, the two sides of a dash or colon that comes early."""
    if match := _BOLD.match(text):
        what, dash = match.group(1).strip(), match.group(2)
        if not dash and what.endswith(":"):  # **x:** why
            what = what[:-1].rstrip()
        return _STAR.sub(r"\1", what), text[match.end() :]
    head, rest = split_note(text)
    return (head, rest) if rest and len(head) <= 80 else (text, "")


def bold_pair(what: str, why: str) -> str:
    """(x, why) as `pair` reads it."""
    if "*" in what or "\\" in what:
        what = what.replace("\\", "\\\\").replace("*", "\\*")
    if why:
        return f"**{what}**: {why}"
    return f"**{what}**:" if what.endswith(":") else f"**{what}**"


def looks_like_path(text: str) -> bool:
    """Whether an unquoted word is a path or glob rather than prose."""
    if text.split() != [text] or not any(sign in text for sign in "/.*"):
        return False
    return text[-1] not in ".," and not text.startswith("http")


def quoted_path(text: str) -> tuple[str, str] | None:
    """The backticked path that `text` begins with, and the note after its dash or colon."""
    quoted = leading_code(text)
    if not quoted or not quoted[0].strip():
        return None
    path, after = quoted
    rest = text[after:]
    if not rest.strip():
        note = ""
    elif match := _DASH.match(rest):
        note = rest[match.end() :].strip()
    elif looks_like_path(path) and (rest[0].isspace() or rest[0] in ",;"):
        return path, rest.lstrip(",;").strip()
    else:
        return None
    # `npm run build` — passes: a command, not a file.
    if path.split() != [path] and (" -" in path or not any(sign in path for sign in "/.*")):
        return None
    return path, note


def file_notes(body: str) -> tuple[FileNote, ...]:
    """The files a section names, from a table or a list, with or without backticks."""
    if not body:
        return ()
    rows = body.strip().split("\n")
    if all(row[:1] == "|" for row in rows):
        return tuple(_table(rows))
    if (plain := plain_items(body)) is not None:
        return tuple([_note(text) for text in plain])
    found: list[FileNote] = []
    for one in entries(body):
        if not one.is_item and one.text.startswith("|"):
            found += _table(one.text.split("\n"))
        elif one.text.lower() not in _NOTHING:
            found.append(_note(one.text))
    return tuple(found)


def _note(text: str) -> FileNote:
    if pair := quoted_path(text):
        return FileNote(*pair)
    if (prose := unescaped(text)) != text:
        return FileNote("", prose)
    head, rest = split_note(text)
    head = head.strip("*")
    return FileNote(head, rest) if looks_like_path(head) else FileNote("", text)


def _table(rows: list[str]) -> Iterator[FileNote]:
    read = [cells(row) for row in rows if row.strip()]
    if len(read) > 1 and is_delimiter(read[1]):
        read = read[2:]
    elif read and read[0][0].lower() in _NAMES:
        read = read[1:]
    for row in read:
        first, note = row[0], " | ".join(row[1:])
        quoted = leading_code(first)
        if quoted and quoted[1] == len(first):
            yield FileNote(quoted[0], note)
        elif first.lower() not in _NOTHING:
            plain = first.strip("*`")
            is_path = " " not in plain or looks_like_path(plain.replace(" ", ""))
            yield FileNote(plain, note) if is_path else FileNote("", " | ".join(row))


def note_lines(notes: Iterable[FileNote]) -> str:
    """Files as a list: `` - `path` — note ``."""
    texts = (noted_path(one.path, one.note) if one.path else escaped(one.note) for one in notes)
    return list_lines(texts)


def noted_path(path: str, note: str) -> str:
    """A path and its note as `quoted_path` reads them."""
    return f"{code(path)} — {note}" if note else code(path)


def escaped(prose: str) -> str:
    """Prose with a backslash if it would be read as a quoted path, or as already escaped."""
    if prose[:1] == "\\":
        must_escape = prose.lstrip("\\")[:1] == "`"
    else:
        must_escape = prose[:1] == "`" and quoted_path(prose) is not None
    return "\\" + prose if must_escape else prose


def unescaped(prose: str) -> str:
    """The inverse of `escaped`."""
    return prose[1:] if prose[:1] == "\\" and prose.lstrip("\\")[:1] == "`" else prose


def note_table(notes: tuple[FileNote, ...]) -> str:
    """Files as a table, or as a list where a table cannot hold them."""
    if not notes or any(not one.path or "\n" in one.note or "\r" in one.note for one in notes):
        return note_lines(notes)
    rows = (f"| {cell(code(one.path))} | {cell(one.note)} |" for one in notes)
    return "\n".join(["| File | Description |", "|---|---|", *rows])
