"""While an ACP agent says nothing, a shell waits in its client's place; it hears the next word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agents.house import until
from agents.test_acp import _agents, heard, lines, notes, project, show, toy

if TYPE_CHECKING:
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
    until(lambda: not _agents(project), timeout=10)
