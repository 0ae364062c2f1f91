"""A landing that would touch anything of the user's is refused with the path's name, and nothing has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Busy, Refused
from overhand.trees import recover
from overhand.trees.land import land_work
from trees.ground import Ground, Link, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trees.ground import Content

FILES = {"a.txt": "one\n", "gone.txt": "gone\n", "dir/x.txt": "x\n", "dir/y.txt": "y\n", "other.txt": "other\n"}
WORK: dict[str, Content] = {
    "a.txt": "ONE\n",
    "gone.txt": None,
    "added.txt": "added\n",
    "x.ignored": "added, though ignored here\n",
    "deep/er/new.txt": "new\n",
    "dir": "a file now\n",
}


def modified(ground: Ground) -> None:
    put(ground.top, {"a.txt": "mine\n"})


def modified_with_the_same_size_and_time(ground: Ground) -> None:
    path = ground.top / "a.txt"
    before = path.stat()
    path.write_text("eno\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def assumed_unchanged(ground: Ground) -> None:
    ground.git("update-index", "--assume-unchanged", "a.txt")
    put(ground.top, {"a.txt": "mine\n"})


def staged(ground: Ground) -> None:
    put(ground.top, {"a.txt": "mine\n"})
    ground.git("add", "a.txt")


def staged_and_put_back(ground: Ground) -> None:
    staged(ground)
    put(ground.top, {"a.txt": "one\n"})


def modified_and_to_be_deleted(ground: Ground) -> None:
    put(ground.top, {"gone.txt": "mine\n"})


def missing(ground: Ground) -> None:
    put(ground.top, {"a.txt": None})


def staged_for_deletion(ground: Ground) -> None:
    ground.git("rm", "-q", "--cached", "a.txt")


def untracked(ground: Ground) -> None:
    put(ground.top, {"added.txt": "mine\n"})


def ignored(ground: Ground) -> None:
    put(ground.top, {"x.ignored": "mine\n"})


def staged_new(ground: Ground) -> None:
    put(ground.top, {"added.txt": "mine\n"})
    ground.git("add", "added.txt")


def a_folder_in_place_of_the_file(ground: Ground) -> None:
    put(ground.top, {"added.txt/mine.txt": "mine\n"})


def an_ignored_file_in_a_folder_that_becomes_a_file(ground: Ground) -> None:
    put(ground.top, {"dir/mine.ignored": "mine\n"})


def a_file_in_place_of_the_folder(ground: Ground) -> None:
    put(ground.top, {"deep": "mine\n"})


def a_link_in_place_of_the_folder(ground: Ground) -> None:
    (ground.folder / "elsewhere/er").mkdir(parents=True)
    put(ground.top, {"deep": Link("../elsewhere")})


def a_link_in_place_of_a_file(ground: Ground) -> None:
    put(ground.top, {"a.txt": Link("other.txt")})


def another_mode(ground: Ground) -> None:
    (ground.top / "a.txt").chmod(0o755)


def a_folder_in_place_of_a_file(ground: Ground) -> None:
    put(ground.top, {"a.txt": None, "a.txt/mine.txt": "mine\n"})


def a_file_staged_below_the_new_one(ground: Ground) -> None:
    put(ground.top, {"added.txt/mine.txt": "mine\n"})
    ground.git("add", "added.txt/mine.txt")
    put(ground.top, {"added.txt": None})


WAYS: list[tuple[Callable[[Ground], None], str, str]] = [
    (modified, "a.txt", "has uncommitted changes"),
    (modified_with_the_same_size_and_time, "a.txt", "has uncommitted changes"),
    (assumed_unchanged, "a.txt", "has uncommitted changes"),
    (staged, "a.txt", "has staged changes"),
    (staged_and_put_back, "a.txt", "has staged changes"),
    (modified_and_to_be_deleted, "gone.txt", "has uncommitted changes"),
    (missing, "a.txt", "is missing from the checkout"),
    (staged_for_deletion, "a.txt", "is removed from the index"),
    (untracked, "added.txt", "exists in the checkout already"),
    (ignored, "x.ignored", "exists in the checkout already"),
    (staged_new, "added.txt", "is staged in the checkout"),
    (a_folder_in_place_of_the_file, "added.txt", "is a folder in the checkout, with added.txt/mine.txt"),
    (an_ignored_file_in_a_folder_that_becomes_a_file, "dir", "is a folder in the checkout, with dir/mine.ignored"),
    (a_file_in_place_of_the_folder, "deep/er/new.txt", "can't be made: deep is a file"),
    (a_link_in_place_of_the_folder, "deep/er/new.txt", "can't be made: deep is a symbolic link"),
    (a_link_in_place_of_a_file, "a.txt", "has uncommitted changes"),
    (another_mode, "a.txt", "has uncommitted changes"),
    (a_folder_in_place_of_a_file, "a.txt", "is a folder in the checkout"),
    (a_file_staged_below_the_new_one, "added.txt", "is a folder in the index, with added.txt/mine.txt"),
]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.make(tmp_path / "ground", FILES)
    ground.work(WORK)
    return ground


@pytest.mark.parametrize(("change", "path", "why"), WAYS, ids=[way[0].__name__ for way in WAYS])
def test_in_the_way(ground: Ground, change: Callable[[Ground], None], path: str, why: str) -> None:
    change(ground)
    before, objects = ground.state(), ground.git("count-objects", "-v")
    with pytest.raises(Refused) as refused:
        ground.land()
    assert refused.value.facts["paths"] == {path: why}
    assert f"  {path} {why}" in refused.value.message
    assert ground.state() == before
    assert ground.git("count-objects", "-v") == objects
    assert ground.left() == []


def test_every_path_in_the_way_is_named(ground: Ground) -> None:
    modified(ground)
    untracked(ground)
    modified_and_to_be_deleted(ground)
    with pytest.raises(Refused) as refused:
        ground.land()
    assert sorted(refused.value.facts["paths"]) == ["a.txt", "added.txt", "gone.txt"]  # type: ignore[call-overload]


def test_the_hint_does_what_it_says(ground: Ground) -> None:
    modified(ground)
    with pytest.raises(Refused) as refused:
        ground.land()
    words = refused.value.hint.partition("git ")[2].split()
    ground.git(*words)
    ground.land()
    assert (ground.top / "a.txt").read_text() == "ONE\n"


@pytest.mark.parametrize("what", ["merge", "cherry-pick", "revert", "rebase"])
def test_something_is_under_way(ground: Ground, what: str) -> None:
    ground.git("checkout", "-q", "-b", "side")
    put(ground.top, {"other.txt": "side\n"})
    side = ground.commit("side")
    put(ground.top, {"other.txt": "side again\n"})
    ground.commit("side again")
    ground.git("checkout", "-q", "main")
    put(ground.top, {"other.txt": "main\n"})
    ground.commit("main")
    words = {
        "merge": ("merge", "side"),
        "cherry-pick": ("cherry-pick", side),
        "revert": ("revert", "--no-edit", side),
        "rebase": ("rebase", "side"),
    }[what]
    if what == "revert":
        ground.git("checkout", "-q", "side")
    ground.git(*words, check=False)
    before = ground.state()
    with pytest.raises(Refused, match="under way"):
        ground.land()
    assert ground.state() == before
    assert ground.left() == []


def test_the_target_has_moved_since_the_merge(ground: Ground) -> None:
    landing = ground.landing()
    put(ground.top, {"other.txt": "meanwhile\n"})
    ground.commit("meanwhile")
    before = ground.state()
    with pytest.raises(Refused) as refused:
        land_work(landing)
    assert refused.value.facts["moved"] is True
    assert ground.state() == before


def test_another_branch_at_the_same_commit(ground: Ground) -> None:
    landing = ground.landing()
    ground.git("checkout", "-q", "-b", "side")
    with pytest.raises(Refused, match="The checkout is at side by now"):
        land_work(landing)
    assert ground.git("rev-parse", "main") == ground.git("rev-parse", "side")


def test_another_git_holds_the_index(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover, "LOCK_PATIENCE", 0.05)
    lock = ground.top / ".git/index.lock"
    lock.write_text("")
    with pytest.raises(Busy, match=r"index\.lock exists"):
        ground.land()
    assert lock.exists()
    lock.unlink()
    assert ground.left() == []
    ground.land()


def test_the_place_of_landings_is_reserved(ground: Ground) -> None:
    """Else a task could write a journal that a recovery carries out."""
    ground.work({".overhand/landing/t9/journal": "{}\n"})
    with pytest.raises(Refused, match=r"\.overhand/landing/t9/journal"):
        ground.land()
