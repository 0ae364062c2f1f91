"""The user edits a file while it is being landed: no text is lost, and the landing is whole or refused.

Each moment of a landing is forced: the edit happens just before one of its steps. Then edits happen at random moments,
by processes of their own, and so do git commands of the user's.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from overhand.errors import Refused
from overhand.trees import files, land, overlap, recover
from support.soak import lots
from trees.ground import Ground, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from overhand.trees.land import Landed
    from support.tally import Tally
    from trees.ground import Content

MINE = "this is mine\n"
FILES: dict[str, Content] = {f"{name}.txt": f"{name}\n" for name in ("a", "b", "c", "gone", "other")}
WORK: dict[str, Content] = {"a.txt": "A\n", "b.txt": "B\n", "c.txt": "C\n", "gone.txt": None, "new.txt": "new\n"}


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    ground = Ground.make(tmp_path_factory.mktemp("races") / "pattern", FILES)
    ground.work(WORK)
    ground.prepare()
    return ground


@pytest.fixture
def ground(pattern: Ground, tmp_path: Path) -> Ground:
    return pattern.copy(tmp_path / "ground")


# edits


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write(MINE)


def replace(path: Path) -> None:
    """As `sed -i` and most editors do."""
    spare = path.with_suffix(".spare")
    spare.write_text((path.read_text() if path.exists() else "") + MINE)
    spare.rename(path)


def truncate(path: Path) -> None:
    path.write_text(MINE)


@dataclass
class Writer:
    """A process that had the file open before the landing began."""

    path: Path

    def __post_init__(self) -> None:
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)

    def __call__(self, _: Path) -> None:
        os.write(self.fd, MINE.encode())

    def close(self) -> None:
        os.close(self.fd)


# moments: what is wrapped is about to happen when the edit is made

MOMENTS: dict[str, tuple[Any, str]] = {
    "before anything is marked": (overlap.Overlap, "run"),
    "after all is marked": (overlap.Overlap, "_read_index"),
    "after git's test": (overlap.Overlap, "_reason"),
    "before the objects": (land, "give_objects"),
    "before the journal": (land._Attempt, "_begin"),
    "before the first file": (files.Files, "forward"),
    "before an exchange": (files.Files, "_swap"),
    "before a move": (files.Files, "_move"),
    "before the index": (recover.Carrier, "_put_index"),
    "before the ref": (recover.Carrier, "_move_ref"),
    "before the end": (recover.Carrier, "_end"),
    "before the old files go": (files.Files, "finish"),
}


def at(monkeypatch: pytest.MonkeyPatch, moment: str, do: Callable[[], None]) -> None:
    """Do it once, just before this step."""
    owner, name = MOMENTS[moment]
    step = getattr(owner, name)
    left = [do]

    def interrupted(*args: Any, **options: Any) -> Any:
        if left:
            left.pop()()
        return step(*args, **options)

    monkeypatch.setattr(owner, name, interrupted)


def try_to_land(ground: Ground) -> Landed | None:
    try:
        return land.land_work(ground.landing((ground.folder / "N").read_text()))
    except Refused as refused:
        if "nothing was landed" not in refused.message.lower():
            raise
        return None


def kept(ground: Ground) -> str:
    """Everything that was kept of what the user wrote."""
    late = ground.landings / "late"
    return "".join(path.read_text() for path in late.rglob("*") if path.is_file()) if late.exists() else ""


def is_whole(ground: Ground, *edited: str) -> bool:
    """Whether all files but the edited ones are new; all of them must be, or none."""
    found = {name: (ground.top / name).read_text() if (ground.top / name).exists() else None for name in WORK}
    rest = [name for name in WORK if name not in edited]
    landed = ground.git("rev-parse", "HEAD") == (ground.folder / "N").read_text()
    for name in rest:
        assert found[name] == (WORK[name] if landed else FILES.get(name)), (name, landed, found)
    assert [name for name in ground.left() if name != "late"] == []
    return landed


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("edit", [append, replace, truncate])
@pytest.mark.parametrize("name", ["a.txt", "c.txt", "gone.txt", "new.txt"])
def test_an_edit_at_every_moment(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, moment: str, edit: Callable[[Path], None], name: str
) -> None:
    path = ground.top / name
    at(monkeypatch, moment, lambda: edit(path))
    landed = try_to_land(ground)
    assert is_whole(ground, name) == bool(landed)
    assert MINE in (path.read_text() if path.exists() else "") + kept(ground)
    if landed and name not in ("gone.txt", "new.txt") and not kept(ground):
        assert name in ground.git("status", "--porcelain")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["a.txt", "gone.txt"])
def test_a_writer_with_an_open_descriptor(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, moment: str, name: str
) -> None:
    path = ground.top / name
    writer = Writer(path)
    at(monkeypatch, moment, lambda: writer(path))
    landed = try_to_land(ground)
    os.write(writer.fd, b"and later\n")
    writer.close()
    recovered = ground.recover()
    assert is_whole(ground, name) == bool(landed)
    text = (path.read_text() if path.exists() else "") + kept(ground)
    assert MINE in text
    assert "and later\n" in text
    named = [*(landed.late if landed else ()), *(late for one in recovered for late in one.late)]
    assert bool(named) == bool(kept(ground))


@pytest.mark.parametrize("name", ["a.txt", "gone.txt"])
def test_a_writer_that_writes_when_all_is_over(ground: Ground, name: str) -> None:
    """The file that it has open is not removed before it closes it."""
    writer = Writer(ground.top / name)
    landed = try_to_land(ground)
    assert landed
    assert landed.late == ()
    os.write(writer.fd, MINE.encode())
    assert ground.recover() == []
    writer.close()
    (recovered,) = ground.recover()
    assert [path for path, _ in recovered.late] == [name]
    assert kept(ground).endswith(MINE)
    assert is_whole(ground)


@pytest.mark.parametrize("edit", [append, replace, truncate])
def test_an_edit_in_the_moment_of_the_exchange(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Path], None]
) -> None:
    """The file that comes out is not the one that was tested: it is put back, and nothing is landed."""
    path = ground.top / "a.txt"
    at(monkeypatch, "before an exchange", lambda: edit(path))
    assert try_to_land(ground) is None
    assert path.read_text() == (MINE if edit is truncate else f"a\n{MINE}")
    assert not is_whole(ground, "a.txt")
    assert kept(ground) == ""


def prune(ground: Ground) -> None:
    ground.git("gc", "-q", "--prune=now")


@pytest.mark.parametrize("moment", ["before the first file", "before the ref"])
def test_a_gc_that_prunes_at_once(ground: Ground, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """No ref names the new objects yet."""
    at(monkeypatch, moment, lambda: prune(ground))
    assert try_to_land(ground)
    assert is_whole(ground)
    assert ground.git("fsck", "--strict") == ""


@pytest.mark.parametrize("moment", ["after git's test", "before the first file", "before an exchange"])
def test_two_files_at_once(ground: Ground, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    paths = [ground.top / name for name in ("b.txt", "c.txt")]

    def both() -> None:
        for path in paths:
            append(path)

    at(monkeypatch, moment, both)
    assert try_to_land(ground) is None
    assert not is_whole(ground, "b.txt", "c.txt")
    assert [path.read_text() for path in paths] == [f"b\n{MINE}", f"c\n{MINE}"]


@pytest.mark.parametrize("moment", ["before the first file", "before an exchange", "before a move"])
def test_a_file_appears_where_one_is_to_be_added(ground: Ground, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    path = ground.top / "new.txt"
    at(monkeypatch, moment, lambda: put(ground.top, {"new.txt": MINE}))
    assert try_to_land(ground) is None
    assert path.read_text() == MINE
    assert not is_whole(ground, "new.txt")


def test_the_user_commits_although_the_index_is_locked(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """With plumbing a ref can be moved behind git's own lock: then all is taken back."""

    def commit() -> None:
        tree = ground.git("rev-parse", "HEAD^{tree}")
        ground.git("update-ref", "HEAD", ground.git("commit-tree", "-p", "HEAD", "-m", "mine", tree))

    at(monkeypatch, "before the ref", commit)
    assert try_to_land(ground) is None
    assert not is_whole(ground)
    assert ground.git("log", "-1", "--format=%s") == "mine"
    assert ground.git("status", "--porcelain") == ""


