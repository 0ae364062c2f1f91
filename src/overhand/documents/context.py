"""CONTEXT.md: what an unfinished run leaves to the next one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from overhand.documents.layout import Section, contain_in_section, read_sheet, render_document
from overhand.documents.problems import Problem, by_line, warning
from overhand.documents.text import unix_lines
from overhand.words import CAUSES

_TITLES = {
    "progress": "Progress",
    "state": "Current State",
    "blocking": "Blocking Issue",
    "resume": "How to Resume",
    "handoff": "Handoff",
}
_KNOWN = {title.lower(): name for name, title in _TITLES.items()} | {"state": "state", "blocker": "blocking"}
_FIELDS = {"task id": "task_id", "dumped": "dumped", "reason": "reason"}
_FIELD = re.compile(r"[ \t>*_-]*(task id|dumped|reason)[ \t]*[*_]*[ \t]*:[ \t]*[*_]*[ \t]*(.*)", re.IGNORECASE)
_SYNONYMS = {
    **dict.fromkeys(("ipc timeout", "ipc-timeout", "answer timeout", "no answer"), "answer-timeout"),
    **dict.fromkeys(("budget exhausted", "budget exceeded", "out of budget"), "budget"),
    **dict.fromkeys(("canceled", "stopped"), "cancelled"),
    **dict.fromkeys(("failed", "failure", "crash"), "error"),
    **dict.fromkeys(("timed out", "time out"), "timeout"),
}


@dataclass(frozen=True, slots=True)
class Context:
    """Where a run stood when it ended without completing."""

    task_id: str
    dumped: str  # when, as an ISO timestamp
    reason: str  # the cause the run ended with
    progress: str = ""
    state: str = ""
    blocking: str = ""
    resume: str = ""
    handoff: str = ""  # the quick handoff (`runs/<run>/handoff.md`), quoted
    extra: tuple[Section, ...] = ()


def render_context(context: Context) -> str:
    """CONTEXT.md for `context`; `parse` reads it back."""
    fields = {"Task ID": context.task_id, "Dumped": context.dumped, "Reason": context.reason}
    bodies = {title: contain_in_section(getattr(context, name)) for name, title in _TITLES.items()}
    return render_document("Worker Context Dump", fields, bodies, context.extra)


def parse_context(text: str) -> tuple[Context, list[Problem]]:
    """The context in a file, read tolerantly, and everything that is wrong with it."""
    text = unix_lines(text)
    sheet = read_sheet(text, _KNOWN)
    fields: dict[str, str] = {}
    rest: list[str] = []
    for line in sheet.preamble.split("\n"):
        if match := _FIELD.fullmatch(line):
            fields.setdefault(_FIELDS[match.group(1).lower()], match.group(2).strip().strip("*`"))
        else:
            rest.append(line)
    problems = list(sheet.problems)
    reason = _reason(fields.get("reason", ""), text, problems)
    for name, field in _FIELDS.items():
        if not fields.get(field):
            shown = "Task ID" if field == "task_id" else name.capitalize()
            message = f"{shown} is missing."
            problems.append(Problem("context-field-missing", message, line=1, fix=f"Add `**{shown}:** …`."))
    needed = {name: _TITLES[name] for name in ("progress", "state", "resume")}
    problems += sheet.missing("context-section-missing", needed)
    context = Context(
        task_id=fields.get("task_id", ""),
        dumped=fields.get("dumped", ""),
        reason=reason,
        **{name: sheet.body(name) for name in _TITLES},
        extra=sheet.unknown("\n".join(rest).strip("\n")),
    )
    return context, by_line(problems)


def _reason(raw: str, text: str, problems: list[Problem]) -> str:
    """The cause that a Reason line names, or the line as it is."""
    word = raw.partition("|")[0].strip().lower()
    known = _SYNONYMS.get(word, word.replace("_", "-"))
    if known in CAUSES or not raw:
        return known
    line = next((n for n, one in enumerate(text.split("\n"), 1) if "reason" in one.lower()), None)
    fix = f"Write one of {', '.join(CAUSES)}."
    problems.append(warning("reason-unknown", f"The reason “{raw[:40]}” is not known.", line, fix))
    return raw
