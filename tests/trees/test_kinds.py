"""Whatever kind of repository the user has: the tree is right, or it is refused with the reason."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.errors import GitFailed, NotFound, Refused
from overhand.trees.create import create_tree
from overhand.trees.keep import follow_project
from overhand.trees.part import take_part
from support.trees import Picture, files_of

if TYPE_CHECKING:
    from overhand.trees.tree import Tree
    from support.trees import Ground


def is_right(ground: Ground, tree: Tree, *, top: Path | None = None, without: tuple[str, ...] = ()) -> None:
    """The tree has the checkout's files, is clean for git, and W of the untouched tree is its start."""
    left_out = {"hook-ran.log", *without}
    there = {name: data for name, data in files_of(top or ground.top).items() if name not in left_out}
    assert files_of(tree.path) == there
    assert ground.git("status", "--porcelain", cwd=tree.path) == ""
    part = take_part(tree.ours)
    assert part.written == tree.base_tree
    assert part.changed == ()
    ground.git("fsck", "--connectivity-only", cwd=tree.path)


def agent_commits(ground: Ground, tree: Tree, **files: str) -> str:
    for name, text in files.items():
        ground.write(f"{name}.txt", text, below=tree.path)
    return ground.commit("by the agent", cwd=tree.path)


def test_a_folder_of_the_project_is_where_the_agent_works(ground: Ground) -> None:
    ground.begin()
    request = ground.request()
    tree = create_tree(type(request)(**{**vars(request), "project": str(ground.top / "src")}))
    assert tree.prefix == "src"
    assert tree.folder == f"{tree.path}/src"
    is_right(ground, tree)


def test_a_linked_worktree_with_settings_of_its_own(ground: Ground) -> None:
    ground.begin()
    other = ground.folder / "other"
    ground.git("worktree", "add", "-q", "--detach", str(other), "HEAD~1")
    ground.git("config", "extensions.worktreeConfig", "true")
    ground.git("config", "--worktree", "user.email", "here@example.com", cwd=other)
    ground.write("src/one.py", "in the worktree\n", below=other)
    request = ground.request()
    tree = create_tree(type(request)(**{**vars(request), "project": str(other)}))
    assert tree.head == ground.git("rev-parse", "HEAD", cwd=other) != ground.git("rev-parse", "HEAD")
    is_right(ground, tree, top=other)
    agent_commits(ground, tree, a="a")
    assert ground.git("log", "-1", "--format=%ae", cwd=tree.path) == "here@example.com"
    assert ground.git("config", "user.email") == "test@example.com"


def test_a_detached_head(ground: Ground) -> None:
    ground.begin()
    ground.git("checkout", "-q", "--detach", "HEAD~1")
    tree = ground.tree()
    is_right(ground, tree)
    assert ground.git("symbolic-ref", "--short", "HEAD", cwd=tree.path) == "do-it"


@pytest.mark.parametrize("with_files", [False, True])
def test_a_repository_without_commits(ground: Ground, *, with_files: bool) -> None:
    ground.git("init", "-q")
    if with_files:
        ground.write("a.txt", "a\n")
        ground.git("add", "a.txt")
        ground.write("b.txt", "b\n")
    tree = ground.tree()
    assert tree.head == ""
    assert [one.path for one in tree.carried] == (["a.txt", "b.txt"] if with_files else [])
    is_right(ground, tree)
    assert ground.git("for-each-ref") == ""
    agent_commits(ground, tree, c="c")
    assert [one.path for one in take_part(tree.ours).changed] == ["c.txt"]


