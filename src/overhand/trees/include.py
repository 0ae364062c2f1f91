"""Ignored files that a tree needs to run: copied or linked from the checkout, and no part of the agent's work.

`.worktreeinclude` lists, as `.gitignore` does, what to copy; `.worktreelink` what to link. A file must be ignored *and*
listed; what the tree has is never overwritten. `.env` files come along by default. A Python environment does not: the
paths of the place where it was made are written into it.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from overhand.errors import BadInput, storage_failed
from overhand.system import Beneath, read_file, write_file
from overhand.trees.agents_git import DOT_GIT
from overhand.trees.tree import Left, held_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from overhand.system import Git
    from overhand.trees.tree import Tree

COPY_LIST, LINK_LIST = ".worktreeinclude", ".worktreelink"
DEFAULT = (".env", ".env.*")
ENVIRONMENT = "a Python environment, which works only where it was made"
EXISTS = "the tree has it already"
_CLONE = 0x40049409  # FICLONE: share the blocks of a file until one of both is written to
_PART = ".overhand-part"  # the end of a file's name while it is copied
_MAX_EXCLUDE = 16 << 20


@dataclass(frozen=True)
class Included:
    """What came along beside the files of the start."""

    copied: tuple[str, ...]
    linked: tuple[str, ...]
    left: tuple[Left, ...]


def include_files(
    ours: str, copy: Sequence[str] = (), link: Sequence[str] = (), default: Sequence[str] = DEFAULT, into: str = ""
) -> Included:
    """Bring ignored files into a new tree: what the lists name, paths to `copy` and to `link`, and `.env` files.

    With `into` they come into that folder, which has the tree's files and no repository.
    """
    for path in (*copy, *link):
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise BadInput(f"{path} leads out of the project.", "Name paths of the project in [trees] copy and link.")
    with held_tree(ours) as (tree, lock):
        git = tree.git(lock)._replace(work_tree=tree.top, index_file=f"{tree.git_dir}/index")
        ignored = git.lines("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
        names = [one for one in ignored if not one.endswith("/") and _matches(one, default)]
        wanted = [*names, *_listed(git, COPY_LIST), *_existing(tree, copy)]
        links = [*_listed_entries(git, LINK_LIST, ignored), *_existing(tree, link)]
        there = replace(tree, path=into) if into else tree
        return _bring(there, list(dict.fromkeys(wanted)), list(dict.fromkeys(links)))


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in patterns)


def _listed(git: Git, name: str) -> list[str]:
    """The files that are ignored and in a list."""
    if not os.path.isfile(f"{git.work_tree}/{name}"):
        return []
    found = git.lines("ls-files", "-z", "-o", "-i", f"--exclude-from={git.work_tree}/{name}")
    return _ignored_of(git, [path for path in found if not path.endswith("/")])


def _listed_entries(git: Git, name: str, ignored: Sequence[str]) -> list[str]:
    """The ignored files and whole folders that a list names."""
    if not os.path.isfile(f"{git.work_tree}/{name}"):
        return []
    asked = ("ls-files", "-z", "-o", "-i", "--directory", f"--exclude-from={git.work_tree}/{name}")
    listed = set(git.lines(*asked))
    return [path.rstrip("/") for path in ignored if path in listed]


def _ignored_of(git: Git, paths: list[str]) -> list[str]:
    if not paths:
        return []
    given = os.fsencode("".join(f"./{path}\0" for path in paths))
    asking = git._replace(variables=(*git.variables, ("GIT_LITERAL_PATHSPECS", "0")))
    told = asking.run("check-ignore", "-z", "--stdin", given=given, ok=(0, 1))
    return [path[2:] for path in os.fsdecode(told).split("\0")[:-1]]


def _existing(tree: Tree, paths: Iterable[str]) -> list[str]:
    return [path.strip("/") for path in paths if os.path.lexists(f"{tree.top}/{path}")]


def _bring(tree: Tree, wanted: list[str], links: list[str]) -> Included:
    """Bring what the tree does not have yet; it is ignored first, so that a kill makes nothing part of the work."""
    files, source = Beneath(tree.path), Beneath(tree.top)
    environments: dict[str, str] = {}
    copies, left = [], []
    for path in (one for listed in wanted for one in _files_below(tree.top, listed)):
        if place := _environment_of(tree.top, path, environments):
            left.append(Left(place, ENVIRONMENT))
        elif source.is_file(path):
            copies.append(path)
    left += [Left(path, EXISTS) for path in (*links, *copies) if files.exists(path)]
    there = {one.path for one in left}
    links, copies = ([path for path in paths if path not in there] for paths in (links, copies))
    if os.path.isdir(f"{tree.path}/.git"):
        _exclude(tree, [*links, *(name for path in copies for name in (path, f"{path}{_PART}"))])
    for path in (*links, *copies):
        _make_parent(tree, path)
        if path in links:
            os.symlink(f"{tree.top}/{path}", f"{tree.path}/{path}")
        else:
            _copy(f"{tree.top}/{path}", f"{tree.path}/{path}")
    return Included(tuple(copies), tuple(links), tuple(dict.fromkeys(left)))


def _files_below(top: str, path: str) -> list[str]:
    """A file, or all files of a folder; links inside are not followed."""
    if not os.path.isdir(f"{top}/{path}") or os.path.islink(f"{top}/{path}"):
        return [path]
    return [
        os.path.relpath(f"{folder}/{name}", top)
        for folder, _, names in os.walk(f"{top}/{path}")
        for name in sorted(names)
    ]


def _environment_of(top: str, path: str, known: dict[str, str]) -> str:
    """The folder of the Python environment that a file is in; empty if it is in none."""
    folder = path.rpartition("/")[0]
    if not folder:
        return ""
    if folder not in known:
        is_environment = os.path.lexists(f"{top}/{folder}/pyvenv.cfg")
        known[folder] = f"{folder}/" if is_environment else _environment_of(top, folder, known)
    return known[folder]


def _make_parent(tree: Tree, path: str) -> None:
    if "/" in path:
        Beneath(tree.path).make_folder(path.rpartition("/")[0], mode=0o777)


def _copy(source: str, target: str) -> None:
    """Copy a file, sharing its blocks where the file system can; never a second name for the same file."""
    from fcntl import ioctl

    try:
        with open(source, "rb") as file, open(f"{target}{_PART}", "wb") as copy:
            os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777)
            try:
                ioctl(copy.fileno(), _CLONE, file.fileno())
            except OSError:
                shutil.copyfileobj(file, copy, 1 << 20)
        os.rename(f"{target}{_PART}", target)
    except OSError as error:
        raise storage_failed(error, f"Cannot copy {os.path.basename(source)} into the tree") from error


def _exclude(tree: Tree, paths: Sequence[str]) -> None:
    """Ignore what came along by its path: a rule for a folder doesn't match a link, and a copy may have no rule."""
    if not paths:
        return
    lines = os.fsencode("".join(f"/{_escaped(path)}\n" for path in paths if "\n" not in path))
    for folder in (tree.ours, f"{tree.ours}/{DOT_GIT}"):
        before = read_file(f"{folder}/info/exclude", _MAX_EXCLUDE) or b""
        write_file(f"{folder}/info/exclude", before.rstrip(b"\n") + b"\n" + lines if before else lines, mode=0o600)
    kept = read_file(f"{tree.ours}/{DOT_GIT}/info/exclude", _MAX_EXCLUDE) or b""
    Beneath(tree.path, ".git").write("info/exclude", kept, mode=0o600)


def _escaped(path: str) -> str:
    return "".join(f"\\{char}" if char in "\\*?[#! " else char for char in path)
