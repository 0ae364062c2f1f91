"""The full checkpoint document: everything a successor needs, with the quick handoff at its head."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from overhand.documents.layout import Section, contain, heading, read_sheet, section
from overhand.documents.lists import FileNote, file_notes, note_lines
from overhand.documents.problems import Problem, by_line
from overhand.documents.problems import strict as as_strict
from overhand.documents.quick import (
    DONE,
    NEXT,
    Fields,
    Quick,
    head_lines,
    list_lines,
    missing,
    pasted,
    plain_name,
    quick_text,
    read_quick,
    texts_of,
    wordy,
)
from overhand.documents.references import check_references, references
from overhand.documents.text import unix

_KNOWN = {
    "quick handoff": "quick",
    **dict.fromkeys(("completed", "done"), "completed"),
    **dict.fromkeys(("remaining", "to do", "todo"), "remaining"),
    "mental model": "mental_model",
    "gotchas": "gotchas",
    "token budget": "token_budget",
    "related files": "related_files",
}
_FIELDS = Fields(
    {
        "status": "status",
        "context usage": "context_usage",
        "next session": "next",
        "next": "next",
        "created": "created",
        "checkpoint id": "checkpoint_id",
    },
    labels=False,
)
_TITLE = re.compile(r"(?:(?<!\s)\s*[-\u2013—:]\s*|(?<!\s)\s+|^)checkpoint$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Full:
    """A checkpoint as a document for people and agents."""

    title: str = ""
    status: str = ""
    context_usage: str = ""
    next: str = ""
    created: str = ""
    checkpoint_id: str = ""
    quick: Quick = field(default_factory=Quick)
    completed: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    mental_model: str = ""
    gotchas: tuple[str, ...] = ()
    token_budget: str = ""
    related_files: tuple[FileNote, ...] = ()
    extra: tuple[Section, ...] = ()


def render_full(full: Full) -> str:
    """A full checkpoint document; `parse_full` reads it back."""
    head = head_lines(
        {
            "Status": full.status,
            "Context Usage": full.context_usage,
            "Next Session": full.next,
            "Created": full.created,
            "Checkpoint ID": full.checkpoint_id,
        }
    )
    untitled = "\n\n".join(one.body for one in full.extra if not one.title)
    out = [heading(f"{full.title} - Checkpoint" if full.title else "Checkpoint", 1), "\n"]
    out += [f"{part}\n\n" for part in (head, contain(_FIELDS.escape(untitled, bool(head)))) if part]
    bodies = {
        "Quick Handoff": contain(quick_text(full.quick)),
        f"{DONE} COMPLETED": list_lines(full.completed),
        f"{NEXT} REMAINING": list_lines(full.remaining),
        "🧠 Mental Model": contain(full.mental_model),
        "⚠️ Gotchas": list_lines(full.gotchas),
        "📊 Token Budget": contain(full.token_budget),
        "🔗 Related Files": note_lines(full.related_files).rstrip("\n"),
    }
    out += [section(title, body) for title, body in bodies.items() if body]
    out += [section(one.title, contain(one.body)) for one in (*full.extra, *full.quick.extra) if one.title]
    return "".join(out).rstrip("\n") + "\n"


def parse_full(text: str) -> tuple[Full, list[Problem]]:
    """What a full checkpoint document says, and what it lacks."""
    sheet = read_sheet(unix(text), _KNOWN, naming=plain_name)
    values, regions, has_head = _FIELDS.read(sheet.preamble)
    before = _FIELDS.unescape(regions["text"], has_head)
    title = sheet.title or ""
    short = title.removesuffix(" - Checkpoint")
    found = Full(
        title=short if short != title else _TITLE.sub("", title),
        status=values.get("status", ""),
        context_usage=values.get("context_usage", ""),
        next=values.get("next", ""),
        created=values.get("created", ""),
        checkpoint_id=values.get("checkpoint_id", "").strip("`"),
        quick=read_quick(sheet.body("quick")),
        completed=texts_of(sheet.bodies.get("completed", "")),
        remaining=texts_of(sheet.bodies.get("remaining", "")),
        mental_model=sheet.body("mental_model"),
        gotchas=texts_of(sheet.bodies.get("gotchas", "")),
        token_budget=sheet.body("token_budget"),
        related_files=file_notes(sheet.bodies.get("related_files", "")),
        extra=tuple([Section("", before), *sheet.extra] if before else sheet.extra),
    )
    needed = {"Checkpoint ID": found.checkpoint_id, "Status": found.status, "Next Session": found.next}
    return found, by_line([*sheet.problems, *missing(needed, 1)])


def lint_full(text: str, *, size_of: Callable[[str], int | None] | None = None, strict: bool = False) -> list[Problem]:
    """Everything that is wrong with a full checkpoint document; `size_of` tells how many lines a file has."""
    full, problems = parse_full(text)
    problems += wordy(quick_text(full.quick), text) + pasted(text)
    if size_of is not None:
        problems += check_references(references(text), size_of)
    return as_strict(by_line(problems)) if strict else by_line(problems)
