"""How a project is recognised: moved, copied, cloned, cleaned, mounted twice, shared, damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
from binascii import crc32
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.errors import Refused, StorageFailed
from overhand.record import find_root
from overhand.record.identity import (
    Found,
    decide,
    find_record,
    known_roots,
    make_record,
    recorded_root,
    remove_record,
    witness,
)
from overhand.record.registry import UNREADABLE, Entry, Mark, look, record_name, state_folder
from overhand.verbs.setup import kind_of_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLED = Path(__file__).with_name("identity_killed.py")
NOBODY = 65534


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test, which does not exist yet."""
    monkeypatch.delenv("OVERHAND_STATE", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/overhand"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for projects."""
    path = tmp_path / "home"
    path.mkdir()
    return path


def new(path: Path) -> str:
    path.mkdir()
    (path / "main.py").write_text("pass\n")
    return str(path)


def made(path: Path) -> Found:
    """A new project with its record."""
    found = make_record(new(path))
    assert found.change == "made"
    return found


def mark_file(root: str | Path) -> Path:
    return Path(root) / ".agent-workspaces/.project"


def facts(found: Found) -> Any:
    return json.loads((Path(found.folder) / "project.json").read_text())


def tree(path: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {
        str(one.relative_to(path)): one.read_bytes() if one.is_file() and not one.is_symlink() else b""
        for one in path.rglob("*")
    }


def records(state: Path) -> list[str]:
    """The names of the records, without links."""
    return sorted(one.name for one in (state / "projects").iterdir() if not one.is_symlink() and one.is_dir())


def run(*argv: str, cwd: Path | None = None) -> str:
    ran = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def git(folder: Path, *words: str) -> None:
    run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always", *words, cwd=folder)


def committed(path: Path) -> Path:
    """A repository in which somebody committed the id as well."""
    git(path, "init", "-q")
    git(path, "add", "-f", ".")
    git(path, "commit", "-qm", "all")
    return path


# places


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OVERHAND_STATE": "/a/b", "XDG_STATE_HOME": "/x"}, "/a/b"),
        ({"OVERHAND_STATE": "/a/b/", "XDG_STATE_HOME": "/x"}, "/a/b"),
        ({"OVERHAND_STATE": "a/b", "XDG_STATE_HOME": "/x"}, "/x/overhand"),
        ({"OVERHAND_STATE": "", "XDG_STATE_HOME": "/x"}, "/x/overhand"),
        ({"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/overhand"),
        ({"XDG_STATE_HOME": "", "HOME": "/h/"}, "/h/.local/state/overhand"),
    ],
)
def test_the_state_folder(environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert state_folder() == expected


def test_without_a_home_folder_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(Refused, match="no home folder") as refused:
        state_folder()
    assert "OVERHAND_STATE=/" in refused.value.hint


def test_what_the_first_verb_makes(home: Path, state: Path) -> None:
    os.umask(os.umask(0o077) | 0o022)  # as most users have it
    root = new(home / "my project äöü with a long name")
    found = make_record(root)
    folder = Path(found.folder)
    assert found == Found(folder=str(folder), root=root, change="made")
    assert folder.parent == state / "projects"
    assert folder.name == f"my-project-----with-a-lo-{crc32(root.encode()):08x}"
    for one in (state, state / "projects", folder, folder / "tasks", folder / "supervisor"):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "project.json").stat().st_mode) == 0o600
    assert sorted(one.name for one in folder.iterdir()) == ["project.json", "supervisor", "tasks"]
    assert sorted(one.name for one in folder.parent.iterdir()) == [".lock", folder.name]
    kept, mark = facts(found), mark_file(root)
    assert mark.read_text() == kept["id"] + "\n"
    assert len(kept["id"]) == 32
    there, top = mark.stat(), Path(root).stat()
    assert stat.S_IMODE(there.st_mode) == 0o644
    seen = {"id": kept["id"], "mtime": there.st_mtime_ns, "dev": there.st_dev, "ino": there.st_ino}
    assert kept == {
        "v": 1,
        "id": kept["id"],
        "paths": [root],
        "mark": {**seen, "root": [top.st_dev, top.st_ino]},
        "was": [],
        "made": kept["made"],
        "replaced": "",
    }
    assert kept["made"] > "2020"
    assert [one.name for one in mark.parent.iterdir()] == [".project"]


def test_a_reading_verb_in_a_new_project_writes_nothing(home: Path, state: Path) -> None:
    root = new(home / "p")
    assert find_record(root) is None
    assert not state.exists()
    assert list(tree(home)) == ["p", "p/main.py"]
    assert known_roots() == []


def test_the_same_path_again_and_through_a_link(home: Path, state: Path) -> None:
    found = made(home / "p")
    before = tree(state)
    (home / "link").symlink_to("p")
    for root in (found.root, find_root(str(home / "link"))):
        assert find_record(root) == make_record(root) == found.replace(change="")
    assert tree(state) == before


def test_a_project_whose_path_is_not_utf8(home: Path) -> None:
    root = os.fsdecode(os.fsencode(str(home)) + b'/caf\xe9\n"x')
    os.mkdir(root)
    found = make_record(root)
    assert find_record(root) == found.replace(change="")
    assert [one.root for one in known_roots()] == [root]


