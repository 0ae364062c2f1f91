"""Nothing gets lost: a tree's files are kept by a ref before the tree goes, and come back when it is wanted again."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.errors import Busy, NotFound, Refused, storage_failed
from overhand.system import Beneath, find_git, find_repository, names_in, remove_file, write_file
from overhand.trees import borrowed
from overhand.trees.agents_git import DOT_GIT, restore_agents_git, write_agents_git
from overhand.trees.create import check_out
from overhand.trees.part import part_of
from overhand.trees.place import TRASH, kept_place, prepare_place, trash_place
from overhand.trees.snapshot import find_filters
from overhand.trees.submodules import check_out_submodule
from overhand.trees.tree import (
    KEPT,
    STATE,
    has_tree,
    held_tree,
    kept_aside,
    load_tree,
    note_aside,
    save_tree,
    tree_lock,
    write_ref,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.trees.part import Part
    from overhand.trees.tree import Tree

_GONE = ".gone"
_DROPPING = "dropping"  # in a git dir of ours: since then we delete a packed ref


@dataclass(frozen=True)
class Removed:
    """What became of a removed tree: the commit that keeps its files, and where the folder is now."""

    commit: str
    trash: str  # can be deleted, unless `is_kept`
    is_kept: bool  # it holds what no commit does, such as a repository of its own


def keep_part(ours: str, enter: Sequence[str] = ()) -> Part:
    """Take the agent's part, and keep it by a ref of its own."""
    with held_tree(ours) as (tree, lock):
        part = part_of(tree, lock, enter)
        _keep(tree, part)
        return part


def _keep(tree: Tree, part: Part) -> None:
    kept = tree.kept()
    if part.commit not in kept.values():
        write_ref(tree.ours, f"{KEPT}/{max(kept, default=0) + 1}", part.commit)


def remove_tree(ours: str, enter: Sequence[str] = ()) -> Removed:
    """Move a tree to the trash once a ref keeps its files; raises Busy while a process works in it."""
    with held_tree(ours) as (tree, lock):
        if not os.path.lexists(tree.path):
            return Removed(tree.last, "", is_kept=False)
        if pid := _process_in(tree.path):
            raise Busy(f"Process {pid} works in {tree.path}.", f"Stop it, then try again: ps -p {pid}", pid=pid)
        part = part_of(tree, lock, enter)
        _keep(tree, part)
        is_kept = bool(part.left or part.submodules or not part.settled)
        trash = kept_place(tree.path, "tree") if is_kept else trash_place(tree.path)
        if is_kept:
            note_aside(tree, trash)
        try:
            os.makedirs(os.path.dirname(trash), mode=0o700, exist_ok=True)
            os.rename(tree.path, trash)
        except OSError as error:
            raise storage_failed(error, "Cannot move the tree to the trash") from error
    return Removed(part.commit, trash, is_kept)


def _process_in(folder: str) -> int:
    """A process that has its current folder in this one; 0 for none, and where the kernel doesn't tell."""
    real = os.path.realpath(folder)
    for name in names_in("/proc"):
        if name.isdigit():
            try:
                cwd = os.readlink(f"/proc/{name}/cwd")
            except OSError:
                continue
            if cwd == real or cwd.startswith(f"{real}/"):
                return int(name)
    return 0


def empty_trash(folder: str) -> int:
    """Delete the removed trees below a repository's folder of trees; returns how many. What is kept stays."""
    deleted = 0
    for name in names_in(f"{folder}/{TRASH}"):
        if not name.startswith("kept-"):
            _delete(f"{folder}/{TRASH}/{name}")
            deleted += 1
    return deleted


def _delete(path: str) -> None:
    """Delete a folder whose agent may have taken permissions from us."""

    def again(_: object, at: str, __: object) -> None:
        os.chmod(os.path.dirname(at), 0o700)
        if os.path.isdir(at) and not os.path.islink(at):
            os.chmod(at, 0o700)
            shutil.rmtree(at)
        else:
            os.unlink(at)

    try:
        shutil.rmtree(path, onerror=again)
    except OSError as error:
        raise storage_failed(error, "Cannot empty the trash of trees") from error


def restore_tree(ours: str) -> Tree:
    """Make a removed tree again, with the files that it had last; one that is there is returned as it is."""
    with held_tree(ours) as (tree, lock):
        if os.path.lexists(tree.path) and not os.path.lexists(f"{ours}/restoring"):
            return tree
        if os.path.lexists(f"{ours}/restoring"):  # killed on the way: no agent was in it yet
            shutil.rmtree(tree.path, ignore_errors=True)
        write_file(f"{ours}/restoring", b"")
        prepare_place(tree.path, tree.top)
        try:
            os.mkdir(tree.path, 0o700)
        except OSError as error:
            raise storage_failed(error, "Cannot make the tree") from error
        git = tree.git(lock)
        check_out(git, tree.last, find_filters(git, tree.format), cautious=True)
        borrowed.copy_file(f"{ours}/index", f"{ours}/w.last")
        for submodule in tree.submodules:
            check_out_submodule(tree, submodule, lock)
        write_agents_git(tree)
        remove_file(f"{ours}/restoring")
        return tree


