"""Quick handoffs, full checkpoint documents, and the references in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import Quick, Section, as_errors, count_words, parse_quick, quick_text, render_quick
from overhand.documents.checkpoint import lint_full
from overhand.documents.quick import check_references, lint_quick, read_quick, references
from support import strategies as make
from support.strategies import light

HEAD = "## Quick Handoff\n**Session:** tiles\n**Status:** 2 of 4\n**Next:** src/tiles.py:40\n\n"


@light
@given(make.quicks)
def test_quick_round_trip(value: Quick) -> None:
    assert parse_quick(render_quick(value))[0] == value
    assert parse_quick(render_quick(value).replace("\n", "\r\n"))[0] == value


@light
@given(make.quicks)
def test_quick_text_is_read_without_its_heading(value: Quick) -> None:
    assert read_quick(quick_text(value)) == Quick(
        value.session, value.status, value.next, value.text, value.state, value.gotchas
    )


@light
@given(make.body)
def test_any_text_is_linted(text: str) -> None:
    lint_quick(text, size_of=lambda _: 1)
    lint_full(text, size_of=lambda _: None)
    parse_quick(render_quick(parse_quick(text)[0]))


def test_a_handoff_as_people_write_it() -> None:
    text = (
        "# QUICK HANDOFF (100-200 words)\n**Session**: tiles\nstatus: Phase 2/4\n- **Next:** src/tiles.py:40\n\n"
        "The cache is filled.\nNext: empty it.\n\n### 📍 Current State\n- [x] filled\n* 🔜 emptied\n\n"
        "**⚠️ Gotchas (two):**\n1. keys are strings\n2. no locks\n   at all\n\n# Thanks\nBye.\n"
    )
    found, problems = parse_quick(text)
    assert found == Quick(
        "tiles",
        "Phase 2/4",
        "src/tiles.py:40",
        "The cache is filled.\nNext: empty it.",
        ("[x] filled", "🔜 emptied"),
        ("keys are strings", "no locks\nat all"),
        (Section("Thanks", "Bye."),),
    )
    assert [one.code for one in problems] == ["heading-level"]


def test_lists_may_be_sections_and_fields_may_come_last() -> None:
    text = "## Quick Handoff\nHalf done.\n\n**Next:** a.py:1\n\n## Gotchas\n- g\n\n## Current State\n- s\n"
    found, problems = parse_quick(text)
    assert found == Quick(next="a.py:1", text="Half done.", state=("s",), gotchas=("g",))
    assert [(one.code, one.message) for one in problems] == [
        ("handoff-field-missing", "Session is missing."),
        ("handoff-field-missing", "Status is missing."),
    ]


@pytest.mark.parametrize("text", ["", "Nothing but words.", "\n\n**Gotchas:** none\n"])
def test_a_handoff_without_anything(text: str) -> None:
    assert len([one for one in lint_quick(text) if one.code == "handoff-field-missing"]) == 3


def test_words_and_tokens() -> None:
    assert count_words("") == (0, 0)
    assert count_words("two words") == (2, 3)
    assert count_words("größer\n") == (1, 3)


@pytest.mark.parametrize(
    ("words", "codes"),
    [(200, []), (280, []), (300, ["handoff-long"]), (4000, ["handoff-long"]), (5000, ["handoff-too-long"])],
)
def test_length(words: int, codes: list[str]) -> None:
    found = lint_quick(HEAD + "word " * words)
    assert [one.code for one in found] == codes
    assert [one.code for one in as_errors(found) if one.level == "error"] == codes
    assert [one.code for one in found if one.level == "error"] == [one for one in codes if "too" in one]


FULL = "# Tiles - Checkpoint\n**Status:** s\n**Next Session:** n\n**Checkpoint ID:** `ckpt_a`\n\n"


def test_only_the_quick_part_of_a_full_document_must_be_short() -> None:
    assert lint_full(f"{FULL}## Mental Model\n{'word ' * 400}") == []
    assert [one.code for one in lint_full(f"{FULL}## Quick Handoff\n{'word ' * 400}")] == ["handoff-long"]
    assert [one.code for one in lint_full(f"{FULL}## Mental Model\n{'word ' * 5000}")] == ["handoff-too-long"]


def test_pasted_code() -> None:
    block = "```python\nx = 1\n\ny = 2\n```\n"
    found = lint_quick(f"{HEAD}{block}\n- a\n\n{block}")
    assert [(one.code, one.line, one.message) for one in found] == [
        ("handoff-code", 6, "2 lines of code stand in the handoff."),
        ("handoff-code", 14, "2 lines of code stand in the handoff."),
    ]
    assert lint_full(f"{FULL}## 🔜 REMAINING (ready to copy)\n{block}") == []
    assert [one.line for one in lint_full(f"{FULL}## Gotchas\n{block}")] == [7]
    long = "```\n" + "x\n" * 40 + "```\n"
    assert [one.code for one in lint_full(f"{FULL}## Remaining\n{long}")] == ["handoff-code"]


def test_a_full_document_as_people_write_it() -> None:
    text = (
        "# Sprint 3: CHECKPOINT\n**Status:** half\n**Context Usage:** 20.6 % (33K)\n**Next:** a.py:1\n\nHello.\n\n"
        "## 🔗 related files\n- src/a.py - the reader\n\n## ✅ Completed (high level)\n- **A-1** - a.py:1 - read\n\n"
        "## To Do\n**B-1** (30 min)\nFile: a.py:2\n```\ncode\n```\n\n## Mental Model\nIt flows.\n\n## Poem\nRoses.\n"
    )
    assert [one.message for one in lint_full(text)] == [
        "Checkpoint ID is missing.",
        "1 line of code stand in the handoff.",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("auth.rs:167,302,337 - gone", [("auth.rs", ((167, 167), (302, 302), (337, 337)))]),
        ("(src/auth.rs:200-250)", [("src/auth.rs", ((200, 250),))]),
        ("`src/a_b.py:3`, **c.py:4-5,9**.", [("src/a_b.py", ((3, 3),)), ("c.py", ((4, 5), (9, 9)))]),
        ("a.py:1\u20139", [("a.py", ((1, 9),))]),
        ("a.py:10:5: error", [("a.py", ((10, 10),))]),
        ("bin/run:3 .env:2 ./x.md:1 ../y.md:2", [("bin/run", ((3, 3),)), (".env", ((2, 2),)), ("./x.md", ((1, 1),)),
                                                  ("../y.md", ((2, 2),))]),
        ("größe/日本.md:7", [("größe/日本.md", ((7, 7),))]),
        ("at 12:30, 2025-10-18T14:30:00Z, 12.30:15, 1/2:3", []),
        ("http://localhost:8080 https://x.org/a.py:12 ftp://h/a.b:1?c.d:2", []),
        ("api.example.com:443 127.0.0.1:80 localhost:80 user@host.de:22x", []),
        ("v1.2.3:4 python3.11:5 image/name:1.2 node:18", []),
        ("a.py:x a.py: 3 a.py:3x a.py:", []),
    ],
)  # fmt: skip
def test_references(text: str, wanted: list[tuple[str, tuple[tuple[int, int], ...]]]) -> None:
    assert list(references(text)) == wanted


def test_references_know_their_line() -> None:
    assert list(references("a.py:1\n\nx b.py:2 c.py:3\nd.py:4").values()) == [1, 3, 3, 4]


@light
@given(
    st.from_regex(r"[a-z]{1,5}/[a-z]{1,5}\.[a-z]{1,3}", fullmatch=True),
    st.lists(st.tuples(st.integers(1, 999), st.integers(0, 99)), min_size=1, max_size=3),
)
def test_references_are_found_as_they_are_written(path: str, spans: list[tuple[int, int]]) -> None:
    lines = tuple((first, first + more) for first, more in spans)
    shown = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in lines)
    assert references(f"See {path}:{shown}.") == {(path, lines): 1}


def test_references_are_checked() -> None:
    asked: list[str] = []

    def size_of(path: str) -> int | None:
        asked.append(path)
        return {"src/a.py": 10, "one.md": 1}.get(path)

    text = "src/a.py:1,10 a.py:3-11\nsrc/a.py:11 one.md:2 b.py:1\nb.py:1 b.py:2 src/a.py:0 src/a.py:5-3"
    found = check_references(text, size_of)
    assert [(one.line, one.code, one.message) for one in found] == [
        (1, "reference-beyond", "a.py:3-11 is beyond the end: the file has 10 lines."),
        (2, "reference-beyond", "src/a.py:11 is beyond the end: the file has 10 lines."),
        (2, "reference-beyond", "one.md:2 is beyond the end: the file has 1 line."),
        (2, "reference-missing", "The file b.py is not there."),
        (3, "reference-beyond", "src/a.py:0 names no lines: they are counted from 1, the first one first."),
        (3, "reference-beyond", "src/a.py:5-3 names no lines: they are counted from 1, the first one first."),
        (3, "reference-missing", "The file b.py is not there."),
    ]
    assert sorted(asked) == ["a.py", "b.py", "one.md", "src/a.py"]


@pytest.mark.parametrize(
    "text",
    ["a" * 400_000, "a." * 200_000, "a:" * 200_000, "a.b:1," * 80_000, "a.b:" + "1," * 200_000, "/" * 300_000,
     "**" + "⚠" * 300_000, "**Next" + " " * 300_000 + "x",
     "Next" + " " * 300_000 + "x", "### Gotchas" + " " * 300_000 + "x", "**Gotchas (" + "(" * 300_000,
     "# a" + " -" * 200_000,
     "\\" * 200_000 + "**Next:** x", "```\n" * 50_000],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    lint_quick(text, size_of=lambda _: None)
    lint_full(f"# x - Checkpoint\n{text}\n## Quick Handoff\n{text}", size_of=lambda _: None)
