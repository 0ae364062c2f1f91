"""The journal of batches: the logs of tasks that were accepted or judged together, brought to the disk in one piece.

Bringing a hundred logs to the disk takes a hundred flushes. So what they hold is put into one file, and that is synced;
the logs themselves the system writes when it likes. After kill -9 they are whole all the same. After a power cut (the
file says in which boot it was written) whoever opens the project next puts back what is missing, once.
"""

from __future__ import annotations

import os

from overhand.errors import OverhandError, storage_failed
from overhand.record import log
from overhand.system import machine
from overhand.system.jsonline import loads
from overhand.system.lock import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from overhand.record.store import Piece

NAME = "journal"
MOST = 8_000_000  # bytes; then the logs are brought to the disk themselves, and it begins afresh
_ALL = 256 * 1024 * 1024


def keep(own: str, workspaces: str, pieces: Collection[Piece]) -> None:
    """Bring these pieces of logs to the disk, and with the first of a task the name of its folder."""
    entries = b"".join([_entry(workspaces, *piece) for piece in pieces])
    is_new = any(start == 0 for _, start, _ in pieces)
    with _locked(own) as lock:
        size = lock.size
        # a kill in the middle of a write leaves a torn line: ours begins on its own
        start = f"{machine.boot()}\n" if size == 0 else "" if os.pread(lock.fd, 1, size - 1) == b"\n" else "\n"
        data = start.encode() + entries
        try:
            if os.write(lock.fd, data) != len(data):
                raise OSError(28, "No space left on device")
            log.to_disk(lock.fd)
        except OSError as error:
            os.ftruncate(lock.fd, size)
            raise storage_failed(error, "Cannot bring the logs of these tasks to the disk") from error
    for folder in (own,) * (size == 0) + (workspaces,) * is_new:
        _bring_folder(folder)
    if size + len(data) > MOST:
        _begin_afresh(own, workspaces, size + len(data))


def _begin_afresh(own: str, workspaces: str, size: int) -> None:
    """Once the logs are on the disk themselves; whoever wrote to it meanwhile tries that again."""
    _bring_all(workspaces)  # it may take long: not under the lock
    with _locked(own) as lock:
        if lock.size == size:
            os.ftruncate(lock.fd, 0)


def _locked(own: str) -> Lock:
    return Lock(f"{own}/{NAME}", "The journal of batches", signed=False)


def _entry(workspaces: str, task_id: str, start: int, text: bytes | None) -> bytes:
    """A line that says what follows, then the piece as it is."""
    if text is None:
        text = log.raw(f"{workspaces}/{task_id}")[0][start:]
    return b'["%s",%d,%d]\n%s\n' % (task_id.encode(), start, len(text), text)


def _bring_folder(path: str) -> None:
    """The names of what is new in a folder are kept by the folder."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        raise storage_failed(error, "Cannot bring the folders of these tasks to the disk") from error
    finally:
        os.close(fd)


def _bring_all(path: str) -> None:
    """Everything that is not on this disk yet."""
    import ctypes

    syncfs = getattr(ctypes.CDLL(None), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if syncfs(fd) != 0:
            raise storage_failed(OSError(5, "Input/output error"), "Cannot bring the logs of all tasks to the disk")
    finally:
        os.close(fd)


def put_back(own: str, workspaces: str) -> None:
    """After a power cut: give every log back what it had; what cannot be done now is left to the next who opens it."""
    try:
        with _locked(own) as lock:
            raw = os.pread(lock.fd, _ALL, 0)
            if raw and not raw.startswith(f"{machine.boot()}\n".encode()):  # nobody was quicker
                for task_id, pieces in _entries(raw).items():
                    _mend(f"{workspaces}/{task_id}", pieces)
                os.ftruncate(lock.fd, 0)
    except (OverhandError, OSError):
        return


def _entries(raw: bytes) -> dict[str, list[tuple[int, bytes]]]:
    """The pieces of every task's log, in the order in which they were written."""
    from overhand.words import is_task_id

    found: dict[str, list[tuple[int, bytes]]] = {}
    for entry in raw.removesuffix(b"\n").split(b'\n["')[1:]:  # no line of a log begins like this
        head, _, text = entry.partition(b"\n")
        try:
            task_id, start, length = loads('["' + head.decode())
        except (ValueError, TypeError):
            continue  # torn
        if len(text) == length and isinstance(start, int) and is_task_id(str(task_id)):
            found.setdefault(task_id, []).append((start, text))
    return found


def _mend(folder: str, pieces: Iterable[tuple[int, bytes]]) -> None:
    """A log that lost its end, or all of it, gets it back; a folder that is gone was cleaned away."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return
    with Lock(f"{folder}/{log.LOG}", f"Task {os.path.basename(folder)}", signed=False) as lock:
        found = os.pread(lock.fd, lock.size, 0)
        wanted = kept = found.rstrip(b"\0")  # some file systems keep the length and lose the content
        for start, text in pieces:
            if start <= len(wanted) < start + len(text) and text.startswith(wanted[start:]):
                wanted = wanted[:start] + text
        if wanted == kept:
            return
        try:
            os.ftruncate(lock.fd, len(kept))
            if os.write(lock.fd, wanted[len(kept) :]) != len(wanted) - len(kept):
                raise OSError(28, "No space left on device")
            log.to_disk(lock.fd)
        except OSError as error:
            raise storage_failed(error, "Cannot put back what a log has lost") from error
