"""Files of an open folder, by descriptor and name: whatever takes the folder's place meanwhile, they stay in it."""

from __future__ import annotations

import os

from overhand.errors import EXHAUSTED, storage_failed
from overhand.system.files import random_text

STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
CHUNK = 1 << 20
TRIES = 20  # to make a folder that another process removes again


def make_step(name: str, mode: int, folder: int | None) -> int:
    """Make a folder and open it; another process may make or remove it at the same moment."""
    for attempt in range(TRIES):
        try:
            os.mkdir(name, mode, dir_fd=folder)
        except FileExistsError:
            pass  # made meanwhile, or a link that leads nowhere: opening it tells
        try:
            return os.open(name, STEP, dir_fd=folder)
        except FileNotFoundError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def create(folder: int, name: str, raw: bytes, mode: int) -> None:
    """Write a file that must not exist; a part of it is not left behind."""
    fd = os.open(name, _NEW, mode, dir_fd=folder)
    try:
        write_all(fd, raw)
    except BaseException:
        unlink(name, folder)
        raise
    finally:
        os.close(fd)


def write_all(fd: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view) :]


def copy(fd: int, path: str, limit: int) -> tuple[str, int]:
    import hashlib

    whole, size = hashlib.sha256(), 0
    target = os.open(path, _NEW, 0o644)
    try:
        while size <= limit and (part := os.read(fd, min(CHUNK, limit + 1 - size))):
            whole.update(part)
            size += len(part)
            write_all(target, part)
    finally:
        os.close(target)
    return whole.hexdigest(), size


def set_aside(folder: int, name: str) -> str:
    new = f"{name}-aside-{random_text(6)}"
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
    return new


def unlink(name: str, folder: int | None = None) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def encoded(data: bytes | str) -> bytes:
    return data.encode("utf-8", "replace") if isinstance(data, str) else data


def is_encodable(path: str) -> bool:
    if path.isascii():
        return True
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def raise_if_exhausted(error: OSError) -> None:
    """Too many open files say nothing about what was asked for: it must not pass as missing."""
    if error.errno in EXHAUSTED:
        raise storage_failed(error, "Cannot look at a file") from error
