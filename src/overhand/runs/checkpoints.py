"""Saved points of a task: JSON and Markdown in its folder; resuming from one never rolls a file back."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overhand.documents import (
    Checkpoint,
    CheckpointBudget,
    CheckpointCommand,
    CheckpointDelegation,
    checkpoint_as_json,
    parse_checkpoint,
    quick_of,
    render_checkpoint,
    render_full_checkpoint,
    render_quick,
)
from overhand.errors import BadInput, NotFound, Refused, storage_failed
from overhand.policy import own_cap, own_spending
from overhand.record import ABSENT, CheckpointSaved, Record, read_state
from overhand.runs import handover, phases, steps, walls, worktree
from overhand.system import now_stamp, random_text, read_file, write_file
from overhand.words import is_checkpoint_id, slug

if TYPE_CHECKING:
    from overhand.documents import Checkpoint
    from overhand.record import By, Store, Task


class NewCheckpoint(Record, frozen=True):
    """A checkpoint to save: of which run, and why."""

    run: str | None
    reason: str
    why: str  # what saves it: agent, person, control, phase, budget, plan
    cause: str = ""  # one cause makes one checkpoint
    name: str = ""  # a part of its id
    handoff: str = "quick"  # the form of its document


def create_checkpoint(store: Store, task_id: str, by: By, new: NewCheckpoint) -> str:
    """Save where a task stands and record it; one cause makes one checkpoint, however often this is called."""
    task, cause = store.recorded(task_id), new.cause
    folder = f"{store.record(task_id)}/checkpoints"
    if cause and (made := _of_cause(task, cause)):
        _point_latest(folder, task.checkpoints[-1].id)
        return made
    checkpoint_id = _take_id(store, task, new.name)
    saved = snapshot(store, task, new.run, checkpoint_id, new.reason)
    _make(folder)
    write_file(f"{folder}/{checkpoint_id}.json", render_checkpoint(saved))
    write_file(f"{folder}/{checkpoint_id}.md", document(store, task, saved, new.handoff, new.reason))
    with store.lock(task_id, by) as locked:
        if cause and (made := _of_cause(locked.task, cause)):
            return made  # another process was faster; our file stays unrecorded
        event = CheckpointSaved(
            id=checkpoint_id, run=new.run, reason=new.reason[:500], why=new.why, cause=cause or ABSENT
        )
        locked.append(event)
        _point_latest(folder, checkpoint_id)
    return checkpoint_id


def _point_latest(folder: str, checkpoint_id: str) -> None:
    """Write `latest`, also where a crash came before that."""
    path = f"{folder}/latest"
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}-aside-{random_text(6)}")
    if read_file(path) != f"{checkpoint_id}\n".encode():
        write_file(path, f"{checkpoint_id}\n")


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, "Cannot save the checkpoint") from error


def _of_cause(task: Task, cause: str) -> str | None:
    return next((event.id for event in task.checkpoints if event.cause == cause), None)


def _take_id(store: Store, task: Task, name: str) -> str:
    """A new id, unique in the project: reserved by creating a file of its name."""
    wanted = f"ckpt_{name.removeprefix('ckpt_')}" if name else ""
    if wanted and not is_checkpoint_id(wanted):
        raise BadInput(f"{name!r} cannot name a checkpoint.", "Use letters, digits, _ and -, such as auth_phase2.")
    base = f"ckpt_{slug(task.title)[:40].strip('-') or 'task'}_{task.handle or 0}".replace("-", "_")
    base = "".join(c for c in base if c.isascii())
    _make(f"{store.own}/checkpoints")
    number = len(task.checkpoints) + 1
    while True:
        checkpoint_id = wanted or f"{base}_{number}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(f"{store.own}/checkpoints/{checkpoint_id}", flags, 0o644)
        except FileExistsError:
            if wanted:
                raise Refused(f"There is a checkpoint {wanted} already.", "Choose another --name.") from None
            number += 1
            continue
        except OSError as error:
            raise storage_failed(error, "Cannot name the checkpoint") from error
        os.write(fd, f"{task.id}\n".encode())
        os.close(fd)
        return checkpoint_id


def snapshot(store: Store, task: Task, run: str | None, checkpoint_id: str, reason: str) -> Checkpoint:
    """Where the task stands now."""
    history = [event.phase for event in task.phases]
    next_step = steps.progress_of_steps(handover.plan_of(store, task.id))[2]
    began = run or (task.runs[-1].id if task.runs else None)
    at_work = task.run(began) if began else None
    enter = walls.enter_git(store, shielded=at_work is not None and at_work.is_shielded)
    root = task.workplace(store.root)
    now = worktree.tree_snapshot(root, enter)
    before = read_state(f"{store.run_folder(task.id, began)}/tree.json") if began else None
    changed = worktree.changed_between(root, before, now, enter)
    used, limit = own_spending(task).tokens, own_cap(task).tokens
    return Checkpoint(
        checkpoint_id=checkpoint_id,
        task_id=task.id,
        created_at=now_stamp(),
        run_id=run or "",
        control_commands_issued=tuple(
            CheckpointCommand(event.command, event.arg, event.reason, "complete" if event.ok else "refused")
            for event in task.controls
        ),
        delegation_chain=_delegations(store, task),
        workflow_state=task.phase or task.run_state or "",
        token_budget=CheckpointBudget(used, limit or None) if used else None,
        iteration=phases.iteration(history) if history else max(1, len(task.runs)),
        next_action=next_step or reason or "Go on with the task.",
        resume_instructions=f"overhand resume {task.name} --from {checkpoint_id}",
        commit=now["head"] if now else "",
        changed_files=tuple(changed or ()),
    )


def _delegations(store: Store, task: Task) -> tuple[CheckpointDelegation, ...]:
    runs = {run.id for run in task.runs}
    children = [s for s in store.tasks() if s.parent and s.parent.run in runs]
    return tuple(
        CheckpointDelegation(task.agent, s.agent, f"{s.status}: {s.summary}" if s.status else s.run_state or "")
        for s in children
    )


def document(store: Store, task: Task, saved: Checkpoint, handoff: str, reason: str) -> str:
    """Its Markdown: the whole document, or only its quick handoff."""
    plan = handover.plan_of(store, task.id)
    count = len(saved.changed_files)
    changed = f"{count} file{'s' if count > 1 else ''} changed so far." if count else ""
    resume = f"To go on from here: `{saved.resume_instructions}`"
    gist = "\n\n".join(part for part in (reason, changed, resume) if part)
    quick = replace(quick_of(saved), text=gist, state=handover.marked(plan))
    if handoff == "quick":
        return render_quick(quick)
    done = [item.text for item in plan if item.marker == "x"]
    left = [item.text for item in plan if item.marker != "x"]
    raw = store.workspace_files(task.id).read("WORK.md", 4000)
    notes = raw.decode("utf-8", "replace").strip() if raw and len(raw) <= 4000 else ""
    return render_full_checkpoint(saved, quick, done, left, notes)


def find_checkpoint(task: Task, name: str) -> str:
    """The id of this task's checkpoint of this name, which may be `latest`."""
    known = [event.id for event in task.checkpoints]
    if name in ("", "latest") and known:
        return known[-1]
    if name in known:
        return name
    some = ", ".join(known[-5:]) or "none"
    raise NotFound(
        f"Task {task.name} has no checkpoint {name or 'yet'} (there are: {some}).",
        f"See them: overhand checkpoint list {task.name}",
    )


