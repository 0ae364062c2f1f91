"""A request in no provider's words, and the place in a script that it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from model.scripts import Script, Usage

MARKER = re.compile(r"\bscript:([A-Za-z0-9][A-Za-z0-9_-]*)")
# What clients add to the user's words, also as messages of their own; it may repeat a file that holds a marker.
ADDED = re.compile(r"<(system-reminder|info-msg|environment_context|session_context)>.*?</\1>", re.DOTALL)
# What clients put into the model's mouth when a session broke off; the model never said it.
INVENTED = re.compile(r"No response requested\.$|Ran into this error: ")
OUTPUT = re.compile(r"^[ \t]*(/.*OUTPUT\.md)[ \t]*$", re.MULTILINE)
CALL = re.compile(r"_([0-9a-f]{20})\d{4}$")
WHERE = re.compile(
    r"(?:<cwd>|[Ww]orking directory: |working in the directory: |Workspace Directories:\*\*\n\s*- )(/[^\n<]+)"
)
WORKSPACES = re.compile(r"(?P<workspace>(?P<project>.*)/\.agent-workspaces/[^/]+)/")


@dataclass(frozen=True)
class Tool:
    """A tool that the request offers."""

    name: str
    schema: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""


@dataclass(frozen=True)
class Event:
    """One piece of the conversation: what the `user` or the `model` said, or the `result` of a tool."""

    kind: str
    text: str = ""
    call: str = ""  # the id of (one of) the model's calls: it tells which answer it was part of


@dataclass(frozen=True)
class Request:
    """What a client asks, whatever format it asked in."""

    model: str
    stream: bool
    system: str
    events: tuple[Event, ...]
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Call:
    """One tool call of an answer."""

    id: str
    tool: Tool
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the model says, before it is put into a format."""

    id: str
    model: str
    text: str
    calls: tuple[Call, ...]
    usage: Usage
    refuses: bool = False


@dataclass(frozen=True)
class Place:
    """Where in which script a conversation is; no name: nobody named a script."""

    name: str
    number: int


def find(request: Request, scripts: Mapping[str, Script]) -> Place:
    """The last script the user named, and how many turns of the model came after it."""
    name, number, answering = "", 0, False
    counted: set[str] = set()  # some clients tell the calls of one answer apart, each with its result
    for event in genuine(request):
        said = own_words(event)
        markers = MARKER.findall(said) if event.kind == "user" else []
        if markers:
            name, number = _redirected(markers[-1], said, scripts), 0
        answer = CALL.search(event.call)
        if event.kind == "model" and not answering and not (answer and answer[1] in counted):
            number += 1
        if answer:
            counted.add(answer[1])
        answering = event.kind == "model"
    return Place(name, number)


def call_id(answer: str, number: int) -> str:
    """The id of an answer's call, by which the answer is known again."""
    return f"call_{answer[:20]}{number:04}"


def genuine(request: Request) -> list[Event]:
    """The events without messages that are the client's own, which may even stand inside one turn of the model."""
    return [event for event in request.events if not _is_clients(event)]


def _is_clients(event: Event) -> bool:
    if event.kind == "user":
        return not own_words(event)
    return event.kind == "model" and not event.call and INVENTED.match(event.text) is not None


def own_words(event: Event) -> str:
    """The text without what the client added."""
    return ADDED.sub("", event.text).strip()


def _redirected(name: str, said: str, scripts: Mapping[str, Script]) -> str:
    if name not in scripts:
        return name
    return next((other for phrase, other in scripts[name].when.items() if phrase in said), name)


def last_said(request: Request) -> str:
    """The user's latest words, without what the client added."""
    texts = (own_words(event) for event in reversed(request.events) if event.kind == "user")
    return next((text for text in texts if text), "")


def last_results(request: Request) -> list[str]:
    """What the tools of the latest turn returned, also where a client tells its calls apart."""
    results: list[str] = []
    pending: list[str] = []
    latest = None
    for event in reversed(genuine(request)):
        if event.kind == "result":
            pending.insert(0, event.text)
        elif event.kind == "model":
            found = CALL.search(event.call)
            if latest is not None and (found is None or found[1] != latest):
                break
            results, pending = [*pending, *results], []
            latest = found[1] if found else ""
    return results


def facts(request: Request) -> dict[str, str]:
    """What the placeholders of a script stand for, as far as the conversation tells."""
    said = "\n".join(event.text for event in request.events if event.kind == "user")
    known = {"result": "\n".join(last_results(request))}
    where = WHERE.findall(f"{request.system}\n{said}")
    if where:
        known["cwd"] = known["project"] = where[-1].strip()
    outputs = OUTPUT.findall(ADDED.sub("", said))
    if outputs:
        known["output"] = outputs[-1]
        known["workspace"] = outputs[-1].rpartition("/")[0]
        layout = WORKSPACES.match(outputs[-1])
        if layout:
            known |= layout.groupdict()
    return known