def check_agents_git(ours: str) -> tuple[str, ...]:
    """After a run: set aside what git would obey in the agent's git dir and we did not write; returns the names."""
    with held_tree(ours) as (tree, _):
        return restore_agents_git(tree)


def drop_dangling_refs(ours: str) -> int:
    """Before a further run: drop copied refs whose commits the user pruned, or git in the tree fails; how many."""
    with held_tree(ours) as (tree, lock):
        files = Beneath(tree.path, ".git")
        lines = (files.read("packed-refs", 256 << 20) or b"").splitlines(keepends=True)
        rows = [(at, line.split(b" ", 1)[0]) for at, line in enumerate(lines) if line[:1] not in (b"#", b"^")]
        if not rows:
            return 0
        objects = (("GIT_ALTERNATE_OBJECT_DIRECTORIES", borrowed.as_variable(f"{tree.path}/.git/objects")),)
        git = tree.objects(lock)
        asked = git._replace(variables=(*git.variables, *objects))
        told = asked.run("cat-file", "--batch-check", given=b"".join(commit + b"\n" for _, commit in rows)).splitlines()
        gone = {at for (at, _), answer in zip(rows, told, strict=True) if answer.endswith(b" missing")}
        gone |= {at + 1 for at in gone if at + 1 < len(lines) and lines[at + 1].startswith(b"^")}
        if gone:
            files.write("packed-refs", b"".join(line for at, line in enumerate(lines) if at not in gone), mode=0o600)
        return len(gone)


def follow_project(ours: str, project: str) -> Tree:
    """After the project was moved: name its objects where they are now, for us and for the agent's git."""
    with held_tree(ours) as (tree, _):
        found = find_repository(os.path.realpath(project))
        if found is None:
            raise NotFound(f"{project} is not in a git repository.", "Open the project where it is now.")
        if found.common_dir == tree.common_dir and found.top == tree.top:
            return tree
        moved = replace(tree, top=found.top, git_dir=found.git_dir, common_dir=found.common_dir)
        places = borrowed.object_places(f"{found.common_dir}/objects")
        write_file(f"{ours}/objects/info/alternates", borrowed.alternates(places))
        theirs = borrowed.alternates((f"{ours}/objects", *places))
        write_file(f"{ours}/{DOT_GIT}/objects/info/alternates", theirs)
        for one in tree.submodules:
            lender = find_repository(f"{found.top}/{one.path}")
            if lender is not None:
                inside = borrowed.alternates(borrowed.object_places(f"{lender.common_dir}/objects"))
                for place in (f"{ours}/modules", f"{ours}/{DOT_GIT}/modules"):
                    write_file(f"{place}/{one.name}/objects/info/alternates", inside)
        if os.path.isdir(tree.path):
            restore_agents_git(moved)
        save_tree(moved)
        return moved


def release_tree(ours: str) -> None:
    """Let a task's git dir of ours go, then what was kept aside, and the ref in the project; its tree must be gone."""
    gone = f"{ours}{_GONE}"
    with tree_lock(ours) as lock:
        if has_tree(ours):
            tree = load_tree(ours)
            if os.path.lexists(tree.path):
                raise Refused(f"The tree {tree.path} is still there.", "Remove it first.")
            os.rename(ours, gone)
        if os.path.lexists(f"{gone}/{STATE}"):
            tree = load_tree(gone)
            _drop_base(tree, lock.fd)
            for place in kept_aside(tree):
                if os.path.lexists(place):
                    _delete(place)
            remove_file(f"{gone}/{STATE}")
        shutil.rmtree(gone, ignore_errors=True)


def _drop_base(tree: Tree, lock: int) -> None:
    """Delete our ref in the project. As a file it is only ours; git is needed where it was packed among the user's."""
    project = find_git(tree.top, writes=True)
    if project is None or not tree.head:
        return
    project = project._replace(lock=lock)
    for name in (f"{tree.project_ref}.lock", tree.project_ref):
        remove_file(f"{tree.common_dir}/{name}")
    if project.call("rev-parse", "-q", "--verify", tree.project_ref).status != 0:
        return
    marker, packing = f"{tree.ours}/{_DROPPING}", f"{tree.common_dir}/packed-refs.lock"
    if _is_younger(packing, marker) and not _git_works_in(tree):
        remove_file(packing)  # of the git that was killed when it did this
    write_file(marker, b"")
    project.run("update-ref", "-d", "--no-deref", tree.project_ref)


def _is_younger(path: str, than: str) -> bool:
    try:
        return os.lstat(path).st_mtime_ns >= os.lstat(than).st_mtime_ns
    except OSError:
        return False


def _git_works_in(tree: Tree) -> bool:
    """Whether a git is at work in the user's repository, or in one that can't be seen."""
    for name in names_in("/proc"):
        try:
            if name.isdigit() and os.path.basename(os.readlink(f"/proc/{name}/exe")).startswith("git"):
                cwd = os.readlink(f"/proc/{name}/cwd")
                if any(f"{cwd}/".startswith(f"{place}/") for place in (tree.top, tree.common_dir, tree.git_dir)):
                    return True
        except OSError:
            continue
    return not os.path.isdir("/proc/self")
