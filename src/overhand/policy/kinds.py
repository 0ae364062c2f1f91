"""Kinds of work: how long they may take, and what an agent may do for them."""

from __future__ import annotations

# kind: default time, longest time (seconds), permission level
_HOUR = 3600.0
KINDS: dict[str, tuple[float, float, str]] = {
    "research": (_HOUR, 2 * _HOUR, "read"),
    "exploration": (_HOUR, 2 * _HOUR, "read"),
    "plan": (_HOUR / 2, _HOUR, "read"),
    "implementation": (2 * _HOUR, 4 * _HOUR, "work"),
    "implement": (2 * _HOUR, 4 * _HOUR, "work"),
    "fix": (2 * _HOUR, 4 * _HOUR, "work"),
    "revise": (_HOUR / 2, _HOUR, "work"),
    "review": (_HOUR, 2 * _HOUR, "read"),
    "qa": (_HOUR, 2 * _HOUR, "read"),
    "audit": (_HOUR, 2 * _HOUR, "read"),
    "brainstorm": (2 * _HOUR, 4 * _HOUR, "read"),
    "document": (2 * _HOUR, 4 * _HOUR, "read"),
    "summary": (2 * _HOUR, 4 * _HOUR, "read"),
}
NO_KIND = (2 * _HOUR, 4 * _HOUR, "work")
