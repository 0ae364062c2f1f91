"""A tree of 10,000 files, ready to work in, against `git worktree add` of the same repository."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import measure
from measure import Row

from overhand.trees.create import Request, create_tree

if TYPE_CHECKING:
    from pathlib import Path

_FILES, _CHANGED = 10_000, 500
_PLAIN = "tree ready on a repository of 10,000 files, against `git worktree add`"
_CARRIED = "the same with 500 changed files, which come along"


def rows(*, quick: bool) -> list[Row]:
    """Both figures from one interleaved run."""
    return measure.steady(lambda place: _figures(place, 3 if quick else 7))


def _figures(place: Path, rounds: int) -> list[Row]:
    top = place / "project"
    _make_project(top)
    numbers = iter(range(1_000_000))

    def worktree() -> None:
        _git(top, "worktree", "add", "-q", "--detach", str(place / f"worktrees/{next(numbers)}"))

    def tree() -> None:
        number = next(numbers)
        wanted = Request(str(top), f"{place}/tasks/{number}/git", f"{place}/trees/project/{number}-x", f"task-{number}")
        create_tree(wanted)

    found = []
    for what, bar, aim in ((_PLAIN, 1.5, 1.1), (_CARRIED, 2.5, 1.5)):
        if what == _CARRIED:
            for number in range(_CHANGED):
                _path(top, number * (_FILES // _CHANGED)).write_text(f"changed {number}\n")
        for do in (worktree, tree):
            do()
        theirs, ours = (measure.median(times) for times in measure.interleaved(rounds, worktree, tree))
        note = f"{ours * 1e3:.0f} ms against {theirs * 1e3:.0f} ms"
        ratio = ours / theirs
        found.append(Row(what, f"{ratio:.2f}x", f"≤ {bar}x", f"{aim}x", ratio <= bar, ratio <= aim, note))
    return found


def _make_project(top: Path) -> None:
    for number in range(_FILES):
        path = _path(top, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}\n" * (number % 60 + 1))
    _git(top, "init", "-q")
    _git(top, "add", "-A")
    _git(top, "commit", "-q", "-m", "first")
    _git(top, "gc", "-q")
    _git(top, "status")


def _path(top: Path, number: int) -> Path:
    return top / f"src/{number % 100}/{number // 100}.txt"


def _git(top: Path, *words: str) -> None:
    own = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com")
    subprocess.run(["git", *own, *words], cwd=top, check=True, env=dict(os.environ), stdout=subprocess.DEVNULL)
