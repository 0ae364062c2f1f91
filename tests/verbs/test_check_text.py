"""`overhand check` with a text that is no other document."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("desk") / "project")
    try:
        yield project
    finally:
        project.cleanup()


def test_a_file(desk: ProjectDir) -> None:
    (desk.path / "talk.md").write_text("Which?\nCONTROL: PAUSE\nCONTROL: DELEGATE wroker REASON: Draw the roads\n")
    ran = desk.run("check", "talk.md", "--json")
    assert (ran.code, ran.json["document"]) == (1, "control")
    (problem,) = ran.json["problems"]
    assert (problem["code"], problem["line"]) == ("control-agent-unknown", 3)
    assert "Did you mean worker?" in problem["message"]
    assert "talk.md: control, 1 error, 0 warnings" in desk.run("check", "talk.md").out


def test_strict_wants_reasons(desk: ProjectDir) -> None:
    (desk.path / "bare.txt").write_text("Which?\nCONTROL: PAUSE\n")
    assert desk.run("check", "bare.txt").code == 0
    ran = desk.run("check", "bare.txt", "--strict", "--json")
    assert (ran.code, [one["code"] for one in ran.json["problems"]]) == (1, ["control-no-reason"])


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        (b"CONTROL: CHECKPOINT REASON: 85%", 0, b"-: control, 0 errors, 0 warnings"),
        (b"PAUSE\n", 1, b"[control-prefix] (Write `CONTROL: PAUSE`.)"),
        (b"CONTROL CHECKPOINT\n", 1, b"[control-colon]"),
        (b"CONTROL: MAGIC_COMMAND\n", 1, b"[control-unknown]"),
        (b"CONTROL: \n", 1, b"[control-empty]"),
        (b"Just checkpoint this\n", 1, b"[control-prefix]"),
        (b"Fine.\nPlease pause.\nCONTROL: CHECKPOINT\n", 0, b"-:2: warning: "),
        (b"CONTROL: CHECKPOINT\n\xff\n", 0, b"[broken-utf8]"),
        (b"A note.\n", 1, b"a text with CONTROL: lines"),
    ],
)
def test_standard_input(desk: ProjectDir, text: bytes, code: int, shown: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overhand", "check", "--stdin"],
        input=text,
        cwd=desk.path,
        env=desk.environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, b""), done.stdout
    assert shown in done.stdout
