"""Stages of an item that a person sets by hand: claim, done, back to needs, dismiss; and a new item."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.documents import (
    TAG_STAGES,
    Request,
    Tag,
    item_digest,
    patch_swapping_tag,
    read_deliverable,
    render_request,
    request_file_name,
    scan_tags,
)
from overhand.errors import BadInput, NotFound
from overhand.items import (
    DISMISSED,
    PastItems,
    all_items,
    claim_item_outside,
    create_file,
    free_names,
    is_tag_behind,
    item_holder,
    items_in_file,
    items_in_order,
    may_move,
    original_place,
    reconcile_items,
    record_of_item,
    require_approver,
    resolve_item,
    restage_item,
    tag_removal,
    unrecorded_tags,
)
from overhand.policy import Actor, find_caller, load_config, require_person, trusted_config, user_name
from overhand.record import Judged, Overview, StageSet
from overhand.system import edit_file, read_file
from overhand.verbs.tasks import remind_supervisor
from overhand.verbs.verb import Reply, Session
from overhand.words import is_name

if TYPE_CHECKING:
    from overhand.items import ItemPlace
    from overhand.policy import Caller, Config
    from overhand.record import Event, Task
    from overhand.system import Patch

    Row = dict[str, Any]


class ItemSession:
    """What every call needs: the caller, the settings, the tasks that have an item."""

    def __init__(self, session: Session) -> None:
        self.session, self.store, self.root = session, session.store, session.root
        self.caller: Caller = find_caller(session.store)
        self.by = self.caller.by(session.via)
        self.config: Config = trusted_config(session.root)
        self.actor = Actor(session.store, self.config, self.by, session.env)
        self.waiting = unrecorded_tags(session.store)
        self.past = PastItems(session.store)
        self._states: dict[str, Task | None] = {}
        if session.store.exists():  # tasks at rest are read only if a tag leads to them: there may be thousands
            overview = Overview(session.store)
            overview.look()
            self._keep(reconcile_items(session.store, self.by, list(overview.states.values())))

    def _keep(self, states: list[Task]) -> None:
        remind_supervisor(self.session, [task for task in states if task.queued])
        self._states.update({task.id: task for task in states})

    def state(self, place: ItemPlace) -> Task | None:
        """The task of an item, if one is recorded."""
        if place.task not in self._states:
            task = record_of_item(self.store, place)
            self._states[place.task] = None
            if task is not None:
                self._keep(reconcile_items(self.store, self.by, [task]))
        return self._states[place.task]

    def place(self, written: str) -> ItemPlace:
        """The item of this name."""
        return resolve_item(self.root, self.session.folder(), written)

    def all(self, kind: str | None = None, *stages: str) -> list[ItemPlace]:
        """Items in the order in which they would be started."""
        there = all_items(self.root, stages or TAG_STAGES, self.session.tell)
        found = [place for place in there if kind in (None, place.kind)]
        states = {place.task: task for place in found if (task := self.state(place)) is not None}
        return items_in_order(found, states, self.config)

    def may_approve(self, what: str) -> str:
        """How a person gives this approval; refused to agents."""
        allowed = load_config(self.root, project=False).approve_without_terminal
        terminal = self.session.interactive or os.isatty(0)
        return require_approver(self.store, self.caller, what, terminal=terminal, allowed=allowed)

    def row(self, place: ItemPlace) -> Row:
        """An item as every verb shows it."""
        task = self.state(place)
        path = os.path.relpath(f"{self.root}/{place.path}", self.session.folder())
        return {
            "item": place.name.replace(place.path, path, 1),
            "path": path,
            "line": place.line,
            "tag": place.tag,
            "kind": place.kind,
            "stage": place.stage,
            "priority": f"P{place.priority}",
            "effort": place.effort or None,
            "text": place.text,
            "task_id": place.task or None,
            "handle": task.handle if task else None,
            "status": task.status if task else None,
            "run_state": task.run_state if task else None,
            "waits": self._waits(place, task),
        }

    def _waits(self, place: ItemPlace, task: Task | None) -> str | None:
        """What it waits for, if that is a person."""
        if task is not None and (at := original_place(self.store, task, place)):
            return f"a copy of {at}: it is never run"
        if place.task and task is None:
            return f"the id of a task that is not recorded here: {place.task}"
        if place.stage == "needs":
            return self._approval(place)
        if place.stage in ("delegated", "next") and task is None:
            why = self.waiting.get(place.key, {}).get("why", "")
            if not place.on_tags_line and not why:
                return "approval: a tag in a line of text starts nothing by itself"
            return f"approval: no record of one{f' ({why})' if why else ''}"
        if place.stage == "delegated" and task and task.item and task.item.mode == "interactive":
            return f"a person who opens it: overhand item next {place.name}"
        if place.stage == "claimed" and task is not None and (held := item_holder(task)):
            return None if held.startswith("task ") else f"whoever claimed it: {held}"
        return None

    def _approval(self, place: ItemPlace) -> str:
        """What an item at needs waits for; it may be an older text of something that was done."""
        was = self.past.task_of(place)
        if was is None:
            why = self.waiting.get(place.key, {}).get("why", "")
            if not why and self.config.route(place.kind) is None:
                why = f"the settings in force have no route for the kind {place.kind}"
            return f"approval: {why}" if why else "approval"
        if was.status is None:
            return f"it is task {was.handle} already: overhand show {was.handle}"
        return f"was task {was.handle}, {was.status}; once more: overhand item approve --again {place.name}"


def claim(session: Session, words: list[str], **_: Any) -> Reply:
    """Take an approved item to work on it outside Overhand; exactly one caller gets it."""
    items, place = _one(session, words, "claim", "Claiming an item")
    return _moved(items, "claim", place, claim_item_outside(items.store, place, items.by))


def done(session: Session, words: list[str], summary: str | None = None, **_: Any) -> Reply:
    """Mark an item as done outside Overhand."""
    items, place = _one(session, words, "done", "Closing an item")
    if summary and record_of_item(items.store, place) is None:
        session.tell("The summary is not kept: nobody had approved this item, so nothing is recorded about it.")
    summary = summary or f"Done outside Overhand, says {user_name()}."
    judged = Judged(run=None, status="completed", verification="none", summary=summary[:1000])
    return _put(items, place, "done", [_staged("done"), judged])


def needs(session: Session, words: list[str], **_: Any) -> Reply:
    """Put an item back: withdraw an approval, give up an outside claim, or reopen what is done."""
    items, place = _one(session, words, "needs", "Putting an item back")
    return _put_back(items, place, f"{place.name} was put back to needs: the approval is withdrawn.")


def _put_back(items: ItemSession, place: ItemPlace, why: str) -> Reply:
    return _put(items, place, "needs", [Judged(run=None, status="cancelled", summary=why)])


def _put(items: ItemSession, place: ItemPlace, to: str, ending: list[Event]) -> Reply:
    """Another stage; a task that is still open ends with it."""
    task = may_move(items.store, place, to)
    if task is None:
        edit_file(
            f"{items.root}/{place.path}", lambda raw: patch_swapping_tag(raw, _tag(raw, place), f"#{to}-{place.kind}")
        )
    else:
        events = ending if task.status is None else [_staged(to)]
        task = restage_item(items.store, task, items.by, events)
    return _moved(items, to, place, task)


def give_up(items: ItemSession, place: ItemPlace) -> ItemPlace:
    """End an outside claim; the item as it is then, at needs."""
    _put_back(items, place, f"{place.name} was claimed outside, and is approved for an agent now.")
    return resolve_item(items.root, items.root, place.name)


def _staged(stage: str) -> Event:
    return StageSet(stage=stage, how="verb")


def dismiss(session: Session, words: list[str], **_: Any) -> Reply:
    """Remove the tag: the work is not wanted any more."""
    items, place = _one(session, words, "dismiss", "Dismissing an item")
    return _moved(items, "dismiss", place, remove(items, place))


def remove(items: ItemSession, place: ItemPlace) -> Task | None:
    """Remove the tag of an item that is not approved."""
    task = may_move(items.store, place, DISMISSED)
    if task is not None:
        return restage_item(items.store, task, items.by, [_staged(DISMISSED)])
    edit_file(f"{items.root}/{place.path}", lambda raw: tag_removal(raw, _tag(raw, place)))
    return None


def _one(session: Session, words: list[str], do: str, what: str) -> tuple[ItemSession, ItemPlace]:
    """The one item that a person wants to change."""
    if len(words) != 1:
        raise BadInput(f"{do} needs one item.", f"overhand item {do} path#kind; see them: overhand item list")
    items = ItemSession(session)
    place = items.place(words[0])
    require_person(items.caller, what)
    return items, place


def _tag(raw: bytes, place: ItemPlace) -> Tag:
    """The same tag in the file as it is now."""
    wanted = (place.tag, place.task, place.digest)
    same = [tag for tag in scan_tags(raw) if (tag.name, tag.task, item_digest(raw, tag)) == wanted]
    if not same:
        raise NotFound(f"{place.name} has changed since you saw it.", "Look again: overhand item list")
    return min(same, key=lambda tag: abs(tag.line - place.line))  # equal lines are the same item


def file_of_item(task: Task) -> str:
    """Where its tag is, or is going to be."""
    return task.tag.path if task.tag else task.item.path if task.item else ""


def see_to_tag(items: ItemSession, task: Task) -> None:
    """If the step is recorded and the tag could not be written, say so, and have the supervisor do it."""
    if task.item is not None and is_tag_behind(task):
        items.session.tell(f"It is recorded, but {file_of_item(task)} can't be written now; that is tried again.")
        items.session.hand_over([task.id])


def _moved(items: ItemSession, do: str, place: ItemPlace, task: Task | None) -> Reply:
    if task is not None:
        see_to_tag(items, task)
    stage = {"claim": "claimed", "dismiss": None}.get(do, do)
    row = {**items.row(place), "stage": stage, "tag": f"#{stage}-{place.kind}" if stage else None, "waits": None}
    if task is not None:
        row |= {"task_id": task.id, "handle": task.handle, "status": task.status}
    return Reply({"schema": "overhand.item/1", "do": do, "items": [row]})


def new(
    session: Session,
    words: list[str],
    expect: list[str] | None = None,
    criterion: list[str] | None = None,
    priority: str | None = None,
    effort: str | None = None,
    **given: Any,
) -> Reply:
    """Write a request, at needs; an agent may do this too."""
    if len(words) < 2 or not is_name(words[0]):
        raise BadInput(
            "A new item of which kind, and what is to be done?", 'overhand item new fix "what is to be done"'
        )
    items = ItemSession(session)
    kind, title = words[0], " ".join(" ".join(words[1:]).split())
    if items.config.route(kind) is None:
        session.tell(f"There is no route for {kind} yet: it can be noted, but not approved.")
    asked = user_name() if items.caller.is_person else f"{items.caller.path[-1]}, run {items.caller.run}"
    request = Request(
        kind=kind,
        title=title,
        what=given.get("what") or title,
        why=given.get("why") or "",
        context=given.get("context") or "",
        expectations=tuple(read_deliverable(text, "") for text in expect or ()),
        criteria=tuple(criterion or ()),
        requester=asked,
        tags=(f"#needs-{kind}", f"#{priority or 'P2'}", *([f"#{effort}"] if effort else [])),
    )
    path = _write(items, request)
    return Reply({"schema": "overhand.item/1", "do": "new", "items": [items.row(items_in_file(items.root, path)[0])]})


def _write(items: ItemSession, request: Request) -> str:
    """Write a request under a free name."""
    first = f"{items.config.requests}/{request_file_name(request.kind, request.title)}"
    for path in free_names(first):
        if not os.path.lexists(f"{items.root}/{path}") and create_file(f"{items.root}/{path}", render_request(request)):
            return path
    raise NotFound(f"There are too many files like {first}.", "Move some of them.")


def split(items: ItemSession, place: ItemPlace, titles: list[str]) -> list[str]:
    """Write several requests, all at needs, and replace the item by links to them."""
    may_move(items.store, place, DISMISSED)
    common: dict[str, Any] = {
        "context": f"A part of “{place.text}”, noted in `{place.path}`.",
        "requester": user_name(),
        "tags": (f"#needs-{place.kind}", f"#P{place.priority}", *([f"#{place.effort}"] if place.effort else [])),
    }
    made = [_write(items, Request(place.kind, title, title, **common)) for title in titles]
    folder = os.path.dirname(place.path) or "."
    links = ", ".join(f"[{os.path.basename(path)[:-3]}]({os.path.relpath(path, folder)})" for path in made)

    def change(raw: bytes) -> Patch:
        tag = _tag(raw, place)
        return tag.start, tag.span_end, f"`{tag.name}` ({links})".encode()

    edit_file(f"{items.root}/{place.path}", change)
    if read_file(f"{items.root}/{place.path}") and (task := record_of_item(items.store, place)) is not None:
        restage_item(items.store, task, items.by, [StageSet(stage=DISMISSED, how="split")])
    return made
