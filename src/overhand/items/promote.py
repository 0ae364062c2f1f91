"""A tag in running text becomes a request of its own: a file that holds the item, and a mention where it stood."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.documents import Request, item_digest, render_request, scan_tags, tag_comment
from overhand.errors import NotFound, storage_failed
from overhand.system import edit_file, random_text, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record import Item, LockedTask, Task
    from overhand.system import Patch

_MOST = 1000  # files of one name


def item_of(task: Task) -> Item:
    """The item of a task that has one."""
    if task.item is None:
        raise LookupError(f"task {task.id} has no item")
    return task.item


def free_names(path: str) -> Iterator[str]:
    """The path, and what it is called where that is taken: `X.md`, `X_2.md`, …"""
    yield path
    base = path.removesuffix(".md")
    yield from (f"{base}_{number}.md" for number in range(2, _MOST))


def put(locked: LockedTask) -> str:
    """Make the request's file, never over another one; where it is now, relative to the project."""
    task, root = locked.task, locked.store.root
    item = item_of(task)
    mark = tag_comment(locked.task_id).encode()
    for path in free_names(item.path):
        target = f"{root}/{path}"
        if os.path.lexists(target):
            if mark in (read_file(target) or b""):
                return path  # made by a process that was killed before it recorded that
            continue
        if create_file(target, document(task)):
            return path
    raise NotFound(f"There are too many files like {item.path}.", "Move some of them.")


def create_file(target: str, text: str) -> bool:
    """A whole file appears under its name, or none; False if the name was taken meanwhile."""
    spare = f"{os.path.dirname(target)}/.{os.path.basename(target)}.{os.getpid()}-{random_text(4)}.tmp"
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            view = memoryview(text.encode("utf-8", "replace"))
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.link(spare, target)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise storage_failed(error, f"Cannot write {os.path.basename(target)}") from error
    finally:
        if os.path.lexists(spare):
            os.unlink(spare)


def document(task: Task) -> str:
    """The request as the record tells it."""
    item = item_of(task)
    tag = f"#{item.stage}-{item.kind} {tag_comment(task.id)}"
    return render_request(
        Request(
            kind=item.kind,
            title=task.title,
            what=item.line,
            context=f"Noted in `{item.origin}`.",
            requester=item.asked,
            tags=(tag, *item.weights),
        )
    )


def mention(locked: LockedTask, path: str) -> None:
    """Where the tag stood, an escaped one and the way to the request; in one edit."""
    item = item_of(locked.task)
    origin = item.origin
    link = os.path.relpath(path, os.path.dirname(origin) or ".")
    target = f"<{link}>" if set(link) & set(" ()") else link
    shown = f"([{os.path.basename(path).removesuffix('.md')}]({target}))".encode()

    def change(raw: bytes) -> Patch | None:
        named = [tag for tag in scan_tags(raw) if (tag.name, tag.task) == (f"#{item.was}-{item.kind}", item.again)]
        found = [tag for tag in named if item_digest(raw, tag) == item.digest]
        if len(found) != 1:
            if shown in raw:
                return None  # written by a process that was killed before it recorded that
            what = "is no longer as it was" if not found else f"stands there {len(found)} times"
            why = f"{origin}#{item.kind} {what}: {item.line[:80]!r}. {path} was made."
            raise NotFound(why, "Look again: overhand item list")
        (tag,) = found
        return tag.start, tag.span_end, b"`" + tag.name.encode() + b"` " + shown

    edit_file(f"{locked.store.root}/{origin}", change)
