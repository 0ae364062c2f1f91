"""OUTPUT.md: an agent's result."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from overhand.documents.decisions import Decision, is_nothing, read_decisions
from overhand.documents.layout import (
    FileNote,
    Section,
    bold_pair,
    contain_in_section,
    fences,
    file_notes,
    list_lines,
    note_lines,
    note_table,
    render_document,
    tidy,
)
from overhand.documents.markdown import markdown_lines
from overhand.documents.outline import Outline, ReturnSection, outline, read_status, section_name
from overhand.documents.problems import Problem, by_line, warning, wrong
from overhand.documents.text import unix_lines
from overhand.words import STATUSES

_FILES = ("deliverables", "files_modified")
_SENTENCES, _TOKENS, _CHARACTERS = 5, 100, 500
_TITLE = re.compile(
    r"^task\s+(?:complete(?:d)?|output|result|report|blocked|partial|failed)\s*(?::|—|-|$)\s*", re.IGNORECASE
)
_SENTENCE = re.compile(r"[.!?](?=\s|$)")
STATUS_LINE = re.compile(r"[ \t]*(?:\*\*|__)?status[ \t]*(?:\*\*|__)?[ \t]*:", re.IGNORECASE)
_BOLD_STATUS = r"(?:\*\*|__)[^\w\n]{0,8}(?:[a-z]+[ \t]+)?status\b"
_STATUS_IN_BODY = re.compile(rf"^(?=\\*{_BOLD_STATUS})", re.IGNORECASE | re.MULTILINE)
_ESCAPED_STATUS = re.compile(rf"^\\(?=\\*{_BOLD_STATUS})", re.IGNORECASE | re.MULTILINE)
# how a document begins that was put into a fence; what a text around it has that is a document itself
_DOCUMENT = re.compile(r"\s*(?:---\s*\n\s*)?(?:#{1,6} |\*\*|__|===|[-*] \*\*|status\b)", re.IGNORECASE)
_STRUCTURE = re.compile(r"^(?:#{1,6} |[ \t>*_-]*status[ \t]*[*_]*:|={3,} ?[A-Z])", re.IGNORECASE | re.MULTILINE)
QUOTING = re.compile(
    r"\b(?:template|example|format|instructions?|told|in this form|unable|not|ran out|should look|will look|before i)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)


class Listed(NamedTuple):
    """A section that lists files, as it was written."""

    body: str
    gone: bool = False  # it lists deleted ones
    files: bool = True  # nothing but files: a list of deliverables may name other things


@dataclass(frozen=True, slots=True)
class Output:
    """A return as the agent claims it; nothing here has been verified."""

    title: str = ""
    status: str | None = None  # one of the seven statuses, or None if there was no valid one
    duration: str = ""
    agent: str = ""
    summary: str = ""
    deliverables: tuple[FileNote, ...] = ()
    decisions: tuple[Decision, ...] = ()
    for_primary: str = ""
    files_modified: tuple[FileNote, ...] = ()
    data: object | None = None
    contract: str | None = None  # the output contract whose block the data came from
    extra: tuple[Section, ...] = ()


def render_output(output: Output) -> str:
    """OUTPUT.md for `output`; `parse` reads it back."""
    title = f"Task Complete: {output.title}" if output.title else "Task Complete"
    fields = {"Status": output.status, "Duration": output.duration, "Agent": output.agent}
    bodies = {
        "Summary": _contain(output.summary),
        "Deliverables": note_table(output.deliverables),
        "Decisions Made": list_lines(bold_pair(one.what, one.why) for one in output.decisions),
        "For Primary": _contain(output.for_primary),
        "Files Modified": note_lines(output.files_modified),
        "Data": _data_text(output),
    }
    return render_document(title, fields, bodies, output.extra, _contain)


def _contain(body: str) -> str:
    """`body` written so that it cannot leave its section, and no line of it states a status."""
    return contain_in_section(_STATUS_IN_BODY.sub(r"\\", unix_lines(body)), section_name)


def _data_text(output: Output) -> str:
    if output.data is None:
        return ""
    if output.contract:
        from overhand.documents.contracts import CONTRACTS, ContractBlock, render_block

        if output.contract in CONTRACTS and isinstance(output.data, dict):
            return render_block(ContractBlock(output.contract, output.data))
    from overhand.documents.text import dump_json

    return f"```json\n{dump_json(output.data)}\n```"


def parse_output(text: str) -> tuple[Output, list[Problem]]:
    """What a file claims, read tolerantly, and everything that is wrong with it."""
    return read_output(text)[:2]


def read_output(text: str) -> tuple[Output, list[Problem], tuple[Listed, ...]]:
    """The same, with the text of each list of files: which of them are named, only the tree can tell."""
    text = unix_lines(text)
    problems: list[Problem] = []
    text = _unwrap(text, problems)
    contract, summary, data, text, is_alone = _take_block(text, problems)
    cut = outline(text)
    sections, extra = _sections(cut, text, problems)
    fields = {one.name: one.value.strip("* ") for one in reversed(cut.stated) if one.in_head}
    status, odd = _status(cut, is_alone=is_alone)
    line = sections["summary"].number if "summary" in sections else None
    found = _body(sections, "summary", text)
    if any(one.code == "status-filled-in" for one in odd):
        found = "\n".join(row for row in found.split("\n") if not STATUS_LINE.match(row)).strip()
    found = found or summary
    problems += odd + _summary_problems(found, line)
    if "data" in sections:
        stated = _data(sections["data"], text, problems)
        data = stated if data is None else data
    title = _TITLE.sub("", _plain_title(cut.title or ""), count=1)
    if not title and not contract:
        fix = "Begin with `# Task Complete: title`."
        problems.append(warning("title-missing", "The output has no title.", 1, fix))
    listed = [(part, part.body(text)) for part in cut.parts if part.name in ("deliverables", "files_modified")]
    output = Output(
        title=title,
        status=status,
        duration=fields.get("duration", ""),
        agent=fields.get("agent", "").strip("`"),
        summary=found,
        deliverables=_notes(listed, "deliverables"),
        decisions=read_decisions(sections["decisions"].body(text)) if "decisions" in sections else (),
        for_primary=_body(sections, "for_primary", text),
        files_modified=_notes(listed, "files_modified"),
        data=data,
        contract=contract,
        extra=extra,
    )
    files = tuple(Listed(body, part.gone, part.name == "files_modified") for part, body in listed)
    return output, by_line(problems), files


def _plain_title(title: str) -> str:
    """A title without the emoji before it."""
    start = next((index for index, char in enumerate(title) if ord(char) < 0x2190), 0)
    return title[start:].strip("* ") if start else title


def _sections(cut: Outline, text: str, problems: list[Problem]) -> tuple[dict[str, ReturnSection], tuple[Section, ...]]:
    """The first section of each name, and the unknown ones."""
    found: dict[str, ReturnSection] = {}
    titles: set[str] = set()
    rest = tidy(cut.rest(text)).strip("\n")
    extra = [Section("", rest)] if rest else []
    for part in cut.parts:
        if part.level and part.name is None:
            extra.append(Section(part.title, _text(part, text)))
        elif part.name in found and (part.name not in _FILES or part.title.lower() in titles):
            message = f"The section “{part.title}” occurs again; the first one counts."
            problems.append(warning("duplicate-section", message, part.number, "Merge the two sections."))
            extra.append(Section(part.title, _text(part, text)))
        elif part.name:
            found.setdefault(part.name, part)
        titles.add(part.title.lower())
    levels = [part for part in found.values() if part.level < 7]
    if levels and all(part.level != 2 for part in levels):
        first = min(levels, key=lambda part: (part.level, part.number))
        message = f"Sections are headings of level {first.level}; level 2 was expected."
        problems.append(warning("heading-level", message, first.number, f"Write `## {first.title}`."))
    return found, tuple(extra)


def _body(sections: dict[str, ReturnSection], name: str, text: str) -> str:
    return _text(sections[name], text) if name in sections else ""


def _text(part: ReturnSection, text: str) -> str:
    """A section's text as its author wrote it."""
    return _ESCAPED_STATUS.sub("", tidy(part.body(text)))


