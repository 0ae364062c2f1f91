"""The sections of a return, whatever its headings look like: any level, bold, underlined, with emoji or numbers.

A heading of a known name always begins its section. One of another name ends the section above it only if it is of the
same rank or a higher one; otherwise it structures that section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from overhand.documents.inline import cells, is_delimiter
from overhand.documents.layout import name_of
from overhand.documents.markdown import MarkdownLine, front_matter_end, markdown_lines
from overhand.documents.problems import Problem, warning
from overhand.words import STATUSES

_NAMES = {
    **dict.fromkeys(("summary", "executive summary", "work summary", "task summary", "tl;dr", "tldr"), "summary"),
    **dict.fromkeys(("summary of changes", "summary of work"), "summary"),
    "deliverables": "deliverables",
    **dict.fromkeys(("decisions made", "decisions", "key decisions", "design decisions"), "decisions"),
    **dict.fromkeys(("technical decisions", "decisions taken", "decision log", "decisions and rationale"), "decisions"),
    **dict.fromkeys(("for primary", "for the primary", "for the primary agent", "for primary agent"), "for_primary"),
    **dict.fromkeys(("data", "output data", "result data"), "data"),
    **dict.fromkeys(("status", "task status", "final status", "overall status", "completion status"), "status"),
}
_INSTEAD = frozenset(("overview", "what was done", "what i did", "result", "results"))  # of a missing summary
_FILE_NOUNS = frozenset(
    ("file", "files", "artifact", "artifacts", "artefacts", "deliverables", "deliverable", "outputs")
)
_MADE = frozenset(
    [
        "created",
        "modified",
        "changed",
        "added",
        "updated",
        "new",
        "edited",
        "touched",
        "generated",
        "produced",
        "written",
        "altered",
    ]
)
_GONE = frozenset(("deleted", "removed"))
_GLUE = frozenset(("and", "or", "the", "all", "list", "of", "output", "key", "main", "project", "source", "code"))
_BOLD = re.compile(r"[^\w*_\[`|]{0,8}(\*\*|__)(?!\s)([^*\n]{2,80}?)\1[ \t]*:?(?:[ \t]+(\S.*))?[ \t]*")
_LABEL = re.compile(r"([A-Za-z][A-Za-z ]{2,30}):(?:[ \t]+(\S.*))?")
_COUNT = re.compile(r"\s*\([^()]*\)\s*$")
_EDGE = re.compile(r"^[^\w]+|[^\w)]+$")
_FIELD = re.compile(
    r"(?:[^\w\n|]|_){0,12}(?:(?:task|final|overall|completion|current)[ \t]+)?(status|duration|agent)"
    r"[ \t]*[*_]*[ \t]*[:\uff1a][ \t]*[*_]*[ \t]*(.*?)[ \t]*",
    re.IGNORECASE,
)


@dataclass(slots=True)
class ReturnSection:
    """One section: what it is for, and where it stands; level 0 is what stands before all others."""

    name: str | None
    title: str
    level: int
    number: int
    inline: str = ""  # text behind a bold heading, on its line
    gone: bool = False  # it lists deleted files
    begin: int = 0
    end: int = 0
    first: int = 0  # number of its body's first line
    is_item: bool = False  # an entry of a list of fields began it

    def body(self, text: str) -> str:
        """The text below its heading."""
        rest = text[self.begin : self.end]
        return f"{self.inline}\n{rest}" if self.inline else rest


@dataclass(slots=True)
class Stated:
    """A status, duration or agent, with its line; `firm` if it stands where one belongs or is in bold."""

    name: str
    value: str
    line: int
    firm: bool
    in_head: bool = False  # before all sections, or in one of its own


@dataclass(slots=True)
class Outline:
    title: str | None = None
    parts: list[ReturnSection] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    fields: set[int] = field(default_factory=set)  # numbers of lines before all sections that hold fields

    def rest(self, text: str) -> str:
        """What stands before all sections, without the fields."""
        kept: list[str] = []
        for part in self.parts:
            if part.level == 0:
                rows = enumerate(text[part.begin : part.end].split("\n"), part.first)
                kept += [row for number, row in rows if number not in self.fields]
        return "\n".join(kept)


def _plain(title: str) -> str:
    """A heading's words in lower case, without emoji, numbers and what stands in parentheses."""
    return _EDGE.sub("", name_of(_EDGE.sub("", _COUNT.sub("", title))))


