"""Change a few bytes of a file that another process may be writing at the same moment, and lose none of its bytes.

Editors and agents take no lock: they rename a new file over the old one, truncate and write, or write in place. Two
kernel features make that safe where they exist. A *lease* (Linux, own files) is refused while the file is open
elsewhere, and blocks later opens until we close it. An *exchange* of two names keeps the replaced file under the other.

One byte for another is one `pwrite` into the file at the path, unless that has a second name. Under the lease no
process can have moved that byte since we read it. If the name belongs to another file by then, our byte went into the
old one, and we start over.

A change of length is a new file that is exchanged with the old one; then the old one is checked. If it is not the
file that we read, or has been written to, or a process waits to open it for writing, the two are exchanged back and we
start over with the newer bytes. A file that stays open for writing is not replaced at all: later writes to it would be
lost. Readers see the old bytes or the new ones; a kill leaves one or the other, at worst with a hidden copy.

What it cannot guarantee:
 - A process that read the file before our change and writes all of it back afterwards undoes our change.
 - Without a lease (another system or file system, a file of another user, or one that is kept open for long) a writer
   that moves the text between our last check and our `pwrite`, the next call, has one byte overwritten.
 - Without an exchange a file renamed to the path between `link` and `rename`, the next call, is replaced unseen.
 - A process that has resolved the path, but is not yet blocked by the lease when we release it, opens the old file.
"""

from __future__ import annotations

import os

from overhand.errors import Busy, NotFound, Refused, storage_failed
from overhand.system.files import MAX_DOCUMENT, random_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Patch = tuple[int, int, bytes]  # start, end, replacement

_TRIES = 60
_PATIENT = 20  # tries for a lease before a single byte is written without one
_PAUSE = 0.0005
_PATIENCE = 10.0  # seconds to wait for our own processes


def edit_file(
    path: str, change: Callable[[bytes], Patch | None], *, limit: int = MAX_DOCUMENT, held: bool = False
) -> bytes:
    """Apply the patch that `change` returns and return the file's bytes; a changed file is passed to `change` again.

    With `held` its folder is a descriptor that the caller holds open (beneath.py).
    """
    folder = os.path.dirname(path)
    if not held and os.path.islink(folder):
        raise Refused(f"{folder} is a symbolic link, which is not followed.", "Use a real folder there.")
    lock = _alone(folder)
    try:
        return _edit(path, change, limit)
    finally:
        if lock >= 0:
            os.close(lock)


