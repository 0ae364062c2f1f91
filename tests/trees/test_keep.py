"""A tree goes only when its files are kept, comes back with them, and leaves nothing when its task is over."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.errors import GitFailed, NotFound, Refused
from overhand.trees.keep import empty_trash, keep_part, release_tree, remove_tree, restore_tree
from overhand.trees.part import take_part
from overhand.trees.place import tree_path, trees_root
from overhand.trees.tree import has_tree, load_tree
from support import trees_step
from support.trees import Picture, files_of

if TYPE_CHECKING:
    from support.trees import Ground


def test_every_kept_state_has_a_number(ground: Ground) -> None:
    ground.begin()
    tree = ground.tree()
    commits = []
    for number in (1, 2, 2):
        ground.write("mine.txt", f"{number}\n", below=tree.path)
        commits.append(keep_part(tree.ours).commit)
    assert tree.kept() == {1: commits[0], 2: commits[1]}
    assert commits[1] == commits[2] == tree.last


def test_a_tree_can_be_removed_and_come_back_many_times(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    for number in range(3):
        ground.write(f"{number}.txt", f"{number}\n", below=tree.path)
        if number == 1:
            ground.commit("one", cwd=tree.path)
        had = files_of(tree.path)
        removed = remove_tree(tree.ours)
        assert Path(removed.trash).is_dir()
        assert not removed.is_kept
        assert remove_tree(tree.ours).commit == removed.commit
        assert restore_tree(tree.ours) == restore_tree(tree.ours) == load_tree(tree.ours)
        assert files_of(tree.path) == had
    assert ground.git("log", "-1", "--format=%s", cwd=tree.path) == "one"
    assert "2.txt" in ground.git("status", "--porcelain", cwd=tree.path)
    assert empty_trash(os.path.dirname(tree.path)) == 3
    assert os.listdir(f"{os.path.dirname(tree.path)}/.trash") == []


def test_the_trash_is_emptied_of_what_an_agent_locked(ground: Ground) -> None:
    ground.begin()
    tree = ground.tree()
    ground.write("deep/er/file.log", below=tree.path).chmod(0)
    Path(tree.path, "deep/er").chmod(0o500)
    Path(tree.path, "deep").chmod(0o500)
    removed = remove_tree(tree.ours)
    assert empty_trash(os.path.dirname(tree.path)) == 1
    assert not os.path.lexists(removed.trash)


def test_a_released_task_leaves_nothing(ground: Ground) -> None:
    ground.begin_fully()
    before = Picture(ground.home)
    tree = ground.tree()
    ground.git("init", "-q", "embedded", cwd=tree.path)
    ground.write("embedded/x", below=tree.path)
    ground.commit(cwd=Path(tree.path, "embedded"))
    with pytest.raises(Refused, match="still there"):
        release_tree(tree.ours)
    removed = remove_tree(tree.ours)
    assert removed.is_kept
    assert empty_trash(os.path.dirname(tree.path)) == 0
    release_tree(tree.ours)
    release_tree(tree.ours)
    assert not has_tree(tree.ours)
    assert not os.path.lexists(removed.trash)
    assert ground.git("for-each-ref", "refs/overhand") == ""
    assert set(before.changes().values()) <= {"new"}  # the empty folder of refs
    with pytest.raises(NotFound):
        load_tree(tree.ours)


def test_a_ref_that_the_user_packed_is_deleted_by_git(ground: Ground) -> None:
    ground.begin()
    tree = ground.tree()
    remove_tree(tree.ours)
    ground.git("pack-refs", "--all")
    lock = ground.write(".git/packed-refs.lock", "")
    with pytest.raises(GitFailed, match=r"packed-refs\.lock"):
        release_tree(tree.ours)
    assert lock.exists()  # it may be of another git
    lock.unlink()
    lock.touch()  # as the killed git of ours would have left it
    release_tree(tree.ours)
    assert not lock.exists()
    assert ground.git("for-each-ref", "refs/overhand") == ""


def test_twenty_trees_at_once_while_the_user_works(ground: Ground) -> None:
    """Plain `git worktree add` fails for most of them, for they share locks."""
    ground.begin_fully()
    ground.make_dirty()

    def create(number: int) -> subprocess.CompletedProcess[str]:
        request = ground.request(number)
        words = [sys.executable, trees_step.__file__, "create", str(ground.top), request.ours, request.path]
        return subprocess.run(words, env={**os.environ}, capture_output=True, text=True, check=False)

    def use() -> None:
        for number in range(3):
            ground.git("fetch", "-q", "origin")
            ground.git("update-ref", f"refs/heads/side-{number}", "HEAD")
            ground.git("pack-refs", "--all")
            ground.git("gc", "-q", "--prune=now")

    with ThreadPoolExecutor(21) as pool:
        users = pool.submit(use)
        done = list(pool.map(create, range(1, 21)))
        users.result()
    assert [one.stderr for one in done] == [""] * 20
    wanted = {name: data for name, data in files_of(ground.top).items() if not name.endswith((".log", ".env"))}
    for number in range(1, 21):
        tree = load_tree(ground.request(number).ours)
        assert files_of(tree.path) == wanted
        assert take_part(tree.ours).written == tree.base_tree
        ground.git("fsck", "--connectivity-only", cwd=tree.path)


def test_where_trees_lie(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERHAND_STATE", "/state")
    assert trees_root() == "/state/trees"
    assert trees_root("~/trees/") == f"{ground.home}/trees"
    with pytest.raises(Refused, match="no absolute path"):
        trees_root("trees")
    path = tree_path("/state/trees", "/home/me/My Project", "12", "Fix: the Login/ü page!")
    assert path.startswith("/state/trees/my-project-")
    assert path.endswith("/12-fix-the-login-ü-page")
    assert path != tree_path("/state/trees", "/home/you/My Project", "12", "Fix: the Login/ü page!")