def section_name(title: str) -> str | None:
    """What a heading begins: a section's field, or None."""
    name = _plain(title)
    if name in _NAMES:
        return _NAMES[name]
    words = set(re.split(r"[\s/&,+]+", name)) - _GLUE - {""}
    if not words or not words <= _FILE_NOUNS | _MADE | _GONE:
        return None
    if words & {"artifact", "artifacts", "artefacts", "deliverables", "outputs"}:
        return "deliverables"
    if not words & _FILE_NOUNS or words == {"file"}:
        return None
    return "deliverables" if words <= _FILE_NOUNS and "output" in name else "files_modified"


def outline(text: str) -> Outline:
    """Cut a return into its sections, and collect the fields that stand in it."""
    found = Outline()
    begin = front_matter_end(text)
    number = text.count("\n", 0, begin) + 1
    current = ReturnSection(None, "", 0, number, begin=begin, first=number)
    found.parts.append(current)
    before: MarkdownLine | None = None
    table: list[str] = []
    for line in markdown_lines(text, begin, None, number):
        shown = text[line.start : line.end]
        head = _heading(text, line, before, current, shown)
        before = line
        if head is None:
            if current.level == 0 or (current.name != "data" and "status" in shown.lower()):
                table = _collect(found, current, line, shown, table)
            continue
        part, start = head
        part.first = line.number + 1
        if part.name is None and not _ends(part, current):
            continue
        if part.name is None and _is_title(part, found):
            found.title = part.title
            part = ReturnSection(None, "", 0, part.number, begin=part.begin, first=part.first)
        current.end = start
        current = part
        found.parts.append(part)
    current.end = len(text)
    if all(part.name != "summary" for part in found.parts):
        instead = (part for part in found.parts if part.level and part.name is None and _plain(part.title) in _INSTEAD)
        for part in list(instead)[:1]:
            part.name = "summary"
    found.stated += [_stated_below(part, text) for part in found.parts if part.name == "status"]
    found.stated.sort(key=lambda one: one.line)
    return found


def _stated_below(part: ReturnSection, text: str) -> Stated:
    """The status in a section of its own: its first line, and what follows as a note."""
    rows = [row.strip().lstrip("-*+ ") for row in part.body(text).split("\n")]
    first, *more = [row for row in rows if row] or [""]
    if match := _FIELD.fullmatch(first):
        first = match[2]
    return Stated("status", f"{first} — {' '.join(more)[:1000]}" if more else first, part.number, True, True)


def _ends(part: ReturnSection, current: ReturnSection) -> bool:
    """Whether a heading of an unknown name ends the section above it."""
    return part.level <= max(2, current.level) and not (part.level == 7 and current.level < 7)


def _is_title(part: ReturnSection, found: Outline) -> bool:
    return found.title is None and len(found.parts) == 1 and (part.level == 1 or is_template_title(part.title))


def is_template_title(title: str) -> bool:
    """Whether a heading is the template's own title."""
    return name_of(_EDGE.sub("", title)).startswith(("task complete", "task output", "task result", "task report"))


def _heading(
    text: str, line: MarkdownLine, before: MarkdownLine | None, current: ReturnSection, shown: str
) -> tuple[ReturnSection, int] | None:
    """The section that a line begins, and the offset of its heading."""
    after = min(len(text), line.end + 1)
    if line.kind == "heading":
        title, colon, value = line.text.partition(": ")
        name = section_name(line.text) or (section_name(title) if colon else None)
        inline = value.strip() if name and colon and not section_name(line.text) else ""
        return ReturnSection(
            name, line.text, line.level, line.number, inline, _lists_gone(line.text, name), after
        ), line.start
    if line.kind == "text" and not line.depth and before is not None and shown.strip(" \t")[:1] in "=-":
        bare = shown.strip()
        if before.kind == "text" and before.number == line.number - 1 and len(bare) > 2 and not bare.strip(bare[0]):
            title = text[before.start : before.end].strip()
            if name := section_name(title):
                gone = _lists_gone(title, name)
                return ReturnSection(name, title, 2, before.number, gone=gone, begin=after), before.start
    if line.kind == "item" and (current.level == 0 or current.is_item):
        shown = line.text
    elif line.kind != "text" or line.depth or shown[:1] in " \t>":
        return None
    if match := _BOLD.fullmatch(shown):
        title, inline = match[2].rstrip(": "), match[3] or ""
        name = section_name(title)
        label, colon, value = title.partition(": ")
        if not name and colon and (name := section_name(label)) and not inline:  # **Summary: text**
            title, inline = label, value
        is_label = bool(match[3]) or match[2].endswith(":")
        if name == "status" and inline:
            return None  # a field
        if name or (not is_label and line.kind == "text" and not match[3] and match.start(1) < 8):
            gone = _lists_gone(title, name)
            is_item = line.kind == "item"
            return ReturnSection(name, title, 7, line.number, inline, gone, after, is_item=is_item), line.start
    elif current.level in (0, 7) and (match := _LABEL.fullmatch(shown)) and line.kind == "text":
        name = section_name(match[1])
        if name and name != "status":
            return ReturnSection(
                name, match[1], 7, line.number, match[2] or "", _lists_gone(match[1], name), after
            ), line.start
    return None


