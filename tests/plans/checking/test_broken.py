"""What is said about broken plans; one golden file for each.

`OVERHAND_GOLDEN=write pytest tests/plans/checking/test_broken.py` writes them anew; look at the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overhand.documents import Problem, by_line, has_errors
from overhand.plans import AgentFacts, check_plan, read_plan_text
from overhand.plans.check import CODES
from plans.checking.broken import BYTES, JSON, YAML
from plans.reading.examples import AGENTS

GOLDEN = Path(__file__).parent.parent.parent / "golden/plans"
WRITE = os.environ.get("OVERHAND_GOLDEN") == "write"
FACTS = {**{name: AgentFacts() for name in AGENTS}, "style-agent": AgentFacts(("lint", "style-check"))}
ONLY_WARNED = ("writers", "writers-many", "mutates", "timeout-beyond")
ALL: dict[str, tuple[str, str | bytes]] = {
    **{name: ("plan.yaml", text) for name, text in YAML.items()},
    **{name: ("plan.json", text) for name, text in JSON.items()},
    **{name: ("plan.yaml", raw) for name, raw in BYTES.items()},
}


def problems_of(text: str | bytes, name: str) -> list[Problem]:
    found = read_plan_text(text, name)
    more = check_plan(found.plan, FACTS, lines=found.lines) if found.plan else []
    return by_line([*found.problems, *more])


@pytest.mark.parametrize("variant", ALL)
def test_broken(variant: str) -> None:
    name, text = ALL[variant]
    problems = problems_of(text, name)
    rows = [f"{name}:{one.line}: {one.level}: {one.message} [{one.code}]\n   {one.fix}\n" for one in problems]
    golden = GOLDEN / f"{variant}.txt"
    if WRITE:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text("".join(rows))
    assert "".join(rows) == golden.read_text()
    assert has_errors(problems) is (variant not in ONLY_WARNED)
    assert all(one.code in CODES and one.fix and one.line for one in problems)


def test_no_golden_is_left_over() -> None:
    assert {one.stem for one in GOLDEN.iterdir() if one.suffix == ".txt"} == set(ALL)
