"""What `doctor` looks at in the project's Markdown: claims, answers that are missing, files that cannot be read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.documents import request, tags
from overhand.documents.text import decode
from overhand.errors import OverhandError
from overhand.items import find
from overhand.system import machine
from overhand.system.files import read_file
from overhand.verbs.examine import NOTE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.documents.tags import Tag
    from overhand.record.task import Task
    from overhand.verbs import Session

_DAY = 86400.0
_HELD = ("claimed", "outside")  # the step that a person took, or how the record was made


def noted(session: Session, states: list[Task]) -> Iterator[Finding]:
    """Everything about tags."""
    by_id = {task.id: task for task in states}
    yield from _outside(states)
    unread: list[str] = []
    try:
        claimed = find.search(session.root, "#claimed-*", warn=unread.append)
        done = find.search(session.root, "#done-*")
    except OverhandError as error:
        yield Finding(
            "unreadable", error.message, "Its items are not seen.", error.hint or "overhand tag find '#needs-*'"
        )
        return
    for text in dict.fromkeys(unread):
        what, path = text.partition(";")[0], text.partition(" cannot be read")[0]
        if os.path.lexists(path):  # else it was there a moment ago
            yield Finding("unreadable", f"{what}.", "Items in it are not seen.", f"ls -ld {path}", NOTE)
    for path, _, found in claimed:
        for tag in found:
            yield from _claim(session, by_id, path, tag)
    for path, _, found in done:
        for tag in found:
            yield from _answered(session, by_id, path, tag)


def _outside(states: list[Task]) -> Iterator[Finding]:
    """Claims that were not made by a run, and are old: typed, or taken with `item claim`."""
    import time

    for task in states:
        item, staged = task.item, task.staged
        if item is None or task.status is not None or (staged.stage if staged else item.how) not in _HELD:
            continue
        age = time.time() - machine.epoch((staged and staged.t) or task.created)
        if age > _DAY:
            shown = task.tag or item
            name = f"{shown.path}#{item.kind}"
            what = f"Somebody claimed {name} {int(age // 3600)} hours ago, to work on it without a run."
            why = "It is never started while somebody holds it."
            yield Finding("outside-claim", what, why, f"overhand item done {name}, or: overhand item needs {name}")


def _claim(session: Session, by_id: dict[str, Task], path: str, tag: Tag) -> Iterator[Finding]:
    """A claim that nobody stands behind."""
    name = f"{os.path.relpath(path, session.root)}:{tag.line}#{tags.kind(tag.name)}"
    back = f"overhand item needs {name}"
    task = by_id.get(tag.task)
    if not tag.task:
        what = f"{name} is claimed, and no task is recorded for it."
        yield Finding("unrecorded-claim", what, "It waits for whoever claimed it.", back, NOTE)
    elif task is None:
        what = f"{name} is claimed for task {tag.task}, which is not here."
        yield Finding("stale-claim", what, "An id without a record is never run.", back)
    elif task.current_run is None and task.item and task.status is not None:
        what = f"{name} is claimed, but task {task.handle} ended: {task.status}."
        told = f"overhand show {task.handle}"
        yield Finding("stale-claim", what, "It looks as if somebody worked on it.", told, task=tag.task, fix="tag")


def _answered(session: Session, by_id: dict[str, Task], path: str, tag: Tag) -> Iterator[Finding]:
    """A request that is done, for which a task is recorded, must say what came of it."""
    task = by_id.get(tag.task)
    if task is None or not tag.on_tags_line or task.status != "completed":
        return
    text, _ = decode(read_file(path) or b"")
    if not request.parse(text)[0].responses:
        what = f"{os.path.relpath(path, session.root)} is done, but has no `## Response`."
        why = "Who asked does not see what came of it."
        yield Finding("missing-response", what, why, f"overhand show {task.handle} --output", NOTE, task=tag.task)
