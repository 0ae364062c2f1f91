"""The normative JSON Schemas (draft 2020-12) of the documents, read from this package's own files."""

from __future__ import annotations

from typing import Any

_NAMES = (
    "agent",
    "alert",
    "answer",
    "checkpoint",
    "context",
    "document_analysis",
    "event",
    "handoff",
    "output",
    "question",
    "request",
    "research_output",
    "return",
    "review_output",
)
_read: dict[str, dict[str, Any]] = {}


def names() -> tuple[str, ...]:
    """The names of all schemas."""
    return _NAMES


def schema(name: str) -> dict[str, Any]:
    """The schema of a document; a contract may be named as in its block (`RESEARCH_OUTPUT`)."""
    key = name.lower()
    if key not in _NAMES:
        raise KeyError(f"there is no schema {name!r}; there are {', '.join(_NAMES)}")
    if key not in _read:
        import json
        import pkgutil

        raw = pkgutil.get_data(__name__, f"{key}.json")
        _read[key] = json.loads(raw or b"{}")
    return _read[key]
