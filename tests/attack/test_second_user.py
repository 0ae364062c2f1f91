"""Two users of one machine on one checkout: each has tasks of their own, and neither reads or stops the other's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.testing import processes
from overhand.testing.project import Ran
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = sysconfig.get_paths()["purelib"]
ALICE, BOB = 12345, 12346
AGENT = "---\nname: {name}\ndescription: x\noverhand: {{driver: command, command: {command}}}\n---\nWork.\n"
HOLDER = """\
import fcntl, os, sys
held = []
for base, folders, names in os.walk(sys.argv[1]):
    for name in (*folders, *names):
        try:
            held.append(os.open(os.path.join(base, name), os.O_RDONLY | os.O_NONBLOCK))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
print("held", len(held), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class User:
    """One who types in the shared checkout, with a home folder of their own."""

    uid: int
    home: Path
    checkout: Path
    python: str

    @property
    def options(self) -> dict[str, Any]:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCE}:{PACKAGES}"}
        own: dict[str, Any] = {"user": self.uid, "group": self.uid, "extra_groups": []}
        return {"cwd": self.checkout, "env": env, **own}

    def type(self, *words: str) -> Ran:
        argv = [self.python, "-P", "-m", "overhand", *words]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90, **self.options)
        assert "Traceback" not in ran.stderr + ran.stdout
        assert "mistake in Overhand" not in ran.stderr + ran.stdout, ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def json(self, *words: str, code: int = 0) -> Any:
        ran = self.type(*words, "--json")
        assert ran.code == code, (words, ran)
        return ran.json

    def tasks(self) -> list[str]:
        return [row["task_id"] for row in self.json("list")["tasks"]]


@pytest.fixture
def users() -> Iterator[tuple[User, User]]:
    """Alice's checkout, in which everybody may write."""
    if os.geteuid() != 0:
        pytest.skip("only root can become two other users")
    with tempfile.TemporaryDirectory(prefix="overhand-users-", dir="/tmp") as folder:
        base = Path(folder)
        base.chmod(0o755)
        checkout = base / "checkout"
        checkout.mkdir()
        checkout.chmod(0o777)
        os.chown(checkout, ALICE, ALICE)
        made = []
        for uid in (ALICE, BOB):
            home = base / f"home-{uid}"
            agents = home / ".config/overhand/agents"
            agents.mkdir(parents=True)
            (home / ".config/overhand/config.toml").write_text('default_agent = "mine"\n')
            for name, script in (("mine", QUICK), ("long", f"until [ -e {home}/over ]; do sleep 0.05; done; {QUICK}")):
                (agents / f"{name}.md").write_text(
                    AGENT.format(name=name, command=json.dumps(["/bin/sh", "-c", script]))
                )
            for path in (home, *home.rglob("*")):
                os.chown(path, uid, uid)
            made.append(User(uid, home, checkout, _python(uid)))
        alice, bob = made
        try:
            yield alice, bob
        finally:
            for one in made:
                (one.home / "over").touch()
            processes.end_all(checkout)


def _python(uid: int) -> str:
    """An interpreter that another user can run with this project's packages."""
    env = {"PYTHONPATH": f"{SOURCE}:{PACKAGES}"}
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        argv = [python, "-c", "import sys, overhand.cli, yaml, pathspec; sys.exit(sys.version_info < (3, 11))"]
        try:
            ran = subprocess.run(argv, env=env, capture_output=True, check=False, user=uid, group=uid, extra_groups=[])
        except OSError:
            continue
        if ran.returncode == 0:
            return python
    pytest.skip("no Python with this project's packages that another user than root can run")