def test_two_paths_with_the_same_hash(home: Path, state: Path) -> None:
    seen: dict[int, str] = {}
    dice = random.Random(1)
    while True:
        name = f"{dice.getrandbits(64):x}"  # names that differ in four bytes only never have the same one
        other = seen.setdefault(crc32(f"{home}/{name}/p".encode()), name)
        if other != name:
            break
    roots = [home / one / "p" for one in (other, name)]
    for root in roots:
        root.parent.mkdir()
    first, second = (made(root) for root in roots)
    assert second.folder == first.folder + "-2"
    for found in (first, second):
        assert find_record(found.root) == found.replace(change="")


# moved


def move_noted(old: str, root: Path, found: Found) -> None:
    """A reading verb notes a move: trust is handed over, the record stays where it is, and it is said once."""
    before, handed = tree(root), list[tuple[str, str]]()
    moved = find_record(str(root), lambda *paths: handed.append(paths))
    assert moved is not None
    assert (moved.folder, moved.root, moved.change, moved.before) == (found.folder, str(root), "moved", old)
    assert old in moved.note
    assert handed == [(old, str(root))]
    assert tree(root) == before, "nothing in the project was written"
    again = find_record(str(root), lambda *paths: handed.append(paths))
    assert again == moved.replace(change="", before="")
    assert again.note == ""
    assert len(handed) == 1
    assert recorded_root(found.folder) == str(root)


def test_moved_on_one_disk_twice_and_back(home: Path, state: Path) -> None:
    found = made(home / "a")
    os.rename(home / "a", home / "b")
    move_noted(str(home / "a"), home / "b", found)
    (home / "deep").mkdir()
    shutil.move(home / "b", home / "deep/c")
    move_noted(str(home / "b"), home / "deep/c", found)
    shutil.move(home / "deep/c", home / "a")
    move_noted(str(home / "deep/c"), home / "a", found)
    assert records(state) == [Path(found.folder).name]
    links = {one.name: os.readlink(one) for one in (state / "projects").iterdir() if one.is_symlink()}
    assert links == {record_name(str(path)): Path(found.folder).name for path in (home / "b", home / "deep/c")}
    assert facts(found)["was"] == [str(home / "a"), str(home / "b"), str(home / "deep/c")]


def test_moved_to_another_disk(home: Path) -> None:
    others = [path for path in ("/dev/shm", "/var/tmp", "/tmp") if os.path.isdir(path) and os.access(path, os.W_OK)]
    other = next((path for path in others if os.stat(path).st_dev != home.stat().st_dev), None)
    if other is None:
        pytest.skip("this machine has one disk")
    found = made(home / "a")
    there = Path(other, f"overhand-identity-{os.getpid()}")
    try:
        run("mv", found.root, str(there))
        move_noted(found.root, there, found)
    finally:
        shutil.rmtree(there, ignore_errors=True)


def test_a_writing_verb_notes_a_move_too(home: Path) -> None:
    found = made(home / "a")
    os.rename(home / "a", home / "b")
    moved = make_record(str(home / "b"))
    assert (moved.folder, moved.change, moved.before) == (found.folder, "moved", found.root)


def test_a_move_that_cannot_hand_trust_over_is_not_noted(home: Path) -> None:
    found = made(home / "a")
    os.rename(home / "a", home / "b")

    def fail(_old: str, _new: str) -> None:
        raise StorageFailed("trust.json cannot be read")

    with pytest.raises(StorageFailed, match=r"trust\.json"):
        make_record(str(home / "b"), fail)
    assert recorded_root(found.folder) == found.root
    move_noted(found.root, home / "b", found)


def test_a_new_project_at_an_old_path(home: Path, state: Path) -> None:
    first = made(home / "a")
    os.rename(home / "a", home / "b")
    move_noted(first.root, home / "b", first)
    second = made(home / "a")
    assert second.folder == first.folder + "-2"
    assert find_record(str(home / "a")) == second.replace(change="")
    assert find_record(str(home / "b")) == Found(folder=first.folder, root=str(home / "b"))


@pytest.mark.parametrize("other", ["deleted", "moved away", "moved away and seen"])
def test_moved_back_to_where_another_stood(home: Path, state: Path, other: str) -> None:
    first = made(home / "a")
    os.rename(home / "a", home / "b")
    move_noted(first.root, home / "b", first)
    second = made(home / "a")
    if other == "deleted":
        shutil.rmtree(home / "a")
    else:
        os.rename(home / "a", home / "c")
        if other.endswith("seen"):
            move_noted(second.root, home / "c", second)
    os.rename(home / "b", home / "a")
    move_noted(str(home / "b"), home / "a", first)
    if other == "moved away":
        move_noted(second.root, home / "c", second)
    gone = [one.folder for one in known_roots() if one.gone]
    assert gone == ([second.folder] if other == "deleted" else [])
    assert records(state) == sorted(Path(one.folder).name for one in (first, second))


def test_two_projects_that_change_places(home: Path) -> None:
    first, second = made(home / "a"), made(home / "b")
    for old, path in (("a", "x"), ("b", "a"), ("x", "b")):
        os.rename(home / old, home / path)
    move_noted(second.root, home / "a", second)
    move_noted(first.root, home / "b", first)
    assert find_record(str(home / "a")) == Found(folder=second.folder, root=str(home / "a"))


# copied