@pytest.mark.parametrize("how", [["--cone"], ["--no-cone"], ["--cone", "--sparse-index"]], ids=" ".join)
def test_a_sparse_checkout(ground: Ground, how: list[str]) -> None:
    ground.begin()
    ground.git("sparse-checkout", "init", *how)
    ground.git("sparse-checkout", "set", "src")
    ground.write("outside/new.txt", "untracked\n")
    ground.write("src/one.py", "changed\n")
    before = Picture(ground.top)
    tree = ground.tree()
    assert not Path(tree.path, "docs").exists()
    is_right(ground, tree)
    ground.git("sparse-checkout", "add", "docs", cwd=tree.path)
    assert Path(tree.path, "docs/read me.md").exists()
    assert take_part(tree.ours).changed == ()
    refs = str(ground.top / ".git/refs/overhand")
    assert not [path for path in before.changes() if not path.startswith(refs)]


def test_a_shallow_clone(ground: Ground) -> None:
    ground.begin()
    far = ground.folder / "far"
    shutil.move(ground.top, far)
    ground.git("clone", "-q", "--depth=1", far.as_uri(), str(ground.top), cwd=ground.folder)
    ground.write("src/one.py", "changed\n")
    tree = ground.tree()
    is_right(ground, tree)
    before = Picture(ground.top)
    ground.git("fetch", "-q", "--unshallow", cwd=tree.path)
    assert ground.git("rev-list", "--count", "HEAD", cwd=tree.path) == "3"
    agent_commits(ground, tree, a="a")
    assert len(take_part(tree.ours).changed) == 1
    assert before.changes() == {}


def test_a_partial_clone(ground: Ground) -> None:
    ground.begin()
    far = ground.folder / "far"
    shutil.move(ground.top, far)
    ground.git("config", "uploadpack.allowFilter", "true", cwd=far)
    ground.git("clone", "-q", "--filter=blob:none", far.as_uri(), str(ground.top), cwd=ground.folder)
    tree = ground.tree()
    is_right(ground, tree)
    agent_commits(ground, tree, a="a")
    part = take_part(tree.ours)
    assert [one.path for one in part.changed] == ["a.txt"]
    before = Picture(ground.top)
    far.rename(ground.folder / "away")
    assert ground.git("status", "--porcelain", cwd=tree.path) == ""
    assert {p for p in before.changes() if "refs/overhand" not in p} == set()


def test_submodules(ground: Ground) -> None:
    ground.begin_fully()
    before = Picture(ground.home)
    tree = ground.tree()
    is_right(ground, tree)
    assert [(one.path, one.name) for one in tree.submodules] == [("vendor/lib", "vendor/lib")]
    inside = Path(tree.path, "vendor/lib")
    assert ground.git("status", "--porcelain", cwd=inside) == ""
    assert take_part(tree.ours).submodules == ()
    ground.write("more.py", "more = 1\n", below=inside)
    ground.commit("in the submodule", cwd=inside)
    part = take_part(tree.ours)
    assert (part.submodules, part.changed) == (("vendor/lib",), ())
    changed = before.changes()
    assert not [path for path in changed if "/refs/overhand" not in path]


def test_a_submodule_that_is_not_initialised_stays_so(ground: Ground) -> None:
    ground.begin_fully()
    ground.git("submodule", "--quiet", "deinit", "-f", "vendor/lib")
    tree = ground.tree()
    assert tree.submodules == ()
    is_right(ground, tree)
    ground.git("submodule", "--quiet", "update", "--init", cwd=tree.path)
    assert Path(tree.path, "vendor/lib/lib.py").exists()
    assert take_part(tree.ours).changed == ()


def test_large_files_of_lfs(ground: Ground) -> None:
    if shutil.which("git-lfs") is None:
        pytest.skip("git-lfs is not installed here")
    ground.git("lfs", "install", "--skip-repo")
    ground.begin()
    ground.git("lfs", "track", "*.bin")
    ground.write("big.bin", b"\0" * 1000)
    ground.commit("big")
    before = Picture(ground.top)
    tree = ground.tree()
    is_right(ground, tree)
    ground.write("more.bin", b"\1" * 1000, below=tree.path)
    ground.commit("more", cwd=tree.path)
    assert [one.path for one in take_part(tree.ours).changed] == ["more.bin"]
    assert {p for p in before.changes() if "refs/overhand" not in p} == set()


