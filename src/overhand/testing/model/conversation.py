"""A request in no provider's words, and the place in a script that it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.testing.model.scripts import Script, Turn, Usage

MARKER = re.compile(r"\bscript:([A-Za-z0-9][A-Za-z0-9_-]*)")
# What a client adds to the user's words; it may repeat a file that holds a marker.
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
OUTPUT = re.compile(r"^[ \t]*(/.*OUTPUT\.md)[ \t]*$", re.MULTILINE)
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


@dataclass(frozen=True)
class Place:
    """Where in which script a conversation is; no name: nobody named a script."""

    name: str
    number: int


def find(request: Request, scripts: Mapping[str, Script]) -> Place:
    """The last script the user named, and how many turns of the model came after it."""
    name, number, answering = "", 0, False
    for event in request.events:
        if event.kind == "user":
            said = REMINDER.sub("", event.text)
            markers = MARKER.findall(said)
            if markers:
                name, number = _redirected(markers[-1], said, scripts), 0
        if event.kind == "model" and not answering:
            number += 1
        answering = event.kind == "model"
    return Place(name, number)


def _redirected(name: str, said: str, scripts: Mapping[str, Script]) -> str:
    if name not in scripts:
        return name
    return next((other for phrase, other in scripts[name].when.items() if phrase in said), name)


def turn_at(place: Place, scripts: Mapping[str, Script]) -> Turn | None:
    """The turn at this place; none after the script's end."""
    turns = scripts[place.name].turns
    return turns[place.number] if place.number < len(turns) else None


def last_said(request: Request) -> str:
    """The user's latest words, without what the client added."""
    texts = (REMINDER.sub("", event.text).strip() for event in reversed(request.events) if event.kind == "user")
    return next((text for text in texts if text), "")


def last_results(request: Request) -> list[str]:
    """What the tools of the latest turn returned."""
    results: list[str] = []
    for event in reversed(request.events):
        if event.kind == "model":
            break
        if event.kind == "result":
            results.insert(0, event.text)
    return results


def facts(request: Request) -> dict[str, str]:
    """What the placeholders of a script stand for, as far as the conversation tells."""
    said = "\n".join(event.text for event in request.events if event.kind == "user")
    known = {"result": "\n".join(last_results(request))}
    where = WHERE.findall(f"{request.system}\n{said}")
    if where:
        known["cwd"] = known["project"] = where[-1].strip()
    outputs = OUTPUT.findall(REMINDER.sub("", said))
    if outputs:
        known["output"] = outputs[-1]
        known["workspace"] = outputs[-1].rpartition("/")[0]
        layout = WORKSPACES.match(outputs[-1])
        if layout:
            known |= layout.groupdict()
    return known
