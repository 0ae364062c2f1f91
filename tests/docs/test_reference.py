"""The reference page says what the code says, and leaves nothing out."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from docs import tables
from docs.pages import DOCS, ROOT, blocks
from overhand.documents import lint_document
from overhand.policy.settings import SETTINGS
from overhand.verbs import VERBS
from overhand.words import CAUSES, HEADLINES, LEVELS, PRIORITIES, RUN_STATES, STATUSES

PAGE = DOCS / "reference.md"
SOURCE = sorted((ROOT / "src/overhand").rglob("*.py"))
_EMITTED = re.compile(
    r'(?:\bProblem|\b_substance|\bwarning|\bwrong)\(\s*"([a-z]+(?:-[a-z0-9]+)*)"|"code": "([a-z]+(?:-[a-z0-9]+)*)"'
)
_VARIABLE = re.compile(r"\bOVERHAND_[A-Z]+(?:_[A-Z]+)*\b")
_OPTION = re.compile(r'\b(?:agent|self)\.options(?:\.get\(|\[)"([a-z_]+)"')
_EVENT = re.compile(r'"e": "([a-z.]+)"')


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def in_source(pattern: re.Pattern[str]) -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE]
    return {next(filter(None, (*found.groups(), found[0]))) for text in texts for found in pattern.finditer(text)}


def test_generated_parts_are_what_the_code_says(page: str) -> None:
    assert sorted(tables.parts_of(page)) == sorted(tables.PARTS), "every part stands on the page, once"
    assert page == tables.renewed(page), "renew the page: make docs"


def test_every_verb_has_its_help_on_the_page(page: str) -> None:
    for verb in VERBS:
        assert f"overhand {verb.name}" in page
        assert all(arg.name in page for arg in verb.options)


def test_every_problem_code_is_explained(page: str) -> None:
    missing = {code for code in in_source(_EMITTED) if f"`{code}`" not in page}
    assert not missing


def test_every_variable_is_explained(page: str) -> None:
    missing = {name for name in in_source(_VARIABLE) if f"`{name}`" not in page}
    assert not missing


def test_every_option_of_an_agent_file_is_explained(page: str) -> None:
    found = in_source(_OPTION)
    assert {"command", "program", "mode"} <= found, "the drivers ask for their options in another way now"
    missing = {name for name in found if f"`overhand.{name}`" not in page}
    assert not missing


def test_every_setting_is_explained(page: str) -> None:
    assert all(f"`{name}`" in page for name in SETTINGS)


def test_every_word_of_the_model_is_explained(page: str) -> None:
    words = (*STATUSES, *RUN_STATES, *CAUSES, *HEADLINES, *PRIORITIES, *LEVELS)
    assert not [word for word in words if f"`{word}`" not in page]


def test_every_exit_status_is_explained(page: str) -> None:
    section = page.partition("## Exit statuses\n")[2].partition("\n## ")[0]
    for status in (0, 1, 2, 3, 4, 5, 124, 130):
        assert f"\n| {status} |" in section


def test_every_event_is_explained(page: str) -> None:
    demo = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/overhand/testing/demo").glob("*.py"))
    of_demo = set(_EVENT.findall(demo))
    missing = {name for name in in_source(_EVENT) - of_demo if f"`{name}`" not in page}
    assert not missing


def test_every_schema_is_named(page: str) -> None:
    for path in files("overhand.documents.schemas").iterdir():
        assert not path.name.endswith(".json") or f"`{path.name}`" in page


@pytest.mark.parametrize("block", [b for b in blocks(PAGE) if b.told == "file"], ids=lambda b: b.value)
def test_the_documents_on_the_page_are_good_ones(block: object) -> None:
    from docs.pages import Block

    assert isinstance(block, Block)
    _, problems = lint_document(block.value, block.text.encode(), exists=lambda _: True)
    assert not problems, [problem.message for problem in problems]
