"""Alerts: `ALERT_{TOPIC}.md`, a temporary notice to every new task."""

from __future__ import annotations

import re
from dataclasses import dataclass

from overhand.documents.appendix import tags_in, with_tags
from overhand.documents.layout import Section, contain_in_section, read_sheet, render_sections
from overhand.documents.problems import Problem, by_line, warning
from overhand.documents.text import unix_lines

ALERT_ACTIVE, ALERT_DONE = "#active-alert", "#done-alert"
_NEEDED = {"what": "What Changed", "impact": "Impact", "duration": "Expected Duration", "workaround": "Workaround"}
_TITLES = {**_NEEDED, "raised": "Raised", "resolved": "Resolved"}
_KNOWN = {title.lower(): name for name, title in _TITLES.items()} | {"duration": "duration"}
_TITLE = re.compile(r"Alert:\s*(.*)", re.IGNORECASE)
_NO_WORD = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Alert:
    """What changed, what it affects, for how long, and what to do meanwhile."""

    title: str
    what: str = ""
    impact: str = ""
    duration: str = ""
    workaround: str = ""
    raised: str = ""  # date and author
    resolved: str = ""
    tags: tuple[str, ...] = (ALERT_ACTIVE,)
    extra: tuple[Section, ...] = ()

    @property
    def active(self) -> bool:
        """Whether new tasks are given the alert."""
        return ALERT_ACTIVE in self.tags


def alert_file_name(title: str) -> str:
    words = _NO_WORD.sub("_", title.upper()).strip("_")
    return f"ALERT_{words[:48].strip('_') or 'ITEM'}.md"


def render_alert(alert: Alert) -> str:
    """The file for an alert; `parse` reads it back."""
    bodies = {title: contain_in_section(getattr(alert, name)) for name, title in _TITLES.items()}
    return with_tags(f"Alert: {alert.title}", alert.tags, render_sections(bodies, alert.extra))


def parse_alert(text: str) -> tuple[Alert, list[Problem]]:
    """The alert a file holds, read tolerantly, and everything that is wrong with it."""
    text = unix_lines(text)
    sheet = read_sheet(text, _KNOWN)
    tags = tags_in(text)
    preamble = "\n".join(line for line in sheet.preamble.split("\n") if not line.startswith("**Tags")).strip("\n")
    match = _TITLE.fullmatch(sheet.title or "")
    found = Alert(
        title=match.group(1).strip() if match else sheet.title or "",
        **{name: sheet.body(name) for name in _TITLES},
        tags=tags,
        extra=sheet.unknown(preamble),
    )
    problems = [*sheet.problems]
    if not found.title:
        problems.append(Problem("alert-empty", "The alert has no title.", line=1, fix="Begin with `# Alert: title`."))
    if not {ALERT_ACTIVE, ALERT_DONE} & set(tags):
        fix = f"Write `**Tags**: {ALERT_ACTIVE}` under the title."
        problems.append(warning("alert-tag-missing", "No tag says whether it is in force.", 1, fix))
    return found, by_line(problems + sheet.missing("alert-section-missing", _NEEDED))
