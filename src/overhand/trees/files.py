"""The files of a checkout, exchanged with those of a landing; each step can be repeated, or taken back.

A new file is put in its place by one exchange of names, and the old one is kept aside until the end. So no file is ever
half-written, and where the old one is tells what was done, whenever a process was killed. The user may write at the
same moment: what comes out of an exchange must be the file that was tested, or everything is taken back; what is
written later, into a file that is no longer there, is kept and named.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from overhand.system import Renames, is_being_written
from overhand.trees.journal import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.trees.journal import Act, Plan

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# Nanoseconds in which two writes can have the same time: by the kernel's clock, and on a disk that keeps whole seconds.
_TICK, _COARSE, _SECOND = 50_000_000, 2_000_000_000, 1_000_000_000

Place = tuple[int | None, str]  # a name, and the open folder that it is in; without one it is a whole path


class Foreign(Exception):
    """A file is not what was tested: the user has written it meanwhile."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Walk:
    """Folders below a top, opened step by step without following a link; those of the last path stay open."""

    def __init__(self, top: str) -> None:
        self._open = [("", os.open(top, _STEP))]

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget(0)

    def _forget(self, count: int) -> None:
        for _, fd in self._open[count:]:
            os.close(fd)
        del self._open[count:]

    def at(self, path: str, *, make: bool = False) -> Place:
        """The folder of a path, which may be made, and the name in it."""
        *steps, name = path.split("/")
        known = 1
        while known <= len(steps) and known < len(self._open) and self._open[known][0] == steps[known - 1]:
            known += 1
        self._forget(known)
        for step in steps[known - 1 :]:
            folder = self._open[-1][1]
            if make:
                try:
                    os.mkdir(step, dir_fd=folder)
                except FileExistsError:
                    pass  # opening it tells what it is
            self._open.append((step, os.open(step, _STEP, dir_fd=folder)))
        return self._open[-1][1], name

    def look(self, path: str) -> os.stat_result | None:
        """What a path itself is; None if it is not there, or only behind a link."""
        try:
            return look(self.at(path))
        except OSError:
            return None


