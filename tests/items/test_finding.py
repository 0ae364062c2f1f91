"""Finding tags in a tree: with ripgrep and without it the answer is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overhand.documents import scan_tags
from overhand.errors import NotFound
from overhand.items import find, is_text, search_tags

ITEM = "# T\n**Tags**: #needs-fix #P1\n\n- x #needs-docs\n`#needs-fix`\n"
RIPGREP = shutil.which("rg", path=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")  # a dev dependency
NEEDED = pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")
HOW = ["walk", pytest.param("rg", marks=NEEDED)]


@pytest.fixture(params=HOW)
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of our own, with ripgrep on PATH or not."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    if request.param == "rg":
        (programs / "rg").symlink_to(str(RIPGREP))
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}:{os.defpath}")
    root = tmp_path / "tree"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        write(root, name, text)


def write(root: Path, name: str, text: str | bytes = ITEM) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def found(where: str = ".", pattern: str = "#needs-*", *, all: bool = False) -> list[str]:
    return [path for path, _, _ in search_tags(where, pattern, all=all)]


def test_the_tags_in_order_of_their_paths(tree: Path) -> None:
    for name in ("b.md", "a/c.md", "a.md", "a-b.md", "z/y/x.md", "not.txt", "no.mdx"):
        write(tree, name)
    hits = search_tags(".", "#needs-*")
    assert [path for path, _, _ in hits] == ["a/c.md", "a-b.md", "a.md", "b.md", "z/y/x.md"]
    assert [(tag.name, tag.line, tag.on_tags_line) for tag in hits[0][2]] == [
        ("#needs-fix", 2, True),
        ("#needs-docs", 4, False),
    ]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("#needs-*", ["#needs-fix", "#needs-docs"]), ("#needs-fix", ["#needs-fix"]), ("#needs-fi", []),
        ("#P?", ["#P1"]),
        ("#*-fix", ["#needs-fix"]), ("#*", ["#needs-fix", "#P1", "#needs-docs"]), ("#needs-[d]*", ["#needs-docs"]),
        ("#NEEDS-*", []), ("#needs-fix*", ["#needs-fix"]),
    ],
)  # fmt: skip
def test_patterns(tree: Path, pattern: str, names: list[str]) -> None:
    write(tree, "a.md")
    assert [tag.name for _, _, tags in search_tags(".", pattern) for tag in tags] == names


ODD = [
    b"#needs-fix", b"\xef\xbb\xbf#needs-fix a\n", b"a\r\n\r\n- #needs-fix #n\r\n```\r\n#needs-a\r\n```\r\n#needs-b",
    b"x#needs-a (#needs-b) [a](#needs-c) \xc3\xbc#needs-d \\#needs-e #needs- #needs-- #needs-\xc3\xbc #needs-\xff\n",
    b"---\nx: #needs-a\n---\n#needs-b\n", b"a `#needs-a\n#needs-b` #needs-c\n\n`#needs-d #needs-e\n", b"#needs-a\0\n",
    b"<!-- #needs-a\n#needs-b --> #needs-c\n", b"    ```\n    #needs-a\n", b"```\n#needs-a\n``` #needs-b",
    b"```a#needs-c`",
    b"#needs-" + b"y" * 200 + b" #needs-z\n", b"q" * 8100 + b"\0 #needs-a\n", b"#", b"a #\n#needs-x:#needs-y\n",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ["#needs-*", "#needs-fix", "#needs-?", "#*", "#ne*", "#needs"])
def test_odd_files_are_found_as_a_scan_of_each_finds_them(tree: Path, pattern: str) -> None:
    want: dict[str, list[tuple[str, int]]] = {}
    for number, raw in enumerate(ODD):
        write(tree, path := f"d{number % 3}/{number}.md", raw)
        fits = [(tag.name, tag.line) for tag in scan_tags(raw) if fnmatchcase(tag.name, pattern)]
        if fits and is_text(raw):
            want[path] = fits
    hits = search_tags(".", pattern)
    assert {path: [(tag.name, tag.line) for tag in found] for path, _, found in hits} == want


@pytest.mark.parametrize("new", [b"\n\n`#needs-fix`\n", b"a #needs-fix b\n\n", b"no\n", b""])
def test_a_file_that_changes_under_ripgrep_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bytes
) -> None:
    """A ripgrep that names a file for an earlier text."""
    if RIPGREP is None:
        pytest.skip("ripgrep is not installed")
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    (tmp_path / "new").write_bytes(new)
    program.write_text(f'#!/bin/sh\n{RIPGREP} "$@"\ncp {tmp_path}/new a.md\n')
    program.chmod(0o755)
    root = tmp_path / "tree"
    write(root, "a.md", b"a\n#needs-fix c\n\n#needs-docs")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    names = [tag.name for _, _, found in search_tags(".", "#needs-*") for tag in found]
    assert names == [tag.name for tag in scan_tags(new)]


def test_gitignore_at_every_level(tree: Path) -> None:
    put(tree, **{".gitignore": "build/\n*.tmp.md\n/top.md\n!keep.tmp.md\ndeep/**/x.md\n"})
    put(tree, **{"sub/.gitignore": "own.md\n!y.tmp.md\n", "sub/under/.gitignore": "*\n!this.md\n"})
    kept = ["a.md", "keep.tmp.md", "sub/top.md", "sub/y.tmp.md", "sub/under/this.md", "deep/y.md", "own.md"]
    left = ["build/a.md", "sub/build/a.md", "z.tmp.md", "top.md", "sub/own.md", "sub/under/that.md", "deep/a/b/x.md"]
    for name in kept + left:
        write(tree, name)
    assert sorted(found()) == sorted(kept)
    assert sorted(found("sub")) == sorted(name for name in kept if name.startswith("sub/"))
    assert sorted(found(all=True)) == sorted(kept + left)


def test_what_is_asked_for_by_name_is_searched_though_it_is_left_out(tree: Path) -> None:
    put(tree, **{".gitignore": "build/\n*.tmp.md\n"})
    for name in ("build/a.md", "build/b.tmp.md", "build/sub/c.md", "d.md"):
        write(tree, name)
    assert found() == ["d.md"]
    assert found("build") == ["build/a.md", "build/sub/c.md"]


def test_the_list_of_the_repository_itself_and_other_repositories_inside(tree: Path) -> None:
    git = {"PATH": os.defpath, "HOME": str(tree)}
    subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True, env=git)
    put(tree, **{".git/info/exclude": "private.md\n", ".gitignore": "half.md\n", "inner/.gitignore": "own.md\n"})
    subprocess.run(["git", "init", "-q", "inner"], cwd=tree, check=True, env=git)
    for name in ("private.md", "half.md", "own.md", "inner/private.md", "inner/half.md", "inner/own.md"):
        write(tree, name)
    assert found() == ["inner/half.md", "inner/private.md", "own.md"]


def test_hidden_folders_links_and_what_is_ours_are_left_out(tree: Path) -> None:
    for name in (".obsidian/a.md", ".agent-workspaces/t/HANDOFF.md", "sub/.agent-workspaces/b.md", "real/a.md"):
        write(tree, name)
    (tree / "loop").symlink_to(tree)
    (tree / "real/up").symlink_to("..")
    (tree / "link.md").symlink_to("real/a.md")
    (tree / "dead.md").symlink_to("nowhere.md")
    (tree / "folder.md").mkdir()
    os.mkfifo(tree / "pipe.md")
    assert found(all=True) == ["real/a.md"]
    write(tree, ".gitignore", "!.agent-workspaces\n!.obsidian\n")
    assert found() == [".obsidian/a.md", "real/a.md"]
    assert found(".obsidian") == [".obsidian/a.md"]
    assert found("link.md") == ["link.md"]
    said: list[str] = []
    assert search_tags(".agent-workspaces", "#needs-*", warn=said.append) == []
    assert "not searched" in said[0]


def test_what_is_not_text_is_told(tree: Path) -> None:
    write(tree, "a.md")
    write(tree, "picture.md", b"\x89PNG\r\n\0\0 #needs-fix \xff")
    write(tree, "late.md", b"x" * 9000 + b"\n#needs-fix \0\xff\n")
    said: list[str] = []
    assert [path for path, _, _ in search_tags(".", "#needs-*", warn=said.append)] == ["a.md", "late.md"]
    assert said == ["picture.md is not text; it was not searched."]


def test_what_cannot_be_read_is_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything can be read as root, so a user without rights looks."""
    if os.getuid():
        pytest.skip("only root can look as somebody else")
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.chdir(folder)
        root = Path(folder)
        root.chmod(0o755)
        for name in ("a.md", "secret.md", "closed/b.md"):
            write(root, name)
        (root / "secret.md").chmod(0)
        (root / "closed").chmod(0)
        code = (
            "import os, overhand.documents.tags; from overhand.items import find; said = []; "
            "os.setuid(65534); found = find.search_tags('.', '#needs-*', warn=said.append); "
            "print([hit[0] for hit in found], sorted(said))"
        )
        told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        monkeypatch.chdir(tree)
    lost = [f"{name} cannot be read (permission denied); it was not searched." for name in ("closed", "secret.md")]
    assert told == f"['a.md'] {lost}\n"


