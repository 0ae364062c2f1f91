"""The scanner's spans, sections, tables and inline code."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overhand.documents import front_matter_end, markdown_sections, task_lines
from overhand.documents.inline import cell, cells, code, inert, leading_code
from overhand.documents.markdown import front_matter, markdown_lines
from support import strategies as make
from support.strategies import light


@light
@given(make.body, st.booleans())
@example("> a\n>\n> ```\n>\n> b\n\n>\n", False)
@example("- a\n\n  > b\n  >\n\n  ```\n\n  c", True)
def test_lines_are_exact_spans(text: str, crlf: bool) -> None:
    text = text.replace("\n", "\r\n") if crlf else text
    rows = text.split("\n")
    found = {one.number: one for one in markdown_lines(text)}
    at = 0
    for number, row in enumerate(rows, 1):
        if row.strip(" \t\r"):
            assert text[found[number].start : found[number].end] == row.removesuffix("\r")
            assert found[number].start == at
        else:
            assert number not in found
        at += len(row) + 1


@light
@given(make.body)
def test_sections_cover_the_text(text: str) -> None:
    found = markdown_sections(text)
    assert found[0].start == front_matter_end(text)
    assert [one.end for one in found[:-1]] == [one.start for one in found[1:]]
    assert found[-1].end == len(text)
    for one in found[1:]:
        assert text[one.start : one.body].lstrip(" ").startswith("#")


def test_a_marker_is_replaced_in_place() -> None:
    text = "# T\r\n\r\n## Plan\r\n- [ ] one\r\n\r\n```\r\n- [ ] no\r\n```\r\n1. [ ] two — x\r\n"
    for step in reversed(list(task_lines(text))):
        text = text[: step.at + 1] + "x" + text[step.at + 2 :]
    assert text == "# T\r\n\r\n## Plan\r\n- [x] one\r\n\r\n```\r\n- [ ] no\r\n```\r\n1. [x] two — x\r\n"


def test_sections_have_bodies() -> None:
    text = "before\n# A\na\n## B\nb\n### C\nc\n# D"
    assert [(one.level, one.title, text[one.body : one.end]) for one in markdown_sections(text)] == [
        (0, "", "before\n"),
        (1, "A", "a\n"),
        (2, "B", "b\n### C\nc\n"),
        (1, "D", ""),
    ]


@pytest.mark.parametrize(
    ("text", "yaml", "body"),
    [
        ("---\nname: a\n---\nbody\n", "name: a\n", "body\n"),
        ("---\r\nname: a\r\n---\r\nbody", "name: a\r\n", "body"),
        ("---\nname: a\n...\nbody", "name: a\n", "body"),
        ("---\n---\nbody", "", "body"),
        ("---\n# a comment\nname: a\n---", "# a comment\nname: a\n", ""),
        ("---\nname: a\nno end\n", None, "---\nname: a\nno end\n"),
        ("---\n# Task Complete: x\n## Summary\nx: y\n---\n", None, "---\n# Task Complete: x\n## Summary\nx: y\n---\n"),
        ("text\n---\na: b\n---\n", None, "text\n---\na: b\n---\n"),
    ],
)
def test_front_matter(text: str, yaml: str | None, body: str) -> None:
    assert front_matter(text) == (yaml, body)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("| a | b |", ["a", "b"]),
        ("a | b", ["a", "b"]),
        ("| `a|b` | c |", ["`a|b`", "c"]),
        (r"| a \| b | c |", ["a | b", "c"]),
        (r"| `a\|b` | c |", ["`a|b`", "c"]),
        ("| ``a`|`b`` | c |", ["``a`|`b``", "c"]),
        ("| it`s | c |", ["it`s", "c"]),
        ("|  | c |", ["", "c"]),
        ("| a |  |", ["a", ""]),
        ("||", [""]),
    ],
)
def test_cells(row: str, expected: list[str]) -> None:
    assert cells(row) == expected


@light
@given(make.line, make.line)
def test_cells_read_what_cell_wrote(first: str, second: str) -> None:
    # Code in an earlier cell is closed there, as everything we write is.
    assert cells(f"| {cell(code(first))} | {cell(second)} |") == [code(first), second]


@light
@given(make.line)
def test_code_reads_what_code_wrote(text: str) -> None:
    written = code(text)
    assert leading_code(written + " and `more`") == (text, len(written))
    assert inert(written, 0, len(written)) == [(0, len(written))]
