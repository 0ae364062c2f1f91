"""Asking the project's daemon for something that it holds in memory; light, for `tag find` is to be quick."""

from __future__ import annotations

import os

from overhand.supervisor.client import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record.store import Store


def find(store: Store, where: str, pattern: str, *, tags_only: bool, form: str) -> str | None:
    """What a search in this folder prints, as the daemon has it; None if one must search."""
    if not os.path.exists(f"{store.own}/daemon"):
        return None
    real = os.path.realpath(where)
    if not f"{real}/".startswith(f"{store.root}/") or not os.path.isdir(real):
        return None
    shown = "" if where in (".", "./") else where.rstrip("/") + "/"
    told = ask(
        store,
        {"ask": "find", "where": real, "shown": shown, "pattern": pattern, "tags_only": tags_only, "form": form},
    )
    return None if told is None else told.decode("utf-8", "surrogateescape")