def is_new(found: Found, copy: Path) -> None:
    """A copy shows nothing and changes nothing until a writing verb makes it a project of its own."""
    before = tree(copy)
    assert find_record(str(copy)) is None
    assert tree(copy) == before
    other = make_record(str(copy))
    assert other.change == "made"
    assert other.folder != found.folder
    assert facts(other)["id"] != facts(found)["id"]
    assert mark_file(copy).read_text() == facts(other)["id"] + "\n"
    assert find_record(str(copy)) == other.replace(change="")


@pytest.mark.parametrize("how", ["-r", "-a"])
def test_a_copy_beside_the_original(home: Path, how: str) -> None:
    found = made(home / "a")
    run("cp", how, found.root, str(home / "b"))
    is_new(found, home / "b")
    assert find_record(found.root) == found.replace(change="")


@pytest.mark.parametrize("original", ["standing", "gone"])
@pytest.mark.parametrize("how", ["clone", "cp -r", "by hand"])
def test_a_copy_without_the_witness(home: Path, original: str, how: str) -> None:
    found = made(home / "a")
    if how == "clone":
        git(home, "clone", "-q", str(committed(home / "a")), "b")
    elif how == "cp -r":
        run("cp", "-r", found.root, str(home / "b"))
    else:  # somebody who knows the id
        new(home / "b")
        mark_file(home / "b").parent.mkdir()
        shutil.copyfile(mark_file(found.root), mark_file(home / "b"))
    if original == "gone":
        shutil.rmtree(home / "a")
    is_new(found, home / "b")
    assert recorded_root(found.folder) == found.root


def test_an_exact_copy_whose_original_is_deleted_is_taken_for_moved(home: Path) -> None:
    found = made(home / "a")
    run("cp", "-a", found.root, str(home / "b"))
    shutil.rmtree(home / "a")
    move_noted(found.root, home / "b", found)


def test_worktree_and_second_checkout(home: Path) -> None:
    found = made(home / "a")
    (home / "a/.gitignore").write_text(".agent-workspaces\n")
    git(home / "a", "init", "-q")
    git(home / "a", "add", ".")
    git(home / "a", "commit", "-qm", "all")
    git(home / "a", "worktree", "add", "-q", str(home / "tree"))
    git(home, "clone", "-q", "a", "clone")
    for path in (home / "tree", home / "clone"):
        is_new(found, path)
    assert find_record(found.root) == found.replace(change="")


def test_an_id_that_nobody_knows_is_replaced(home: Path) -> None:
    root = new(home / "a")
    mark_file(root).parent.mkdir()
    mark_file(root).write_text("0" * 32 + "\n")
    found = make_record(root)
    assert facts(found)["id"] != "0" * 32
    assert mark_file(root).read_text() == facts(found)["id"] + "\n"


# the same path, something else in it


@pytest.mark.parametrize("how", ["git clean", "rm -rf"])
def test_a_cleaned_project_is_known_and_marked_again(home: Path, state: Path, how: str) -> None:
    found = made(home / "a")
    if how == "git clean":
        git(home / "a", "init", "-q")
        git(home / "a", "clean", "-qxfd", "-e", "main.py")
    else:
        shutil.rmtree(home / "a/.agent-workspaces")
    before = tree(home), tree(state)
    assert find_record(found.root) == found.replace(change="")
    assert (tree(home), tree(state)) == before
    assert make_record(found.root) == found.replace(change="")
    assert mark_file(found.root).read_text() == facts(found)["id"] + "\n"
    os.rename(home / "a", home / "b")
    move_noted(found.root, home / "b", found)


def test_cleaned_and_moved_before_any_writing_verb_is_lost(home: Path) -> None:
    found = made(home / "a")
    shutil.rmtree(home / "a/.agent-workspaces")
    os.rename(home / "a", home / "b")
    assert find_record(str(home / "b")) is None
    assert [one.folder for one in known_roots() if one.gone] == [found.folder]


def replaced_once(root: str, found: Found, call: Any = find_record) -> None:
    told = call(root)
    assert told is not None
    assert (told.folder, told.change) == (found.folder, "replaced")
    assert "was replaced" in told.note
    assert told.replaced > "2020"
    assert find_record(root) == told.replace(change=""), "it is said once, and when it was stays known"


@pytest.mark.parametrize("verb", [find_record, make_record])
def test_something_else_at_a_known_path(home: Path, verb: Any) -> None:
    found = made(home / "a")
    new(home / "other")  # while the first one stands, so that it has another inode
    shutil.rmtree(home / "a")
    os.rename(home / "other", home / "a")
    replaced_once(found.root, found, verb)
    assert make_record(found.root).folder == found.folder
    assert mark_file(found.root).read_text() == facts(found)["id"] + "\n"
    assert make_record(found.root).change == ""


def test_a_backup_that_was_put_back_is_the_same(home: Path) -> None:
    found = made(home / "a")
    run("cp", "-a", found.root, str(home / "backup"))
    shutil.rmtree(home / "a")
    os.rename(home / "backup", home / "a")
    assert find_record(found.root) == make_record(found.root) == found.replace(change="")


def test_a_mark_that_was_touched_is_remembered_anew(home: Path) -> None:
    found = made(home / "a")
    os.utime(mark_file(found.root), ns=(1, 1))
    assert find_record(found.root) == make_record(found.root) == found.replace(change="")
    assert facts(found)["mark"]["mtime"] == 1
    os.rename(home / "a", home / "b")
    move_noted(found.root, home / "b", found)


