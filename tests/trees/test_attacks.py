"""An agent that means harm: nothing of its runs outside its own processes, and its part is still what its files are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.trees.keep import check_agents_git, drop_dangling_refs, remove_tree, restore_tree
from overhand.trees.part import take_part
from overhand.trees.tree import kept_aside
from support.trees import Picture, files_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.trees.part import Part
    from overhand.trees.tree import Tree
    from support.trees import Ground


class Attack:
    """A tree, an agent in it, and a program whose trace shows that it ran."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.ran = ground, ground.folder / "ran"
        self.program = str(ground.folder / "evil")
        Path(self.program).write_text(f'#!/bin/sh\necho "$0 $*" >>"{self.ran}"\ncat\n')
        Path(self.program).chmod(0o755)
        self.tree: Tree = ground.tree()
        self.here = Path(self.tree.path)
        self.before = Picture(ground.home)

    def git(self, *words: str) -> str:
        return self.ground.git(*words, cwd=self.here)

    def write(self, name: str, data: str | bytes = "by the agent\n") -> Path:
        return self.ground.write(name, data, below=self.here)

    def part(self) -> Part:
        """The part, taken without a trace of the agent's programs, and without a change of the user's."""
        part = take_part(self.tree.ours)
        assert not self.ran.exists(), self.ran.read_text()
        assert self.before.changes() == {}
        return part

    def found(self) -> set[tuple[str, str]]:
        return {(one.status, one.path) for one in self.part().changed}


@pytest.fixture
def attack(ground: Ground) -> Attack:
    ground.begin_fully()
    ground.make_dirty()
    return Attack(ground)


# the agent's own repository


def evil_config(attack: Attack) -> None:
    for key in (
        *("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.external", "diff.evil.textconv"),
        *("core.sshCommand", "gpg.program", "core.pager", "core.editor", "uploadpack.packObjectsHook"),
    ):
        attack.git("config", key, attack.program)
    attack.git("config", "core.worktree", str(attack.ground.top))
    attack.git("config", "core.hooksPath", "hooks")
    attack.git("config", "alias.status", f"!{attack.program}")
    attack.write(".gitattributes", "* filter=evil diff=evil\n")


def evil_hooks(attack: Attack) -> None:
    for name in ("post-index-change", "reference-transaction", "pre-commit", "fsmonitor-watchman"):
        attack.write(f".git/hooks/{name}", f"#!/bin/sh\n{attack.program}\n").chmod(0o755)


def evil_commondir(attack: Attack) -> None:
    evil = attack.ground.folder / "evil.git"
    attack.ground.git("init", "-q", "--bare", str(evil))
    attack.ground.git("config", "core.fsmonitor", attack.program, cwd=evil)
    attack.write(".git/commondir", f"{evil}\n")


def evil_worktree_config(attack: Attack) -> None:
    attack.git("config", "extensions.worktreeConfig", "true")
    attack.write(".git/config.worktree", f"[core]\n\tfsmonitor = {attack.program}\n")


def evil_submodule(attack: Attack) -> None:
    attack.write(
        ".git/modules/vendor/lib/config",
        f"[core]\n\tfsmonitor = {attack.program}\n\tworktree = ../../../../vendor/lib\n",
    )


def a_further_submodule(attack: Attack) -> None:
    attack.git("init", "-q", "--bare", ".git/modules/more")
    attack.write(".git/modules/more/config", f"[core]\n\tfsmonitor = {attack.program}\n")


def no_repository(attack: Attack) -> None:
    shutil.rmtree(attack.here / ".git")


def the_projects_repository(attack: Attack) -> None:
    no_repository(attack)
    (attack.here / ".git").symlink_to(attack.ground.top / ".git")


def a_pipe(attack: Attack) -> None:
    no_repository(attack)
    os.mkfifo(attack.here / ".git")


def a_file_that_names_another(attack: Attack) -> None:
    evil_commondir(attack)
    no_repository(attack)
    attack.write(".git", f"gitdir: {attack.ground.folder}/evil.git\n")


def alternates_of_itself(attack: Attack) -> None:
    attack.write(".git/objects/info/alternates", f"{attack.here}/.git/objects\n../../.git/objects\n")


