"""Git dirs that borrow another repository's objects: written as plain files, so no template of any git is in them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from overhand.errors import storage_failed
from overhand.system import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_FILE = 256 << 20


def object_places(objects: str) -> list[str]:
    """An object store and everything that it borrows from in turn, as real paths: git-lfs follows no chain."""
    found = [os.path.realpath(objects)]
    for place in found:
        for line in os.fsdecode(read_file(f"{place}/info/alternates", _MAX_FILE) or b"").splitlines():
            if line and not line.startswith("#"):
                named = os.path.realpath(os.path.join(place, _unquoted(line)))
                if named not in found and os.path.isdir(named):
                    found.append(named)
    return found


def alternates(places: Iterable[str]) -> bytes:
    """The text of `objects/info/alternates`."""
    return os.fsencode("".join(f"{_quoted_path(place)}\n" for place in places))


def as_variable(place: str) -> str:
    """A path as a value of GIT_ALTERNATE_OBJECT_DIRECTORIES, where a colon would begin another."""
    return '"' + place.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted_path(place: str) -> str:
    return as_variable(place) if place.startswith('"') or "\n" in place else place


def _unquoted(line: str) -> str:
    return line[1:-1].replace('\\"', '"').replace("\\\\", "\\") if line.startswith('"') and line.endswith('"') else line


def make_git_dir(folder: str, files: Mapping[str, bytes]) -> None:
    """Make a git dir: its folders, and these files."""
    try:
        for name in ("", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info"):
            os.makedirs(f"{folder}/{name}", mode=0o700, exist_ok=True)
        for name, data in files.items():
            os.makedirs(os.path.dirname(f"{folder}/{name}"), mode=0o700, exist_ok=True)
            is_program = name.startswith("hooks/")
            write_file(f"{folder}/{name}", data, mode=0o700 if is_program else 0o600)
    except OSError as error:
        raise storage_failed(error, "Cannot make the tree's git dir") from error


def shared_files(git_dir: str, common_dir: str) -> dict[str, bytes]:
    """What a repository has outside of its configuration that says which files matter and how far history goes."""
    places = {
        "info/exclude": common_dir,
        "info/attributes": common_dir,
        "info/sparse-checkout": git_dir,
        "shallow": common_dir,
    }
    found = {name: read_file(os.path.realpath(f"{place}/{name}"), _MAX_FILE) for name, place in places.items()}
    return {name: data for name, data in found.items() if data is not None}


def shared_hooks(common_dir: str) -> dict[str, bytes]:
    """The programs in a repository's hooks folder, without its samples."""
    found = {}
    for entry in sorted(os.scandir(f"{common_dir}/hooks"), key=lambda one: one.name) if _has_hooks(common_dir) else ():
        if entry.is_file() and not entry.name.endswith(".sample") and os.access(entry.path, os.X_OK):
            found[f"hooks/{entry.name}"] = read_file(os.path.realpath(entry.path), _MAX_FILE) or b""
    return found


def _has_hooks(common_dir: str) -> bool:
    return os.path.isdir(f"{common_dir}/hooks")


def packed_refs(rows: Iterable[tuple[str, str, str]]) -> tuple[bytes, dict[str, str]]:
    """The text of `packed-refs` from commits, refs and their targets, and the refs that only name another."""
    lines, symbolic = [], {}
    for commit, name, target in rows:
        if target:
            symbolic[name] = target
        else:
            lines.append(f"{commit} {name}\n")
    lines.sort(key=lambda line: os.fsencode(line.split(" ", 1)[1]))
    return os.fsencode("".join(["# pack-refs with: sorted \n", *lines])), symbolic


def copy_file(source: str, target: str) -> bool:
    """Copy a file with its time; an index that seems younger than it is would hide changes. False if there is none."""
    try:
        with open(source, "rb") as file, open(target, "wb") as copy:
            found = os.fstat(file.fileno())
            shutil.copyfileobj(file, copy, 1 << 20)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_failed(error, f"Cannot copy {os.path.basename(source)}") from error
    return True
