"""An editor that writes the same file all the time, while a tag is swapped and while items run through their life.

Called as a program it is that editor: editors.py FILE HOW COUNT [lock] adds numbered lines until FILE.stop is there.
"""

from __future__ import annotations

import collections
import fcntl
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import daemon
import measure
from measure import OVERHAND, PYTHON, Row

from overhand.errors import OverhandError
from overhand.verbs import Session
from overhand.verbs import tag as verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record import Store

_HOW = ("rename", "append", "truncate")
_KINDS = ("fix", "research", "chores", "documentation", "implementation")
_SWAPPED = "# E\n**Tags**: #needs-fix\n\n"
_LIFE = "# Several things\n\n**Tags**: {}\n\n## What\nDo it.\n\n## Lines\n"
_WORKER = """echo "$OVERHAND_TASK $OVERHAND_RUN" >>"$OVERHAND_PROJECT/began"; sleep 0.1
printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT" """
_WITH = {True: "with our lock", False: "without our lock"}
_BAR = {True: "0 lost", False: "what is lost is counted"}
_ENDED = ("completed", "failed", "stopped", "rejected", "blocked")


def rows(*, quick: bool) -> list[Row]:
    """Each way of writing; with our lock nothing may be lost, without it what is lost is counted."""
    count, kinds = (300, _KINDS[:2]) if quick else (2000, _KINDS)
    ways = [(how, locked) for locked in (True, False) for how in _HOW]
    swaps = [_swaps(how, count, locked=locked) for how, locked in ways]
    return [*swaps, *(_lives(how, kinds, locked=locked) for how, locked in ways)]


