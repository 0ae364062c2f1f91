"""What an item's file tells of its task: the result under `## Response`, each step back under `## Recovery`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from overhand.documents import appendix
from overhand.documents.lists import FileNote
from overhand.errors import OverhandError
from overhand.system.files import read_file

if TYPE_CHECKING:
    from overhand.record.store import Store
    from overhand.record.task import Task
    from overhand.system.edits import Patch

_VERIFIED = {"all": "VERIFIED", "some": "partly verified", "none": "UNVERIFIED"}


def outcome(task: Task) -> str:
    """The run whose end the file must tell; the task itself, if it ended without one for a reason worth telling."""
    for run in reversed(task.runs):
        if run.has_ended and run.status not in (None, "repair", "limit"):
            return run.id
    return task.id if task.status in ("rejected", "blocked", "completed") else ""


def section(store: Store, task: Task, stage: str, path: str, raw: bytes) -> Patch | None:
    """The part of the file that tells how the last run ended; nothing if there is nothing to tell yet."""
    key = outcome(task)
    if not key:
        return None
    if stage == "done" and task.status == "completed":
        told = f"completed, {_VERIFIED.get(task.verified, task.verified)}"
        files, link = _result(store, task, path)
        return appendix.response(raw, key, told, task.summary, files, link)
    run = next((run for run in task.runs if run.id == key), None)
    date = (run.ended if run else task.judged) or ""
    return appendix.recovery(
        raw, date.replace("T", " ")[:19], _reason(task, key), key, f"Put back to #{stage}-{task.kind}"
    )


def _reason(task: Task, key: str) -> str:
    run = next((run for run in task.runs if run.id == key), None)
    how = f"The run ended ({run.cause}), judged {run.status}" if run else f"It was not started ({task.status})"
    said = " ".join(task.summary.split())[:300]
    if run and said.startswith(f"The run ended ({run.cause})"):
        return said  # without a return, the summary says just that
    return f"{how}. {said}" if said else f"{how}."


def _result(store: Store, task: Task, path: str) -> tuple[list[FileNote], str]:
    """The deliverables, and the way from the item's file to the result."""
    folder = store.folder(task.id)
    if task.judged_run is None:
        return [], ""
    try:
        found = json.loads(read_file(f"{folder}/result.json") or b"{}")
    except (ValueError, OverhandError):
        found = {}
    files = [
        FileNote(one["path"], str(one.get("state", ""))) for one in found.get("deliverables", ()) if one.get("path")
    ]
    known = {one.path for one in files}
    files += [FileNote(name, "changed") for name in found.get("files_modified", ()) if name not in known]
    target = f"{folder}/OUTPUT.md"
    link = os.path.relpath(target, os.path.dirname(f"{store.root}/{path}")) if os.path.exists(target) else ""
    return files, link
