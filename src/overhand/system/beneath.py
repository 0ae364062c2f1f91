"""Files in folders that another program owns, such as an agent: reached without ever following a link.

An agent can replace any folder of its workspace with a link at any moment, and the process that writes there would
write somewhere else. So a path is walked step by step from a folder that is trusted. Each step opens a real folder
relative to the one before, and what is done is done relative to the last descriptor: whatever is swapped meanwhile, it
happens in a folder that was reached without a link. Only regular files of known owners are read; a FIFO never blocks.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from overhand.errors import PASSING, OverhandError, Refused, storage_failed
from overhand.system import dirfd
from overhand.system.files import MAX_DOCUMENT, is_locked, open_to_read
from overhand.system.wakeup import NEWS, Bell, Inotify, hung_bells, ring_bells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.system.edits import Patch

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ADD = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_RING = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MISSING = -2  # in place of a descriptor: the folder was not there when it was to be held
_LINK_OR_FILE = (errno.ELOOP, errno.ENOTDIR)


class Beneath:
    """The files beneath `top`, a trusted real path; every name below it may be a trap. Paths are relative to `inside`.

    Reading returns None, or an empty list, for everything that is no regular file or real folder of a known owner.
    Writing raises an OverhandError that names what is in the way. A path that leaves the folder raises in both cases.
    """

    def __init__(self, top: str, inside: str = "", fd: int = -1, known: int = 0) -> None:
        """With `fd`, a descriptor of the folder after `known` steps, that part is not walked again: see `held`."""
        self.top, self.inside, self.fd, self.known = top, inside, fd, known

    def at(self, path: str) -> Beneath:
        """The same for a folder further inside."""
        return Beneath(self.top, f"{self.inside}/{path}" if self.inside else path, self.fd, self.known)

    def held(self) -> _Held:
        """In a `with`: the same with its folder kept open, for several calls in a row."""
        return _Held(self)

    def shown(self, path: str = "") -> str:
        """The whole path, for messages and for the environment of an agent; never to be opened by us."""
        return "/".join([self.top, *self._steps(path)])

    # reading

    def read(self, path: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """A file's bytes (one more than `limit` at most, so that a caller can see it is too big), or None."""
        fd = self.open_file(path)
        if fd is None:
            return None
        try:
            parts, left = [], limit + 1
            while left > 0 and (part := os.read(fd, min(left, dirfd.CHUNK))):
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
        except OSError as error:
            raise storage_failed(error, f"Cannot read {self.shown(path)}") from error
        finally:
            os.close(fd)

    def copy_out(self, path: str, destination: str, limit: int = MAX_DOCUMENT) -> tuple[str, int] | None:
        """Copy a file to a path that we trust, with one rename; its sha256 and size, or None if there is no file.

        Of a file that is too big one byte more than `limit` is copied, so that a caller can see it.
        """
        fd = self.open_file(path)
        if fd is None:
            return None
        temporary = f"{destination}.{os.getpid()}-{time.monotonic_ns():x}.tmp"
        try:
            try:
                copied = dirfd.copy(fd, temporary, limit)
                os.rename(temporary, destination)
            except OSError as error:
                raise storage_failed(error, f"Cannot copy {self.shown(path)}") from error
            return copied
        except BaseException:
            dirfd.unlink(temporary)
            raise
        finally:
            os.close(fd)

    def open_file(self, path: str) -> int | None:
        """A descriptor of a regular file, to read from; None if there is none."""
        with _Quietly(self, path) as (folder, name):
            if folder < 0 or not name:
                return None
            try:
                fd = open_to_read(name, folder)
            except OSError as error:
                dirfd.raise_if_exhausted(error)
                return None
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and self._is_known(found.st_uid):
            return fd
        os.close(fd)
        return None

    def look(self, path: str) -> os.stat_result | None:
        """What the name itself is, also a link; None if it is not there, or not reached without a link."""
        with _Quietly(self, path) as (folder, name):
            if folder < 0:
                return None
            try:
                return os.stat(name, dir_fd=folder, follow_symlinks=False) if name else os.fstat(folder)
            except OSError as error:
                dirfd.raise_if_exhausted(error)
                return None

    def exists(self, path: str) -> bool:
        """Whether there is anything of this name, even a link that leads nowhere."""
        return self.look(path) is not None

    def is_file(self, path: str) -> bool:
        return (found := self.look(path)) is not None and stat.S_ISREG(found.st_mode)

    def in_the_way(self, path: str = "") -> str:
        """The whole path of a link, or of what is no folder, in the place of a folder or on the way to it, if any."""
        try:
            self._leave(self._walk(self._steps(path)))
        except OSError as error:
            dirfd.raise_if_exhausted(error)
            return str(error.filename) if error.errno in _LINK_OR_FILE else ""
        return ""

    def names(self, path: str = "") -> list[str]:
        """The names in a folder; empty if it is none."""
        with _Quietly(self, path, itself=True) as (folder, _):
            try:
                return os.listdir(folder) if folder >= 0 else []
            except OSError as error:
                dirfd.raise_if_exhausted(error)
                return []

    def every_file(self) -> Iterator[tuple[str, os.stat_result]]:
        """The whole path of everything below that is no folder, and what it is."""
        with _Quietly(self, "", itself=True) as (folder, _):
            for place, _, names, fd in os.fwalk(".", dir_fd=folder) if folder >= 0 else ():
                for name in names:
                    try:
                        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    except OSError:
                        continue
                    yield f"{self.shown()}{place[1:]}/{name}", found

    def is_locked(self, path: str) -> bool:
        """Whether a process holds a lock on this file now."""
        fd = self.open_file(path)
        if fd is None:
            return False
        try:
            return is_locked(fd)
        finally:
            os.close(fd)

    # writing

    def write(self, path: str, data: bytes | str, *, mode: int = 0o644, make: bool = False) -> None:
        """Write a whole file with one rename; a folder in its place is moved aside, `make` makes the folders above."""
        raw = dirfd.encoded(data)
        with _ToWrite(self, path, make=make) as (folder, name):
            temporary = f"{name}.{os.getpid()}-{time.monotonic_ns():x}.tmp"
            try:
                dirfd.create(folder, temporary, raw, mode)
                try:
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except IsADirectoryError:
                    dirfd.set_aside(folder, name)
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                dirfd.unlink(temporary, folder)
                raise

    def write_if_missing(self, path: str, data: bytes | str) -> bool:
        """Write a whole file that is not there yet; False if the name is taken. Readers see all of it or nothing."""
        raw = dirfd.encoded(data)
        with _ToWrite(self, path, make=False) as (folder, name):
            temporary = f"{name}.{os.getpid()}-{time.monotonic_ns():x}.tmp"
            try:
                dirfd.create(folder, temporary, raw, 0o644)
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return False
            finally:
                dirfd.unlink(temporary, folder)
        return True

    def append(self, path: str, data: bytes | str, *, mode: int = 0o644, make: bool = False) -> None:
        """Add to a regular file of ours that has no other name; it is made where it is missing."""
        raw = dirfd.encoded(data)
        with _ToWrite(self, path, make=make) as (folder, name):
            fd = self._open_own(folder, name, _ADD, mode, path)
            try:
                dirfd.write_all(fd, raw)
            finally:
                os.close(fd)

    def lock(self, path: str, *, make: bool = False) -> int | None:
        """Lock a regular file of ours, made where it is missing, for as long as the descriptor is open.

        None if another process holds it.
        """
        import fcntl

        with _ToWrite(self, path, make=make) as (folder, name):
            fd = self._open_own(folder, name, _LOCK, 0o644, path)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=folder, follow_symlinks=False)):
                    return fd
            except (BlockingIOError, FileNotFoundError):
                pass  # held, or removed by its last holder
            os.close(fd)
        return None

    def _open_own(self, folder: int, name: str, how: int, mode: int, path: str) -> int:
        """Open a regular file of ours that has no other name, to write to it."""
        try:
            fd = os.open(name, how, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise self._no_file(path) from error
            raise
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and self._is_known(found.st_uid):
            return fd
        os.close(fd)
        raise self._no_file(path)

    def edit(self, path: str, change: Callable[[bytes], Patch | None], *, limit: int = MAX_DOCUMENT) -> bytes:
        """Apply the patch that `change` returns, as `edit_file` does, to a regular file of ours."""
        from overhand.system.edits import edit_file

        fd = self.open_file(path)
        if fd is None and self.exists(path):
            raise self._no_file(path)
        if fd is not None:
            os.close(fd)
        with _ToWrite(self, path, make=False) as (folder, name):
            held = f"/proc/self/fd/{folder}"
            place = held if os.path.isdir(held) else os.path.dirname(self.shown(path))  # without /proc, as it is
            try:
                return edit_file(f"{place}/{name}", change, limit=limit, held=True)
            except OverhandError as error:
                error.message = error.message.replace(place, os.path.dirname(self.shown(path)))
                error.args = (error.message,)
                raise

    def make_folder(self, path: str, *, aside: bool = False, mode: int = 0o700) -> None:
        """Make a folder and those above it where missing; with `aside` what is in the way in here is moved."""
        for _ in range(dirfd.TRIES if aside else 0):
            blocker = self.in_the_way(path).removeprefix(f"{self.shown()}/")
            if not blocker or blocker.startswith("/"):  # nothing, or above
                break
            self.move_aside(blocker)
        os.close(self.open_folder(path, make=True, mode=mode))

    def make_new_folder(self, path: str) -> bool:
        """Make a folder (0700) in one that is there; False if the name is taken."""
        with _ToWrite(self, path, make=False) as (folder, name):
            try:
                os.mkdir(name, 0o700, dir_fd=folder)
            except FileExistsError:
                return False
        return True

    def open_folder(self, path: str = "", *, make: bool = False, mode: int = 0o700) -> int:
        """A descriptor of a real folder; the caller closes it."""
        steps = self._steps(path)
        try:
            folder = self._walk(steps, make=make, mode=mode)
            return os.dup(folder) if folder == self.fd else folder
        except OSError as error:
            raise self._blocked(error) from error

    def remove(self, path: str) -> bool:
        """Remove a file, link, FIFO or socket; False if that was impossible."""
        with _Quietly(self, path) as (folder, name):
            return folder >= 0 and bool(name) and dirfd.unlink(name, folder)

    def remove_tree(self, path: str) -> bool:
        """Remove a folder with all it holds, or a file; False if something is left."""
        import shutil

        with _Quietly(self, path) as (folder, name):
            if folder >= 0 and name and not dirfd.unlink(name, folder):
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
        return not self.exists(path)

    def rename(self, path: str, target: str, *, make: bool = False) -> bool:
        """Give something another name in here, replacing a file of that name; False if it is not there."""
        with _Quietly(self, path) as (folder, name):
            if folder < 0 or not name:
                return False
            with _ToWrite(self, target, make=make) as (other, new):
                try:
                    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)
                except FileNotFoundError:
                    return False
        return True

    def move_aside(self, path: str) -> str | None:
        """Free a name by giving what has it another one, which is returned; None if it is not there."""
        with _ToWrite(self, path, make=False) as (folder, name):
            try:
                new = dirfd.set_aside(folder, name)
            except FileNotFoundError:
                return None
        return path[: len(path) - len(name)] + new

    # bells and watches

    def hang(self, bell: Bell, path: str = "", prefix: str = "") -> int:
        """One more FIFO of this bell, in this folder; returns the descriptor that can be read once it rings."""
        folder = self.open_folder(path)
        try:
            return bell.hang(".", prefix, dir_fd=folder, remove=self.at(path).remove)
        except OSError as error:
            raise self._blocked(error, path) from error
        finally:
            os.close(folder)

    def ring(self, path: str = "", prefix: str = "") -> None:
        """Wake every process that waits at one of these bells."""
        with _Quietly(self, path, itself=True) as (folder, _):
            if folder >= 0:
                ring_bells(".", prefix, dir_fd=folder)

    def bells(self, path: str = "", prefix: str = "") -> list[str]:
        """The names of all bells in a folder that begin like this."""
        with _Quietly(self, path, itself=True) as (folder, _):
            return hung_bells(".", prefix, dir_fd=folder) if folder >= 0 else []

    def open_bell(self, path: str) -> int:
        """A descriptor to write to a FIFO that a process has open for reading; -1 if there is none."""
        with _Quietly(self, path) as (folder, name):
            if folder < 0 or not name:
                return -1
            try:
                fd = os.open(name, _RING, dir_fd=folder)
            except OSError as error:
                if error.errno in PASSING:  # it may well have a reader
                    raise storage_failed(error, f"Cannot open {self.shown(path)}") from error
                return -1
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return -1

    def has_reader(self, path: str) -> bool:
        """Whether this is a FIFO that a process has open for reading."""
        fd = self.open_bell(path)
        if fd >= 0:
            os.close(fd)
        return fd >= 0

    def watch(self, news: Inotify, path: str = "", mask: int = NEWS) -> int | None:
        """Watch a real folder; None if there is none, or it cannot be watched."""
        with _Quietly(self, path, itself=True) as (folder, _):
            return news.add(f"/proc/self/fd/{folder}", mask) if folder >= 0 else None

    def watch_file(self, news: Inotify, path: str, mask: int) -> int | None:
        """Watch a regular file; None if there is none, or it cannot be watched."""
        fd = self.open_file(path)
        if fd is None:
            return None
        try:
            return news.add(f"/proc/self/fd/{fd}", mask)
        finally:
            os.close(fd)

    # the way there

    def _steps(self, path: str) -> list[str]:
        """The names on the way; a path that leaves the folder is refused, however it came about."""
        steps = (f"{self.inside}/{path}" if self.inside and path else self.inside or path).split("/")
        if "" in steps or "." in steps:
            steps = [step for step in steps if step not in ("", ".")]
        is_odd = path.startswith("/") or "\0" in path or not (path.isascii() or dirfd.is_encodable(path))
        if is_odd or ".." in steps:
            raise Refused(f"{path!r} is no path inside {self.top}.", "Use a relative path without ..")
        return steps

    def _walk(self, steps: list[str], *, make: bool = False, mode: int = 0o700) -> int:
        """A descriptor of the folder, to be given back to `_leave`; an OSError has the whole path of the step that
        failed."""
        known = self.known if self.fd >= 0 and self.known <= len(steps) else 0
        fd = self.fd if known else -1
        way = [self.top, *steps[:known]]
        try:
            if not steps:
                return os.open(self.top, _FOLDER)
            for step in steps[known:]:
                way.append(step)
                start = step if fd >= 0 else f"{self.top}/{step}"  # the way to the top is trusted
                try:
                    inner = os.open(start, dirfd.STEP, dir_fd=None if fd < 0 else fd)
                except FileNotFoundError:
                    if not make:
                        raise
                    inner = dirfd.make_step(start, mode, None if fd < 0 else fd)
                self._leave(fd)
                fd = inner
        except BaseException as error:
            self._leave(fd)
            if isinstance(error, OSError):
                error.filename = "/".join(way)
            raise
        return fd

    def _leave(self, folder: int) -> None:
        """Close the folder that a walk led to, unless it is held."""
        if folder >= 0 and folder != self.fd:
            os.close(folder)

    def _is_known(self, uid: int) -> bool:
        """Whether a file's owner is ourselves, root, or the owner of `top`, who can replace everything in it anyway."""
        return uid in (os.geteuid(), 0) or uid == os.stat(self.top).st_uid

    def _blocked(self, error: OSError, path: str = "") -> OverhandError:
        place = str(error.filename or self.shown(path))
        if error.errno not in _LINK_OR_FILE:
            return storage_failed(error, f"Cannot use {os.path.basename(place)}")
        if os.path.islink(place):
            return Refused(f"{place} is a symbolic link, which is not followed.", "Use a real folder there.")
        return Refused(f"{place} is no folder.", "Move it away, then try again.")

    def _no_file(self, path: str) -> Refused:
        return Refused(f"{self.shown(path)} is a link or no regular file of yours.", "Put a regular file there.")


