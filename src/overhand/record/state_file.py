"""JSON files that Overhand keeps of a task; one that is not what was written is named, not guessed at."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from overhand.errors import Damaged
from overhand.system import MAX_DOCUMENT, read_file

if TYPE_CHECKING:
    from collections.abc import Callable


def read_state(
    path: str, limit: int = MAX_DOCUMENT, fits: Callable[[Any], bool] | None = None
) -> dict[str, Any] | None:
    """The object in a file; None if there is no file. Raises `Damaged` for anything else, or if it doesn't fit."""
    raw = read_file(path, limit)
    if raw is None:
        return None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or (fits is not None and not fits(found)):
        name = os.path.basename(path)
        raise Damaged(f"{name} is damaged: it is not what Overhand wrote.", f"Look at it: {path}; or delegate anew.")
    return found
