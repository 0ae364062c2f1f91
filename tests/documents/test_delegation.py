"""The `delegation:` block: as it should be, as people write it, and broken."""

from __future__ import annotations

import pytest

from overhand.documents import ControlDelegation, parse_delegation

WHOLE = """\
delegation:
  from_agent: orchestrator
  to_agent: mapper
  task:
    description: "Find every place where the login trusts its caller"
    scope:
      - src/login.py
      - src/session.py
    deliverable: "A list of holes with file:line"
  context:
    current_phase: "Audit"
    token_budget: 12000
    priority: HIGH
"""
EXPECTED = ControlDelegation(
    agent="mapper",
    task="Find every place where the login trusts its caller",
    files=("src/login.py", "src/session.py"),
    deliverables=("A list of holes with file:line",),
    budget=12000,
    priority="P1",
    context="Current phase: Audit",
)


def codes(block: str, *agents: str) -> list[tuple[str, str]]:
    return [(one.level, one.code) for one in parse_delegation(block, agents=agents or None)[1]]


def test_the_whole_block() -> None:
    assert parse_delegation(WHOLE, agents=["mapper"]) == (EXPECTED, [])


def test_without_its_indentation() -> None:
    flat = "\n".join(row.lstrip() for row in WHOLE.splitlines())
    assert parse_delegation(flat, agents=["mapper"]) == (EXPECTED, [])


@pytest.mark.parametrize("block", [f"```yaml\n{WHOLE}```\n", WHOLE.replace("\n", "\r\n"), WHOLE.replace("  ", "\t")])
def test_other_ways_to_write_it(block: str) -> None:
    assert parse_delegation(block)[0] == EXPECTED


def test_a_task_in_one_line() -> None:
    found, _ = parse_delegation(
        "delegation:\n  to_agent: mapper\n  task: Draw the roads\n  scope: a.py\n  context: In haste\n"
    )
    assert found == ControlDelegation("mapper", "Draw the roads", ("a.py",), context="In haste")


@pytest.mark.parametrize(
    ("written", "budget"),
    [
        ("12000", 12000),
        ("12K", 12000),
        ("1.5m", 1_500_000),
        ("12,000", 12000),
        ("12_000 tokens", 12000),
        ("8k token", 8000),
    ],
)
def test_a_budget(written: str, budget: int) -> None:
    found, problems = parse_delegation(WHOLE.replace("12000", written))
    assert (found.budget, problems) == (budget, [])


@pytest.mark.parametrize(
    ("written", "priority"), [("CRITICAL", "P0"), ("high", "P1"), ("MEDIUM", "P2"), ("LOW", "P3"), ("P0", "P0")]
)
def test_a_priority(written: str, priority: str) -> None:
    found, problems = parse_delegation(WHOLE.replace("HIGH", written))
    assert (found.priority, problems) == (priority, [])


def test_an_agent_that_does_not_exist() -> None:
    (problem,) = parse_delegation(WHOLE, agents=["mappers", "worker"])[1]
    assert (problem.level, problem.code) == ("error", "control-agent-unknown")
    assert "Did you mean mappers?" in problem.message


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (WHOLE.replace("Find every place where the login trusts its caller", "analyze the code"), "vague-task"),
        (WHOLE.replace("    deliverable:", "    note:"), "no-deliverable"),
        (WHOLE.replace("    token_budget:", "    note:"), "delegation-no-budget"),
        (WHOLE.replace("HIGH", "URGENT"), "delegation-priority"),
    ],
)
def test_a_warning(block: str, found: str) -> None:
    assert codes(block, "mapper") == [("warning", found)]


def test_a_budget_that_is_none() -> None:
    assert codes(WHOLE.replace("12000", "plenty")) == [
        ("warning", "delegation-budget"),
        ("warning", "delegation-no-budget"),
    ]


@pytest.mark.parametrize(
    "block",
    [
        "",
        "nothing",
        "delegation: x",
        "delegation:\n  - a\n",
        "delegation:\n  to_agent: [",
        "delegation:\n  a: !!python/object:os.system x\n",
        "delegation:\n  a: *b\n",
        "delegation: &a {}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b]}\n",
        "[" * 2000,
        "delegation: {" + "a: {" * 2000,
    ],
)
def test_a_block_that_cannot_be_read(block: str) -> None:
    found, problems = parse_delegation(block)
    assert found == ControlDelegation()
    assert [(one.level, one.code) for one in problems] == [("error", "delegation-invalid")]


def test_a_block_without_a_task() -> None:
    assert ("error", "delegation-invalid") in codes("delegation:\n  to_agent: mapper\n")


def test_a_number_too_long_to_write() -> None:
    number = "0x" + "f" * 9000
    found, problems = parse_delegation(f"delegation:\n  task: Count\n  scope: [{number}]\n  token_budget: {number}\n")
    assert (found.files, found.budget) == ((), None)
    assert "delegation-budget" in {one.code for one in problems}


def test_words_stay_words() -> None:
    found, _ = parse_delegation("delegation:\n  to_agent: no\n  task: 2026-11-15\n")
    assert (found.agent, found.task) == ("no", "2026-11-15")
