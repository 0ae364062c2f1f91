"""Tags that are typed into files: each counts as a person's approval, or waits until a person has seen it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.drafts import Brief, build_draft
from overhand.errors import Busy, OverhandError, StorageUnavailable
from overhand.items import approve, find, sync, unrecorded
from overhand.items import item as places
from overhand.policy import Actor, Caller, user_name
from overhand.record import Item, Notice, TagHeldBack, record_times
from overhand.system import epoch_of, is_being_written

if TYPE_CHECKING:
    from overhand.items.item import ItemPlace
    from overhand.policy import Config
    from overhand.record import By, Store, Task

_SOON = 1.0  # seconds until the daemon knows of a change


def handle_changed_file(
    store: Store,
    config: Config,
    path: str,
    by: By,
    *,
    since: float | None = None,
    until: float | None = None,
    past: places.PastItems | None = None,
) -> list[str]:
    """Look at a file that has changed: records that disagree are shown again, what was typed is taken or waits.

    The daemon passes the times between which the file was changed. Returns the tasks that the supervisor should check.
    """
    touched: list[str] = []
    past = past or places.PastItems(store)
    if find.is_elsewhere(store.root, path):
        return touched
    is_unfinished = is_being_written(f"{store.root}/{path}")
    there = places.items_in_file(store.root, path)
    if is_unfinished and not there:
        raise Busy(f"{path} is being written by another process.", "Try again in a moment.")
    if until is not None and _changed(f"{store.root}/{path}") > until:
        until = None  # it was changed again just now
    asking = {place.key for place in there if not place.task and _asks(config, place)}
    for key in unrecorded.unrecorded_tags(store):
        if key.startswith(f"{path}#") and key not in asking:
            unrecorded.forget(store, key)
    for place in there:
        task = places.record_of_item(store, place)
        task_id: str | None = None
        if task is not None and places.original_place(store, task, place) is None:
            task_id = sync.sync_tag(store, by, place.task).id
        elif place.task:
            continue  # a copy, or an id that is not known here
        elif place.stage in ("delegated", "claimed") and _came_along(store, config, place):
            if place.on_tags_line and place.key not in unrecorded.unrecorded_tags(store):
                unrecorded.park(store, place.key, "it came with the project's files and was not typed here")
        elif place.on_tags_line and place.stage == "delegated":
            task_id = _typed(store, config, place, by, past, (since, until))
        elif place.on_tags_line and place.stage == "needs":
            task_id = _noted(store, config, place, by, past)
        elif place.stage == "claimed" and place.key not in unrecorded.unrecorded_tags(store):
            task_id = outside_claim(store, config, place, by)
        if task_id is not None:
            touched.append(task_id)
    return touched


def _asks(config: Config, place: ItemPlace) -> bool:
    """Whether the tag asks for something by itself."""
    return place.stage in ("delegated", "claimed") or (place.stage == "needs" and place.tag in config.auto_approved)


def _came_along(store: Store, config: Config, place: ItemPlace) -> bool:
    """Whether the tag was there before the project was used here, or its folder replaced: it was not typed here."""
    route = config.route(place.kind)
    if place.stage == "delegated" and route is not None and route.auto_approve:
        return False  # no approval is needed, so it does not matter where it came from
    return _changed(f"{store.root}/{place.path}") < epoch_of(max(record_times(store.home)))


def _changed(path: str) -> float:
    """When the file was last written or moved."""
    try:
        return os.stat(path).st_ctime
    except OSError:
        return 0.0


def _typed(
    store: Store,
    config: Config,
    place: ItemPlace,
    by: By,
    past: places.PastItems,
    window: tuple[float | None, float | None],
) -> str | None:
    """A tag that says delegated without a record: a person's typing, unless a run may have written it."""
    earlier = past.task_of(place)
    if earlier is not None and _is_the_same(earlier, place):
        task = sync.sync_tag(store, by, earlier.id)
        if task.runs or task.status is None:
            return task.id
        earlier = None  # with its id the approval was taken back: what stands here now was typed anew
    if place.key in unrecorded.unrecorded_tags(store):
        return None
    if earlier is not None:
        why = f"an older text of task {earlier.handle}, judged {earlier.status}, may have come back"
        unrecorded.park(store, place.key, f"{why}; to have it done again, approve it")
        return None
    route = config.route(place.kind)
    if route is not None and route.auto_approve:  # no approval is needed, so it does not matter which process wrote it
        return _taken(store, config, place, by, "auto")
    if config.approval == "record":
        unrecorded.park(store, place.key, "only what is approved with `overhand item approve` is started")
        return None
    since, until = window
    at, margin = (unrecorded.tags_known_at(store), unrecorded.MARGIN) if since is None else (since, _SOON)
    alive = unrecorded.alive_since(store, at, until, margin)
    if route is None or alive:
        runs = ", ".join(f"task {task.handle}" for task, _ in alive[-3:])
        why = f"it may have been written by a run: {runs}" if route else f"there is no route for {place.kind}"
        unrecorded.park(store, place.key, why)
        text = f"{place.tag} in {place.path} appeared while this run was alive; it waits for a person."
        for task, run in alive[-3:]:
            with store.lock(task.id, by) as locked:
                if text not in locked.task.notices:
                    locked.append(TagHeldBack(run=run.id, item=place.name), Notice(text=text))
        return None
    return _taken(store, config, place, by, "typed")


def _noted(store: Store, config: Config, place: ItemPlace, by: By, past: places.PastItems) -> str | None:
    """A tag that says needs without an id: an older text that came back, or a kind that needs no approval."""
    earlier = past.task_of(place)
    if earlier is not None:
        if earlier.runs and _is_the_same(earlier, place):
            return sync.sync_tag(store, by, earlier.id).id
        return None  # `item list` shows its task, and only `approve --again` approves it
    if place.tag not in config.auto_approved or place.key in unrecorded.unrecorded_tags(store):
        return None
    return _taken(store, config, place, by, "auto")


def _taken(store: Store, config: Config, place: ItemPlace, by: By, how: str) -> str | None:
    """The task of what counts as approved; if it cannot be made, a person sees why."""
    if how != "auto":
        by = {**by, "kind": "person", "user": user_name()}
    try:
        return approve.approve_item(Actor(store, config, by), place, how=how).id
    except (Busy, StorageUnavailable):
        raise  # the caller retries soon
    except OverhandError as error:
        unrecorded.park(store, place.key, error.message)
        return None


def _is_the_same(earlier: Task, place: ItemPlace) -> bool:
    """Whether the record wins: it is open, or the document reads as it did when it was approved."""
    item = earlier.item or Item()
    return earlier.status is None or (place.whole != "" and item.whole == place.whole)


def outside_claim(store: Store, config: Config, place: ItemPlace, by: By) -> str:
    """Record a claim made outside Overhand, so that it is not started and a person can see it."""
    item = {
        "path": place.path,
        "kind": place.kind,
        "stage": "claimed",
        "was": "claimed",
        "digest": place.digest,
        "line": place.text[: approve.LINE],
        "how": "outside",
    }
    route = config.route(place.kind)
    brief = Brief(
        title=place.text[:200] or place.name,
        agent=route.agent if route else None,
        kind=place.kind,
        handoff=approve.read(store.root, place),
        priority=f"P{place.priority}",
        item=item,
    )
    (task,) = store.new_tasks([build_draft(brief, None, Caller(), store, config).task], by, start=False)
    task = sync.sync_tag(store, by, task.id)
    if task.status is not None:  # its line is not unique: reported once, not at every look
        unrecorded.park(store, place.key, task.summary)
    return task.id
