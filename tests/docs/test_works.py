"""The table of what works with which agent says what the tests have shown, and names them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from agents import works
from docs import tables
from docs.pages import ROOT

RENEW = "run the agents again: make works"


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return dict(json.loads(works.WORKS.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def marked() -> dict[str, list[tuple[str, str, str]]]:
    """Every marked test there is; pytest finds them in a process of its own."""
    argv = [sys.executable, "-m", "agents.works", "--collected"]
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}/tests:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


def test_the_page_has_the_table_that_was_found() -> None:
    page = tables.AGENTS.read_text(encoding="utf-8")
    assert sorted(tables.parts_of(page)) == sorted(tables.GUIDE_PARTS)
    assert page == tables.renewed(page, tables.GUIDE_PARTS), "renew the page: make docs"


def test_every_mark_is_a_case_of_an_agent(marked: dict[str, list[tuple[str, str, str]]]) -> None:
    assert not [
        marks for marks in marked.values() if any(c not in works.CASES or a not in works.AGENTS for c, a, _ in marks)
    ]


def test_the_table_rests_on_the_tests_there_are(
    known: dict[str, Any], marked: dict[str, list[tuple[str, str, str]]]
) -> None:
    """Each of them passed when it was made, and fails the suite where it fails now."""
    assert known["cases"] == works.sorted_in(marked), RENEW


def test_it_was_made_with_what_is_installed(known: dict[str, Any]) -> None:
    assert known["pins"] == works.pins(), RENEW
