"""The tag shows what the record says: one function brings the tag of a task's item in line with the task's log.

Approval makes the task, and its id stands in the tag's span. From then on each step is an event first, then one edit of
the file, then a note that the edit was made. Whoever is killed in between is followed by somebody who calls `show`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.documents import tags
from overhand.errors import Busy, NotFound, OverhandError, Refused
from overhand.items import find, promote, response
from overhand.items.promote import item_of
from overhand.system import machine
from overhand.system.edits import edit, together
from overhand.system.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overhand.documents.tags import Tag
    from overhand.record.store import Locked, Store
    from overhand.record.task import Event, ShownTag, Task
    from overhand.system.edits import Patch

_REPAIRS = 5  # an hour: an editor that writes its old text again and again is not fought for ever
_HOUR = 3600.0
GONE = "dismissed"  # the stage of an item whose tag is taken away
_RANK = {"needs": 0, "done": 0, "claimed": 0, "next": 1, "delegated": 2}  # how much a tag allows


def wanted(state: Task) -> str:
    """The stage that the record gives the item."""
    if state.staged:
        return str(state.staged["stage"])
    if state.status is not None:
        return "done" if state.status == "completed" else "needs"
    if state.current_run is not None or (state.runs and (state.repairs or state.paused)):
        return "claimed"  # sending a return back and a provider's pause are parts of the same attempt
    return state.item.stage if state.item else "needs"


def owes(state: Task) -> bool:
    """Whether the log says that the tag, or what the file tells of the last run, is not yet as it should be."""
    if state.item is None:
        return False
    shown = state.tag
    if shown is None:
        return state.status is None
    return (shown.stage, shown.run) != (wanted(state), response.outcome(state))


def show(store: Store, by: Event, task_id: str) -> Task:
    """Bring the tag in line with the record, once or again."""
    with store.locked(task_id, by) as task:
        bring(task)
        return task.state


def bring(task: Locked) -> None:
    """The same, for who holds the task."""
    state = task.state
    if state.item is None or (state.tag is None and state.status is not None):
        return
    try:
        if state.tag is None:
            _first(task)
        else:
            _follow(task)
    except Busy:
        raise  # somebody writes to the file all the time: soon again
    except OverhandError as error:  # it cannot be written: the record stands, and says why
        _leave(task, error.message)


# the first writing: approval


def _first(task: Locked) -> None:
    """Give the tag its stage and the task's id; if its line is no longer what was approved, the approval is void."""
    state = task.state
    item = item_of(state)
    made = ""
    try:
        if item.origin:
            made = promote.put(task)
            promote.mention(task, made)
        path = made or item.path
        raw = edit(f"{task.store.root}/{path}", lambda raw: _approved(raw, task.task_id, state))
    except Busy:
        raise
    except OverhandError as error:
        told: list[Event] = [{"e": "tagged", "stage": item.stage, "path": made}] if made else []
        task.append(*told, _judged("rejected", f"{error.message} {error.hint}".strip()), sync=True)
        if made:
            _follow(task)  # the request stays, as one that nobody has approved
        return
    now = next(tags.stage(tag.name) for tag in tags.scan(raw) if tag.task == task.task_id)
    events: list[Event] = [{"e": "tagged", "stage": now, "path": path}]
    if now == item.stage == "delegated" and item.mode != "interactive":
        events.append({"e": "accepted"})
    task.append(*events, sync=True)
    if now != item.stage:
        _give_way(task, now)


def _approved(raw: bytes, task_id: str, state: Task) -> Patch | None:
    """The tag with its new stage and id, unless it has them already."""
    item = item_of(state)
    found = tags.scan(raw)
    if any(tag.task == task_id for tag in found):
        return None
    same = [tag for tag in found if is_same(raw, tag, state) and tags.stage(tag.name) == item.was]
    if len(same) != 1:
        what = "is no longer as it was" if not same else f"stands there {len(same)} times"
        raise NotFound(f"{item.path}#{item.kind} {what}: {item.line[:80]!r}.", "Look again: overhand item list")
    return tags.swapped(raw, same[0], f"#{item.stage}-{item.kind}", task_id)


def is_same(raw: bytes, tag: Tag, state: Task) -> bool:
    """Whether this tag, which has no id or that of the task before, is the item that was approved."""
    item = state.item
    if item is None or tags.kind(tag.name) != item.kind or tag.task != item.again:
        return False
    return tag.on_tags_line if item.origin else tags.digest(raw, tag) == item.digest


