"""Checkpoints: their JSON, its schema, and the document beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import (
    Checkpoint,
    CheckpointBudget,
    CheckpointCommand,
    CheckpointDelegation,
    checkpoint_as_json,
    count_words,
    has_errors,
    parse_checkpoint,
    quick_of,
    render_checkpoint,
    render_full_checkpoint,
)
from overhand.documents.checkpoint import lint_full
from overhand.documents.layout import file_notes, read_sheet
from overhand.words import is_checkpoint_id
from support import strategies as make
from support.schemas import schema
from support.strategies import light

GOOD: dict[str, Any] = {
    "checkpoint_id": "ckpt_tiles",
    "task_id": "worker-20261115-191500",
    "control_commands_issued": [{"command": "PAUSE", "reason": "which rule?", "status": "in_progress"}],
    "delegation_chain": [{"agent": "lead", "to": "scout", "result": "15 files"}, {"to": "coder"}],
    "workflow_state": "SOLVE",
    "token_budget": {"used": 136000, "limit": 160000, "percentage": 85},
    "created_at": "2026-11-15T19:40:00Z",
}
VALIDATOR = jsonschema_rs.validator_for(schema("checkpoint"))


@light
@given(make.checkpoints)
def test_round_trip(value: Checkpoint) -> None:
    found, problems = parse_checkpoint(render_checkpoint(value))
    assert found == value
    assert not has_errors(problems)
    assert VALIDATOR.is_valid(checkpoint_as_json(value))


@light
@given(make.checkpoints)
def test_the_document_says_the_same(value: Checkpoint) -> None:
    text = render_full_checkpoint(value, quick_of(value))
    sheet = read_sheet(text, {"🔗 related files": "files"})
    assert f"**Created:** {value.created_at}\n**Checkpoint ID:** {value.checkpoint_id}" in sheet.preamble
    assert tuple(one.path for one in file_notes(sheet.bodies.get("files", ""))) == value.changed_files
    assert "handoff-field-missing" not in {one.code for one in lint_full(text)}


def test_the_least_that_is_needed() -> None:
    found, problems = parse_checkpoint(json.dumps(GOOD))
    assert problems == []
    assert found == Checkpoint(
        "ckpt_tiles",
        "worker-20261115-191500",
        "2026-11-15T19:40:00Z",
        control_commands_issued=(CheckpointCommand("PAUSE", reason="which rule?", status="in_progress"),),
        delegation_chain=(CheckpointDelegation("lead", "scout", "15 files"), CheckpointDelegation("", "coder")),
        workflow_state="SOLVE",
        token_budget=CheckpointBudget(136000, 160000),
    )
    assert "**Context Usage:** 85 % (136000 tokens)" in render_full_checkpoint(found, quick_of(found))
    assert count_words(render_full_checkpoint(found, quick_of(found))).words < 100


def test_all_problems_at_once() -> None:
    bad = {
        "checkpoint_id": "../../etc",
        "run_id": 3,
        "control_commands_issued": [{"command": " "}, "PAUSE", {"command": "PAUSE", "reason": 1}],
        "delegation_chain": {},
        "token_budget": {"used": -1, "limit": 0, "percentage": "much"},
        "iteration": 0,
        "changed_files": "a.py",
        "created_at": "yesterday",
        "mood": "good",
    }
    found, problems = parse_checkpoint(json.dumps(bad))
    assert found is None
    assert [one.message.partition(" must")[0] for one in problems] == [
        "task_id is missing.",
        "checkpoint_id",
        "created_at",
        "run_id",
        "command in entry 1 of control_commands_issued",
        "Entry 2 of control_commands_issued",
        "reason in entry 3 of control_commands_issued",
        "delegation_chain",
        "token_budget.used",
        "token_budget.limit",
        "token_budget.percentage",
        "iteration",
        "changed_files",
        "Not part of the format, ignored: mood.",
    ]


@pytest.mark.parametrize(
    ("budget", "codes"),
    [
        ({"used": 0, "limit": 1, "percentage": 0}, []),
        ({"used": 33000, "limit": 160000, "percentage": 20.6}, []),
        ({"used": 33000, "limit": 160000, "percentage": 21}, []),
        ({"used": 33000, "limit": 160000, "percentage": 0.206}, ["budget-mismatch"]),
        ({"used": 33000, "limit": 160000}, []),
        ({"used": 33000, "limit": None, "percentage": None}, []),
        ({"used": 170000, "limit": 160000, "percentage": 106.3}, ["budget-exceeded"]),
        ({"used": 170000, "limit": 160000, "percentage": 100}, ["budget-mismatch", "budget-exceeded"]),
        ({"used": 10**400, "limit": 1}, ["field-type"]),
        ({"used": True}, ["field-type"]),
        ({}, ["field-type"]),
        ("much", ["field-type"]),
    ],
)
def test_budget(budget: object, codes: list[str]) -> None:
    found, problems = parse_checkpoint(json.dumps({**GOOD, "token_budget": budget}))
    assert [one.code for one in problems] == codes
    assert (found is None) == has_errors(problems)


@pytest.mark.parametrize(("text", "code"), [("{", "not-json"), ("[1]", "not-an-object"), ("", "not-json")])
def test_no_checkpoint_at_all(text: str, code: str) -> None:
    found, problems = parse_checkpoint(text)
    assert found is None
    assert [one.code for one in problems] == [code]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("ckpt_a", True), ("ckpt_20251129_160000", True), ("ckpt_-", True), ("ckpt_" + "x" * 115, True),
     ("ckpt_" + "x" * 116, False), ("ckpt_", False), ("ckpt", False), ("ckpt_a/b", False), ("ckpt_..", False),
     ("ckpt_ä", False), ("ckpt_a\n", False), ("CKPT_a", False), ("", False)],
)  # fmt: skip
def test_ids(text: str, is_one: bool) -> None:
    assert is_checkpoint_id(text) is is_one


# Each field right, wrong, absent or null. That the percentage fits is said by no schema: it always does here.
_odd: st.SearchStrategy[object] = st.sampled_from(
    [None, 0, 1, 2.0, 1.5, -1, True, "", " ", "x", [], ["x"], [1], {}, {"x": 1}, [{}], [{"to": 1}]]
)
_good = checkpoint_as_json(replace(Checkpoint("ckpt_a", "t", "2026-11-15T19:15:00Z"), token_budget=CheckpointBudget(5)))


@light
@given(st.sampled_from([*_good, "surprise"]), _odd, st.booleans())
def test_schema_and_parser_agree(key: str, odd: object, is_gone: bool) -> None:
    value = {name: one for name, one in {**_good, key: odd}.items() if not (is_gone and name == key)}
    found, _ = parse_checkpoint(json.dumps(value))
    assert VALIDATOR.is_valid(value) == (found is not None)


@light
@given(st.sampled_from(["used", "limit", "percentage", "command", "target", "to", "result", "agent"]), _odd)
def test_schema_and_parser_agree_on_what_is_inside(key: str, odd: object) -> None:
    inside: dict[str, dict[str, object]] = {
        "token_budget": {"used": 5, "limit": None, "percentage": None},
        "control_commands_issued": {"command": "PAUSE", "target": "x"},
        "delegation_chain": {"agent": "a", "to": "b", "result": "c"},
    }
    name = next(name for name, keys in inside.items() if key in keys)
    changed = {**inside[name], key: odd}
    value = {**_good, name: changed if name == "token_budget" else [changed]}
    found, _ = parse_checkpoint(json.dumps(value))
    assert VALIDATOR.is_valid(value) == (found is not None)
