"""The JSON Schemas of the documents, by name."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

_FOLDER = files("overhand.documents.schemas")
SCHEMAS = sorted(path.name.removesuffix(".json") for path in _FOLDER.iterdir() if path.name.endswith(".json"))


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema of a document; a contract may be named as in its block (`RESEARCH_OUTPUT`)."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{name.lower()}.json").read_text())
    return found