def shown_of(state: Task) -> ShownTag:
    """How its tag was last written, once it was."""
    if state.tag is None:
        raise LookupError(f"the tag of task {state.id} was never written")
    return state.tag


# every later writing


def _follow(task: Locked) -> None:
    """Find the tag by its id and write what the record says; before the first run, whoever is stricter wins."""
    path = shown_of(task.state).path
    try:
        _write(task, path)
    except NotFound:
        moved = next(whereabouts(task.store, task.task_id), None)
        if moved is not None:
            _write(task, moved)
        else:
            _lost(task)


def _write(task: Locked, path: str) -> None:
    state = task.state
    shown, want = shown_of(state), wanted(state)
    seen: list[tuple[str, bool]] = []

    def change(raw: bytes) -> Patch | None:
        tag = next((tag for tag in tags.scan(raw) if tag.task == task.task_id), None)
        if tag is None:
            raise NotFound(f"The tag of task {task.task_id} is not in {path}.")
        now = tags.stage(tag.name)
        is_foreign = now not in (shown.stage, want) and not owes(state)
        seen.append((now, is_foreign))
        if _has_word(state, now) or (is_foreign and _is_tired(state)):
            return None
        return together(raw, *_patches(raw, tag, task, path, again=is_foreign))

    edit(f"{task.store.root}/{path}", change)
    now, is_foreign = seen[-1]
    if _has_word(state, now):
        _give_way(task, now, path)
    elif is_foreign and _is_tired(state):
        _say(task, f"The tag in {path} is changed again and again; it is left as it is. The record says {want}.")
    elif is_foreign or owes(state) or path != shown.path:
        _note(task, path, repair=is_foreign)


def _patches(raw: bytes, tag: Tag, task: Locked, path: str, *, again: bool) -> Iterator[Patch | None]:
    """The swap, and what the file must tell of the last run."""
    state, kind = task.state, tags.kind(tag.name)
    want, shown = wanted(state), state.tag
    if want == GONE:
        yield removal(raw, tag)
        return
    if tags.stage(tag.name) != want or tag.task != task.task_id:
        yield tags.swapped(raw, tag, f"#{want}-{kind}", task.task_id)
    if again or shown is None or shown.run != response.outcome(state):
        yield response.section(task.store, state, want, path, raw)


