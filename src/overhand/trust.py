"""What a project may run: nothing, until a person has trusted exactly these bytes."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from overhand import config, log
from overhand.errors import NotTrusted, StorageFailed, storage_failed
from overhand.files import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

AGENT_FOLDERS = (".overhand/agents", ".claude/agents")


def files(root: str) -> list[str]:
    """Everything in the project that can make Overhand run something, relative to the root."""
    found = [name for name in config.FILES if os.path.lexists(f"{root}/{name}")]
    for folder in AGENT_FOLDERS:
        try:
            names = sorted(os.listdir(f"{root}/{folder}"))
        except OSError:
            continue
        found += [f"{folder}/{name}" for name in names if name.endswith(".md")]
    return found


def _place() -> str:
    return os.path.join(config.user_folder(), "trust.json")


def _known(root: str) -> dict[str, str]:
    raw = read_file(_place())
    try:
        projects = json.loads(raw)["projects"] if raw else {}
        return dict(projects.get(root, {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageFailed(f"{_place()} cannot be read.", "Mend or move that file, then: overhand trust") from None


def _digest(root: str, name: str) -> str | None:
    """Hash of a regular file in the project; a link is never trusted."""
    raw = read_file(f"{root}/{name}")
    return hashlib.sha256(raw).hexdigest() if raw is not None else None


def untrusted(root: str, names: Iterable[str] | None = None) -> list[str]:
    """Of these files (all, by default) the ones whose content nobody has trusted."""
    wanted = list(files(root) if names is None else names)
    if not wanted:
        return []
    known = _known(root)
    return [name for name in wanted if known.get(name) != _digest(root, name) or name not in known]


def trust(root: str, names: Iterable[str]) -> None:
    """Remember the content of these files as trusted."""
    folder = config.user_folder()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, "Cannot remember what is trusted") from error
    with log.Lock(f"{folder}/trust.lock", "The list of trusted files"):
        raw = read_file(_place())
        everything: dict[str, Any] = json.loads(raw) if raw else {"version": 1, "projects": {}}
        marks = {name: mark for name in names if (mark := _digest(root, name))}
        mine = everything["projects"].setdefault(root, {})
        mine.update(marks)
        write_file(_place(), json.dumps(everything, indent=1, sort_keys=True) + "\n", mode=0o600)


def require(root: str, names: Iterable[str]) -> None:
    """Refuse, naming what would be trusted."""
    missing = untrusted(root, names)
    if missing:
        raise NotTrusted(
            f"Not trusted yet: {', '.join(missing)}. Nothing was run.",
            "Read them, then: overhand trust",
            files=missing,
        )