def test_what_is_gone_meanwhile_is_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ripgrep that names a file which is gone when it ends, and one that complains of a folder that is."""
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    lost = "rg: ./gone: No such file or directory (os error 2)"
    for script in ("printf './gone.md\\0'", f"echo '{lost}' >&2\nexit 2"):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert (search_tags(".", "#needs-*", warn=said.append), said) == ([], [])


def test_strange_names(tree: Path) -> None:
    names = ["a b.md", "ü.md", "-x.md", "a:1.md", "new\nline.md", os.fsdecode(b"\xff.md"), "'q\".md", "#needs-x.md"]
    for name in names:
        write(tree, name)
    assert sorted(found()) == sorted(names)


def test_absent(tree: Path) -> None:
    with pytest.raises(NotFound, match="no file or folder nope"):
        search_tags("nope", "#x")
    assert found() == []


def test_a_broken_ripgrep_is_replaced_by_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf 'a.md\\0'\necho 'error: unknown flag' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a.md")
    write(tmp_path, "b.md")
    assert found() == ["a.md", "b.md"]
    program.write_text("#!/bin/sh\nprintf './a.md\\0001:2'\n")
    assert found() == ["a.md", "b.md"]
    program.write_text("no program at all")
    assert found() == ["a.md", "b.md"]


RULES = st.lists(
    st.sampled_from(
        ["a", "b/", "/a", "a/b", "*.md", "!a.md", "**/b", "a/**", "a/**/b.md", "?.md", "[ab].md", "[!a]*", "\\!a",
         "# c",
         "", "b*", "*/a.md", "!b/", "a.md ", "**", "!**/a.md", "a/*", "[a-", "!/b/a.md", "*", "!*/",
         "!*.md", "*/", "**/", "/**", "!a", "!b", "a/*/", "!a/b", "a/**/", "//", "!", "a\\\\", "b/b", "*.md/"]
    ),
    max_size=4,
)  # fmt: skip
PATHS = ["a.md", "b.md", "a/a.md", "a/b.md", "b/a.md", "a/b/b.md", "b/b/a.md", "c/a/b/a.md", "!a/c.md", "ab/c.md"]


@settings(max_examples=150, deadline=None)
@given(RULES, RULES)
def test_rules_are_git_s(tmp_path_factory: pytest.TempPathFactory, top: list[str], inner: list[str]) -> None:
    """git itself is the oracle."""
    root = tmp_path_factory.mktemp("rules")
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for path in PATHS:
        write(root, path)
    put(root, **{".gitignore": "\n".join(top), "a/.gitignore": "\n".join(inner)})
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-zco", "--exclude-standard", "*.md"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    want = sorted(path for path in listed.split("\0") if path)
    assert sorted(path.removeprefix(f"{root}/") for path in find.holding(str(root), "#")) == want
    shutil.rmtree(root)


def test_rules_of_a_worktree(tmp_path: Path) -> None:
    """Its `.git` is a file; the list is in the repository that it belongs to."""
    who = ["git", "-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run([*who, "init", "-q", "one"], cwd=tmp_path, check=True)
    subprocess.run([*who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path / "one", check=True)
    subprocess.run([*who, "worktree", "add", "-q", "../two"], cwd=tmp_path / "one", check=True)
    write(tmp_path, "one/.git/info/exclude", "private.md\n")
    rules = find.ignored(str(tmp_path / "two"))
    assert rules(f"{tmp_path}/two/private.md", is_folder=False) is True
    assert rules(f"{tmp_path}/two/other.md", is_folder=False) is None
