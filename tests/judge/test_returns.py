"""Every return of the corpus is judged as its truth says; `known_wrong.txt` names those that are not yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.returns import ReturnCase, differences, judge_case, return_cases

CASES = return_cases()
WRONG = frozenset((Path(__file__).parent / "known_wrong.txt").read_text().split())


def test_ids_are_unique_and_the_list_of_wrong_ones_names_cases() -> None:
    ids = [f"{case.family}:{case.id}" for case in CASES]
    assert len(set(ids)) == len(ids)
    assert set(ids) >= WRONG


def _marks(case: ReturnCase) -> list[pytest.MarkDecorator]:
    known = f"{case.family}:{case.id}" in WRONG
    return [pytest.mark.xfail(strict=True, reason="a verdict that is known to be wrong")] if known else []


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.family}:{case.id}", marks=_marks(case)) for case in CASES]
)
def test_judged_right(case: ReturnCase, tmp_path: Path) -> None:
    judged = judge_case(case, tmp_path)
    wrong = differences(case, judged)
    assert not wrong, "\n".join([case.given["why"], *wrong, *judged.problems])
