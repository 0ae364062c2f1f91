"""Landing on a branch that is checked out nowhere, in another task's tree, across disks, and without renameat2."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from overhand.errors import GitFailed, Refused
from overhand.system import Renames
from overhand.trees.land import Landing, land_on_branch, land_work
from overhand.trees.merge import merge_trees
from overhand.trees.overlap import Overlap
from trees.ground import Ground, Link, put, seen

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.trees.land import Landed
    from trees.ground import Content

FILES: dict[str, Content] = {
    "a.txt": "a\n",
    "gone.txt": "g\n",
    "dir/x.txt": "x\n",
    "link": Link("a.txt"),
    "b.txt": "b\n",
}
WORK: dict[str, Content] = {
    "a.txt": "A\n",
    "gone.txt": None,
    "dir/x.txt": "X\n",
    "dir/new.txt": "n\n",
    "link": Link("b.txt"),
}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.make(tmp_path / "ground", FILES)
    ground.work(WORK)
    return ground


# branches


def land_on(ground: Ground, name: str, old: str) -> Landed:
    return land_on_branch(ground.checkout, ground.our_git, f"refs/heads/{name}", old, ground.make_commit().commit)


def test_a_new_branch(ground: Ground) -> None:
    put(ground.top, {"b.txt": "edited\n"})
    before = {**ground.state(), "refs": ""}
    start, commit = ground.git("rev-parse", "HEAD"), ground.make_commit().commit
    landed = land_on_branch(ground.checkout, ground.our_git, "refs/heads/topic/one", "", commit, start=start)
    assert {**ground.state(), "refs": ""} == before
    assert ground.git("rev-parse", "topic/one") == landed.new
    assert ground.git("rev-parse", "topic/one^") == before["head"]
    assert ground.left() == []
    (pack,) = (ground.top / ".git/objects/pack").glob("*.idx")
    packed = ground.git("verify-pack", "-v", str(pack))
    assert landed.new in packed
    assert start not in packed
    ground.git(*landed.undo.split()[1:])
    assert "topic" not in ground.git("for-each-ref")


def test_a_branch_that_is_not_checked_out(ground: Ground) -> None:
    ground.git("branch", "side")
    old = ground.git("rev-parse", "side")
    landed = land_on(ground, "side", old)
    assert ground.git("rev-parse", "side") == landed.new
    assert ground.git("log", "-g", "-1", "--format=%gs", "side") == "overhand merge"
    ground.git(*landed.undo.split()[1:])
    assert ground.git("rev-parse", "side") == old


def test_a_branch_that_moved_or_exists_by_now(ground: Ground) -> None:
    ground.git("branch", "side")
    old = ground.git("rev-parse", "side")
    tree = ground.git("rev-parse", "HEAD^{tree}")
    ground.git("update-ref", "refs/heads/side", ground.git("commit-tree", "-p", "HEAD", "-m", "moved", tree))
    refs = ground.git("for-each-ref")
    for before in (old, ""):
        with pytest.raises(Refused) as refused:
            land_on(ground, "side", before)
        assert refused.value.facts["moved"] is True
    with pytest.raises(GitFailed):
        land_on(ground, "side/below", "")
    assert ground.git("for-each-ref") == refs
    assert ground.left() == []


def test_a_branch_that_is_checked_out_somewhere(ground: Ground, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    ground.git("worktree", "add", "-q", "-b", "side", str(linked))
    with pytest.raises(Refused, match=f"side is checked out in {linked}"):
        land_on(ground, "side", ground.git("rev-parse", "side"))
    with pytest.raises(Refused, match=f"main is checked out in {ground.top}"):
        land_on(ground, "main", ground.git("rev-parse", "main"))


def test_a_branch_that_is_being_rebased(ground: Ground) -> None:
    ground.git("checkout", "-q", "-b", "side")
    put(ground.top, {"b.txt": "side\n"})
    ground.commit("side")
    ground.git("checkout", "-q", "main")
    put(ground.top, {"b.txt": "main\n"})
    ground.commit("main")
    ground.git("rebase", "main", "side", check=False)
    assert (ground.top / ".git/rebase-merge").exists()
    with pytest.raises(Refused, match="side is checked out in"):
        land_on(ground, "side", ground.git("rev-parse", "side"))


# another task's tree


class Parent:
    """A parent's tree: files of an agent's, our git dir of that task, and an index that knows the files."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.top, self.index = ground.folder / "parent", ground.folder / "parent.index"
        self.top.mkdir()
        self.git = ground.our_git._replace(work_tree=str(self.top), index_file=str(self.index))
        self.git.run("read-tree", "--reset", "-u", ground.base)

    def tree(self) -> str:
        """The files as they stand."""
        known = {*seen(self.top), *self.git.lines("ls-files", "-z")}
        paths = "".join(f"{path}\0" for path in sorted(known)).encode()
        self.git.run("update-index", "--add", "--remove", "-z", "--stdin", given=paths)
        return self.git.run("write-tree").decode().strip()

    def landing(self) -> Landing:
        old = self.tree()
        merged = merge_trees(self.ground.our_git, self.ground.base, old, (self.ground.folder / "W").read_text())
        assert not merged.conflicts
        folder = str(self.ground.folder / "landings")
        return Landing("child", self.git, self.ground.our_git, folder, None, old, merged.tree)


