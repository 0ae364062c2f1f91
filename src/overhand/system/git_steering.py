"""Marks of what steers git in a repository, to see what a run changed there: files are read, git is hardly asked."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from itertools import islice
from typing import TYPE_CHECKING

from overhand.system.files import read_file
from overhand.system.git import find_repository, run_git

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_CONFIG, _MAX_PACKED = 1 << 20, 16 << 20
_MOST_REFS, _MOST_FILES = 1000, 1000
_SECTION = re.compile(r'\[\s*([^\s"\]]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')


def git_marks(root: str) -> dict[str, str]:
    """Marks of what steers git around a folder, by name: hooks, settings, `info`, HEAD and refs; not of what it stores.

    Settings have a mark each. Of very many refs there is one mark for all but the branch that is checked out.
    """
    repository = find_repository(root)
    if repository is None:
        return {}
    git_dir, common = repository.git_dir, repository.common_dir
    head = os.fsdecode((read_file(f"{git_dir}/HEAD", 4096) or b"").strip())
    marks = {"HEAD": head}
    for name in ("config", "objects/info/alternates"):
        marks |= _marks_of(common, name)
    marks |= _marks_of(git_dir, "config.worktree")
    for folder in ("hooks", "info", "modules"):
        for path in islice(_steering_files(common, folder), _MOST_FILES):
            marks |= _marks_of(common, path)
    refs = _refs(root, common)
    if len(refs) > _MOST_REFS:
        others = sorted(item for item in refs.items() if f"ref: {item[0]}" != head)
        refs = {"refs": hashlib.sha256(repr(others).encode("utf-8", "replace")).hexdigest()}
    return marks | refs


def _steering_files(git_dir: str, top: str) -> Iterator[str]:
    """Hooks, `info` and, for submodules, their hooks and settings."""
    if os.path.islink(f"{git_dir}/{top}"):
        yield top
        return
    for folder, folders, names in os.walk(f"{git_dir}/{top}"):
        folders[:] = sorted(set(folders) - {"objects", "logs", "refs", "lfs"})
        for name in sorted([*names, *(one for one in folders if os.path.islink(f"{folder}/{one}"))]):
            path = f"{folder}/{name}"[len(git_dir) + 1 :]
            is_steering = top != "modules" or name == "config" or os.path.basename(folder) in ("hooks", "info")
            if is_steering and not name.endswith((".sample", ".lock")) and path != "info/refs":
                yield path


def _marks_of(git_dir: str, name: str) -> dict[str, str]:
    """A mark of a file's content; of settings also one for each."""
    path = f"{git_dir}/{name}"
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            return {name: f"link:{os.readlink(path)}" if stat.S_ISLNK(found.st_mode) else f"{found.st_mode:o}"}
    except OSError:
        return {}
    raw = read_file(path, _MAX_CONFIG) or b""
    digest = hashlib.sha256(raw).hexdigest() if len(raw) <= _MAX_CONFIG else f"{found.st_size}:{found.st_ctime_ns}"
    marks = {name: f"{digest}{'x' if found.st_mode & 0o100 else ''}"}
    if os.path.basename(name).startswith("config"):
        for key, value in _settings_in(os.fsdecode(raw)):
            marks[f"{name} {key}"] = hashlib.sha256(f"{marks.get(f'{name} {key}', '')}{value}".encode()).hexdigest()[
                :16
            ]
    return marks


def _settings_in(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of the settings in a configuration, as far as a line tells them; names in lower case."""
    section = ""
    for line in text.splitlines():
        rest = line.strip()
        if match := _SECTION.match(rest):
            section = ".".join(filter(None, (match[1].lower(), match[2])))
            rest = rest[match.end() :].strip()
        if rest and rest[0] not in "#;":
            key, _, value = rest.partition("=")
            yield f"{section}.{key.strip().lower()}", ascii(value.strip())


def _refs(root: str, git_dir: str) -> dict[str, str]:
    """What each ref points to."""
    found: dict[str, str] = {}
    packed = os.fsdecode(read_file(f"{git_dir}/packed-refs", _MAX_PACKED) or b"")
    if os.path.isdir(f"{git_dir}/reftable"):
        packed = run_git(root, "for-each-ref", "--format=%(objectname) %(refname)") or ""
    for line in packed.splitlines():
        value, _, name = line.partition(" ")
        if name and value[0] not in "#^":
            found[name] = value
    for folder, _, names in os.walk(f"{git_dir}/refs"):
        for name in names:
            if not name.endswith(".lock"):
                path = f"{folder}/{name}"
                found[path[len(git_dir) + 1 :]] = os.fsdecode((read_file(path, 4096) or b"").strip())
    return found


def changed_marks(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What became another one under `.git`, each with how; the branch that was checked out may move."""
    head, now = before.get("HEAD", ""), after.get("HEAD", "")
    own = {head.removeprefix("ref: ")} if head.startswith("ref: ") else set()
    differs = {name for name in {*before, *after} - {"HEAD"} if before.get(name) != after.get(name)}
    differs -= {name.partition(" ")[0] for name in differs if " " in name}  # settings are listed one by one
    found = []
    for name in sorted(differs, key=lambda name: (_rank(name), name)):
        was, is_now = before.get(name), after.get(name)
        if name not in own or not was or not is_now:
            found.append(f"{name} ({'new' if was is None else 'deleted' if is_now is None else 'changed'})")
    if head != now and (head.startswith("ref: ") or now.startswith("ref: ")):
        found.append(f"HEAD ({head.removeprefix('ref: ')} → {now.removeprefix('ref: ')})")
    return found


def _rank(name: str) -> int:
    """Hooks and settings before refs."""
    return next(
        (rank for rank, begin in enumerate(("hooks", "config", "modules", "info")) if name.startswith(begin)), 9
    )
