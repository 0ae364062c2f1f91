"""REQUEST documents: `{KIND}_REQUEST_{TOPIC}.md`, requested work as a readable file.

Overhand writes one once. From then on it belongs to people, and `appendix` adds the results of the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from overhand.documents.appendix import Response, read_responses, tags_in, with_tags
from overhand.documents.handoff import Deliverable, Handoff, deliverable_lines, read_deliverables
from overhand.documents.layout import (
    Section,
    Sheet,
    contain_in_section,
    list_lines,
    read_sheet,
    render_sections,
    texts_of,
)
from overhand.documents.problems import Problem, by_line, warning
from overhand.documents.tags import kind_of_tag as kind_of
from overhand.documents.text import one_line, shorten, unix_lines

_KNOWN = {
    **{name: name for name in ("what", "why", "context", "expectations", "response", "recovery")},
    **dict.fromkeys(("acceptance criteria", "criteria"), "criteria"),
    **dict.fromkeys(("requester", "requested by"), "requester"),
}
_NAME = re.compile(r"([A-Z][A-Z0-9_]*?)_REQUEST_.+\.md")
_TITLE = re.compile(r"([A-Za-z][A-Za-z0-9-]*) Request(?::\s*(.*))?", re.IGNORECASE)
_NO_WORD = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done, and how to verify it."""

    kind: str
    title: str
    what: str = ""
    why: str = ""
    context: str = ""
    expectations: tuple[Deliverable, ...] = ()
    criteria: tuple[str, ...] = ()
    requester: str = ""
    tags: tuple[str, ...] = ()  # the words of the Tags line; without any, `#needs-KIND #P2` is written
    responses: tuple[Response, ...] = ()
    """The results of its runs, the newest last; added by `response`, never by `render`."""
    extra: tuple[Section, ...] = ()


def request_file_name(kind: str, topic: str) -> str:
    """The name of a request's file; `topic` may be any text."""
    words = _NO_WORD.sub("_", topic.upper()).strip("_")
    cut = words[:48] if len(words) <= 48 or "_" not in words[24:48] else words[:48].rpartition("_")[0]
    return f"{kind.upper().replace('-', '_')}_REQUEST_{cut.strip('_') or 'ITEM'}.md"


def kind_in_name(base: str) -> str | None:
    """The kind in a file's name, None if it is not the name of a request."""
    match = _NAME.fullmatch(base)
    return match.group(1).lower().replace("_", "-") if match else None


def render_request(request: Request) -> str:
    """The file for a request; tags in its texts become mentions, so that only its Tags line makes it an item."""
    head = f"{request.kind.capitalize()} Request"
    tags = request.tags or (f"#needs-{request.kind}", "#P2")
    bodies = {
        "What": contain_in_section(request.what),
        "Why": contain_in_section(request.why),
        "Context": contain_in_section(request.context),
        "Expectations": deliverable_lines(request.expectations),
        "Acceptance Criteria": list_lines(request.criteria),
        "Requester": contain_in_section(request.requester),
    }
    title = f"{head}: {request.title}" if request.title else head
    return with_tags(title, tags, render_sections(bodies, request.extra))


def parse_request(text: str) -> tuple[Request, list[Problem]]:
    """The request a file holds, read tolerantly, and everything that is wrong with it."""
    text = unix_lines(text)
    sheet = read_sheet(text, _KNOWN)
    tags, preamble = tags_in(text), sheet.preamble
    rows = preamble.split("\n")
    if at := [index for index, row in enumerate(rows) if row.startswith("**Tags")]:
        preamble = "\n".join([*rows[: at[0]], *rows[at[0] + 1 :]]).strip("\n")
    kind, title = _head(sheet.title or "", tags)
    what = sheet.body("what")
    if "what" not in sheet.bodies:  # a file written by hand: its first paragraphs say what is wanted
        what, preamble = preamble, ""
    found = Request(
        kind=kind,
        title=title,
        what=what,
        why=sheet.body("why"),
        context=sheet.body("context"),
        expectations=read_deliverables(sheet.raw("expectations")),
        criteria=texts_of(sheet.raw("criteria")),
        requester=sheet.body("requester"),
        tags=tags,
        responses=read_responses(sheet.raw("response")),
        extra=sheet.unknown(preamble),
    )
    return found, by_line([*sheet.problems, *_problems(found, sheet)])


def _head(title: str, tags: tuple[str, ...]) -> tuple[str, str]:
    """Kind and title; for the kind the Tags line takes precedence over the heading."""
    match = _TITLE.fullmatch(title)
    named = match.group(1).lower() if match else ""
    kinds = (kind_of(tag) for tag in tags)
    return next((kind for kind in kinds if kind), named), (match.group(2) or "").strip() if match else title


def _problems(found: Request, sheet: Sheet) -> list[Problem]:
    problems: list[Problem] = []
    if not any(kind_of(tag) for tag in found.tags):
        fix = f"Write `**Tags**: #needs-{found.kind or 'fix'}` under the title."
        problems.append(warning("request-tag-missing", "No tag says what kind of work this is.", 1, fix))
    if not (found.what or found.title):
        fix = "Say under `## What` what is to be done."
        line = sheet.lines.get("what")
        problems.append(Problem("request-empty", "The request asks for nothing.", line=line, fix=fix))
    needed = {
        "why": ("Why", "why it is wanted"),
        "expectations": ("Expectations", "what to deliver"),
        "criteria": ("Acceptance Criteria", "how one sees that it is done"),
        "requester": ("Requester", "who asks"),
    }
    for name, (title, meaning) in needed.items():
        if not getattr(found, name):
            message, fix = f"“{title}” is missing or empty: {meaning}.", f"Add `## {title}`."
            problems.append(warning("request-section-missing", message, sheet.lines.get(name), fix))
    return problems


def lint(text: str, *, name: str = "") -> list[Problem]:
    """Everything that is wrong with a request; `name` is its file's."""
    found, problems = parse_request(text)
    named = kind_in_name(name)
    if named and found.kind and named != found.kind:
        message = f"The file is named after the kind {named}, its tag says {found.kind}."
        problems = by_line([*problems, warning("request-kind", message, 1, "Make the two agree.")])
    return problems


def request_to_handoff(request: Request, *, source: str = "") -> Handoff:
    """The request as a task for an agent; `source` is where it is written."""
    title, what = request.title.strip(), request.what.strip()
    is_repeated = not title or one_line(what).lower().startswith(title.rstrip(".…").lower())
    why = f"Why: {request.why}" if request.why else ""
    asked = " ".join(one_line(request.requester).split())
    origin = f"Asked for in {source}" if source else "Asked for"
    parts = [why, request.context, f"{origin} by {shorten(asked, 200)}" if asked else origin if source else ""]
    criteria = list_lines(request.criteria)
    return Handoff(
        task=what if is_repeated else f"{title}\n\n{what}".strip(),
        context="\n\n".join(part for part in parts if part),
        deliverables=request.expectations,
        return_requirements=f"Say of each whether it holds, and how you know:\n{criteria}" if criteria else "",
    )
