"""The phases a task may go through, which move is legal, and when going round is enough.

A history is the list of the phases a task has been in, oldest first; a task without phases has an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

PHASE_ORDER = ("INITIATE", "IDENTIFY", "DOCUMENT", "SOLVE", "CODE", "DEPLOY", "TEST", "VALIDATE", "COMPLETE")
ASIDE = ("CHECKPOINT", "SUSPENDED")  # left only to where the task was: the state is saved, and no run works on it
ESCALATED = "ESCALATED"
PHASES = (*PHASE_ORDER, *ASIDE, ESCALATED)
BACK = {
    "SOLVE": ("IDENTIFY",),
    "CODE": ("SOLVE",),
    "DEPLOY": ("CODE",),
    "TEST": ("IDENTIFY", "SOLVE", "CODE"),
    "VALIDATE": ("IDENTIFY",),
}
TRACEBACKS = {  # why something failed, and the phase that has to be done again
    "implementation_error": "CODE",
    "wrong_approach": "SOLVE",
    "misidentified_issue": "IDENTIFY",
    "missing_context": "DOCUMENT",
    "deployment_failure": "DEPLOY",
    "unknown": ESCALATED,
}
WARN_AFTER, MOST = 5, 10
WINDOW = 3

_WORKING = PHASE_ORDER[1:-1]


@dataclass(frozen=True, slots=True)
class PhaseMove:
    frm: str
    to: str  # where the task is now: ESCALATED if it would have gone round too often
    iteration: int  # how often it has gone round, the first time counted
    warnings: tuple[str, ...] = ()
    escalate: bool = False  # a person has to decide how it continues
    why: str = ""


@dataclass(frozen=True, slots=True)
class IllegalMove:
    """A move that is not in the table, and those that are."""

    frm: str
    to: str
    legal: tuple[str, ...]

    @property
    def message(self) -> str:
        if self.to not in PHASES:
            return f"{self.to} is no phase."
        if not self.frm:
            return f"The task has no phase yet and cannot begin with {self.to}."
        return f"The task is in {self.frm}" + (" already." if self.frm == self.to else f"; {self.to} cannot come next.")

    @property
    def hint(self) -> str:
        return f"Next may be {', '.join(self.legal)}." if self.legal else f"{self.frm} is the end."


def next_phases(history: Sequence[str]) -> tuple[str, ...]:
    """The phases that may come next, without a traceback."""
    if not history:
        return PHASE_ORDER[:1]
    frm = history[-1]
    place = next(((one,) for one in reversed(history) if one not in ASIDE), ())  # where a task that is aside was
    if frm == "CHECKPOINT":
        return (*place, "SUSPENDED")
    if frm == "SUSPENDED":
        return place
    if frm == ESCALATED:  # a person has decided where it continues
        return (*_WORKING, "CHECKPOINT")
    if frm not in PHASE_ORDER[:-1]:
        return ()
    forward = PHASE_ORDER[PHASE_ORDER.index(frm) + 1]
    up = (ESCALATED,) if frm == "IDENTIFY" else ()
    return (forward, *BACK.get(frm, ()), *up, "CHECKPOINT")


def iteration(history: Sequence[str]) -> int:
    """How often the work has been begun: once, and once more for each way back."""
    if not history:
        return 0
    places = [PHASE_ORDER.index(one) for one in history if one in PHASE_ORDER]
    return 1 + sum(after < before for before, after in pairwise(places))


def move_phase(history: Sequence[str], to: str, why: str = "") -> PhaseMove | IllegalMove:
    """Go to a phase, or to the phase that a cause of failure (`wrong_approach`) leads back to."""
    why = _cause(why) or why
    if cause := _cause(to):
        to, why = TRACEBACKS[cause], cause
    to = to.strip().upper()
    frm = history[-1] if history else ""
    legal = next_phases(history)
    traced = TRACEBACKS.get(why) == to and frm in _WORKING  # a named cause may lead back further than the table does
    if to not in legal and not (traced and (to == ESCALATED or PHASE_ORDER.index(to) < PHASE_ORDER.index(frm))):
        return IllegalMove(frm, to, legal)
    so_far, count = iteration(history), iteration([*history, to])
    if count > so_far and count >= MOST and frm != ESCALATED:
        warned = f"Iteration {count} would begin: a person has to decide how it goes on."
        return PhaseMove(frm, ESCALATED, so_far, (warned,), True, why)
    if to in ASIDE or frm in ASIDE:  # to step aside and to come back tells nothing new
        return PhaseMove(frm, to, count, (), False, why)
    return PhaseMove(frm, to, count, _warnings([*history, to], count), to == ESCALATED, why)


def _cause(text: str) -> str:
    """The traceback that a text names, or nothing."""
    word = "_".join(text.lower().replace("-", " ").split())
    return word if word in TRACEBACKS else ""


def _warnings(history: Sequence[str], count: int) -> tuple[str, ...]:
    found: list[str] = []
    if count > WARN_AFTER:
        found.append(f"Iteration {count}: at {MOST} a person has to decide. A checkpoint, or a question, may help.")
    places = [one for one in history if one not in ASIDE]
    last = [one for one, before in zip(places, ["", *places], strict=False) if one != before][-WINDOW:]
    if len(last) == WINDOW and len(set(last)) < WINDOW:
        found.append(f"The task goes round: {' → '.join(last)}.")
    return tuple(found)
