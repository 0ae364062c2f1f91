"""The tag shows what the record says: one function brings the tag of a task's item in line with the task's log.

Approval makes the task, and its id stands in the tag's span. From then on each step is an event first, then one edit of
the file, then a note that the edit was made. After a crash in between, the next call of `show` finishes it. An item
whose run did not complete is queued again a few times, or waits for a person.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.documents import (
    TAG_STAGES,
    FileNote,
    add_recovery,
    item_digest,
    kind_of_tag,
    patch_swapping_tag,
    put_response,
    scan_tags,
    stage_of_tag,
)
from overhand.errors import Busy, NotFound, OverhandError, Refused, StorageUnavailable
from overhand.items import promote
from overhand.items.find import whereabouts
from overhand.items.promote import item_of
from overhand.record import ABSENT, Accepted, Judged, Notice, Requeued, RunNeverBegan, StageSet, TagWritten, read_state
from overhand.system import edit_file, epoch_of, merge_patches, now_stamp
from overhand.words import SHOWN_VERIFICATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.documents import Return, Tag
    from overhand.record import By, Event, LockedTask, Run, ShownTag, Store, Task
    from overhand.system import Patch
    from overhand.words import Status

_REPAIRS = 5  # an hour: an editor that keeps writing its old text is not fought forever
_HOUR = 3600.0
DISMISSED = "dismissed"  # the stage of an item whose tag is taken away
_RANK = {"needs": 0, "done": 0, "claimed": 0, "next": 1, "delegated": 2}  # how much a tag allows
ATTEMPTS = 3
BACKOFF = (5.0, 60.0)  # seconds before the second and the third attempt
_DIED = ("lost", "killed")  # not ended by Overhand, nor by itself


def wanted_stage(task: Task) -> str:
    """The stage that the record gives the item."""
    if task.staged:
        return str(task.staged.stage)
    if task.status is not None:
        return "done" if task.status == "completed" else "needs"
    if task.current_run is not None or (task.runs and (task.repairs or task.paused)):
        return "claimed"  # sending a return back and a provider's pause are parts of the same attempt
    return task.item.stage if task.item else "needs"


def is_tag_behind(task: Task) -> bool:
    """Whether the log says that the tag, or what the file tells of the last run, is not yet as it should be."""
    if task.item is None or task.tag is None:
        return task.item is not None and task.status is None
    return (task.tag.stage, task.tag.run) != (wanted_stage(task), outcome(task))


def sync_tag(store: Store, by: By, task_id: str) -> Task:
    """Bring the tag in line with the record, once or again."""
    with store.lock(task_id, by) as locked:
        sync_locked_tag(locked)
        return locked.task


def sync_locked_tag(locked: LockedTask) -> None:
    """The same, under a lock that the caller holds; raises Busy or StorageUnavailable where a retry may work."""
    task = locked.task
    if task.item is None or (task.tag is None and task.status is not None):
        return
    try:
        if task.tag is None:
            _first(locked)
        else:
            _follow(locked)
    except (Busy, StorageUnavailable):
        raise  # the file is being written, or the disk is full: the tag stays behind, and is written later
    except OverhandError as error:  # it cannot be written: the record stands, and says why
        _leave(locked, error.message)


def sync_recorded_step(locked: LockedTask) -> None:
    """The same after a step that is recorded: if the tag can't be written now, it stays behind, to be written later."""
    try:
        sync_locked_tag(locked)
    except StorageUnavailable:
        return  # `is_tag_behind` says so, and the supervisor retries


# the first writing: approval


def _first(locked: LockedTask) -> None:
    """Give the tag its stage and the task's id; if its line is no longer what was approved, the approval is void."""
    task = locked.task
    item = item_of(task)
    made = ""
    try:
        if item.origin:
            made = promote.put(locked)
            promote.mention(locked, made)
        path = made or item.path
        raw = edit_file(f"{locked.store.root}/{path}", lambda raw: _approved(raw, locked.task_id, task))
    except (Busy, StorageUnavailable):
        raise
    except OverhandError as error:
        told: list[Event] = [TagWritten(stage=item.stage, path=made)] if made else []
        locked.append(*told, _judged("rejected", f"{error.message} {error.hint}".strip()), sync=True)
        if made:
            _follow(locked)  # the request stays, not approved
        return
    now = next(stage_of_tag(tag.name) for tag in scan_tags(raw) if tag.task == locked.task_id)
    events: list[Event] = [TagWritten(stage=now, path=path)]
    if now == item.stage == "delegated" and item.mode != "interactive":
        events.append(Accepted())
    locked.append(*events, sync=True)
    if now != item.stage:
        _give_way(locked, now)