def _alone(folder: str) -> int:
    """Lock the folder against our own processes, which needs no lock file; -1 where that isn't possible."""
    import fcntl
    import time

    try:
        fd = os.open(folder or ".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return -1
    deadline = time.monotonic() + _PATIENCE
    pause = _PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(pause)
                pause = min(pause * 2, 0.02)
                continue
            os.close(fd)
            raise Busy(f"Other processes are changing files in {folder or '.'} all the time.", "Try again.") from None
        except OSError:  # a file system without locks
            os.close(fd)
            return -1


def _edit(path: str, change: Callable[[bytes], Patch | None], limit: int) -> bytes:
    import time

    name = os.path.basename(path)
    missing = 0
    for attempt in range(_TRIES):
        try:
            raw = _once(path, change, limit, patient=attempt < _PATIENT)
            if raw is not None:
                return raw
        except (FileNotFoundError, _Unsure) as error:  # perhaps it is just being replaced
            missing += 1
            if missing == _PATIENT:
                gone = NotFound(f"There is no {name} ({path}).", f"Write {name} first.")
                raise (error.error if isinstance(error, _Unsure) else gone) from None
        except BlockingIOError:
            pass  # another process has a lease on it
        except OSError as error:
            raise storage_failed(error, f"Cannot change {name}") from error
        time.sleep(min(_PAUSE * (attempt + 1), 0.02))
    raise Busy(
        f"{name} is being written by another process all the time; it was not changed.",
        "Try again in a moment, or edit the file with the tool that is writing it.",
    )


def merge_patches(raw: bytes, *patches: Patch | None) -> Patch | None:
    """Merge several patches of the same bytes into one, so that a file gets all of them or none."""
    wanted = sorted(one for one in patches if one is not None)
    if not wanted:
        return None
    parts, at = [], wanted[0][0]
    for start, end, new in wanted:
        if start < at:
            raise ValueError("two patches change the same bytes")
        parts += [raw[at:start], new]
        at = end
    return wanted[0][0], at, b"".join(parts)


class _Unsure(Exception):
    """The change found no place, perhaps because the file is only half-written so far."""

    def __init__(self, error: NotFound) -> None:
        super().__init__()
        self.error = error


def _once(path: str, change: Callable[[bytes], Patch | None], limit: int, *, patient: bool) -> bytes | None:
    """Try once; None if another process wrote, or is about to."""
    is_unfinished = not patient and is_being_written(path)
    fd = _open(path, os.O_RDWR, limit)
    try:
        leased = _lease(fd, writing=True)
        if leased is False and patient:
            return None
        raw = _whole(fd)
        try:
            patch = change(raw) if raw is not None else None
        except NotFound as error:
            if leased:
                raise
            if is_unfinished:
                return None
            raise _Unsure(error) from error
        if raw is None or patch is None:
            return raw if raw is None or _is_at(path, fd) else None
        start, end, new = patch
        if len(new) == end - start == 1 and os.fstat(fd).st_nlink == 1:  # a file with two names is not written to
            return _poke(path, fd, raw, patch, leased=bool(leased))
    finally:
        os.close(fd)
    return _replace(path, raw, raw[:start] + new + raw[end:], limit)


def _open(path: str, how: int, limit: int) -> int:
    import errno
    import stat

    try:
        fd = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_file(path) from error
        raise
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
        return fd
    os.close(fd)
    if not stat.S_ISREG(found.st_mode):
        raise _no_file(path)
    name = os.path.basename(path)
    raise Refused(f"{name} has more than {limit >> 20} MB.", "Put long material into other files.")


def _no_file(path: str) -> Refused:
    return Refused(f"{path} is a link or no regular file; it is not followed.", "Put a regular file there.")


def _whole(fd: int) -> bytes | None:
    """The file's bytes, or None if they changed during the read."""
    before = os.fstat(fd)
    parts, at = [], 0
    while part := os.pread(fd, before.st_size + 1 - at, at):
        parts.append(part)
        at += len(part)
        if at > before.st_size:
            return None
    after = os.fstat(fd)
    same = at == after.st_size == before.st_size and after.st_mtime_ns == before.st_mtime_ns
    return b"".join(parts) if same else None


def _is_at(path: str, fd: int) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_ino, here.st_dev) == (there.st_ino, there.st_dev)


def _poke(path: str, fd: int, raw: bytes, patch: Patch, *, leased: bool) -> bytes | None:
    """Write one byte where we read another."""
    start, end, new = patch
    expected = raw[:start] + new + raw[end:]
    if not leased:
        before = max(0, start - 4096)
        if not _is_at(path, fd) or os.pread(fd, 8192, before) != raw[before : before + 8192]:
            return None
    os.pwrite(fd, new, start)
    return expected if _is_at(path, fd) and _whole(fd) == expected else None


def _replace(path: str, raw: bytes, new: bytes, limit: int) -> bytes | None:
    """Replace the file that holds `raw` with a new one."""
    fd = _open(path, os.O_RDONLY, limit)  # read-only: a read lease is refused while the file is open for writing
    ours = -1
    try:
        leased = _lease(fd, writing=False)
        if leased is False or _whole(fd) != raw:
            return None
        spare = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}-{random_text(4)}.tmp")
        renames = Renames()
        ours = _write_beside(spare, new, os.fstat(fd))
        try:
            if not _is_at(path, fd):
                os.unlink(spare)
                return None
            renames.exchange(spare, path)
        except OSError:
            os.unlink(spare)
            raise
        if _is_at(spare, fd) and _whole(fd) == raw and (not leased or _lease_kept(fd)):
            _discard(spare)
            return new
        renames.exchange(spare, path)  # the other process's file gets its name back
        if _is_at(spare, ours) and _whole(ours) == new:
            os.unlink(spare)
            return None
        renames.exchange(spare, path)  # ours was written to as well: the newest file stays at the path
        name = os.path.basename(path)
        raise Busy(
            f"{name} was written twice while it was changed; the earlier version is kept as {spare}.",
            "Compare the two, then try again.",
        )
    finally:
        os.close(fd)
        if ours >= 0:
            os.close(ours)