def test_an_unknown_id_at_a_known_path_is_adopted(home: Path) -> None:
    """After git clean a container, or the same user with another home folder, came first."""
    found = made(home / "a")
    mark_file(found.root).write_text("c" * 32 + "\n")
    replaced_once(found.root, found)
    assert facts(found)["id"] == "c" * 32
    os.rename(home / "a", home / "b")
    move_noted(found.root, home / "b", found)


def test_another_home_folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(home / "a")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state2"))
    assert find_record(found.root) is None
    other = make_record(found.root)
    assert (other.change, other.folder.startswith(str(tmp_path / "state2"))) == ("made", True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    replaced_once(found.root, found)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state2"))
    assert find_record(found.root) == other.replace(change="")


def test_the_id_of_another_standing_project_does_not_take_a_record_away(home: Path) -> None:
    first, second = made(home / "a"), made(home / "b")
    shutil.copyfile(mark_file(first.root), mark_file(second.root))
    replaced_once(second.root, second)
    assert make_record(second.root).folder == second.folder
    assert mark_file(second.root).read_text() == facts(second)["id"] + "\n"
    for found in (first, second):
        assert make_record(found.root).folder == found.folder


def test_a_copy_of_another_project_at_a_known_path_is_new(home: Path, state: Path) -> None:
    first, second = made(home / "a"), made(home / "b")
    run("cp", "-a", first.root, str(home / "c"))
    shutil.rmtree(home / "b")
    os.rename(home / "c", home / "b")
    assert find_record(second.root) is None
    third = make_record(second.root)
    assert third.folder == second.folder + "-2"
    shutil.rmtree(home / "b/.agent-workspaces")
    found = find_record(second.root)
    assert found is not None
    assert found.folder == third.folder, "the path belongs to one record only"
    assert [one.folder for one in known_roots() if one.gone] == [second.folder]


# what is no id


def hostile(kind: str, mark: Path, victim: Path) -> None:
    mark.parent.mkdir(exist_ok=True)
    if kind == "link":
        mark.symlink_to(victim)
    elif kind == "dangling link":
        mark.symlink_to(mark.parent / "nowhere")
    elif kind == "FIFO":
        os.mkfifo(mark)
    elif kind == "folder":
        mark.mkdir()
    elif kind == "socket":
        os.chdir(mark.parent)  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(mark.name)
    else:
        mark.write_bytes({"1 MB": b"a" * 2**20, "a path": b"../../../../etc\n", "upper case": b"A" * 32}[kind])


@pytest.mark.parametrize("kind", ["link", "dangling link", "FIFO", "folder", "socket", "1 MB", "a path", "upper case"])
def test_what_is_no_id_is_left_alone(home: Path, state: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    victim = made(home / "victim")
    root = new(home / "p")
    mark = mark_file(root)
    hostile(kind, mark, mark_file(victim.root))
    before = os.lstat(mark), tree(Path(root))
    assert not look(root).has_id
    assert find_record(root) is None
    found = make_record(root)
    assert found.folder != victim.folder
    assert (os.lstat(mark), tree(Path(root))) == before
    for _ in range(2):
        assert find_record(root) == make_record(root) == found.replace(change="")
    assert find_record(victim.root) == victim.replace(change="")
    assert (os.lstat(mark), tree(Path(root))) == before


@pytest.mark.parametrize("known", [False, True])
def test_workspaces_that_are_a_link_are_not_followed(home: Path, state: Path, known: bool) -> None:
    victim = made(home / "victim")
    found = made(home / "p") if known else None
    root = home / "p"
    if found is None:
        new(root)
    else:
        shutil.rmtree(root / ".agent-workspaces")
    (root / ".agent-workspaces").symlink_to("../victim/.agent-workspaces")
    before = tree(home)
    if found is None:
        assert find_record(str(root)) is None
        with pytest.raises(StorageFailed, match=r"\.agent-workspaces"):
            make_record(str(root))
        assert records(state) == [Path(victim.folder).name]
    else:
        assert find_record(str(root)) == make_record(str(root)) == found.replace(change="")
    assert tree(home) == before


def test_an_empty_mark_is_written_again(home: Path) -> None:
    """As a power cut leaves it."""
    found = made(home / "a")
    mark_file(found.root).write_bytes(b"")
    assert find_record(found.root) == make_record(found.root) == found.replace(change="")
    assert mark_file(found.root).read_text() == facts(found)["id"] + "\n"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"{}", b'{"id":3}', b"\xff" * 50, b"[" * 9000, b'{"v":1,"id":"x","paths":[1]}']
)
def test_a_damaged_record_harms_no_other(home: Path, raw: bytes) -> None:
    first, second = made(home / "a"), made(home / "b")
    (Path(first.folder) / "project.json").write_bytes(raw)
    os.rename(home / "b", home / "c")
    move_noted(second.root, home / "c", second)
    assert [one.folder for one in known_roots()] == [second.folder]
    assert make_record(first.root).folder == first.folder + "-2"


# all projects


def test_known_and_gone_projects(home: Path, state: Path) -> None:
    first, second = made(home / "a"), made(home / "b")
    os.rename(home / "b", home / "c")
    move_noted(second.root, home / "c", second)
    assert [(one.root, one.folder, one.gone) for one in known_roots()] == [
        (str(home / "a"), first.folder, False),
        (str(home / "c"), second.folder, False),
    ]
    for folder in (first.folder, str(home), f"{state}/projects", f"{state}/projects/{record_name(str(home / 'c'))}"):
        with pytest.raises(Refused, match="not the record of a project that is gone"):
            remove_record(folder)
    shutil.rmtree(home / "c")
    assert [one.folder for one in known_roots() if one.gone] == [second.folder]
    (state / "projects/.gone-1-left").mkdir()
    remove_record(second.folder)
    assert sorted(os.listdir(state / "projects")) == [".lock", Path(first.folder).name]
    with pytest.raises(Refused):
        remove_record(second.folder)


