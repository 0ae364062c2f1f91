"""Items as they stand in files: what an item is before it has an id, and how people name it."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from overhand.documents import TAG_STAGES, item_digest, item_weights, kind_of_tag, scan_tags, stage_of_tag
from overhand.errors import BadInput, Busy, NotFound, OverhandError, Refused
from overhand.items import find, sync
from overhand.record import LOG_FILE
from overhand.system import MAX_DOCUMENT, is_being_written, load_line, read_file
from overhand.words import is_name, is_task_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from overhand.documents import Tag
    from overhand.policy import Config
    from overhand.record import Store, Task


_LOOKS, _MOST_LOOKS = 6, 100  # while no process writes the file, and in all
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class ItemPlace:
    path: str  # relative to the project
    line: int
    kind: str
    stage: str
    digest: str
    text: str  # its line without tags; of the Tags line, the document's title
    priority: int
    effort: str
    task: str  # the id behind the tag
    on_tags_line: bool
    whole: str = ""  # of an item of the Tags line: the digest of its document, without tags

    @property
    def name(self) -> str:
        return f"{self.path}#{self.kind}" if self.on_tags_line else f"{self.path}:{self.line}#{self.kind}"

    @property
    def key(self) -> str:
        """Independent of the line's number."""
        return f"{self.path}#{self.kind}#{self.digest[:16]}"

    @property
    def tag(self) -> str:
        return f"#{self.stage}-{self.kind}"


def items_in_file(root: str, path: str) -> list[ItemPlace]:
    """The items of one file; nothing for one that cannot be read, is too big, or is no text.

    An alert that is over reads `#done-alert` and has no id: it was never an item.
    """
    raw = read_file(f"{root}/{path}")
    if raw is None or len(raw) > MAX_DOCUMENT or b"#" not in raw or b"\0" in raw[:8000]:
        return []
    found = scan_tags(raw)
    staged = [tag for tag in found if is_name(kind_of_tag(tag.name)) and (tag.name != "#done-alert" or tag.task)]
    whole = _digest(raw, found) if any(tag.on_tags_line for tag in staged) else ""
    return [_found(raw, tag, path, whole) for tag in staged]


def _digest(raw: bytes, found: list[Tag]) -> str:
    """Of a document without its tags: what a person has read before approving the whole of it."""
    kept, at = sha256(), 0
    for tag in found:
        kept.update(raw[at : tag.start].rstrip(b" \t"))
        at = tag.span_end
    kept.update(raw[at:])
    return kept.hexdigest()


def _found(raw: bytes, tag: Tag, path: str, whole: str) -> ItemPlace:
    text = tag.on.bare(raw).decode("utf-8", "replace").strip()
    priority, effort = item_weights(raw, tag)
    return ItemPlace(
        path=path,
        line=tag.line,
        kind=kind_of_tag(tag.name),
        stage=stage_of_tag(tag.name),
        digest=item_digest(raw, tag),
        text=(_title(raw, kind_of_tag(tag.name)) or os.path.basename(path)) if tag.on_tags_line else _plain(text),
        priority=priority,
        effort=effort,
        task=tag.task,
        on_tags_line=tag.on_tags_line,
        whole=whole if tag.on_tags_line else "",
    )


def _plain(text: str) -> str:
    """A line of a list or a table without what makes it one."""
    text = text.lstrip("-+*>#| \t")
    box = text[:3].lower()
    return (text[3:] if box in ("[ ]", "[x]") else text).strip(" \t|")


def _title(raw: bytes, kind: str) -> str:
    """The document's; that a request is one, and of which kind, stands in its tag already."""
    found = next((line for line in raw[:8192].splitlines() if line.startswith(b"# ")), b"")
    title = found[2:].decode("utf-8", "replace").strip()
    head, _, rest = title.partition(":")
    return rest.strip() if rest.strip() and head.lower() == f"{kind} request" else title


def all_items(
    root: str, stages: Iterable[str] = TAG_STAGES, warn: Callable[[str], None] = lambda _: None
) -> Iterator[ItemPlace]:
    """Every item of the project at one of these stages; `warn` gets what cannot be read."""
    wanted = set(stages)
    told: dict[str, None] = {}
    kept = set(find.holding(root, *(f"#{stage}-" for stage in wanted), warn=told.setdefault))
    for text in told:
        warn(text)
    for path in find.documents(root, kept):
        if os.path.getsize(f"{root}/{path}") > MAX_DOCUMENT:
            warn(f"{path} has more than {MAX_DOCUMENT >> 20} MB; its items are not looked for.")
        yield from (place for place in items_in_file(root, path) if place.stage in wanted)


