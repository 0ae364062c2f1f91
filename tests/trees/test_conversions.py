"""Files arrive as git itself would check them out: compared with `git merge --ff-only` in a copy of the checkout."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from overhand.trees.land import land_work
from trees.ground import Ground, Link, Program, put

if TYPE_CHECKING:
    from pathlib import Path

    from trees.ground import Content


def both(ground: Ground, folder: Path, *settings: str) -> tuple[Ground, Ground]:
    """Land in one copy, merge with plain git in another."""
    for setting in settings:
        ground.git("config", *setting.split("=", 1))
    commit = ground.prepare()
    ours, plain = ground.copy(folder / "ours"), ground.copy(folder / "plain")
    land_work(ours.landing(commit))
    alternates = plain.top / ".git/objects/info/alternates"
    alternates.write_text(f"{plain.ours}/objects\n")
    plain.git("merge", "-q", "--ff-only", commit)
    return ours, plain


def assert_alike(ours: Ground, plain: Ground) -> None:
    mine, theirs = ours.state(), plain.state()
    for name in ("files", "index", "status", "head", "branch"):
        assert mine[name] == theirs[name], name
    assert ours.left() == []


SETTINGS = [
    (),
    ("core.autocrlf=true",),
    ("core.autocrlf=input",),
    ("core.eol=crlf",),
    ("core.fileMode=false",),
    ("core.symlinks=true",),
    ("core.trustctime=false", "core.checkStat=minimal"),
    ("core.splitIndex=true",),
    ("core.untrackedCache=true",),
    ("index.version=4",),
    ("checkout.workers=0", "checkout.thresholdForParallelism=1"),
]
TEXTS: dict[str, Content] = {
    "plain.txt": "1\n2\n",
    "windows.txt": "1\r\n2\r\n",
    "mixed.txt": "1\n2\r\n",
    "bytes.bin": b"\0\r\n\n\xff",
    "ident.c": "/* $Id$ */\n",
    "wide.u16": "wide\n",
    "forced.crlf": "1\n2\n",
    "run.sh": "#!/bin/sh\n",
    "link": Link("plain.txt"),
    ".gitattributes": "*.crlf text eol=crlf\n*.c ident\n*.bin binary\n",
    "sub/.gitattributes": "*.txt text eol=crlf\n",
    "sub/s.txt": "s\n",
}
CHANGED: dict[str, Content] = {
    "plain.txt": "1\n2\n3\n",
    "windows.txt": "1\r\n2\r\n3\r\n",
    "mixed.txt": "1\n2\r\n3\n",
    "bytes.bin": b"\0\r\n\n\xfe",
    "ident.c": "/* $Id$ */\nint a;\n",
    "forced.crlf": "1\n2\n3\n",
    "run.sh": Program("#!/bin/sh\n"),
    "link": Link("mixed.txt"),
    "sub/s.txt": "s\nt\n",
    "sub/new.txt": "new\n",
    "more/.gitattributes": "*.txt text eol=crlf\n",
    "more/m.txt": "1\n2\n",
}


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: ",".join(one) or "none")
def test_conversions(tmp_path: Path, settings: tuple[str, ...]) -> None:
    ground = Ground.make(tmp_path / "ground", TEXTS)
    ground.work(CHANGED)
    ours, plain = both(ground, tmp_path, *settings)
    assert_alike(ours, plain)
    assert b"\r\n" in (ours.top / "more/m.txt").read_bytes()


def test_attributes_that_arrive_with_the_work(tmp_path: Path) -> None:
    """The new rules hold for what arrives, and what is not touched stays as it is."""
    ground = Ground.make(tmp_path / "ground", {"a.txt": "1\n", "b.txt": "1\n", "wide.u16": "x\n"})
    ground.work({".gitattributes": "*.txt text eol=crlf\n", "a.txt": "1\n2\n"})
    assert_alike(*both(ground, tmp_path))


def test_an_encoding_of_the_working_tree(tmp_path: Path) -> None:
    ground = Ground.make(tmp_path / "ground", {"a.txt": "1\n"})
    ground.work({"a.txt": "2\n"})
    tree = ground.our_git
    blob = tree.run("hash-object", "-w", "--stdin", given=b"wide\n").decode().strip()
    rules = (
        tree.run("hash-object", "-w", "--stdin", given=b"*.u16 text working-tree-encoding=UTF-16LE\n").decode().strip()
    )
    entries = f"100644 blob {rules}\t.gitattributes\n100644 blob {blob}\ta.u16\n"
    (ground.folder / "W").write_text(tree.run("mktree", given=entries.encode()).decode().strip())
    ours, plain = both(ground, tmp_path)
    assert_alike(ours, plain)
    assert (ours.top / "a.u16").read_bytes() == "wide\n".encode("utf-16-le")


def test_a_filter_of_the_users(tmp_path: Path) -> None:
    ground = Ground.make(tmp_path / "ground", {".gitattributes": "*.rot filter=rot\n", "a.txt": "1\n"})
    with (ground.home / ".gitconfig").open("a") as file:
        file.write('[filter "rot"]\n\tclean = tr a-m n-z\n\tsmudge = tr n-z a-m\n\trequired\n')
    ground.work({"a.txt": "2\n"})
    index = ground.our_git
    blob = index.run("hash-object", "-w", "--stdin", given=b"nop\n").decode().strip()
    rest = index.run("ls-tree", "-z", (ground.folder / "W").read_text())
    entries = rest + f"100644 blob {blob}\tnew.rot\0".encode()
    (ground.folder / "W").write_text(index.run("mktree", "-z", given=entries).decode().strip())
    ours, plain = both(ground, tmp_path)
    assert_alike(ours, plain)
    assert (ours.top / "new.rot").read_text() == "abc\n"


FILES: dict[str, Content] = {
    "top.txt": "t\n",
    "in/a.txt": "a\n",
    "in/gone.txt": "g\n",
    "out/b.txt": "b\n",
    "out/gone.txt": "g\n",
    "out/deep/c.txt": "c\n",
}
WORK: dict[str, Content] = {
    "top.txt": "T\n",
    "in/a.txt": "A\n",
    "in/gone.txt": None,
    "in/new.txt": "n\n",
    "out/b.txt": "B\n",
    "out/gone.txt": None,
    "out/new.txt": "n\n",
    "elsewhere/new.txt": "n\n",
}


@pytest.mark.parametrize("how", [("--cone",), ("--no-cone",), ("--cone", "--sparse-index")])
def test_a_sparse_checkout_stays_sparse(tmp_path: Path, how: tuple[str, ...]) -> None:
    ground = Ground.make(tmp_path / "ground", FILES)
    ground.work(WORK)
    ground.git("sparse-checkout", "set", *how, *(("in",) if "--cone" in how else ("/top.txt", "/in/")))
    ours, plain = both(ground, tmp_path)
    assert_alike(ours, plain)
    assert not (ours.top / "out").exists()
    assert not (ours.top / "elsewhere").exists()
    assert (ours.top / "in/new.txt").read_text() == "n\n"


def test_a_file_that_the_user_keeps_out_of_git_is_not_touched(tmp_path: Path) -> None:
    """`git update-index --skip-worktree`: the index moves on, the bit and the user's own text stay."""
    ground = Ground.make(tmp_path / "ground", FILES)
    ground.work(WORK)
    ground.git("update-index", "--skip-worktree", "top.txt")
    put(ground.top, {"top.txt": "my own\n"})
    ground.land()
    assert (ground.top / "top.txt").read_text() == "my own\n"
    assert "S 100644 " in ground.git("ls-files", "-s", "-v", "top.txt")
    assert ground.git("status", "--porcelain") == ""
    assert ground.git("show", "HEAD:top.txt") == "T"


