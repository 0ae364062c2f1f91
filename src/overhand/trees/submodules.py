"""Initialised submodules of a tree: each a git dir of ours and one of the agent's, which borrow the user's objects."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from overhand.errors import GitFailed
from overhand.system import OUR_IDENTITY, Git, find_repository
from overhand.trees import borrowed, config
from overhand.trees.agents_git import DOT_GIT, agents_files
from overhand.trees.snapshot import LONG
from overhand.trees.source import read_source
from overhand.trees.tree import Left, Submodule

if TYPE_CHECKING:
    from overhand.trees.tree import Tree

MISSING = "a submodule whose commit the checkout doesn't have"


def add_submodules(tree: Tree, git: Git, *, trusted: bool) -> Tree:
    """Check out every submodule that the user's checkout has; those that can't be are listed."""
    made, left = [], []
    for one in find_submodules(tree, git):
        try:
            _prepare(tree, one, trusted=trusted)
            check_out_submodule(tree, one, git.lock)
            made.append(one)
        except GitFailed:
            left.append(Left(one.path, MISSING))
    return replace(tree, submodules=tuple(made), left=(*tree.left, *left))


def find_submodules(tree: Tree, git: Git) -> list[Submodule]:
    """The submodules of the start that are initialised in the user's checkout."""
    if not os.path.isfile(f"{tree.path}/.gitmodules") or os.path.islink(f"{tree.path}/.gitmodules"):
        return []
    asked = ("config", "-z", "-f", f"{tree.path}/.gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    listed = os.fsdecode(git.run(*asked, ok=(0, 1))).split("\0")[:-1]
    names = {path: key.split(".", 1)[1].rpartition(".")[0] for key, _, path in (one.partition("\n") for one in listed)}
    rows = [row.partition("\t") for row in git.lines("ls-files", "-s", "-z", "--", *names)] if names else []
    links = {path: about.split(" ")[1] for about, _, path in rows if about.startswith("160000 ")}
    return [
        Submodule(path, name, links[path])
        for path, name in names.items()
        if path in links and _is_plain(name) and _is_initialised(tree, path)
    ]


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return bool(name) and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def _is_initialised(tree: Tree, path: str) -> bool:
    found = find_repository(f"{tree.top}/{path}")
    return found is not None and found.top == f"{tree.top}/{path}"


def _prepare(tree: Tree, one: Submodule, *, trusted: bool) -> None:
    """Write both git dirs of a submodule."""
    lender = find_repository(f"{tree.top}/{one.path}")
    if lender is None:
        raise GitFailed(f"{one.path} is no repository")
    source = read_source(Git(lender.git_dir, lender.top), lender, trusted=trusted)
    back = "../" * (one.name.count("/") + 3) + one.path
    head = {"HEAD": f"{one.commit}\n".encode()}
    borrowed.make_git_dir(
        f"{tree.ours}/modules/{one.name}", {**source.files, **head, "config": config.as_text(source.settings)}
    )
    files = agents_files(source, tree, [("core.worktree", back)], hooks=False)
    files["objects/info/alternates"] = source.files["objects/info/alternates"]
    borrowed.make_git_dir(f"{tree.ours}/{DOT_GIT}/modules/{one.name}", {**files, **head})


def submodule_git(tree: Tree, one: Submodule, lock: int = -1) -> Git:
    """Git for a submodule's files, with our own git dir."""
    return Git(f"{tree.ours}/modules/{one.name}", f"{tree.path}/{one.path}", variables=OUR_IDENTITY, lock=lock)


def check_out_submodule(tree: Tree, one: Submodule, lock: int) -> None:
    """Write a submodule's files into the tree, and the file that names its git dir."""
    git = submodule_git(tree, one, lock)
    os.makedirs(git.work_tree, exist_ok=True)
    if os.path.lexists(f"{git.git_dir}/index"):
        os.unlink(f"{git.git_dir}/index")
    git.run("read-tree", "--reset", "-u", one.commit, patience=LONG)
    up = "../" * (one.path.count("/") + 1)
    with open(f"{git.work_tree}/.git", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"gitdir: {up}.git/modules/{one.name}\n")
