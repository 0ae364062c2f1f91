"""The fixture as a user's own suite has it: the real command, real agents, and nothing left alive."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from overhand.testing import processes

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir

SUITE = """
def test_mine(overhand_project):
    overhand_project.agent("liar", "claim:phantom.txt")
    good = overhand_project.run("delegate", "Do it", "--wait", "--json", "--agent", "worker", check=True)
    assert good.json["status"] == "completed"
    bad = overhand_project.run("delegate", "Do it", "--wait", "--json", "--agent", "liar")
    assert bad.code == 1
    assert bad.json["status"] == "failed"
"""


def test_a_delegation_to_a_scripted_agent(overhand_project: ProjectDir) -> None:
    done = overhand_project.run("delegate", "Do it", "--agent", "worker", "--wait", "--json", check=True)
    assert done.json["status"] == "completed"
    assert done.json["summary"] == "Did the scripted work."


def test_a_changed_agent_is_trusted_again(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Do it", "--agent", "worker", "--wait", check=True)
    overhand_project.agent("worker", "output:status=blocked,summary=No key")
    again = overhand_project.run("delegate", "Do it", "--agent", "worker", "--wait", "--json")
    assert (again.code, again.json["status"], again.json["summary"]) == (1, "blocked", "No key")


def test_cleanup_ends_a_real_run_with_its_supervisor_and_strays(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "ignore-term", "spawn:daemon", "touch:up", "hang")
    overhand_project.run("delegate", "Hang", "--agent", "worker", check=True)
    with subprocess.Popen([sys.executable, "-m", "overhand.testing.agent", "until:up"], cwd=overhand_project.path):
        pass  # ends when the agent is up
    living = processes.of_project(overhand_project.path)
    assert len(living) >= 3, "the supervisor, the agent and its daemon"
    overhand_project.cleanup()
    assert processes.of_project(overhand_project.path) == {}


def test_cleanup_ends_a_supervisor_that_has_no_lock_yet(overhand_project: ProjectDir) -> None:
    argv = [sys.executable, "-P", "-m", "overhand.supervisor", str(overhand_project.path)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as starting:
        starting.send_signal(signal.SIGSTOP)  # long before it could take the lock
        assert starting.pid in processes.of_project(overhand_project.path)
        overhand_project.cleanup()
    assert starting.returncode == -signal.SIGKILL


def test_a_users_suite_needs_only_the_installed_package(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
