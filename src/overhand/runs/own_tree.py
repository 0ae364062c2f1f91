"""A task's own working tree: made before its first run, looked at after each."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.contracts import PARTLY_STEERING, is_steering, is_test, steering_part
from overhand.errors import Refused
from overhand.record import TreeReady
from overhand.runs import checks, walls, worktree
from overhand.system import outside_runs, repository_of, start_detached
from overhand.trees import (
    Request,
    changed_between,
    check_agents_git,
    create_tree,
    drop_dangling_refs,
    follow_project,
    has_tree,
    include_files,
    keep_part,
    load_tree,
    note_byproducts,
    reserve_ports,
    restore_tree,
    take_part,
    tree_path,
    trees_root,
)

if TYPE_CHECKING:
    from overhand.policy import Actor
    from overhand.record import Run, Store, Task
    from overhand.trees import Changed, Part, Tree

_MOST_LEFT = 10  # files that are named in the log as not carried over


@dataclass(frozen=True, slots=True)
class Worked:
    """What a run left in its tree."""

    part: Part
    changed: list[str]  # since this run, or the one that it repairs
    since_first: list[str]
    set_aside: tuple[str, ...]  # what it changed in its own git dir and git would obey
    how: dict[str, str]  # what happened to each changed file: new, changed, emptied or deleted

    def as_json(self) -> dict[str, Any]:
        """What a receipt says of it, beside the changed files."""
        part = self.part
        given = {
            "hidden": hidden_files(part)[:_MOST_LEFT],
            "left": [f"{one.path}: {one.why}" for one in part.left[:_MOST_LEFT]],
            "submodules": list(part.submodules),
            "not_taken": part.not_taken,
            "unsettled": not part.settled,
        }
        return {"part": part.commit, **{name: value for name, value in given.items() if value}}


def git_of(store: Store, task_id: str) -> str:
    """The task's git dir of ours, in its record."""
    return f"{store.record(task_id)}/git"


def ensure_tree(actor: Actor, task: Task) -> Task:
    """The task with its tree in place, made or restored; one that works in the project is returned as it is."""
    if task.begins is None:
        return task
    ours = git_of(actor.store, task.id)
    if has_tree(ours):
        follow_project(ours, actor.store.root)
        tree = restore_tree(ours)
        drop_dangling_refs(ours)
    else:
        tree = create_tree(_request(actor, task, ours))
    if task.tree is not None:
        return task
    settings = actor.config_of(task).trees
    include_files(ours, settings.copy, settings.link)
    ports = reserve_ports(trees_root(settings.root), tree.path, settings.ports)
    set_up(actor, task, tree, f"{actor.store.record(task.id)}/setup", ports)
    with actor.store.lock(task.id, actor.by) as locked:
        if locked.task.tree is None:
            locked.append(_ready(tree, ports))
        return locked.task


def _request(actor: Actor, task: Task, ours: str) -> Request:
    store, settings, begins = actor.store, actor.config_of(task).trees, task.begins or {}
    top = repository_of(store.root) or store.root
    other = begins.get("task")
    return Request(
        project=store.root,
        ours=ours,
        path=tree_path(trees_root(settings.root), top, str(task.handle or task.id), task.title),
        task=task.id,
        ref=str(begins.get("ref", "HEAD")),
        ours_of=git_of(store, other) if other else "",
        committed=bool(begins.get("committed")),
        hooks=settings.hooks,
    )


def _ready(tree: Tree, ports: tuple[int, ...]) -> TreeReady:
    left = [f"{one.path}: {one.why}"[:200] for one in tree.left[:_MOST_LEFT]]
    given: dict[str, Any] = {
        "folder": tree.folder if tree.folder != tree.path else "",
        "base": tree.head,
        "start": tree.base,
        "behind": tree.behind.commits if tree.behind else None,
        "carried": len(tree.carried),
        "left": left,
        "ports": [ports[0], len(ports)] if ports else (),
    }
    return TreeReady(path=tree.path, **{name: value for name, value in given.items() if value or value == 0})


