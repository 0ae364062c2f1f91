"""The index answers as a search does, at every moment: after any change, and at once."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from items.house import AT
from overhand.documents import tags
from overhand.items import find
from overhand.items.index import Index
from overhand.supervisor import index_client, replies
from overhand.system.jsonline import loads
from runtime.scene import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from daemon.house import Watched

PATTERNS = ("#needs-*", "#needs-fix", "#*-fix", "#delegated-*", "#done-?ix")
TEXTS = (
    b"# A\n\n**Tags**: #needs-fix #P1 #S\n\nand #needs-fix again\n",
    b"nothing here\n",
    b"\xef\xbb\xbf# A\r\n\r\n**Tags**: #delegated-fix <!--overhand:worker-20261115-191500-->\r\n",
    b"`#needs-fix` and ```\n#needs-chores\n```\n#done-fix #needs-\xc3\xa9t\xc3\xa9\n",
    b"#needs-fix \xff\xfe not UTF-8\n",
    b"",
)


def search(root: str, where: str, pattern: str) -> list[dict[str, Any]]:
    """What a search says, as rows."""
    hits = find.search(f"{root}/{where}".rstrip("/"), pattern)
    return [
        tags.row(path, tag.line, tag.name, tag.on_tags_line, tags.weights(raw, tag), tag.task, tags.line_text(raw, tag))
        for path, raw, found in hits
        for tag in found
    ]


def told(index: Index, where: str, pattern: str) -> list[dict[str, Any]] | None:
    """What the index says, as rows; None if it would rather have one search."""
    whole = f"{index.root}/{where}".rstrip("/")
    answer = replies.find(index, {"where": whole, "shown": f"{whole}/", "pattern": pattern, "form": "rows"})
    return (
        None
        if answer is None
        else [loads(line) for line in answer.decode("utf-8", "surrogateescape").split("\n") if line]
    )


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/one.md").write_bytes(TEXTS[0])
    (tmp_path / "two.md").write_bytes(TEXTS[2])
    (tmp_path / ".agent-workspaces").mkdir()
    (tmp_path / ".agent-workspaces/ours.md").write_bytes(TEXTS[0])
    index = Index(os.path.realpath(tmp_path))
    index.begin()
    yield index
    index.close()


def agrees(index: Index) -> None:
    index.drain()
    if index.is_lost:
        return
    for where in ("", "a", "a/b"):
        if os.path.isdir(f"{index.root}/{where}"):
            for pattern in PATTERNS:
                answer = told(index, where, pattern)
                if answer is not None:
                    assert answer == search(index.root, where, pattern), (where, pattern)


@pytest.mark.parametrize("seed", range(6))
def test_after_any_change_it_says_what_a_search_says(index: Index, seed: int) -> None:
    """Files and folders made, changed, moved, exchanged, linked and removed at random; looked at after each change."""
    chance = random.Random(seed)
    folders = ["", "a/", "a/b/", "a/c/", "d/", ".hidden/"]
    names = ["one.md", "two.md", "three.md", ".h.md", "x.txt"]
    answered = 0
    for _ in range(60):
        _change(index.root, chance, folders, names)
        agrees(index)
        answered += told(index, "", "#needs-*") is not None
        if index.is_lost:  # as the daemon does it
            index.close()
            index.__init__(index.root)  # type: ignore[misc]
            index.begin()
    assert answered > 30, "it hardly ever answers"


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


def test_a_folder_whose_place_a_link_takes_is_gone(index: Index) -> None:
    os.rename(f"{index.root}/a", f"{index.root}/z")
    os.symlink("z", f"{index.root}/a")
    index.drain()
    assert {row["path"] for row in told(index, "", "#needs-*") or ()} == {f"{index.root}/z/one.md"}
    agrees(index)


def test_what_is_ignored_is_not_found(index: Index) -> None:
    root = index.root
    for path in ("x/y.md", "node/z.md"):
        os.makedirs(os.path.dirname(f"{root}/{path}"))
        with open(f"{root}/{path}", "wb") as file:
            file.write(TEXTS[0])
    agrees(index)
    assert any(row["path"] == f"{root}/node/z.md" for row in told(index, "", "#needs-*") or [])
    with open(f"{root}/.gitignore", "w", encoding="ascii") as file:
        file.write("node/\n")
    index.drain()
    assert index.is_lost, "other files count now"
    again = Index(root)
    again.begin()
    agrees(again)
    os.mkdir(f"{root}/x/node")
    with open(f"{root}/x/node/new.md", "wb") as file:
        file.write(TEXTS[0])
    agrees(again)
    assert told(again, "x/node", "#needs-*") is None, "a search there looks into it"
    again.close()


def test_rules_that_lie_outside_count_as_well(index: Index) -> None:
    subprocess.run(["git", "init", "-q", index.root], check=True)
    again = Index(index.root)
    again.begin()
    assert told(again, "", "#needs-*") is not None
    os.makedirs(f"{index.root}/.git/info", exist_ok=True)
    with open(f"{index.root}/.git/info/exclude", "w", encoding="ascii") as file:
        file.write("a/\n")
    again.drain()
    assert told(again, "", "#needs-*") is None
    again.close()


@pytest.mark.parametrize("text", [b"#needs-fix\0\n", b"#needs-fix " + b"x" * 5000 + b"\n", b"#needs-fix\n" * 500_000])
def test_what_is_out_of_the_ordinary_is_left_to_a_search(index: Index, text: bytes) -> None:
    with open(f"{index.root}/a/odd.md", "wb") as file:
        file.write(text)
    index.drain()
    assert told(index, "", "#needs-*") is None
    assert told(index, "a/b", "#needs-*") == []
    os.unlink(f"{index.root}/a/odd.md")
    agrees(index)
    assert told(index, "", "#needs-*")


def test_tags_without_a_stage_are_left_to_a_search(index: Index) -> None:
    for pattern in ("#*", "#n*", "#P1", "#needs"):
        assert told(index, "", pattern) is None


def test_more_than_the_kernel_can_hold_is_noticed(index: Index) -> None:
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        most = int(file.read())
    if most > 100_000:
        pytest.skip("it takes too long here")
    for number in range(most + 2):  # two in turn: equal ones in a row are one
        os.utime(f"{index.root}/{('a/one.md', 'two.md')[number % 2]}")
    index.drain()
    assert index.is_lost
    assert told(index, "", "#needs-*") is None


def answered(house: Watched) -> list[str]:
    """The files that the daemon names; it sends whoever is held up before they ask away, to search for themselves."""

    def ask() -> str | None:
        return index_client.find(house.store, str(house.path), "#needs-*", tags_only=False, form="files")

    return until(ask, "an answer of the daemon").split("\n")


def test_read_your_write_through_the_daemon(house: Watched) -> None:
    """Written, then found, again and again; the same as without a daemon."""
    house.begin()
    for number in range(10):
        house.write(f"n{number}/note.md", f"# N\n\n#needs-fix number {number}\n")
        assert len(answered(house)) == number + 1
    house.write(AT)
    for words in (
        ("#needs-*",),
        ("#needs-*", "requests"),
        ("#needs-*", "--files"),
        ("#needs-*", "--tags-only"),
        ("#done-*",),
    ):
        fast = house.project.run("tag", "find", *words)
        fast_json = house.json("tag", "find", *words)
        house.json("daemon", "stop")
        slow = house.project.run("tag", "find", *words)
        assert (fast.out, fast.err, fast.code) == (slow.out, slow.err, slow.code)
        assert fast_json == house.json("tag", "find", *words)
        house.begin()


def test_a_busy_folder_does_not_keep_it_busy(house: Watched) -> None:
    """Somebody writes a log in a watched folder all the time: it is looked at now and then, and nothing is missed."""
    house.begin()
    writer = subprocess.Popen(["/bin/sh", "-c", "while :; do echo x >>log.txt; done"], cwd=house.path)
    try:
        for number in range(5):
            house.write(f"n{number}.md", "# N\n\n#needs-fix\n")
            assert len(answered(house)) == number + 1
    finally:
        writer.kill()
        writer.wait()
