"""Approval: which callers may move an item, what the task is made of, and that exactly one per item succeeds."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.agents import agent_files, choose_agent, find_agent, find_driver
from overhand.documents import (
    Handoff,
    KeyFile,
    decode_text,
    parse_request,
    request_file_name,
    request_to_handoff,
    wanted_contract,
    with_kind_defaults,
)
from overhand.drafts import Brief, Draft, build_draft
from overhand.errors import Busy, NotAllowed, Refused, StorageUnavailable
from overhand.items import item as places
from overhand.items import sync, unrecorded
from overhand.policy import Caller, agent_of_route, check_route_mode, require_known, require_trusted, route_of
from overhand.record import ABSENT, Accepted, ChildRefused, Notice, StageSet, keep_environment
from overhand.system import Lock, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.documents import Handoff
    from overhand.items.item import ItemPlace
    from overhand.policy import Actor, Config, Route
    from overhand.record import By, Event, Store, Task

LINE = 700  # characters of an item's line that the record keeps
MOVES: dict[str, dict[str, tuple[str, ...]]] = {
    "person": {
        "needs": ("delegated", "next", "done", "dismissed"),
        "delegated": ("needs",),
        "next": ("needs",),
        "claimed": ("delegated", "needs", "done"),  # when no run is live
        "done": ("needs",),
    },
    "run": {"delegated": ("claimed",), "next": ("claimed",)},
    "overhand": {"claimed": ("done", "delegated", "next", "needs")},
}
_MEANING = {
    "needs": "nobody has approved it",
    "delegated": "it is approved and waits to be started",
    "next": "it is approved for the next run that somebody asks for",
    "claimed": "somebody works on it",
    "done": "it is done",
}
_NEXT = {
    "needs": "Approve it first: overhand item approve {item}",
    "delegated": "Take the approval back first: overhand item needs {item}",
    "next": "Take the approval back first: overhand item needs {item}",
    "claimed": "Wait for it, or put it back: overhand item needs {item}",
    "done": "To have it done again: overhand item approve --again {item}",
}


def allows(role: str, now: str, to: str, *, live: bool = False) -> bool:
    """Whether this role (person, run, overhand) may make this step; only Overhand takes an item from a live run."""
    if live and role == "person" and now == "claimed":
        return False
    return to in MOVES.get(role, {}).get(now, ())


def refusal(role: str, now: str, to: str, item: str, holder: str = "") -> tuple[str, str]:
    """Why not, and what to type instead; `holder` works on it."""
    why = f"held by {holder}" if holder else _MEANING.get(now, "it has no tag of a known stage")
    task = holder.removeprefix("task ")
    hint = f"Stop it first: overhand stop {task}" if task != holder else _NEXT.get(now, "")
    able = "Only a person can do that." if role == "run" and to in MOVES["person"].get(now, ()) else ""
    verb = {"delegated": "approved", "next": "approved", "dismissed": "dismissed", "needs": "put back"}.get(to, to)
    return f"{item} cannot be {verb} now: {why}.{' ' + able if able else ''}", hint.format(item=item)


def require_approver(store: Store, caller: Caller, what: str, *, terminal: bool, allowed: bool) -> str:
    """How this approval is a person's; a run's attempt is refused and kept in its log."""
    require_known(caller, what)
    if not caller.is_person:
        why = f"{what} is for a person; this was called from inside run {caller.run}."
        error = NotAllowed(why, "Leave the item as it is: a person sees it with `overhand item list`.")
        if caller.task is not None:
            event = ChildRefused(code=error.code, title=what[:200], why=why[:500])
            with store.lock(caller.task, caller.by("item")) as locked:
                locked.append(event, Notice(text=f"{what} was tried from inside the run, and refused."))
        raise error
    if terminal:
        return "terminal"
    if allowed:
        return "setting"
    raise NotAllowed(
        f"{what} needs a person at a terminal.",
        "Type it in a terminal, or set approve_without_terminal = true in your own settings (not the project's).",
    )


def may_move(store: Store, place: ItemPlace, to: str) -> Task | None:
    """The record of the item, if a person may make this step; else a refusal that says what to type instead."""
    task = places.record_of_item(store, place)
    if task is not None and (at := places.original_place(store, task, place)) is not None:
        hint = "To make it an item of its own, take the comment with the id away."
        raise Refused(f"{place.name} is a copy of {at}: it carries the id of the same task.", hint)
    live = task is not None and task.current_run is not None
    if not allows("person", place.stage, to, live=live):
        raise Refused(*refusal("person", place.stage, to, place.name, item_holder(task)))
    return task


def may_approve(store: Store, place: ItemPlace, *, again: bool, past: places.PastItems | None = None) -> Task | None:
    """The same for an approval; what has run before is approved again only by saying so."""
    task = places.record_of_item(store, place)
    if place.stage == "needs" and (was := (past or places.PastItems(store)).task_of(place)) is not None:
        if was.status is None:
            raise Refused(f"{place.name} is task {was.handle} already.", f"Look at it: overhand show {was.handle}")
        if not again:
            raise _tried(place, was)
    if task is None and place.stage in ("delegated", "next"):
        return None  # a typed tag: the record is made now
    if task is not None and task.status is not None and place.stage in ("needs", "done"):
        if task.runs and not again:
            raise _tried(place, task)
        may_move(store, place, "needs" if place.stage == "done" else "delegated")
        return task
    return may_move(store, place, "delegated")


def _tried(place: ItemPlace, task: Task) -> Refused:
    return Refused(
        f"{place.name} was task {task.handle}, judged {task.status}.",
        f"To have it done as a new task: overhand item approve --again {place.name}",
    )


def item_holder(task: Task | None) -> str:
    """The process or person that works on the item of this task."""
    if task is None:
        return ""
    if task.current_run is not None:
        return f"task {task.handle}"
    if sync.wanted_stage(task) == "claimed":
        by = (task.staged and task.staged.by) or {}
        since = (task.staged and task.staged.t) or task.created
        return f"{by.get('user') or 'somebody outside'} since {since}"
    return ""


def restage_item(store: Store, task: Task, by: By, events: list[Event]) -> Task:
    """A person's step by a verb: the record first, then the tag; only if the task is still as the verb saw it."""
    with store.lock(task.id, by) as locked:
        now = locked.task
        if now.current_run is not None:
            raise Refused(f"Task {task.handle} works on it.", f"Stop it first: overhand stop {task.handle}")
        if (now.status, len(now.runs), now.staged) != (task.status, len(task.runs), task.staged):
            raise _moved_on(now)
        locked.append(*events, sync=True)
        sync.sync_recorded_step(locked)
        return locked.task


