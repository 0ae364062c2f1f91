"""The agent's own git dir, `TREE/.git`: written from a copy of ours, compared with it after a run, and restored.

Git in the tree reads its configuration, hooks and lists of objects from there, so what an agent leaves could run as the
person who types `git status` next. What differs from what we wrote is set aside. We ourselves never use it with git.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

from overhand.errors import OverhandError, storage_failed
from overhand.system import Beneath, names_in, read_file
from overhand.trees import borrowed, config
from overhand.trees.place import kept_place
from overhand.trees.tree import TIP, note_aside

if TYPE_CHECKING:
    from overhand.trees.source import Source
    from overhand.trees.tree import Tree

DOT_GIT = "dot-git"
# A sandbox shows some absent files as devices, which `git add -A` can't take.
_MASKED = (
    *(".bash_profile", ".bashrc", ".gitconfig", ".gitmodules", ".mcp.json", ".profile", ".ripgreprc", ".zprofile"),
    *(".zshrc", ".idea", ".vscode"),
)
# Git changes these in the course of work, and none of them can name a program.
_FREE = ("HEAD", "packed-refs", "shallow", "info/sparse-checkout")
# What is not there when we make it, and would be read.
_ABSENT = ("commondir", "config.worktree", "info/attributes", "info/grafts", "objects/info/http-alternates")
_MAX_FILE = 256 << 20


def agents_files(source: Source, tree: Tree, more: config.Pairs, *, hooks: bool) -> dict[str, bytes]:
    """The files of the agent's git dir, without what tells the state of its work."""
    settings = [*config.agents_settings(source.settings, hooks=hooks), *more]
    files = {**source.files, "config": config.as_text(settings), "packed-refs": source.refs}
    for name, target in source.symbolic.items():
        files[name] = os.fsencode(f"ref: {target}\n")
    files["objects/info/alternates"] = borrowed.alternates((f"{tree.ours}/objects", *source.places))
    if hooks:
        files |= borrowed.shared_hooks(tree.common_dir)
    return files


def masked(tree: Tree) -> bytes:
    """Lines for `info/exclude`: names that a sandbox covers and that the tree doesn't have."""
    return "".join(f"/{name}\n" for name in _MASKED if not os.path.lexists(f"{tree.path}/{name}")).encode()


def write_agents_git(tree: Tree) -> None:
    """Make `TREE/.git` from our copy of it, where there is none."""
    kept, target = f"{tree.ours}/{DOT_GIT}", f"{tree.path}/.git"
    try:
        shutil.copytree(kept, target)
        for name in ("hooks", "logs"):
            os.makedirs(f"{target}/{name}", exist_ok=True)
        for submodule in tree.submodules:
            inside = f"modules/{submodule.name}"
            borrowed.copy_file(f"{tree.ours}/{inside}/index", f"{target}/{inside}/index")
        borrowed.copy_file(f"{tree.ours}/index", f"{target}/index")
        _write(f"{target}/refs/heads/{tree.branch}", f"{_tip(tree)}\n")
        _write(f"{target}/HEAD", f"ref: refs/heads/{tree.branch}\n")
    except OSError as error:
        raise storage_failed(error, "Cannot make the tree's git dir") from error


def _tip(tree: Tree) -> str:
    """Where the tree's branch stands: the agent's last commit if we have it, else the start."""
    return tree.ref(TIP) or tree.base


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def restore_agents_git(tree: Tree) -> tuple[str, ...]:
    """Set aside what an agent changed in `TREE/.git` that git would obey; returns its names, `.git` for all of it."""
    files = Beneath(tree.path, ".git")
    if not _is_usable(tree):
        _set_aside_whole(tree)
        write_agents_git(tree)
        return (".git",)
    wanted = _kept_files(f"{tree.ours}/{DOT_GIT}")
    differing = [name for name, data in wanted.items() if name not in _FREE and files.read(name, _MAX_FILE) != data]
    foreign = [name for name in _foreign(tree, wanted) if files.look(name) is not None]
    aside = _aside(tree) if differing or foreign else ""
    try:
        for name in (*differing, *foreign):
            _set_aside(tree, name, aside)
        for name in differing:
            files.write(name, wanted[name], mode=0o600, make=True)
    except (OSError, OverhandError):  # a folder on the way is a link, or was taken from us
        _set_aside_whole(tree)
        write_agents_git(tree)
        return (".git",)
    return (*differing, *foreign)


def _is_usable(tree: Tree) -> bool:
    """Whether `.git` and what git needs in it are real folders."""
    for name in ("", "/objects", "/objects/info", "/refs", "/info"):
        try:
            found = os.lstat(f"{tree.path}/.git{name}")
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode):
            return False
    return os.path.lexists(f"{tree.path}/.git/HEAD")


def _kept_files(folder: str, inside: str = "") -> dict[str, bytes]:
    """Every file that we wrote, by its name below `.git`; refs and objects are the agent's to change."""
    found: dict[str, bytes] = {}
    for name in names_in(f"{folder}/{inside}"):
        path = f"{inside}/{name}" if inside else name
        if os.path.isdir(f"{folder}/{path}"):
            if name != "refs":
                found |= _kept_files(folder, path)
        elif path.rpartition("/")[2] not in ("HEAD", "packed-refs", "shallow", "sparse-checkout", "index"):
            found[path] = read_file(f"{folder}/{path}", _MAX_FILE) or b""
    return found


def _foreign(tree: Tree, wanted: dict[str, bytes]) -> list[str]:
    """What git would read in the agent's git dir if it were there, and that we did not write."""
    git_dirs = ["", *(f"modules/{one.name}/" for one in tree.submodules)]
    found = [f"{place}{name}" for place in git_dirs for name in _ABSENT if f"{place}{name}" not in wanted]
    for place in git_dirs:
        names = names_in(f"{tree.path}/.git/{place}hooks")
        found += [f"{place}hooks/{name}" for name in names if f"{place}hooks/{name}" not in wanted]
    known = {one.name.split("/")[0] for one in tree.submodules}
    return [*found, *(f"modules/{name}" for name in names_in(f"{tree.path}/.git/modules") if name not in known)]


def _aside(tree: Tree) -> str:
    """A new folder for what is set aside, on the tree's own disk and out of the agent's reach."""
    folder = kept_place(tree.path, "git")
    note_aside(tree, folder)
    os.mkdir(folder, 0o700)
    return folder


def _set_aside(tree: Tree, name: str, aside: str) -> None:
    if not os.path.lexists(f"{tree.path}/.git/{name}"):
        return
    if not Beneath(tree.path, ".git").exists(name):
        raise OSError(f"{name} is not in .git")
    _move(f"{tree.path}/.git/{name}", f"{aside}/{name.replace('/', '_')}")


def _set_aside_whole(tree: Tree) -> None:
    if os.path.lexists(f"{tree.path}/.git"):
        _move(f"{tree.path}/.git", f"{_aside(tree)}/.git")


def _move(path: str, target: str) -> None:
    """Move a file or folder that an agent made, as it is: no link is followed, no pipe is read."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.chmod(path, 0o700)  # a folder that may not be written to can't be moved
    os.rename(path, target)
