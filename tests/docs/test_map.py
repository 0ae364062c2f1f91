"""docs/map.md says what is in the source: packages, public names, and the files of each flow."""

from __future__ import annotations

import ast
import re

import pytest

from docs import mapped
from docs.tables import MAP, renewed

_STEP = re.compile(r"`([a-z_/]+\.py)(?:: ([A-Za-z_, ]+))?`")


@pytest.fixture(scope="module")
def page() -> str:
    return MAP.read_text(encoding="utf-8")


def test_the_generated_parts_are_those_of_the_source(page: str) -> None:
    assert page == renewed(page, mapped.PARTS), "make docs"


def test_every_entry_of_the_package_has_its_place() -> None:
    there = {path.stem for path in mapped.SRC.iterdir() if path.name not in {"py.typed", "__pycache__"}}
    assert {name for layer in mapped.layers() for name in layer} == there - {"__init__", "__main__"}
    assert all(mapped.purposes().values()), mapped.purposes()


def test_the_files_of_a_flow_have_what_is_named(page: str) -> None:
    steps = _STEP.findall(page.partition("## Follow a flow")[2].partition("## Glossary")[0])
    assert len(steps) > 25
    for path, names in steps:
        tree = ast.parse((mapped.SRC / path).read_text(encoding="utf-8"))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        there = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
        assert {name for name in names.split(", ") if name} <= there, path