def objects_that_are_a_link(attack: Attack) -> None:
    (attack.here / ".git/objects").rename(attack.ground.folder / "objects")
    (attack.here / ".git/objects").symlink_to(attack.ground.folder / "objects")


def info_that_is_a_link(attack: Attack) -> None:
    shutil.rmtree(attack.here / ".git/info")
    (attack.here / ".git/info").symlink_to(attack.ground.home)


def nothing_may_be_written(attack: Attack) -> None:
    (attack.here / ".git/commondir").write_text("/\n")
    (attack.here / ".git").chmod(0o500)


REPOSITORIES: list[Callable[[Attack], None]] = [
    *(evil_config, evil_hooks, evil_commondir, evil_worktree_config, evil_submodule, a_further_submodule),
    *(no_repository, the_projects_repository, a_pipe, a_file_that_names_another, alternates_of_itself),
    *(objects_that_are_a_link, info_that_is_a_link, nothing_may_be_written),
]


@pytest.mark.parametrize("plant", REPOSITORIES, ids=lambda plant: plant.__name__)
def test_whatever_the_agent_did_to_its_repository(attack: Attack, plant: Callable[[Attack], None]) -> None:
    attack.write("src/one.py", "one = 'mine'\n")
    attack.git("stash", "-q")
    attack.git("stash", "apply", "-q")
    plant(attack)
    expected = {("M", "src/one.py")} | ({("A", ".gitattributes")} if plant is evil_config else set())
    assert attack.found() == expected
    assert drop_dangling_refs(attack.tree.ours) == 0
    names = check_agents_git(attack.tree.ours)
    assert names
    assert check_agents_git(attack.tree.ours) == ()
    assert "src/one.py" in attack.git("status", "--porcelain")
    attack.git("log", "--oneline", "--all")
    attack.git("add", "-A")
    attack.git("commit", "-q", "-m", "as a person types it")
    assert attack.git("status", "--porcelain", "--ignore-submodules=none") == ""
    assert not attack.ran.exists(), attack.ran.read_text()
    assert attack.before.changes() == {}
    assert attack.found() == expected
    if plant is not no_repository:
        assert all(Path(place).is_dir() for place in kept_aside(attack.tree))
        assert kept_aside(attack.tree)


def test_restoring_takes_only_what_git_would_obey(attack: Attack) -> None:
    attack.git("config", "user.name", "Agent")
    attack.git("branch", "kept")
    attack.write("src/one.py", "one = 'mine'\n")
    attack.git("stash", "-q")
    assert check_agents_git(attack.tree.ours) == ("config",)
    assert attack.git("config", "user.name") == "Test"
    assert attack.git("stash", "list") != ""
    assert "kept" in attack.git("branch")


# filters of the user's


def filter_of_the_user(ground: Ground) -> None:
    config = ground.home / ".gitconfig"
    config.write_text(
        config.read_text() + '[filter "strip"]\n\tclean = python3 -m stripper\n\tsmudge = cat\n\trequired = true\n'
    )
    module = ground.home / "lib/stripper.py"
    module.parent.mkdir()
    module.write_text("import sys\nsys.stdout.write(sys.stdin.read().replace('noise', ''))\n")


