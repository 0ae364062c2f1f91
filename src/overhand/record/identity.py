"""How a project is recognised, and its record in the user's state folder found.

The path decides, the id repairs. A project carries its id in a file; the record remembers that file's mtime, which `mv`
keeps and a clone or a copy does not (the *witness*). Inode numbers are reused at once, so they prove something only
when two paths have the same one at the same time: then they are one folder, mounted twice.
"""

from __future__ import annotations

import os

from overhand.errors import NotFound, OverhandError, Refused
from overhand.record.registry import UNREADABLE, Entry, Mark, MarkWriter, Registry, look, read_entry, write_entry
from overhand.record.task import Record
from overhand.system import has_reader, is_held, is_own, names_in, now_stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    Moved = Callable[[str, str], None]
    Change = Literal["", "made", "moved", "replaced"]
    Verdict = Literal["known", "adopted", "kept", "alias", "moved", "copied", "new"]


class Found(Record, frozen=True):
    """A project's record."""

    folder: str
    root: str  # the project's own path: not the one asked for if that is another mount of the same folder
    change: Change = ""  # what this call was the first to notice
    before: str = ""  # the path that the project was moved from
    replaced: str = ""  # when another folder was last found at its path: tasks queued before that wait for a person

    @property
    def note(self) -> str:
        """What to tell the user, once."""
        if self.change == "moved":
            moved = f"This project was moved here from {self.before}; its tasks came along."
            count = _living_runs(self.folder)
            works = "1 run still works" if count == 1 else f"{count} runs still work"
            return f"{moved} {works} at the old path." if count else moved
        if self.change == "replaced":
            return "This folder was replaced since it was last used. Its tasks are kept; queued ones wait for you."
        return ""


class Listed(Record, frozen=True):
    """One line of the list of all projects."""

    root: str  # the last known path, if it is gone
    folder: str
    gone: bool  # the project no longer exists


def find_record(root: str, moved: Moved | None = None) -> Found | None:
    """The record of the project at this real path, None for a new project.

    Writes nothing, unless the project was moved, is mounted a second time or was replaced: that is noted at once.
    `moved` is given the old and the new path before the move is noted, and again if the process is killed meanwhile.
    """
    registry = Registry()
    if not registry.exists():
        return _of_calling_run(root)
    seen = look(root)
    if found := _unchanged(registry, root, seen):
        return found
    verdict, entry = _decide_here(root, seen, _candidates(registry, root, seen))
    if entry is None:
        return _of_calling_run(root)
    if verdict in ("known", "kept") and not _is_replaced(entry, seen):
        return _found(entry)
    try:
        return registry.locked(lambda: _settle(registry, root, moved))
    except Refused:  # a state folder that is full, read-only or busy can still be read
        return _found(entry)


def make_record(root: str, moved: Moved | None = None) -> Found:
    """The record of the project at this real path, made if it is new; an id that is missing is written again."""
    registry = Registry()
    registry.ensure()
    seen = look(root)
    if seen.has_id and (found := _unchanged(registry, root, seen)):
        return found
    return registry.locked(lambda: _settle(registry, root, moved, mark=True) or _make(registry, root))


def recorded_root(record: str) -> str | None:
    """The path that a record belongs to now; None if it lost it."""
    entry = read_entry(record)
    return entry.paths[0] if entry and entry.paths else None


def record_times(record: str) -> tuple[str, str]:
    """When a project was first used here, and when another folder was last found at its path; empty for never.

    Tags that were there before came with its files, and tasks that were queued before wait for a person.
    """
    entry = read_entry(record)
    return (entry.made, entry.replaced) if entry else ("", "")


def known_roots() -> list[Listed]:
    """Every project with a record."""
    registry = Registry()
    entries = registry.entries() if registry.exists() else []
    listed = [Listed(root=entry.last_path, folder=entry.folder, gone=_is_gone(entry)) for entry in entries]
    return sorted(listed, key=lambda one: (one.root, one.folder))


def remove_record(folder: str) -> None:
    """Remove the record of a project that no longer exists, and the links to it."""
    registry = Registry()

    def bury() -> None:
        entry = next((one for one in registry.entries() if one.folder == folder and _is_gone(one)), None)
        if entry is None:
            raise Refused(f"{folder} is not the record of a project that is gone.", "See them all: overhand projects")
        if is_held(f"{folder}/supervisor/lock") or _living_runs(folder):
            why = f"Processes of {entry.last_path} are still at work, so its record is kept."
            raise Refused(why, "Try again when they have ended.")
        registry.unlink(entry)
        os.rename(folder, f"{registry.folder}/.gone-{os.getpid()}-{os.path.basename(folder)}")

    if registry.exists():
        registry.locked(bury)
        registry.sweep(".gone-")  # also what a killed process left