def test_a_hole_in_the_names_hides_nothing(home: Path) -> None:
    first = made(home / "a")
    os.rename(home / "a", home / "b")
    move_noted(first.root, home / "b", first)
    second = made(home / "a")
    shutil.rmtree(home / "b")
    remove_record(first.folder)
    assert find_record(second.root) == second.replace(change="")
    assert make_record(second.root).folder == second.folder


# disks, users, processes


PRELUDE = """
import errno, fcntl, json, os, resource, shutil, subprocess, sys
from overhand.errors import Refused, StorageFailed
from overhand.record.identity import find_record, known_roots, make_record, recorded_root
from overhand.record.registry import look
from overhand.record.registry import state_folder
from overhand.system import ancestors_of, shim_place
base = os.getcwd()
def refusal(call, *args):
    try:
        value = call(*args)
    except Refused as error:
        return error
    raise AssertionError(f"not refused: {value}")
def mount(*words):
    subprocess.run(["mount", *words], check=True)
def become(user):
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
def new(path):
    os.mkdir(path)
    return os.path.realpath(path)
"""


def play(program: str, cwd: Path, *before: str) -> None:
    """Run a program in a process of its own, with this test's environment."""
    text = PRELUDE + textwrap.dedent(program)
    argv = [*before, sys.executable, "-c", text]
    ran = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def street(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which every user can make something."""
    path = Path(tempfile.mkdtemp(prefix="overhand-identity-"))
    path.chmod(0o777)
    monkeypatch.setenv("XDG_STATE_HOME", str(path / "state"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


ORDINARY = f"if os.geteuid() == 0: become({NOBODY})\n"  # root may read and write everything


@pytest.fixture
def mounting() -> tuple[str, ...]:
    """A namespace of its own, whose mounts no other process sees."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    words = ("unshare", "-m", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine forbids a second mount namespace")
    return words


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")


def test_an_original_that_cannot_be_read_is_taken_to_be_there(street: Path) -> None:
    program = """
        os.mkdir("closed")
        found = make_record(new("closed/a"))
        subprocess.run(["cp", "-a", "closed/a", "b"], check=True)
        os.chmod("closed", 0)
        assert find_record(f"{base}/b") is None
        assert not known_roots()[0].gone
        os.chmod("closed", 0o700)
        shutil.rmtree("closed")
        assert find_record(f"{base}/b").change == "moved"
        """
    play(ORDINARY + textwrap.dedent(program), street)


def test_a_bind_mount_is_the_same_project(home: Path, mounting: tuple[str, ...]) -> None:
    play(
        """
        a, b = new("a"), new("b")
        found = make_record(a)
        mount("--bind", a, b)
        for call in (find_record, make_record, find_record):
            assert (call(b).folder, call(b).root, call(b).change) == (found.folder, a, "")
        assert find_record(a) == found.replace(change="")
        shutil.rmtree("a/.agent-workspaces")
        assert make_record(b).folder == found.folder, "cleaned, and the other path comes first"
        assert make_record(a).folder == found.folder
        subprocess.run(["umount", b], check=True)
        assert find_record(b) is None, "the empty folder below the mount is another project"
        other = make_record(b)
        assert (other.change, find_record(a).folder) == ("made", found.folder)
        mount("--bind", a, b)
        assert find_record(b).folder == found.folder
        subprocess.run(["umount", b], check=True)
        assert find_record(b).folder == other.folder
        assert find_record(a).folder == found.folder
        """,
        home,
        *mounting,
    )


def test_the_mount_that_was_used_first_is_gone(home: Path, mounting: tuple[str, ...]) -> None:
    play(
        """
        a, b = new("a"), new("b")
        mount("--bind", a, b)
        found = make_record(b)
        assert find_record(a).root == b
        subprocess.run(["umount", b], check=True)
        moved = find_record(a)
        assert (moved.folder, moved.root, moved.change, moved.before) == (found.folder, a, "moved", b)
        assert find_record(b) is None
        """,
        home,
        *mounting,
    )


def test_a_copy_where_a_second_mount_was(home: Path, mounting: tuple[str, ...]) -> None:
    play(
        """
        a, b = new("a"), new("b")
        found = make_record(a)
        mount("--bind", a, b)
        assert find_record(b).folder == found.folder
        subprocess.run(["umount", b], check=True)
        subprocess.run(["cp", "-a", "a/.agent-workspaces", "b/"], check=True)
        assert find_record(b) is None
        assert make_record(b).change == "made"
        assert find_record(a) == found.replace(change="")
        """,
        home,
        *mounting,
    )


def test_a_read_only_project(home: Path, mounting: tuple[str, ...]) -> None:
    play(
        """
        known, cleaned, fresh = new("known"), new("cleaned"), new("fresh")
        found = [make_record(root) for root in (known, cleaned)]
        shutil.rmtree("cleaned/.agent-workspaces")
        for root in (known, cleaned, fresh):
            mount("--bind", root, root)
            mount("-o", "remount,bind,ro", root)
        for root, one in zip((known, cleaned), found):
            assert find_record(root).folder == make_record(root).folder == one.folder
        assert find_record(fresh) is None
        error = refusal(make_record, fresh)
        assert error.exit_status == 3 and error.code == "STORAGE_FAILED", error
        assert "read-only" in error.message and ".agent-workspaces" in error.message, error.message
        names = sorted(os.listdir(f"{state_folder()}/projects"))
        assert len(names) == 3 and names[0] == ".lock", names
        """,
        home,
        *mounting,
    )