def test_a_filter_of_the_user_imports_nothing_from_the_tree(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.begin()
    filter_of_the_user(ground)
    monkeypatch.setenv("PYTHONPATH", str(ground.home / "lib"))
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    ran = ground.folder / "ran"
    tree = ground.tree()
    ground.write(".gitattributes", "*.txt filter=strip\n", below=tree.path)
    ground.write("deep/a.txt", "noise and text\n", below=tree.path)
    evil = f"import sys\nopen({str(ran)!r}, 'w')\nsys.stdout.write(sys.stdin.read())\n"
    ground.write("stripper.py", evil, below=tree.path)
    ground.write("deep/stripper.py", evil, below=tree.path)
    ground.write("python3", f"#!/bin/sh\ntouch {ran}\ncat\n", below=tree.path).chmod(0o755)
    part = take_part(tree.ours)
    assert not ran.exists()
    assert ground.git("--git-dir", tree.ours, "show", f"{part.written}:deep/a.txt", cwd=tree.ours) == " and text"
    again = take_part(tree.ours)
    assert (again.written, again.settled) == (part.written, True)
    had = files_of(tree.path)
    remove_tree(tree.ours)
    restore_tree(tree.ours)
    assert not ran.exists()
    assert files_of(tree.path).keys() == had.keys()


def test_a_filter_is_not_looked_for_in_the_tree(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.begin()
    config = ground.home / ".gitconfig"
    config.write_text(config.read_text() + '[filter "lfs"]\n\tclean = my-lfs-filter\n')
    monkeypatch.setenv("PATH", f".:bin:{os.environ['PATH']}")
    tree = ground.tree()
    for name in ("my-lfs-filter", "bin/my-lfs-filter"):
        ground.write(name, f"#!/bin/sh\ntouch {ground.folder}/ran\ncat\n", below=tree.path).chmod(0o755)
    ground.write(".gitattributes", "*.txt filter=lfs\n", below=tree.path)
    ground.write("a.txt", below=tree.path)
    assert "a.txt" in {one.path for one in take_part(tree.ours).changed}
    assert not (ground.folder / "ran").exists()


# files


def test_folders_and_files_that_became_links(attack: Attack) -> None:
    shutil.rmtree(attack.here / "src")
    (attack.here / "src").symlink_to(attack.ground.top / "src")
    (attack.here / "program").unlink()
    (attack.here / "program").symlink_to("/etc/passwd")
    (attack.here / "root").symlink_to("/")
    expected = {("A", "root"), ("T", "program"), ("A", "src"), ("D", "src/one.py"), ("D", "src/two.py")}
    assert attack.found() == expected


ODD_NAMES = [
    ".GIT/config",
    ".git /config",
    "git~1/config",
    "..foo",
    ".g\u200cit/config",
    "a\\.git\\b",
    ".git.",
    "sub/.GIT/x",
    "...",
]


def test_names_that_look_like_a_git_dir(attack: Attack) -> None:
    for name in ODD_NAMES:
        attack.write(name, "[core]\n\tfsmonitor = evil\n")
    part = attack.part()
    taken = {one.path for one in part.changed}
    assert taken | {one.path for one in part.left} == set(ODD_NAMES)
    assert not [path for path in taken if path.lower().startswith((".git/", ".git ", "git~1"))]
    listed = attack.ground.git(
        "--git-dir", attack.tree.ours, "ls-tree", "-r", "--name-only", "-z", part.written, cwd="/"
    )
    assert not [path for path in listed.split("\0") if path.split("/")[0].lower().rstrip(" .") == ".git"]


def test_repositories_inside_the_tree(attack: Attack) -> None:
    for name in ("embedded", "src"):
        attack.git("init", "-q", name)
        for key in ("core.fsmonitor", "filter.evil.clean", "core.hooksPath"):
            attack.ground.git("config", key, attack.program, cwd=attack.here / name)
    attack.write("embedded/a.txt")
    attack.ground.git("-c", "core.fsmonitor=false", "add", "-A", cwd=attack.here / "embedded")
    attack.ground.git(
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "commit",
        "-qm",
        "x",
        cwd=attack.here / "embedded",
    )
    attack.write("src/new.py")
    attack.write("src/one.py")
    attack.ran.unlink(missing_ok=True)
    part = attack.part()
    assert {(one.status, one.path) for one in part.changed} == {("A", "src/new.py"), ("M", "src/one.py")}
    assert [one.path for one in part.left] == ["embedded/"]
    removed = remove_tree(attack.tree.ours)
    assert removed.is_kept
    assert Path(removed.trash, "embedded/a.txt").exists()


def test_a_gitlink_that_was_committed(attack: Attack) -> None:
    attack.git("init", "-q", "embedded")
    attack.write("embedded/a.txt")
    attack.ground.commit("inside", cwd=attack.here / "embedded")
    attack.git("add", "embedded")
    attack.git("commit", "-q", "-m", "a gitlink")
    part = attack.part()
    assert part.changed == ()
    assert [one.path for one in part.left] == ["embedded/"]


def test_files_of_another_kind(attack: Attack) -> None:
    (attack.here / "src/one.py").unlink()
    os.mkfifo(attack.here / "src/one.py")
    with (attack.here / "huge").open("wb") as file:
        file.truncate(60_000_000_000)
    (attack.here / "src/two.py").unlink()
    attack.write("src/two.py/inside.txt")
    shutil.rmtree(attack.here / "docs")
    attack.write("docs", "a file now\n")
    part = attack.part()
    assert {(one.path, one.why) for one in part.left} == {
        ("src/one.py", "no regular file"),
        ("huge", "larger than 50 MB"),
    }
    assert {(one.status, one.path) for one in part.changed} == {
        ("D", "src/two.py"),
        ("A", "src/two.py/inside.txt"),
        ("D", "docs/read me.md"),
        ("A", "docs"),
    }


def test_changes_that_the_agents_own_git_does_not_show(attack: Attack) -> None:
    attack.git("update-index", "--assume-unchanged", "src/one.py")
    attack.git("update-index", "--skip-worktree", "src/two.py")
    attack.write("src/one.py", "one = 'hidden'\n")
    attack.write("src/two.py", "two = 'hidden'\n")
    assert attack.git("status", "--porcelain") == ""
    assert attack.found() == {("M", "src/one.py"), ("M", "src/two.py")}


def test_a_change_of_the_same_size_with_its_time_set_back(ground: Ground) -> None:
    ground.begin()
    ground.git("config", "core.trustctime", "false")
    ground.git("config", "core.checkStat", "minimal")
    tree = ground.tree()
    path = Path(tree.path, "src/one.py")
    was = path.stat()
    take_part(tree.ours)
    path.write_text("one = 7\n")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert [one.path for one in take_part(tree.ours).changed] == ["src/one.py"]


# ignore rules


def test_what_only_the_agents_rules_hide_is_listed(attack: Attack) -> None:
    attack.write(".gitignore", "*.log\nbuild/\n.env\nsrc/new.py\nnode_modules/\nvendored\n")
    attack.write("src/new.py")
    attack.write("src/own.log")
    attack.write("node_modules/x/y.js")
    for number in range(101):
        attack.write(f"vendored/{number}")
    attack.write("build/out.o")
    attack.write("quiet/.gitignore", "*\n")
    attack.write("quiet/file.txt")
    attack.write("quiet/noise.log")
    attack.write(".git/info/exclude", "*.secret\n")
    attack.write("plain.secret")
    attack.write("forced.log")
    attack.git("add", "-f", "forced.log")
    attack.git("commit", "-q", "-m", "forced")
    part = attack.part()
    assert {one.path for one in part.changed} == {".gitignore", "plain.secret", "forced.log"}
    assert part.hidden == ("node_modules/x/y.js", "quiet/.gitignore", "quiet/file.txt", "src/new.py", "vendored/")
    assert {"build/", "node_modules/", "src/own.log"} <= set(part.ignored)


def test_what_the_user_ignores_everywhere_is_no_part(ground: Ground) -> None:
    ground.begin()
    ground.write(".ignored", "*.glob\n.idea/\n", below=ground.home)
    config = ground.home / ".gitconfig"
    config.write_text(config.read_text() + "[core]\n\texcludesFile = ~/.ignored\n")
    tree = ground.tree()
    ground.write("a.glob", below=tree.path)
    ground.write(".idea/x", below=tree.path)
    part = take_part(tree.ours)
    assert (part.changed, part.hidden, set(part.ignored)) == ((), (), {"a.glob", ".idea/"})


# the agent's commits


def commit_of(attack: Attack, tree: str) -> str:
    made = attack.git("commit-tree", tree, "-p", "HEAD", "-m", "evil")
    attack.git("update-ref", "HEAD", made)
    return made


def a_tree_with_a_git_dir(attack: Attack) -> None:
    blob = attack.git("hash-object", "-w", "src/one.py")
    raw = f"100644 blob {blob}\tconfig\n"
    inner = attack.ground.git("mktree", cwd=attack.here, given=raw)
    commit_of(attack, attack.ground.git("mktree", cwd=attack.here, given=f"040000 tree {inner}\t.git\n"))


def evil_gitmodules(attack: Attack) -> None:
    attack.write("evil", '[submodule "../../x"]\n\tpath = x\n\turl = --upload-pack=evil\n')
    blob = attack.git("hash-object", "-w", "evil")
    (attack.here / "evil").unlink()
    commit_of(attack, attack.ground.git("mktree", cwd=attack.here, given=f"100644 blob {blob}\t.gitmodules\n"))


def own_commit(attack: Attack) -> str:
    attack.write("own.txt")
    attack.git("add", "own.txt")
    attack.git("commit", "-q", "-m", "own")
    (attack.here / "own.txt").unlink()
    return attack.git("rev-parse", "HEAD")


def a_corrupt_object(attack: Attack) -> None:
    made = own_commit(attack)
    path = attack.here / f".git/objects/{made[:2]}/{made[2:]}"
    path.chmod(0o644)
    path.write_bytes(b"no zlib" + path.read_bytes())


def a_missing_object(attack: Attack) -> None:
    own_commit(attack)
    blob = attack.git("rev-parse", "HEAD:own.txt")
    (attack.here / f".git/objects/{blob[:2]}/{blob[2:]}").unlink()


def a_head_that_leads_out(attack: Attack) -> None:
    own_commit(attack)
    (attack.here / ".git/HEAD").unlink()
    (attack.here / ".git/HEAD").symlink_to("/etc/passwd")


def a_head_that_names_a_path(attack: Attack) -> None:
    attack.write(".git/HEAD", "ref: refs/../../../../etc/passwd\n")


def a_head_that_is_a_pipe(attack: Attack) -> None:
    (attack.here / ".git/HEAD").unlink()
    os.mkfifo(attack.here / ".git/HEAD")


def a_promisor_that_is_a_command(attack: Attack) -> None:
    a_missing_object(attack)
    for key, value in (("extensions.partialClone", "evil"), ("remote.evil.promisor", "true")):
        attack.git("config", key, value)
    attack.git("config", "remote.evil.url", f"ext::{attack.program}")


COMMITS: dict[Callable[[Attack], None], str] = {
    a_tree_with_a_git_dir: "git index-pack failed",
    evil_gitmodules: "git index-pack failed",
    a_corrupt_object: "git pack-objects failed",
    a_missing_object: "git pack-objects failed",
    a_head_that_leads_out: "",
    a_head_that_names_a_path: "",
    a_head_that_is_a_pipe: "",
    a_promisor_that_is_a_command: "git pack-objects failed",
}


@pytest.mark.parametrize("plant", COMMITS, ids=lambda plant: plant.__name__)
def test_commits_that_are_not_taken(attack: Attack, plant: Callable[[Attack], None]) -> None:
    plant(attack)
    attack.write("src/one.py", "one = 'mine'\n")
    part = attack.part()
    assert part.tip == ""
    assert COMMITS[plant] in part.not_taken
    assert bool(part.not_taken) == bool(COMMITS[plant])
    assert {(one.status, one.path) for one in part.changed} == {("M", "src/one.py")}
    assert attack.ground.git("--git-dir", attack.tree.ours, "fsck", "--no-dangling", cwd="/") == ""


def test_a_pipe_in_place_of_an_object_is_waited_for_no_longer_than_agreed(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from overhand.trees import commits

    monkeypatch.setattr(commits, "_PATIENCE", 0.2)
    made = own_commit(attack)
    path = attack.here / f".git/objects/{made[:2]}/{made[2:]}"
    path.unlink()
    os.mkfifo(path)
    part = attack.part()
    assert "took more than" in part.not_taken
    assert part.changed == ()


def test_a_tree_is_not_removed_while_a_process_is_in_it(attack: Attack) -> None:
    from overhand.errors import Busy

    process = subprocess.Popen(["sh", "-c", "read x"], cwd=attack.here / "src", stdin=subprocess.PIPE)
    try:
        with pytest.raises(Busy, match=str(process.pid)):
            remove_tree(attack.tree.ours)
        assert attack.here.is_dir()
    finally:
        process.communicate(b"\n")
    remove_tree(attack.tree.ours)
    assert not attack.here.exists()