@contextmanager
def _editing(path: Path, how: str, *, locked: bool, count: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """The editor at work, until it has written so many lines or we are done."""
    words = [PYTHON, __file__, str(path), how, str(count), *(["lock"] if locked else [])]
    editor = subprocess.Popen(words)
    try:
        yield editor
    finally:
        Path(f"{path}.stop").touch()
        if editor.wait():
            raise RuntimeError("the editor has failed")


@dataclass(frozen=True, slots=True)
class _Lines:
    """What became of the editor's lines."""

    wrote: int
    lost: int  # not in the file
    kept: int  # of these, in a copy beside it, which was named to whoever wanted to change the file
    doubled: int

    @classmethod
    def of(cls, path: Path) -> _Lines:
        wrote = int(Path(f"{path}.count").read_text())
        there = _counted(path)
        beside = {line for copy in path.parent.glob(f".{path.name}.*") for line in _counted(copy)}
        lost = {f"line {number}" for number in range(wrote)} - set(there)
        return cls(wrote, len(lost), len(lost & beside), sum(there.values()) - len(there))

    @property
    def told(self) -> str:
        kept = f" ({self.kept} of them are in a copy beside it)" if self.kept else ""
        return f"{self.lost} of its {self.wrote:,} lines lost{kept}" + (
            f", {self.doubled} doubled" if self.doubled else ""
        )


def _counted(path: Path) -> collections.Counter[str]:
    return collections.Counter(line for line in path.read_text().splitlines() if line.startswith("line "))


# --------------------------------------------------------------------------------------------------------- swaps


def _swaps(how: str, count: int, *, locked: bool) -> Row:
    """A tag is swapped to and fro meanwhile."""
    swaps = busy = 0
    with measure.folder() as place:
        path = place / "e.md"
        path.write_text(_SWAPPED)
        session = Session(str(place))
        with _editing(path, how, locked=locked, count=count) as editor:
            while editor.poll() is None:
                now = next((stage for stage in ("needs", "claimed") if f"#{stage}-fix" in path.read_text()), None)
                if now is None:
                    continue
                new = "claimed" if now == "needs" else "needs"
                try:
                    verb.tag(session, "swap", [str(path), f"#{now}-fix", f"#{new}-fix"])
                    swaps += 1
                except OverhandError:
                    busy += 1
        lines = _Lines.of(path)
    fine = not (lines.lost or lines.doubled)
    return Row(
        f"an editor {_WITH[locked]} adds {count:,} lines ({how}) while a tag is swapped all the time",
        lines.told,
        _BAR[locked],
        "0 lost",
        fine or not locked,
        fine,
        f"{swaps} swaps, {busy} given up because of the editor",
    )


# --------------------------------------------------------------------------------------------------------- lives


def _lives(how: str, kinds: tuple[str, ...], *, locked: bool) -> Row:
    """Items of one file from needs to done, by `item approve`, the daemon and an agent that is one line of shell."""
    with measure.folder() as place:
        path = place / "requests/SEVERAL.md"
        path.parent.mkdir()
        path.write_text(_LIFE.format(" ".join(f"#needs-{kind}" for kind in kinds)))
        settings = place.parent / "config/overhand"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text("approve_without_terminal = true\n")
        with daemon.watched(place, _WORKER) as (store, env):
            with _editing(path, how, locked=locked):
                approved = _approve(place, env, kinds)
                daemon.until(lambda: _ended(store) >= approved, 30)
            daemon.until(lambda: not daemon.status(store)["running"] and not daemon.status(store)["pending"], 30)
        runs = collections.Counter((place / "began").read_text().splitlines())
        tasks = collections.Counter(line.partition(" ")[0] for line in runs.elements())
        lines = _Lines.of(path)
        done = sum(task.status == "completed" for task in store.tasks() if task.item)
        shown = sum(f"#done-{kind}" in path.read_text() for kind in kinds)
    doubles = sum(count - 1 for count in tasks.values()) + max(0, len(tasks) - len(kinds))
    fine = not doubles and done == len(kinds)
    whole = not (lines.lost or lines.doubled)
    return Row(
        f"an editor {_WITH[locked]} writes ({how}) while {len(kinds)} items of its file run through their life",
        f"{doubles} double runs, {lines.told}",
        f"0 double runs, {_BAR[locked]}",
        "0 lost",
        fine and (whole or not locked),
        fine and whole,
        f"{done} of {len(kinds)} completed, {shown} of them shown as done in the file at the end",
    )


def _approve(place: Path, env: dict[str, str], kinds: tuple[str, ...]) -> int:
    """A person approves each, again if the file was busy; how many that made."""
    made, waiting, deadline = 0, list(kinds), time.monotonic() + 30
    while waiting and time.monotonic() < deadline:
        words = [OVERHAND, "item", "approve", f"requests/SEVERAL.md#{waiting[0]}", "--json"]
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 0 and json.loads(done.stdout).get("approved"):
            made += 1
            waiting.pop(0)
        else:
            waiting.append(waiting.pop(0))
    return made


def _ended(store: Store) -> int:
    return sum(task.status in _ENDED for task in store.tasks() if task.item)


# -------------------------------------------------------------------------------------------------------- editor


def _edit(path: str, how: str, count: int, *, locked: bool) -> None:
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    number = 0
    while not os.path.exists(f"{path}.stop") and not 0 < count <= number:
        if locked:
            fcntl.flock(folder, fcntl.LOCK_EX)
        _add(path, how, f"line {number}\n")
        if locked:
            fcntl.flock(folder, fcntl.LOCK_UN)
        number += 1
        time.sleep(0.0005)
    Path(f"{path}.count").write_text(str(number))


def _add(path: str, how: str, line: str) -> None:
    if how == "append":
        with open(path, "a") as file:
            file.write(line)
        return
    with open(path) as file:
        text = file.read() + line
    if how == "rename":
        with open(f"{path}.new", "w") as file:
            file.write(text)
        os.rename(f"{path}.new", path)
    else:
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    _edit(sys.argv[1], sys.argv[2], int(sys.argv[3]), locked="lock" in sys.argv[4:])
