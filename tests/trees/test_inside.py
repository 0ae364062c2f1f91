"""No git command in a tree changes anything of the user's, and none of the user's breaks a tree."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.trees.keep import drop_dangling_refs
from overhand.trees.part import take_part
from support.trees import Picture, files_of

if TYPE_CHECKING:
    from overhand.trees.tree import Tree
    from support.trees import Ground

# In this order, in one tree: each builds on what the one before left.
COMMANDS = """\
status
diff
log --all --oneline
add -A
commit -q -m one
commit -q --amend -m uno
stash -u
stash pop
stash
stash drop
add -A
commit -q -m two
branch mine
switch -q mine
switch -q feature
switch -q -
branch -D feature
switch -q -c feature main
switch -q mine
tag t1
tag -d v1
cherry-pick --keep-redundant-commits main
reset -q --hard HEAD~1
merge -q --no-edit main
rebase -q main
rebase -q -i --root
reset -q --soft HEAD~1
commit -q -m again
reflog
reflog expire --expire=now --all
fetch -q
fetch -q --prune --prune-tags
pull -q --rebase origin main
remote prune origin
notes add -m note
gc -q --prune=now
repack -q -a -d
prune --expire=now
pack-refs --all
update-ref -d refs/remotes/origin/main
clean -fdxq
sparse-checkout set src
sparse-checkout disable
blame src/one.py
archive -o out.tar HEAD
submodule --quiet update --init
submodule --quiet sync
submodule --quiet foreach git gc
worktree add -q inner-tree
worktree remove inner-tree
config user.name Agent
config core.fsmonitor false
config --unset remote.origin.fetch
remote remove origin
maintenance run --quiet
rerere clear
bisect start
bisect reset
update-index --assume-unchanged src/one.py
update-index --split-index
multi-pack-index write
commit-graph write --reachable
checkout -q --orphan alone
rm -rq --cached .
"""


def test_no_git_command_in_the_tree_changes_anything_of_the_users(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    before = Picture(ground.home)
    failed = []
    for number, line in enumerate(COMMANDS.splitlines()):
        if line.startswith(("add", "stash drop", "stash -u")):
            ground.write("work.txt", f"{number}\n", below=tree.path)
        if ground.try_git(*line.split(), cwd=tree.path).returncode != 0:
            failed.append(line)
        assert before.changes() == {}, f"git {line}"
    assert failed == []
    assert ground.git("stash", "list").count("\n") == 0
    assert ground.git("stash", "list") != ""
    assert take_part(tree.ours).settled


def test_a_stash_that_the_user_dropped_survives_the_agents_prune(ground: Ground) -> None:
    ground.begin_fully()
    tree = ground.tree()
    dropped = ground.git("rev-parse", "stash@{0}")
    ground.git("stash", "drop", "-q")
    ground.git("gc", "-q", "--prune=now", cwd=tree.path)
    ground.git("prune", "--expire=now", cwd=tree.path)
    assert ground.git("cat-file", "-t", dropped) == "commit"


def work(ground: Ground, tree: Tree) -> None:
    ground.write("mine.txt", "mine\n", below=tree.path)
    ground.commit("mine", cwd=tree.path)
    ground.write("loose.txt", "loose\n", below=tree.path)


def holds(ground: Ground, tree: Tree) -> None:
    """The start, the part, the agent's commits and its history are all there."""
    part = take_part(tree.ours)
    assert {one.path for one in part.changed} == {"mine.txt", "loose.txt"}
    ground.git("fsck", "--no-dangling", cwd=tree.path)
    ground.git("log", "--stat", tree.base, cwd=tree.path)
    assert ground.git("--git-dir", tree.ours, "fsck", "--no-dangling", "--no-reflogs", cwd=tree.ours) == ""


