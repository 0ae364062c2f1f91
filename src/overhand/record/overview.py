"""All tasks of a project at a glance: which group each is in, for little more than the price of one `stat`.

Most tasks are over. What was found of them is kept in `supervisor/overview` by the size, time and inode of each log,
and what a list shows of them in `supervisor/rows`, so that the next look folds only what has changed. These files only
save time: they may be missing, old or broken.
"""

from __future__ import annotations

import os

from overhand.errors import OverhandError, storage_failed
from overhand.record import log
from overhand.record.store import unreadable_task
from overhand.system import dump_line, load_line, read_file, write_file
from overhand.words import HEADLINES, is_task_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from overhand.record.store import Store
    from overhand.record.task import Task

AT_REST = {"r": "ready", "f": "failed", "d": "done", "n": "folded"}  # the last are nodes, which their plan stands for
_LETTERS = {group: letter for letter, group in AT_REST.items()}
_FORMAT = "overhand-overview 3"  # goes up with the groups' rules and with the fields of a row
_WORTH_SAVING = 20  # logs that the next look need not read
_MAX_CACHE = 64 * 1024 * 1024
_SETTLED = 2_000_000_000  # nanoseconds: a log that was written less long ago may change within one tick of its clock


class Overview:
    """Where every task of a project stands, and what has changed since the last look."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.states: dict[str, Task] = {}  # what is not at rest, folded
        self.resting: dict[str, list[tuple[int, str, str]]] = {}  # by group: handle, id, mark of the log; oldest first
        self.logs: dict[str, float] = {}  # when the logs of `states` were last written to
        self._known: dict[str, str] | None = None  # mark of a log -> letter of its group and handle
        self._folded: dict[str, Task] = {}  # by mark, so that nothing is folded twice
        self._broken: set[str] = set()

    def look(self) -> None:
        """Bring everything up to date."""
        if self._known is None:
            try:
                self._look(self._load())
                return
            except (LookupError, ValueError):  # nonsense in the cache
                self._known = {}
        self._look(self._known)

    def _look(self, before: dict[str, str]) -> None:
        known: dict[str, str] = {}
        open_: dict[str, tuple[str, float]] = {}
        groups: dict[str, list[tuple[int, str, str]]] = {letter: [] for letter in AT_REST}
        place = _open(self.store)
        try:
            for entry in _entries(place):
                name = entry.name
                path = f"{name}/{log.LOG_FILE}"
                try:
                    found = os.stat(path, dir_fd=place, follow_symlinks=False)
                    mark = f"{name} {found.st_size} {found.st_mtime_ns} {found.st_ino}"
                except OSError:
                    continue  # being made, or what a killed process left of that
                value = before.get(mark)
                if value is None:
                    if not is_task_id(name) or not entry.is_dir(follow_symlinks=False):
                        continue
                    open_[name] = mark, found.st_mtime
                else:
                    known[mark] = value
                    groups[value[0]].append((int(value[1:]), name, mark))
        finally:
            if place >= 0:
                os.close(place)
        unchanged = len(known)
        self._known, self.resting = known, {AT_REST[letter]: rows for letter, rows in groups.items()}
        self._take(open_, known)
        for rows in groups.values():
            rows.sort()
        if len(known) + len(before) - 2 * unchanged > _WORTH_SAVING:
            self._save()

    def _take(self, open_: dict[str, tuple[str, float]], known: dict[str, str]) -> None:
        """Fold what isn't known from an earlier look; what is at rest by now need not be read again."""
        self.states, self.logs = {}, {}
        for name, (mark, written) in open_.items():
            task = self._folded.get(mark) or self._fold(name)
            self._folded[mark] = task
            group = "folded" if task.is_folded else task.headline
            if group in self.resting and is_at_rest(task) and name not in self._broken:
                self.resting[group].append((task.handle or 0, name, mark))
                known[mark] = f"{_LETTERS[group]}{task.handle or 0}"
            else:
                self.states[name], self.logs[name] = task, written
        marks = {mark for mark, _ in open_.values()} | {row[2] for rows in self.resting.values() for row in rows[-500:]}
        self._folded = {mark: task for mark, task in self._folded.items() if mark in marks}

    def _fold(self, name: str) -> Task:
        """What the log says; one that makes no sense must not hide the others."""
        try:
            self._broken.discard(name)
            task = self.store.task(name)
            if task.damage:
                self._broken.add(name)
            return task
        except OverhandError as error:
            self._broken.add(name)
            return unreadable_task(name, error)

    def newest(self, group: str, count: int) -> list[Task]:
        """The newest tasks of a group at rest, oldest first."""
        rows = self.resting.get(group, [])[-count:] if count else []
        for _, name, mark in rows:
            if mark not in self._folded:
                self._folded[mark] = self._fold(name)
        return [self._folded[mark] for _, _, mark in rows]

    def rows(self, make: Callable[[Task], dict[str, Any]]) -> list[tuple[int, str, dict[str, Any]]]:
        """Handle, id and a row for each task at rest; `make` makes those that aren't known from an earlier look."""
        before, found = self._load_rows(), []
        known: dict[str, dict[str, Any]] = {}
        for rows in self.resting.values():
            for handle, name, mark in rows:
                row = before.get(mark)
                if type(row) is not dict or row.get("task_id") != name:
                    row = make(self._folded.get(mark) or self._fold(name))
                known[mark] = row
                found.append((handle, name, row))
        if len(known.keys() ^ before.keys()) > _WORTH_SAVING:
            self._write("rows", [_FORMAT, dump_line(_settled(known))])
        return found

    def handle(self, task_id: str) -> int | None:
        if task_id in self.states:
            return self.states[task_id].handle
        found = (row[0] for rows in self.resting.values() for row in rows if row[1] == task_id)
        return next(found, 0) or None

    def counts(self) -> dict[str, int]:
        found = {group: len(self.resting.get(group, ())) for group in HEADLINES}
        for task in self.states.values():
            found[task.headline] += not task.is_folded
        return found

    # the cache: a line that names its format, then mark and value of each log in turn

    def _load(self) -> dict[str, str]:
        lines = self._read("overview")
        return dict(zip(lines[::2], lines[1::2], strict=False))

    def _load_rows(self) -> dict[str, Any]:
        try:
            found = load_line("".join(self._read("rows")[:1]))
        except ValueError:
            return {}
        return found if type(found) is dict else {}

    def _read(self, name: str) -> list[str]:
        """The lines of a cache, without the one that names its format."""
        try:
            raw = read_file(f"{self.store.own}/{name}", _MAX_CACHE) or b""
            first, *lines = raw.decode("utf-8").split("\n")
        except (OverhandError, ValueError):
            return []
        return lines if first == _FORMAT and lines[-1:] == [""] else []

    def _save(self) -> None:
        lines = [_FORMAT]
        for entry in _settled(self._known or {}).items():
            lines += entry
        self._write("overview", lines)

    def _write(self, name: str, lines: list[str]) -> None:
        try:
            write_file(f"{self.store.own}/{name}", "\n".join(lines) + "\n")
        except OverhandError:
            return  # a full disk or a foreign project: the next look takes longer, that is all


def _settled(by_mark: dict[str, Any]) -> dict[str, Any]:
    """Those of logs that cannot change any more without getting another mark."""
    import time

    limit = time.time_ns() - _SETTLED
    return {mark: value for mark, value in by_mark.items() if int(mark.split()[2]) < limit}


def _open(store: Store) -> int:
    """The folder of the recorded tasks; -1 in a project that was never used."""
    try:
        return os.open(f"{store.home}/tasks", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise storage_failed(error, "Cannot read the tasks of this project") from error


def _entries(place: int) -> Iterator[os.DirEntry[str]]:
    """What may be a task; names that begin with a dot are ours."""
    if place >= 0:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name[0] != ".":
                    yield entry


def is_at_rest(task: Task) -> bool:
    """Judged, and held by no run: only a verb moves it again."""
    return task.status is not None and not task.queued and task.current_run is None