def test_a_submodule_is_moved_in_the_index_only(tmp_path: Path) -> None:
    ground = Ground.make(tmp_path / "ground", FILES)
    inner = Ground.make(tmp_path / "inner", {"i.txt": "i\n"})
    allow = ("-c", "protocol.file.allow=always")
    ground.git(*allow, "submodule", "add", "-q", str(inner.top), "lib")
    ground.commit("with a submodule")
    first = ground.git("rev-parse", "HEAD:lib")
    put(inner.top, {"i.txt": "I\n"})
    second = inner.commit("more")
    ground.start()
    ground.work({"top.txt": "T\n"})
    rows = ground.our_git.run("ls-tree", "-z", (ground.folder / "W").read_text())
    moved = rows.replace(first.encode(), second.encode())
    (ground.folder / "W").write_text(ground.our_git.run("mktree", "-z", "--missing", given=moved).decode().strip())
    ground.land()
    assert ground.git("rev-parse", "HEAD:lib") == second
    assert ground.git("-C", "lib", "rev-parse", "HEAD") == first
    assert ground.git("ls-files", "-s", "lib").split()[1] == second
    assert (ground.top / "top.txt").read_text() == "T\n"


def test_a_large_file_is_copied_from_our_store(tmp_path: Path) -> None:
    """A filter that does what git-lfs does: the pointer is in git, the content in the git dir's own store."""
    ground = large_files(tmp_path, smudge=f"sh {smudge(tmp_path)}")
    assert (ground.top / "big.bin").read_text() == "large\n"


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_a_large_file_with_git_lfs(tmp_path: Path) -> None:
    ground = large_files(tmp_path, smudge="git-lfs smudge -- %f")
    assert (ground.top / "big.bin").read_text() == "large\n"
    assert ground.git("status", "--porcelain") == ""


def smudge(folder: Path) -> Path:
    script = folder / "smudge"
    script.write_text("""oid=$(sed -n "s/^oid sha256://p")
cat "$GIT_DIR/lfs/objects/$(echo "$oid" | cut -c1-2)/$(echo "$oid" | cut -c3-4)/$oid"
""")
    return script


def large_files(folder: Path, smudge: str) -> Ground:
    import hashlib

    name = hashlib.sha256(b"large\n").hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize 6\n"
    ground = Ground.make(folder / "ground", {".gitattributes": "*.bin filter=lfs -text\n", "a.txt": "1\n"})
    ground.start()
    ground.work({"a.txt": "2\n", "big.bin": pointer})
    stored = ground.ours / f"lfs/objects/{name[:2]}/{name[2:4]}/{name}"
    stored.parent.mkdir(parents=True)
    stored.write_text("large\n")
    ground.git("config", "--global", "filter.lfs.smudge", smudge)
    ground.git("config", "--global", "filter.lfs.clean", f"cat >/dev/null; printf '{pointer}'".replace("\n", "\\n"))
    ground.land()
    return ground