def test_sha256(ground: Ground) -> None:
    ground.begin("--object-format=sha256")
    ground.make_dirty()
    tree = ground.tree()
    assert (tree.format, len(tree.base)) == ("sha256", 64)
    is_right(ground, tree, without=("noise.log", ".env"))
    agent_commits(ground, tree, a="a")
    part = take_part(tree.ours)
    assert part.tip
    assert not part.not_taken


def test_reftable(ground: Ground) -> None:
    if ground.try_git("init", "-q", "--ref-format=reftable").returncode != 0:
        pytest.skip("this git has no reftable")
    ground.write("a.txt")
    ground.commit()
    tree = ground.tree()
    is_right(ground, tree)
    assert ground.git("rev-parse", tree.project_ref) == tree.head


def test_a_repository_that_git_cannot_read_is_refused_in_its_words(ground: Ground) -> None:
    ground.begin()
    ground.git("config", "core.repositoryformatversion", "1")
    ground.git("config", "extensions.unheardOf", "true")
    with pytest.raises(GitFailed, match="unheardof"):
        ground.tree()
    assert not Path(ground.request().ours).exists()


def test_objects_that_are_borrowed_three_deep(ground: Ground) -> None:
    ground.begin()
    first = ground.folder / "first"
    shutil.move(ground.top, first)
    ground.git("clone", "-q", "--shared", str(first), "second", cwd=ground.folder)
    ground.write("second.txt", below=ground.folder / "second")
    ground.commit("second", cwd=ground.folder / "second")
    ground.git("clone", "-q", "--shared", "second", str(ground.top), cwd=ground.folder)
    ground.write("third.txt")
    ground.commit("third")
    tree = ground.tree()
    is_right(ground, tree)
    lines = Path(tree.path, ".git/objects/info/alternates").read_text().splitlines()
    names = [
        f"{tree.ours}/objects",
        *(f"{place}/.git/objects" for place in (ground.top, ground.folder / "second", first)),
    ]
    assert lines == names


def test_many_branches_and_one_of_the_trees_name(ground: Ground) -> None:
    ground.begin()
    head = ground.git("rev-parse", "HEAD")
    lines = [f"create refs/heads/b/{number} {head}\n" for number in range(500)]
    ground.git("update-ref", "--stdin", given="".join([*lines, f"create refs/heads/do-it/sub {head}\n"]))
    tree = ground.tree()
    assert tree.branch == "do-it-2"
    is_right(ground, tree)
    assert len(ground.git("branch", cwd=tree.path).splitlines()) == 503
    assert ground.git("stash", "list", cwd=tree.path) == ""


