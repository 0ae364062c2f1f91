"""The id that a project carries in `.agent-workspaces/.project`: 32 hex digits, made here by this user.

A project may come from anywhere, so no link is followed, no pipe is waited for, and what is no id is left alone.
"""

from __future__ import annotations

import errno
import os
import stat

from overhand.errors import EXHAUSTED, storage_failed
from overhand.record.task import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

UNREADABLE = "unreadable"  # in place of an id: there may be one
ABSENT_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_WORKSPACES, _NAME = ".agent-workspaces", ".project"
_MAX_BYTES = 200
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        raw = read_own(fds[-1], _MAX_BYTES)
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
