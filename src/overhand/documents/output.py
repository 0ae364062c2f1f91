"""OUTPUT.md: an agent's result."""

from __future__ import annotations

import re
from dataclasses import dataclass

from overhand.documents.layout import (
    FileNote,
    Section,
    Sheet,
    bold_pair,
    contain_in_section,
    fences,
    file_notes,
    list_lines,
    note_lines,
    note_table,
    pair,
    read_sheet,
    render_document,
    texts_of,
)
from overhand.documents.markdown import markdown_lines
from overhand.documents.problems import Problem, by_line, warning, wrong
from overhand.documents.text import unix_lines
from overhand.words import STATUSES

_KNOWN = {
    "summary": "summary",
    "deliverables": "deliverables",
    **dict.fromkeys(("decisions made", "decisions", "key decisions"), "decisions"),
    **dict.fromkeys(("for primary", "for the primary"), "for_primary"),
    **dict.fromkeys(("files modified", "modified files", "files changed"), "files_modified"),
    "data": "data",
    "status": "status",
}
_SENTENCES, _TOKENS, _CHARACTERS = 5, 100, 500
_TITLE = re.compile(r"^task\s+(?:complete(?:d)?|output|result|blocked|partial|failed)\s*(?::|—|-|$)\s*", re.IGNORECASE)
_FIELD = re.compile(r"[ \t>*_-]*(status|duration|agent)[ \t]*[*_]*[ \t]*:[ \t]*[*_]*[ \t]*(.*)", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?](?=\s|$)")
_WORDS = ", ".join(STATUSES)
_SYNONYMS = {
    **dict.fromkeys(("done", "complete", "success", "successful", "succeeded", "finished", "ok"), "completed"),
    **dict.fromkeys(("error", "failure"), "failed"),
    **dict.fromkeys(("partially-completed", "partially-complete", "incomplete"), "partial"),
    **dict.fromkeys(("canceled", "aborted"), "cancelled"),
    **dict.fromkeys(("input-needed", "needs-clarification", "waiting-for-input"), "needs-input"),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided, and why."""

    what: str
    why: str = ""


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
        "Summary": contain_in_section(output.summary),
        "Deliverables": note_table(output.deliverables),
        "Decisions Made": list_lines(bold_pair(one.what, one.why) for one in output.decisions),
        "For Primary": contain_in_section(output.for_primary),
        "Files Modified": note_lines(output.files_modified),
        "Data": _data_text(output),
    }
    return render_document(title, fields, bodies, output.extra)


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
    text = unix_lines(text)
    problems: list[Problem] = []
    text = _unwrap(text, problems)
    contract, summary, data, text = _take_block(text, problems)
    sheet = read_sheet(text, _KNOWN)
    problems += sheet.problems
    fields, rest = _fields(sheet)
    status, odd = _status(fields, sheet, contract, text)
    found = sheet.body("summary") or summary
    problems += odd + _summary_problems(found, sheet.lines.get("summary"))
    if sheet.body("data"):
        stated = _data(sheet, problems)
        data = stated if data is None else data
    title = _TITLE.sub("", sheet.title or "", count=1)
    if not title and not contract:
        fix = "Begin with `# Task Complete: title`."
        problems.append(warning("title-missing", "The output has no title.", 1, fix))
    output = Output(
        title=title,
        status=status,
        duration=fields.get("duration", "").strip("*"),
        agent=fields.get("agent", "").strip("`*"),
        summary=found,
        deliverables=file_notes(sheet.raw("deliverables")),
        decisions=tuple(Decision(*pair(text)) for text in texts_of(sheet.raw("decisions"))),
        for_primary=sheet.body("for_primary"),
        files_modified=file_notes(sheet.raw("files_modified")),
        data=data,
        contract=contract,
        extra=sheet.unknown(rest),
    )
    return output, by_line(problems)


def _unwrap(text: str, problems: list[Problem]) -> str:
    """The content of a document that is wrapped in a code fence as a whole."""
    if not text.lstrip().startswith(("```", "~~~")):
        return text
    blocks = fences(text)
    first = next(markdown_lines(text))
    end = text.rstrip().rfind("\n") + 1
    if len(blocks) != 1 or text[first.end + 1 : end] != blocks[0][1]:
        return text
    inside = blocks[0][1]
    if not any(one.kind == "heading" or inside.startswith("===", one.start) for one in markdown_lines(inside)):
        return text
    message = "The whole document is inside a code fence."
    problems.append(warning("wrapped-in-fence", message, first.number, "Write the file without the fence."))
    return "\n" * first.number + inside


def _take_block(text: str, problems: list[Problem]) -> tuple[str | None, str, object | None, str]:
    """The contract block: its name, summary and data, and the text without it (lines keep their numbers)."""
    if "===" not in text:
        return None, "", None, text
    from overhand.documents.contracts import find_block, read_block

    found = find_block(text)
    rows = list(markdown_lines(text)) if found else []
    hidden = frozenset(one.start for one in rows if one.kind in ("code", "comment", "indented"))
    first_heading = next((one.start for one in rows if one.kind == "heading"), len(text))
    # Below a heading, a block inside a fence is an example, not a return. Skip a few of them, but no more:
    # a document full of them is about contracts.
    for _ in range(9):
        if not found or found.start not in hidden or found.start <= first_heading:
            break
        found = find_block(text, found.end)
    else:
        found = None
    if not found:
        return None, "", None, text
    block, odd = read_block(found)
    problems += odd
    text = text[: found.start] + "\n" * text.count("\n", found.start, found.end) + text[found.end :]
    return block.name, block.summary, block.data, text


def _fields(sheet: Sheet) -> tuple[dict[str, str], str]:
    """Status, Duration and Agent, and what else stands before the first section."""
    fields: dict[str, str] = {}
    rest: list[str] = []
    for line in sheet.preamble.split("\n"):
        name = ""
        for piece in line.split(" | "):
            if match := _FIELD.fullmatch(piece):
                name = match.group(1).lower()
                fields.setdefault(name, match.group(2).strip())
            elif name:  # `completed | blocked`: the pipe belongs to the value
                fields[name] += f" | {piece.strip()}"
        if not name:
            rest.append(line)
    return fields, "\n".join(rest).strip("\n")


def _status(fields: dict[str, str], sheet: Sheet, contract: str | None, text: str) -> tuple[str | None, list[Problem]]:
    raw = fields.get("status") or sheet.body("status")
    if not raw and contract:  # the block alone is a return, and its existence says that the work is done
        return "completed", []
    line = next((number for number, row in enumerate(text.split("\n"), 1) if "status" in row.lower()), None)
    if raw:
        return read_status(raw, line)
    fix = f"Add `**Status:**` with one of {_WORDS}."
    return None, [Problem("status-missing", "The output has no status.", line=line, fix=fix)]


def read_status(raw: str, line: int | None = None) -> tuple[str | None, list[Problem]]:
    """The status that `raw` means, in the spelling of the specification, and what was odd about it."""
    if raw in STATUSES:
        return raw, []
    first, *others = raw.split("|")
    word = _word(first)
    problems: list[Problem] = []
    if word in STATUSES:
        status = word
    elif word in _SYNONYMS:
        status = _SYNONYMS[word]
        message = f"The status “{first.strip()}” was read as {status}."
        problems.append(warning("status-synonym", message, line, f"Write {status}."))
    else:
        message = f"The status “{raw.strip()[:40]}” is not known." if word else "The status is empty."
        return None, [Problem("status-unknown", message, line=line, fix=f"Write one of {_WORDS}.")]
    if any(_word(other) in STATUSES for other in others):
        message = f"Several statuses are listed; {status} was taken."
        problems.append(warning("status-several", message, line, "Leave only the one that holds."))
    return status, problems


def _word(text: str) -> str:
    """`✅ **Needs_Input** (see below)` as `needs-input`."""
    text = text.lower().replace("_", "-")
    start = next((index for index, char in enumerate(text) if char.isascii() and char.isalpha()), len(text))
    words: list[str] = []
    for word in text[start:].split()[:3]:
        bare = word.strip("*`.,;:!\u2013—-([{}])")
        words.append(bare)
        if bare != word.rstrip("*`") or not bare:
            break
    for count in range(len(words), 0, -1):
        joined = "-".join(words[:count])
        if joined in STATUSES or joined in _SYNONYMS:
            return joined
    return words[0] if words else ""


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


def _data(sheet: Sheet, problems: list[Problem]) -> object | None:
    """The value of the Data section: its first fenced block, or its whole text."""
    line = sheet.lines["data"]
    body = sheet.bodies["data"]
    blocks = fences(body)
    if len(blocks) > 1:
        message = f"`## Data` holds {len(blocks)} blocks; the first one counts."
        problems.append(warning("data-several", message, line, "Put everything into one JSON value."))
    from overhand.documents.text import load_json

    value, error = load_json(blocks[0][1] if blocks else body)
    if error:
        fix = "Write one fenced block of valid JSON."
        problems.append(wrong("data-invalid", f"`## Data` is not JSON: {error}.", line, fix))
    return value
