"""Landing in the user's checkout: what arrives, and what stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trees.ground import Ground, Link, Program

if TYPE_CHECKING:
    from pathlib import Path

    from trees.ground import Content

FILES: dict[str, Content] = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "b\n",
    "gone.txt": "gone\n",
    "dir/x.txt": "x\n",
    "dir/deep/y.txt": "y\n",
    "run.sh": "#!/bin/sh\n",
    "link": Link("a.txt"),
    "other.txt": "the user's\n",
    "staged.txt": "s\n",
}
WORK: dict[str, Content] = {
    "a.txt": "one\nTWO\nthree\n",
    "gone.txt": None,
    "dir/deep/y.txt": None,
    "new/n.txt": "new\n",
    "run.sh": Program("#!/bin/sh\n"),
    "link": Link("b.txt"),
    "ünï côde.txt": "ü\n",
}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.make(tmp_path / "ground", FILES)


def test_what_the_agent_did_arrives_and_nothing_else_changes(ground: Ground) -> None:
    ground.work(WORK)
    (ground.top / "other.txt").write_text("edited, not staged\n")
    (ground.top / "staged.txt").write_text("edited and staged\n")
    ground.git("add", "staged.txt")
    (ground.top / "untracked.txt").write_text("untracked\n")
    (ground.top / "x.ignored").write_text("ignored\n")
    before = ground.state()
    landed = ground.land()
    after = ground.state()
    assert after["head"] == landed.new
    assert ground.git("rev-parse", "HEAD^@") == before["head"]
    assert after["status"] == before["status"]
    expected = dict(before["files"])  # type: ignore[call-overload]
    for path in ("gone.txt", "dir/deep/y.txt"):
        del expected[path]
    expected |= {
        "a.txt": (0o100000, "one\nTWO\nthree\n"),
        "new/n.txt": (0o100000, "new\n"),
        "run.sh": (0o100111, "#!/bin/sh\n"),
        "link": (0o120111, "b.txt"),
        "ünï côde.txt": (0o100000, "ü\n".encode().decode("latin-1")),
    }
    assert after["files"] == expected
    assert not (ground.top / "dir/deep").exists()
    assert ground.left() == []
    assert ground.git("log", "-1", "--format=%an <%ae>|%cn|%B") == "Ada <ada@example.com>|Ada|Work of a task"
    assert "overhand merge: t1" in ground.git("reflog", "-1")
    assert ground.git("fsck", "--strict") == ""


def test_the_tasks_start_is_no_object_of_the_project(ground: Ground) -> None:
    """It has the user's uncommitted files, which a `git push --mirror` must not show."""
    (ground.top / "secret.txt").write_text("not committed\n")
    base = ground.start()
    ground.work({"a.txt": "one\nTWO\nthree\n"})
    ground.land()
    assert ground.git("cat-file", "-e", base, check=False) == ""
    known = ground.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    assert base not in known
    assert ground.git("hash-object", "secret.txt") not in known
    assert (ground.top / "secret.txt").read_text() == "not committed\n"
    assert "secret.txt" not in ground.git("ls-tree", "-r", "--name-only", "HEAD")


def test_files_and_folders_take_each_others_place(ground: Ground) -> None:
    ground.work({"dir": "a file now\n", "a.txt": None, "a.txt/inner/file.txt": "a folder now\n"})
    before = ground.state()
    landed = ground.land()
    found = ground.files()
    assert found["dir"] == (0o100000, "a file now\n")
    assert found["a.txt/inner/file.txt"] == (0o100000, "a folder now\n")
    assert ground.git("status", "--porcelain") == ""
    ground.git(*landed.undo.split()[1:])
    assert ground.state() == before


def test_undo_keeps_what_is_not_committed(ground: Ground) -> None:
    ground.work(WORK)
    (ground.top / "other.txt").write_text("edited\n")
    before = ground.state()
    landed = ground.land()
    assert landed.undo == f"git reset --keep {landed.old}"
    ground.git(*landed.undo.split()[1:])
    assert ground.state() == before


def test_work_is_landed_on_a_target_that_has_moved(ground: Ground) -> None:
    ground.work(WORK)
    (ground.top / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    moved = ground.commit("meanwhile")
    landed = ground.land()
    assert landed.old == moved
    assert (ground.top / "a.txt").read_text() == "one\nTWO\nthree\nfour\n"
    assert ground.git("status", "--porcelain") == ""


def test_a_detached_head_moves_and_no_branch_does(ground: Ground) -> None:
    ground.git("checkout", "-q", "--detach")
    ground.work(WORK)
    branch = ground.git("rev-parse", "main")
    landed = ground.land()
    assert (ground.git("rev-parse", "HEAD"), ground.git("rev-parse", "main")) == (landed.new, branch)
    assert ground.git("symbolic-ref", "-q", "HEAD", check=False) == ""


def test_the_first_commit_of_an_empty_repository(tmp_path: Path) -> None:
    ground = Ground.make(tmp_path / "ground", {})
    ground.start()
    ground.work({"a.txt": "first\n", "dir/b.txt": "b\n"})
    (ground.top / "mine.txt").write_text("mine\n")
    landed = ground.land()
    assert ground.git("rev-list", "HEAD") == landed.new
    assert ground.git("status", "--porcelain") == "?? mine.txt"
    assert ground.files()["dir/b.txt"] == (0o100000, "b\n")


def test_a_linked_worktree_of_the_users(ground: Ground, tmp_path: Path) -> None:
    ground.work(WORK)
    main = ground.state()
    linked = tmp_path / "linked"
    ground.git("worktree", "add", "-q", "-b", "side", str(linked))
    here, ground.top = ground.top, linked
    ground.landings = linked / ".overhand/landing"
    landed = ground.land()
    assert ground.git("status", "--porcelain") == ""
    assert ground.git("rev-parse", "side") == landed.new
    assert (linked / "a.txt").read_text() == "one\nTWO\nthree\n"
    ground.top = here
    after = ground.state()
    assert {**after, "refs": ""} == {**main, "refs": ""}


def test_sha256(tmp_path: Path) -> None:
    ground = Ground.make(tmp_path / "ground", FILES, init=("--object-format=sha256",))
    ground.work(WORK)
    landed = ground.land()
    assert len(landed.new) == 64
    assert ground.git("status", "--porcelain") == ""
    assert ground.git("fsck", "--strict") == ""


def test_the_objects_are_a_pack_that_git_may_pack_again(ground: Ground) -> None:
    """It is kept while no ref names them, then it is like any other."""
    ground.work({f"many/{number}.txt": f"{number}\n" for number in range(150)})
    packs = len(list((ground.top / ".git/objects/pack").glob("*.pack")))
    ground.land()
    assert len(list((ground.top / ".git/objects/pack").glob("*.pack"))) == packs + 1
    ground.git("gc", "-q", "--prune=now")
    assert len(list((ground.top / ".git/objects/pack").glob("*.pack"))) == 1
    assert ground.git("status", "--porcelain") == ""


def test_a_split_index_and_other_staged_files_stay(ground: Ground) -> None:
    ground.work(WORK)
    ground.git("update-index", "--split-index")
    (ground.top / "later.txt").write_text("intent\n")
    ground.git("add", "-N", "later.txt")
    (ground.top / "b.txt").write_text("staged\n")
    ground.git("add", "b.txt")
    before = ground.git("status", "--porcelain")
    ground.land()
    assert ground.git("status", "--porcelain") == before
    assert ground.git("diff", "--cached", "--name-only") == "b.txt"
