"""The records of all projects, in the user's state folder, and the id that a project carries in its own.

$OVERHAND_STATE | $XDG_STATE_HOME/overhand | ~/.local/state/overhand
  projects/.lock                        held to make, move or remove a record, never to find one
  projects/<name>-<crc32 of path>[-n]/  a record; its name never changes, because shims write to it by that name
      project.json                      {"v", "id", "paths": [own, aliases…], "mark", "was", "made", "replaced"}
      tasks/  supervisor/
  projects/<new name>-<crc32>[-n]       after a move: a link to the record
PROJECT/.agent-workspaces/.project      the id: 32 hex digits, made here by this user
"""

from __future__ import annotations

import errno
import os
import stat
from binascii import crc32

from overhand.errors import EXHAUSTED, Refused, StorageFailed, storage_failed
from overhand.record.task import Record
from overhand.system import Lock, dump_line, load_line, remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self, TypeVar

    T = TypeVar("T")

_MAX_BYTES = 1 << 20  # of a project.json
_KEPT_PATHS = 20  # former paths that are remembered
UNREADABLE = "unreadable"  # in place of an id: there may be one
ABSENT_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_WORKSPACES, _NAME = ".agent-workspaces", ".project"
_MARK_BYTES = 200
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ELSEWHERE = "Keep records in another folder: export OVERHAND_STATE=/local/dir"


# the id that a project carries: a project may come from anywhere, so no link is followed, no pipe is waited for, and
# what is no id is left alone


class Mark(Record, frozen=True):
    """What lies at a project's path: the id with its file, and the folder's own device and inode."""

    id: str = ""  # empty if there is none
    mtime: int = 0  # in nanoseconds
    dev: int = 0
    ino: int = 0
    root: tuple[int, ...] = ()  # empty if there is no such folder

    @property
    def has_id(self) -> bool:
        return len(self.id) == 32


def look(root: str) -> Mark:
    """What lies at a project's path now; another user's id is none."""
    fds: list[int] = []
    here: tuple[int, ...] = ()
    try:
        fds.append(os.open(root, _FOLDER))
        folder = os.fstat(fds[-1])
        here = (folder.st_dev, folder.st_ino)
        fds.append(os.open(_WORKSPACES, _FOLDER, dir_fd=fds[-1]))
        fds.append(os.open(_NAME, _READ, dir_fd=fds[-1]))
        raw = read_own(fds[-1], _MARK_BYTES)
        found = os.fstat(fds[-1])
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise storage_failed(error, f"Cannot look at {root}") from error
        return Mark(id="" if error.errno in ABSENT_ERRORS else UNREADABLE, root=here)
    finally:
        for fd in fds:
            os.close(fd)
    text = (raw or b"").decode("ascii", "replace").strip()
    if len(text) != 32 or text.strip("0123456789abcdef"):
        return Mark(root=here)
    return Mark(id=text, mtime=found.st_mtime_ns, dev=found.st_dev, ino=found.st_ino, root=here)


