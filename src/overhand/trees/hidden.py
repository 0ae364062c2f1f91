"""What ignore rules leave out of the agent's part, and what only the rules that the agent wrote leave out."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.system import Git
    from overhand.trees.tree import Tree

_RULES = "rules.index"  # the start, whose ignore files are read from it
_MAX_ENTRIES = 20_000
_MANY = 100


def find_ignored(git: Git) -> list[str]:
    """What is ignored in the tree; a folder that is ignored as a whole is one entry, with a slash at its end."""
    return git.lines("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")


def find_hidden(tree: Tree, git: Git, ignored: Iterable[str]) -> list[str]:
    """Those of the ignored files that the rules of the start would not ignore."""
    entries = list(ignored)[:_MAX_ENTRIES]
    if not entries:
        return []
    suspects = _not_ignored_before(tree, git, entries)
    folders = [entry for entry in suspects if entry.endswith("/")]
    found = {entry for entry in suspects if not entry.endswith("/")}
    if folders:  # ignored for what is in them: which of it?
        inside = git.lines("ls-files", "-z", "-o", "-i", "--exclude-standard", "--", *folders)
        found.update(_not_ignored_before(tree, git, inside[:_MAX_ENTRIES]))
    for folder in folders:  # a folder of dependencies is one entry
        below = {path for path in found if path.startswith(folder)}
        if len(below) > _MANY:
            found = found - below | {folder}
    return sorted(found)


def _not_ignored_before(tree: Tree, git: Git, entries: list[str]) -> list[str]:
    if not entries:
        return []
    rules = git._replace(index_file=f"{tree.ours}/{_RULES}")
    if not os.path.lexists(rules.index_file):
        _make_rules(tree, rules)
    with tempfile.TemporaryDirectory(prefix="overhand-rules-") as empty:
        for entry in entries:
            if entry.endswith("/"):  # git asks whether it is a folder
                os.makedirs(f"{empty}/{entry}", exist_ok=True)
        given = os.fsencode("".join(f"./{entry}\0" for entry in entries))  # so that a colon at its begin means nothing
        variables = (*rules.variables, ("GIT_LITERAL_PATHSPECS", "0"))  # this command refuses them otherwise
        asking = rules._replace(work_tree=empty, cwd=empty, enter=(), variables=variables)
        told = asking.run("check-ignore", "-z", "-v", "-n", "--stdin", given=given, ok=(0, 1))
    words = os.fsdecode(told).split("\0")[:-1]
    rows = zip(words[::4], words[2::4], words[3::4], strict=True)
    return [path[2:] for source, pattern, path in rows if not source or pattern.startswith("!")]


def _make_rules(tree: Tree, rules: Git) -> None:
    """An index of the start; git reads an ignore file that is not checked out from there."""
    making = rules._replace(index_file=f"{rules.index_file}.new")
    making.run("read-tree", tree.base)
    names = [path for path in making.lines("ls-files", "-z") if path.rpartition("/")[2] == ".gitignore"]
    if names:
        making.run(
            "update-index", "--skip-worktree", "-z", "--stdin", given=os.fsencode("".join(f"{n}\0" for n in names))
        )
    os.rename(making.index_file, rules.index_file)