def _approved(raw: bytes, task_id: str, task: Task) -> Patch | None:
    """The tag with its new stage and id, unless it has them already."""
    item = item_of(task)
    found = scan_tags(raw)
    if any(tag.task == task_id for tag in found):
        return None
    same = [tag for tag in found if is_same(raw, tag, task) and stage_of_tag(tag.name) == item.was]
    if len(same) != 1:
        what = "is no longer as it was" if not same else f"stands there {len(same)} times"
        raise NotFound(f"{item.path}#{item.kind} {what}: {item.line[:80]!r}.", "Look again: overhand item list")
    return patch_swapping_tag(raw, same[0], f"#{item.stage}-{item.kind}", task_id)


def is_same(raw: bytes, tag: Tag, task: Task) -> bool:
    """Whether this tag, which has no id or that of the task before, is the item that was approved."""
    item = task.item
    if item is None or kind_of_tag(tag.name) != item.kind or tag.task != item.again:
        return False
    return tag.on_tags_line if item.origin else item_digest(raw, tag) == item.digest


def shown_of(task: Task) -> ShownTag:
    """How its tag was last written, once it was."""
    if task.tag is None:
        raise LookupError(f"the tag of task {task.id} was never written")
    return task.tag


# every later writing


def _follow(locked: LockedTask) -> None:
    """Find the tag by its id and write what the record says; before the first run, the stricter of the two wins."""
    path = shown_of(locked.task).path
    try:
        _write(locked, path)
    except NotFound:
        moved = next(whereabouts(locked.store, locked.task_id), None)
        if moved is not None:
            _write(locked, moved)
        else:
            _lost(locked)


def _own_tag(raw: bytes, locked: LockedTask, path: str) -> Tag:
    for tag in scan_tags(raw):
        if tag.task == locked.task_id:
            return tag
    raise NotFound(f"The tag of task {locked.task_id} is not in {path}.")


def _write(locked: LockedTask, path: str) -> None:
    task = locked.task
    shown, want = shown_of(task), wanted_stage(task)
    seen: list[tuple[str, bool]] = []

    def change(raw: bytes) -> Patch | None:
        tag = _own_tag(raw, locked, path)
        now = stage_of_tag(tag.name)
        is_foreign = now not in (shown.stage, want) and not is_tag_behind(task)
        seen.append((now, is_foreign))
        if _tag_wins(task, now) or (is_foreign and _gives_up(task)):
            return None
        return merge_patches(raw, *_patches(raw, tag, locked, path, again=is_foreign))

    edit_file(f"{locked.store.root}/{path}", change)
    now, is_foreign = seen[-1]
    if _tag_wins(task, now):
        _give_way(locked, now, path)
    elif is_foreign and _gives_up(task):
        _say(locked, f"The tag in {path} is changed again and again; it is left as it is. The record says {want}.")
    elif is_foreign or is_tag_behind(task) or path != shown.path:
        _note(locked, path, repair=is_foreign)


def _patches(raw: bytes, tag: Tag, locked: LockedTask, path: str, *, again: bool) -> Iterator[Patch | None]:
    """The swap, and what the file must tell of the last run."""
    task, kind = locked.task, kind_of_tag(tag.name)
    want, shown = wanted_stage(task), task.tag
    if want == DISMISSED:
        yield tag_removal(raw, tag)
        return
    if stage_of_tag(tag.name) != want or tag.task != locked.task_id:
        yield patch_swapping_tag(raw, tag, f"#{want}-{kind}", locked.task_id)
    if again or shown is None or shown.run != outcome(task):
        yield section(locked.store, task, want, path, raw)