def hand_item_back(store: Store, task: Task, by: By) -> Task:
    """An item that was claimed outside Overhand is for an agent again; its tag may be older than the record."""
    if sync.wanted_stage(task) != "claimed":
        raise _moved_on(task)
    keep_environment(store, task.id, os.environ)
    return restage_item(store, task, by, [Accepted()])


def _moved_on(task: Task) -> Refused:
    """Something else happened to the item between the look at its tag and the step."""
    how = f"is {task.status} by now" if task.status else "has changed since you saw it"
    return Refused(f"Task {task.handle} {how}.", f"Look at it: overhand show {task.handle}")


def claim_item_outside(store: Store, place: ItemPlace, by: By) -> Task:
    """Claim an approved item for work outside Overhand; the lock of its task decides between two claims."""
    task = places.record_of_item(store, place)
    if task is None:
        raise Refused(*refusal("run", place.stage if place.stage != "next" else "needs", "claimed", place.name))
    with store.lock(task.id, by) as locked:
        sync.sync_locked_tag(locked)
        now = sync.wanted_stage(locked.task)
        if not allows("run", now, "claimed") or locked.task.runs:
            raise Refused(*refusal("run", now, "claimed", place.name, item_holder(locked.task)))
        locked.append(StageSet(stage="claimed", how="outside"), sync=True)
        sync.sync_recorded_step(locked)
        return locked.task


def queue_item(store: Store, task_id: str, place: ItemPlace, by: By) -> None:
    """Have the item that was approved as next run now."""
    with store.lock(task_id, by) as locked:
        sync.sync_locked_tag(locked)
        task = locked.task
        now = sync.wanted_stage(task)
        if now not in ("next", "delegated") or task.queued:
            raise Refused(*refusal("run", now, "claimed", place.name, item_holder(task)))
        before = {"run": task.runs[-1].id} if task.runs else ABSENT
        keep_environment(store, task_id, os.environ)
        locked.append(Accepted(resume=before), sync=True)


# approving