def _living_runs(folder: str) -> int:
    """How many runs of a record are alive."""
    runs = [f"{folder}/tasks/{task}/runs" for task in names_in(f"{folder}/tasks")]
    return sum(has_reader(f"{place}/{run}/life") for place in runs for run in names_in(place))


# deciding


def witness(mtime: int, recorded: int) -> bool:
    """Whether two times of a file are the same, as exactly as the coarser of two disks keeps them."""
    unit = next((unit for unit in (10**9, 1000, 100) if mtime % unit == 0 or recorded % unit == 0), 1)
    return mtime // unit == recorded // unit


def decide(root: str, seen: Mark, entries: Sequence[Entry], stands: Mapping[str, Mark]) -> tuple[Verdict, Entry | None]:
    """Which record, if any, is that of the project at `root`, and why.

    `entries` are the records that name this path or have the id that was seen here, `stands` is what lies at their
    other paths now.
    """

    def is_same_folder(entry: Entry) -> bool:
        return any(stands[path].root == seen.root != () for path in entry.paths if path != root)

    def is_still_there(entry: Entry) -> bool:
        return any(stands[path].id in (entry.id, UNREADABLE) for path in entry.paths if path != root)

    home = [one for one in entries if one.paths[:1] == [root] or (root in one.paths and is_same_folder(one))]
    if not seen.has_id:  # after git clean
        return ("known", home[0]) if home else ("new", None)
    for entry in home:
        if entry.id == seen.id:
            return "known", entry
    owners = [one for one in entries if one.id == seen.id]
    if not owners:  # after git clean, the id that was written by a container or under another home folder
        return ("adopted", home[0]) if home else ("new", None)
    for entry in owners:
        if is_same_folder(entry):
            return "alias", entry
    for entry in owners:
        if not is_still_there(entry) and witness(seen.mtime, entry.mark.mtime):
            return "moved", entry
    for entry in home:
        if entry.mark.root == seen.root:  # the folder is the same, only its id was overwritten
            return "kept", entry
    return "copied", None


def _candidates(registry: Registry, root: str, seen: Mark) -> list[Entry]:
    """The records that name a path, and those with the id that was seen there."""
    near = registry.entries_near(root)
    if not seen.has_id or any(root in entry.paths and entry.id == seen.id for entry in near):
        return near
    known = {entry.folder for entry in near}
    return near + [entry for entry in registry.entries(seen.id) if entry.folder not in known]


def _decide_here(root: str, seen: Mark, entries: Sequence[Entry]) -> tuple[Verdict, Entry | None]:
    concerned = [entry for entry in entries if root in entry.paths or entry.id == seen.id]
    return decide(root, seen, concerned, {path: look(path) for one in concerned for path in one.paths if path != root})


def _is_replaced(entry: Entry, seen: Mark) -> bool:
    """Whether another folder than the last time lies at a known path."""
    if not seen.root:
        return False
    if seen.has_id and entry.mark.has_id and seen.id != entry.mark.id:
        return True
    return seen.root != entry.mark.root and not (seen.has_id and witness(seen.mtime, entry.mark.mtime))


def _is_gone(entry: Entry) -> bool:
    """Whether no folder lies at its paths; one that cannot be read is there."""
    return not any((seen := look(path)).root or seen.id for path in entry.paths)


# finding


def _unchanged(registry: Registry, root: str, seen: Mark) -> Found | None:
    """The record, if all is as it was the last time."""
    entry = registry.first_entry(root)
    if entry and entry.paths[:1] == [root] and seen == entry.mark and seen.id in ("", entry.id):
        return _found(entry)
    return None


def _of_calling_run(root: str) -> Found | None:
    """The record of the run that this process is part of, whatever its environment says, if it is this project's."""
    from overhand.system import ancestors_of, held_lives, shim_place

    for pid in ancestors_of(os.getpid()):
        # in a pid namespace of its own it does not see its shim, but has inherited the run's `life`
        for place in (shim_place(pid), *map(os.path.dirname, held_lives(pid))):
            entry = read_entry(place.rsplit("/", 4)[0]) if place else None  # RECORD/tasks/TASK/runs/RUN
            if entry and root in entry.paths:
                return _found(entry)
    return None


