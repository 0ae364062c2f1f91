"""Git with everything named: which places it uses, how it fails, and what it keeps open."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.errors import GitFailed
from overhand.system.git import OUR_IDENTITY, Git, find_git

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A repository with one commit, and a caller whose environment names another."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    top = tmp_path / "with a blank"
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    made = Git(f"{top}/.git", str(top), variables=OUR_IDENTITY)
    (top / "a.txt").write_text("one\n")
    made.run("add", "a.txt")
    made.run("commit", "-q", "-m", "one")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    return made


def test_bytes_go_in_and_come_out(git: Git) -> None:
    blob = git.run("hash-object", "-w", "--stdin", given=b"\x00\xff\r\n").decode().strip()
    assert git.run("cat-file", "blob", blob) == b"\x00\xff\r\n"
    assert git.lines("ls-files", "-z") == ["a.txt"]


def test_index_and_work_tree_are_those_that_are_named(git: Git, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/b.txt").write_text("two\n")
    other = git._replace(work_tree=str(tmp_path / "other"), index_file=str(tmp_path / "other.index"))
    other.run("update-index", "--add", "-z", "--stdin", given=b"b.txt\0")
    assert other.lines("ls-files", "-z") == ["b.txt"]
    assert git.lines("ls-files", "-z") == ["a.txt"]


def test_failure_is_told_in_gits_own_words(git: Git) -> None:
    with pytest.raises(GitFailed, match=r"git cat-file failed: fatal: Not a valid object name gone") as failed:
        git.run("cat-file", "-e", "gone")
    assert failed.value.facts["status"] == 128
    assert git.call("diff", "--quiet", "HEAD").status == 0
    assert git.run("rev-parse", "-q", "--verify", "gone", ok=(1,)) == b""


def test_git_that_takes_too_long_is_ended(git: Git, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(GitFailed, match="took more than 0 s") as failed:
        git.run("hash-object", str(pipe), patience=0.05)
    assert failed.value.facts["status"] == 124
    with pytest.raises(GitFailed, match="took more than 0 s"):
        git.pipe("hash-object", str(pipe), into=git, then=("hash-object", "--stdin"), patience=0.05)


def test_objects_go_from_one_repository_into_another(git: Git, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far")], check=True, env=plain)
    far = Git(str(tmp_path / "far"))
    tip = git.run("rev-parse", "HEAD")
    git.pipe("pack-objects", "--revs", "--stdout", given=tip, into=far, then=("index-pack", "--stdin", "--strict"))
    assert far.run("cat-file", "-t", tip.decode().strip()) == b"commit\n"


def test_either_end_of_a_pipe_may_fail(git: Git) -> None:
    pack = ("pack-objects", "--revs", "--stdout")
    with pytest.raises(GitFailed, match=r"git pack-objects failed: .*bad revision 'gone'"):
        git.pipe(*pack, given=b"gone\n", into=git, then=("index-pack", "--stdin"))
    with pytest.raises(GitFailed, match="git index-pack failed: fatal"):
        git.pipe(*pack, given=b"HEAD\n", into=git, then=("index-pack", "--stdin", "--max-input-size=1"))


def test_a_lock_lasts_as_long_as_git(git: Git, tmp_path: Path) -> None:
    """The holder may be killed: git goes on writing, and must not be taken for gone."""
    lock = tmp_path / "lock"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = (
        "import fcntl, os, sys\n"
        "from overhand.system.git import Git\n"
        f"fd = os.open({str(lock)!r}, os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX)\n"
        f"git = Git({git.git_dir!r}, {git.work_tree!r}, lock=fd)\n"
        f"git.run('-c', 'alias.hang=!echo on > {gate}; read x < {gate}', 'hang')\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script])
    with gate.open() as file:
        assert file.read() == "on\n"  # git runs, with the lock
    holder.kill()
    holder.wait()
    fd = os.open(lock, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    gate.write_text("go on\n")
    fcntl.flock(fd, fcntl.LOCK_EX)  # until git is gone
    os.close(fd)


def test_a_repository_is_found_with_its_programs_switched_off(git: Git) -> None:
    found = find_git(git.work_tree)
    assert found is not None
    assert (found.git_dir, found.work_tree) == (git.git_dir, git.work_tree)
    git.run("config", "filter.evil.clean", "touch ran")
    found = find_git(git.work_tree)
    assert found is not None
    assert "filter.evil.clean=" in found.settings