def removal(raw: bytes, tag: Tag) -> Patch:
    """The tag taken away, with its id and the blank before it."""
    start = tag.start
    while start > tag.on.start and raw[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    return (tag.start if start == tag.on.start else start), tag.span_end, b""


def _waits(state: Task) -> bool:
    """Approved, and nothing has happened since."""
    return state.status is None and not state.runs and not state.staged


def _has_word(state: Task, now: str) -> bool:
    """Whether the tag's word counts: before the first run, where it allows less than the record."""
    shown, want = state.tag, wanted(state)
    if not _waits(state) or now == want or (now == "claimed" and shown and shown.claiming):
        return False
    return _RANK.get(now, 0) < _RANK[want]


def _give_way(task: Locked, now: str, path: str = "") -> None:
    """Before its first run somebody took the approval back, or the work itself, by changing the tag."""
    state = task.state
    item, path = item_of(state), path or shown_of(state).path
    said = f"The tag in {path} was changed to #{now}-{item.kind}"
    events: list[Event] = []
    if now != "needs":
        events.append({"e": "staged", "stage": now, "how": "typed"})
    if now in ("needs", "done"):
        events.append(_judged("cancelled", f"{said}: the approval is withdrawn."))
    task.append(*events, {"e": "tagged", "stage": now, "path": path, "run": ""}, sync=True)
    if now == "claimed":
        _say(task, f"{said} by somebody outside Overhand; it is not started.")


def _is_tired(state: Task) -> bool:
    shown = state.tag
    since = machine.epoch(machine.now()) - _HOUR
    return shown is not None and sum(machine.epoch(t) > since for t in shown.repairs) >= _REPAIRS


def _lost(task: Locked) -> None:
    """The id stands nowhere: before the first run that withdraws the approval, later the tag is put right or let go."""
    state = task.state
    shown = shown_of(state)
    if wanted(state) == GONE:
        _note(task, shown.path)
        return
    if _waits(state):
        summary = f"The tag of this task is gone from {shown.path}: the approval is withdrawn."
        task.append(_judged("cancelled", summary), _tagged(state, shown.path, "needs"), sync=True)
        return
    tired = not owes(state) and _is_tired(state)

    def change(raw: bytes) -> Patch | None:
        same = [t for t in tags.scan(raw) if tags.stage(t.name) and not t.task and is_same(raw, t, _plain(state))]
        if len(same) != 1 or tired:
            raise NotFound("")
        return together(raw, *_patches(raw, same[0], task, shown.path, again=True))

    try:
        edit(f"{task.store.root}/{shown.path}", change)
        _note(task, shown.path, repair=not owes(state))
    except NotFound:
        _leave(task, f"The tag of this task is gone from {shown.path}.")


def _plain(state: Task) -> Task:
    """The same task for a tag without any id: an older version of the file may have come back."""
    return state.but(item=state.item.replace(again="")) if state.item else state


def _leave(task: Locked, why: str) -> None:
    """Nothing can be written: a person is told once, and the record goes on without its tag."""
    state = task.state
    if state.tag is None:
        task.append(_judged("rejected", why), sync=True)
    elif owes(state):
        task.append(_tagged(state, state.tag.path))
    _say(task, why)


# claiming


def take(task: Locked, run_id: str) -> bool:
    """The claim's swap, after the run is recorded and before it starts; if it is impossible, the run never was."""
    state = task.state
    item, shown = state.item, state.tag
    if item is None or shown is None:
        return item is None
    allowed = {item.stage, "claimed"} if len(state.runs) == 1 else set(tags.STAGES)
    try:
        path = _claim(task, shown.path, allowed)
    except Busy:
        task.append({"e": "run.ended", "run": run_id, "never_began": True})
        raise
    except OverhandError as error:
        if len(state.runs) > 1:  # it has run before: the record decides, the tag is told of
            _leave(task, error.message)
            return True
        why = f"{error.message} It was not started. {error.hint}".strip()
        task.append({"e": "run.ended", "run": run_id, "never_began": True}, _judged("rejected", why), sync=True)
        bring(task)
        return False
    _note(task, path)
    return True


def _claim(task: Locked, path: str, allowed: set[str]) -> str:
    def change(raw: bytes) -> Patch | None:
        tag = next((tag for tag in tags.scan(raw) if tag.task == task.task_id), None)
        if tag is None:
            raise NotFound(f"The tag of task {task.task_id} is not in {path}.")
        now = tags.stage(tag.name)
        if now not in allowed:
            raise Refused(f"The tag in {path} says {tag.name}.", "Approve it again: overhand item approve --again ITEM")
        return None if now == "claimed" else tags.swapped(raw, tag, f"#claimed-{tags.kind(tag.name)}")

    try:
        edit(f"{task.store.root}/{path}", change)
    except NotFound:
        moved = next((p for p in whereabouts(task.store, task.task_id) if p != path), None)
        if moved is None:
            raise
        return _claim(task, moved, allowed)
    return path


# what is noted


def _tagged(state: Task, path: str, stage: str = "", *, repair: bool = False) -> Event:
    event: Event = {"e": "tagged", "stage": stage or wanted(state), "path": path, "run": response.outcome(state)}
    return {**event, "repair": True} if repair else event


def _note(task: Locked, path: str, *, repair: bool = False) -> None:
    task.append(_tagged(task.state, path, repair=repair))


def _judged(status: str, summary: str) -> Event:
    return {"e": "judged", "run": None, "status": status, "summary": summary[:1500]}


def _say(task: Locked, text: str) -> None:
    if text and text not in task.state.notices[-3:]:
        task.append({"e": "notice", "text": text[:1000]})


# where a tag has gone


def whereabouts(store: Store, task_id: str) -> Iterator[str]:
    """Files of the project in which this id stands behind a tag, in the order of their paths."""
    needle = f"overhand:{task_id}"
    for path in documents(store.root, find.holding(store.root, needle)):
        raw = read_file(f"{store.root}/{path}") or b""
        if needle.encode() in raw and any(tag.task == task_id for tag in tags.scan(raw)):
            yield path


def documents(root: str, paths: Iterable[str]) -> list[str]:
    """Of these files those that may hold items, relative to the project, in order."""
    known: dict[str, bool] = {"": False}
    return sorted(p for path in paths if not is_elsewhere(root, p := path.removeprefix(f"{root}/"), known))


def is_elsewhere(root: str, path: str, known: dict[str, bool] | None = None) -> bool:
    """Whether a file belongs to a worktree or another repository below the project: those are not watched."""
    known = {"": False} if known is None else known
    folder = os.path.dirname(path)
    if folder not in known:
        known[folder] = os.path.lexists(f"{root}/{folder}/.git") or is_elsewhere(root, folder, known)
    return known[folder]