def _found(entry: Entry, change: Change = "", before: str = "") -> Found:
    root = entry.paths[0] if entry.paths else ""
    return Found(folder=entry.folder, root=root, change=change, before=before, replaced=entry.replaced)


# writing, under the registry's lock


def _settle(registry: Registry, root: str, moved: Moved | None, *, mark: bool = False) -> Found | None:
    """Decide, and note what was decided: `project.json` last, so that what a killed process began is done again."""
    seen = look(root)
    entries = _candidates(registry, root, seen)
    verdict, entry = _decide_here(root, seen, entries)
    if entry is None:
        return _of_calling_run(root)
    old, before = repr(entry), entry.last_path
    change: Change = ""
    if verdict in ("moved", "alias"):
        if verdict == "moved" and moved and before != root:
            moved(before, root)
        _strike(root, [one for one in entries if one is not entry])
        registry.link(root, entry)
    if verdict == "moved":
        entry.drop_paths(*entry.paths)
        entry.paths = [root]
        change = "moved"
    elif verdict == "alias":
        entry.paths.append(root)
    elif _is_replaced(entry, seen):
        change, entry.replaced = "replaced", now_stamp()
    if verdict == "adopted":
        entry.id = seen.id
    entry.mark = seen if seen.has_id else entry.mark.replace(root=seen.root)
    if mark and seen.id != entry.id:
        _mark_again(root, seen, entry)
    if repr(entry) != old:
        write_entry(entry)
    return _found(entry, change, before if change == "moved" else "")


def _strike(root: str, entries: Sequence[Entry]) -> None:
    """Take a path away from the records that name it."""
    for entry in entries:
        if root in entry.paths:
            entry.drop_paths(root)
            write_entry(entry)


def _mark_again(root: str, seen: Mark, entry: Entry) -> None:
    """Write a known project's id where it is missing; a project that cannot be written to does without."""
    try:
        with MarkWriter(root, seen) as writer:
            entry.mark = writer.prepare(entry.id) or entry.mark
            writer.publish()
    except OverhandError:
        return


def _make(registry: Registry, root: str) -> Found:
    """Make the record of a new project.

    The id is written before the record gets its name: a process that is killed in between leaves an id without a
    record, which is a new project again.
    """
    registry.sweep(".new-")  # of killed processes: only one at a time is here
    seen = look(root)
    new = f"{registry.folder}/.new-{os.getpid()}"
    folder = next(place for place in registry.places(root) if not os.path.lexists(place))
    entry = Entry(folder=folder, id=os.urandom(16).hex(), paths=[root], mark=seen, was=[], made=now_stamp())
    try:
        with MarkWriter(root, seen) as writer:
            entry.mark = writer.prepare(entry.id) or Mark(root=seen.root)
            for one in (new, f"{new}/tasks", f"{new}/supervisor"):
                os.mkdir(one, 0o700)
            write_entry(entry, new)
            _strike(root, registry.entries_near(root))
            writer.publish()
        os.rename(new, folder)
    except BaseException:
        registry.sweep(".new-")
        raise
    return _found(entry, "made")


def find_root(start: str, *, given: str | None = None) -> str:
    """The project around `start`: the nearest folder with `.overhand`, or the repository's top, else `start`.

    A folder above that belongs to another user counts only if the user's git configuration calls it safe: with its
    settings, its owner could have programs run.
    """
    if given is not None:
        if not os.path.isdir(given):
            raise NotFound(f"There is no folder {given}.", "Name an existing one: overhand --project DIR …")
        return os.path.realpath(given)
    start = folder = os.path.realpath(start)
    while not (mark := _project_mark(folder)):
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above
    if folder == start or (is_own(folder) and is_own(mark)):
        return folder
    from overhand.system import is_safe_directory  # asks git

    return folder if is_safe_directory(folder) else start


def _project_mark(folder: str) -> str:
    """What makes this folder a project when one starts below it."""
    if os.path.isdir(f"{folder}/.overhand"):
        return f"{folder}/.overhand"
    git = f"{folder}/.git"
    return git if os.path.lexists(f"{git}/HEAD") or os.path.isfile(git) else ""
