"""What the Markdown documents share: sections, their titles and their bodies.

Writing and reading are inverse. A body that would break out of its section (a heading, an unclosed
fence) is written with a backslash before each such line, and read without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

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


def _breaks_out(body: str, line: MarkdownLine) -> bool:
    """Whether a visible line would be read as a section's or a contract block's beginning, or as escaped."""
    if line.kind == "heading":
        return line.level <= 2
    return bool(_BLOCK.match(body, line.start, line.end) or _ESCAPED.match(body, line.start, line.end))


def _is_contained(body: str) -> bool:
    """Whether `body`, put under a heading, stays there and is read back as it is."""
    if not _MEANT.search(body):
        return True
    # A sentinel heading tells whether a fence or comment is still open at the end.
    probe = body + "\n\n# end"
    last = 0
    for line in _visible(probe):
        last = line.start
        if last < len(body) and _breaks_out(probe, line):
            return False
    return last > len(body)


def contain_in_section(body: str) -> str:
    """`body` written so that it cannot leave its section."""
    body = unix_lines(body)
    if _is_contained(body):
        return body
    out: list[str] = []
    done = 0
    for line in _visible(body):
        if _breaks_out(body, line) and (match := _MEANT.match(body, line.start, line.end)):
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


def render_document(title: str, fields: Mapping[str, str | None], bodies: Mapping[str, str], extra: Extra = ()) -> str:
    """A whole document: heading, bold fields and sections."""
    head = f"{heading(title, 1)}\n{field_lines(fields)}\n"
    return (head + render_sections(bodies, extra)).rstrip("\n") + "\n"


def render_sections(bodies: Mapping[str, str], extra: Extra, always: str = "") -> str:
    """The sections that have a body (and the one titled `always`), in this order, between the unknown parts."""
    out = [contain_in_section(one.body) + "\n\n" for one in extra if not one.title]
    out += [section(title, body) for title, body in bodies.items() if body or title == always]
    out += [section(one.title, contain_in_section(one.body)) for one in extra if one.title]
    return "".join(out)