class _Held:
    """Files whose folder is kept open; of one that is not there, nothing is read."""

    def __init__(self, files: Beneath) -> None:
        self._files, self._way = files, _Quietly(files, "", itself=True)

    def __enter__(self) -> Beneath:
        folder, _ = self._way.__enter__()
        files = self._files
        return Beneath(files.top, files.inside, folder if folder >= 0 else _MISSING, len(files._steps("")))

    def __exit__(self, *_: object) -> None:
        self._way.__exit__()


class _Quietly:
    """The folder above a path and the name in it, or the folder `itself`, for reading: -1 if it is not reached."""

    def __init__(self, files: Beneath, path: str, *, itself: bool = False) -> None:
        self.files, self.path, self.itself, self.folder = files, path, itself, -1

    def __enter__(self) -> tuple[int, str]:
        steps = self.files._steps(self.path)
        above, name = (steps, "") if self.itself or not steps else (steps[:-1], steps[-1])
        try:
            if self.files.fd != _MISSING:
                self.folder = self.files._walk(above)
        except OSError as error:
            dirfd.raise_if_exhausted(error)
        return self.folder, name

    def __exit__(self, *_: object) -> None:
        self.files._leave(self.folder)


class _ToWrite:
    """The folder above a path and the name in it, for writing: raises what is in the way, and what the disk refuses."""

    def __init__(self, files: Beneath, path: str, *, make: bool) -> None:
        self.files, self.path, self.make, self.folder = files, path, make, -1

    def __enter__(self) -> tuple[int, str]:
        steps = self.files._steps(self.path)
        if not steps or len(steps) == len(self.files._steps("")):
            raise Refused(f"{self.path!r} names no file inside {self.files.shown('')}.", "Name a file in it.")
        try:
            self.folder = self.files._walk(steps[:-1], make=self.make)
        except OSError as error:
            if error.errno in _LINK_OR_FILE:
                raise self.files._blocked(error) from error
            raise storage_failed(error, f"Cannot write {steps[-1]}") from error
        return self.folder, steps[-1]

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.files._leave(self.folder)
        if isinstance(error, OSError):
            error.filename, error.filename2 = self.files.shown(self.path), None
            raise storage_failed(error, f"Cannot write {os.path.basename(self.path)}") from error
