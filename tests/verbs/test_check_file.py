"""`overhand check FILE`: every kind of document, every problem with its line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

RENDERED = Path(__file__).parent.parent / "golden/documents/rendered"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("desk") / "project")
    project.run("trust", "--yes", check=True)
    try:
        yield project
    finally:
        project.cleanup()


# file: its bytes, the kind, and each problem as line, level and code
BROKEN: dict[str, tuple[bytes, str, list[tuple[int | None, str, str]]]] = {
    "HANDOFF.md": (
        b"# Task Handoff\n\n## Task\n\n## Key Files\n- `gone.py` \xe2\x80\x94 why\n\n## Expected Deliverables\n",
        "handoff",
        [(3, "error", "empty-task"), (6, "warning", "key-file-missing"), (8, "warning", "no-deliverable")],
    ),
    "OUTPUT.md": (
        b"# Task Complete: x\n\n**Status:** splendid\n\n## Data\n```json\n{]\n```\n",
        "output",
        [(3, "error", "status-unknown"), (None, "error", "summary-missing"), (5, "error", "data-invalid")],
    ),
    "CONTEXT.md": (
        b"# Context Dump\n\n**Task ID:** x\n**Reason:** bored\n",
        "context",
        [(1, "error", "context-field-missing"), (4, "warning", "reason-unknown")],
    ),
    "handoff.md": (
        b"## Quick Handoff\n**Session:** x\n**Status:** half\n\nSee noise.txt:1 and gone.py:3.\n",
        "quick",
        [(1, "error", "handoff-field-missing"), (5, "warning", "reference-missing")],
    ),
    "ckpt_x.json": (
        b'{"checkpoint_id": "ckpt_x", "token_budget": {"used": 1, "limit": 2, "percentage": 5}}',
        "checkpoint",
        [(None, "error", "field-missing"), (None, "error", "budget-mismatch")],
    ),
    "001.question": (b'{"seq": 2, "question": 3}', "question", [(None, "error", "field-type")]),
    "001.answer": (b'{"seq": 1', "answer", [(None, "error", "not-json")]),
    "result.json": (b'{"status": "completed"}', "return", [(None, "error", "field-missing")]),
    "worker.md": (
        b"---\nname: Bad Name\noverhand:\n  driver: magic\n---\nDo it.\n",
        "agent",
        [(2, "error", "agent-name"), (4, "error", "agent-field")],
    ),
    "block.md": (
        b"=== RESEARCH OUTPUT ===\nQUERY: x\nCONFIDENCE: sure\n",
        "contract",
        [(3, "error", "contract-value")],
    ),
    "noise.bin": (
        b"\xff\x00\xfe" * 10,
        "unknown",
        [(None, "error", "unknown-document"), (1, "warning", "broken-utf8")],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_problem_with_its_line(desk: ProjectDir, name: str) -> None:
    raw, kind, wanted = BROKEN[name]
    path = desk.path / name
    path.write_bytes(raw)
    ran = desk.run("check", name if "." in name else f"./{name}", "--json")
    shown = ran.json
    assert (ran.code, shown["schema"], shown["document"]) == (1, "overhand.check/1", kind)
    found = [(one.get("line"), one["level"], one["code"]) for one in shown["problems"]]
    missing = [
        one for one in wanted if one not in found and (one[0] is not None or one[1:] not in [f[1:] for f in found])
    ]
    assert missing == [], found
    assert shown["errors"] == sum(one["level"] == "error" for one in shown["problems"])
    text = desk.run("check", f"./{name}")
    assert text.code == 1
    for one in shown["problems"]:
        place = f"./{name}:{one['line']}" if "line" in one else f"./{name}"
        assert f"{place}: {one['level']}: {one['message']} [{one['code']}]" in text.out
    assert text.out.splitlines()[-1].startswith(f"./{name}: {kind}, ")


@pytest.mark.parametrize("path", sorted(RENDERED.iterdir()), ids=lambda path: path.name)
def test_what_overhand_renders_has_no_error(desk: ProjectDir, path: Path) -> None:
    ran = desk.run("check", str(path), "--json")
    assert (ran.code, ran.json["errors"]) == (0, 0), ran.json["problems"]


def test_what_overhand_writes_itself_has_no_error(desk: ProjectDir) -> None:
    shown = desk.run("delegate", "Write it down", "--deliverable", "nothing.txt", "--wait", "--json").json
    for name in ("HANDOFF.md", "CONTEXT.md"):
        assert desk.run("check", f"{shown['folder']}/{name}").code == 0


def test_references_are_looked_up_in_the_tree(desk: ProjectDir) -> None:
    (desk.path / "src").mkdir()
    (desk.path / "src/tiles.py").write_text("one\ntwo\nthree")
    (desk.path / "notes").mkdir()
    (desk.path / "notes/near.md").write_text("one\n")
    text = "## Quick Handoff\n**Session:** x\n**Status:** half\n**Next:** src/tiles.py:3\n\n"
    (desk.path / "notes/quick.md").write_text(f"{text}near.md:1 src/tiles.py:1-4\ngone.py:1 src:1\n")
    ran = desk.run("check", "notes/quick.md", "--json")
    assert [(one["line"], one["message"]) for one in ran.json["problems"]] == [
        (6, "src/tiles.py:1-4 is beyond the end: the file has 3 lines."),
        (7, "The file gone.py is not there."),
    ]
    assert ran.code == 0


def test_strict_counts_warnings(desk: ProjectDir) -> None:
    (desk.path / "VAGUE").mkdir()
    (desk.path / "VAGUE/HANDOFF.md").write_text("# Task Handoff\n\n## Task\nDo it\n")
    assert desk.run("check", "VAGUE/HANDOFF.md").code == 0
    assert desk.run("check", "VAGUE/HANDOFF.md", "--strict").code == 1


def test_standard_input(desk: ProjectDir) -> None:
    argv = [sys.executable, "-m", "overhand", "check", "--stdin", "--json"]
    done = subprocess.run(
        argv,
        input=b"# Task Handoff\n\n## Task\n",
        cwd=desk.path,
        env=desk.environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b'"document": "handoff"' in done.stdout, done.stderr) == (1, True, b"")


def test_what_is_no_document(desk: ProjectDir) -> None:
    os.mkfifo(desk.path / "pipe.md")
    for words, code, error in (
        (["pipe.md"], 2, "VALIDATION_FAILED"),
        ([".overhand/agents"], 2, "VALIDATION_FAILED"),
        (["/dev/zero"], 2, "VALIDATION_FAILED"),
        (["gone.md"], 4, "FILE_NOT_FOUND"),
        (["99"], 4, "TASK_NOT_FOUND"),
        ([], 2, "VALIDATION_FAILED"),
    ):
        ran = desk.run("check", *words, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (code, error), words
        assert ran.json["error"]["hint"]
