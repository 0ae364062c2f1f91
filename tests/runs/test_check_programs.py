"""A check that could not even begin stops the task before its agent is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.contracts import first_program

if TYPE_CHECKING:
    from support.scene import Scene


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("pytest -q", "pytest"),
        ("CI=1 npm test", "npm"),
        ("! grep -q x y", "grep"),
        ("test -s a.txt", ""),
        ("./check.sh", ""),
        ("$TOOL run", ""),
        ("PATH=/opt/bin tool", ""),
        ("(cd sub; make)", ""),
        ("for f in *; do cat $f; done", ""),
        ("echo 'unbalanced", ""),
        ("", ""),
    ],
)
def test_the_program_that_must_be_on_the_path(command: str, program: str) -> None:
    assert first_program(command) == program


def test_a_missing_program_stops_the_task(scene: Scene) -> None:
    scene.agent("worker", "output")
    task = scene.delegate("Try it", "--verify", "true", "--verify", "no-such-tool --all")
    assert scene.judged(task).status == "rejected"
    shown = scene.json("show", task)
    assert "needs no-such-tool, which is not on PATH" in shown["summary"]
    assert "Install no-such-tool" in shown["summary"]
    assert (scene.starts(task), shown["runs"]) == (0, [])