def test_a_full_state_folder(home: Path, state: Path, mounting: tuple[str, ...]) -> None:
    play(
        """
        os.makedirs(state_folder())
        mount("-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", state_folder())
        found = make_record(new("a"))
        open(f"{state_folder()}/ballast", "wb").close()
        with open(f"{state_folder()}/ballast", "ab", buffering=0) as file:
            try:
                while file.write(b"x" * 512):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
        fresh = new("fresh")
        error = refusal(make_record, fresh)
        assert (error.code, "the disk is full" in error.message) == ("STORAGE_FAILED", True), error.message
        assert "Free some space" in error.hint
        assert sorted(os.listdir(f"{state_folder()}/projects")) == [".lock", os.path.basename(found.folder)]
        assert not look(fresh).has_id and os.listdir(f"{fresh}/.agent-workspaces") == []
        assert find_record(found.root) == make_record(found.root) == found.replace(change="")
        os.rename("a", "b")
        assert find_record(f"{base}/b").folder == found.folder, "it cannot be noted, but read"
        assert recorded_root(found.folder) == found.root
        os.unlink(f"{state_folder()}/ballast")
        assert find_record(f"{base}/b").change == "moved"
        """,
        home,
        *mounting,
    )


def test_a_read_only_state_folder(home: Path, state: Path, mounting: tuple[str, ...]) -> None:
    play(
        """
        found = make_record(new("a"))
        mount("--bind", state_folder(), state_folder())
        mount("-o", "remount,bind,ro", state_folder())
        assert find_record(found.root) == make_record(found.root) == found.replace(change="")
        error = refusal(make_record, new("b"))
        assert (error.code, "read-only" in error.message) == ("STORAGE_FAILED", True), error.message
        assert "OVERHAND_STATE=/" in error.hint
        os.rename("a", "c")
        assert find_record(f"{base}/c").folder == found.folder
        """,
        home,
        *mounting,
    )


def test_a_state_folder_that_is_a_file(home: Path, state: Path) -> None:
    state.parent.mkdir()
    state.write_text("")
    root = new(home / "a")
    assert find_record(root) is None
    with pytest.raises(StorageFailed, match="Cannot make the state folder") as failed:
        make_record(root)
    assert "OVERHAND_STATE=/" in failed.value.hint
    assert known_roots() == []


def test_a_disk_without_locks(home: Path) -> None:
    """As some network disks: flock itself fails, there and only there."""
    play(
        """
        def no_locks(fd, how):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        found = make_record(new("a"))
        fcntl.flock = no_locks
        error = refusal(make_record, new("b"))
        assert (error.code, "cannot be locked: No locks available" in error.message) == ("REFUSED", True), error
        assert "OVERHAND_STATE=/local/dir" in error.hint
        assert find_record(found.root) == found.replace(change="")
        assert os.listdir("b") == []
        """,
        home,
    )


def test_too_many_open_files_are_no_new_project(home: Path, state: Path) -> None:
    play(
        """
        found = make_record(new("a"))
        os.rename("a", "b")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        held, failed = [], 0
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        while held:  # every number of descriptors that may be left
            try:
                assert make_record(f"{base}/b").folder == found.folder
                break
            except StorageFailed as error:
                assert "too many files are open" in error.message, error.message
                failed += 1
            os.close(held.pop())
        assert failed > 3, failed
        assert [one.folder for one in known_roots()] == [found.folder]
        """,
        home,
    )


@needs_root
def test_a_second_user_has_a_record_of_their_own(street: Path) -> None:
    found = made(street / "a")
    for path in (street / "a", street / "a/.agent-workspaces"):
        path.chmod(0o777)
    program = """
        root = f"{base}/a"
        os.environ["XDG_STATE_HOME"] = f"{base}/theirs"
        assert find_record(root) is None
        before = os.lstat(f"{root}/.agent-workspaces/.project")
        mine = make_record(root)
        assert mine.folder.startswith(f"{base}/theirs/overhand/projects/a-")
        assert os.lstat(f"{root}/.agent-workspaces/.project") == before, "it is the id of the first user"
        assert find_record(root) == make_record(root) == mine.replace(change="")
        shutil.rmtree(f"{root}/.agent-workspaces")
        assert make_record(root).folder == mine.folder
        assert look(root).has_id
        """
    play(ORDINARY + textwrap.dedent(program), street)
    assert find_record(found.root) == make_record(found.root) == found.replace(change="")


@needs_root
@pytest.mark.parametrize("whose", ["state", "projects"])
def test_a_state_folder_of_another_user_is_refused(street: Path, whose: str) -> None:
    """As under `sudo` with HOME kept, also to read: what root would write there, its owner could not change."""
    found = made(street / "a")
    os.chown(street / "state/overhand" / ("" if whose == "state" else "projects"), NOBODY, NOBODY)
    before = tree(street)
    for call in (find_record, make_record):
        with pytest.raises(Refused, match=f"belongs to another user .uid {NOBODY}.") as refused:
            call(found.root)
        assert "OVERHAND_STATE=/" in refused.value.hint
    assert tree(street) == before