def _lists_gone(title: str, name: str | None) -> bool:
    if name != "files_modified":
        return False
    words = set(re.split(r"[^a-z]+", title.lower()))
    return bool(words & _GONE) and not words & _MADE


def _collect(found: Outline, current: ReturnSection, line: MarkdownLine, shown: str, table: list[str]) -> list[str]:
    """Take the fields of a line; of a table, its row or the cell below its head. Returns the table's head."""
    is_head = current.level == 0
    if line.kind in ("code", "comment", "indented") or shown.lstrip()[:1] == ">":
        return []
    bare = line.text if line.kind == "item" else shown
    if is_head and "|" in bare and (row := [cell.strip("*_` :") for cell in cells(bare)]):
        if len(row) > 1 and row[0].lower() in ("status", "duration", "agent", "task status"):
            found.stated.append(Stated(row[0].lower().split()[-1], row[1], line.number, True, True))
            found.fields.add(line.number)
            return []
        if is_delimiter(row):
            return table
        if table:
            pairs = zip(table, row, strict=False)
            found.stated += [Stated(key, value, line.number, True, True) for key, value in pairs if key == "status"]
            return []
        if bare.lstrip().startswith("|"):
            return [cell.lower() for cell in row]
    if not is_head and (line.kind == "item" or line.depth):
        return []  # an entry of a list speaks of its own status
    firm = is_head or bare[:2] in ("**", "__")
    for one in _fields(bare, line.number, firm):
        if is_head or one.name == "status":
            one.in_head = is_head
            found.stated.append(one)
            found.fields |= {line.number} if is_head else set()
    return []


def _fields(row: str, number: int, firm: bool) -> Iterator[Stated]:
    """`**Status:** x | **Duration:** y`: each field of a line."""
    last: Stated | None = None
    for piece in row.split(" | "):
        if match := _FIELD.fullmatch(piece.rstrip("\\ ")):
            if last:
                yield last
            last = Stated(match[1].lower(), match[2].strip(), number, firm)
        elif last:  # `completed | blocked`: the pipe belongs to the value
            last.value += f" | {piece.strip()}"
    if last:
        yield last


