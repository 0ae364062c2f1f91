"""A snapshot of a folder's files through an index of ours: what changed is found, looked at by lstat, and hashed.

Never `git add -A`: a single unreadable file or repository in the folder makes that add nothing, and it would ask a
repository of the agent's what it is. Every path is given to git by us, and none leads through a link.

A filter of the user's runs in the folder, and could import what an agent wrote there. So it is switched off while git
looks at files, and the files that it concerns are hashed in a folder that holds nothing but attributes.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.errors import GitFailed
from overhand.system import names_in, read_file
from overhand.trees.tree import Changed, Left

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from overhand.system import Git

MAX_SIZE = 50 * 1000 * 1000  # of a file that is part of a snapshot
EMBEDDED = "a repository of its own"
TOO_BIG = "larger than 50 MB"
SPECIAL = "no regular file"
UNREADABLE = "can't be read"
BELOW_LINK = "below a link"
NOT_CONVERTED = "git can't convert it as its attributes say"
REFUSED_NAME = "git doesn't accept this name"
LONG = 600.0  # seconds for a git that writes or reads many files
MAX_INDEX = 256 << 20  # bytes of a pack's index
_WORKING = ("clean", "smudge", "process")


@dataclass(frozen=True)
class Candidates:
    """Files that may differ from the index: to be hashed, to be removed from it, and not to be part of it."""

    taken: tuple[str, ...]
    gone: tuple[str, ...]
    left: tuple[Left, ...]

    @property
    def moving(self) -> set[str]:
        return {*self.taken, *self.gone}


def find_candidates(git: Git, more: Iterable[str] = (), stays: Collection[str] = ()) -> Candidates:
    """What differs from the index in a folder, and what is new there.

    `more` are paths that may be ignored as well; what `stays` may be missing without being gone.
    """
    changed = git.lines("diff-files", "-z", "--name-only", "--ignore-submodules=all")
    untracked = git.lines("ls-files", "-z", "-o", "--exclude-standard")
    tracked = set(changed)
    taken, gone, left = [], [], []
    folders: dict[str, bool] = {"": True}
    for path in dict.fromkeys((*changed, *untracked, *more)):
        kind = _kind_of(git.work_tree, path, folders)
        if kind == "file":
            taken.append(path)
        elif kind in ("", BELOW_LINK):  # what is below a link is not in this folder
            gone += [path] if path in tracked and path not in stays else []
        else:
            left.append(Left(path, kind))
    return Candidates(tuple(taken), tuple(gone), tuple(left))


def _kind_of(top: str, path: str, folders: dict[str, bool]) -> str:
    """`file` for what can be part of a snapshot, empty for what is gone, else why it is left out."""
    if path.endswith("/"):
        return EMBEDDED
    if not _is_real_folder(top, path.rpartition("/")[0], folders):
        return BELOW_LINK
    try:
        found = os.lstat(f"{top}/{path}")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return UNREADABLE
    if stat.S_ISLNK(found.st_mode):
        return "file"
    if stat.S_ISDIR(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return SPECIAL
    if found.st_size > MAX_SIZE:
        return TOO_BIG
    return "file" if os.access(f"{top}/{path}", os.R_OK) else UNREADABLE


def _is_real_folder(top: str, folder: str, known: dict[str, bool]) -> bool:
    if folder not in known:
        above = _is_real_folder(top, folder.rpartition("/")[0], known)
        try:
            known[folder] = above and stat.S_ISDIR(os.lstat(f"{top}/{folder}").st_mode)
        except OSError:
            known[folder] = False
    return known[folder]


def stage(git: Git, found: Candidates, filters: Filters) -> tuple[Left, ...]:
    """Bring the index up to the files that were found; returns those that git did not take."""
    if found.gone:
        zeroes = "0" * (64 if filters.format == "sha256" else 40)
        rows = "".join(f"0 {zeroes}\t{path}\0" for path in found.gone)
        git.run("update-index", "-z", "--index-info", given=os.fsencode(rows))
    if not found.taken:
        return ()
    filtered = filters.concerned(git, found.taken)
    plain = [path for path in found.taken if path not in filtered]
    failed = _add(filters.off(git), plain)
    for path in filtered:
        try:
            filters.hash_apart(git, path)
        except GitFailed:
            failed.append(Left(path, NOT_CONVERTED))
    there = {*git.lines("ls-files", "-z"), *(one.path for one in failed)}
    return (*failed, *(Left(path, REFUSED_NAME) for path in found.taken if path not in there))


def _add(git: Git, paths: Sequence[str]) -> list[Left]:
    """Hash files into the index. Git takes none if one can't be converted, so that one is found by halves."""
    if not paths:
        return []
    done = git.call("update-index", "--add", "--replace", "-z", "--stdin", given=_listed(paths), patience=LONG)
    if done.status == 0:
        return []
    if len(paths) == 1:
        return [Left(paths[0], NOT_CONVERTED)]
    middle = len(paths) // 2
    return [*_add(git, paths[:middle]), *_add(git, paths[middle:])]