def tag_removal(raw: bytes, tag: Tag) -> Patch:
    """The tag taken away, with its id and the blank before it."""
    start = tag.start
    while start > tag.on.start and raw[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    return (tag.start if start == tag.on.start else start), tag.span_end, b""


def _waits(task: Task) -> bool:
    """Approved, and nothing has happened since."""
    return task.status is None and not task.runs and not task.staged


def _tag_wins(task: Task, now: str) -> bool:
    """Whether the tag wins: before the first run, where it allows less than the record."""
    shown, want = task.tag, wanted_stage(task)
    if not _waits(task) or now == want or (now == "claimed" and shown and shown.claiming):
        return False
    return _RANK.get(now, 0) < _RANK[want]


def _give_way(locked: LockedTask, now: str, path: str = "") -> None:
    """Before its first run a changed tag took the approval back, or claimed the work."""
    task = locked.task
    item, path = item_of(task), path or shown_of(task).path
    said = f"The tag in {path} was changed to #{now}-{item.kind}"
    events: list[Event] = []
    if now != "needs":
        events.append(StageSet(stage=now, how="typed"))
    if now in ("needs", "done"):
        events.append(_judged("cancelled", f"{said}: the approval is withdrawn."))
    locked.append(*events, TagWritten(stage=now, path=path, run=""), sync=True)
    if now == "claimed":
        _say(locked, f"{said} by somebody outside Overhand; it is not started.")


def _gives_up(task: Task) -> bool:
    shown = task.tag
    since = epoch_of(now_stamp()) - _HOUR
    return shown is not None and sum(epoch_of(t) > since for t in shown.repairs) >= _REPAIRS


def _lost(locked: LockedTask) -> None:
    """The id stands nowhere: before the first run that withdraws the approval, later the tag is repaired or dropped."""
    task = locked.task
    shown = shown_of(task)
    if wanted_stage(task) == DISMISSED:
        _note(locked, shown.path)
        return
    if _waits(task):
        summary = f"The tag of this task is gone from {shown.path}: the approval is withdrawn."
        locked.append(_judged("cancelled", summary), _tagged(task, shown.path, "needs"), sync=True)
        return
    giving_up = not is_tag_behind(task) and _gives_up(task)
    first = task.but(item=item_of(task).replace(again=""))  # an older version of the file, without any id, may be back

    def change(raw: bytes) -> Patch | None:
        same = [t for t in scan_tags(raw) if stage_of_tag(t.name) and not t.task and is_same(raw, t, first)]
        if len(same) != 1 or giving_up:
            raise NotFound("")
        return merge_patches(raw, *_patches(raw, same[0], locked, shown.path, again=True))

    try:
        edit_file(f"{locked.store.root}/{shown.path}", change)
        _note(locked, shown.path, repair=not is_tag_behind(task))
    except NotFound:
        _leave(locked, f"The tag of this task is gone from {shown.path}.")


def _leave(locked: LockedTask, why: str) -> None:
    """Nothing can be written: one notice for people, and the record goes on without its tag."""
    task = locked.task
    if task.tag is None:
        locked.append(_judged("rejected", why), sync=True)
    elif is_tag_behind(task):
        locked.append(_tagged(task, task.tag.path))
    _say(locked, why)


# claiming


def claim_tag(locked: LockedTask, run_id: str) -> bool:
    """The claim's swap, after the run is recorded and before it starts; if it fails, the run never began."""
    task = locked.task
    item, shown = task.item, task.tag
    if item is None or shown is None:
        return item is None
    allowed = {item.stage, "claimed"} if len(task.runs) == 1 else set(TAG_STAGES)
    try:
        path = _claim(locked, shown.path, allowed)
    except (Busy, StorageUnavailable):
        locked.append(RunNeverBegan(run=run_id))
        raise
    except OverhandError as error:
        if len(task.runs) > 1:  # it has run before: the record decides, a notice mentions the tag
            _leave(locked, error.message)
            return True
        why = f"{error.message} It was not started. {error.hint}".strip()
        locked.append(RunNeverBegan(run=run_id), _judged("rejected", why), sync=True)
        sync_locked_tag(locked)
        return False
    _note(locked, path)
    return True


def _claim(locked: LockedTask, path: str, allowed: set[str]) -> str:
    def change(raw: bytes) -> Patch | None:
        tag = _own_tag(raw, locked, path)
        now = stage_of_tag(tag.name)
        if now not in allowed:
            raise Refused(f"The tag in {path} says {tag.name}.", "Approve it again: overhand item approve --again ITEM")
        return None if now == "claimed" else patch_swapping_tag(raw, tag, f"#claimed-{kind_of_tag(tag.name)}")

    try:
        edit_file(f"{locked.store.root}/{path}", change)
    except NotFound:
        moved = next((p for p in whereabouts(locked.store, locked.task_id) if p != path), None)
        if moved is None:
            raise
        return _claim(locked, moved, allowed)
    return path


# what is noted


def _tagged(task: Task, path: str, stage: str = "", *, repair: bool = False) -> TagWritten:
    return TagWritten(stage=stage or wanted_stage(task), path=path, run=outcome(task), repair=repair or ABSENT)


def _note(locked: LockedTask, path: str, *, repair: bool = False) -> None:
    locked.append(_tagged(locked.task, path, repair=repair))


def _judged(status: Status, summary: str) -> Judged:
    return Judged(run=None, status=status, summary=summary[:1500])


def _say(locked: LockedTask, text: str) -> None:
    if text and text not in locked.task.notices[-3:]:
        locked.append(Notice(text=text[:1000]))


# what the file tells of the last run


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
        told = f"completed, {SHOWN_VERIFICATIONS[task.verification]}"
        files, link = _result(store, task, path)
        return put_response(raw, key, told, task.summary, files, link)
    run = task.run(key)
    date = ((run.ended if run else task.judged) or "").replace("T", " ")[:19]
    said = " ".join(task.summary.split())[:300]
    how = f"The run ended ({run.cause}), judged {run.status}" if run else f"It was not started ({task.status})"
    reason = f"{how}. {said}" if said else f"{how}."
    if run and said.startswith(f"The run ended ({run.cause})"):
        reason = said  # without a return, the summary says just that
    return add_recovery(raw, date, reason, key, f"Put back to #{stage}-{task.kind}")


def _is_result(found: dict[str, Any]) -> bool:
    files, promised = found.get("files_modified", []), found.get("deliverables", [])
    return all(isinstance(one, str) for one in files) and all(isinstance(one, dict) for one in promised)


def _result(store: Store, task: Task, path: str) -> tuple[list[FileNote], str]:
    """The deliverables, and the way from the item's file to the result."""
    folder = store.record(task.id)
    if task.judged_run is None:
        return [], ""
    try:
        found = read_state(f"{folder}/result.json", fits=_is_result) or {}
    except OverhandError:
        found = {}
    promised = [one for one in found.get("deliverables", ()) if one.get("path")]
    files = [FileNote(one["path"], str(one.get("state", ""))) for one in promised]
    known = {one.path for one in files}
    files += [FileNote(name, "changed") for name in found.get("files_modified", ()) if name not in known]
    target = f"{store.workspace(task.id)}/OUTPUT.md"
    has_output = os.path.exists(f"{folder}/OUTPUT.md")
    link = os.path.relpath(target, os.path.dirname(f"{store.root}/{path}")) if has_output else ""
    return files, link


# after a run that did not complete


def recovery_events(task: Task, judged: Judged, ended: Run, returned: Return | None) -> list[Event]:
    """What to record with the verdict: the next attempt, or why there is none."""
    item, status = item_of(task), judged.status
    if item.how == "outside" or status in ("completed", "cancelled"):
        return []
    why = _reason(status, ended, returned)
    if not why:
        return [_notice(task, f"judged {status} ({ended.cause}), which another attempt would not mend")]
    if ended.leftovers:
        return [_notice(task, f"{why}, and processes of its run are left: {', '.join(map(str, ended.leftovers))}")]
    if task.requeued + 1 >= ATTEMPTS:
        return [_notice(task, f"{why}; that was attempt {ATTEMPTS} of {ATTEMPTS}")]
    if item.stage != "delegated":  # a person asked for this run, and may ask again
        return [StageSet(stage=item.stage, how="recovery"), _notice(task, why, item.stage)]
    return [Requeued(run=ended.id, why=why, resume={"run": ended.id, "why": why})]


def _reason(status: str, ended: Run, returned: Return | None) -> str:
    """Why another attempt makes sense, if it does."""
    if status not in ("failed", "partial"):
        return ""
    if ended.cause in _DIED:
        return "its process was lost" if ended.cause == "lost" else "its process was killed"
    if ended.cause == "timeout":
        return "its time was over" if status == "partial" else ""
    told = returned.errors if returned is not None else ()
    return "it says that this may pass" if told and all(one.recoverable for one in told) else ""


def _notice(task: Task, why: str, stage: str = "needs") -> Notice:
    return Notice(text=f"Its item is at #{stage}-{task.kind} again: {why}.")


def retry_not_before(task: Task) -> float:
    """When the next attempt may start, in seconds since 1970; a restart does not shorten it."""
    if not task.requeued or not task.queued_at:
        return 0.0
    return epoch_of(task.queued_at) + BACKOFF[min(task.requeued, len(BACKOFF)) - 1]


def why_it_waits(task: Task) -> str:
    at = retry_not_before(task)
    stamp = now_stamp()[:11] + "00:00:00Z"
    hours = int(at - epoch_of(stamp)) % 86400
    when = f"{hours // 3600:02}:{hours // 60 % 60:02}:{hours % 60:02} UTC"
    return f"attempt {task.requeued + 1} of {ATTEMPTS}, not before {when}"
