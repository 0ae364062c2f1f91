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


PACKAGES = sorted(path.name for path in mapped.SRC.iterdir() if (path / "__init__.py").is_file())
NOT_FOR_OTHERS = {"cli", "mcp", "testing"}  # surfaces at the top; nothing of ours imports them


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - NOT_FOR_OTHERS))
def test_public_names_are_those_that_other_packages_use(package: str) -> None:
    public, modules = mapped.public(package), {path.stem for path in (mapped.SRC / package).iterdir()}
    names = {name for found in public.values() for name in found}
    assert names == mapped.used(package)
    assert not names & modules, "a name like a module's would be the module"
    at_run_time = {name for found in mapped.lazy(package).values() for name in found}
    assert at_run_time <= names
    assert names - at_run_time <= {name for module in public for name in mapped.only_annotations(package, module)}


def test_every_package_lets_others_in_by_its_public_names_alone() -> None:
    protected = {one["id"] for one in mapped.contracts() if one["type"] == "protected"}
    assert protected == set(PACKAGES) - NOT_FOR_OTHERS
