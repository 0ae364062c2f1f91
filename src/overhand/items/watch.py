"""A project's folders under watch: which Markdown files were made, changed or removed, as a search would see them.

Folders only, no links, nothing that `.gitignore` leaves out, no hidden ones. A new folder is watched first and listed
then, so that nothing in it can be missed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.items import find
from overhand.system.inotify import (
    ATTRIB,
    CREATE,
    DELETE,
    FOLDER,
    IGNORED,
    MODIFY,
    MOVED_FROM,
    MOVED_TO,
    NO_LINKS,
    ONLY_FOLDERS,
    Inotify,
)

if TYPE_CHECKING:
    from overhand.items.find import Ignored

_MASK = CREATE | DELETE | MOVED_FROM | MOVED_TO | MODIFY | ATTRIB | ONLY_FOLDERS | NO_LINKS
_CAME, _WENT = CREATE | MOVED_TO, DELETE | MOVED_FROM
_RULES = (b".gitignore", b".git")  # what decides which files count


class Tree:
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

    def begin(self) -> list[str]:
        """Watch everything; the Markdown files that are there."""
        return self._walk("", find.ignored(self.root))

    def close(self) -> None:
        """Stop watching."""
        self.news.close()

    def _look_beside(self) -> None:
        for path in self.beside:
            if (number := self.news.add(path, _MASK)) is not None:
                self._beside.add(number)

    def _walk(self, top: str, rules: Ignored | None) -> list[str]:
        """Watch a folder and all below it, then say what is in there."""
        return list(find.walk(self.root, top, rules, enter=self._watch, failed=self._unlisted))

    def _unlisted(self, folder: str, _error: OSError) -> None:
        self.is_whole = self.is_whole and not os.path.isdir(f"{self.root}/{folder}")

    def _watch(self, folder: str, rules: Ignored | None) -> bool:
        number = self.news.add(f"{self.root}/{folder}", _MASK)
        if number is None:
            # gone again, or more than the kernel gives us: then the tree is looked at every few seconds
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
                if mask & IGNORED:
                    self._drop(number)
                continue
            if raw in _RULES and (raw != b".git" or mask & (_CAME | _WENT)):
                return None
            folder, rules = self.folders[number]
            name = os.fsdecode(raw)
            path = f"{folder}{name}"
            if mask & FOLDER:
                if mask & _WENT:
                    gone.add(f"{path}/")
                    self._forget(f"{path}/")
                if mask & _CAME and f"{self.root}/{path}" in self.beside:
                    self._look_beside()
                    beside = True
                if mask & _CAME and find.is_wanted(f"{self.root}/{path}", name, rules, is_folder=True):
                    files.update(self._walk(f"{path}/", find.below(f"{self.root}/{path}", rules)))
            elif name.endswith(".md") and find.is_wanted(f"{self.root}/{path}", name, rules, is_folder=False):
                files.add(path)
        return None if events is None else (files, gone, beside)

    def _forget(self, folder: str) -> None:
        """A folder that went: its watches go with it wherever it is now."""
        for path in [path for path in self.numbers if path.startswith(folder)]:
            number = self.numbers[path]
            self._drop(number)
            self.news.remove(number)

    def _drop(self, number: int) -> None:
        folder = self.folders.pop(number, None)
        if folder is not None and self.numbers.get(folder[0]) == number:
            del self.numbers[folder[0]]
