"""Git, run without hooks, locks or a terminal: the only module that runs it."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

_PATIENCE = 30  # seconds


def repository_of(root: str) -> str | None:
    """The top of the git work tree around a folder, if there is one."""
    folder = root
    while not os.access(f"{folder}/.git", os.F_OK):  # a no costs less than an exception
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


class Worktree(NamedTuple):
    """A git worktree: where, on which branch, and whether its folder is gone."""

    path: str
    branch: str = ""
    gone: bool = False


def linked_worktrees(root: str) -> list[Worktree]:
    """The repository's linked worktrees, without the main one; empty if git fails."""
    listing = run_git(root, "worktree", "list", "--porcelain", "-z") if repository_of(root) else None
    found = []
    for entry in (listing or "").split("\0\0")[1:]:
        facts = dict(line.partition(" ")[::2] for line in entry.split("\0") if line)
        if "worktree" in facts:
            found.append(Worktree(facts["worktree"], facts.get("branch", ""), "prunable" in facts))
    return found


def tag_commit(root: str, name: str, message: str) -> str | None:
    """Tag the current commit; None if git fails."""
    fallback = ("-c", "user.name=Overhand", "-c", "user.email=overhand@localhost")  # for a git without an identity
    for identity in ((), fallback):
        if run_git(root, *identity, "-c", "tag.gpgSign=false", "tag", "-a", "-m", message, "--", name) is not None:
            return name
    return None


def is_untracked(root: str, path: str) -> bool:
    """Whether this is a git checkout that doesn't track the file."""
    return run_git(root, "ls-files", "-z", "--", path) == ""


def run_git(root: str, *args: str) -> str | None:
    """The output of a git command; None if it fails, is missing or takes too long."""
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", root, *args],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None