def test_the_user_throws_everything_away_and_prunes(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    work(ground, tree)
    take_part(tree.ours)
    ground.git("reset", "-q", "--hard", "HEAD~2")
    ground.git("clean", "-fdq")
    for name in ("feature",):
        ground.git("branch", "-D", name)
    ground.git("remote", "remove", "origin")
    ground.git("tag", "-d", "v1")
    ground.git("stash", "clear")
    ground.git("reflog", "expire", "--expire=now", "--all")
    ground.git("gc", "-q", "--prune=now")
    ground.git("repack", "-q", "-a", "-d")
    drop_dangling_refs(tree.ours)
    holds(ground, tree)


def test_staged_content_that_only_the_users_index_had_is_kept_by_us(ground: Ground) -> None:
    """A blob that was staged is an object of the project, but nothing there keeps it once it is unstaged."""
    ground.begin()
    ground.write("only/staged.txt", "only the index has this\n")
    ground.git("add", "only/staged.txt")
    tree = ground.tree()
    ground.git("rm", "-q", "--cached", "only/staged.txt")
    (ground.top / "only/staged.txt").unlink()
    ground.git("gc", "-q", "--prune=now")
    assert ground.git("--git-dir", tree.ours, "show", f"{tree.base}:only/staged.txt", cwd=tree.ours) != ""
    assert ground.git("--git-dir", tree.ours, "fsck", "--no-dangling", cwd=tree.ours) == ""


def test_content_that_the_agent_has_from_another_branch_is_kept_by_us(ground: Ground) -> None:
    ground.begin()
    ground.git("switch", "-q", "-c", "side")
    ground.write("deep/side.txt", "of the side branch\n")
    ground.commit("side")
    ground.git("switch", "-q", "main")
    tree = ground.tree()
    ground.write("deep/side.txt", "of the side branch\n", below=tree.path)
    part = take_part(tree.ours)
    ground.git("branch", "-q", "-D", "side")
    ground.git("reflog", "expire", "--expire=now", "--all")
    ground.git("gc", "-q", "--prune=now")
    shutil.rmtree(tree.path)
    assert ground.git("--git-dir", tree.ours, "show", f"{part.commit}:deep/side.txt", cwd=tree.ours) != ""
    assert ground.git("--git-dir", tree.ours, "fsck", "--no-dangling", cwd=tree.ours) == ""


def test_refs_whose_commits_the_user_pruned_are_dropped(ground: Ground) -> None:
    ground.begin_fully()
    ground.git("switch", "-q", "-c", "short-lived")
    ground.write("x.txt")
    ground.commit("short-lived")
    ground.git("switch", "-q", "main")
    tree = ground.tree()
    ground.git("branch", "-q", "-D", "short-lived")
    ground.git("reflog", "expire", "--expire=now", "--all")
    ground.git("gc", "-q", "--prune=now")
    assert ground.try_git("log", "--all", cwd=tree.path).returncode != 0
    assert drop_dangling_refs(tree.ours) == 1
    assert drop_dangling_refs(tree.ours) == 0
    for line in ("log --all", "fetch -q", "gc -q", "status"):
        ground.git(*line.split(), cwd=tree.path)


def test_uncommitted_files_never_become_objects_of_the_project(ground: Ground) -> None:
    ground.begin_fully()
    ground.write("secret.txt", "a secret that must not be pushed\n")
    tree = ground.tree()
    take_part(tree.ours)
    blob = ground.git("hash-object", "secret.txt")
    assert ground.try_git("cat-file", "-e", blob).returncode != 0
    far = ground.folder / "mirror.git"
    ground.git("init", "-q", "--bare", str(far))
    ground.git("push", "-q", "--mirror", str(far))
    assert ground.try_git("cat-file", "-e", tree.base, cwd=far).returncode != 0
    assert ground.git("rev-parse", tree.project_ref, cwd=far) == tree.head


def test_places_are_for_this_user_alone(ground: Ground) -> None:
    ground.begin()
    tree = ground.tree()
    for place in (tree.path, tree.ours, f"{tree.path}/.git"):
        assert os.stat(place).st_mode & 0o077 == 0, place
    assert Path(tree.path, ".git/config").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("masked", [".bashrc", ".idea"])
def test_devices_that_a_sandbox_shows_do_not_stop_the_agents_commits(ground: Ground, masked: str) -> None:
    ground.begin()
    tree = ground.tree()
    os.mkfifo(f"{tree.path}/{masked}")  # as unfit for git as the device that a sandbox mounts there
    ground.write("a.txt", below=tree.path)
    ground.commit(cwd=tree.path)
    os.unlink(f"{tree.path}/{masked}")
    ground.write(masked, "a real file\n", below=tree.path)
    assert masked in {one.path for one in take_part(tree.ours).changed}
    assert files_of(ground.top).keys() < files_of(tree.path).keys()
