"""Every fixed word has its sentence, and type checkers know the same words."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from overhand import words

PAIRS = {
    "Status": words.STATUSES,
    "VerificationWord": words.VERIFICATIONS,
    "RunState": words.RUN_STATES,
    "Cause": words.CAUSES,
    "Headline": words.HEADLINES,
    "Level": words.LEVELS,
    "Stage": words.STAGES,
    "Via": words.VIAS,
}


def literals() -> dict[str, list[str]]:
    tree = ast.parse(Path(words.__file__).read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            (target,) = node.targets
            if ast.unparse(node.value.value) == "Literal":
                found[ast.unparse(target)] = list(ast.literal_eval(node.value.slice))
    return found


def test_none_is_forgotten() -> None:
    assert literals().keys() == PAIRS.keys()


@pytest.mark.parametrize("name", PAIRS)
def test_words_and_literal_agree(name: str) -> None:
    assert list(PAIRS[name]) == literals()[name]
    assert all(PAIRS[name].values())


def test_an_agent_claims_a_status() -> None:
    assert set(words.CLAIMS) < set(words.STATUSES)
