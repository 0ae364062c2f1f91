"""`checkpoint create|list|show`: points from which a task can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.documents import count_words
from overhand.errors import BadInput, NotAllowed, NotFound, Refused, StaleRun
from overhand.policy import find_caller
from overhand.runs import (
    NewCheckpoint,
    checkpoint_json,
    checkpoint_owner,
    checkpoint_text,
    create_checkpoint,
    find_checkpoint,
)
from overhand.system import tag_commit
from overhand.verbs.verb import Reply, Session, about_task

if TYPE_CHECKING:
    from overhand.policy import Caller
    from overhand.record import Task


def checkpoint(
    session: Session,
    do: str,
    id: str | None = None,
    reason: str | None = None,
    handoff: str | None = None,
    name: str | None = None,
    git_tag: bool = False,
) -> Reply:
    caller = find_caller(session.store)
    if do == "show":
        return Reply(_show(session, caller, id))
    task = _task(session, caller, id, do)
    if do == "list":
        rows = [
            {"checkpoint_id": e.id, "created": e.t or None, "run": e.run, "why": e.why or None, "reason": e.reason}
            for e in task.checkpoints
        ]
        return Reply({**about_task("checkpoint", task, "title"), "checkpoints": rows})
    return Reply(_create(session, caller, task, reason or "", handoff or "quick", name or "", git_tag=git_tag))


def _task(session: Session, caller: Caller, id: str | None, do: str) -> Task:
    """Inside a run its own task, else the one that is named."""
    task_id = caller.task if id is None else session.store.resolve(id)
    if task_id is None:
        raise BadInput("Which task?", f"Name it: overhand checkpoint {do} 3")
    if not caller.is_person and task_id != caller.task:
        raise NotAllowed(f"Task {id} is not the one of this run.", f"Leave the ID out: overhand checkpoint {do}")
    return session.store.task(task_id)


def _create(
    session: Session, caller: Caller, task: Task, reason: str, handoff: str, name: str, *, git_tag: bool
) -> dict[str, Any]:
    task_id = task.id
    if task.created is None:
        raise Refused(f"Task {task_id} has not begun.", f"Start it: overhand run {task_id}")
    current = task.current_run
    if caller.run is not None and (current is None or current.id != caller.run):
        raise StaleRun(
            f"Run {caller.run} no longer holds task {task_id}; it cannot save a point of it.",
            "Nothing more is to be done here: end.",
        )
    new = NewCheckpoint(
        run=caller.run or (current.id if current else None),
        reason=reason,
        why="agent" if caller.run else "person",
        handoff=handoff,
        name=name,
    )
    made = create_checkpoint(session.store, task_id, caller.by(session.via), new)
    text = checkpoint_text(session.store, task_id, made)
    tag = tag_commit(session.root, made, reason or made) if git_tag else None
    if git_tag and tag is None:
        session.tell(f"No git tag was made: here is no commit, or there is a tag {made} already.")
    words, tokens = count_words(text)
    resume = [f"overhand resume {task.handle} --from {made}"] if task.runs and task.status != "completed" else []
    return {
        **about_task("checkpoint", task),
        "checkpoint_id": made,
        "path": session.store.relative(f"{session.store.record(task_id)}/checkpoints/{made}.md"),
        "words": words,
        "tokens": tokens,
        "git_tag": tag,
        "next": [f"overhand checkpoint show {made}", *resume],
    }


def _show(session: Session, caller: Caller, name: str | None) -> dict[str, Any]:
    """A checkpoint by its id, or the latest of a task."""
    if name is not None and name.startswith("ckpt_"):
        task_id = checkpoint_owner(session.store, name)
        if task_id is None:
            raise NotFound(f"There is no checkpoint {name} in this project.", "overhand checkpoint list ID")
        task = session.store.task(task_id)
        found = find_checkpoint(task, name)
    else:
        task = _task(session, caller, None if name == "latest" else name, "show")
        found = find_checkpoint(task, "latest")
    text = checkpoint_text(session.store, task.id, found)
    return {
        **about_task("checkpoint", task),
        "checkpoint_id": found,
        "document": checkpoint_json(session.store, task.id, found),
        "path": session.store.relative(f"{session.store.record(task.id)}/checkpoints/{found}.md"),
        "text": text,
        "raw": True,
    }
