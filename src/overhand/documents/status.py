"""The status a return claims, read from the words agents use."""

from __future__ import annotations

from overhand.documents.problems import Problem, warning
from overhand.record.model import STATUSES

WORDS = ", ".join(STATUSES)
_SYNONYMS = {
    **dict.fromkeys(("done", "complete", "success", "successful", "succeeded", "finished", "ok"), "completed"),
    **dict.fromkeys(("error", "failure"), "failed"),
    **dict.fromkeys(("partially-completed", "partially-complete", "incomplete"), "partial"),
    **dict.fromkeys(("canceled", "aborted"), "cancelled"),
    **dict.fromkeys(("input-needed", "needs-clarification", "waiting-for-input"), "needs-input"),
}


def read_status(raw: str, line: int | None = None) -> tuple[str | None, list[Problem]]:
    """The status that `raw` means, in the spelling of the specification, and what was odd about it."""
    first, *others = raw.split("|")
    word = _word(first)
    problems: list[Problem] = []
    if word in STATUSES:
        status = word
    elif word in _SYNONYMS:
        status = _SYNONYMS[word]
        message = f"The status “{first.strip()}” was read as {status}."
        problems.append(warning("status-synonym", message, line, f"Write {status}."))
    else:
        message = f"The status “{raw.strip()[:40]}” is not known." if word else "The status is empty."
        return None, [Problem("status-unknown", message, line=line, fix=f"Write one of {WORDS}.")]
    if any(_word(other) in STATUSES for other in others):
        message = f"Several statuses are listed; {status} was taken."
        problems.append(warning("status-several", message, line, "Leave only the one that holds."))
    return status, problems


def _word(text: str) -> str:
    """`✅ **Needs_Input** (see below)` as `needs-input`."""
    text = text.lower().replace("_", "-")
    start = next((index for index, char in enumerate(text) if char.isascii() and char.isalpha()), len(text))
    words: list[str] = []
    for word in text[start:].split()[:3]:
        bare = word.strip("*`.,;:!\u2013—-([{}])")
        words.append(bare)
        if bare != word.rstrip("*`") or not bare:
            break
    for count in range(len(words), 0, -1):
        joined = "-".join(words[:count])
        if joined in STATUSES or joined in _SYNONYMS:
            return joined
    return words[0] if words else ""
