"""Lists in documents: their entries, and lists or tables of files with a note to each.

An entry needs no escaping: its further lines are indented, and the scanner ends whatever the entry
opened (a fence, a comment) with the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from overhand.documents.inline import cell, cells, code, is_delimiter, leading_code
from overhand.documents.markdown import markdown_lines
from overhand.documents.text import unix_lines

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
    return "".join(entry(one) for one in texts).rstrip("\n")


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
    elif looks_like_path(path) and rest[0].isspace():
        return path, rest.strip()
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
