"""What `overhand check` says about CONTROL lines; one golden file per problem.

`OVERHAND_GOLDEN=write pytest tests/documents/test_control_linting.py` writes them anew; look at the
difference before you commit.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overhand.documents import is_control, lint_control
from overhand.documents.control.lines import CODES

GOLDEN = Path(__file__).parent.parent / "golden/control"
WRITE = os.environ.get("OVERHAND_GOLDEN") == "write"
AGENTS = ("codebase-analyzer", "codebase-locator", "security-auditor")
CHECKPOINTS = ("ckpt_auth_phase1", "ckpt_auth_phase2")

BLOCK = """\
CONTROL: DELEGATE codebase-analyzer
delegation:
  to_agent: codebase-analyzer
  task:
    description: Read the login and list what it trusts
    deliverable: A list with file:line
  context:
    token_budget: 12000
    priority: HIGH
"""
EXAMPLES = {
    "control-prefix": "Nothing more to do here.\n\nPAUSE\n\nJust checkpoint this\n",
    "control-colon": "CONTROL CHECKPOINT\n",
    "control-empty": "CONTROL: \n",
    "control-unknown": "CONTROL: MAGIC_COMMAND\nCONTROL: CHECKPIONT\n",
    "control-case": "Which one?\nControl: Pause\n",
    "control-extra": "CONTROL: PAUSE JWT or OAuth?\nCONTROL: DELEGATE codebase-locator to find the login\n",
    "control-position": "- CONTROL: CHECKPOINT\n\n**CONTROL: CHECKPOINT**\n\n  CONTROL: CHECKPOINT REASON: 85%\n",
    "control-fence-open": "So:\n```\nmake test\n\nCONTROL: CHECKPOINT\n",
    "control-agent-missing": "CONTROL: DELEGATE REASON: Find every use of the token\n",
    "control-agent-unknown": "CONTROL: DELEGATE code-analyzer REASON: Find every use of the token\n",
    "control-agents-differ": BLOCK.replace("to_agent: codebase-analyzer", "to_agent: codebase-locator"),
    "control-checkpoint-form": "CONTROL: RESUME phase2\n",
    "control-checkpoint-unknown": "CONTROL: RESUME ckpt_auth_phase3\n",
    "control-no-question": "CONTROL: PAUSE\n",
    "control-no-reason": "JWT or OAuth?\nCONTROL: PAUSE\nCONTROL: CHECKPOINT\nCONTROL: ESCALATE\n",
    "control-no-task": "CONTROL: DELEGATE codebase-locator\n",
    "control-escalate-first": "This is hard.\n\nCONTROL: ESCALATE\nREASON: This is hard\n",
    "control-block-long": BLOCK + "    note: " + "x" * 33_000 + "\n",
    "delegation-invalid": BLOCK.replace("  task:", "  task: ["),
    "delegation-budget": BLOCK.replace("12000", "plenty"),
    "delegation-no-budget": BLOCK.replace("    token_budget: 12000\n", ""),
    "delegation-priority": BLOCK.replace("HIGH", "URGENT"),
}


@pytest.mark.parametrize("code", EXAMPLES)
def test_problem(code: str) -> None:
    problems = lint_control(EXAMPLES[code], strict=code == "control-no-reason", agents=AGENTS, checkpoints=CHECKPOINTS)
    rows = [f"{one.line}: {one.level}: {one.message} [{one.code}]\n   {one.fix}\n" for one in problems]
    path = GOLDEN / f"{code}.txt"
    if WRITE:
        path.write_text("".join(rows), encoding="utf-8")
    assert "".join(rows) == path.read_text(encoding="utf-8")
    assert code in {one.code for one in problems}
    assert is_control(EXAMPLES[code])


def test_every_code_has_an_example() -> None:
    assert set(EXAMPLES) == set(CODES)
    assert {path.stem for path in GOLDEN.iterdir()} == set(CODES)


def found(text: str, *, strict: bool = False) -> list[tuple[str, str]]:
    return [
        (one.level, one.code)
        for one in lint_control(text, strict=strict, agents=AGENTS, checkpoints=CHECKPOINTS)
        if one.line
    ]


@pytest.mark.parametrize(
    "text",
    [
        "CONTROL: CHECKPOINT REASON: High token usage\n",
        "CONTROL: CHECKPOINT\nREASON: 136K of 160K tokens are used\n",
        "CONTROL: PAUSE\nREASON: JWT or OAuth?\n",
        "CONTROL: CHECKPOINT REASON: a\nCONTROL: ESCALATE\nREASON: Ten attempts, none holds\n",
        "CONTROL: RESUME [ckpt_auth_phase1]\nREASON: goes on with SOLVE\n",
        "CONTROL: RESUME\n",
        "CONTROL: DELEGATE [security-auditor]\nREASON: Audit how the session is invalidated\n",
        BLOCK,
        "Nothing is asked here: no pause, no checkpoint.\n",
        "```\nCONTROL: MAGIC\nPAUSE\n```\n> PAUSE\n\n- PAUSE\n- CHECKPOINT\n\n| PAUSE | asks |\n\n## PAUSE\n`PAUSE`\n",
        "We pause the video, then resume it and escalate the tone.\nPause\n",
    ],
)
def test_nothing_is_wrong(text: str) -> None:
    assert found(text, strict=True) == []


@pytest.mark.parametrize(
    "text",
    ["CONTROL: PAUSE", "JWT or OAuth?\nCONTROL: PAUSE", "CONTROL: CHECKPOINT", "CONTROL: DELEGATE codebase-analyzer"],
)
def test_a_command_without_a_reason_is_an_error_only_if_strict(text: str) -> None:
    assert {level for level, _ in found(text)} <= {"warning"}
    assert {level for level, _ in found(text, strict=True)} == {"error"}


def test_a_workflow() -> None:
    text = (
        "🎯 Refactor the login\nBudget: 60K\n\nPhase 1: research\nCONTROL: DELEGATE codebase-locator\n"
        "CONTROL: DELEGATE codebase-analyzer\n[both at once]\n\nPhase 2: code\nCONTROL: CHECKPOINT\n"
        "REASON: 136K of 160K are used\n"
    )
    assert found(text) == [("warning", "control-no-task"), ("warning", "control-no-task")]


def test_last_resort() -> None:
    for before in ("CONTROL: CHECKPOINT\n", "A or B?\nCONTROL: PAUSE\n"):
        assert found(f"{before}CONTROL: ESCALATE\n") == []
    assert found("CONTROL: ESCALATE\nCONTROL: CHECKPOINT\n") == [("warning", "control-escalate-first")]


def test_what_is_not_known_is_not_judged() -> None:
    assert lint_control("CONTROL: DELEGATE nobody REASON: Find the login\nCONTROL: RESUME ckpt_x\n") == []
    assert [one.code for one in lint_control("CONTROL: RESUME\n", checkpoints=())] == ["control-checkpoint-unknown"]
    assert "overhand/agents" in lint_control("CONTROL: DELEGATE a REASON: Find the login\n", agents=())[0].fix


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("CONTROL: PAUSE", True),
        ("> CONTROL: PAUSE", True),
        ("PAUSE\n", True),
        ("Please checkpoint this.", True),
        ("control: pause", True),
        ("CONTROL CHECKPOINT", True),
        ("A note.\n" * 20 + "Please resume.\n", False),
        ("A note.\n", False),
        ("", False),
        ("Control: the room is cold.\n", False),
        ("The CONTROL: is lost", False),
    ],
)
def test_what_a_text_is_about(text: str, yes: bool) -> None:
    assert is_control(text) == yes
