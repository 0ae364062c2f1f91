"""Killed at any moment, by every call that changes something, ours or git's: the next call completes or undoes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attack.harness import library
from overhand.errors import OverhandError
from overhand.trees.keep import check_agents_git, empty_trash, release_tree, remove_tree, restore_tree
from overhand.trees.part import take_part
from overhand.trees.tree import has_tree, load_tree
from support import trees_step
from support.soak import KILLS, lots
from support.trees import Picture, files_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.trees import Ground

LOTS = 24
STEP = trees_step.__file__
# Counts git's calls; the chosen one is killed at its own Nth change, and with it whoever called it.
GIT = """\
#!/bin/sh
read n <"{count}" || n=0
n=$((n + 1))
echo $n >"{count}"
test "$n" = "$KILL_GIT" -o "$KILL_GIT" = all || exec "{git}" "$@"
rm -f "{notes}/claim"
export LD_PRELOAD="{library}" FAULT_PROCESS=core.hooksPath FAULT_CLAIM="{notes}/claim" FAULT_KINDS=space,name
export FAULT_BELOW="{below}" FAULT_TRACE="{notes}/git-$n"
"{git}" "$@"
code=$?
test $code = 137 && kill -9 0
exit $code
"""


@dataclass(frozen=True)
class Point:
    """A call of our process, or of the `git`th git that it starts."""

    call: int
    git: int = 0

    def __str__(self) -> str:
        return f"call {self.call}" + (f" of git {self.git}" if self.git else "")


class Site:
    """A project that is used for many kills, one tree for each."""

    def __init__(self, ground: Ground, step: str) -> None:
        ground.begin_fully()
        ground.make_dirty()
        (ground.folder / "notes").mkdir()
        (ground.folder / "bin").mkdir()
        self.ground, self.step, self.number = ground, step, 100
        self.notes = ground.folder / "notes"
        script = GIT.format(
            count=self.notes / "count",
            git=shutil.which("git"),
            notes=self.notes,
            library=library(),
            below=f"{ground.home}:{ground.state}",
        )
        (ground.folder / "bin/git").write_text(script)
        (ground.folder / "bin/git").chmod(0o755)
        self.wanted = {name: data for name, data in files_of(ground.top).items() if not name.endswith((".log", ".env"))}
        self.before = Picture(ground.home)

    def prepare(self) -> None:
        """A new tree as the step finds it."""
        self.number += 1
        request = self.ground.request(self.number)
        self.ours, self.path = request.ours, request.path
        if self.step == "create":
            return
        tree = self.ground.tree(self.number)
        self.ground.write("src/mine.py", "mine = 1\n", below=tree.path)
        self.ground.commit("mine", cwd=tree.path)
        self.ground.write("loose ü.txt", "loose\n", below=tree.path)
        (Path(tree.path) / "src/one.py").unlink()
        self.ground.git("config", "core.fsmonitor", "evil", cwd=tree.path)
        self.made = files_of(tree.path)
        if self.step in ("restore", "release"):
            remove_tree(self.ours)

    def run(self, point: Point | None) -> int:
        """The step in a process of its own, in a group of its own."""
        for path in self.notes.iterdir():
            path.unlink()
        env = {**os.environ, "PATH": f"{self.ground.folder}/bin:{os.environ['PATH']}", "PYTHONSAFEPATH": "1"}
        if point is None:
            env["KILL_GIT"] = "all"
        elif point.git:
            env |= {"KILL_GIT": str(point.git), "FAULT_AT": str(point.call), "FAULT_HOW": "before"}
        ours = {
            "LD_PRELOAD": library(),
            "FAULT_PROCESS": STEP,
            "FAULT_CLAIM": str(self.notes / "own"),
            "FAULT_BELOW": f"{self.ground.home}:{self.ground.state}",
            "FAULT_KINDS": "space,name",
            "FAULT_TRACE": str(self.notes / "trace"),
        }
        if point is None or not point.git:
            env |= ours
        if point is not None and not point.git:
            env |= {"FAULT_AT": str(point.call), "FAULT_HOW": "before"}
        words = [sys.executable, STEP, self.step, str(self.ground.top), self.ours, self.path]
        with subprocess.Popen(words, env=env, start_new_session=True, stderr=subprocess.PIPE) as process:
            _, said = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), said.decode()
        return process.returncode

    def points(self) -> list[Point]:
        """Every change that the step makes when nothing happens to it."""
        self.prepare()
        assert self.run(None) == 0
        found = [Point(number) for number in range(1, lines(self.notes / "trace") + 1)]
        for path in sorted(self.notes.glob("git-*"), key=lambda path: int(path.name[4:])):
            found += [Point(number, int(path.name[4:])) for number in range(1, lines(path) + 1)]
        TRUTHS[self.step](self)
        return found

    def is_the_users_untouched(self) -> None:
        refs = str(self.ground.top / ".git/refs/overhand")
        changed = self.before.changes()
        assert {path for path in changed if not path.startswith(refs)} == set()
        assert not list((self.ground.top / ".git").rglob("*.lock"))


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def after_create(site: Site) -> None:
    tree = site.ground.tree(site.number)
    assert files_of(tree.path) == site.wanted
    assert site.ground.git("status", "--porcelain", cwd=tree.path) == ""
    part = take_part(tree.ours)
    assert part.written == tree.base_tree


def after_part(site: Site) -> None:
    part = take_part(site.ours)
    changed = {(one.status, one.path) for one in part.changed}
    assert changed == {("A", "src/mine.py"), ("A", "loose ü.txt"), ("D", "src/one.py")}
    assert part.tip
    check_agents_git(site.ours)
    assert site.ground.try_git("config", "core.fsmonitor", cwd=site.path).stdout == "false\n"
    assert files_of(site.path) == site.made


def after_remove(site: Site) -> None:
    if os.path.lexists(site.path):
        remove_tree(site.ours)
    assert not os.path.lexists(site.path)
    after_restore(site)


def after_restore(site: Site) -> None:
    restore_tree(site.ours)
    after_part(site)


def after_release(site: Site) -> None:
    release_tree(site.ours)
    assert not has_tree(site.ours)
    assert not os.path.lexists(f"{site.ours}.gone")
    assert site.ground.git("for-each-ref", f"refs/overhand/base/task-{site.number}") == ""


TRUTHS: dict[str, Callable[[Site], None]] = {
    "create": after_create,
    "part": after_part,
    "remove": after_remove,
    "restore": after_restore,
    "release": after_release,
}


@pytest.mark.parametrize("lot", lots(LOTS))
@pytest.mark.parametrize("step", TRUTHS)
def test_killed_anywhere_the_next_call_completes_it(ground: Ground, step: str, lot: int) -> None:
    site = Site(ground, step)
    points = site.points()
    assert len(points) > LOTS
    site.is_the_users_untouched()
    for point in points[lot::LOTS]:
        site.prepare()
        code = site.run(point)
        KILLS["in a tree's life"] += code != 0
        try:
            TRUTHS[step](site)
            site.is_the_users_untouched()
        except (AssertionError, OverhandError, OSError) as error:
            error.add_note(f"killed at {point} of {step}")
            raise
    assert empty_trash(os.path.dirname(site.path)) >= 0
    if step != "release":
        assert load_tree(site.ours).task == f"task-{site.number}"
