"""The supervisor with tags switched on: it watches Markdown files and hands what they ask for to the queue.

Nothing is remembered that could be lost: which item is where stands in files and logs, and a new daemon looks at all of
them. A file is looked at when it has been left alone for a few seconds, in a thread, one look at a time.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overhand.errors import Busy, OverhandError
from overhand.items import sync, unrecorded
from overhand.policy import config as configs
from overhand.policy import trust
from overhand.supervisor import switch
from overhand.supervisor.queue import in_order
from overhand.system import machine
from overhand.system.jsonline import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.items.index import Hit, Index
    from overhand.record.task import Task
    from overhand.supervisor.loop import Supervisor

_AGAIN = 2.0  # seconds after which a file that was busy is looked at again
_LOOK_EVERY = 5.0  # seconds between looks at the switch, and at the tree where it cannot be watched
_DEAF = 0.05  # seconds between two looks at what changed
_BY = {"kind": "overhand", "via": "daemon"}


@dataclass(slots=True)
class Changed:
    """A file that is to be looked at."""

    first: float  # when it was first seen to change since the last look; seconds since 1970
    last: float
    due: float  # on the monotonic clock
    tasks: set[str]  # whose tags stood in it


@dataclass(slots=True)
class Dispatch:
    """What the daemon knows; all of it can be found again."""

    boss: Supervisor
    since: str = ""  # empty: tags are not watched
    index: Index | None = None
    changed: dict[str, Changed] = field(default_factory=dict)
    scanned: str = ""
    scanning: bool = False
    looking: bool = False
    before: dict[str, tuple[Hit, ...]] = field(default_factory=dict)  # where nothing tells us what changed
    known: float = 0.0  # everything that was there then is recorded, or waits
    marks: list[object] = field(default_factory=list)  # of the settings as they were read
    checked: float = 0.0
    deaf_until: float = 0.0
    done: deque[tuple[str, Any]] = field(default_factory=deque)

    @property
    def on(self) -> bool:
        """Whether tags are watched."""
        return bool(self.since)

    @property
    def fd(self) -> int:
        """What wakes the loop when a file changes."""
        return self.index.tree.news.fd if self.index is not None else -2

    def note(self, what: str, **more: object) -> None:
        """One line in the daemon's log."""
        if self.on:
            switch.note(self.boss.store, what, **more)

    def judged(self, task: Task) -> None:
        """What came of a run, and what follows."""
        if task.item is not None:
            run = task.last_run
            why = ", ".join(dict.fromkeys(str(word) for word in (run.cause, run.status))) if run else ""
            self.note("ended", task=task.id, why=why, stage=sync.wanted(task), attempt=task.requeued + 1)

    # on and off

    def turn(self) -> None:
        """Follow the switch."""
        self.checked = time.monotonic()
        wanted = switch.state(self.boss.store)
        if wanted is not None and not self.on:
            self.since = machine.now()
            self.known = unrecorded.known(self.boss.store)
            self.note("on", pid=os.getpid())
            self.scan("the daemon begins")
        elif wanted is None and self.on:
            self.note("off", pid=os.getpid())
            self.stirred()
            if self.index is not None and not self.changed and not self.looking:
                unrecorded.remember(self.boss.store, time.time())
            self._drop_index()
            self.changed.clear()
            self.since = ""

    def _drop_index(self) -> None:
        if self.index is not None:
            if self.fd >= 0 and not self.deaf_until:
                self.boss.poll.unregister(self.fd)
            self.index.close()
            self.index = None

    # watching

    def scan(self, why: str = "") -> None:
        """Read the whole tree, in a thread; the index so far is no longer true. Without a reason, only news count."""
        if self.scanning:
            return
        self.scanning = True
        if why:
            self.marks = self._marks()
            self.boss.load_config()
        self.before = self.index.hits if self.index is not None and not why else {}
        self._drop_index()
        self._in_thread(lambda: ("scanned", (why, *self._read_all(why))))

    def _read_all(self, why: str) -> tuple[Index, list[str]]:
        """The index; and, unless only news count, files in which an older text may have come back meanwhile."""
        from overhand.items import item
        from overhand.items.index import Index  # a supervisor that watches no tags starts without it

        index = Index(self.boss.store.root, self._beside())
        index.begin()
        past = item.Past(self.boss.store)
        return index, [path for path in index.unrecorded() if past.names(path)] if why else []

    def _beside(self) -> tuple[str, ...]:
        """Settings, and what is trusted."""
        return (f"{self.boss.store.root}/.overhand", configs.user_folder())

    def _marks(self) -> list[object]:
        return [*configs.marks(self.boss.store.root, trust.place())]

    def _scanned(self, why: str, index: Index, older: list[str]) -> None:
        self.scanning = False
        if not self.on:
            index.close()
            return
        self.index = index
        self._listen()
        self._reread(index)  # nobody heard of what changed before it was watched
        self.scanned = machine.now()
        tree = index.tree
        if why:
            folders, files = len(tree.folders), len(index.hits)
            self.note("scanned", why=why, folders=folders, files=files, watched=tree.is_whole)
            waiting = (key.partition("#")[0] for key in unrecorded.waiting(self.boss.store))
            paths = {*index.worth_a_look(), *older, *self._noted(index), *waiting, ""}
        else:
            paths = {p for p in {*index.hits, *self.before} if index.hits.get(p) != self.before.get(p)}
        due = unrecorded.due(self.boss.store)
        for path in paths:  # "": tasks whose tag may stand nowhere
            had = {hit.task for hit in self.before.get(path, ()) if hit.task}
            window = due.get(path)
            self._touch(path, self.known, _quiet_for(f"{index.root}/{path}", time.time()), had)
            if window and window[2] == _inode(f"{index.root}/{path}"):
                self.changed[path].first, self.changed[path].last = window[:2]

    def _noted(self, index: Index) -> list[str]:
        """Files with items for which nobody is asked."""
        wanted = self.boss.config.auto_approved
        return [path for path, hits in index.hits.items() if wanted and any(hit.name in wanted for hit in hits)]

    def stirred(self) -> None:
        """Something changed somewhere."""
        if self.index is None:
            return
        touched, beside = self.index.drain()
        now = time.time()
        for path, had in touched.items():
            quiet = _quiet_for(f"{self.index.root}/{path}", now)
            self._touch(path, now - quiet, quiet, had)
        if beside:
            self._reread(self.index)
        if self.index.is_lost:
            self.scan("more changed than could be followed, or other files count now")

    def _reread(self, index: Index) -> None:
        """Settings that have changed since they were read."""
        if (marks := self._marks()) == self.marks:
            return
        self.marks = marks
        self.boss.load_config()
        self.note("settings", why="a settings file was changed, or trusted")
        for path in self._noted(index):  # what waited may count as approved now
            self._touch(path, self.known, _quiet_for(f"{index.root}/{path}", time.time()))

    def heard(self) -> None:
        """The kernel has news. Then nobody listens for a moment: a build that writes a lot must not keep us busy."""
        self.boss.poll.unregister(self.fd)
        self.deaf_until = time.monotonic() + _DEAF
        self.stirred()

    def _listen(self) -> None:
        self.deaf_until = 0.0
        if self.fd >= 0:
            self.boss.poll.register(self.fd, select.POLLIN)

    def _touch(self, path: str, at: float, quiet: float, had: Iterable[str] = ()) -> None:
        """This file changed at that time, and has been quiet for so long."""
        due = time.monotonic() + max(0.0, self.boss.config.debounce - quiet)
        known = self.changed.get(path)
        if known is None:
            self.changed[path] = Changed(at, time.time(), due, set(had))
        else:
            known.first, known.last, known.due = min(known.first, at), time.time(), due
            known.tasks.update(had)

    # looking

    def tick(self) -> None:
        """What threads have done, what is due, and the switch."""
        while self.done:
            what, value = self.done.popleft()
            if what == "scanned":
                self._scanned(*value)
            else:
                self._looked(*value)
        now = time.monotonic()
        if self.deaf_until and now >= self.deaf_until:
            self._listen()
        if now - self.checked >= _LOOK_EVERY:
            self.turn()
            if self.on and self.index is None:
                self.scan("the last attempt failed")
            elif self.on and self.index is not None and not self.index.tree.is_whole and not self.looking:
                self.scan()
        if self.index is not None and (self.index.dirty or self.boss.queue):
            self.stirred()  # who is queued may start now, and has written nothing of what is there already
        if self.on and not self.looking and self._ripe(now):
            self.stirred()  # what changed again is not ripe, and what we look at may start somebody
            if ripe := self._ripe(now):
                self._look(ripe)

    def _ripe(self, now: float) -> dict[str, Changed]:
        return {path: one for path, one in self.changed.items() if one.due <= now}

    def due(self) -> float:
        """When something is to be done, on the monotonic clock."""
        if not self.on:
            return float("inf")
        if self.index is not None and self.index.dirty:
            return 0.0
        next_look = min(self.checked + _LOOK_EVERY, self.deaf_until or float("inf"))
        return next_look if self.looking else min([next_look, *(one.due for one in self.changed.values())])

    def _look(self, ripe: dict[str, Changed]) -> None:
        for path in ripe:
            del self.changed[path]
        self.looking = True
        if not self.changed and not self.scanning:
            self.known = time.time()
        due = ripe | self.changed
        self._in_thread(lambda: ("looked", self._look_at(ripe, due)))

    def _expect(self, due: dict[str, Changed]) -> None:
        """Note what changed before anybody may be started: whoever comes after us knows that no run has written it."""
        at = {path: _inode(f"{self.boss.store.root}/{path}") for path in due if path}
        if len(at) > 1:
            try:
                unrecorded.expect(self.boss.store, {p: (due[p].first, due[p].last, inode) for p, inode in at.items()})
            except (OverhandError, OSError) as error:
                self.note("error", path="", why=str(error))  # whoever comes after us will ask about more of them

    def _look_at(self, ripe: dict[str, Changed], due: dict[str, Changed]) -> tuple[dict[str, Changed], list[str]]:
        """In a thread: heed each file; those that were busy are looked at again."""
        from overhand.items import item, typed

        self._expect(due)

        again: dict[str, Changed] = {}
        tasks: list[str] = []
        store = self.boss.store
        waiting = set(unrecorded.waiting(store))
        past, began = item.Past(store), machine.now()
        for path, one in ripe.items():
            try:
                if path:
                    config, first, last = self.boss.config, one.first, one.last
                    tasks += typed.heed(store, config, path, _BY, since=first, until=last, past=past)
                tasks += self._bring((one.tasks if path else set(store.ids())).difference(tasks))
            except Busy:
                again[path] = one
            except (OverhandError, OSError) as error:
                self.note("error", path=path, why=str(error))
        for task_id in dict.fromkeys(tasks):
            task = store.state(task_id)
            shown = task.tag
            path = shown.path if shown else ""
            if shown and shown.repairs and shown.repairs[-1] >= began:
                self.note("repaired", task=task_id, path=path, stage=shown.stage)
            if task.queued and not task.runs:
                self.note("queued", task=task_id, path=path, why=task.item.how if task.item else None)
        for key, told in unrecorded.waiting(store).items():
            if key not in waiting:
                self.note("waits", item=key.rpartition("#")[0], why=told.get("why", ""))
        return again, tasks

    def _bring(self, tasks: Iterable[str]) -> list[str]:
        """The tags of these tasks are brought in line, wherever they are now; those at rest were told what is so."""
        store, brought = self.boss.store, []
        for task_id in tasks:
            try:
                task = store.state(task_id)
            except OverhandError:
                continue  # the id of a task that is not recorded here
            if task.item is not None and (task.status is None or sync.owes(task)):
                sync.show(store, _BY, task_id)
                brought.append(task_id)
        return brought

    def _looked(self, again: dict[str, Changed], tasks: list[str]) -> None:
        self.looking = False
        for path, one in again.items():
            has_changed = path in self.changed
            self._touch(path, one.first, self.boss.config.debounce - _AGAIN, one.tasks)
            if not has_changed:
                self.changed[path].last = one.last
        if not self.changed and not self.scanning and self.on:
            unrecorded.remember(self.boss.store, self.known)
        for task_id in dict.fromkeys(tasks):
            self.boss.look(task_id)

    def _in_thread(self, do: Any) -> None:
        def whole() -> None:
            try:
                self.done.append(do())
            except BaseException as error:  # noqa: BLE001 -- the loop goes on; it is tried again
                self.boss.say(f"daemon: {type(error).__name__}: {error}")
                self.note("error", why=f"{type(error).__name__}: {error}")
                self.scanning = self.looking = False
            self.boss.desk.ring()

        self.boss.jobs.pool.submit(whole)

    # being asked

    def answer(self, asked: dict[str, Any]) -> bytes | None:
        """The daemon as it is now, if that is asked."""
        return self._status() if asked.get("ask") == "daemon" else None

    def _status(self) -> bytes:
        boss, index = self.boss, self.index
        told = {
            "pid": os.getpid(),
            "watches": self.on,
            "since": self.since or None,
            "folders": len(index.tree.folders) if index is not None else 0,
            "files": len(index.hits) if index is not None else 0,
            "complete": index is not None and index.tree.is_whole,
            "scanned": self.scanned if index is not None else None,
            "pending": sorted(path for path in self.changed if path),
            "queue": [task.id for task in in_order(boss.queue.values())],
            "running": sorted(boss.slots),
        }
        return dumps(told).encode("utf-8", "surrogateescape")


def _quiet_for(path: str, now: float) -> float:
    """How long ago the file was last changed; one that is gone, a moment ago."""
    try:
        return max(0.0, now - os.stat(path).st_ctime)
    except OSError:
        return 0.0


def _inode(path: str) -> int:
    """Which file this is; 0 for one that is gone."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
