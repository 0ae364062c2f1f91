"""Which globs may name one file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans.advance.executor import FILES, overlap, share_a_file

GLOBS = (*FILES, "*.py", "src/**", "src/*.py", "src", "**/*.md", "docs/", "**", "s*/**/c.py", "src/?.py", "src/[ab].py")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.py", "a.py"),
        ("a.py", "./a.py"),
        ("README.md", "readme.md"),
        ("src", "src/deep/a.py"),
        ("src/", "src/a.py"),
        ("src/**", "src/deep/a.py"),
        ("**/*.py", "src/a.py"),
        ("**/*.py", "src"),
        ("src/*.py", "src/a*"),
        ("src/{a,b}.py", "src/b.py"),
        ("src/../a.py", "a.py"),
        ("/tmp/a.py", "a.py"),
        ("**/x/**", "a/**/y"),
    ],
)
def test_may_be_the_same(one: str, other: str) -> None:
    assert overlap(one, other)
    assert overlap(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.py", "b.py"),
        ("src/**", "docs/**"),
        ("src/*.py", "src/*.md"),
        ("src/a*", "src/b*"),
        ("src/*.py", "a.py"),
        ("**/*.md", "src/a.py"),
        ("src", "srcs/a.py"),
    ],
)
def test_cannot_be_the_same(one: str, other: str) -> None:
    assert not overlap(one, other)
    assert not overlap(other, one)


@given(st.sampled_from(GLOBS), st.sampled_from(GLOBS))
def test_no_shared_file_is_overlooked(one: str, other: str) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, other) >= share_a_file([one], [other])
