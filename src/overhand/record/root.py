"""Which folder is the project."""

from __future__ import annotations

import os

from overhand.errors import NotFound
from overhand.system import is_own


def find_root(start: str, *, given: str | None = None) -> str:
    """The project around `start`: the nearest folder with `.overhand`, or the repository's top, else `start`.

    A folder above that belongs to another user counts only if the user's git configuration calls it safe: with its
    settings, its owner could have programs run.
    """
    if given is not None:
        if not os.path.isdir(given):
            raise NotFound(f"There is no folder {given}.", "Name an existing one: overhand --project DIR …")
        return os.path.realpath(given)
    start = folder = os.path.realpath(start)
    while not (mark := _project_mark(folder)):
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above
    if folder == start or (is_own(folder) and is_own(mark)):
        return folder
    from overhand.system import is_safe_directory  # asks git

    return folder if is_safe_directory(folder) else start


def _project_mark(folder: str) -> str:
    """What makes this folder a project when one starts below it."""
    if os.path.isdir(f"{folder}/.overhand"):
        return f"{folder}/.overhand"
    git = f"{folder}/.git"
    return git if os.path.lexists(f"{git}/HEAD") or os.path.isfile(git) else ""
