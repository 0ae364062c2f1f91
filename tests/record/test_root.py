"""Which folder is the project: never one beyond the repository, nor one of another user."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.errors import NotFound
from overhand.record import find_root

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
MALLORY = 1234


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one inside, and a git that has no settings yet."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "SUDO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / "home").mkdir()
    (tmp_path / "shared/mine/sub").mkdir(parents=True)
    return tmp_path / "shared"


def repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


def call_safe(folder: Path | str) -> None:
    subprocess.run(["git", "config", "--global", "--add", "safe.directory", str(folder)], check=True)


def root(folder: Path) -> Path:
    return type(folder)(find_root(str(folder)))


def test_the_nearest_folder_with_settings(shared: Path) -> None:
    sub = shared / "mine/sub"
    assert root(sub) == sub
    (shared / ".overhand").mkdir()
    assert root(sub) == shared
    (shared / "mine/.overhand").mkdir()
    assert root(sub) == shared / "mine"
    (sub / ".overhand").mkdir()
    assert root(sub) == sub


def test_not_beyond_the_top_of_the_repository(shared: Path) -> None:
    (shared / ".overhand").mkdir()
    repository(shared / "mine")
    assert root(shared / "mine/sub") == shared / "mine"
    (shared / "mine/sub/.overhand").mkdir()
    assert root(shared / "mine/sub") == shared / "mine/sub"


def test_a_linked_worktree_has_a_top_of_its_own(shared: Path) -> None:
    repository(shared)
    who = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=shared, check=True)
    subprocess.run(["git", "worktree", "add", "-q", "mine/tree"], cwd=shared, check=True)
    (shared / "mine/tree/sub").mkdir()
    assert root(shared / "mine/tree/sub") == shared / "mine/tree"


def test_workspaces_alone_make_no_project_of_a_folder_above(shared: Path) -> None:
    (shared / ".agent-workspaces").mkdir()
    assert root(shared / "mine/sub") == shared / "mine/sub"
    assert root(shared) == shared


def test_an_embedded_bare_repository_is_no_top(shared: Path) -> None:
    repository(shared)
    subprocess.run(["git", "init", "-q", "--bare", str(shared / "mine")], check=True)
    assert root(shared / "mine/sub") == shared


def test_the_folder_that_was_given(shared: Path) -> None:
    (shared / ".overhand").mkdir()
    os.symlink(shared / "mine", shared / "link")
    assert find_root("/", given=str(shared / "link")) == str(shared / "mine")
    with pytest.raises(NotFound, match="There is no folder"):
        find_root("/", given=str(shared / "gone"))


@ROOT
@pytest.mark.parametrize("mark", [".overhand", ".git"])
@pytest.mark.parametrize("whose", ["folder", "mark"])
def test_a_folder_of_another_user_counts_only_if_it_is_called_safe(shared: Path, mark: str, whose: str) -> None:
    mine, sub = shared / "mine", shared / "mine/sub"
    if mark == ".git":
        repository(shared)
    else:
        (shared / ".overhand").mkdir()
    os.chown(shared if whose == "folder" else shared / mark, MALLORY, MALLORY)
    assert root(sub) == sub
    assert root(shared) == shared  # this folder itself: the user went there
    call_safe(mine)
    assert root(sub) == sub
    call_safe(shared)
    assert root(sub) == shared
    call_safe("")
    assert root(sub) == sub
    call_safe("*")
    assert root(sub) == shared


@ROOT
def test_the_user_who_called_sudo_is_no_stranger(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / ".overhand").mkdir()
    for path in (shared, shared / ".overhand"):
        os.chown(path, MALLORY, MALLORY)
    assert root(shared / "mine") == shared / "mine"
    monkeypatch.setenv("SUDO_UID", str(MALLORY))
    assert root(shared / "mine") == shared


@ROOT
def test_workspaces_of_another_user_above_are_not_met(shared: Path) -> None:
    """Mallory waits in a folder that everybody can write to, beside a repository."""
    for name in (".agent-workspaces", ".overhand"):
        (shared / name).mkdir()
        os.chown(shared / name, MALLORY, MALLORY)
    shared.chmod(0o1777)
    repository(shared / "mine")
    (shared / "other").mkdir()
    assert root(shared / "mine/sub") == shared / "mine"
    assert root(shared / "other") == shared / "other"


def test_init_means_this_folder(overhand_project: ProjectDir) -> None:
    inner = overhand_project.path / "inner"
    inner.mkdir()
    env, none = overhand_project.environment(), subprocess.DEVNULL
    subprocess.run([sys.executable, "-m", "overhand", "init", "--json"], cwd=inner, env=env, check=True, stdout=none)
    assert (inner / ".overhand/config.toml").exists()
