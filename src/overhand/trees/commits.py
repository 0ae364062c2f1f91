"""The agent's own commits: packed by us out of its objects, and checked by `index-pack --strict`.

Nothing is fetched from its repository, for that would run git there with its configuration. Its HEAD is read by hand,
its objects are only looked up. Any doubt means that its commits are not taken, and its files are one commit of ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.errors import GitFailed
from overhand.system import Beneath
from overhand.trees.borrowed import as_variable
from overhand.trees.tree import TIP, is_object_id, write_ref

if TYPE_CHECKING:
    from overhand.system import Git
    from overhand.trees.tree import Tree

_PATIENCE = 20.0  # a pipe in place of an object makes git wait
_MAX_BYTES = 2 << 30
_MAX_REFS = 64 << 20
_SHOWN = 200


@dataclass(frozen=True)
class Commit:
    """A commit of the agent's."""

    id: str
    author: str
    subject: str


def take_commits(tree: Tree, git: Git) -> tuple[str, str]:
    """The agent's last commit, now among our objects, and why it was not taken; the first is empty without one."""
    tip = read_tip(tree)
    known = tree.ref(TIP)
    if tip in ("", known):
        return tip or "", ""
    if tip == tree.base:
        if known:
            write_ref(tree.ours, TIP, tip)
        return tip if known else "", ""
    objects = (("GIT_ALTERNATE_OBJECT_DIRECTORIES", as_variable(f"{tree.path}/.git/objects")),)
    theirs = git._replace(work_tree="", cwd=tree.ours, variables=(*git.variables, *objects))
    ours = git._replace(work_tree="", cwd=tree.ours)
    check = ("index-pack", "--stdin", "--fix-thin", "--strict", f"--max-input-size={_MAX_BYTES}")
    try:
        theirs.pipe(
            *("pack-objects", "-q", "--revs", "--thin", "--stdout"),
            given=f"{tip}\n^{tree.base}\n".encode(),
            into=ours,
            then=check,
            patience=_PATIENCE,
        )
        ours.run("cat-file", "-e", f"{tip}^{{tree}}")
    except GitFailed as error:
        return "", error.message
    write_ref(tree.ours, TIP, tip)
    return tip, ""


def read_tip(tree: Tree) -> str:
    """The commit that HEAD in the tree names, read by hand: no link is followed, no pipe is waited for."""
    files = Beneath(tree.path, ".git")
    text = _line(files, "HEAD")
    if text.startswith("ref: "):
        name = text.removeprefix("ref: ").strip()
        if not name.startswith("refs/") or ".." in name or "\0" in name or "//" in name:
            return ""
        text = _line(files, name) or _packed(files, name)
    return text if is_object_id(text) and (len(text) == 64) == (tree.format == "sha256") else ""


def _line(files: Beneath, name: str) -> str:
    return os.fsdecode(files.read(name, 4096) or b"").strip()


def _packed(files: Beneath, name: str) -> str:
    for line in os.fsdecode(files.read("packed-refs", _MAX_REFS) or b"").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return ""


def list_commits(tree: Tree, tip: str) -> tuple[Commit, ...]:
    """The agent's commits, the latest first."""
    if not tip or tip == tree.base:
        return ()
    asked = ("log", "-z", f"-{_SHOWN}", "--no-show-signature", "--format=%H%x1f%an%x1f%s", f"{tree.base}..{tip}")
    rows = tree.objects().run(*asked).decode("utf-8", "replace").split("\0")
    return tuple(Commit(*row.split("\x1f", 2)) for row in rows if row)
