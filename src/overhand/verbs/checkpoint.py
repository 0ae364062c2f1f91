"""`checkpoint create|list|show`: points of a task that it can be resumed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.documents.quick import count
from overhand.errors import BadInput, NotAllowed, NotFound, Refused, StaleRun
from overhand.policy.caller import caller
from overhand.runs import checkpoints
from overhand.system import git
from overhand.verbs import Reply, Session

if TYPE_CHECKING:
    from overhand.policy.caller import Caller
    from overhand.record.task import Task


def checkpoint(
    session: Session,
    do: str,
    id: str | None = None,
    reason: str | None = None,
    handoff: str | None = None,
    name: str | None = None,
    git_tag: bool = False,
) -> Reply:
    """One of the three."""
    who = caller(session.store)
    if do == "show":
        return Reply(_show(session, who, id))
    task_id = _task(session, who, id, do)
    if do == "list":
        return Reply(_list(session.store.task(task_id)))
    return Reply(_create(session, who, task_id, reason or "", handoff or "quick", name or "", git_tag=git_tag))


def _task(session: Session, who: Caller, id: str | None, do: str) -> str:
    """Inside a run its own task, else the one that is named."""
    if id is not None:
        task_id = session.store.resolve(id)
        if not who.is_person and task_id != who.task:
            raise NotAllowed(f"Task {id} is not the one of this run.", f"Leave the ID out: overhand checkpoint {do}")
        return task_id
    if who.task is None:
        raise BadInput("Which task?", f"Name it: overhand checkpoint {do} 3")
    return who.task


def _create(
    session: Session, who: Caller, task_id: str, reason: str, handoff: str, name: str, *, git_tag: bool
) -> dict[str, Any]:
    task = session.store.task(task_id)
    if task.created is None:
        raise Refused(f"Task {task_id} has not begun.", f"Start it: overhand run {task_id}")
    current = task.current_run
    if who.run is not None and (current is None or current.id != who.run):
        raise StaleRun(
            f"Run {who.run} no longer holds task {task_id}; it cannot save a point of it.",
            "Nothing more is to be done here: end.",
        )
    made = checkpoints.create(
        session.store,
        task_id,
        who.by(session.via),
        run=who.run or (current.id if current else None),
        reason=reason,
        why="agent" if who.run else "person",
        handoff=handoff,
        name=name,
    )
    text = checkpoints.text_of(session.store, task_id, made)
    tag = git.tag(session.root, made, reason or made) if git_tag else None
    if git_tag and tag is None:
        session.tell(f"No git tag was made: here is no commit, or there is a tag {made} already.")
    words, tokens = count(text)
    handle = task.handle
    return {
        "schema": "overhand.checkpoint/1",
        "task_id": task_id,
        "handle": handle,
        "checkpoint_id": made,
        "path": session.store.relative(f"{session.store.folder(task_id)}/checkpoints/{made}.md"),
        "words": words,
        "tokens": tokens,
        "git_tag": tag,
        "next": [f"overhand checkpoint show {made}"]
        + ([f"overhand resume {handle} --from {made}"] if task.runs and task.status != "completed" else []),
    }


def _list(task: Task) -> dict[str, Any]:
    rows = [
        {
            "checkpoint_id": event.id,
            "created": event.t or None,
            "run": event.run,
            "why": event.why or None,
            "reason": event.reason,
        }
        for event in task.checkpoints
    ]
    return {
        "schema": "overhand.checkpoint/1",
        "task_id": task.id,
        "handle": task.handle,
        "title": task.title,
        "checkpoints": rows,
    }


def _show(session: Session, who: Caller, name: str | None) -> dict[str, Any]:
    """A checkpoint by its id, or the latest of a task."""
    if name is not None and name.startswith("ckpt_"):
        task_id = checkpoints.owner(session.store, name)
        if task_id is None:
            raise NotFound(f"There is no checkpoint {name} in this project.", "overhand checkpoint list ID")
        task = session.store.task(task_id)
        found = checkpoints.find(task, name)
    else:
        task = session.store.task(_task(session, who, None if name == "latest" else name, "show"))
        found = checkpoints.find(task, "latest")
    text = checkpoints.text_of(session.store, task.id, found)
    folder = f"{session.store.folder(task.id)}/checkpoints"
    return {
        "schema": "overhand.checkpoint/1",
        "task_id": task.id,
        "handle": task.handle,
        "checkpoint_id": found,
        "document": checkpoints.json_of(session.store, task.id, found),
        "path": session.store.relative(f"{folder}/{found}.md"),
        "text": text,
        "raw": True,
    }
