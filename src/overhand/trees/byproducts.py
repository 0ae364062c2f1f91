"""What set-up and checks write into a tree is no part of the agent's work, as long as the agent leaves it as it is.

ours/byproducts.json  `{path: [what was written, what was there before]}`, as modes and ids; null for no file
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from overhand.system import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.system import Git

_FILE = "byproducts.json"
_MOST = 20_000  # files that are remembered
Entry = list[str] | None  # mode and id


def remember(git: Git, before: str, after: str) -> None:
    """Note what differs between two trees as written by us."""
    found = git.lines("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
    known = recall(git.git_dir)
    for facts, path in zip(found[::2], found[1::2], strict=False):
        old_mode, mode, old, new, _ = facts.removeprefix(":").split(" ")
        earlier = known.get(path, (None, _entry(old_mode, old)))[1]
        known[path] = (_entry(mode, new), earlier)
    if found:
        write_file(f"{git.git_dir}/{_FILE}", json.dumps(dict(list(known.items())[-_MOST:])))


def _entry(mode: str, name: str) -> Entry:
    return [mode, name] if name.strip("0") else None


def recall(git_dir: str) -> dict[str, tuple[Entry, Entry]]:
    """By path: what we wrote, and what was there before."""
    try:
        found = json.loads(read_file(f"{git_dir}/{_FILE}", 64 << 20) or b"{}")
        return {str(path): (one[0], one[1]) for path, one in found.items()}
    except (ValueError, AttributeError, LookupError, TypeError):
        return {}  # then it is shown as the agent's


def put_back(git: Git, written: str) -> str:
    """The tree without what we wrote and nobody has changed since, in the index and as a tree."""
    known = recall(git.git_dir)
    if not known:
        return written
    there = _entries(git, written, known)
    unchanged = [path for path, (ours, _) in known.items() if there.get(path) == ours]
    if not unchanged:
        return written
    nothing = "0" * len(written)
    lines = []
    for path in unchanged:
        mode, name = known[path][1] or ("0", nothing)
        lines.append(os.fsencode(f"{mode} {name}\t{path}\0"))
    git.run("update-index", "-z", "--index-info", given=b"".join(lines))
    return git.run("write-tree").decode().strip()


def _entries(git: Git, tree: str, paths: Iterable[str]) -> dict[str, Entry]:
    """Modes and ids of these files in a tree."""
    wanted = set(paths)
    found: dict[str, Entry] = {}
    for line in git.lines("ls-tree", "-r", "-z", tree):
        facts, _, path = line.partition("\t")
        if path in wanted:
            mode, _, name = facts.split(" ")
            found[path] = [mode, name]
    return found
