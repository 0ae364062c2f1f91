"""The fixed words of Overhand, each with its meaning; ids, names and durations.

Every set of words is a dictionary, in the order in which people see it, and a `Literal` for type checkers.
"""

from __future__ import annotations

from overhand.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Status = Literal["completed", "partial", "blocked", "needs-input", "failed", "cancelled", "rejected"]
    VerificationWord = Literal["failing", "none", "passing", "proved"]
    RunState = Literal["queued", "starting", "running", "waiting", "ended"]
    Cause = Literal["exit", "error", "timeout", "answer-timeout", "budget", "killed", "cancelled", "lost"]
    Headline = Literal["needs you", "failed", "working", "queued", "ready", "done"]
    Level = Literal["read", "work", "full"]
    Stage = Literal["needs", "delegated", "next", "claimed", "done"]
    Via = Literal["file", "ask", "pause", "call", "return", "permission", "control", "child"]

STATUSES = {
    "completed": "the work is done and nothing we checked speaks against it",
    "partial": "some of it is done",
    "blocked": "it cannot go on without something from outside",
    "needs-input": "it waits for an answer",
    "failed": "it did not produce what was asked for",
    "cancelled": "a person stopped it",
    "rejected": "it was refused before it started",
}
VERIFICATIONS = {  # from the weakest to the strongest
    "failing": "something that Overhand checked does not hold",
    "none": "Overhand checked nothing, or nothing was changed",
    "passing": "what Overhand checked holds, which proves little by itself",
    "proved": "a check turned from red to green, or the data holds what was asked of it",
}
SHOWN_VERIFICATIONS = {"failing": "FAILING", "none": "UNVERIFIED", "passing": "PASSES", "proved": "VERIFIED"}
CLAIMS: tuple[Status, ...] = ("completed", "partial", "blocked", "needs-input", "failed")  # what an agent may return
RUN_STATES = {
    "queued": "the task waits for its next run",
    "starting": "the run is recorded, its process not yet",
    "running": "its process is running",
    "waiting": "it is running and has an open question",
    "ended": "its process has ended",
}
CAUSES = {
    "exit": "its process exited",
    "error": "it couldn't be started, or a function raised an error",
    "timeout": "its time was over",
    "answer-timeout": "its question wasn't answered in time",
    "budget": "its budget or its context window was used up",
    "killed": "a signal from outside ended its process",
    "cancelled": "a person stopped it",
    "lost": "its process is gone and left no exit code",
}
HEADLINES = {
    "needs you": "it can't continue without a person",
    "failed": "it ended without a complete result, or a check fails now, and nobody has seen that",
    "working": "a run holds it, or it waits for its provider's limit to pass",
    "queued": "it waits for its next run",
    "ready": "it's completed and not yet looked at",
    "done": "its result was seen or taken, or it was stopped or dismissed",
}
LEVELS = {  # each includes the ones before it
    "read": "may read, search and fetch, and write in its own run folder",
    "work": "may edit inside the project and run commands",
    "full": "may do whatever it wants, and asks nobody",
}
SHIELDS = ("off", "auto", "require")  # each is more than the ones before it
STAGES = {
    "needs": "an item that isn't approved",
    "delegated": "approved, to be run as soon as possible",
    "next": "approved, to be run when a person says so",
    "claimed": "a run, or a person outside Overhand, works on it",
    "done": "it's finished",
}
VIAS = {  # how a question arrived
    "file": "a file that the agent wrote to ipc/",
    "ask": "the verb `ask`, or its MCP tool",
    "pause": "a CONTROL line PAUSE",
    "call": "a function in a Python process",
    "return": "a return with the status needs-input",
    "permission": "a tool that a person has to permit",
    "control": "not a question: something handed to the run on its own request",
    "child": "not a question: the result of a task that the run delegated",
}
PRIORITIES = ("P0", "P1", "P2", "P3")
MAX_DEPTH = 3

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_NAME = frozenset(_LOWER + _DIGITS + "-")
_FOLDER = frozenset(_LOWER + _LOWER.upper() + _DIGITS + "._-")
_RUN = frozenset(_LOWER + _DIGITS)
_CHECKPOINT = frozenset(_LOWER + _LOWER.upper() + _DIGITS + "_-")


def is_name(text: str) -> bool:
    """Whether this can name a kind: `[a-z][a-z0-9-]*`, at most 60 characters."""
    return 0 < len(text) <= 60 and text[0] in _LOWER and _NAME.issuperset(text)


def is_agent_name(text: str) -> bool:
    """Whether this can name an agent: `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 60 characters."""
    return 0 < len(text) <= 60 and text[0] not in "._-" and _FOLDER.issuperset(text)


def is_limit_rule(value: object) -> bool:
    """Whether this says what to do at a provider's limit: `pause` or `switch:AGENT`."""
    return value == "pause" or (isinstance(value, str) and value.startswith("switch:") and is_agent_name(value[7:]))


def is_task_id(text: str) -> bool:
    """Whether this can name a task's folder; nothing that could leave `.agent-workspaces`."""
    return 0 < len(text) <= 120 and text[0] not in ".-_" and _FOLDER.issuperset(text)


def is_run_id(text: str) -> bool:
    """Whether this is `sess_{epoch}_{6 of 0-9a-z}`."""
    parts = text.split("_")
    return (
        len(parts) == 3
        and parts[0] == "sess"
        and parts[1].isascii()
        and parts[1].isdigit()
        and len(parts[2]) == 6
        and _RUN.issuperset(parts[2])
    )


def is_checkpoint_id(text: str) -> bool:
    """Whether this is `ckpt_` and letters, digits, `_` or `-`, at most 120 characters; it names files."""
    return text.startswith("ckpt_") and 5 < len(text) <= 120 and _CHECKPOINT.issuperset(text)


def slug(title: str) -> str:
    """The title as people type a part of it: lower case, words joined by `-`."""
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())[:80]


_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str | float) -> float:
    """Seconds from `30`, `30s`, `5m`, `5min`, `2h`, `7d`; raises ValueError."""
    if not isinstance(text, str):
        number, unit = float(text), ""
    else:
        digits = text.strip().rstrip(_LOWER)
        unit = text.strip()[len(digits) :]
        plain = digits.strip().replace(".", "", 1)
        number = float(digits) if plain.isascii() and plain.isdigit() else -1.0
    if unit not in _UNITS or not 0 <= number < 1e9:
        raise ValueError(f"{text!r} is not a duration")
    return number * _UNITS[unit]


def option_duration(option: str, text: str, hint: str = "Write it as 30s, 5m or 2h.") -> float:
    """Seconds from what a caller gave for an option; raises BadInput, which names the option."""
    try:
        return duration(text)
    except ValueError:
        raise BadInput(f"{option} {text!r} is not a duration.", hint) from None


def say_duration(seconds: float) -> str:
    """A duration as people say it: `8s`, `3m 20s`, `2h`, `3d`."""
    whole = int(seconds)
    if seconds < 10 and seconds != whole:
        return f"{seconds:.1f}s"
    for size, unit, small, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (f" {rest}{small_unit}" if rest else "")
    return f"{whole}s"
