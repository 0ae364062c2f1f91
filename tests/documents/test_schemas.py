"""The schemas say what the parsers do; where a parser is more tolerant, the difference is listed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import (
    Alert,
    Context,
    Handoff,
    Output,
    Problem,
    Request,
    agentfile,
    has_errors,
    parse_agent_file,
    parse_question,
    parse_return,
    validate_data,
)
from overhand.documents.contracts import ContractBlock
from overhand.documents.ipc import parse_answer
from overhand.words import CAUSES, STATUSES
from support import strategies as make
from support.schemas import SCHEMAS, schema
from support.strategies import light


def is_valid(name: str, value: object) -> bool:
    return bool(jsonschema_rs.validator_for(schema(name)).is_valid(value))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one(name: str) -> None:
    found = schema(name)
    assert found["$schema"].endswith("2020-12/schema")
    jsonschema_rs.meta.validate(found)


def test_the_words_are_the_models() -> None:
    assert schema("return")["properties"]["status"]["enum"] == list(STATUSES)
    assert schema("context")["properties"]["reason"]["enum"] == list(CAUSES)


# Almost right objects: each field right, wrong, absent or null.
_odd = st.sampled_from([None, 0, 1, 2.0, 1.5, -1, True, "", " ", "x", [], ["x"], [1], {}, {"x": 1}])


def almost(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects in which about one field is wrong."""

    def spoil(value: dict[str, Any], key: str, odd: object, how: int) -> dict[str, Any]:
        spoiled = dict(value)
        if how == 0:
            spoiled.pop(key, None)
        elif how == 1:
            spoiled[key] = odd
        return spoiled

    keys = st.sampled_from([*fields, "surprise"])
    return st.builds(spoil, st.fixed_dictionaries(fields), keys, _odd, st.integers(0, 2))


_stamp = st.sampled_from(
    ["2026-11-15T19:15:00Z", "2026-11-15 19:15:00.5+01:00", "2026-11-15", "2026-11-15T19:15:00", "Z"]
)
_text = st.sampled_from(["x", "", " ", "é"])
_texts = st.lists(_text, max_size=2)
questions = almost(seq=st.integers(0, 3), timestamp=_stamp, question=_text, options=_texts, checklist_item=_text)
answers = almost(seq=st.integers(0, 3), timestamp=_stamp, answer=_text)
returns_ = almost(
    status=st.sampled_from([*STATUSES, "nonsense"]),
    summary=_text,
    artifacts=st.lists(almost(path=_text, type=_text, summary=_text) | _text, max_size=2),
    metadata=st.dictionaries(_text, _text, max_size=1),
    errors=st.lists(almost(message=_text, type=_text, recoverable=st.booleans(), recommendation=_text), max_size=2),
    next_steps=_text | _texts,
    decisions=st.lists(almost(what=_text, why=_text), max_size=2),
    data=_odd,
)


@light
@given(questions)
def test_questions(value: dict[str, Any]) -> None:
    assert is_valid("question", value) == (parse_question(json.dumps(value))[0] is not None)


@light
@given(answers)
def test_answers(value: dict[str, Any]) -> None:
    assert is_valid("answer", value) == (parse_answer(json.dumps(value))[0] is not None)


@light
@given(returns_)
def test_returns(value: dict[str, Any]) -> None:
    assert is_valid("return", value) == (not has_errors(parse_return(value)[1]))


# Accepted by the parser and not by the schema: other spellings of a status. Nothing else.
@pytest.mark.parametrize("status", ["Completed", "needs_input", "done", "✅ completed", "completed (all tests pass)"])
def test_the_parser_reads_other_spellings_of_a_status(status: str) -> None:
    value = {"status": status, "summary": "x"}
    found, problems = parse_return(value)
    assert not is_valid("return", value)
    assert not has_errors(problems)
    assert found is not None
    assert is_valid("return", found.as_json())


@light
@given(make.handoffs, make.outputs, make.contexts, make.requests, make.alerts)
def test_documents_as_values(given_: Handoff, value: Output, left: Context, asked: Request, told: Alert) -> None:
    documents: dict[str, Any] = {
        "handoff": given_, "output": value, "context": left, "request": asked, "alert": told,
    }  # fmt: skip
    for name, document in documents.items():
        assert validate_data(schema(name), json.loads(json.dumps(asdict(document)))) == []


@light
@given(make.blocks)
def test_contract_data(block: ContractBlock) -> None:
    assert validate_data(schema(block.name), block.data) == []


def test_events() -> None:
    event = {"e": "run.created", "t": "2026-11-15T19:15:00Z", "by": {"kind": "person"}, "run": "sess_1_abc"}
    assert is_valid("event", event)
    assert is_valid("event", {**event, "v": 1, "mono": 3.5, "boot": "ab"})
    for key in ("e", "t", "by"):
        assert not is_valid("event", {name: value for name, value in event.items() if name != key})
    assert not is_valid("event", {**event, "by": {}})


AGENTS = [
    "name: a",
    "name: A",
    "description: x",
    "name: a\ncapabilities: [x, y]",
    "name: a\ncapabilities: x",
    "name: a\ndescription: 3",
    "name: a\nunknown: {x: 1}",
    "name: a\ncdp: {version: 1.0, input_requirements: [task], output_includes: 3}",
    "name: a\noverhand: {driver: claude}",
    "name: a\noverhand: {driver: 3}",
    "name: a\noverhand: {driver: command}",
    "name: a\noverhand: {driver: command, command: ls -l}",
    "name: a\noverhand: {driver: command, command: [ls, -l]}",
    "name: a\noverhand: {driver: command, command: []}",
    "name: a\noverhand: {driver: command, command: [ls, 3]}",
    "name: a\noverhand: {driver: external}",
    "name: a\noverhand: {driver: external, start: [a], poll: [b]}",
    "name: a\noverhand: {driver: external, start: [a], poll: [b], collect: [c]}",
    "name: a\noverhand: {driver: external, start: [a], poll: [b], collect: [c], stop: d e}",
    "name: a\noverhand: {driver: external, start: [a], poll: [b], collect: []}",
    "name: a\noverhand: {reentrant: yes}",
    "name: a\noverhand: {reentrant: true}",
    "name: a\noverhand: claude",
]


@pytest.mark.parametrize("yaml", AGENTS)
def test_agents(yaml: str) -> None:
    problems: list[Problem] = parse_agent_file(f"---\n{yaml}\n---\nrole\n")[1]
    assert is_valid("agent", agentfile.load_yaml(yaml)) == (not has_errors(problems))