def test_a_project_that_was_moved(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    ground.write("mine.py", "mine = 1\n", below=tree.path)
    moved = ground.home / "moved"
    ground.top.rename(moved)
    with pytest.raises(Refused, match="borrows from"):
        take_part(tree.ours)
    follow_project(tree.ours, str(moved))
    assert [one.path for one in take_part(tree.ours).changed] == ["mine.py"]
    ground.commit("after the move", cwd=tree.path)
    ground.git("log", "--all", cwd=tree.path)
    assert ground.git("status", "--porcelain", cwd=Path(tree.path, "vendor/lib")) == ""


def test_without_an_identity(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.begin()
    (ground.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    ground.write("src/one.py", "changed\n")
    tree = ground.tree()
    is_right(ground, tree)
    ground.write("new.py", below=tree.path)
    assert len(take_part(tree.ours).changed) == 1


def test_an_identity_by_folder(ground: Ground) -> None:
    ground.begin()
    (ground.home / ".gitconfig").write_text(
        (ground.home / ".gitconfig").read_text() + '[includeIf "gitdir:~/my project/"]\n\tpath = work.config\n'
    )
    ground.write("work.config", "[user]\n\temail = work@example.com\n", below=ground.home)
    tree = ground.tree()
    agent_commits(ground, tree, a="a")
    assert ground.git("log", "-1", "--format=%an <%ae>", cwd=tree.path) == "Test <work@example.com>"


def test_commits_are_not_signed_in_the_tree(ground: Ground) -> None:
    ground.begin()
    ground.git("config", "commit.gpgSign", "true")
    ground.git("config", "gpg.program", "/bin/false")
    tree = ground.tree()
    agent_commits(ground, tree, a="a")


def test_settings_keep_their_values(ground: Ground) -> None:
    ground.begin()
    odd = 'a "quoted" \\ value # with\ta tab\nand ; lines '
    ground.git("config", "my.odd", odd)
    ground.git("config", 'url.https://ex.org/"a.b"\\.insteadOf', "ex:")
    with (ground.top / ".git/config").open("a") as file:
        file.write('[My "Sub.Section"]\n\tflag\n')
    ground.git("config", "remote.origin.url", "../far away.git")
    ground.git("config", "remote.origin.pushurl", "ssh://secret@example.com/x")
    tree = ground.tree()
    assert ground.git("config", "--get", "my.odd", cwd=tree.path) == odd.rstrip("\n")
    assert ground.git("config", "--get", 'url.https://ex.org/"a.b"\\.insteadOf', cwd=tree.path) == "ex:"
    assert ground.git("config", "--type=bool", "my.Sub.Section.flag", cwd=tree.path) == "true"
    assert ground.git("config", "remote.origin.url", cwd=tree.path) == str(ground.home / "far away.git")
    refused = ground.try_git("push", "origin", "HEAD", cwd=tree.path)
    assert refused.returncode == 128
    assert "push is withheld in a task's tree" in refused.stderr


def test_hooks_run_only_when_they_are_wanted(ground: Ground) -> None:
    ground.begin_fully()
    ran = ground.top / "hook-ran.log"
    before = ran.read_text()
    agent_commits(ground, ground.tree(1), a="a")
    assert ran.read_text() == before
    with_hooks = ground.tree(2, hooks=True)
    assert ran.read_text() == before
    agent_commits(ground, with_hooks, a="a")
    assert "pre-commit" in ran.read_text().removeprefix(before)


CONVERSIONS = {
    "autocrlf true": ({"core.autocrlf": "true"}, ""),
    "autocrlf input": ({"core.autocrlf": "input"}, ""),
    "text auto": ({}, "* text=auto\n"),
    "eol crlf": ({}, "*.txt text eol=crlf\n"),
    "eol lf": ({}, "*.txt text eol=lf\n"),
    "ident": ({}, "*.txt ident\n"),
    "encoding": ({}, "*.txt text working-tree-encoding=UTF-16\n"),
    "safecrlf": ({"core.safecrlf": "true", "core.autocrlf": "true"}, ""),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_uncommitted_files_come_byte_by_byte(ground: Ground, name: str) -> None:
    settings, attributes = CONVERSIONS[name]
    encoding = "utf-16" if name == "encoding" else "utf-8"
    texts = {
        "lf.txt": "one\ntwo $Id$\n",
        "crlf.txt": "one\r\ntwo $Id: nonsense $\r\n",
        "mixed.txt": "one\r\ntwo\nthree\r\n",
    }
    ground.begin()
    ground.write(".gitattributes", attributes)
    for file in texts:
        ground.write(file, "before\n".encode(encoding))
    ground.commit("before")
    for key, value in settings.items():
        ground.git("config", key, value)
    for file, text in texts.items():
        ground.write(file, text.encode(encoding))
        ground.write(f"new {file}", text.encode(encoding))
    tree = ground.tree()
    there, here = files_of(tree.path), files_of(ground.top)
    assert {one.path for one in tree.carried} == {*texts, *(f"new {file}" for file in texts)}
    assert all(there[one.path] == here[one.path] for one in tree.carried)
    assert ground.git("status", "--porcelain", cwd=tree.path) == ""
    assert take_part(tree.ours).written == tree.base_tree


def test_a_file_that_git_cannot_convert_is_listed_and_the_others_are_carried(ground: Ground) -> None:
    ground.begin()
    ground.write(".gitattributes", "bad* working-tree-encoding=UTF-16\n")
    for number in range(5):
        ground.write(f"bad {number}", "no byte order mark\n")
        ground.write(f"good {number}", "x\n")
    tree = ground.tree()
    assert {one.path for one in tree.left} == {f"bad {number}" for number in range(5)}
    assert {one.path for one in tree.carried} == {".gitattributes", *(f"good {number}" for number in range(5))}
    ground.write("bad 9", "by the agent\n", below=tree.path)
    ground.write("good 9", "by the agent\n", below=tree.path)
    part = take_part(tree.ours)
    assert [one.path for one in part.changed] == ["good 9"]
    assert [one.path for one in part.left] == ["bad 9"]


NAMES = [
    "with blank",
    "ünï",
    "new\nline",
    'quo"te',
    "back\\slash",
    "-dash",
    "tab\tx",
    "*",
    ":(top)x",
    "\udcff\udcfe",
    "e\u0301",
]


def test_names_of_every_kind(ground: Ground) -> None:
    ground.begin()
    for number, name in enumerate(NAMES):
        ground.write(f"{name}/{name}", f"{number}\n") if number % 2 else ground.write(name, f"{number}\n")
    tree = ground.tree()
    is_right(ground, tree)
    for number, name in enumerate(NAMES):
        ground.write(f"{name}/{name}" if number % 2 else name, "other\n", below=tree.path)
    assert len(take_part(tree.ours).changed) == len(NAMES)


def test_a_merge_in_progress_and_other_states_of_the_index(ground: Ground) -> None:
    ground.begin()
    ground.git("switch", "-q", "-c", "side")
    ground.write("src/one.py", "side\n")
    ground.commit("side")
    ground.git("switch", "-q", "main")
    ground.write("src/one.py", "main\n")
    ground.commit("main")
    assert ground.try_git("merge", "side").returncode == 1
    ground.write("planned.py", "planned\n")
    ground.git("add", "-N", "planned.py")
    ground.git("update-index", "--split-index")
    before = Picture(ground.top)
    tree = ground.tree()
    assert "<<<<<<<" in Path(tree.path, "src/one.py").read_text()
    is_right(ground, tree)
    refs = str(ground.top / ".git/refs/overhand")
    assert not [path for path in before.changes() if not path.startswith(refs)]


def test_a_change_of_the_same_size_in_the_same_moment(ground: Ground) -> None:
    """The copied index must not seem younger than the user's: git would take such a file for unchanged."""
    ground.begin()
    path = ground.write("src/one.py", "one = 2\n")
    index = ground.top / ".git/index"
    ground.git("update-index", "--refresh", check=False)
    ground.git("add", "src/one.py")
    path.write_text("one = 3\n")
    stamp = index.stat().st_mtime_ns
    os.utime(path, ns=(stamp, stamp))
    tree = ground.tree()
    assert Path(tree.path, "src/one.py").read_text() == "one = 3\n"


def test_what_is_not_carried_is_listed(ground: Ground) -> None:
    ground.begin()
    os.mkfifo(ground.top / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(ground.top)
        made.bind("socket")
        os.chdir(here)
    with (ground.top / "huge").open("wb") as file:
        file.truncate(60_000_000_000)
    (ground.top / "src/one.py").unlink()
    os.mkfifo(ground.top / "src/one.py")
    ground.git("init", "-q", "embedded")
    ground.write("embedded/file.txt")
    ground.commit("inside", cwd=ground.top / "embedded")
    tree = ground.tree()
    assert {(one.path, one.why) for one in tree.left} == {
        ("huge", "larger than 50 MB"),
        ("embedded/", "a repository of its own"),
        ("src/one.py", "no regular file"),
    }
    assert Path(tree.path, "src/one.py").read_text() == "one = 1\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_an_unreadable_file_is_listed(ground: Ground) -> None:
    ground.begin()
    ground.write("secret", "x").chmod(0)
    assert [(one.path, one.why) for one in ground.tree().left] == [("secret", "can't be read")]


def test_other_starts(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    committed = ground.tree(1, committed=True)
    assert (committed.base, committed.carried) == (ground.git("rev-parse", "HEAD"), ())
    earlier = ground.tree(2, ref="v1~1")
    assert earlier.base == ground.git("rev-parse", "v1~1") == ground.git("rev-parse", earlier.project_ref)
    assert not Path(earlier.path, "vendor/lib/lib.py").exists()
    with pytest.raises(NotFound, match="no-such is no commit"):
        ground.tree(3, ref="no-such")
    with pytest.raises(NotFound):
        ground.tree(4, ref="--all")


def test_a_start_from_another_tasks_work_outlives_it(ground: Ground) -> None:
    ground.begin()
    ground.make_dirty()
    first = ground.tree(1)
    agent_commits(ground, first, mine="mine\n")
    ground.write("more.txt", "more\n", below=first.path)
    take_part(first.ours)
    second = ground.tree(2, ours_of=first.ours)
    had = files_of(first.path)
    shutil.rmtree(first.ours)
    shutil.rmtree(first.path)
    assert files_of(second.path) == had
    is_right(ground, second, top=Path(second.path))
    ground.git("gc", "-q", "--prune=now")
    ground.write("mine.txt", "changed\n", below=second.path)
    assert [one.path for one in take_part(second.ours).changed] == ["mine.txt"]


def test_how_far_the_start_is_behind(ground: Ground) -> None:
    ground.begin_fully()
    tree = ground.tree(1)
    assert tree.behind is not None
    assert (tree.behind.upstream, tree.behind.commits) == ("origin/main", 0)
    assert tree.behind.fetched is not None
    ground.git("reset", "-q", "--hard", "HEAD~1")
    behind = ground.tree(2).behind
    assert behind is not None
    assert behind.commits == 1


def test_places_that_are_refused(ground: Ground) -> None:
    ground.begin()
    request = ground.request()
    inside = type(request)(**{**vars(request), "path": str(ground.top / "trees/1-x")})
    with pytest.raises(Refused, match="can't lie in the checkout"):
        create_tree(inside)
    taken = Path(request.path)
    taken.mkdir(parents=True)
    (taken / "precious").write_text("mine")
    with pytest.raises(Refused, match="exists already"):
        create_tree(request)
    assert (taken / "precious").read_text() == "mine"
    outside = type(request)(**{**vars(request), "project": str(ground.folder)})
    with pytest.raises(NotFound, match="not in a git repository"):
        create_tree(outside)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_refused_with_what_to_type(ground: Ground) -> None:
    ground.begin()
    for path in (ground.top, *ground.top.rglob("*")):
        os.lchown(path, 12345, 12345)
    with pytest.raises(Refused, match="another user") as refused:
        ground.tree()
    assert "safe.directory" in refused.value.hint
    ground.git("config", "--global", "--add", "safe.directory", str(ground.top), cwd=ground.home)
    is_right(ground, ground.tree())


def test_a_filter_of_an_untrusted_project_is_refused(ground: Ground) -> None:
    ground.begin()
    ground.git("config", "filter.crypt.clean", f"touch {ground.folder}/ran; cat")
    ground.git("config", "filter.crypt.smudge", f"touch {ground.folder}/ran; cat")
    is_right(ground, ground.tree(1))
    ground.write(".gitattributes", "*.py filter=crypt\n")
    with pytest.raises(Refused, match="the filter crypt"):
        ground.tree(2)
    assert not (ground.folder / "ran").exists()
    is_right(ground, ground.tree(3, trusted=True))
    assert (ground.folder / "ran").exists()
