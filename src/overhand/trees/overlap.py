"""Whether a landing would overwrite anything of the user's: every path is marked first, and its content tested then."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from overhand.errors import Refused
from overhand.trees.files import Walk, look, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.system import Git
    from overhand.trees.journal import Mark

_PATIENCE = 600  # seconds
_GITLINK, NOTHING = "160000", "000000"
_SHOWN = 10  # paths in a message


class Change(NamedTuple):
    """A path that differs between two trees, as git prints it."""

    old_mode: str
    new_mode: str
    old: str
    new: str
    path: str

    @property
    def had_file(self) -> bool:
        return self.old_mode not in (NOTHING, _GITLINK)

    @property
    def has_file(self) -> bool:
        return self.new_mode not in (NOTHING, _GITLINK)


class _Entry(NamedTuple):
    tag: str
    mode: str
    id: str
    stage: str


def read_changes(git: Git, old: str, new: str) -> list[Change]:
    """The paths that differ between two trees or commits, sorted."""
    words = git.lines("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    rows = (about[1:].split(" ") for about in words[::2])
    return [Change(row[0], row[1], row[2], row[3], path) for row, path in zip(rows, words[1::2], strict=True)]


class Overlap:
    """Whether a landing would overwrite anything of the user's."""

    def __init__(self, git: Git, changes: list[Change], folder: str) -> None:
        self.git, self.changes, self.folder = git, changes, folder
        self.marks: dict[str, Mark] = {}
        self.missing_folders: dict[str, list[str]] = {}
        self.cleared: list[tuple[str, int]] = []
        self._disks: dict[str, int] = {}
        self._entries: dict[str, _Entry] = {}
        self._tracked: list[str] = []
        self._deleted = {one.path for one in changes if one.had_file and one.new_mode in (NOTHING, _GITLINK)}
        self._why: dict[str, str] = {}

    def run(self) -> None:
        """Raises Refused with the reason for each path that is in the way."""
        self._mark_files()
        self._read_index()
        modified = self._modified()
        with Walk(self.git.work_tree) as walk:
            for one in self.changes:
                why = self._reason(walk, one, modified)
                if why:
                    self._why[one.path] = why
        if self._why:
            raise self._refused()

    def is_skipped(self, one: Change) -> bool:
        """Whether the user's index keeps the file out of the checkout."""
        entry = self._entries.get(one.path)
        return entry is not None and entry.tag in "Ss"

    def disk_of(self, path: str) -> int:
        """The device of the folder that a path is in, or will be in."""
        folder = os.path.dirname(path)
        if folder not in self._disks:
            try:
                self._disks[folder] = os.lstat(os.path.join(self.git.work_tree, folder)).st_dev
            except OSError:
                self._disks[folder] = self.disk_of(folder)
        return self._disks[folder]

    def _mark_files(self) -> None:
        """Before anything is tested: whatever is written from now on is noticed."""
        now = time.time_ns()
        with Walk(self.git.work_tree) as walk:
            for one in self.changes:
                try:
                    place = walk.at(one.path)
                except OSError:
                    continue
                found = look(place)
                if found is not None:
                    self.marks[one.path] = mark_of(place, found, now)

    def _read_index(self) -> None:
        for row in self.git.lines("ls-files", "-v", "-s", "-z"):
            about, _, path = row.partition("\t")
            self._entries[path] = _Entry(*about.split(" "))
        self._tracked = sorted(self._entries)

    def _modified(self) -> set[str]:
        """The files among these that differ from the index, also those that git was told to assume unchanged."""
        ours = {one.path for one in self.changes if one.had_file}
        assumed = [path for path in ours if (entry := self._entries.get(path)) and entry.tag == "h"]
        words = ("diff-files", "-z", "--name-only", "--ignore-submodules=all")
        found = ours.intersection(self.git.lines(*words))
        if not found and not assumed:
            return found
        copy = f"{self.folder}/test.index"
        shutil.copy2(self.git.index_file, copy)
        git = self.git._replace(index_file=copy)
        if assumed:
            git.run("update-index", "-z", "--no-assume-unchanged", "--stdin", given=joined(assumed))
        git.run("update-index", "-q", "--refresh", ok=(0, 1), patience=_PATIENCE)
        return ours.intersection(git.lines(*words))

    # reasons

    def _reason(self, walk: Walk, one: Change, modified: set[str]) -> str:
        entry = self._entries.get(one.path)
        if one.old_mode == NOTHING:
            if entry is not None:
                return "is staged in the checkout"
            return self._new_path(walk, one) if one.has_file else ""
        if entry is None:
            return "is removed from the index"
        if (entry.mode, entry.id, entry.stage) != (one.old_mode, one.old, "0"):
            return "has staged changes" if entry.stage == "0" else "has a conflict that is not resolved"
        if self.is_skipped(one):
            return ""
        if not one.had_file:
            return self._new_path(walk, one) if one.has_file else ""
        mark = self.marks.get(one.path)
        if mark is None:
            return "is missing from the checkout"
        if stat.S_ISDIR(mark.mode):
            return "is a folder in the checkout"
        return "has uncommitted changes" if one.path in modified else ""

    def _new_path(self, walk: Walk, one: Change) -> str:
        """Why a file can't be added, if it can't."""
        if why := self._folders_of(walk, one.path):
            return why
        staged = self._staged_below(one.path)
        if staged:
            return f"is a folder in the index, with {staged}"
        found = self.marks.get(one.path)
        if found is None:
            return ""
        if not stat.S_ISDIR(found.mode):
            return "exists in the checkout already"
        folders = []
        for folder, names, files in os.walk(os.path.join(self.git.work_tree, one.path), topdown=False):
            links = [name for name in names if os.path.islink(f"{folder}/{name}")]
            for name in (*files, *links):
                path = os.path.relpath(f"{folder}/{name}", self.git.work_tree)
                if path not in self._deleted:
                    return f"is a folder in the checkout, with {path}"
            folders.append((os.path.relpath(folder, self.git.work_tree), os.lstat(folder).st_mode))
        self.cleared += folders
        return ""

    def _folders_of(self, walk: Walk, path: str) -> str:
        """Why a file's folder can't be used, if it can't; folders that are missing are noted."""
        missing, folder = [], ""
        for step in path.split("/")[:-1]:
            folder = f"{folder}/{step}" if folder else step
            if folder in self._entries and folder not in self._deleted:
                return f"can't be made: {folder} is a file in the index"
            found = walk.look(folder)
            if found is None or folder in self._deleted:
                missing.append(folder)
            elif not stat.S_ISDIR(found.st_mode):
                what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "a file"
                return f"can't be made: {folder} is {what}"
        self.missing_folders[path] = missing
        return ""

    def _staged_below(self, path: str) -> str:
        """A file that the index has below this path, and that is not deleted by this landing."""
        for number in range(bisect_left(self._tracked, f"{path}/"), len(self._tracked)):
            if not self._tracked[number].startswith(f"{path}/"):
                break
            if self._tracked[number] not in self._deleted:
                return self._tracked[number]
        return ""

    def _refused(self) -> Refused:
        shown = [f"  {path} {why}" for path, why in list(self._why.items())[:_SHOWN]]
        more = len(self._why) - len(shown)
        listed = "\n".join([*shown, *([f"  and {more} more"] if more else [])])
        changed = [path for path, why in self._why.items() if why.startswith("has ")]
        hint = "Move these files out of the way, then try again."
        if len(changed) == len(self._why):
            names = " ".join(shlex.quote(path) for path in changed[:_SHOWN])
            hint = f"Commit them, or put them away with: git stash push -- {names}"
        return Refused(
            f"Nothing was landed: your checkout has files in the way.\n{listed}", hint, paths=dict(self._why)
        )


def joined(words: Iterable[str]) -> bytes:
    """Words for a command that reads them with `-z`."""
    return "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape")
