"""While an ACP agent says nothing, a shell waits in its client's place; it hears the next word, and every stop."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from agents.house import until
from agents.test_acp import _agents, heard, lines, notes, project, show, toy
from overhand.agents.acp import client

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir

__all__ = ["project"]  # the fixture


def a_shell_waits(project: ProjectDir) -> None:
    """Until it does: its reader is there only once it would hear a signal."""
    until(lambda: [line for line in lines(project) if line.startswith("dd ")], "the shell")


def test_a_silent_agent_is_waited_for_by_a_shell(project: ProjectDir) -> None:
    toy(project, "say:One.", "until:two", "say:Two.", "ask:touch_x", "until:three", "say:Three.", "return")
    project.run("delegate", "do it", "--agent", "toy", check=True)
    a_shell_waits(project)
    (project.path / "two").touch()
    until(lambda: notes(project)[-1] == "touch x -> yes", "its second silence")
    a_shell_waits(project)
    (project.path / "three").touch()
    assert project.run("wait", "1").code == 0
    assert heard(project).text == ["One.Two.Three."]
    assert (heard(project).end, show(project)["usage"]["output"]) == ("clean", 30)
    assert notes(project)[-1] == "touch x -> yes"


@pytest.mark.parametrize("how", ["stopped", "dead"])
def test_a_silent_agent_ends_like_any_other(project: ProjectDir, how: str) -> None:
    toy(project, "until:dead", "die")
    project.run("delegate", "do it", "--agent", "toy", check=True)
    a_shell_waits(project)
    if how == "stopped":
        project.run("stop", "1", check=True)
        assert notes(project)[-1] == "cancelled"
        assert heard(project).end == "aborted"
    else:
        (project.path / how).touch()
        project.run("wait", "1")
        assert heard(project).end == "api-error"
    until(lambda: not _agents(project))


def test_a_stop_is_heard_also_while_one_program_becomes_the_other(project: ProjectDir) -> None:
    """The signal may come where nobody can take it; what is written down before it is found."""
    toy(project, "until:go", "say:Here.", "wait")
    project.run("delegate", "do it", "--agent", "toy", check=True)
    a_shell_waits(project)
    (place,) = project.path.glob(".agent-workspaces/*/runs/*")
    (place / "stopped").write_text("cancelled\n")
    (project.path / "go").touch()
    project.run("wait", "1")
    assert notes(project)[-1] == "cancelled"
    assert heard(project).end == "aborted"


@pytest.mark.parametrize("when", ["before it waits", "when it wakes"])
def test_the_shell_that_waits_misses_no_stop(tmp_path: Path, when: str) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "woken for $5"\nread -r line\necho "went on"\n')
    program.chmod(0o755)
    os.mkfifo(tmp_path / "said")
    says = os.open(tmp_path / "said", os.O_RDWR)
    words = ["/bin/sh", "-c", 'exec 3<"$0"; exec "$@"', str(tmp_path / "said")]
    words += ["/bin/sh", "-c", client._WAIT, "overhand-acp", str(tmp_path), "3", str(program), "", ""]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    if when == "before it waits":
        (tmp_path / "stopped").touch()
    else:
        os.write(says, b"{")
    shell = subprocess.Popen(words, text=True, **pipes)  # type: ignore[call-overload] # from a dict
    try:
        assert select.select([shell.stdout], [], [], 60)[0], "it still waits"
        assert shell.stdout.readline() == ("woken for TERM\n" if when == "before it waits" else "woken for \n")
        shell.send_signal(signal.SIGTERM)
        assert shell.communicate("\n", timeout=60)[0] == "went on\n"
    finally:
        shell.kill()
        shell.communicate()
        os.close(says)