def _notes(listed: list[tuple[ReturnSection, str]], name: str) -> tuple[FileNote, ...]:
    return tuple(note for part, body in listed if part.name == name for note in file_notes(body))


def _unwrap(text: str, problems: list[Problem]) -> str:
    """The content of a document that stands in a code fence as a whole, perhaps with a sentence before and after it."""
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    begin = next((i for i, row in enumerate(lines) if row.startswith(("```", "~~~"))), len(lines))
    end = _closing(lines, begin)
    inside = "\n".join(lines[begin + 1 : end])
    around = "\n".join([*lines[:begin], *lines[end + 1 :]])
    if _DOCUMENT.match(inside) is None or _STRUCTURE.search(around) or QUOTING.search(around):
        return text
    message = "The whole document is inside a code fence."
    problems.append(warning("wrapped-in-fence", message, begin + 1, "Write the file without the fence."))
    return "\n" * (begin + 1) + inside


def _closing(lines: list[str], begin: int) -> int:
    """The line that closes the fence of line `begin`; fences with a language stand inside it."""
    if begin >= len(lines):
        return begin
    char = lines[begin][0]
    width = len(lines[begin]) - len(lines[begin].lstrip(char))
    is_nested = False
    for index in range(begin + 1, len(lines)):
        row = lines[index].strip()
        mark = len(row) - len(row.lstrip(char))
        if mark < 3:
            continue
        if row.strip(char):
            is_nested = is_nested or mark <= width
        elif is_nested and mark <= width:
            is_nested = False
        elif mark >= width:
            return index
    return len(lines)


