"""What a task's work becomes on top of another tree: a three-way merge of trees that touches no file.

The base is the tree that the task started from, with the uncommitted files that it was given, so only what the agent
did is brought over. Nothing but objects is written, and those into our own git dir.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from overhand.errors import GitFailed, ToolMissing
from overhand.system import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.system import Git

_USAGE = 129  # how git ends for an option that it does not know
_PATIENCE = 600  # seconds
_NOBODY = "Overhand <overhand@localhost> 0 +0000"  # without a time: the same trees are the same commits
_STYLE = ("merge.conflictStyle=diff3", "merge.renormalize=false")


class Hunk(NamedTuple):
    """A place where both sides changed the same lines; `line` is where it begins in the target's file."""

    line: int
    target: str
    base: str
    task: str


@dataclass(frozen=True)
class Conflict:
    """A file that can't be merged: what git says, and the hunks where that is a matter of lines."""

    path: str
    message: str
    hunks: tuple[Hunk, ...] = ()


@dataclass(frozen=True)
class Merged:
    """The merged tree; with conflicts it has git's markers in those files."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()


def trees_of(git: Git, *revisions: str) -> list[str]:
    """The ids of the trees of commits; a tree's own is its id."""
    return git.run("rev-parse", *(f"{one}^{{tree}}" for one in revisions)).decode().split()


def merge_trees(ours: Git, base: str, target: str, task: str) -> Merged:
    """Bring what changed from `base` to `task` onto `target`; all are commits or trees that `ours` can see."""
    start, onto, result = trees_of(ours, base, target, task)
    if onto in (start, result):
        return Merged(result)
    if start == result:
        return Merged(onto)
    return _three_way(ours, start, onto, result)


def _three_way(ours: Git, start: str, onto: str, result: str) -> Merged:
    first = _commit(ours.git_dir, start)
    target, task = (_commit(ours.git_dir, tree, first) for tree in (onto, result))
    merging = ours._replace(settings=(*ours.settings, *_STYLE, *_without_drivers(ours)))
    done = merging.call("merge-tree", "--write-tree", "-z", "--messages", target, task, patience=_PATIENCE)
    if done.status == _USAGE:
        version = ours.run("version").decode().removeprefix("git version ").strip()
        raise ToolMissing(f"Merging needs git 2.38 or newer; this is git {version}.", "Install a newer git.")
    if done.status not in (0, 1):
        raise GitFailed(f"git merge-tree failed: {' '.join(done.messages.split())[:2000]}", status=done.status)
    words = done.output.decode("utf-8", "surrogateescape").split("\0")
    if done.status == 0:
        return Merged(words[0])
    return Merged(words[0], tuple(_conflicts(ours, words, target, task)))


def _commit(git_dir: str, tree: str, *parents: str) -> str:
    """Write a commit, without which git merges no trees; by hand: three calls of git take as long as the merge."""
    lines = [
        f"tree {tree}",
        *(f"parent {one}" for one in parents),
        f"author {_NOBODY}",
        f"committer {_NOBODY}",
        "",
        "m\n",
    ]
    body = "\n".join(lines).encode()
    raw = b"commit %d\0%b" % (len(body), body)
    name = hashlib.new("sha1" if len(tree) == 40 else "sha256", raw, usedforsecurity=False).hexdigest()
    folder = f"{git_dir}/objects/{name[:2]}"
    if not os.path.lexists(f"{folder}/{name[2:]}"):
        os.makedirs(folder, exist_ok=True)
        write_file(f"{folder}/{name[2:]}", zlib.compress(raw), mode=0o444)
    return name


def _without_drivers(ours: Git) -> tuple[str, ...]:
    """Settings that make a conflict of every file for which the project's own configuration names a merge program."""
    if b"driver" not in (read_file(f"{ours.git_dir}/config") or b"driver").lower():
        return ()
    asked = ("config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^merge\..*\.driver$")
    words = ours.run(*asked, ok=(0, 1)).decode("utf-8", "surrogateescape").split("\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    return tuple(f"{key}=false" for scope, key in pairs if scope in ("local", "worktree"))


# conflicts


def _conflicts(ours: Git, words: list[str], target: str, task: str) -> Iterable[Conflict]:
    """The conflicts that merge-tree printed: entries, an empty word, then groups of paths, a type and a message."""
    tree, rest = words[0], iter(words[1:])
    paths = list(dict.fromkeys(entry.partition("\t")[2] for entry in iter(lambda: next(rest, ""), "")))
    said: dict[str, list[str]] = {path: [] for path in paths}
    names = {target: "the target", task: "the task"}
    for number in rest:
        if not number:
            break
        about = [next(rest, "") for _ in range(int(number))]
        kind, message = next(rest, ""), next(rest, "").strip()
        for known, name in names.items():
            message = message.replace(known, name)
        if kind.startswith("CONFLICT"):
            for path in about:
                said.setdefault(path, []).append(message)
    for path, messages in said.items():
        text = ours.call("cat-file", "blob", f"{tree}:{path}")
        hunks = find_hunks(text.output, target, task) if text.status == 0 else ()
        yield Conflict(path, " ".join(messages) or f"CONFLICT: Merge conflict in {path}", tuple(hunks))


def find_hunks(text: bytes, target: str, task: str) -> list[Hunk]:
    """The conflicts that git marked in a file with the names of both sides; the markers show the base, too."""
    begins, ends = f"<<<<<<< {target}".encode(), f">>>>>>> {task}".encode()
    found: list[Hunk] = []
    sides: list[list[bytes]] = []  # of the open conflict: target, base, task
    line = first = 1
    for one in text.splitlines(keepends=True):
        bare = one.rstrip(b"\r\n")
        if not sides and bare.partition(b":")[0] == begins:  # behind the colon is the name of a renamed file
            sides, first = [[]], line
        elif sides and bare.partition(b":")[0] == ends:
            whole = [b"".join(side).decode("utf-8", "replace") for side in sides]
            found.append(Hunk(first, whole[0], whole[1] if len(whole) > 2 else "", whole[-1]))
            sides = []
        elif (len(sides) == 1 and bare.startswith(b"||||||| ")) or (len(sides) == 2 and bare == b"======="):
            sides.append([])
        elif sides:
            sides[-1].append(one)
            line += len(sides) == 1
        else:
            line += 1
    return found
