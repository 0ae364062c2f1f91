"""`diff`: what a task changed in its tree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.errors import NotFound, Refused
from overhand.runs import hidden_files, part_now
from overhand.trees import diff_part
from overhand.verbs.tasks import look_at_task
from overhand.verbs.verb import Reply, about_task

if TYPE_CHECKING:
    from overhand.record import Task
    from overhand.trees import Tree
    from overhand.verbs.verb import Session

_STATUS = {"A": "new", "D": "deleted", "T": "changed", "M": "changed"}


def diff(session: Session, id: str, path: list[str] | None = None, stat: bool = False) -> Reply:
    """The agent's part as a patch, and how many lines of each file."""
    task = look_at_task(session, session.store.task(session.store.resolve(id)))
    tree, part = part_now(session.store, _with_tree(task))
    paths = [_inside(tree, one) for one in path or ()]
    counts = _counts(diff_part(tree, part.written, "--numstat", "-z", "--no-renames", paths=paths))
    how = {one.path: _STATUS.get(one.status, "changed") for one in part.changed}
    files = [
        {"path": one, "change": how.get(one, "changed"), "added": added, "deleted": deleted}
        for one, (added, deleted) in counts.items()
    ]
    live = task.current_run is not None and not task.current_run.has_ended
    patch = "" if stat else diff_part(tree, part.written, paths=paths).decode("utf-8", "replace")
    return Reply(
        {
            **about_task("diff", task, "title"),
            "base": tree.head,
            "part": part.commit,
            "live": live,
            "files": files,
            "hidden": hidden_files(part),
            "left": [{"path": one.path, "why": one.why} for one in part.left],
            "patch": patch,
        }
    )


def _with_tree(task: Task) -> Task:
    if task.begins is None:
        where = "nowhere yet: it has not begun" if not task.runs else "in your checkout"
        raise Refused(f"Task {task.name} worked {where}, so its part can't be told from yours.", "See: git diff")
    if task.tree is None:
        raise NotFound(f"Task {task.name} has no tree yet.", f"It gets one when it starts: overhand show {task.name}")
    return task


def _inside(tree: Tree, path: str) -> str:
    """A path of the project as it is in the tree."""
    found = os.path.normpath(os.path.join(tree.prefix, path)) if not os.path.isabs(path) else path
    if os.path.isabs(found) or found.split("/")[0] == "..":
        raise NotFound(f"{path} is not in the project.", "Name files as they are seen from the project's folder.")
    return found


def _counts(raw: bytes) -> dict[str, tuple[int | None, int | None]]:
    """Added and deleted lines by path; None for a binary file."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for entry in os.fsdecode(raw).split("\0"):
        added, _, rest = entry.partition("\t")
        deleted, _, path = rest.partition("\t")
        if path:
            found[path] = (int(added), int(deleted)) if added.isdigit() else (None, None)
    return found