# at random moments

EDITOR = """
import os, random, sys
how, seed, *paths = sys.argv[1:]
dice = random.Random(seed)
fds = [os.open(path, os.O_WRONLY | os.O_APPEND) for path in paths] if how == "open" else []
print("ready", flush=True)
sys.stdin.readline()
for _ in range(dice.randrange(0, 60_000)):
    os.getpid()
for number, path in enumerate(paths):
    text = "this is mine\\n"
    if how == "append":
        with open(path, "a") as file:
            file.write(text)
    elif how == "replace":
        with open(path) as file:
            text = file.read() + text
        with open(path + ".spare", "w") as file:
            file.write(text)
        os.rename(path + ".spare", path)
    else:
        os.write(fds[number], text.encode())
"""


@pytest.mark.parametrize("lot", lots(10))
@pytest.mark.parametrize("how", ["append", "replace", "open"])
def test_edits_at_random_moments(pattern: Ground, tmp_path: Path, how: str, lot: int, tally: Tally) -> None:
    """Of a hundred and twenty in all lots, none is lost."""
    for number in range(4):
        seed = f"{how} {lot} {number}"
        ground = pattern.copy(tmp_path / f"ground{number}")
        names = ["a.txt", "c.txt"] if number % 2 else ["b.txt"]
        paths = [ground.top / name for name in names]
        words = [sys.executable, "-c", EDITOR, how, seed, *map(str, paths)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as editor:
            assert editor.stdin is not None
            assert editor.stdout is not None
            assert editor.stdout.readline() == "ready\n"
            editor.stdin.write("go\n")
            editor.stdin.flush()
            landed = try_to_land(ground)
        ground.recover()
        assert is_whole(ground, *names) == bool(landed)
        text = kept(ground)
        for path in paths:
            found = path.read_text()
            assert MINE in found + text, (seed, landed, found, text)
    tally("Edits racing with a landing", 4)


COMMANDS = {
    "add": "git add other.txt",
    "commit": "git commit -q -m mine --allow-empty",
    "switch": "git switch -q -c side",
    "stash": "git stash -q; git stash pop -q",
    "reset": "git reset -q",
    "checkout": "git checkout -q -- other.txt",
    "gc": "git gc -q --prune=now",
    "pack-refs": "git pack-refs --all",
}


@pytest.mark.parametrize("lot", lots(5))
@pytest.mark.parametrize("name", COMMANDS)
def test_git_commands_of_the_user(pattern: Ground, tmp_path: Path, name: str, lot: int, tally: Tally) -> None:
    """Landed or refused whole; theirs works, or says that the index is locked."""
    ground = pattern.copy(tmp_path / "ground")
    put(ground.top, {"other.txt": "edited\n", "untracked.txt": "untracked\n"})
    wait = random.Random(f"{name} {lot}").randrange(0, 3000)
    script = f"read _; i=0; while [ $i -lt {wait} ]; do i=$((i+1)); done; {COMMANDS[name]}"
    with subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=ground.top,
        env=ground.environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as user:
        assert user.stdin is not None
        user.stdin.write("go\n")
        user.stdin.flush()
        landed = try_to_land(ground)
        said = user.communicate()[1]
    assert user.returncode == 0 or "lock" in said or "cannot" in said.lower(), said
    ground.recover()
    new = (ground.folder / "N").read_text()
    assert (new in ground.git("rev-list", "--all").split()) == bool(landed)
    for path, content in WORK.items():
        found = (ground.top / path).read_text() if (ground.top / path).exists() else None
        assert found == (content if landed else FILES.get(path)), (path, landed)
    assert (ground.top / "untracked.txt").read_text() == "untracked\n"
    expected = "other\n" if name == "checkout" and user.returncode == 0 else "edited\n"
    stashed = ground.git("stash", "show", "-p", check=False)
    assert (ground.top / "other.txt").read_text() == expected or "+edited" in stashed
    assert ground.left() == []
    assert ground.git("fsck", "--strict", "--no-dangling") == ""
    tally("Git commands racing with a landing", 1)
