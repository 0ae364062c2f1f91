"""Hostile values for round trips, and a note wherever a value is left out and why."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st

from overhand.documents import (
    CONTRACTS,
    Alert,
    Checkpoint,
    CheckpointBudget,
    CheckpointCommand,
    CheckpointDelegation,
    Context,
    Decision,
    Deliverable,
    FileNote,
    Handoff,
    HandoffStep,
    KeyFile,
    Output,
    Quick,
    Request,
    Return,
    Section,
)
from overhand.documents.contracts import SEVERITIES, ContractBlock
from overhand.documents.decisions import is_nothing
from overhand.documents.ipc import AnswerFile, QuestionFile
from overhand.documents.returns import Artifact, ReturnError
from overhand.words import CAUSES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

# Few examples keep the suite light; OVERHAND_EXAMPLES=2000 is for a hunt.
light = settings(max_examples=int(os.environ.get("OVERHAND_EXAMPLES", "30")), deadline=None, database=None)

# Fragments that mean something somewhere in our documents; hypothesis glues them together.
_BITS = [
    "# Task Complete: x", "## Summary", "## Task", "### deep", "#", "##", "####### seven", "\\## x",
    "\\\\# y", "```", "```json", "````", "~~~", "`", "``", "`a|b`", "|", "\\|", "\\\\|", "| a | b |",
    "|---|---|", "- [ ] box", "- [x] done", "- item", "* star", "1. one", "2) two", "- - -", "---", "***",
    "- ```", "  - # x", "<!--", "-->", "<!-- note -->", "=== RESEARCH OUTPUT ===", "=== END ===",
    "\\=== END ===", "**Status:** failed", "**bold**: why", "**", "*", "\\*", "\\", "\\\\", ":", ": ",
    " — ", "— ", " - ", "—", "(IPC: 001.question)x", "(may be unchanged) no", "Use: X contract", "none",
    "    indented", "\ttab", "  ", " ", "é", "日本", "🙂", "\u2028", "\x85", "\x0b", "\xa0", "a", "B",
    "foo.py", "src/x y.py", "https://x/y", ">", "> # q",
]  # fmt: skip
# One draw makes a whole text: drawing each fragment would cost ten times as much.
_seed = st.integers(0, 2**40)


def _letters(dice: random.Random) -> str:
    """A few characters from all of Unicode.

    Surrogates cannot be written as UTF-8, CR is normalised to LF (its own test), NUL is reported by decode.
    """
    found = (
        chr(dice.choice((dice.randrange(1, 128), dice.randrange(128, 0xD800), dice.randrange(0xE000, 0x110000))))
        for _ in range(3)
    )
    return "".join(char for char in found if char not in "\r\n")


def _row(dice: random.Random, most: int) -> str:
    return "".join(dice.choice(_BITS) if dice.random() < 0.8 else _letters(dice) for _ in range(dice.randint(0, most)))


def _line(dice: random.Random) -> str:
    return _row(dice, 4).strip()


def _body(dice: random.Random) -> str:
    return _trim("\n".join(_row(dice, 3) for _ in range(dice.randint(0, 7))))


def _trim(text: str) -> str:
    """Blank lines before and blanks after a text are no part of it."""
    text = text.rstrip()
    while "\n" in text and not text.split("\n", 1)[0].strip(" \t"):
        text = text.split("\n", 1)[1]
    return text


def _drawn(make: Callable[[random.Random], str], fits: Callable[[str], bool] = bool) -> st.SearchStrategy[str]:
    """The first text that fits: hypothesis gives up where too many of its draws are thrown away."""

    def first(seed: int) -> str:
        dice = random.Random(seed)
        while not fits(text := make(dice)):
            continue
        return text

    return _seed.map(first)


line = _drawn(_line)
body = _drawn(_body, lambda _: True)
full_body = _drawn(_body)
# List entries are stripped on both sides.
entry = _drawn(lambda dice: _body(dice).strip())
word = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}", fullmatch=True)
stamp = st.just("2026-11-15T19:15:00Z")


path = (
    st.sampled_from(["src/a.py", "a|b.md", "we`ird.txt", "``x", "dir with blank/f.md", "*.py", "日本.md", "Makefile"])
    | st.from_regex(r"[\w./|`*\\-]{1,12}", fullmatch=True)
).filter(lambda text: bool(text.strip()) and text == text.strip() and "\n" not in text)

# A section under a known title would be that section, not an extra one: hence "Note".
extra_section = st.builds(Section, line.map(lambda text: f"Note {text}"), body)
extra = st.lists(extra_section, max_size=2).map(tuple)

note = st.builds(FileNote, path, entry | st.just(""))
notes = st.lists(note, max_size=3).map(tuple)
# "None" and a dash are no decisions, so nobody can have decided them.
decision = st.builds(
    Decision,
    _drawn(lambda dice: _body(dice).strip(), lambda text: not is_nothing(text)),
    entry | st.just(""),
)

# A step is one line, because agents edit it in place. An error is only said of a step marked `!`.
_step_text = line.filter(lambda text: not text.endswith(")"))
step = st.builds(
    HandoffStep, st.sampled_from(" x?~"), _step_text, question=st.sampled_from(["", "001.question"])
) | st.builds(
    HandoffStep, st.just("!"), _step_text, error=line | st.just(""), question=st.sampled_from(["", "002.question"])
)
deliverable = st.builds(
    Deliverable,
    (entry | st.just("")).filter(lambda text: not text.lower().endswith("(may be unchanged)")),
    path,
    st.booleans(),
    st.booleans(),
) | st.builds(
    Deliverable,
    entry.filter(lambda text: not text.lower().endswith("(may be unchanged)")),
    st.none(),
    st.booleans(),
    st.booleans(),
)
handoffs = st.builds(
    Handoff,
    task=full_body,
    context=body,
    key_files=st.lists(st.builds(KeyFile, path, entry | st.just("")), max_size=3).map(tuple),
    constraints=st.lists(entry, max_size=3).map(tuple),
    deliverables=st.lists(deliverable, max_size=3).map(tuple),
    return_requirements=body,
    strategy=st.lists(st.tuples(word, line), max_size=2).map(tuple),
    plan=st.lists(step, max_size=4).map(tuple),
    contract=body,
    previous=body,
    extra=extra,
)

json_value = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6) | line,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner | st.none(), max_size=3),
    max_leaves=6,
)
# Emphasis and pipes around these values are taken for formatting; nobody means them there.
_plain = st.from_regex(r"[A-Za-z0-9][\w .-]{0,10}[A-Za-z0-9]", fullmatch=True)
outputs = st.builds(
    Output,
    title=line,
    status=st.sampled_from(list(STATUSES)),
    duration=_plain | st.just(""),
    agent=st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True) | st.just(""),
    summary=full_body,
    deliverables=notes,
    decisions=st.lists(decision, max_size=3).map(tuple),
    for_primary=body,
    files_modified=notes,
    data=st.none() | json_value,
    extra=extra,
)
alerts = st.builds(
    Alert,
    title=line,
    what=body,
    impact=body,
    duration=body,
    workaround=body,
    raised=body,
    resolved=body,
    tags=st.sampled_from([("#active-alert",), ("#done-alert", "#P0")]),
    extra=extra,
)
requests = st.builds(
    Request,
    kind=st.just("fix"),
    title=line,
    what=full_body,
    why=body,
    context=body,
    expectations=st.lists(deliverable, max_size=3).map(tuple),
    criteria=st.lists(entry, max_size=3).map(tuple),
    requester=body,
    tags=st.lists(st.sampled_from(["#P0", "#S", "#a_b-1"]), max_size=2).map(lambda more: ("#needs-fix", *more)),
    extra=extra,
)
contexts = st.builds(
    Context,
    task_id=st.from_regex(r"[a-z]{1,6}-20261115-191500", fullmatch=True),
    dumped=stamp,
    reason=st.sampled_from(list(CAUSES)),
    progress=body,
    state=body,
    blocking=body,
    resume=body,
    handoff=body,
    extra=extra,
)
text = st.text(max_size=20)
questions = st.builds(
    QuestionFile,
    st.integers(1, 999),
    stamp,
    text.filter(lambda one: bool(one.strip())),
    st.lists(text, max_size=3).map(tuple),
    text,
)
answers = st.builds(AnswerFile, st.integers(1, 999), stamp, text)
_entries = st.lists(entry, max_size=3).map(tuple)
_maybe = line | st.just("")
quicks = st.builds(
    Quick, session=_maybe, status=_maybe, next=_maybe, text=body, state=_entries, gotchas=_entries, extra=extra
)
_said = text.filter(lambda one: bool(one.strip()))
checkpoints = st.builds(
    Checkpoint,
    checkpoint_id=st.from_regex(r"ckpt_[A-Za-z0-9_-]{1,20}", fullmatch=True),
    task_id=_said,
    created_at=stamp,
    run_id=text,
    control_commands_issued=st.lists(st.builds(CheckpointCommand, _said, text, text, text), max_size=2).map(tuple),
    delegation_chain=st.lists(st.builds(CheckpointDelegation, text, _said, text), max_size=2).map(tuple),
    workflow_state=text,
    token_budget=st.none() | st.builds(CheckpointBudget, st.integers(0, 10**15), st.none() | st.integers(1, 10**15)),
    iteration=st.integers(1, 12),
    next_action=text,
    resume_instructions=text | body,
    commit=text,
    changed_files=st.lists(path, max_size=3).map(tuple),
)
returns = st.builds(
    Return,
    status=st.sampled_from(list(STATUSES)),
    summary=_said,
    artifacts=st.lists(st.builds(Artifact, _said, text, text), max_size=3).map(tuple),
    metadata=st.dictionaries(text, json_value, max_size=2),
    # The type needs_input turns blocked into needs-input (its own test).
    errors=st.lists(st.builds(ReturnError, _said, word, st.none() | st.booleans(), text), max_size=2).map(tuple),
    next_steps=text,
    data=st.none() | json_value,
    decisions=st.lists(st.builds(Decision, _said, text), max_size=2).map(tuple),
    extra=st.dictionaries(st.from_regex(r"x_[a-z]{1,4}", fullmatch=True), json_value, max_size=2),
)

# A contract's value is one line. Its words in capitals divide an entry, so they cannot occur in one; a part
# that holds `\:` or ends in a colon or backslash is not told from the divider; emphasis around a whole part
# is removed.
_DIVIDERS = (" THEN ", " BUT ", " CONTRADICTS ", " BECAUSE ")


def _is_value(one: str) -> bool:
    if not one or any(word in f" {one} " for word in _DIVIDERS) or "\\:" in one:
        return False
    if one[-1] in ":\\*" or one[0] in "*:=`[-\\":
        return False
    return one.lower() not in ("none", "n/a", "-", "—") and not one.lower().startswith("if ")


_value = _drawn(lambda dice: " ".join(_line(dice).split()), _is_value)


def _entry(fields: list[str], **choices: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries(
        {name: st.sampled_from(choices[name]) if name in choices else _value for name in fields}
    )


def _block(name: str) -> st.SearchStrategy[dict[str, Any]]:
    def many(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(inner, max_size=3)

    if name == "DOCUMENT_ANALYSIS":
        return st.fixed_dictionaries({
            "source": _value, "type": _value,
            "numbers": many(_entry(["metric", "value"])),
            "requirements": many(_entry(["req", "condition", "priority"], priority=("P0", "P1", "P2", "P3"))),
            "decisions_referenced": many(_entry(["dec", "why", "rejected"])),
            "contradictions": many(_entry(["says", "contradicts"])),
            "open": many(_entry(["item", "needs"])),
        })  # fmt: skip
    if name == "RESEARCH_OUTPUT":
        return st.fixed_dictionaries({
            "query": _value, "confidence": st.sampled_from(("high", "medium", "low")), "because": _value,
            "core_finding": _value,
            "evidence": many(_entry(["point", "value", "source"])),
            "conclusions": many(_entry(["if", "then", "evidence"])),
            "gaps": many(_value),
        })  # fmt: skip
    return st.fixed_dictionaries({
        "reviewed": _value, "against": _value, "pass": st.sampled_from(("yes", "no", "partial")),
        "issues": many(_entry(["severity", "description", "location", "fix"], severity=SEVERITIES)),
        "missing": many(_entry(["item", "required_by"])),
        "inconsistencies": many(_entry(["says", "but"])),
    })  # fmt: skip


blocks = st.sampled_from(CONTRACTS).flatmap(lambda name: _block(name).map(lambda data: ContractBlock(name, data)))
