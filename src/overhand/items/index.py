"""The tags of items in a project, in memory and kept up to date while the daemon runs; tags with a stage only."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from overhand.documents import TAG_STAGES, line_text, scan_tags, stage_of_tag
from overhand.items import find
from overhand.system import (
    IN_ATTRIB,
    IN_CREATE,
    IN_DELETE,
    IN_DONT_FOLLOW,
    IN_IGNORED,
    IN_ISDIR,
    IN_MODIFY,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_ONLYDIR,
    Inotify,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.items.find import Ignored

PREFIXES = tuple(f"#{stage}-" for stage in TAG_STAGES)
_MARKS = tuple(prefix.encode() for prefix in PREFIXES)
_MOST = 4_000_000  # bytes of a file that is looked at
_AT_ONCE = 500  # files that are read before the loop goes on


class TagHit(NamedTuple):
    """One tag, the id behind it and the line it stands on."""

    line: int
    name: str
    on_tags_line: bool
    task: str
    text: str


class TagIndex:
    """Path to hits; `tree` says what changes."""

    def __init__(self, root: str, beside: tuple[str, ...] = ()) -> None:
        self.root = root
        self.tree = WatchedFolders(root, beside)
        self.hits: dict[str, tuple[TagHit, ...]] = {}
        self.dirty: set[str] = set()
        self.is_lost = False  # something may have been missed: everything must be read again

    def begin(self) -> None:
        """Watch, then read everything."""
        files = self.tree.walk("", find.ignored(self.root))
        held = find.prefiltered(self.root, *PREFIXES)
        if held is not None:
            files = [path for path in files if path in held]
        for path in files:
            self.read(path)

    def close(self) -> None:
        self.tree.news.close()

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
        touched: dict[str, set[str]] = {}
        for path in list(islice(self.dirty, _AT_ONCE)):
            self.dirty.discard(path)
            had, ids = path in self.hits, {hit.task for hit in self.hits.get(path, ()) if hit.task}
            self.read(path)
            if had or path in self.hits:
                touched[path] = ids
        return touched, beside

    def read(self, path: str) -> None:
        found = self._hits(path)
        if found:
            self.hits[path] = found
        else:
            self.hits.pop(path, None)

    def _hits(self, path: str) -> tuple[TagHit, ...]:
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
            TagHit(tag.line, tag.name, tag.on_tags_line, tag.task, line_text(raw, tag))
            for tag in scan_tags(raw)
            if stage_of_tag(tag.name)
        )

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


_MASK = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW
_CAME, _WENT = IN_CREATE | IN_MOVED_TO, IN_DELETE | IN_MOVED_FROM
_RULES = (b".gitignore", b".git")  # what decides which files count


class WatchedFolders:
    """The watched folders; paths are relative to the project, and those of folders end with `/`."""

    def __init__(self, root: str, beside: tuple[str, ...] = ()) -> None:
        self.root = root
        self.news = Inotify()
        self.is_whole = self.news.fd >= 0  # every folder could be watched
        self.folders: dict[int, tuple[str, Ignored | None]] = {}
        self.numbers: dict[str, int] = {}
        self.beside = beside  # folders that hold no Markdown of ours, but whose change matters
        self._beside: set[int] = set()
        self._look_beside()

    def _look_beside(self) -> None:
        for path in self.beside:
            if (number := self.news.add(path, _MASK)) is not None:
                self._beside.add(number)

    def walk(self, top: str, rules: Ignored | None) -> list[str]:
        """Watch a folder and all below it, then say what is in there."""
        return list(find.walk(self.root, top, rules, enter=self._watch, failed=self._unlisted))

    def _unlisted(self, folder: str, _error: OSError) -> None:
        self.is_whole = self.is_whole and not os.path.isdir(f"{self.root}/{folder}")

    def _watch(self, folder: str, rules: Ignored | None) -> bool:
        number = self.news.add(f"{self.root}/{folder}", _MASK)
        if number is None:
            # gone again, or over the limit of the kernel: then the tree is scanned every few seconds
            self.is_whole = self.is_whole and not os.path.isdir(f"{self.root}/{folder}")
            return self.news.fd < 0 or os.path.isdir(f"{self.root}/{folder}")
        self.folders[number] = (folder, rules)
        self.numbers[folder] = number
        return True

    def changes(self) -> tuple[set[str], set[str], bool] | None:
        """Files that may have changed, folders that are gone, and whether something beside changed; None: all may."""
        files: set[str] = set()
        gone: set[str] = set()
        beside = False
        events = self.news.events() if self.news.fd >= 0 else []
        for number, mask, raw in events if events is not None else ():
            if number in self._beside:
                beside = True
            if number not in self.folders or not raw:
                if mask & IN_IGNORED:
                    self._drop(number)
                continue
            if raw in _RULES and (raw != b".git" or mask & (_CAME | _WENT)):
                return None
            folder, rules = self.folders[number]
            name = os.fsdecode(raw)
            path = f"{folder}{name}"
            if mask & IN_ISDIR:
                if mask & _WENT:
                    gone.add(f"{path}/")
                    self._forget(f"{path}/")
                if mask & _CAME and f"{self.root}/{path}" in self.beside:
                    self._look_beside()
                    beside = True
                if mask & _CAME and find.is_wanted(f"{self.root}/{path}", name, rules, is_folder=True):
                    files.update(self.walk(f"{path}/", find.below(f"{self.root}/{path}", rules)))
            elif name.endswith(".md") and find.is_wanted(f"{self.root}/{path}", name, rules, is_folder=False):
                files.add(path)
        return None if events is None else (files, gone, beside)

    def _forget(self, folder: str) -> None:
        """A folder that is gone: its watches would follow it to its new place."""
        for path in [path for path in self.numbers if path.startswith(folder)]:
            number = self.numbers[path]
            self._drop(number)
            self.news.remove(number)

    def _drop(self, number: int) -> None:
        folder = self.folders.pop(number, None)
        if folder is not None and self.numbers.get(folder[0]) == number:
            del self.numbers[folder[0]]