def approve_item(
    actor: Actor, place: ItemPlace, *, stage: str = "delegated", how: str = "terminal", shown: bool = False
) -> Task:
    """Make the task, which is the record, then write it into the tag; exactly one approval of an item succeeds.

    If it was shown to a person first, its whole document must still be what they saw.
    """
    store, by = actor.store, actor.by
    drafted = draft_of_item(actor, place, stage=stage, how=how)
    store.ensure()
    with Lock(f"{store.own}/items.lock", "The list of approvals"):
        now = (place.key, place.stage)
        same = places.patiently(
            f"{store.root}/{place.path}",
            lambda: [one for one in places.items_in_file(store.root, place.path) if (one.key, one.stage) == now],
        )
        if len(same) != 1 or same[0].task != place.task or (shown and same[0].whole != place.whole):
            raise _changed(store, place, same)
        (task,) = store.new_tasks([drafted.task], by, start=False, env=os.environ)
        try:
            task = sync.sync_tag(store, by, task.id)
        except StorageUnavailable:
            task = store.recorded(task.id)  # it is approved, and the supervisor writes the tag when that is possible
    unrecorded.forget(store, place.key)
    if task.status == "rejected":
        raise Refused(task.summary, "Look again: overhand item list")
    return task


def _changed(store: Store, place: ItemPlace, same: list[ItemPlace]) -> Refused:
    """Another approval was faster, or the line has changed."""
    now = [
        one for one in places.items_in_file(store.root, place.path) if one.key == place.key and one.task != place.task
    ]
    if now and (task := places.record_of_item(store, now[0])) is not None:
        hint = f"Look at it: overhand show {task.handle}"
        return Refused(f"{place.name} is approved already, as task {task.handle}.", hint)
    if len(same) > 1:
        why = f"{place.path} has {len(same)} lines like {place.text[:60]!r}: which one is meant cannot be told."
        return Refused(why, "Make them differ, or take one away.")
    return Refused(f"{place.name} has changed since you saw it.", "Look again: overhand item list")


def draft_of_item(actor: Actor, place: ItemPlace, *, stage: str, how: str) -> Draft:
    """The task as it would be made, if nothing speaks against it."""
    store, config = actor.store, actor.config
    route = route_of(config.routes, place.kind)
    name = agent_of_route(route, agent_files(store.root)) or choose_agent(store.root, config)[0]
    agent = find_agent(store.root, name, config)
    elsewhere = find_driver(agent.driver).open_job is not None
    check_route_mode(route, agent.name, agent.driver, elsewhere=elsewhere)
    require_trusted(store.root, agent.trusted_with)
    asked = str(actor.by.get("user") or actor.by.get("kind") or "")
    item = _item(config, place, route, stage=stage, how=how, asked=asked)
    return build_draft(brief_of(store.root, config, place, item), agent, Caller(), store, config)


def brief_of(root: str, config: Config, place: ItemPlace, item: dict[str, Any]) -> Brief:
    handoff, contract = with_kind_defaults(read(root, place), place.kind), config.kind(place.kind).contract
    if contract and not wanted_contract(handoff):
        handoff = replace(handoff, return_requirements=f"{handoff.return_requirements}\nUse: {contract} contract")
    return Brief(
        kind=place.kind,
        handoff=handoff,
        priority=f"P{place.priority}",
        item=item,
        name=place.name,
        fix="Say in the file what is to be done.",
    )


def _item(config: Config, place: ItemPlace, route: Route, *, stage: str, how: str, asked: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "path": place.path,
        "kind": place.kind,
        "stage": stage,
        "was": place.stage,
        "digest": place.digest,
        **({"whole": place.whole} if place.whole else {}),
        "line": place.text[:LINE],
        "how": how,
        "mode": route.mode,
        "rank": route.priority,
        "weights": [f"#P{place.priority}", *([f"#{place.effort}"] if place.effort else [])],
    }
    if place.task:
        item["again"] = place.task
    if not place.on_tags_line:  # it becomes a request of its own
        item |= {"origin": place.path, "asked": asked}
        item["path"] = f"{config.requests}/{request_file_name(place.kind, place.text)}"
    return item


def read(root: str, place: ItemPlace) -> Handoff:
    """What the item asks for, as a task."""
    source = KeyFile(place.path, "where this was asked for")
    if not place.on_tags_line:
        context = f"Noted in line {place.line} of {place.path}."
        return Handoff(task=place.text, context=context, key_files=(source,))
    text, _ = decode_text(read_file(f"{root}/{place.path}") or b"")
    request, _ = parse_request(text)
    handoff = request_to_handoff(request, source=place.path)
    return replace(handoff, task=handoff.task or place.text, key_files=(*handoff.key_files, source))


def reconcile_items(store: Store, by: By, states: Iterable[Task] | None = None) -> list[Task]:
    """Finish what a killed process left undone; the tasks (all, by default) that have an item."""
    finished = []
    for task in store.tasks() if states is None else states:
        if task.item is not None:
            try:
                finished.append(sync.sync_tag(store, by, task.id) if sync.is_tag_behind(task) else task)
            except (Busy, StorageUnavailable):
                finished.append(task)  # another process is writing the file or the record, or nothing can be written
    return finished
