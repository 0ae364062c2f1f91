"""The supervisor with tags switched on: it watches Markdown files and hands what they ask for to the queue.

The daemon keeps no state that could be lost: files and logs say which item is where, and a new daemon reads all of
them. A file is read once it has been unchanged for a few seconds, in a thread, one batch at a time.
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from overhand.errors import Busy, OverhandError, StorageUnavailable
from overhand.items import is_tag_behind, remember_tags, sync_tag, tags_known_at, unrecorded_tags, wanted_stage
from overhand.policy import settings_marks, trust_file, user_folder
from overhand.supervisor.client import daemon_log, daemon_state
from overhand.supervisor.context import Changed
from overhand.system import dump_spaced, now_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from overhand.items import TagHit, TagIndex
    from overhand.policy import Config
    from overhand.record import Store, Task
    from overhand.supervisor.context import LoopContext

T = TypeVar("T")

_AGAIN = 2.0  # seconds after which a busy file is read again
_LOOK_EVERY = 5.0  # seconds between checks of the switch, and scans of a tree that can't be watched
_DEAF = 0.05  # seconds between two reads of the kernel's events
_LOG_SIZE = 1_000_000  # bytes; one older file of this size is kept
_BY = {"kind": "overhand", "via": "daemon"}


@dataclass(slots=True)
class Touched:
    """A changed file that is to be read."""

    first: float  # when it first changed since the last read; seconds since 1970
    last: float
    due: float  # on the monotonic clock
    tasks: set[str]  # tasks with tags in it


class Looked(NamedTuple):
    """The outcome of reading files."""

    again: dict[str, Touched]  # busy files
    tasks: list[str]  # tasks whose record or tag changed
    notes: list[tuple[str, dict[str, object]]]  # lines of the daemon's log


class TagDaemon:
    """The daemon's state; all of it can be rebuilt from files."""

    def __init__(self, context: LoopContext, reload: Callable[[], None]) -> None:
        """`reload` has the settings read again."""
        self._store, self._poll, self._jobs, self._mail = context.store, context.poll, context.jobs, context.mail
        self._config, self._reload, self._say = context.config, reload, context.say
        self._since = ""  # empty: tags are not watched
        self._index: TagIndex | None = None
        self._touched: dict[str, Touched] = {}
        self._scanned_at = ""
        self._scanning = self._looking = False
        self._before: dict[str, tuple[TagHit, ...]] = {}  # hits before a scan of a tree that can't be watched
        self._known = 0.0  # all changes before this time are recorded or pending
        self._marks: list[tuple[int, int, int] | None] = []  # of the settings files as they were last read
        self._checked = 0.0
        self._deaf_until = 0.0

    @property
    def on(self) -> bool:
        return bool(self._since)

    @property
    def fd(self) -> int:
        """The descriptor that wakes the loop when a file changes."""
        return self._index.tree.news.fd if self._index is not None else -2

    def note(self, what: str, **more: object) -> None:
        if self.on:
            _note(self._store, what, **more)

    def verdict_note(self) -> Callable[[Task], None]:
        """The function that a job calls with a judged task: it logs the run's result and what follows."""
        if not self.on:
            return lambda _task: None
        store = self._store

        def note(task: Task) -> None:
            if task.item is not None:
                run = task.last_run
                why = ", ".join(dict.fromkeys(str(word) for word in (run.cause, run.status))) if run else ""
                facts = {"task": task.id, "why": why, "stage": wanted_stage(task), "attempt": task.requeued + 1}
                _note(store, "ended", **facts)

        return note

    # on and off

    def turn(self) -> None:
        """Follow the switch."""
        self._checked = time.monotonic()
        wanted = daemon_state(self._store)
        if wanted is not None and not self.on:
            self._since = now_stamp()
            self._known = tags_known_at(self._store)
            self.note("on", pid=os.getpid())
            self.scan("the daemon begins")
        elif wanted is None and self.on:
            self.note("off", pid=os.getpid())
            self.stirred()
            if self._index is not None and not self._touched and not self._looking:
                remember_tags(self._store, time.time())
            self._drop_index()
            self._touched.clear()
            self._since = ""

    def _drop_index(self) -> None:
        if self._index is not None:
            if self.fd >= 0 and not self._deaf_until:
                self._poll.unregister(self.fd)
            self._index.close()
            self._index = None

    # watching

    def scan(self, why: str = "") -> None:
        """Scan the whole tree in a thread, because the index is out of date; without a reason, only changes count."""
        if self._scanning:
            return
        self._scanning = True
        if why:
            self._marks = settings_marks(self._store.root, trust_file())
            self._reload()
        self._before = self._index.hits if self._index is not None and not why else {}
        self._drop_index()
        store, whole = self._store, bool(why)
        self._in_thread(lambda: _read_all(store, whole=whole), partial(self._scanned, why))

    def _scanned(self, why: str, found: tuple[TagIndex, list[str]]) -> None:
        index, older = found
        self._scanning = False
        if not self.on:
            index.close()
            return
        self._index = index
        self._listen()
        self._reread(index)  # changes before the watch was set were not noticed
        self._scanned_at = now_stamp()
        tree = index.tree
        if why:
            folders, files = len(tree.folders), len(index.hits)
            self.note("scanned", why=why, folders=folders, files=files, watched=tree.is_whole)
            waiting = (key.partition("#")[0] for key in unrecorded_tags(self._store))
            paths = {*index.worth_a_look(), *older, *self._noted(index), *waiting, ""}
        else:
            paths = {p for p in {*index.hits, *self._before} if index.hits.get(p) != self._before.get(p)}
        for path in paths:  # "": tasks whose tag may not be in any file
            had = {hit.task for hit in self._before.get(path, ()) if hit.task}
            self._touch(path, self._known, _quiet_for(f"{index.root}/{path}", time.time()), had)

    def _noted(self, index: TagIndex) -> list[str]:
        """Files with items that the settings approve automatically."""
        wanted = self._config().auto_approved
        return [path for path, hits in index.hits.items() if wanted and any(hit.name in wanted for hit in hits)]

    def stirred(self) -> None:
        """Record what changed since the last call."""
        if self._index is None:
            return
        touched, beside = self._index.drain()
        now = time.time()
        for path, had in touched.items():
            quiet = _quiet_for(f"{self._index.root}/{path}", now)
            self._touch(path, now - quiet, quiet, had)
        if beside:
            self._reread(self._index)
        if self._index.is_lost:
            self.scan("more changed than could be followed, or other files count now")

    def _reread(self, index: TagIndex) -> None:
        """Reload the settings if they have changed."""
        if (marks := settings_marks(self._store.root, trust_file())) == self._marks:
            return
        self._marks = marks
        self._reload()
        self.note("settings", why="a settings file was changed, or trusted")
        for path in self._noted(index):  # waiting items may be approved now
            self._touch(path, self._known, _quiet_for(f"{index.root}/{path}", time.time()))

    def ready(self) -> None:
        """Read the kernel's events, then pause for a moment: a build that writes a lot must not keep us busy."""
        self._poll.unregister(self.fd)
        self._deaf_until = time.monotonic() + _DEAF
        self.stirred()

    def _listen(self) -> None:
        self._deaf_until = 0.0
        if self.fd >= 0:
            self._poll.register(self.fd, select.POLLIN)

    def _touch(self, path: str, at: float, quiet: float, had: Iterable[str] = ()) -> None:
        """Record that this file changed at that time and has been unchanged for `quiet` seconds."""
        due = time.monotonic() + max(0.0, self._config().debounce - quiet)
        known = self._touched.get(path)
        if known is None:
            self._touched[path] = Touched(at, time.time(), due, set(had))
        else:
            known.first, known.last, known.due = min(known.first, at), time.time(), due
            known.tasks.update(had)

    # looking

    def tick(self, *, is_queued: bool) -> None:
        """Process what is due and check the switch; `is_queued` says whether a task may start now."""
        now = time.monotonic()
        if self._deaf_until and now >= self._deaf_until:
            self._listen()
        if now - self._checked >= _LOOK_EVERY:
            self.turn()
            if self.on and self._index is None:
                self.scan("the last attempt failed")
            elif self.on and self._index is not None and not self._index.tree.is_whole and not self._looking:
                self.scan()
        if self._index is not None and (self._index.dirty or is_queued):
            self.stirred()  # a run that starts now must not be credited with earlier changes
        if self.on and not self._looking and self._ripe(now):
            self.stirred()  # files that changed again are not due, and reading one may start a run
            if ripe := self._ripe(now):
                self._look(ripe)

    def _ripe(self, now: float) -> dict[str, Touched]:
        return {path: one for path, one in self._touched.items() if one.due <= now}

    @property
    def due(self) -> float:
        """When the next step is due, on the monotonic clock."""
        if not self.on:
            return float("inf")
        if self._index is not None and self._index.dirty:
            return 0.0
        next_look = min(self._checked + _LOOK_EVERY, self._deaf_until or float("inf"))
        return next_look if self._looking else min([next_look, *(one.due for one in self._touched.values())])

    def _look(self, ripe: dict[str, Touched]) -> None:
        for path in ripe:
            del self._touched[path]
        self._looking = True
        if not self._touched and not self._scanning:
            self._known = time.time()
        store, config = self._store, self._config()

        def look() -> Looked:
            try:
                return _look_at(store, config, ripe)
            except (OverhandError, OSError) as error:
                return Looked(ripe, [], [("error", {"why": str(error)})])  # no change may be missed

        self._in_thread(look, self._looked)

    def _looked(self, found: Looked) -> None:
        for what, facts in found.notes:
            self.note(what, **facts)
        self._looking = False
        for path, one in found.again.items():
            has_changed = path in self._touched
            self._touch(path, one.first, self._config().debounce - _AGAIN, one.tasks)
            if not has_changed:
                self._touched[path].last = one.last
        if not self._touched and not self._scanning and self.on:
            remember_tags(self._store, self._known)
        for task_id in dict.fromkeys(found.tasks):
            self._mail.post(Changed(task_id))

    def _in_thread(self, do: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run slow work outside the loop; retry it if it fails."""

        def work() -> T | Exception:
            try:
                return do()
            except Exception as error:  # noqa: BLE001 -- it is reported below, and the loop goes on
                return error

        def follow(found: T | Exception) -> None:
            if isinstance(found, Exception):
                self._say(f"daemon: {type(found).__name__}: {found}")
                self.note("error", why=f"{type(found).__name__}: {found}")
                self._scanning = self._looking = False
            else:
                then(found)

        self._jobs.run("", work, follow)

    # being asked

    def status(self, queued: list[str], running: list[str]) -> dict[str, Any]:
        index = self._index
        return {
            "pid": os.getpid(),
            "watches": self.on,
            "since": self._since or None,
            "folders": len(index.tree.folders) if index is not None else 0,
            "files": len(index.hits) if index is not None else 0,
            "complete": index is not None and index.tree.is_whole,
            "scanned": self._scanned_at if index is not None else None,
            "pending": sorted(path for path in self._touched if path),
            "queue": queued,
            "running": running,
        }


def _read_all(store: Store, *, whole: bool) -> tuple[TagIndex, list[str]]:
    """The index; and, unless only changes count, files whose text may have been reverted meanwhile."""
    from overhand.items import (
        PastItems,
        TagIndex,  # a supervisor that watches no tags starts without it
    )

    index = TagIndex(store.root, (f"{store.root}/.overhand", user_folder()))  # also watch settings and trust
    index.begin()
    past = PastItems(store)
    return index, [path for path in index.unrecorded() if past.names(path)] if whole else []


def _look_at(store: Store, config: Config, ripe: dict[str, Touched]) -> Looked:
    """In a thread: process each file; busy files are read again later."""
    from overhand.items import PastItems, handle_changed_file

    found = Looked({}, [], [])
    waiting = set(unrecorded_tags(store))
    past, began = PastItems(store), now_stamp()
    for path, one in ripe.items():
        try:
            if path:
                found.tasks.extend(
                    handle_changed_file(store, config, path, _BY, since=one.first, until=one.last, past=past)
                )
            found.tasks.extend(_bring(store, (one.tasks if path else set(store.ids())).difference(found.tasks)))
        except Busy:
            found.again[path] = one
        except (OverhandError, OSError) as error:
            found.notes.append(("error", {"path": path, "why": str(error)}))
            if isinstance(error, StorageUnavailable):
                found.again[path] = one
    for task_id in dict.fromkeys(found.tasks):
        task = store.recorded(task_id)
        shown = task.tag
        path = shown.path if shown else ""
        if shown and shown.repairs and shown.repairs[-1] >= began:
            found.notes.append(("repaired", {"task": task_id, "path": path, "stage": shown.stage}))
        if task.queued and not task.runs:
            how = task.item.how if task.item else None
            found.notes.append(("queued", {"task": task_id, "path": path, "why": how}))
    for key, facts in unrecorded_tags(store).items():
        if key not in waiting:
            found.notes.append(("waits", {"item": key.rpartition("#")[0], "why": facts.get("why", "")}))
    return found


def _bring(store: Store, tasks: Iterable[str]) -> list[str]:
    """Bring the tags of these tasks in line with the record, wherever the tags are now."""
    brought = []
    for task_id in tasks:
        try:
            task = store.recorded(task_id)
        except OverhandError:
            continue  # the id of a task that is not recorded here
        if task.item is not None and (task.status is None or is_tag_behind(task)):
            brought.append(task_id)
            try:
                sync_tag(store, _BY, task_id)
            except StorageUnavailable:
                continue  # the loop retries it, less and less often, and the others don't wait for it
    return brought


def _quiet_for(path: str, now: float) -> float:
    """How long ago the file was last changed; 0 for a missing file."""
    try:
        return max(0.0, now - os.stat(path).st_ctime)
    except OSError:
        return 0.0


def _note(store: Store, what: str, **more: object) -> None:
    """Append one line to the daemon's log; a full disk must not stop the daemon."""
    path = daemon_log(store)
    line = dump_spaced({"t": now_stamp(), "what": what, **more}) + "\n"
    try:
        if os.path.exists(path) and os.path.getsize(path) > _LOG_SIZE:
            os.replace(path, f"{path}.1")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)
    except OSError:
        return