_WORDS = ", ".join(STATUSES)
_SYNONYMS = {
    **dict.fromkeys(("done", "complete", "success", "successful", "succeeded", "finished", "ok", "okay"), "completed"),
    **dict.fromkeys(("error", "errored", "failure"), "failed"),
    **dict.fromkeys(("partially-completed", "partially-complete", "partially-done", "partly-completed"), "partial"),
    **dict.fromkeys(("partly-done", "partial-success", "partial-completion", "incomplete"), "partial"),
    **dict.fromkeys(("canceled", "aborted"), "cancelled"),
    **dict.fromkeys(("input-needed", "needs-clarification", "waiting-for-input", "needs-user-input"), "needs-input"),
}
# The phrase ends where a note begins: a parenthesis, a dash, a comma, the end of a sentence.
_PHRASE = re.compile(r"([^(\[{,;:.!?/|&+<>\u2013—]*?)\s*(?:([(\[{,;:.!?/|&+<>\u2013—]| -+ )(.*))?", re.DOTALL)
_FILLER = re.compile(
    r"^(?:(?:the|this|my|task|work|job|all|now|fully|successfully|100 ?%|is|was|has been|have been)\s+)+"
    r"|(?:\s+(?:now|fully|successfully|100 ?%|and (?:tested|verified|committed|pushed)))+$"
)
# `blocked by the missing key`: the reason needs no comma, as it takes nothing back
_REASON = re.compile(
    r"(blocked|failed|partial|needs input|cancelled) (?:by|on|because|due|since|waiting|after|from)\b.*"
)
_MARKUP = str.maketrans({**dict.fromkeys("*`~\"'“”„«»\u2018\u2019\u200b\u200d\ufe0f\ufeff", ""), "_": " ", "\xa0": " "})
# signs that speak against "completed", whatever the word beside them says
_DOUBT = frozenset("❌✖✗✘🚫⛔🛑⚠🟡🟠🔴🟨🟧🟥⏳⌛🔄🚧❓❗⏸🕐🔜")
_GOOD_NEWS = re.compile(
    r"\b(?:no|zero|0|without(?: any)?) (?:(?:known|open|new|remaining|further|other) )?"
    r"(?:issues?|errors?|failures?|failed|failing|warnings?|problems?|regressions?|skipped|blockers?|todos?)\b"
    r"|\bnothing (?:is |was )?(?:else )?(?:left|missing|open|remaining|failed|failing|skipped|broken)\b"
    r"|\bnot? (?:only|just)\b|\b100 ?%|\b(\d+) ?(?:/|of|out of) ?\1\b"
)
_TAKES_BACK = re.compile(
    r"\b(?:not?|never|none|nothing|cannot|unable|without|but|except\w*|excluding|however|though|although|minus|apart|aside"
    r"|only|part(?:s|ly|ial|ially)?|mostly|most|some|almost|nearly|half|todo|tbd|wip|progress|pending|remain\w*|left"
    r"|yet|still|until|later|tomorrow|next|needs?|needed|requires?|wait\w*|block\w*|fail\w*|errors?|broken|breaks?|red"
    r"|miss\w*|skip\w*|incomplete|unfinished|untested|unverified|unsuccessful\w*|issues?|problems?|caveats?|warnings?"
    r"|cancel\w*|abort\w*|crash\w*|stub\w*|mock\w*|placeholder\w*|assum\w*|draft|unless|if|would|should|could|will|can"
    r"|to be|input)\b|\w+n['\u2019]t\b|%|\?|\d ?(?:/|of|out of) ?\d"
)


def read_status(raw: str, line: int | None = None) -> tuple[str | None, list[Problem]]:
    """The status that `raw` claims, in the spelling of the specification, and what was odd about it."""
    if raw in STATUSES:
        return raw, []
    plain = raw.lower().replace("n\u2019t", "n't")
    shown = "".join(char if char.isascii() or char.isalpha() or char in "\u2013—" else " " for char in plain)
    match = _PHRASE.fullmatch(" ".join(shown.translate(_MARKUP).split()))
    phrase, sign, note = match.groups("") if match else ("", "", "")
    bare = _FILLER.sub("", phrase.strip(" -")).replace("-", " ")
    word = "-".join(_REASON.sub(r"\1", bare).split())
    status = word if word in STATUSES else _SYNONYMS.get(word)
    if sign and sign in "/|&+?" and status and any(one in note for one in STATUSES):
        message = "Several statuses are listed; none of them is a claim."
        return None, [Problem("status-several", message, line=line, fix="Leave only the one that holds.")]
    if status is None or (sign and sign in "/|&+?<>") or (status == "completed" and _is_doubtful(raw, note)):
        message = f"The status “{raw.strip()[:40]}” is not known." if raw.strip() else "The status is empty."
        return None, [Problem("status-unknown", message, line=line, fix=f"Write one of {_WORDS}.")]
    if word == status:
        return status, []
    message = f"The status “{raw.strip()[:40]}” was read as {status}."
    return status, [warning("status-synonym", message, line, f"Write {status}.")]


def _is_doubtful(raw: str, note: str) -> bool:
    """Whether a sign beside “completed”, or the note behind it, takes some of it back."""
    return not _DOUBT.isdisjoint(raw) or takes_back(note)


def takes_back(note: str) -> bool:
    """Whether a note behind a claim speaks of something that is not done."""
    return bool(_TAKES_BACK.search(_GOOD_NEWS.sub(" ", note.lower())))
