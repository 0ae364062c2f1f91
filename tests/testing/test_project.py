"""A project for tests: what is written, and that nothing of it is alive after the clean-up."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
import yaml

from overhand.system import start_time
from overhand.testing.processes import SLEEP
from overhand.testing.project import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

# In place of a supervisor: its command line has the module's name and the project, which is how one is found.
SUPERVISOR = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "a project", trust=False)
    yield project
    project.cleanup()


def front_matter(path: Path) -> dict[str, object]:
    front = yaml.safe_load(path.read_text().split("---\n")[1])
    assert isinstance(front, dict)
    return front


def test_a_project_has_a_worker_that_completes(project: ProjectDir) -> None:
    front = front_matter(project.path / ".overhand/agents/worker.md")
    command = [sys.executable, "-m", "overhand.testing.agent", "output"]
    assert front["name"] == "worker"
    assert front["overhand"] == {"driver": "command", "command": command}


def test_agents_and_config_as_given(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"a": ['print:é "x"\\n', "exit:3"]}, config="max_parallel = 1\n")
    try:
        assert not (tmp_path / ".overhand/agents/worker.md").exists()
        path = project.agent("b", "hang", can_delegate=True, repair="rerun")
        mine = front_matter(path)["overhand"]
        assert isinstance(mine, dict)
        assert (mine["can_delegate"], mine["repair"], mine["command"][-1]) == (True, "rerun", "hang")
        other = front_matter(tmp_path / ".overhand/agents/a.md")["overhand"]
        assert isinstance(other, dict)
        assert other["command"][-2:] == ['print:é "x"\\n', "exit:3"]
        assert tomllib.loads((tmp_path / ".overhand/config.toml").read_text()) == {"max_parallel": 1}
    finally:
        project.cleanup()


def test_git_makes_one_commit_with_everything(tmp_path: Path) -> None:
    project = make_project(tmp_path, git=True)
    project.cleanup()
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert status.stdout == ""


def test_the_environment_is_a_persons_and_private(project: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERHAND_RUN", "sess_1_abcdef")
    environment = project.environment()
    assert "OVERHAND_RUN" not in environment
    assert environment["XDG_CONFIG_HOME"] == str(project.config_home)
    assert project.config_home.is_dir()


def alive(pid: int) -> bool:
    return start_time(pid) is not None


def test_cleanup_ends_marked_processes_supervisors_and_strays(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", trust=False)
    task = project.path / ".agent-workspaces/worker-20260102-030405"
    task.mkdir(parents=True)
    marked = {**project.environment(), "OVERHAND_PROJECT": str(project.path), "OVERHAND_WORKSPACE": str(task)}
    script = [sys.executable, "-m", "overhand.testing.agent", "spawn:daemon", "print:up", "hang"]
    watching = [sys.executable, "-c", SUPERVISOR, "overhand.supervisor"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen(script, env=marked, **pipes) as agent,  # type: ignore[call-overload]  # keywords from a dict
        subprocess.Popen([*watching, str(project.path)], **pipes) as supervisor,  # type: ignore[call-overload]  # same
        subprocess.Popen([*watching, str(tmp_path / "q")], **pipes) as other,  # type: ignore[call-overload]  # same
        subprocess.Popen([*SLEEP], stdin=subprocess.DEVNULL) as stranger,
    ):
        assert [one.stdout.readline() for one in (agent, supervisor, other)] == ["up\n"] * 3
        daemon = int((task / "pids").read_text())
        assert alive(daemon)
        project.cleanup()
        assert [alive(pid) for pid in (agent.pid, supervisor.pid, daemon)] == [False, False, False]
        assert alive(stranger.pid), "a process that is not the project's was ended"
        assert alive(other.pid), "another project's supervisor was ended"
        stranger.kill()
        other.kill()
    assert not project.config_home.exists()