def read_own(fd: int, limit: int) -> bytes | None:
    """The bytes of a regular file of this user, None for anything else or anything larger."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > limit:
        return None
    return os.read(fd, limit)


class MarkWriter:
    """Writes an id in two steps: its mtime is known before it counts. Called under the lock of the list of projects."""

    def __init__(self, root: str, seen: Mark) -> None:
        self.root, self.seen, self.fd = root, seen, -1
        self._new = f"{_NAME}-{os.geteuid()}.new"
        self._is_prepared = False

    def __enter__(self) -> Self:
        """Open the workspaces folder, which is made if it is missing."""
        path = f"{self.root}/{_WORKSPACES}"
        try:
            try:
                os.mkdir(path)
            except FileExistsError:
                pass
            self.fd = os.open(path, _FOLDER)
        except OSError as error:
            raise storage_failed(error, f"Cannot use {_WORKSPACES} as a folder") from error
        return self

    def prepare(self, id: str) -> Mark | None:
        """What the project will carry; None if something that is no id has the file's name."""
        if not (self.seen.has_id or self._is_free()):
            return None
        try:
            try:
                os.unlink(self._new, dir_fd=self.fd)  # left behind by a killed process, or brought along
            except FileNotFoundError:
                pass
            fd = os.open(
                self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self.fd
            )
            self._is_prepared = True
            try:
                os.write(fd, f"{id}\n".encode())
                found = os.fstat(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failed(error) from error
        return Mark(id=id, mtime=found.st_mtime_ns, dev=found.st_dev, ino=found.st_ino, root=self.seen.root)

    def publish(self) -> None:
        """Let the prepared id count."""
        if self._is_prepared:
            try:
                os.rename(self._new, _NAME, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            except OSError as error:
                raise self._failed(error) from error
            self._is_prepared = False

    def _is_free(self) -> bool:
        """Whether the file does not exist, or is an empty one of ours: a power cut leaves such."""
        try:
            found = os.stat(_NAME, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise self._failed(error) from error
        return stat.S_ISREG(found.st_mode) and found.st_size == 0 and found.st_uid == os.geteuid()

    def _failed(self, error: OSError) -> Exception:
        told = OSError(error.errno, error.strerror)  # without its relative path
        return storage_failed(told, f"Cannot write {self.root}/{_WORKSPACES}/{_NAME}")

    def __exit__(self, *_: object) -> None:
        if self._is_prepared:
            try:
                os.unlink(self._new, dir_fd=self.fd)
            except OSError:
                pass  # the next writer removes it
        os.close(self.fd)


# the records


def state_folder() -> str:
    """The user's folder for records; a relative path in the environment is ignored."""
    for name, below in (("OVERHAND_STATE", ""), ("XDG_STATE_HOME", "/overhand")):
        if (base := os.environ.get(name, "")).startswith("/"):
            return base.rstrip("/") + below
    home = os.path.expanduser("~")
    if not home.startswith("/"):
        raise Refused("There is no home folder to keep records in.", _ELSEWHERE)
    return f"{home.rstrip('/')}/.local/state/overhand"


class Entry(Record):
    """A record as its `project.json` describes it."""

    folder: str
    id: str
    paths: list[str]  # the project's own path, then others at which the same folder is mounted; empty if it lost it
    mark: Mark  # as last seen
    was: list[str]  # former paths, the latest last
    made: str = ""  # when the project was first used here
    replaced: str = ""  # when another folder was last found at its path

    @property
    def last_path(self) -> str:
        return (self.paths or self.was[-1:] or [""])[0]

    def drop_paths(self, *paths: str) -> None:
        """Let these be former paths."""
        self.was = [*self.was, *(path for path in self.paths if path in paths)][-_KEPT_PATHS:]
        self.paths = [path for path in self.paths if path not in paths]


def read_entry(folder: str, having: str = "") -> Entry | None:
    """The record in this folder; None if there is none, none that makes sense, or none with this text in it."""
    try:
        fd = os.open(f"{folder}/project.json", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (*ABSENT_ERRORS, errno.EACCES):
            return None
        raise _failed(error, "Cannot read a record") from error
    try:
        raw = read_own(fd, _MAX_BYTES) or b""
    finally:
        os.close(fd)
    return _entry(folder, raw) if having.encode() in raw else None


def _entry(folder: str, raw: bytes) -> Entry | None:
    try:
        facts = load_line(raw.decode("utf-8", "surrogateescape"))
        fields = {name: facts[name] for name in ("id", "paths", "was", "replaced")}
        fields["made"] = facts.get("made", "")
        mark = Mark(**{**facts["mark"], "root": tuple(facts["mark"]["root"])})
        texts = (fields["id"], mark.id, fields["made"], fields["replaced"], *fields["paths"], *fields["was"])
        is_sound = all(isinstance(text, str) for text in texts) and mark.mtime >= 0
        return Entry(folder=_target(folder), mark=mark, **fields) if is_sound else None
    except (ValueError, KeyError, TypeError):
        return None


def write_entry(entry: Entry, folder: str = "") -> None:
    """Write a record's `project.json`, synced: without it all of its tasks would be lost."""
    facts = {"v": 1, "id": entry.id, "paths": entry.paths, "mark": vars(entry.mark), "was": entry.was}
    times = {"made": entry.made, "replaced": entry.replaced}
    raw = f"{dump_line({**facts, **times})}\n".encode("utf-8", "surrogateescape")
    path = f"{folder or entry.folder}/project.json"
    new = f"{path}.new"  # only the holder of the lock writes it
    remove_file(new)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.write(fd, raw) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), new)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(new, path)


def _target(folder: str) -> str:
    """The folder itself, or the one beside it that it is a link to."""
    try:
        return f"{os.path.dirname(folder)}/{os.readlink(folder)}"
    except OSError:
        return folder


def record_name(root: str) -> str:
    """The first name of a record made at this path."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in os.path.basename(root))
    return f"{safe[:24].strip('.-') or 'project'}-{crc32(os.fsencode(root)):08x}"


def _failed(error: OSError, what: str) -> StorageFailed:
    failed = storage_failed(error, what)
    return failed if error.errno in (errno.ENOSPC, errno.EDQUOT) else type(failed)(failed.message, _ELSEWHERE)


class Registry:
    """The folder with all records of this user."""

    def __init__(self) -> None:
        self.state = state_folder()
        self.folder = f"{self.state}/projects"

    def exists(self) -> bool:
        """Whether there is one; another user's is refused."""
        return self._is_own(self.state) and self._is_own(self.folder)

    def ensure(self) -> None:
        """Make it, for this user alone."""
        for folder in (self.state, self.folder):
            if not self._is_own(folder):
                self._refuse_under_sudo(folder)
                try:
                    os.makedirs(folder, 0o700, exist_ok=True)
                except OSError as error:
                    raise _failed(error, "Cannot make the state folder") from error

    def _is_own(self, path: str) -> bool:
        try:
            found = os.stat(path)
        except OSError as error:
            if error.errno in ABSENT_ERRORS:
                return False
            raise _failed(error, "Cannot read the state folder") from error
        if found.st_uid != os.geteuid():
            raise self._not_ours(path, found.st_uid)
        return stat.S_ISDIR(found.st_mode)

    def _refuse_under_sudo(self, folder: str) -> None:
        """Do not make root's folder in the home of the user who typed `sudo`: they could not write there later."""
        above = folder
        while not os.path.exists(above):
            above = os.path.dirname(above)
        owner = os.stat(above).st_uid
        if owner != os.geteuid() and os.environ.get("SUDO_UID") == str(owner):
            raise self._not_ours(above, owner)

    @staticmethod
    def _not_ours(path: str, owner: int) -> Refused:
        return Refused(f"{path} belongs to another user (uid {owner}).", f"Run overhand as that user. {_ELSEWHERE}")

    def locked(self, work: Callable[[], T]) -> T:
        """Do this while no other process makes, moves or removes a record."""
        lock = Lock(f"{self.folder}/.lock", "The list of projects")
        try:
            lock.__enter__()
        except StorageFailed as error:
            raise type(error)(error.message, _ELSEWHERE) from error
        except OSError as error:  # some network disks have no locks
            raise Refused(f"Files in {self.folder} cannot be locked: {error.strerror}.", _ELSEWHERE) from error
        try:
            return work()
        except OSError as error:
            raise _failed(error, "Cannot write the project's record") from error
        finally:
            lock.__exit__()

    def names(self, *, links: bool = True) -> list[str]:
        """The names of all records and links; an error is no empty list, else a second record would be made."""
        try:
            with os.scandir(self.folder) as found:
                return sorted(one.name for one in found if one.name[0] != "." and (links or not one.is_symlink()))
        except OSError as error:
            raise _failed(error, "Cannot list the records") from error

    def first_entry(self, root: str) -> Entry | None:
        """The record under the first name of a path, which nearly always is the one: a single file is read."""
        return read_entry(f"{self.folder}/{record_name(root)}")

    def entries_near(self, root: str) -> list[Entry]:
        """The records under the names of a path; whichever names the path is among them."""
        near = [name for name in self.names() if name.startswith(record_name(root))]
        found = [entry for name in near if (entry := read_entry(f"{self.folder}/{name}"))]
        return list({entry.folder: entry for entry in found}.values())

    def entries(self, having: str = "") -> list[Entry]:
        """Every record, or those with this text in their `project.json`."""
        folders = [f"{self.folder}/{name}" for name in self.names(links=False)]
        return [entry for folder in folders if (entry := read_entry(folder, having))]

    def places(self, root: str) -> Iterator[str]:
        """The folders and links that a record of this path may be found by, in turn."""
        number, first = 1, f"{self.folder}/{record_name(root)}"
        while True:
            yield first if number == 1 else f"{first}-{number}"
            number += 1

    def link(self, root: str, entry: Entry) -> None:
        """Let this path find this record."""
        for place in self.places(root):
            if _target(place) == entry.folder:
                return
            if not os.path.lexists(place):
                os.symlink(os.path.basename(entry.folder), place)
                return

    def unlink(self, entry: Entry) -> None:
        """Remove the links to a record."""
        for name in self.names():
            place = f"{self.folder}/{name}"
            if place != entry.folder and _target(place) == entry.folder:
                remove_file(place)

    def sweep(self, prefix: str) -> None:
        """Remove the folders with this prefix, which were renamed from or are not yet a record."""
        import shutil

        for name in os.listdir(self.folder):
            if name.startswith(prefix):
                shutil.rmtree(f"{self.folder}/{name}", ignore_errors=True)
