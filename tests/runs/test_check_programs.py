"""A check that could not even begin stops the task before its agent is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.contracts import first_program
from support.scene import QUICK

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


NO_SCRIPT = "./check.sh --all"


@pytest.mark.parametrize("command", [NO_SCRIPT, "true && no-such-tool", "sh -c './app.txt'"])
def test_a_check_that_cannot_be_started_stops_the_task(scene: Scene, command: str) -> None:
    (scene.path / "app.txt").write_text("no program\n")
    scene.agent("worker", "output")
    task = scene.delegate("Try it", "--verify", command)
    assert scene.judged(task).status == "rejected"
    shown = scene.json("show", task)
    code = 126 if "app" in command else 127
    assert f"The check `{command}` cannot be started here: exit status {code}, " in shown["summary"]
    assert "give another check with --verify" in shown["summary"]
    assert (scene.starts(task), shown["runs"]) == (0, [])


def test_once_it_can_be_started_so_can_the_task(scene: Scene) -> None:
    scene.agent("worker", "output")
    task = scene.delegate("Try it", "--verify", NO_SCRIPT)
    assert scene.judged(task).status == "rejected"
    (scene.path / "check.sh").write_text("#!/bin/sh\n")
    (scene.path / "check.sh").chmod(0o755)
    scene.project.run("run", task, "--wait", check=True)
    assert scene.json("show", task)["checks"][0]["before"] == 0


def test_a_task_may_write_the_program_of_its_check(scene: Scene) -> None:
    scene.shell("writer", f'cd "$OVERHAND_PROJECT"; echo true >check.sh; chmod +x check.sh\n{QUICK}')
    task = scene.delegate("Write the check", "--agent", "writer", "--verify", NO_SCRIPT, "--deliverable", "check.sh")
    scene.judged(task)
    shown = scene.json("show", task)
    assert (shown["status"], shown["verification"]) == ("completed", "passing")