def _discard(spare: str) -> None:
    """Remove the old file; the change is made, whether that works or not."""
    try:
        os.unlink(spare)
    except OSError:
        return


def _write_beside(spare: str, data: bytes, like: os.stat_result) -> int:
    """A new file with the permissions of the old one, left open."""
    fd = os.open(spare, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            try:
                os.fchown(fd, like.st_uid, like.st_gid)
            except OSError:
                pass  # only root can give a file away; its content matters more than its owner
        os.fchmod(fd, like.st_mode & 0o7777)
    except BaseException:
        os.close(fd)
        os.unlink(spare)
        raise
    return fd


class Renames:
    """Renames that replace nothing unseen, atomic where the system has them; names may be relative to open folders."""

    def __init__(self) -> None:
        import ctypes

        self._call: Callable[..., int] | None = None
        try:
            self._call = ctypes.CDLL(None, use_errno=True).renameat2
        except (AttributeError, OSError):
            return

    def exchange(self, spare: str, path: str, spare_folder: int | None = None, folder: int | None = None) -> None:
        """Swap two names."""
        if self._errno(spare, path, spare_folder, folder, 2):  # RENAME_EXCHANGE
            exchange_by_links(spare, path, spare_folder, folder)  # a real error occurs here too, and is raised

    def move(self, old: str, new: str, old_folder: int | None = None, folder: int | None = None) -> None:
        """Give a file another name; FileExistsError if that is taken."""
        import errno

        failed = self._errno(old, new, old_folder, folder, 1)  # RENAME_NOREPLACE
        if failed in (errno.EINVAL, errno.ENOSYS):
            os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(old, dir_fd=old_folder)
        elif failed:
            raise OSError(failed, os.strerror(failed), new)

    def _errno(self, old: str, new: str, old_folder: int | None, folder: int | None, flags: int) -> int:
        import ctypes
        import errno

        if self._call is None:
            return errno.ENOSYS
        here = -100  # AT_FDCWD
        start, end = (here if fd is None else fd for fd in (old_folder, folder))
        return ctypes.get_errno() if self._call(start, os.fsencode(old), end, os.fsencode(new), flags) else 0


def exchange_by_links(spare: str, path: str, spare_folder: int | None = None, folder: int | None = None) -> None:
    """Swap two names in three calls; the path always names a complete file."""
    kept = f"{spare}.old"
    os.link(path, kept, src_dir_fd=folder, dst_dir_fd=spare_folder, follow_symlinks=False)
    try:
        os.rename(spare, path, src_dir_fd=spare_folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(kept, dir_fd=spare_folder)
        raise
    os.rename(kept, spare, src_dir_fd=spare_folder, dst_dir_fd=spare_folder)


def _lease(fd: int, *, writing: bool) -> bool | None:
    """Take a lease on this file; False if another process has it open, None where there are no leases.

    A write lease excludes every other process; a read lease excludes writers.
    """
    import fcntl
    from _signal import SIGURG  # type: ignore[import-not-found] # built in; all of `signal` takes long to import

    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, int(SIGURG))  # ignored by default; the default signal would kill us
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK if writing else fcntl.F_RDLCK)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_being_written(path: str) -> bool:
    """Whether a process has the file open for writing now: missing text may still be on its way."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return _lease(fd, writing=False) is False
    finally:
        os.close(fd)


def _lease_kept(fd: int) -> bool:
    """Whether no process waits for us to release the read lease."""
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_RDLCK
