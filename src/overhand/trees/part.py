"""The agent's part: what the tree's files differ from its start, whatever the agent did with its own repository.

The files are hashed through an index of ours and written as a tree, W. That must happen when no process of the run
lives, for a live one could put a link in a folder's place between our look and git's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.errors import NotFound
from overhand.trees import borrowed
from overhand.trees.byproducts import put_back, remember
from overhand.trees.commits import take_commits
from overhand.trees.hidden import find_hidden, find_ignored
from overhand.trees.snapshot import LONG, changed_between, find_candidates, find_filters, own_objects, stage
from overhand.trees.submodules import submodule_git
from overhand.trees.tree import LAST, Changed, Left, held_tree, require_project, write_ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.system import Git
    from overhand.trees.tree import Tree

_LAST_INDEX, _NEW_INDEX = "w.last", "w.index"
_LOOKS = 3


@dataclass(frozen=True)
class Part:
    """What an agent made of its tree."""

    written: str  # the tree W
    commit: str  # W as a commit, on the agent's own commits if they were taken
    changed: tuple[Changed, ...]
    left: tuple[Left, ...]  # what is no part of W
    hidden: tuple[str, ...]  # what only the agent's own ignore rules leave out
    ignored: tuple[str, ...]
    submodules: tuple[str, ...]  # those that were changed, and stay as they were
    tip: str = ""  # the agent's last commit, if it made any and they could be taken
    not_taken: str = ""  # why its commits could not be taken
    settled: bool = True  # False: files were still being written


def take_part(ours: str, enter: Sequence[str] = ()) -> Part:
    """Record the tree's files as they are now; `enter` puts up a shield around the git that reads them."""
    with held_tree(ours) as (tree, lock):
        return part_of(tree, lock, enter)


def part_of(tree: Tree, lock: int, enter: Sequence[str] = ()) -> Part:
    """The same for a tree whose lock is held."""
    require_project(tree)
    if not os.path.isdir(tree.path) or os.path.islink(tree.path):
        raise NotFound(f"The tree {tree.path} is gone.", "Make it again with: overhand resume ID")
    git = tree.git(lock, enter)
    tip, not_taken = take_commits(tree, git)
    more = [one.path for one in changed_between(git, tree.base, tip) if one.status != "D"] if tip else []
    index = f"{tree.ours}/{_NEW_INDEX}"
    if not borrowed.copy_file(f"{tree.ours}/{_LAST_INDEX}", index):
        borrowed.copy_file(f"{tree.ours}/index", index)
    writing = git._replace(index_file=index)
    written, left, settled = _snapshot(tree, writing, more)
    whole, written = written, put_back(writing, written)
    if written != tree.base_tree:
        own_objects(git, tree.base_tree, written)
    ignored = find_ignored(writing)
    part = Part(
        written=written,
        commit=_as_commit(tree, git, written, tip),
        changed=changed_between(git, tree.base_tree, written) if written != tree.base_tree else (),
        left=left,
        hidden=tuple(find_hidden(tree, writing, ignored)),
        ignored=tuple(ignored),
        submodules=tuple(one.path for one in tree.submodules if _is_changed(submodule_git(tree, one, git.lock))),
        tip=tip,
        not_taken=not_taken,
        settled=settled,
    )
    if whole == written:
        os.rename(index, f"{tree.ours}/{_LAST_INDEX}")  # else the next look would miss what was put back
    write_ref(tree.ours, LAST, part.commit)
    return part


def note_byproducts(ours: str, enter: Sequence[str] = ()) -> None:
    """Everything that was written since the agent's part was last taken is ours: set-up or a check wrote it."""
    with held_tree(ours) as (tree, lock):
        git = tree.git(lock, enter)._replace(index_file=f"{tree.ours}/{_NEW_INDEX}")
        if not borrowed.copy_file(f"{tree.ours}/{_LAST_INDEX}", git.index_file):
            borrowed.copy_file(f"{tree.ours}/index", git.index_file)
        written, _, _ = _snapshot(tree, git, ())
        remember(git, f"{tree.last}^{{tree}}", written)


def _snapshot(tree: Tree, git: Git, more: Sequence[str]) -> tuple[str, tuple[Left, ...], bool]:
    """The files as a tree, what is not in it, and whether two looks found the same."""
    filters = find_filters(git, tree.format)
    looking = filters.off(git)
    found = find_candidates(looking, more, tree.outside)
    written = ""
    for _ in range(_LOOKS):
        refused = stage(git, found, filters)
        before, written = written, git.run("write-tree", patience=LONG).decode().strip()
        found = find_candidates(looking, (), tree.outside)
        names = {one.path for one in refused}
        if not found.moving - names or written == before:
            return written, (*found.left, *refused), True
    return written, found.left, False


def _as_commit(tree: Tree, git: Git, written: str, tip: str) -> str:
    """W as a commit: the agent's own or the start if that is the same, else one of ours on top."""
    parent = tip or tree.base
    last = tree.last
    known = {parent: "", last: ""}
    for commit in known:
        known[commit] = _tree_of(git, commit)
    if known[parent] == written:
        return parent
    is_same = known[last] == written and git.run("log", "-1", "--format=%P", last).decode().strip() == parent
    if is_same:
        return last
    return git.run("commit-tree", "-p", parent, "-m", "The files of the task's tree", written).decode().strip()


def _tree_of(git: Git, commit: str) -> str:
    return git.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()


def _is_changed(git: Git) -> bool:
    """Whether a submodule's files differ from those that we checked out; by our own git dir, never by the agent's."""
    if not os.path.isdir(git.work_tree) or os.path.islink(git.work_tree):
        return True
    found = find_candidates(git)
    return bool(found.moving or found.left)


def diff_part(tree: Tree, written: str, *options: str, paths: Sequence[str] = ()) -> bytes:
    """What differs between the start and W, by git's own diff: a patch, or with options such as `--numstat` a list."""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", *options, tree.base_tree, written)
    return tree.objects().run(*words, "--", *paths, patience=LONG)
