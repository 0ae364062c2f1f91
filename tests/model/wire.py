"""What the four formats have in common: a module each, with the functions of `Format`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from model.conversation import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from model.conversation import Answer, Request

Json = dict[str, Any]
PIECE = 24  # characters in one delta: a sentence arrives in several, as from a real model


@dataclass(frozen=True)
class Problem:
    """An HTTP error to be told in the provider's words; `resets_in`: the account's limit is used up until then."""

    status: int
    message: str
    now: float
    retry_after: float = 1
    resets_in: float | None = None

    @property
    def wait(self) -> float:
        return self.retry_after if self.resets_in is None else self.resets_in


class Format(Protocol):
    """One provider's way to say it; a module is one."""

    NAME: str

    def read(self, body: Json) -> Request: ...

    def stream(self, answer: Answer) -> Iterator[bytes]: ...

    def whole(self, answer: Answer) -> Json: ...

    def failure(self, problem: Problem) -> tuple[dict[str, str], Json]: ...


def frame(data: Json, event: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {dumps(data)}\n\n".encode()


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def text_of(content: object) -> str:
    """The text of a message's content: a string, or blocks of which some have text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(block["text"]) for block in content if isinstance(block, dict) and "text" in block)
    return ""


def offered(name: object, schema: object, namespace: object = "") -> Tool:
    """A tool as the request describes it, whatever that is."""
    given = schema if isinstance(schema, dict) else {}
    properties = given.get("properties")
    described = properties.items() if isinstance(properties, dict) else ()
    known = {key: value for key, value in described if isinstance(value, dict)}
    required = given.get("required")
    needed = [key for key in required if isinstance(key, str)] if isinstance(required, list) else []
    return Tool(str(name), {"properties": known, "required": needed}, str(namespace))


def objects(value: object) -> list[Json]:
    """The objects of a list; nothing of anything else, for a hostile or unknown request must not end the server."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
