"""Merging and landing a task's work, against plain git doing the same in the same repository."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import measure
from measure import Row

from overhand.system import Git
from overhand.trees.land import Landing, land_work
from overhand.trees.merge import merge_trees
from overhand.trees.recover import read_head

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FILES = 4_000
_BAR, _AIM = 2.0, 1.2


def rows(*, quick: bool) -> list[Row]:
    """A dry run of a merge, and a landing."""
    rounds = 5 if quick else 15
    with measure.folder() as place:
        bench = _Bench(place)
        dry = measure.interleaved(rounds, bench.plain_merge, bench.merge)
        landed = measure.in_turn(rounds, bench.plain_landing, bench.landing)
    return [
        _row("merge dry run of 1,000 + 1,000 changed files, against `git merge-tree`", *dry),
        _row("landing 1,500 files in the checkout, against `git merge --ff-only`", *landed),
    ]


def _row(what: str, plain: list[float], ours: list[float]) -> Row:
    ratio = measure.median(ours) / measure.median(plain)
    note = f"{measure.spread(ours)} against {measure.spread(plain)}"
    return Row(what, f"{ratio:.2f}x", f"≤ {_BAR:.0f}x", f"{_AIM}x", ratio <= _BAR, ratio <= _AIM, note)


class _Bench:
    """A repository in which a user and a task changed a thousand files each, and work that lands 1,500 files."""

    def __init__(self, place: Path) -> None:
        self.top, self.ours, self.folder = place / "project", place / "ours", place / "landing"
        self.top.mkdir()
        self._git("init", "-q", "-b", "main")
        self._git("config", "user.name", "Bench")
        self._git("config", "user.email", "bench@example.com")
        self._git("config", "gc.auto", "0")
        self.base = self._commit(range(_FILES), "base")
        self.target = self._commit(range(1_000), "the user's")
        self._git("checkout", "-q", "-b", "task", self.base)
        self.task = self._commit(range(1_000, 2_000), "the task's")
        self._git("checkout", "-q", "-b", "work", self.base)
        for number in range(2_000, 2_250):
            self._path(number).unlink()
        self.work = self._commit([*range(3_000, 4_000), *range(_FILES, _FILES + 250)], "lands")
        self._git("checkout", "-q", "main")
        self._git("reset", "-q", "--hard", self.base)
        for name in ("objects/info", "objects/pack", "refs/heads"):
            (self.ours / name).mkdir(parents=True)
        (self.ours / "HEAD").write_text("ref: refs/heads/task\n")
        (self.ours / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        (self.ours / "objects/info/alternates").write_text(f"{self.top}/.git/objects\n")
        for warm in (self.plain_merge, self.merge, self.plain_landing, self.landing):
            warm()

    def _git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.top, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def _path(self, number: int) -> Path:
        return self.top / f"folder{number % 50}/file{number}.txt"

    def _commit(self, numbers: Iterable[int], text: str) -> str:
        for number in numbers:
            path = self._path(number)
            path.parent.mkdir(exist_ok=True)
            before = path.read_text() if path.exists() else "".join(f"{number}: {line}\n" for line in range(40))
            path.write_text(before + text + "\n")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", text)
        return self._git("rev-parse", "HEAD")

    def plain_merge(self) -> None:
        self._git("merge-tree", "--write-tree", self.target, self.task)

    def merge(self) -> None:
        assert not merge_trees(Git(str(self.ours)), self.base, self.target, self.task).conflicts

    def plain_landing(self) -> float:
        return self._undone(measure.clocked(partial(self._git, "merge", "-q", "--ff-only", self.work)))

    def landing(self) -> float:
        git = Git(str(self.top / ".git"), str(self.top))
        landing = Landing("bench", git, Git(str(self.ours)), str(self.folder), read_head(git), self.base, self.work)
        return self._undone(measure.clocked(partial(land_work, landing)))

    def _undone(self, seconds: float) -> float:
        """Check that all arrived, and go back for the next round."""
        assert self._git("rev-parse", "HEAD") == self.work
        assert not self._git("status", "--porcelain")
        self._git("reset", "-q", "--hard", self.base)
        os.sync()
        return seconds
