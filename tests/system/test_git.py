"""Git runs what the user's own configuration names, and nothing that a repository names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.runs import tree_snapshot
from overhand.runs.worktree import changed_between
from overhand.system import is_untracked, linked_worktrees, repository_of, run_git, tag_commit

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


class Ground:
    """A repository with two commits and a changed file; a command whose traces show that it ran; the user's home."""

    def __init__(self, folder: Path) -> None:
        self.home, self.top, self.ran = folder / "home", folder / "project", folder / "ran"
        self.home.mkdir()
        self.top.mkdir()
        self.command = str(folder / "command")
        Path(self.command).write_text(f'#!/bin/sh\necho "$0 $*" >>"{self.ran}"\ntest "$1" = git-upload-pack || cat\n')
        Path(self.command).chmod(0o755)

    def git(self, *words: str, cwd: Path | None = None, check: bool = True) -> str:
        """Plain git, as a person types it."""
        place = cwd or self.top
        done = subprocess.run(
            ["git", *words],
            cwd=place,
            capture_output=True,
            text=True,
            check=check,
            stdin=subprocess.DEVNULL,
            timeout=90,
        )
        return done.stdout.strip()

    def commit(self) -> None:
        self.git("init", "-q", "-b", "main")
        for text in ("one\n", "two\n"):
            (self.top / "a.txt").write_text(text)
            (self.top / ".gitattributes").write_text("*.txt filter=evil diff=evil\n*.dat filter=own\n")
            self.git("add", "-A")
            self.git("commit", "-q", "-m", text)
        (self.top / "a.txt").write_text("six\n")  # of the same size: git must read it

    def config(self, *pairs: str, file: str = ".git/config") -> None:
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.git("config", "--file", str(self.top / file), "--add", key, value)

    def look(self) -> dict[str, Any]:
        """Everything that we ask git."""
        root = str(self.top)
        after = tree_snapshot(root)
        first = run_git(root, "rev-list", "--max-parents=0", "HEAD") or ""
        before = {"head": first.strip(), "dirty": {}}
        return {
            "dirty": sorted(after["dirty"]) if after else None,
            "changed": changed_between(root, before, after),
            "untracked": is_untracked(root, "a.txt"),
            "tag": tag_commit(root, "made", "A tag"),
            "trees": linked_worktrees(root),
        }


FOUND = {"dirty": ["a.txt"], "changed": ["a.txt"], "untracked": False, "tag": "made", "trees": []}


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    made = Ground(tmp_path)
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (made.home / ".gitconfig").write_text("[user]\n\tname = Test\n\temail = test@example.com\n")
    made.commit()
    return made


