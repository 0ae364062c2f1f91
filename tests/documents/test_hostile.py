"""Large, broken and malicious input: read to the end, never refused without a word."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import (
    Output,
    contracts,
    decode_text,
    find_return,
    lint_document,
    lint_handoff,
    markdown,
    parse_agent_file,
    parse_alert,
    parse_context,
    parse_handoff,
    parse_output,
    parse_question,
    parse_request,
    put_response,
    render_handoff,
    render_output,
    render_request,
    request,
)
from support import strategies as make
from support.strategies import light

SOURCE = Path(markdown.__file__).parent
OUTPUT = "# Task Complete: x\n\n**Status:** completed\n\n## Summary\nFine.\n"


def test_ten_megabytes() -> None:
    row = "- `src/file.py` — changed | `a|b` and more text to make the line as long as lines are\n"
    log = "2026-11-15 INFO everything is as it was # not a heading\n" * 80_000
    text = f"{OUTPUT}\n## Log\n```\n{log}```\n\n## Files Modified\n{row * 40_000}"
    raw = text.encode()
    assert len(raw) > 8_000_000
    found, problems = parse_output(decode_text(raw)[0])
    assert problems == []
    assert len(found.files_modified) == 40_000
    assert len(found.extra[0].body) > 4_000_000


# Each would take minutes if anything were read twice for every character.
HOSTILE = {
    "braces": "{" * 400_000 + '"status"',
    "nested returns": '{"status":1,"summary":' * 20_000 + "x" + "}" * 20_000,
    "quotes": '{"status"' + '"\\"' * 150_000,
    "newlines": "\n" * 500_000,
    "blanks": " " * 500_000 + "x — y",
    "tabs": "- [ ] \t" + "\t" * 300_000 + ":",
    "backticks": "- " + "`" * 300_000,
    "growing backticks": "| " + " ".join("`" * n for n in range(1, 700)) + " |",
    "stars": "- **" + "*a" * 150_000,
    "hashes": "# " + "# " * 200_000,
    "openers": "```a\n" * 15_000,
    "comments": "<!--\n" * 15_000,
    "dashes": "- " * 200_000,
    "nested lists": "".join("  " * (n % 200) + "- a\n" for n in range(10_000)),
    "pipes": "|" * 200_000,
    "equals": "=== " * 100_000,
    "blocks": "=== RESEARCH OUTPUT ===\n" * 3_000,
    "quoted blocks": "# h\n```\n" + "=== RESEARCH OUTPUT ===\n=== END ===\n" * 5_000 + "```\n",
    "colons": "SOURCE: " * 50_000,
    "fields": "**Status:** x | " * 30_000,
    "backslashes": "\\" * 300_000 + "# x",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_in_linear_time(name: str) -> None:
    text = HOSTILE[name]
    for body in (text, f"{OUTPUT}\n## Deliverables\n{text}\n", f"## Task\n{text}\n## Plan\n{text}\n"):
        found, _ = parse_output(body)
        render_output(found)
        render_handoff(parse_handoff(body))
    lint_handoff(text)
    parse_context(text)
    contracts.parse_block(f"=== RESEARCH OUTPUT ===\nEVIDENCE:\n- {text}\n=== END ===")
    find_return(text)
    render_request(parse_request(f"# x\n## What\n{text}")[0])
    put_response(text.encode(), "sess_1_a", "completed", text)
    parse_alert(text)


@light
@given(st.binary(max_size=80) | make.body.map(str.encode), st.sampled_from(["OUTPUT.md", "HANDOFF.md", "CONTEXT.md"]))
def test_any_bytes_are_read(raw: bytes, name: str) -> None:
    assert lint_document(name, raw)[0] == name[:-3].lower()


@light
@given(make.body)
def test_any_text_is_read_by_every_parser(text: str) -> None:
    parse_output(text)
    lint_handoff(text, exists=lambda _: False)
    parse_context(text)
    parse_agent_file(f"---\nname: a\n{text}\n---\n")
    parse_question(text)
    contracts.parse_block(f"=== REVIEW OUTPUT ===\n{text}")
    find_return(text)
    request.lint(text)
    parse_alert(text)


def test_encodings() -> None:
    assert decode_text(b"\xef\xbb\xbfa\r\nb\rc\n") == ("a\nb\nc\n", [])
    text, problems = decode_text(b"a\nb\xff\0")
    assert text == "a\nb�\0"
    assert [(one.code, one.level, one.line) for one in problems] == [
        ("broken-utf8", "warning", 2),
        ("nul-byte", "warning", 2),
    ]
    found, _ = parse_output(decode_text(b"\xef\xbb\xbf" + OUTPUT.replace("\n", "\r\n").encode())[0])
    assert (found.title, found.status, found.summary) == ("x", "completed", "Fine.")


def test_values_with_surrogates_can_be_written() -> None:
    text = render_output(Output("x", "completed", summary="y", data={"half": "\ud800"}))
    assert parse_output(text.encode().decode())[0].data == {"half": "\ud800"}


def test_deep_json_is_a_problem_not_a_crash() -> None:
    found, problems = parse_output(f"{OUTPUT}\n## Data\n```json\n{'[' * 100_000}\n```\n")
    assert found.data is None
    assert [one.code for one in problems] == ["data-invalid"]


PURE = [SOURCE / "markdown.py", SOURCE / "contracts.py", *sorted((SOURCE / "documents").glob("*.py"))]


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.name)
def test_no_io_and_no_clock(path: Path) -> None:
    forbidden = {"os", "io", "pathlib", "subprocess", "socket", "time", "datetime", "random", "threading"}
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not forbidden & {name.split(".")[0] for name in names}
        assert not (isinstance(node, ast.Name) and node.id == "open")


def test_reading_an_output_loads_no_parsers() -> None:
    program = (
        "import sys, overhand.documents.output as o, overhand.documents.handoff;"
        f"o.parse_output({OUTPUT!r});"
        "print(sorted({'json', 'yaml', 'jsonschema_rs'} & set(sys.modules)))"
    )
    done = run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert done.stdout == "[]\n"
