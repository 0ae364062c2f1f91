"""The index holds what a search finds, at every moment: after any change, and at once."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from overhand.documents import line_text, stage_of_tag
from overhand.items import TagHit, TagIndex, search_tags
from overhand.supervisor import ask_supervisor
from overhand.system import load_line
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.daemon import Watched

TEXTS = (
    b"# A\n\n**Tags**: #needs-fix #P1 #S\n\nand #needs-fix again\n",
    b"nothing here\n",
    b"\xef\xbb\xbf# A\r\n\r\n**Tags**: #delegated-fix <!--overhand:worker-20261115-191500-->\r\n",
    b"`#needs-fix` and ```\n#needs-chores\n```\n#done-fix #needs-\xc3\xa9t\xc3\xa9\n",
    b"#needs-fix \xff\xfe not UTF-8\n",
    b"",
)


def searched(root: str) -> dict[str, tuple[TagHit, ...]]:
    """What a search finds of what the index holds."""
    return {
        path.removeprefix(f"{root}/"): hits
        for path, raw, found in search_tags(root, "#*")
        if (
            hits := tuple(
                TagHit(tag.line, tag.name, tag.on_tags_line, tag.task, line_text(raw, tag))
                for tag in found
                if stage_of_tag(tag.name)
            )
        )
    }


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TagIndex]:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/one.md").write_bytes(TEXTS[0])
    (tmp_path / "two.md").write_bytes(TEXTS[2])
    (tmp_path / ".agent-workspaces").mkdir()
    (tmp_path / ".agent-workspaces/ours.md").write_bytes(TEXTS[0])
    index = TagIndex(os.path.realpath(tmp_path))
    index.begin()
    yield index
    index.close()


def agrees(index: TagIndex) -> bool:
    """Take in what has happened and compare; False if everything must be read again first."""
    index.drain()
    if index.is_lost or index.dirty or not index.tree.is_whole:
        return False
    assert index.hits == searched(index.root)
    return True


@pytest.mark.parametrize("seed", range(6))
def test_after_any_change_it_says_what_a_search_says(index: TagIndex, seed: int) -> None:
    """Files and folders made, changed, moved, exchanged, linked and removed at random; looked at after each change."""
    chance = random.Random(seed)
    folders = ["", "a/", "a/b/", "a/c/", "d/", ".hidden/"]
    names = ["one.md", "two.md", "three.md", ".h.md", "x.txt"]
    agreed = 0
    for _ in range(60):
        _change(index.root, chance, folders, names)
        agreed += agrees(index)
        if index.is_lost:  # as the daemon does it
            index.close()
            index.__init__(index.root)  # type: ignore[misc]
            index.begin()
    assert agreed > 30, "it is hardly ever up to date"


def _change(root: str, chance: random.Random, folders: list[str], names: list[str]) -> None:
    def some() -> str:
        return f"{root}/{chance.choice(folders)}{chance.choice(names)}"

    def write() -> None:
        path = some()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.islink(path):
            os.unlink(path)
        with open(path, chance.choice(["wb", "ab"])) as file:
            file.write(chance.choice(TEXTS))

    def replace() -> None:
        with open(f"{root}/new.txt", "wb") as file:
            file.write(chance.choice(TEXTS))
        os.replace(f"{root}/new.txt", some())

    def move_folder() -> None:
        os.rename(f"{root}/{chance.choice(folders[1:])}".rstrip("/"), f"{root}/{chance.choice(['d', 'e', 'a/c'])}")

    doings: list[Callable[[], object]] = [
        write, write, write, write, replace, replace,
        lambda: os.unlink(some()),
        lambda: os.rename(some(), some()),
        move_folder,
        lambda: shutil.rmtree(f"{root}/{chance.choice(folders[1:])}"),
        lambda: os.symlink(some(), some()),
        lambda: os.symlink(f"{root}/a", f"{root}/link"),
    ]  # fmt: skip
    try:
        chance.choice(doings)()
    except OSError:
        return  # not there, or there already


def test_a_folder_whose_place_a_link_takes_is_gone(index: TagIndex) -> None:
    os.rename(f"{index.root}/a", f"{index.root}/z")
    os.symlink("z", f"{index.root}/a")
    assert agrees(index)
    assert "z/one.md" in index.hits
    assert "a/one.md" not in index.hits


def test_what_is_ignored_is_not_found(index: TagIndex) -> None:
    root = index.root
    for path in ("x/y.md", "node/z.md"):
        os.makedirs(os.path.dirname(f"{root}/{path}"))
        with open(f"{root}/{path}", "wb") as file:
            file.write(TEXTS[0])
    assert agrees(index)
    assert "node/z.md" in index.hits
    with open(f"{root}/.gitignore", "w", encoding="ascii") as file:
        file.write("node/\n")
    index.drain()
    assert index.is_lost, "other files count now"
    again = TagIndex(root)
    again.begin()
    assert agrees(again)
    os.mkdir(f"{root}/x/node")
    with open(f"{root}/x/node/new.md", "wb") as file:
        file.write(TEXTS[0])
    assert agrees(again)
    assert not any(path.endswith(("node/z.md", "new.md")) for path in again.hits)
    again.close()


@pytest.mark.parametrize("text", [b"#needs-fix\0\n", b"#needs-fix\n" * 500_000])
def test_what_is_no_text_or_very_big_is_not_held(index: TagIndex, text: bytes) -> None:
    with open(f"{index.root}/a/odd.md", "wb") as file:
        file.write(text)
    index.drain()
    assert set(index.hits) == {"a/one.md", "two.md"}
    os.unlink(f"{index.root}/a/odd.md")
    assert agrees(index)


def test_more_than_the_kernel_can_hold_is_noticed(index: TagIndex) -> None:
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        most = int(file.read())
    if most > 100_000:
        pytest.skip("it takes too long here")
    for number in range(most + 2):  # two in turn: equal ones in a row are one
        os.utime(f"{index.root}/{('a/one.md', 'two.md')[number % 2]}")
    index.drain()
    assert index.is_lost


def held(house: Watched, files: int) -> None:
    """Wait until the daemon holds this many files."""

    def reached() -> bool:
        told = ask_supervisor(house.store, {"ask": "daemon"})
        return told is not None and load_line(told.decode())["files"] == files

    until(reached, f"{files} files in the daemon's index")


def test_a_busy_folder_does_not_keep_it_busy(house: Watched) -> None:
    """Somebody writes a log in a watched folder all the time: it is looked at now and then, and nothing is missed."""
    house.begin()
    writer = subprocess.Popen(["/bin/sh", "-c", "while :; do echo x >>log.txt; done"], cwd=house.path)
    try:
        for number in range(5):
            house.write(f"n{number}.md", "# N\n\n#needs-fix\n")
            held(house, number + 1)
    finally:
        writer.kill()
        writer.wait()
