"""What the daemon tells over its socket: how it is, and which tags stand where."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.documents import tags
from overhand.supervisor.queue import in_order
from overhand.system.jsonline import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.items.index import Hit, Index
    from overhand.supervisor.tag_daemon import Dispatch


def status(daemon: Dispatch) -> bytes:
    """The daemon as it is now."""
    boss, index = daemon.boss, daemon.index
    told = {
        "pid": os.getpid(),
        "watches": daemon.on,
        "since": daemon.since or None,
        "folders": len(index.tree.folders) if index is not None else 0,
        "files": len(index.hits) if index is not None else 0,
        "complete": index is not None and index.tree.is_whole,
        "scanned": daemon.scanned if index is not None else None,
        "pending": sorted(path for path in daemon.changed if path),
        "queue": [state["task_id"] for state in in_order(boss.queue.values())],
        "running": sorted(boss.slots),
    }
    return dumps(told).encode("utf-8", "surrogateescape")


def find(index: Index, asked: dict[str, Any]) -> bytes | None:
    """Exactly what a search would print, or None if only a search can tell."""
    where, pattern = str(asked.get("where")), str(asked.get("pattern"))
    folder = "" if where == index.root else where.removeprefix(f"{index.root}/") + "/"
    if folder.startswith("/") or not index.can_answer(folder, pattern):
        return None
    found = index.find(folder, pattern, tags_only=bool(asked.get("tags_only")))
    shown, form, cut = str(asked.get("shown", "")), asked.get("form"), len(folder)
    lines = (line for path, hits in found for line in _lines(f"{shown}{path[cut:]}", hits, form))
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _lines(path: str, hits: list[Hit], form: object) -> Iterator[str]:
    if form == "files":
        yield path
    elif form == "rows":
        for hit in hits:
            weights = (hit.priority, hit.effort)
            yield dumps(tags.row(path, hit.line, hit.name, hit.on_tags_line, weights, hit.task, hit.text))
    else:
        yield from {hit.line: f"{path}:{hit.line}: {hit.text}" for hit in hits}.values()