@needs_root
def test_sudo_makes_no_state_folder_in_the_home_of_another(street: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (street / "state").mkdir()
    os.chown(street / "state", NOBODY, NOBODY)
    root = new(street / "a")
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert find_record(root) is None
    with pytest.raises(Refused, match="belongs to another user"):
        make_record(root)
    assert os.listdir(street / "state") == []
    monkeypatch.delenv("SUDO_UID")
    assert make_record(root).change == "made", "root in a container whose home is a volume"


SHIM = """
import os, subprocess, sys
place, argv = sys.argv[2], sys.argv[3:]
os.makedirs(place)
with open(f"{place}/shim", "w") as file:
    print(os.getpid(), file=file)
sys.exit(subprocess.run(argv, env={}, cwd="/").returncode)
"""


def test_inside_a_run_the_kernel_finds_the_record(home: Path, tmp_path: Path) -> None:
    """With an empty environment and another home folder a run is no person in an empty record."""
    found, other = made(home / "a"), made(home / "b")
    program = f"""
os.environ["XDG_STATE_HOME"] = {str(tmp_path / "elsewhere")!r}
for call in (find_record, make_record, find_record):
    assert call({found.root!r}).folder == {found.folder!r}
assert find_record({other.root!r}) is None
"""
    place = f"{found.folder}/tasks/worker-20260101-000000/runs/sess_1_aaaaaa"
    inner = [sys.executable, "-c", PRELUDE + program]
    run(sys.executable, "-c", SHIM, "overhand-shim", place, *inner)


FIRST = """
import os, sys
from overhand.record.identity import find_record, make_record
print("ready", flush=True)
sys.stdin.readline()  # all at once
found = make_record(sys.argv[1])
print(found.change, found.folder, flush=True)
assert find_record(sys.argv[1]).folder == found.folder
"""


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.soak)])
def test_eight_first_verbs_at_once(home: Path, state: Path, rounds: int) -> None:
    for number in range(rounds):
        root = new(home / f"p{number}")
        with ExitStack() as stack:
            verbs = [
                stack.enter_context(
                    subprocess.Popen(
                        [sys.executable, "-c", FIRST, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                    )
                )
                for _ in range(8)
            ]
            for verb in verbs:
                assert verb.stdout is not None
                assert verb.stdout.readline() == "ready\n"
            for verb in verbs:
                assert verb.stdin is not None
                verb.stdin.write("\n")
                verb.stdin.flush()
            told = [verb.communicate(timeout=60)[0].rstrip("\n").split(" ", 1) for verb in verbs]
            assert [verb.returncode for verb in verbs] == [0] * 8
        assert sorted(change for change, _ in told) == [""] * 7 + ["made"]
        assert len({folder for _, folder in told}) == 1
        assert os.listdir(f"{root}/.agent-workspaces") == [".project"]
    assert len(records(state)) == rounds
    assert len(os.listdir(state / "projects")) == rounds + 1


@pytest.mark.parametrize("step", ["make", "mark", "copy", "move", "back"])
def test_killed_at_every_moment(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next verb finds the one right record, or makes it, and leaves nothing else behind."""
    base = tmp_path / "kills"
    base.mkdir()
    run(sys.executable, str(KILLED), step, str(base))
    points = sorted(base.iterdir(), key=lambda path: int(path.name))
    assert len(points) > 20
    for point in points:
        monkeypatch.setenv("XDG_STATE_HOME", str(point / "state"))
        state = point / "state/overhand"
        root = str(point / ("old" if step in ("make", "mark") else "new"))
        left = sorted(os.listdir(state / "projects")) if (state / "projects").exists() else []
        first = record_name(str(point / "old"))
        second = record_name(str(point / "new"))
        known = {".lock", first, second, f"{second}-2"}  # the last is a link
        assert all(name in known or name.startswith(".new-") for name in left), left
        found = make_record(root)
        assert find_record(root) == found.replace(change="", before="")
        assert Path(found.folder).name == (record_name(root) if step == "copy" else first), point
        listed = {one.root: (one.folder, one.gone) for one in known_roots()}
        assert listed[root] == (found.folder, False)
        real = {"copy": [first, record_name(root)], "back": [first, record_name(root)]}.get(step, [first])
        assert records(state) == sorted(real), point
        assert sum(not gone for _, gone in listed.values()) == (2 if step == "copy" else 1)
        assert os.listdir(f"{root}/.agent-workspaces") == [".project"]
        assert mark_file(root).read_text() == facts(found)["id"] + "\n"
        assert not [one for one in state.rglob("*") if one.name.endswith(".new") or one.name.startswith(".new")]


def test_finding_opens_one_file_of_the_record_and_imports_little(home: Path) -> None:
    found = made(home / "a")
    program = f"""
import sys
from overhand.record.identity import find_record
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event in ("open", "os.listdir") else None)
found = find_record({found.root!r})
assert opened == [{found.root!r}, ".agent-workspaces", ".project", {found.folder + "/project.json"!r}], opened
heavy = {{"hashlib", "json", "re", "shutil", "subprocess", "typing", "dataclasses", "pathlib"}} & set(sys.modules)
assert not heavy, heavy
"""
    run(sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}")


# the decision itself


ROOT = "/here"
PATHS = st.sampled_from([ROOT, "/p", "/q", "/r"])
IDS = st.sampled_from([letter * 32 for letter in "abc"])
TIMES = st.sampled_from([0, 10**9, 10**9 + 1, 5 * 10**9 + 123_456_789, 5 * 10**9])
INODES = st.sampled_from([(1, 1), (1, 2), (2, 1)])
MARKS = st.builds(
    Mark, id=st.one_of(st.sampled_from(["", UNREADABLE]), IDS), mtime=TIMES, root=st.one_of(st.just(()), INODES)
)
SEEN = st.builds(Mark, id=st.one_of(st.just(""), IDS), mtime=TIMES, root=INODES)
ENTRIES = st.lists(
    st.builds(
        Entry,
        folder=st.sampled_from(["one", "two", "three"]),
        id=IDS,
        paths=st.lists(PATHS, unique=True, max_size=3),
        mark=st.builds(Mark, id=IDS, mtime=TIMES, root=INODES),
        was=st.just([]),
    ),
    unique_by=lambda entry: entry.folder,
    max_size=3,
)
STANDS = st.fixed_dictionaries(dict.fromkeys(("/p", "/q", "/r"), MARKS))


@given(SEEN, ENTRIES, STANDS)
def test_what_every_decision_rests_on(seen: Mark, entries: list[Entry], stands: dict[str, Mark]) -> None:
    verdict, entry = decide(ROOT, seen, entries, stands)
    others = {one.folder: [stands[path] for path in one.paths if path != ROOT] for one in entries}

    def is_same(one: Entry) -> bool:
        return any(mark.root == seen.root for mark in others[one.folder])

    home = [one for one in entries if one.paths[:1] == [ROOT] or (ROOT in one.paths and is_same(one))]
    owners = [one for one in entries if seen.has_id and one.id == seen.id]
    assert (entry is None) == (verdict in ("new", "copied"))
    if entry is None:
        assert not home or owners, "a path that one record has is lost only to the id of another"
        assert not any(is_same(one) for one in owners)
        assert (verdict == "copied") == bool(owners)
    elif verdict in ("moved", "alias"):
        assert entry in owners
        assert entry not in home
        if verdict == "moved":
            assert witness(seen.mtime, entry.mark.mtime)
            assert not any(mark.id in (seen.id, UNREADABLE) for mark in others[entry.folder])
    else:
        assert entry in home
        if verdict == "known":
            assert not seen.has_id or seen.id == entry.id
        elif verdict == "adopted":
            assert seen.has_id
            assert not owners
        else:
            assert verdict == "kept"
            assert owners
            assert entry.mark.root == seen.root
    if home and not seen.has_id:
        assert (verdict, entry) == ("known", home[0]), "the path decides"
    if not seen.has_id:
        assert verdict in ("known", "new"), "without an id nothing is moved"


@given(SEEN, ENTRIES, STANDS)
def test_records_that_are_not_concerned_change_nothing(
    seen: Mark, entries: list[Entry], stands: dict[str, Mark]
) -> None:
    concerned = [one for one in entries if ROOT in one.paths or one.id == seen.id]
    assert decide(ROOT, seen, entries, stands) == decide(ROOT, seen, concerned, stands)


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_the_witness(mtime: int, other: int) -> None:
    assert witness(mtime, mtime)
    assert witness(mtime, other) == witness(other, mtime)
    for unit in (100, 1000, 10**9):
        assert witness(mtime, mtime // unit * unit), "a disk that keeps less"
    if abs(mtime - other) >= 10**9:
        assert not witness(mtime, other)
    if mtime % 100 and other % 100:
        assert witness(mtime, other) == (mtime == other)


@given(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), max_size=60))
def test_the_name_of_a_record_is_safe(name: str) -> None:
    made = record_name(f"/home/{name}")
    text, _, digits = made.rpartition("-")
    assert 1 <= len(text) <= 24
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert not text.startswith((".", "-"))
    assert digits == f"{crc32(f'/home/{name}'.encode()):08x}"


MOUNTS = """\
overlay / overlay rw 0 0
tmpfs /home tmpfs rw 0 0
server:/homes /home/me nfs4 rw 0 0
share /home/me/My\\040Work 9p rw 0 0
/dev/sda1 /home/me/local ext4 rw 0 0
//server/share /mnt cifs rw 0 0
/dev/sdb1 /mnt ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "overlay"),
        ("/homes", "overlay"),
        ("/home/you", "tmpfs"),
        ("/home/me", "nfs4"),
        ("/home/me/.local/state", "nfs4"),
        ("/home/meadow", "tmpfs"),
        ("/home/me/My Work/x", "9p"),
        ("/home/me/local/state", "ext4"),
        ("/mnt/x", "ext4"),
    ],
)
def test_the_kind_of_a_disk(path: str, kind: str) -> None:
    assert kind_of_disk(path, MOUNTS) == kind


def test_the_kind_of_a_real_disk(mounting: tuple[str, ...], tmp_path: Path) -> None:
    place = tmp_path / "My Work"
    (place / "x").mkdir(parents=True)
    program = "import sys; from overhand.verbs.setup import file_system; print(file_system(sys.argv[1]))"
    script = 'mount -t ramfs none "$1" && exec "$2" -c "$3" "$1/x"'
    ran = subprocess.run([*mounting, "sh", "-c", script, "sh", place, sys.executable, program], capture_output=True,
                         text=True, check=False)  # fmt: skip
    assert ran.stdout == "ramfs\n", ran.stderr