def set_up(actor: Actor, task: Task, tree: Tree, evidence: str, ports: tuple[int, ...] = ()) -> None:
    """Run the project's own commands in a new tree; what they print is left in the folder `evidence`."""
    settings = actor.config_of(task).trees
    enter = walls.enter_checks(actor.store, tree.path)
    for number, command in enumerate(settings.setup, 1):
        place = f"{evidence}/{number}"
        shutil.rmtree(place, ignore_errors=True)  # of a start that was cut off
        os.makedirs(place)
        env = {**outside_runs(actor.env), "OVERHAND_CHECK": place, "PWD": tree.folder}
        env |= {"OVERHAND_HOME": actor.store.root, "OVERHAND_PROJECT": tree.folder}
        env |= {"OVERHAND_PORT": str(ports[0])} if ports else {}
        shim = start_detached(place, [*enter, "/bin/sh", "-c", command], cwd=tree.folder, env=env)
        code, in_time = checks.wait_to_end(place, shim, settings.setup_timeout)
        if code != 0:
            how = f"ended with {code}" if in_time else f"took longer than {settings.setup_timeout:.0f} s"
            last = checks.last_output(place, 2000).strip().splitlines()[-3:]
            raise Refused(
                f"The set-up command `{command}` {how} in the new tree: {' / '.join(last) or 'it printed nothing'}",
                f"Change trees.setup in .overhand/config.toml, then: overhand run {task.name}. "
                f"All it printed: {shlex.quote(place)}",
            )


def after_checks(actor: Actor, task: Task) -> None:
    """What the checks have just written in the tree, and its set-up before them, is no part of the agent's work."""
    ours = git_of(actor.store, task.id)
    note_byproducts(
        ours, walls.enter_tree_git(actor.store, task, ours) if task.runs and task.runs[-1].is_shielded else ()
    )


def before_run(actor: Actor, task: Task) -> dict[str, Any]:
    """What the next run begins with, to compare what it leaves with."""
    if not task.runs:
        after_checks(actor, task)
    return {"w": load_tree(git_of(actor.store, task.id)).last}


def look_after(actor: Actor, task: Task, ended: Run, began: str) -> Worked:
    """Take the files as the run left them, before a check writes anything there; `began`: what it began with."""
    ours = git_of(actor.store, task.id)
    enter = walls.enter_tree_git(actor.store, task, ours) if ended.is_shielded else ()
    part = keep_part(ours, enter)
    aside = check_agents_git(ours)
    tree = load_tree(ours)
    changed = changed_between(tree.objects(), began or tree.base, part.commit)
    how = {_shown(tree, one.path): _how(tree, one) for one in (*part.changed, *changed)}
    own, since_first = ([_shown(tree, one.path) for one in several] for several in (changed, part.changed))
    return Worked(part, own, since_first, tuple(f".git/{name}" if name != ".git" else name for name in aside), how)


def _shown(tree: Tree, path: str) -> str:
    """A path as it is seen from the project's folder in the tree."""
    return os.path.relpath(path, tree.prefix) if tree.prefix else path


def _how(tree: Tree, one: Changed) -> str:
    try:
        is_empty = os.lstat(f"{tree.path}/{one.path}").st_size == 0
    except OSError:
        return "deleted"
    return "new" if one.status == "A" else "emptied" if is_empty else "changed"


def hidden_files(part: Part) -> list[str]:
    """What only the agent's own ignore rules leave out, without what programs leave behind whenever they run."""
    return [path for path in dict.fromkeys(part.hidden) if not worktree.is_byproduct(path)]


def part_now(store: Store, task: Task) -> tuple[Tree, Part]:
    """The tree and what differs in it now, also while a run works in it."""
    ours = git_of(store, task.id)
    shielded = any(run.is_shielded for run in task.runs)
    tree = follow_project(ours, store.root)
    if not os.path.isdir(tree.path):
        tree = restore_tree(ours)
    part = take_part(ours, walls.enter_tree_git(store, task, ours) if shielded else ())
    return tree, part


def can_be_own(actor: Actor, task: Task, worked: Worked) -> list[str]:
    """Of the files that changed, and of those that are ignored, which a check may depend on."""
    tree = load_tree(git_of(actor.store, task.id))
    hidden = [path for path in (*worked.part.ignored, *worked.part.hidden) if is_test(path) or is_steering(path)]
    return [*(path for path in worked.since_first if _steers_anew(tree, path, worked.part.commit)), *hidden]


def _steers_anew(tree: Tree, path: str, commit: str) -> bool:
    """False for a file of which only another part than the one that steers a runner was changed."""
    if not path.endswith(PARTLY_STEERING):
        return True
    whole = os.path.normpath(f"{tree.prefix}/{path}" if tree.prefix else path)
    then, now = (steering_part(path, _text(tree, one, whole)) for one in (tree.base, commit))
    return bool(then != now)


def _text(tree: Tree, commit: str, path: str) -> str:
    """A file as it was in a commit; empty if it was not there."""
    found = tree.objects().call("cat-file", "blob", f"{commit}:{path}")
    return found.output.decode("utf-8", "replace") if found.status == 0 else ""