def _take_block(text: str, problems: list[Problem]) -> tuple[str | None, str, object | None, str, bool]:
    """The contract block: its name, summary and data, the text without it (lines keep their numbers), and whether
    it stands for the whole return. One outside fences goes before one inside.
    """
    if "===" not in text:
        return None, "", None, text, False
    from overhand.documents.contracts import find_block, read_block

    found = first = find_block(text)
    rows = list(markdown_lines(text)) if found else []
    kinds = {one.start: one.kind for one in rows if one.kind in ("code", "comment", "indented")}
    first_heading = next((one.start for one in rows if one.kind == "heading"), len(text))
    # Skip a few blocks in fences, but no more: a document full of them is about contracts.
    for _ in range(9):
        if not found or found.start not in kinds:
            break
        found = find_block(text, found.end)
    else:
        first = found = None
    is_alone = found is not None or first_heading == len(text)
    if found is None and first is not None and kinds.get(first.start) == "code":
        found = first
    if not found:
        return None, "", None, text, False
    block, odd = read_block(found)
    if first_heading < len(text):  # beside sections it is an error only where it was asked for
        odd = [replace(one, level="warning", of="form") for one in odd]
    problems += odd
    text = text[: found.start] + "\n" * text.count("\n", found.start, found.end) + text[found.end :]
    return block.name, block.summary, block.data, text, is_alone


def _status(cut: Outline, *, is_alone: bool) -> tuple[str | None, list[Problem]]:
    """The claim: the first status that stands where one belongs; elsewhere, the first that can be read.

    The title claims nothing. A contract's block that is the whole return says by being there that the work is done.
    """
    stated = [one for one in cut.stated if one.name == "status"]
    read = [(one, *read_status(one.value, one.line)) for one in stated]
    first = next((one for one in read if one[0].in_head), None)
    if first is None:
        first = next((one for one in read if one[1]), None)
    if first is None:
        if is_alone:
            return "completed", []
        if read:
            return None, read[0][2]
        fix = f"Add `**Status:**` with one of {', '.join(STATUSES)}."
        return None, [Problem("status-missing", "The output has no status.", fix=fix)]
    place, status, problems = first
    for other, said, _ in read:
        if other.firm and said != status and (said or (other.in_head and status)):
            message = f"Line {place.line} says “{place.value[:40]}”, line {other.line} “{other.value[:40]}”."
            problems = [*problems, wrong("status-contradicts", message, other.line, "Leave only the one that holds.")]
            break
    if status and not place.in_head:
        message = "The status of OUTPUT.md does not stand below its title; it was found elsewhere."
        problems = [*problems, warning("status-filled-in", message, place.line)]
    return status, problems


def _summary_problems(summary: str, line: int | None) -> list[Problem]:
    if not summary:
        fix = "Add `## Summary`: what was done, in one to three sentences."
        return [Problem("summary-missing", "The output has no summary.", line=line, fix=fix)]
    tokens = int(len(summary.split()) * 1.3)
    sentences = len(_SENTENCE.findall(summary))
    if len(summary) <= _CHARACTERS and tokens <= _TOKENS and sentences <= _SENTENCES:
        return []
    message = (
        f"The summary has {sentences} sentences, about {tokens} tokens and {len(summary)} characters;"
        f" at most {_SENTENCES}, {_TOKENS} and {_CHARACTERS} are meant."
    )
    return [warning("summary-long", message, line, "Move detail to `## For Primary`.")]


def _data(part: ReturnSection, text: str, problems: list[Problem]) -> object | None:
    """The value of the Data section: its first fenced block, or its whole text."""
    line, body = part.number, part.body(text)
    blocks = fences(body)
    if len(blocks) > 1:
        message = f"`## Data` holds {len(blocks)} blocks; the first one counts."
        problems.append(warning("data-several", message, line, "Put everything into one JSON value."))
    from overhand.documents.text import load_json

    value, error = load_json(blocks[0][1] if blocks else body)
    if error and not is_nothing(body):
        fix = "Write one fenced block of valid JSON."
        problems.append(Problem("data-invalid", f"`## Data` is not JSON: {error}.", line=line, fix=fix))
    return value
