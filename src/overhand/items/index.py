"""The tags of items in a project, in memory and kept up to date while the daemon runs; tags with a stage only."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from overhand.documents import tags
from overhand.items import find
from overhand.items.watch import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIXES = tuple(f"#{stage}-" for stage in tags.STAGES)
_MARKS = tuple(prefix.encode() for prefix in PREFIXES)
_MOST = 4_000_000  # bytes of a file that is looked at
_AT_ONCE = 500  # files that are read before the loop goes on


class Hit(NamedTuple):
    """One tag, the id behind it and the line it stands on."""

    line: int
    name: str
    on_tags_line: bool
    task: str
    text: str


class Index:
    """Path to hits; `tree` says what changes."""

    def __init__(self, root: str, beside: tuple[str, ...] = ()) -> None:
        self.root = root
        self.tree = Tree(root, beside)
        self.hits: dict[str, tuple[Hit, ...]] = {}
        self.dirty: set[str] = set()
        self.is_lost = False  # something may have been missed: everything must be read again

    def begin(self) -> None:
        """Watch, then read everything."""
        files = self.tree.begin()
        held = find.prefiltered(self.root, *PREFIXES)
        if held is not None:
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
            files.update(path for path in self.hits if path.startswith(folder))
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
        found = self._hits(path)
        if found:
            self.hits[path] = found
        else:
            self.hits.pop(path, None)

    def _hits(self, path: str) -> tuple[Hit, ...]:
        whole = f"{self.root}/{path}"
        folder = path[: path.rfind("/") + 1]
        try:
            found = os.lstat(whole)
        except OSError:
            return ()
        if not stat.S_ISREG(found.st_mode) or (self.tree.is_whole and folder not in self.tree.numbers):
            return ()
        raw = find.read(whole) if found.st_size <= _MOST else None
        if raw is None or not any(mark in raw for mark in _MARKS) or not find.is_text(raw):
            return ()
        return tuple(
            Hit(tag.line, tag.name, tag.on_tags_line, tag.task, tags.line_text(raw, tag))
            for tag in tags.scan(raw)
            if tags.stage(tag.name)
        )

    # answering

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
