"""A command that is forked does what a started one does."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from overhand.system import machine
from support.scene import until
from support.warm import Project, make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = make_project(tmp_path / "project")
    yield made
    made.cleanup()


def test_the_same_output_and_exit_status(project: Project) -> None:
    project.run("delegate", "Do it", "--wait", check=True)
    for words in (["list"], ["show", "1", "--json"], ["show", "7"], ["--help"], ["nonsense"], ["delegate", "--help"]):
        assert project.run(*words) == project.cold(*words)


def test_environment_and_folder_are_the_project_s(project: Project, tmp_path: Path) -> None:
    other = {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}
    for env in (None, other):
        warm, cold = (run("doctor", "--json", env=env).out for run in (project.run, project.cold))
        assert warm == cold


def test_one_that_takes_too_long_is_killed(project: Project) -> None:
    project.agent("worker", "hang")
    project.run("delegate", "Do it", "--agent", "worker", check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        project.run("wait", "1", timeout=0.2)
    assert project.run("list").code == 0


def test_commands_at_the_same_time(project: Project) -> None:
    project.trust_files()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: project.run("delegate", f"Do {number}", check=True).out, range(8)))
    assert len(set(found)) == 8


def test_its_supervisor_is_one(project: Project) -> None:
    project.agent("worker", "hang")
    project.run("delegate", "Do it", "--agent", "worker", check=True)
    lock = project.record / "supervisor/lock"
    pid = int(lock.read_text().split()[0])
    words = machine.read_proc(pid, "cmdline").rstrip(b"\0").decode().split("\0")
    assert words[1:] == ["-P", "-m", "overhand.supervisor", str(project.path), str(project.record)]
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    until(lambda: machine.parent_of(pid) != os.getpid(), "the command has ended")
    own = [os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)]
    assert own == [os.devnull, *2 * [str(lock.with_name("log"))]]