def test_a_childs_work_arrives_in_its_parents_tree(ground: Ground) -> None:
    """Files only: the parent's git dir is its agent's own."""
    parent = Parent(ground)
    put(parent.top, {"b.txt": "the parent's\n", "mine.txt": "new\n", ".git/config": "[core]\n\tfsmonitor = false\n"})
    mine = (parent.top / ".git/config").read_bytes()
    landed = land_work(parent.landing())
    assert (landed.undo, landed.late) == ("", ())
    assert seen(parent.top) == {
        "a.txt": (0o100000, "A\n"),
        "b.txt": (0o100000, "the parent's\n"),
        "dir/new.txt": (0o100000, "n\n"),
        "dir/x.txt": (0o100000, "X\n"),
        "link": (0o120111, "b.txt"),
        "mine.txt": (0o100000, "new\n"),
    }
    assert (parent.top / ".git/config").read_bytes() == mine
    assert os.listdir(ground.folder / "landings") == ["lock"]
    assert parent.tree() == landed.new


def test_the_parents_agent_writes_meanwhile(ground: Ground) -> None:
    parent = Parent(ground)
    landing = parent.landing()
    put(parent.top, {"a.txt": "written since\n"})
    before = seen(parent.top)
    with pytest.raises(Refused) as refused:
        land_work(landing)
    assert refused.value.facts["paths"] == {"a.txt": "has uncommitted changes"}
    assert seen(parent.top) == before


def test_a_folder_that_the_agent_replaced_with_a_link_is_not_followed(ground: Ground) -> None:
    parent = Parent(ground)
    landing = parent.landing()
    outside = ground.folder / "outside"
    outside.mkdir()
    os.rename(parent.top / "dir/x.txt", outside / "x.txt")
    (parent.top / "dir").rmdir()
    (parent.top / "dir").symlink_to(outside)
    with pytest.raises(Refused) as refused:
        land_work(landing)
    assert sorted(refused.value.facts["paths"]) == ["dir/new.txt", "dir/x.txt"]  # type: ignore[call-overload]
    assert os.listdir(outside) == ["x.txt"]
    assert (outside / "x.txt").read_text() == "x\n"


# without what Linux has


@pytest.mark.parametrize("crash", [False, True])
def test_without_renameat2(ground: Ground, monkeypatch: pytest.MonkeyPatch, *, crash: bool) -> None:
    """Names are exchanged in three calls; a landing that is cut off between them is completed."""
    start = Renames.__init__

    def without(self: Renames) -> None:
        start(self)
        self._call = None

    monkeypatch.setattr(Renames, "__init__", without)
    before = ground.state()
    if crash:
        rename, left = os.rename, [2]

        def cut_off(old: str, new: str, **options: int | None) -> None:
            if str(old).endswith(".old"):
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt
            rename(old, new, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", cut_off)
            with pytest.raises(KeyboardInterrupt):
                ground.land()
        assert [one.landed for one in ground.recover()] == [True]
    else:
        ground.land()
    assert ground.git("status", "--porcelain") == ""
    assert ground.git("rev-parse", "HEAD^") == before["head"]
    assert ground.files()["a.txt"] == (0o100000, "A\n")
    assert ground.left() == []


def test_a_checkout_on_two_disks(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder is mounted, its new files wait beside the old ones."""
    here = Overlap.disk_of
    monkeypatch.setattr(Overlap, "disk_of", lambda self, path: here(self, path) + path.startswith("dir/"))
    put(ground.top, {"b.txt": "edited\n"})
    ground.land()
    assert ground.git("status", "--porcelain") == "M b.txt"
    assert sorted(os.listdir(ground.top / "dir")) == ["new.txt", "x.txt"]
    assert (ground.top / "dir/x.txt").read_text() == "X\n"
    ground.git("reset", "-q", "--keep", "HEAD^")
    put(ground.top, {"dir/new.txt": "mine\n"})
    with pytest.raises(Refused):
        ground.land()
    assert sorted(os.listdir(ground.top / "dir")) == ["new.txt", "x.txt"]


def test_a_landing_folder_on_another_disk_than_the_checkout(ground: Ground) -> None:
    """Not what a caller should give, but it works."""
    other = "/dev/shm"
    if not os.path.isdir(other) or os.stat(other).st_dev == os.stat(ground.top).st_dev:
        pytest.skip("there is no second disk here")
    folder = f"{other}/overhand-landing-{os.getpid()}"
    try:
        land_work(replace(ground.landing(), folder=folder))
        assert ground.git("status", "--porcelain") == ""
        assert os.listdir(folder) == ["lock"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
