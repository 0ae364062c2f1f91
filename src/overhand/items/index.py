"""The tags of items in a project, in memory and kept up to date: `tag find` is answered from it while the daemon runs.

Only tags with a stage are held. Whatever is out of the ordinary (a file that cannot be read, is no text or very big) is
only noted: then whoever asks is told to look for themselves, and gets the same answer and warnings as ever.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from overhand.documents import tags
from overhand.items import find as finding
from overhand.items.watch import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIXES = tuple(f"#{stage}-" for stage in tags.STAGES)
_MARKS = tuple(prefix.encode() for prefix in PREFIXES)
_MOST = 4_000_000  # bytes of a file, and
_LONGEST = 4000  # characters of a line that are held
_START = 8000  # as in finding: a NUL among these says that a file is no text
_AT_ONCE = 500  # files that are read while somebody waits


class Hit(NamedTuple):
    """One tag, with all that is ever told about it."""

    line: int
    name: str
    on_tags_line: bool
    priority: int
    effort: str
    task: str
    text: str


class Index:
    """Path to hits; `tree` says what changes."""

    def __init__(self, root: str, beside: tuple[str, ...] = ()) -> None:
        self.root = root
        self.tree = Tree(root, beside)
        self.hits: dict[str, tuple[Hit, ...]] = {}
        self.odd: set[str] = set()
        self.dirty: set[str] = set()
        self.is_lost = False  # something may have been missed: everything must be read again
        self._order: list[str] | None = None

    def begin(self) -> None:
        """Watch, then read everything."""
        files = self.tree.begin()
        if finding.installed():
            held: set[str] = set()
            complaints: list[str] = []
            for path in finding.holding(self.root, "#", warn=complaints.append):
                held.add(path.removeprefix(f"{self.root}/"))
            if not complaints:
                files = [path for path in files if path in held]
        for path in files:
            self.read(path)

    def close(self) -> None:
        """It is no longer needed."""
        self.tree.close()

    # keeping up

    def drain(self) -> tuple[dict[str, set[str]], bool]:
        """Take in what has happened; files with tags of items that may have changed, with the ids that stood there, and
        whether something beside changed.

        A lot at once is read in parts: `dirty` holds the rest.
        """
        changes = self.tree.changes()
        if changes is None:
            self.is_lost = True
            return {}, False
        files, gone, beside = changes
        for folder in gone:
            files.update(path for table in (self.hits, self.odd) for path in table if path.startswith(folder))
        self.dirty |= files
        return self._catch_up(), beside

    def _catch_up(self) -> dict[str, set[str]]:
        touched: dict[str, set[str]] = {}
        for path in list(islice(self.dirty, _AT_ONCE)):
            self.dirty.discard(path)
            had, ids = path in self.hits, self.tasks_in(path)
            self.read(path)
            if had or path in self.hits:
                touched[path] = ids
        return touched

    def read(self, path: str) -> None:
        """One file as it is now."""
        self.odd.discard(path)
        found = self._hits(path)
        if found:
            if path not in self.hits:
                self._order = None
            self.hits[path] = found
        elif self.hits.pop(path, None) is not None:
            self._order = None

    def _hits(self, path: str) -> tuple[Hit, ...]:
        whole = f"{self.root}/{path}"
        folder = path[: path.rfind("/") + 1]
        try:
            found = os.lstat(whole)
        except OSError:
            return ()
        if not stat.S_ISREG(found.st_mode) or (self.tree.is_whole and folder not in self.tree.numbers):
            return ()
        if found.st_size > _MOST:
            self.odd.add(path)
            return ()
        raw = finding.read(whole)
        if raw is None:
            if os.path.lexists(whole):
                self.odd.add(path)
            return ()
        if not any(mark in raw for mark in _MARKS):
            return ()
        if raw.find(b"\0", 0, _START) >= 0:
            self.odd.add(path)
            return ()
        hits = tuple(_hit(raw, tag) for tag in tags.scan(raw) if tags.stage(tag.name))
        if any(len(hit.text) > _LONGEST for hit in hits):
            self.odd.add(path)
        return hits

    # answering

    def can_answer(self, folder: str, pattern: str) -> bool:
        """Whether a search in this folder (relative, with a `/` behind it) would find exactly what is held."""
        if self.is_lost or self.dirty or not self.tree.is_whole or folder not in self.tree.numbers:
            return False
        if not finding.literal(pattern).startswith(PREFIXES) or self.tree.has_moved_rules():
            return False
        return not any(path.startswith(folder) for path in self.odd)

    def find(self, folder: str, pattern: str, *, tags_only: bool = False) -> Iterator[tuple[str, list[Hit]]]:
        """The files below a folder and the tags in them that match, in the order of their paths."""
        fits = finding.matcher(pattern)
        for path in self.in_order():
            if not path.startswith(folder):
                continue
            found = [hit for hit in self.hits[path] if fits(hit.name) and (hit.on_tags_line or not tags_only)]
            if found:
                yield path, found

    def in_order(self) -> list[str]:
        """The paths that have tags."""
        if self._order is None:
            self._order = sorted(self.hits, key=lambda path: path.split("/"))
        return self._order

    def tasks_in(self, path: str) -> set[str]:
        """The ids behind the tags of a file."""
        return {hit.task for hit in self.hits.get(path, ()) if hit.task}

    def worth_a_look(self) -> Iterable[str]:
        """Files whose tags may call for something: approved, claimed, or with the id of a task."""
        for path, hits in self.hits.items():
            if any(hit.task or hit.name.startswith(("#delegated-", "#claimed-")) for hit in hits):
                yield path

    def unrecorded(self) -> list[str]:
        """Files with an item that waits for approval, on their Tags line."""
        return [
            path
            for path, hits in self.hits.items()
            if any(hit.on_tags_line and not hit.task and hit.name.startswith("#needs-") for hit in hits)
        ]


def _hit(raw: bytes, tag: tags.Tag) -> Hit:
    priority, effort = tags.weights(raw, tag)
    return Hit(tag.line, tag.name, tag.on_tags_line, priority, effort, tag.task, tags.line_text(raw, tag))