@dataclass(frozen=True)
class Filters:
    """The filters in the user's configuration, but LFS, whose program reads nothing of the folder that it would run."""

    format: str  # of the repository's object ids
    names: frozenset[str] = frozenset()

    def off(self, git: Git) -> Git:
        """The same git without these filters."""
        off = [f"filter.{name}.{part}=" for name in sorted(self.names) for part in _WORKING]
        off += [f"filter.{name}.required=false" for name in sorted(self.names)]
        return git._replace(settings=(*git.settings, *off))

    def concerned(self, git: Git, paths: Collection[str]) -> dict[str, str]:
        """The paths that have one of these filters, and which."""
        if not self.names or not paths:
            return {}
        words = git.lines("check-attr", "-z", "--stdin", "filter", given=_listed(paths))
        found = zip(words[::3], words[2::3], strict=False)
        return {
            path: name for path, name in found if name in self.names and not os.path.islink(f"{git.work_tree}/{path}")
        }

    def hash_apart(self, git: Git, path: str) -> None:
        """Hash a file with its filter in a folder that has nothing but the attributes, and put it into the index."""
        with tempfile.TemporaryDirectory(prefix="overhand-filter-") as apart:
            _copy_attributes(git.work_tree, apart, path)
            with open(f"{git.work_tree}/{path}", "rb") as file:
                data = file.read(MAX_SIZE)
            away = git._replace(work_tree=apart, cwd=apart)
            blob = (
                away.run("hash-object", "-w", f"--path={path}", "--stdin", given=data, patience=LONG).decode().strip()
            )
        mode = "100755" if os.stat(f"{git.work_tree}/{path}").st_mode & 0o100 else "100644"
        git.run(
            "update-index", "--add", "--replace", "-z", "--index-info", given=os.fsencode(f"{mode} {blob}\t{path}\0")
        )

    def check_out_apart(self, git: Git, commit: str, paths: Iterable[str]) -> None:
        """Write files as their filters make them, which run in a folder that has the attributes and nothing else."""
        for path in paths:
            with tempfile.TemporaryDirectory(prefix="overhand-filter-") as apart:
                _copy_attributes(git.work_tree, apart, path)
                away = git._replace(work_tree=apart, cwd=apart)
                data = away.run("cat-file", "--filters", f"{commit}:{path}", patience=LONG)
            with open(f"{git.work_tree}/{path}", "wb") as file:
                file.write(data)


def find_filters(git: Git, format: str) -> Filters:
    """The filters that git would run in this repository."""
    done = git.call("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$")
    keys = os.fsdecode(done.output).split("\0")[:-1] if done.status == 0 else []
    names = {key.split(".", 1)[1].rpartition(".")[0] for key in keys}
    return Filters(format, frozenset(name for name in names if name != "lfs" and "=" not in name))


def _copy_attributes(top: str, apart: str, path: str) -> None:
    """The attribute files on the way to a path."""
    folder = ""
    for part in ("", *path.split("/")[:-1]):
        folder = f"{folder}{part}/" if part else ""
        source = f"{top}/{folder}.gitattributes"
        os.makedirs(f"{apart}/{folder}", exist_ok=True)
        if os.path.isfile(source) and not os.path.islink(source):
            shutil.copyfile(source, f"{apart}/{folder}.gitattributes")


def _listed(paths: Iterable[str]) -> bytes:
    return os.fsencode("".join(f"{path}\0" for path in paths))


def changed_between(git: Git, old: str, new: str) -> tuple[Changed, ...]:
    """The files that differ between two commits or trees; a renamed file is one that is gone and one that is new."""
    words = git.lines("diff-tree", "-r", "-z", "--name-status", "--no-renames", "--no-commit-id", old, new)
    return tuple(Changed(status, path) for status, path in zip(words[::2], words[1::2], strict=True))


def own_objects(git: Git, old: str, new: str) -> None:
    """Copy what the tree `new` has and `old` has not into our own objects: what is borrowed, its owner may prune."""
    words = git.lines("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    rows = [row.split(" ") for row in words[::2]]
    wanted = {new, *(row[3] for row in rows if row[1] != "160000" and row[3].strip("0"))}
    objects = f"{git.git_dir}/objects"
    missing = [one for one in sorted(wanted) if not os.path.exists(f"{objects}/{one[:2]}/{one[2:]}")]
    if missing and (missing := sorted(set(missing) - _packed(objects, missing))):
        given = "".join(f"{one}\n" for one in missing).encode()
        git.run("pack-objects", "-q", f"{objects}/pack/pack", given=given, patience=LONG)


def _packed(objects: str, ids: Collection[str]) -> set[str]:
    """Those of some objects that are in packs here; `.idx` files have sorted ids behind a table of 256 counts."""
    found: set[str] = set()
    for name in names_in(f"{objects}/pack"):
        raw = read_file(f"{objects}/pack/{name}", MAX_INDEX) if name.endswith(".idx") else None
        if raw is None or raw[:8] != b"\xfftOc\0\0\0\2":
            continue
        size = len(next(iter(ids))) // 2
        table = raw[1032 : 1032 + size * int.from_bytes(raw[1028:1032], "big")]
        known = {table[at : at + size].hex() for at in range(0, len(table), size)}
        found |= known.intersection(ids)
    return found