def hooks(ground: Ground, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-index-change", "fsmonitor-watchman"):
        (folder / name).write_text(f"#!/bin/sh\nexec {ground.command} {name} </dev/null\n")
        (folder / name).chmod(0o755)


def filter_of_the_project(ground: Ground) -> None:
    ground.config("filter.evil.clean", ground.command, "filter.evil.required", "true")


def process_of_the_project(ground: Ground) -> None:
    ground.config("filter.evil.process", ground.command)


def filter_in_an_odd_spelling(ground: Ground) -> None:
    (ground.top / ".gitattributes").write_text("*.txt filter=e.v[i]l\n")
    with (ground.top / ".git/config").open("a") as file:
        file.write(f'[FiLtEr   "e.v[i]l"] CLEAN={ground.command}\n')


def filter_with_a_name_that_no_setting_can_have(ground: Ground) -> None:
    (ground.top / ".gitattributes").write_text("*.txt filter=a=b\n")
    ground.config("filter.a=b.clean", ground.command)


def filter_without_a_name(ground: Ground) -> None:
    (ground.top / ".gitattributes").write_text("*.txt filter=\n")
    ground.config("filter..clean", ground.command)


def included_filter(ground: Ground) -> None:
    (ground.top / "settings").write_text(f'[filter "evil"]\n\tclean = {ground.command}\n')
    ground.config("include.path", "../settings")


def filter_included_by_a_condition(ground: Ground) -> None:
    (ground.top / "settings").write_text(f'[filter "evil"]\n\tclean = {ground.command}\n')
    ground.config("includeIf.onbranch:main.path", "../settings")


def filter_of_the_worktree(ground: Ground) -> None:
    ground.config("extensions.worktreeConfig", "true", "core.repositoryformatversion", "1")
    ground.config("filter.evil.clean", ground.command, file=".git/config.worktree")


def filter_by_info_attributes(ground: Ground) -> None:
    (ground.top / ".gitattributes").unlink()
    ground.git("rm", "-q", "--cached", ".gitattributes")
    ground.git("commit", "-q", "-m", "without")
    (ground.top / ".git/info/attributes").write_text("* filter=evil\n")
    filter_of_the_project(ground)


def file_system_monitor(ground: Ground) -> None:
    ground.config("core.fsmonitor", ground.command)


def hooks_in_the_git_dir(ground: Ground) -> None:
    hooks(ground, ground.top / ".git/hooks")


def hooks_elsewhere(ground: Ground) -> None:
    hooks(ground, ground.top / "hooks")
    (ground.top / ".git/info/exclude").write_text("hooks\n")
    ground.config("core.hooksPath", str(ground.top / "hooks"))


def hooks_by_settings(ground: Ground) -> None:
    ground.config("hook.evil.command", ground.command, "hook.evil.event", "reference-transaction")


def pager_editor_and_alias(ground: Ground) -> None:
    for key in ("core.pager", "pager.status", "pager.tag", "core.editor", "core.sshCommand", "core.askPass"):
        ground.config(key, ground.command)
    for name in ("status", "ls-files", "tag", "diff", "config"):
        ground.config(f"alias.{name}", f"!{ground.command}")


def differ_and_signer(ground: Ground) -> None:
    ground.config("diff.external", ground.command, "diff.evil.command", ground.command)
    ground.config("diff.evil.textconv", ground.command, "gpg.program", ground.command)
    ground.config("tag.gpgSign", "true", "tag.forceSignAnnotated", "true", "user.signingKey", "x")


def fetching_what_is_missing(ground: Ground) -> None:
    """A partial clone whose address is a command; the tree of the last commit is gone."""
    ground.config(
        "extensions.partialClone", "evil", "core.repositoryformatversion", "1", "remote.evil.promisor", "true"
    )
    ground.config("remote.evil.url", f"ext::{ground.command} %S", "protocol.ext.allow", "always")
    tree = ground.git("rev-parse", "HEAD^{tree}")
    (ground.top / ".git/objects" / tree[:2] / tree[2:]).unlink()


def submodule_with_its_own_settings(ground: Ground) -> None:
    inner = ground.top / "inner"
    inner.mkdir()
    (inner / "b.txt").write_text("one\n")
    (inner / ".gitattributes").write_text("* filter=evil\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "inner"]):
        ground.git(*words, cwd=inner)
    ground.git("add", "inner")
    (ground.top / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')
    ground.git("add", ".gitmodules")
    ground.git("commit", "-q", "-m", "with a submodule")
    ground.git("config", "filter.evil.clean", ground.command, cwd=inner)
    ground.git("config", "core.fsmonitor", ground.command, cwd=inner)
    (inner / "b.txt").write_text("six\n")


def another_work_tree(ground: Ground) -> None:
    ground.config("core.worktree", "/", "core.fsmonitor", ground.command)


def another_git_dir(ground: Ground) -> None:
    """`.git` is a file that names a folder of the project."""
    (ground.top / ".git").rename(ground.top / "fake")
    (ground.top / ".git").write_text("gitdir: fake\n")
    with (ground.top / "fake/config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = {ground.command}\n[filter "evil"]\n\tclean = {ground.command}\n')
    (ground.top / "fake/info/exclude").write_text("fake\n")


def another_common_dir(ground: Ground) -> None:
    """The configuration is that of another folder."""
    shutil.copytree(ground.top / ".git", ground.top / "fake")
    (ground.top / ".git/info/exclude").write_text("fake\n")
    shutil.copy(ground.top / ".git/info/exclude", ground.top / "fake/info/exclude")
    (ground.top / ".git/commondir").write_text("../fake\n")
    with (ground.top / "fake/config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = {ground.command}\n[filter "evil"]\n\tclean = {ground.command}\n')


ATTACKS: list[Callable[[Ground], None]] = [
    filter_of_the_project,
    process_of_the_project,
    filter_in_an_odd_spelling,
    filter_with_a_name_that_no_setting_can_have,
    filter_without_a_name,
    included_filter,
    filter_included_by_a_condition,
    filter_of_the_worktree,
    filter_by_info_attributes,
    file_system_monitor,
    hooks_in_the_git_dir,
    hooks_elsewhere,
    hooks_by_settings,
    pager_editor_and_alias,
    differ_and_signer,
    fetching_what_is_missing,
    submodule_with_its_own_settings,
    another_work_tree,
    another_git_dir,
    another_common_dir,
]
REFUSED = (filter_with_a_name_that_no_setting_can_have, fetching_what_is_missing)  # git tells us nothing there


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_nothing_runs_that_the_repository_names(ground: Ground, attack: Callable[[Ground], None]) -> None:
    attack(ground)
    ground.ran.unlink(missing_ok=True)
    found = ground.look()
    assert not ground.ran.exists(), ground.ran.read_text()
    if attack in REFUSED:
        assert found["dirty"] is None
    else:
        assert "a.txt" in found["dirty"]
        assert {**found, "dirty": [], "changed": []} == {**FOUND, "dirty": [], "changed": []}


# of no effect with this version of git; the last one would look at the whole disk
QUIET = (filter_without_a_name, hooks_by_settings, pager_editor_and_alias, another_work_tree)


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one not in QUIET], ids=lambda attack: attack.__name__)
def test_plain_git_runs_it(ground: Ground, attack: Callable[[Ground], None]) -> None:
    """Shows that the test above would notice."""
    attack(ground)
    ground.ran.unlink(missing_ok=True)
    for words in (["status"], ["tag", "-a", "-m", "x", "x"], ["diff"]):
        ground.git("--no-pager", *words, check=False)
    assert ground.ran.exists()


def test_an_embedded_bare_repository_is_none(ground: Ground) -> None:
    inner = ground.top / "inner"
    ground.git("clone", "-q", "--bare", ".", "inner")
    (inner / ".overhand").mkdir()
    (inner / ".gitattributes").write_text("* filter=evil\n")
    with (inner / "config").open("a") as file:
        file.write(f"[core]\n\tbare = false\n\tworktree = {inner}\n\tfsmonitor = {ground.command}\n")
        file.write(f'[filter "evil"]\n\tclean = {ground.command}\n')
    ground.git("status", cwd=inner)
    assert ground.ran.exists()
    ground.ran.unlink()
    assert repository_of(str(inner)) == str(ground.top)
    found = tree_snapshot(str(inner))
    assert found is not None
    assert ".gitattributes" in found["dirty"]
    assert tree_snapshot(str(ground.top)) is not None
    assert not ground.ran.exists(), ground.ran.read_text()


def test_a_bare_repository_in_no_work_tree_is_none(ground: Ground, tmp_path: Path) -> None:
    ground.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    assert repository_of(str(tmp_path / "bare")) is None
    assert tree_snapshot(str(tmp_path / "bare")) is None


def test_a_filter_of_the_user_stays(ground: Ground) -> None:
    ground.git("config", "--global", "filter.own.clean", ground.command)
    (ground.top / "b.dat").write_text("one\n")
    ground.git("add", "b.dat")
    ground.git("commit", "-q", "-m", "data")
    (ground.top / "b.dat").write_text("six\n")
    ground.ran.unlink()
    assert ground.look()["dirty"] == ["a.txt", "b.dat"]
    assert ground.ran.exists()


def test_a_project_cannot_change_a_filter_of_the_user(ground: Ground, tmp_path: Path) -> None:
    shutil.copy(ground.command, tmp_path / "evil")
    ground.git("config", "--global", "filter.own.clean", f"{ground.command} users")
    (ground.top / "b.dat").write_text("one\n")
    ground.git("add", "b.dat")
    ground.git("commit", "-q", "-m", "data")
    (ground.top / "b.dat").write_text("six\n")
    ground.config("filter.own.clean", f"{tmp_path}/evil")
    ground.ran.unlink()
    assert ground.look()["dirty"] == ["a.txt", "b.dat"]
    assert set(ground.ran.read_text().splitlines()) == {f"{ground.command} users"}
    ground.config("filter.own.process", f"{tmp_path}/evil")  # git would pass over the user's for it
    ground.ran.unlink()
    assert ground.look()["dirty"] is None
    assert not ground.ran.exists()


def test_a_filter_given_by_the_environment_stays(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.evil.clean")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", ground.command)
    assert ground.look()["dirty"] == ["a.txt"]
    assert ground.ran.exists()


def test_a_python_filter_of_the_user_does_not_import_from_the_project(ground: Ground) -> None:
    import sys

    (ground.top / "stripper.py").write_text(f"open({str(ground.ran)!r}, 'w')\n")
    ground.git("config", "--global", "filter.evil.clean", f"{sys.executable} -m stripper")
    assert tree_snapshot(str(ground.top)) is not None
    assert not ground.ran.exists()


def test_hooks_of_the_user_are_switched_off_by_their_names(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As git from 2.54 on has them; this one may be older, so its arguments are looked at."""
    real, said = shutil.which("git"), tmp_path / "said"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho "$*" >>"{said}"\nexec {real} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    ground.git("config", "--global", "hook.own.command", ground.command)
    ground.git("config", "--global", "hook.own.event", "reference-transaction")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert tag_commit(str(ground.top), "made", "A tag") == "made"
    *_, last = said.read_text().splitlines()
    assert "-c hook.own.enabled=false" in last
    assert "-c core.hooksPath=/dev/null" in last


def test_other_variables_of_git_do_not_count(ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", ground.command)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(ground.top))
    assert ground.look() == FOUND
    assert not ground.ran.exists()


@pytest.mark.parametrize("target", ["normalTarget", "perfTarget", "eventTarget"])
def test_no_trace_is_written_to_a_file_that_the_users_configuration_names(ground: Ground, target: str) -> None:
    """An agent can write there; with a trace it would add lines of its choice to a file of the record."""
    ground.git("config", "--global", f"trace2.{target}", str(ground.ran))
    ground.git("status")
    assert ground.ran.exists()
    ground.ran.unlink()
    assert ground.look() == FOUND
    assert not ground.ran.exists()


@pytest.mark.parametrize("name", ["config", "config.worktree"])
def test_a_configuration_that_is_a_fifo_blocks_nothing(ground: Ground, name: str) -> None:
    place = ground.top / ".git" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert tree_snapshot(str(ground.top)) is None


def test_what_only_looks_like_a_repository_is_passed_over(ground: Ground) -> None:
    inner = ground.top / "one/two"
    (inner / ".git").mkdir(parents=True)
    assert repository_of(str(inner)) == str(ground.top)
    (ground.top / "one/.git").write_text("no gitdir\n")
    assert repository_of(str(ground.top / "one")) is None
    assert repository_of("/") is None


def test_worktrees_are_listed_as_git_lists_them(ground: Ground, tmp_path: Path) -> None:
    for name in ("kept", "gone", "locked"):
        ground.git("worktree", "add", "-q", "-b", name, str(tmp_path / name))
    ground.git("worktree", "lock", str(tmp_path / "locked"))
    for name in ("gone", "locked"):
        shutil.rmtree(tmp_path / name)
    listed = [
        dict(line.partition(" ")[::2] for line in entry.splitlines())
        for entry in ground.git("worktree", "list", "--porcelain").split("\n\n")[1:]
    ]
    expected = {(one["worktree"], one["branch"], "prunable" in one) for one in listed}
    for place in (ground.top, tmp_path / "kept"):
        assert {tuple(tree) for tree in linked_worktrees(str(place))} == expected
    assert len(expected) == 3


def test_in_a_linked_worktree(ground: Ground, tmp_path: Path) -> None:
    ground.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    filter_of_the_project(ground)
    (tmp_path / "other/a.txt").write_text("six\n")
    (tmp_path / "other/sub").mkdir()
    (tmp_path / "other/sub/new").write_text("new\n")
    ground.ran.unlink(missing_ok=True)
    found = tree_snapshot(str(tmp_path / "other"))
    assert found is not None
    assert sorted(found["dirty"]) == ["a.txt", "sub/new"]
    below = tree_snapshot(str(tmp_path / "other/sub"))
    assert below is not None
    assert sorted(below["dirty"]) == ["new"]
    assert not ground.ran.exists()


@ROOT
@pytest.mark.parametrize("whose", ["", ".git"])
def test_a_repository_of_another_user_is_not_used_unless_it_is_called_safe(ground: Ground, whose: str) -> None:
    os.chown(ground.top / whose, 1234, 1234)
    assert ground.look() == {"dirty": None, "changed": None, "untracked": False, "tag": None, "trees": []}
    ground.config("safe.directory", "*")
    assert tree_snapshot(str(ground.top)) is None  # it cannot say so itself
    ground.git("config", "--global", "safe.directory", str(ground.top))
    assert ground.look() == FOUND
    ground.git("config", "--global", "--add", "safe.directory", "")
    assert tree_snapshot(str(ground.top)) is None
    ground.git("config", "--global", "--add", "safe.directory", str(ground.top.parent) + "/*")
    assert tree_snapshot(str(ground.top)) is not None


@ROOT
def test_safe_directories_of_the_environment_count(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(ground.top, 1234, 1234)
    monkeypatch.setenv("SUDO_UID", "4321")
    assert tree_snapshot(str(ground.top)) is None
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "*")
    assert tree_snapshot(str(ground.top)) is not None
    monkeypatch.delenv("GIT_CONFIG_COUNT")
    monkeypatch.setenv("SUDO_UID", "1234")
    assert tree_snapshot(str(ground.top)) is not None