def resolve_item(root: str, here: str, written: str) -> ItemPlace:
    """The item that `path#kind` or `path:line#kind` means; the path is as seen from `here`."""
    place, hash_, kind = written.rpartition("#")
    if not hash_ or not place or not kind:
        raise BadInput(f"{written!r} is no item.", "Write it as path#kind or path:line#kind; see: overhand item list")
    head, colon, number = place.rpartition(":")
    line = int(number) if colon and number.isascii() and number.isdigit() and len(number) < 9 else 0
    path = inside(root, os.path.join(here, head if line else place))
    found = patiently(
        f"{root}/{path}",
        lambda: [one for one in items_in_file(root, path) if one.kind == kind and line in (0, one.line)],
    )
    if len(found) == 1:
        return found[0]
    if len(found) > 1 and not line and sum(one.on_tags_line for one in found) == 1:
        return next(one for one in found if one.on_tags_line)
    if found:
        some = ", ".join(one.name for one in found[:5])
        raise BadInput(f"{written} fits {len(found)} items: {some}.", "Say the line: path:line#kind")
    if os.path.getsize(f"{root}/{path}") > MAX_DOCUMENT:
        raise Refused(f"{path} has more than {MAX_DOCUMENT >> 20} MB.", "Move what is to be done into a smaller file.")
    there = sorted({one.name for one in items_in_file(root, path)})
    near = f" It has {', '.join(there[:5])}." if there else ""
    raise NotFound(f"There is no item {written}.{near}", "See them all: overhand item list")


def patiently(path: str, seek: Callable[[], list[ItemPlace]]) -> list[ItemPlace]:
    """What is found; an empty answer is checked again for a moment, and never believed while the file is written."""
    looks = 0
    for _ in range(_MOST_LOOKS):
        looks += not is_being_written(path)
        if (found := seek()) or looks == _LOOKS:
            return found
        time.sleep(_PAUSE)
    raise Busy(f"{os.path.basename(path)} is being written by another process.", "Try again in a moment.")


def inside(root: str, path: str) -> str:
    """The path relative to the project; what lies outside it, or in Overhand's own folders, holds no items."""
    real = os.path.realpath(path)
    if not real.startswith(root + os.sep):
        raise BadInput(f"{path} is not in this project.", f"Items are looked for below {root}.")
    relative = real[len(root) + 1 :]
    if relative.split(os.sep)[0] in (".agent-workspaces", ".git") or find.is_elsewhere(root, relative):
        raise Refused(f"{relative} holds no items: it is not watched.", "See them all: overhand item list")
    if not os.path.isfile(real):
        raise NotFound(f"There is no file {relative}.", "See what there is: overhand item list")
    return relative


def record_of_item(store: Store, place: ItemPlace) -> Task | None:
    """What is recorded about the item; an id that is not known here says nothing."""
    if not place.task or not is_task_id(place.task):
        return None
    try:
        task = store.recorded(place.task)
    except OverhandError:
        return None
    return task if task.item is not None else None


def original_place(store: Store, task: Task, place: ItemPlace) -> str | None:
    """Where the item of this id really is, if not here."""
    shown = task.tag
    if shown is None or shown.path == place.path:
        return None
    there = any(one.task == place.task for one in items_in_file(store.root, shown.path))
    return shown.path if there else None


_PART = 1 << 16
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class PastItems:
    """Which task an item was whose tag has lost its id; the logs are read at the first question, and only once."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def task_of(self, place: ItemPlace) -> Task | None:
        """The newest task that was begun for this item: an older text of its file may have come back."""
        if place.task or not self.names(place.path):
            return None
        there = {one.task for one in items_in_file(self.store.root, place.path)}
        states = self.store.tasks(one for one in self._tasks[place.path] if one not in there)
        return next((task for task in reversed(states) if _was(task, place)), None)

    def names(self, path: str) -> bool:
        """Whether the log of some task names this file as the place of its item."""
        return path in self._tasks

    @cached_property
    def _tasks(self) -> dict[str, list[str]]:
        """Ids by the files that their logs name, newest last; read fast, since there may be thousands of logs."""
        found: dict[str, list[str]] = {}
        for task_id in self.store.ids():
            own = f"{self.store.record(task_id)}/{LOG_FILE}"
            raw = read_file(own, _PART - 1) or b""  # mostly all of it
            if b'"item":{' in raw[: raw.find(b"\n")]:
                for path in _paths(raw if len(raw) < _PART else read_file(own) or b""):
                    found.setdefault(path, []).append(task_id)
        return found


def _paths(raw: bytes) -> set[str]:
    parts = raw.split(b'"path":"')[1:] + raw.split(b'"origin":"')[1:]  # much faster than a pattern for all of it
    if b"\\" not in raw:
        return {part[: part.find(b'"')].decode("utf-8", "surrogateescape") for part in parts}
    found = [match[0] for part in parts if (match := _STRING.match(b'"' + part))]
    return {load_line(path.decode("utf-8", "surrogateescape")) for path in found}


def _was(task: Task, place: ItemPlace) -> bool:
    """Whether this task was made of the item; what was withdrawn before it ran, or dismissed, may be noted anew."""
    item, shown = task.item, task.tag
    if item is None or item.kind != place.kind or sync.wanted_stage(task) == sync.DISMISSED:
        return False
    is_plain = place.stage == "needs" and place.on_tags_line  # before the first run that withdraws the approval
    if not task.runs and (task.status is not None or is_plain):
        return False
    if place.on_tags_line:
        return (shown.path if shown else item.path) == place.path
    return item.origin == place.path and item.digest == place.digest


def items_in_order(found: Iterable[ItemPlace], states: dict[str, Task], config: Config) -> list[ItemPlace]:
    """As they would be started: weight, the route's priority, when they were approved, path."""

    def rank(one: ItemPlace) -> tuple[object, ...]:
        task = states.get(one.task)
        route = config.route(one.kind)
        approved = (task.queued_at or task.created or "") if task else "~"
        return one.priority, route.priority if route else 99.0, approved, one.path, one.line

    return sorted(found, key=rank)