def look(place: Place) -> os.stat_result | None:
    """What a name is, also a link; None if there is nothing."""
    folder, name = place
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def mark_of(place: Place, found: os.stat_result, now: int = 0) -> Mark:
    """The mark of a file; a recent one is read, if `now` is given."""
    mark = Mark(found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
    step = _TICK if found.st_mtime_ns % _SECOND else _COARSE
    is_recent = now and now - found.st_mtime_ns < step and stat.S_ISREG(found.st_mode)
    return mark._replace(digest=_digest(place)) if is_recent else mark


def is_same(place: Place, mark: Mark) -> bool:
    """Whether this is the file that has the mark, and nothing was written to it since."""
    found = look(place)
    if found is None or mark[:4] != (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode):
        return False
    return not mark.digest or mark.digest == _digest(place)


def _digest(place: Place) -> str:
    import hashlib

    folder, name = place
    try:
        with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
            return hashlib.file_digest(file, "sha1").hexdigest()
    except OSError:
        return "unreadable"


class Files:
    """Carries a plan out in a checkout, or takes it back; both can be repeated, whatever was done before."""

    def __init__(self, top: str, folder: str, kept: str, plan: Plan) -> None:
        """`folder` is the journal's, `kept` the place for what the user wrote into files that are no longer there."""
        self.top, self.folder, self.kept, self.plan = top, folder, kept, plan
        self.late: list[tuple[str, str]] = []
        self._rename = Renames()

    @property
    def _deleted(self) -> list[Act]:
        return [act for act in self.plan.acts if act.new is None]

    def _aside(self, act: Act, place: Place) -> Place:
        return (place[0], act.aside) if act.beside else (None, f"{self.folder}/{act.aside}")

    def _swap(self, aside: Place, place: Place) -> None:
        self._rename.exchange(aside[1], place[1], aside[0], place[0])

    def _move(self, old: Place, new: Place) -> bool:
        """Move a file to a free name; False if it is taken."""
        try:
            self._rename.move(old[1], new[1], old[0], new[0])
        except (FileExistsError, IsADirectoryError):
            return False
        return True

    def settle(self) -> None:
        """Complete exchanges that were made in three calls, and cut off between them."""
        for act in self.plan.acts:
            aside = self._shown(act)
            if os.path.lexists(f"{aside}.old"):
                if os.path.lexists(aside):
                    os.unlink(f"{aside}.old")  # a second name of the file that still is in its place
                else:
                    os.rename(f"{aside}.old", aside)

    # forward

    def forward(self) -> None:
        """Put every new file in its place; raises Foreign at the first file that is not what was tested."""
        with Walk(self.top) as walk:
            for act in self._deleted:
                if act.old is not None:
                    self._delete(walk, act, act.old)
        for path, _ in self.plan.cleared:
            self._clear(path)
        with Walk(self.top) as walk:
            for act in self.plan.acts:
                if act.old is not None and act.new is not None:
                    self._change(walk, act, act.old, act.new)
            for act in self.plan.acts:
                if act.old is None:
                    self._add(walk, act)

    def _delete(self, walk: Walk, act: Act, old: Mark) -> None:
        try:
            place = walk.at(act.path)
        except OSError:
            if not act.beside and look((None, f"{self.folder}/{act.aside}")):
                return  # it was moved, and then its folder was cleared
            raise Foreign(act.path) from None
        aside = self._aside(act, place)
        if look(aside) is None and (not is_same(place, old) or not self._move(place, aside)):
            raise Foreign(act.path)
        if not is_same(aside, old):
            self._move(aside, place)
            raise Foreign(act.path)

    def _clear(self, path: str) -> None:
        with Walk(self.top) as walk:
            try:
                folder, name = walk.at(path)
                os.rmdir(name, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                return  # cleared before; a file may be there already
            except OSError:
                raise Foreign(path) from None

    def _change(self, walk: Walk, act: Act, old: Mark, new: Mark) -> None:
        try:
            place = walk.at(act.path)
        except OSError:
            raise Foreign(act.path) from None
        aside = self._aside(act, place)
        found = look(aside)
        if found is None:
            raise Foreign(act.path)
        if found.st_ino == new.inode:
            if not is_same(place, old):
                raise Foreign(act.path)
            try:
                self._swap(aside, place)
            except OSError:
                raise Foreign(act.path) from None
        if not is_same(aside, old):
            self._swap(aside, place)
            raise Foreign(act.path)

    def _add(self, walk: Walk, act: Act) -> None:
        try:
            place = walk.at(act.path, make=True)
        except OSError:
            raise Foreign(act.path) from None
        aside = self._aside(act, place)
        if look(aside) is not None and not self._move(aside, place):
            raise Foreign(act.path)

    # back

    def back(self) -> None:
        """Put every old file back in its place; what the user wrote meanwhile stays, or is kept."""
        with Walk(self.top) as walk:
            for act in reversed(self.plan.acts):
                if act.new is not None:
                    try:
                        self._take_back(walk, act, act.new)
                    except OSError:
                        continue  # its folder is gone
        for path in reversed(self.plan.made):
            self._remove_folder(path)
        with Walk(self.top) as walk:
            for path, mode in reversed(self.plan.cleared):
                try:
                    folder, name = walk.at(path)
                    os.mkdir(name, mode & 0o7777, dir_fd=folder)
                except OSError:
                    continue  # it was not cleared, or the user has put something else there
            for act in self._deleted:
                try:
                    place = walk.at(act.path)
                    self._move(self._aside(act, place), place)
                except OSError:
                    continue  # it is in its place

    def _take_back(self, walk: Walk, act: Act, new: Mark) -> None:
        place = walk.at(act.path)
        aside = self._aside(act, place)
        there, out = look(place), look(aside)
        is_ours = there is not None and there.st_ino == new.inode
        if act.old is None:
            if is_ours and out is None:
                self._move(place, aside)
        elif out is not None and out.st_ino != new.inode:
            if is_ours:
                self._swap(aside, place)
            else:
                self._move(aside, place)  # unless the user has made another file of that name

    def _remove_folder(self, path: str) -> bool:
        try:
            with Walk(self.top) as walk:
                folder, name = walk.at(path)
                os.rmdir(name, dir_fd=folder)
        except OSError:
            return False
        return True

    # the end

    def finish(self, *, landed: bool) -> bool:
        """Let go what was set aside, but keep what was written to it meanwhile; False while a process may still write.

        That is the old files, or where all was taken back, the new ones.
        """
        is_over = True
        with Walk(self.top) as walk:
            for act in self.plan.acts:
                try:
                    aside = self._aside(act, walk.at(act.path) if act.beside else (None, ""))
                except OSError:
                    continue
                if (found := look(aside)) is None:
                    continue
                if stat.S_ISREG(found.st_mode) and is_being_written(self._shown(act)):
                    is_over = False
                elif any(mark and is_same(aside, mark) for mark in (act.old, act.new)):
                    os.unlink(aside[1], dir_fd=aside[0])
                else:
                    self._keep(act)
        emptied = {os.path.dirname(act.path) for act in self._deleted} if landed else set()
        for folder in sorted(emptied, reverse=True):
            inner = folder
            while inner and self._remove_folder(inner):
                inner = os.path.dirname(inner)
        return is_over

    def _shown(self, act: Act) -> str:
        folder = os.path.join(self.top, os.path.dirname(act.path)) if act.beside else self.folder
        return f"{folder}/{act.aside}"

    def _keep(self, act: Act) -> None:
        """Keep a file that the user wrote to, and name it."""
        import shutil

        target = free_name(f"{self.kept}/{act.path}")
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        shutil.move(self._shown(act), target)
        self.late.append((act.path, target))

    def drop_beside(self, names: Iterable[tuple[str, str]]) -> None:
        """Remove files that were to be exchanged in their own folders."""
        with Walk(self.top) as walk:
            for path, aside in names:
                try:
                    folder, _ = walk.at(path)
                    os.unlink(aside, dir_fd=folder)
                except OSError:
                    continue


def free_name(path: str) -> str:
    """This path, or the next one with a number that is free."""
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = f"{path}.{number}"
    return found