def test_each_has_tasks_of_their_own(users: tuple[User, User], tally: Callable[[str, int], None]) -> None:
    alice, bob = users
    done = alice.json("delegate", "Alice's secret plan", "--wait")["task_id"]
    (alice.checkout / ".agent-workspaces").chmod(0o777)
    alive = alice.json("delegate", "Alice's work", "--agent", "long")["task_id"]
    tally("A second local user", 10)
    assert bob.tasks() == []
    assert "secret" not in bob.type("list", "--prepared").out
    for task in (done, alive):
        for words in (("show", task), ("stop", task), ("answer", task, "x"), ("run", task), ("log", task)):
            ran = bob.type(*words)
            assert ran.code in (3, 4), (words, ran)
            assert "secret" not in ran.out + ran.err
    assert bob.json("stop", "--all")["tasks"] == []
    assert bob.json("clean", "--yes", "--older", "0s")["removed"] == []
    assert alice.json("show", alive)["run_state"] == "running"
    assert bob.json("delegate", "Bob's own", code=3)["error"]["code"] == "NOT_TRUSTED", "Alice's settings"
    bob.json("trust", "--yes")
    own = bob.json("delegate", "Bob's own", "--wait")
    assert (own["status"], own["handle"], bob.tasks()) == ("completed", 1, [own["task_id"]])
    (alice.home / "over").touch()
    assert alice.json("wait", alive)["status"] == "completed"
    assert sorted(alice.tasks()) == sorted([done, alive])


def test_nothing_of_a_record_or_workspace_is_readable_for_another(users: tuple[User, User]) -> None:
    alice, _ = users
    task = alice.json("delegate", "Alice's secret plan", "--wait")["task_id"]
    state = alice.home / ".local/state/overhand"
    for folder in (state, state / "projects", alice.checkout / ".agent-workspaces" / task):
        assert folder.stat().st_mode & 0o077 == 0, folder


def test_workspaces_of_another_that_cannot_be_written_are_named(users: tuple[User, User]) -> None:
    alice, bob = users
    alice.json("delegate", "Alice's", "--wait")
    (alice.checkout / ".agent-workspaces").chmod(0o755)
    bob.json("trust", "--yes")
    error = bob.json("delegate", "Bob's", code=3)["error"]
    assert ".agent-workspaces" in error["message"], error
    assert bob.tasks() == []


def test_locks_that_another_holds_block_nothing(users: tuple[User, User], tally: Callable[[str, int], None]) -> None:
    alice, bob = users
    tally("A second local user", 1)
    alice.json("delegate", "First", "--wait")
    argv = [bob.python, "-c", HOLDER, str(alice.checkout.parent)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **bob.options) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().startswith("held ")
        assert alice.json("delegate", "Second", "--wait")["status"] == "completed"
        holder.communicate("")


@pytest.mark.parametrize("what", ["links", "folders", "a project of their own"])
def test_what_another_puts_there_is_not_followed(
    users: tuple[User, User], what: str, tally: Callable[[str, int], None]
) -> None:
    """Bob owns the folder of the workspaces, because he was there first."""
    alice, bob = users
    tally("A second local user", 1)
    (alice.home / "precious").write_text("mine\n")
    spaces = alice.checkout / ".agent-workspaces"
    spaces.mkdir()
    for name in (".gitignore", ".project", "DECISIONS.md", f".project-{ALICE}.new") if what == "links" else ():
        (spaces / name).symlink_to(alice.home / "precious")
    if what == "folders":
        folder = spaces / "mine-20260101-000000"
        folder.mkdir()
        (folder / "HANDOFF.md").write_text("# Task Handoff\n\n## Task\nBob's text\n")
        (folder / "ipc").symlink_to(alice.home)
    for path in (spaces, *spaces.rglob("*")):
        os.lchown(path, BOB, BOB)
    spaces.chmod(0o777)
    if what == "a project of their own":
        bob.json("delegate", "Bob's", "--wait")
        error = alice.json("delegate", "Alice's", code=2)["error"]
        assert "another user's" in error["message"], "Bob's settings in her checkout"
        shutil.rmtree(alice.checkout / ".overhand")
    own = alice.json("delegate", "Alice's", "--wait")
    assert (own["status"], alice.tasks()) == ("completed", [own["task_id"]])
    assert (alice.home / "precious").read_text() == "mine\n"
    assert alice.type("doctor").code in (0, 1)
    until(lambda: not (alice.home / "ipc").exists(), "nothing below the home folder")
    rows = alice.json("list", "--prepared")["tasks"]
    assert all(row["status"] is None for row in rows)
