"""What the user trusts, in a list in their own folder: a project may run nothing until a person has trusted exactly
these bytes."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from overhand.errors import NotTrusted, StorageFailed, storage_failed
from overhand.policy import config
from overhand.system import MAX_PLAN, Lock, read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping


def existing_files(root: str, names: Iterable[str], personal: Container[str] = ()) -> list[str]:
    """The existing files among these files and folders of a project; a personal one only if git tracks it."""
    found: list[str] = []
    for name in names:
        path = f"{root}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            found += [f"{name}/{inner}" for inner in _below(path)]
        elif os.path.lexists(path) and (name not in personal or not _is_untracked(root, name)):
            found.append(name)
    return found


def _below(folder: str) -> list[str]:
    """Files in a plugin folder, without those that a package manager installed."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "node_modules")
        found += [os.path.relpath(f"{place}/{name}", folder) for name in sorted(names)]
    return found


def _is_untracked(root: str, name: str) -> bool:
    """Whether this file cannot have come with the repository."""
    from overhand.system import is_untracked  # rarely needed

    return is_untracked(root, name)


def trust_file() -> str:
    """The file in the user's folder that lists what is trusted."""
    return os.path.join(config.user_folder(), "trust.json")


def _known(root: str) -> dict[str, str]:
    raw = read_file(trust_file())
    try:
        projects = json.loads(raw)["projects"] if raw else {}
        return dict(projects.get(root, {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageFailed(f"{trust_file()} cannot be read.", "Mend or move that file, then: overhand trust") from None


def _digest(root: str, name: str) -> str | None:
    """Hash of a regular file in the project; a link is never trusted."""
    raw = config.read_project_file(root, name, MAX_PLAN)
    return content_digest(raw) if raw is not None and len(raw) <= MAX_PLAN else None


def content_digest(raw: bytes) -> str:
    """What stands in the list for a file with these bytes."""
    return hashlib.sha256(raw).hexdigest()


def untrusted_files(root: str, names: Iterable[str]) -> list[str]:
    """Those of these files whose content is not trusted."""
    wanted = list(names)
    if not wanted:
        return []
    known = _known(root)
    return [name for name in wanted if known.get(name) != _digest(root, name) or name not in known]


def is_trusted_content(root: str, name: str, raw: bytes) -> bool:
    """Whether the user trusts this file with exactly these bytes, as just read."""
    return _known(root).get(name) == content_digest(raw)


def _own_folder() -> Lock:
    """The user's folder, for one writer at a time."""
    folder = config.user_folder()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, "Cannot remember what is trusted") from error
    return Lock(f"{folder}/trust.lock", "The list of trusted files")


def file_digests(root: str, names: Iterable[str]) -> dict[str, str]:
    """The digests of these files as a person sees them now; links and other non-regular files have none."""
    return {name: mark for name in names if (mark := _digest(root, name))}


def mark_trusted(root: str, marks: Mapping[str, str]) -> None:
    """Trust these files with exactly this content."""
    with _own_folder():
        raw = read_file(trust_file())
        everything: dict[str, Any] = json.loads(raw) if raw else {"version": 1, "projects": {}}
        everything["projects"].setdefault(root, {}).update(marks)
        write_file(trust_file(), json.dumps(everything, indent=1, sort_keys=True) + "\n", mode=0o600)


def move_trust(before: str, after: str) -> None:
    """What was trusted in a project is trusted at the path that it was moved to."""
    if known := _known(before):
        mark_trusted(after, known)


def require_trusted(root: str, names: Iterable[str]) -> None:
    """Refuse if any of these files is not trusted, and name them."""
    if missing := untrusted_files(root, names):
        text = f"Not trusted yet: {', '.join(missing)}. Nothing was run."
        raise NotTrusted(text, "Read them, then: overhand trust", files=missing)


def trusted_config(root: str) -> config.Config:
    """The settings in force; an untrusted project's own don't count."""
    return config.load_config(root, project=not untrusted_files(root, config.settings_files(root)))
