"""`doctor` names what is wrong, in a real project with real dead and living processes, and changes nothing unasked."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.record import Store
from overhand.system import lives
from overhand.verbs import Session, doctor
from overhand.verbs import doctor as doctors
from support.scene import kill, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "project", {"worker": ("output",), "sleeper": ("hang",)}, git=True)
    project.run("init", check=True)
    yield project
    project.cleanup()


def findings(desk: ProjectDir, **env: str) -> dict[str, dict[str, Any]]:
    ran = desk.run("doctor", "--json", env=env)
    assert ran.code == (1 if ran.json["problems"] else 0)
    for one in ran.json["findings"]:
        assert one["what"], one
        assert one["why"], one
        assert one["next"], one
        assert not {"rm", "reset", "kill -9", "prune", "checkout"} & set(one["next"].split()), one
    return {one["code"]: one for one in ran.json["findings"]}


def bare(tmp_path: Path, *names: str) -> str:
    """A PATH with only these programs."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return str(folder)


def test_every_finding_has_a_code_that_is_explained() -> None:
    source = Path(doctor.__file__).read_text()
    found = set(re.findall(r'Finding\(\s*"([a-z-]+)"', source))
    assert found == {code for code in doctor.CODES if code.removeprefix("no-") not in doctor.TOOLS}


def test_a_fresh_project_is_well(desk: ProjectDir, tmp_path: Path) -> None:
    assert set(findings(desk, PATH=bare(tmp_path, "git"))) <= {"no-rg", "no-tmux"}
    assert "no-git" in findings(desk, PATH=str(tmp_path))


def test_a_killed_run_is_found_and_mended_on_a_terminal(desk: ProjectDir) -> None:
    task = desk.run("delegate", "Sleep", "--agent", "sleeper", "--json", check=True).json
    place = live_place(desk, task["task_id"])
    kill(desk.run("doctor", "--json").json["supervisor"])
    kill_run(place)
    found = findings(desk)
    assert found["dead-run"]["task"] == task["task_id"]
    assert found["dead-run"]["fix"] == "settle"
    assert found["no-supervisor"]["fix"] == "supervise"
    assert Store(str(desk.path)).task(task["task_id"]).status is None, "looking must change nothing"
    refused = desk.run("doctor", "--fix")
    assert (refused.code, "asks before" in refused.err) == (3, True)
    assert "mended" in on_terminal(desk, "y\n" * 9)
    assert "dead-run" not in findings(desk)
    desk.run("wait", "1", check=False)
    assert desk.run("show", "1", "--json").json["status"] == "failed"


def test_what_the_supervisor_has_not_come_to_is_not_mended(desk: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.config_home))
    task = desk.run("delegate", "Sleep", "--agent", "sleeper", "--json", check=True).json["task_id"]
    place = live_place(desk, task)
    session = Session(str(desk.path), confirm=lambda _: True)
    with session.store.lock(task, {"kind": "person", "via": "test"}), monkeypatch.context() as hasty:
        hasty.setattr(doctors, "_PATIENCE", 0.1)
        kill_run(place)
        told = doctors.doctor(session, fix=True).payload
    assert told["fixed"] == []
    assert "has not come to it" in told["failed"][0]
    told = doctors.doctor(session, fix=True).payload
    assert "dead-run" not in {one["code"] for one in told["findings"]}


def test_no_is_no(desk: ProjectDir) -> None:
    (desk.path / ".agent-workspaces/.gitignore").unlink()
    assert findings(desk)["not-ignored"]["fix"] == "ignore"
    assert "mended" not in on_terminal(desk, "n\n")
    assert "not-ignored" in findings(desk)
    assert "mended" in on_terminal(desk, "y\n")
    assert "not-ignored" not in findings(desk)


def test_processes_that_outlived_their_run_are_named(desk: ProjectDir) -> None:
    desk.agent("messy", "spawn:setsid", "output")
    desk.run("delegate", "Leave something", "--agent", "messy", "--wait")
    found = findings(desk)["leftovers"]
    assert found["next"] == "overhand stop 1"
    desk.run("stop", "1", check=True)
    assert "leftovers" not in findings(desk)


def test_settings_agents_and_trust(desk: ProjectDir) -> None:
    desk.agent("broken", driver="telephone")
    found = findings(desk)
    assert "telephone" in found["agent"]["what"]
    desk.trust = False
    desk.config("limits = 3\n")
    found = findings(desk)
    assert "limits must be a table" in found["settings"]["what"]
    assert found["untrusted"]["next"] == "overhand trust"


def test_broken_tasks_stray_files_and_worktrees(desk: ProjectDir) -> None:
    folder = desk.task_record("worker-20261115-191500")
    folder.mkdir()
    old = folder / "OUTPUT.md.1-a.tmp"
    old.write_text("half")
    os.utime(old, (1, 1))
    where = desk.path / ".agent-workspaces/gone-20261115-191500/tree"
    subprocess.run(["git", "worktree", "add", "-q", "-b", "lost", str(where)], cwd=desk.path, check=True)
    found = findings(desk)
    assert "worker-20261115-191500" in found["unreadable"]["what"]
    assert "Temporary files of killed writers: 1, such as" in found["stray-files"]["what"]
    assert found["orphan-worktree"]["what"].endswith("gone-20261115-191500/tree belongs to no task.")
    assert old.exists()
    assert where.exists()


def test_locks_are_tried_on_the_real_folder(tmp_path: Path) -> None:
    assert doctor.broken_locks(str(tmp_path)) == ""
    assert list(tmp_path.iterdir()) == []
    assert "No such file" in doctor.broken_locks(f"{tmp_path}/nowhere")


def test_the_size_of_the_workspaces(tmp_path: Path) -> None:
    session = Session(str(tmp_path))
    session.store.ensure()
    with (tmp_path / ".agent-workspaces/big").open("wb") as file:
        file.truncate(2_000_000_000)
    (large,) = (one for one in doctor.leftover_files(session, set()) if one.code == "large")
    assert large.what.startswith("The tasks of this project take 2.0 GB")


def test_claims_that_nobody_stands_behind(desk: ProjectDir) -> None:
    (desk.path / "notes.md").write_text(
        "# Notes\n\n- mend it #claimed-fix\n- and that #claimed-fix <!--overhand:worker-20200101-000000-->\n"
    )
    found = findings(desk)
    assert found["unrecorded-claim"]["next"] == "overhand item needs notes.md:3#fix"
    assert "worker-20200101-000000, which is not here" in found["stale-claim"]["what"]


def live_place(desk: ProjectDir, task_id: str) -> Path:
    """The folder of a task's run, once the agent has begun."""
    runs = desk.task_record(task_id) / "runs"

    def look() -> list[Path]:
        begun = [place for place in runs.glob("sess_*") if (place / "pid").exists()]
        return [place for place in begun if (place / "pid").read_text().endswith("\n")]

    return until(look, "the run begun")[0]


def kill_run(place: Path) -> None:
    """End the shim and its agent, so that nobody can say how it ended."""
    for name in ("shim", "pid"):
        os.kill(int((place / name).read_text()), signal.SIGKILL)
    until(lambda: not lives(str(place)), "the end of the run")


def on_terminal(desk: ProjectDir, typed: str) -> str:
    """`doctor --fix` at a real terminal, answered with what is typed."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "overhand", "doctor", "--fix"]
    env = {**desk.environment(), "TERM": "dumb"}
    child = subprocess.Popen(argv, cwd=desk.path, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed.encode())
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:
        pass  # the terminal is closed when the program ends
    finally:
        os.close(ours)
        child.wait(60)
    return said.decode(errors="replace")
