"""Which kind of caller may move an item from one stage to another, and the refusal for the others."""

from __future__ import annotations

MOVES: dict[str, dict[str, tuple[str, ...]]] = {
    "person": {
        "needs": ("delegated", "next", "done", "dismissed"),
        "delegated": ("needs",),
        "next": ("needs",),
        "claimed": ("delegated", "needs", "done"),  # when no run is live
        "done": ("needs",),
    },
    "run": {"delegated": ("claimed",), "next": ("claimed",)},
    "overhand": {"claimed": ("done", "delegated", "next", "needs")},
}
_MEANING = {
    "needs": "nobody has approved it",
    "delegated": "it is approved and waits to be started",
    "next": "it is approved for the next run that somebody asks for",
    "claimed": "somebody works on it",
    "done": "it is done",
}
_NEXT = {
    "needs": "Approve it first: overhand item approve {item}",
    "delegated": "Take the approval back first: overhand item needs {item}",
    "next": "Take the approval back first: overhand item needs {item}",
    "claimed": "Wait for it, or put it back: overhand item needs {item}",
    "done": "To have it done again: overhand item approve --again {item}",
}


def allows(who: str, now: str, to: str, *, live: bool = False) -> bool:
    """Whether `who` (person, run, overhand) may make this step; only Overhand takes an item from a live run."""
    if live and who == "person" and now == "claimed":
        return False
    return to in MOVES.get(who, {}).get(now, ())


def refusal(who: str, now: str, to: str, item: str, holder: str = "") -> tuple[str, str]:
    """Why not, and what to type instead; `holder` works on it."""
    why = f"held by {holder}" if holder else _MEANING.get(now, "it has no tag of a known stage")
    task = holder.removeprefix("task ")
    hint = f"Stop it first: overhand stop {task}" if task != holder else _NEXT.get(now, "")
    able = "Only a person can do that." if who == "run" and to in MOVES["person"].get(now, ()) else ""
    verb = {"delegated": "approved", "next": "approved", "dismissed": "dismissed", "needs": "put back"}.get(to, to)
    return f"{item} cannot be {verb} now: {why}.{' ' + able if able else ''}", hint.format(item=item)