def checkpoint_owner(store: Store, checkpoint_id: str) -> str | None:
    """The task that a checkpoint of this project belongs to."""
    if not is_checkpoint_id(checkpoint_id):
        return None
    raw = read_file(f"{store.own}/checkpoints/{checkpoint_id}")
    return raw.decode("ascii", "replace").strip() if raw else None


def checkpoint_text(store: Store, task_id: str, checkpoint_id: str) -> str:
    """The Markdown of a checkpoint."""
    raw = read_file(f"{store.record(task_id)}/checkpoints/{checkpoint_id}.md")
    if raw is None:
        raise NotFound(f"The document of {checkpoint_id} is gone.", "Make a new one: overhand checkpoint create")
    return raw.decode("utf-8", "replace")


def checkpoint_json(store: Store, task_id: str, checkpoint_id: str) -> dict[str, Any]:
    """The JSON of a checkpoint; raises BadInput if it was edited and can't be read any more."""
    raw = read_file(f"{store.record(task_id)}/checkpoints/{checkpoint_id}.json") or b""
    found, problems = parse_checkpoint(raw.decode("utf-8", "replace"))
    if found is None:
        why = " ".join(p.message for p in problems)
        raise BadInput(f"{checkpoint_id}.json cannot be read: {why}", "Use another: overhand checkpoint list")
    return checkpoint_as_json(found)
