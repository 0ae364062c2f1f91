"""Every return of the corpus is judged as its truth says; `known_wrong.txt` names those that are not yet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from support.returns import ReturnCase, differences, judge_case, return_cases

CASES = return_cases()
ALIKE = sorted({case.given["alike"] for case in CASES if "alike" in case.given})
WRONG = frozenset((Path(__file__).parent / "known_wrong.txt").read_text().split())


def test_ids_are_unique_and_the_list_of_wrong_ones_names_cases() -> None:
    ids = [*(f"{case.family}:{case.id}" for case in CASES), *(f"alike:{group}" for group in ALIKE)]
    assert len(set(ids)) == len(ids)
    assert set(ids) >= WRONG


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place for one case; a thousand projects would be slow to remove at the end."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def _param(value: object, name: str) -> ParameterSet:
    known = pytest.mark.xfail(strict=True, reason="a verdict that is known to be wrong")
    return pytest.param(value, id=name, marks=[known] if name in WRONG else [])


@pytest.mark.parametrize("case", [_param(case, f"{case.family}:{case.id}") for case in CASES])
def test_judged_right(case: ReturnCase, folder: Path) -> None:
    judged = judge_case(case, folder)
    wrong = differences(case, judged)
    assert not wrong, "\n".join([case.given["why"], *wrong, *judged.problems])


@pytest.mark.parametrize("group", [_param(group, f"alike:{group}") for group in ALIKE])
def test_judged_alike(group: str, folder: Path) -> None:
    found = [case for case in CASES if case.given.get("alike") == group]
    statuses = {case.id: judge_case(case, folder / str(number)).status for number, case in enumerate(found)}
    assert len(set(statuses.values())) == 1, statuses
