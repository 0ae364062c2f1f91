"""What a task's runs did to the working tree, and which other tasks were at work in it meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.contracts import own_files, review_group
from overhand.errors import GitFailed, NotFound, Refused
from overhand.record import read_state
from overhand.runs import walls, worktree
from overhand.runs.checks import base_checked
from overhand.runs.proof import Work
from overhand.system import changed_marks, dump_line, epoch_of, git_marks, put_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.policy import Actor
    from overhand.record import Run, Task
    from overhand.runs.judge import CheckFact
    from overhand.runs.own_tree import Worked

_COARSE = 2.0  # seconds that the times of files may be behind
_CHANGED = "changed.json"


@dataclass(frozen=True, slots=True)
class TreeNow:
    """The working tree when a run had ended, before its checks wrote anything there."""

    first: dict[str, Any] | None = None  # the tree before the task's first run
    changed: list[str] | None = None  # since this run, or the one that it repairs; None: unknown
    since_first: list[str] | None = None  # by the task's runs
    enter: tuple[str, ...] = ()  # words that put up a shield around git
    base: dict[str, Any] | None = None  # the tree before this run, or the one that it repairs
    git: tuple[str, ...] = ()  # what became another one under `.git` since then
    worked: Worked | None = None  # in a tree of its own
    why: str = ""  # it is unknown what changed there


def look_at_tree(actor: Actor, task: Task, ended: Run) -> TreeNow:
    """What changed, by content, since this run and since the task's first one."""
    root, store = actor.store.root, actor.store
    before = {run.id: read_state(f"{store.run_folder(task.id, run.id)}/tree.json") for run in task.runs}
    before.setdefault(ended.id, None)
    if before[ended.id] is None:
        return TreeNow()
    if task.tree is not None:
        return _look_at_own(actor, task, ended, before)
    enter = walls.enter_git(store, shielded=ended.is_shielded)
    now = worktree.tree_snapshot(root, enter)
    own = worktree.changed_between(root, before[ended.id], now, enter)
    if task.checks and own is not None:
        put_file(f"{store.run_folder(task.id, ended.id)}/{_CHANGED}", dump_line({"changed": own}) + "\n")
    base = before[first_attempt(task, ended).id]
    changed = worktree.changed_between(root, base, now, enter)
    first = before[task.runs[0].id] if task.runs else before[ended.id]
    since_first = worktree.changed_between(root, first, now, enter)
    if since_first is not None and task.checks and len(before) > 1:
        made = _made_by_runs(actor, task, ended, own)
        since_first = [path for path in since_first if made is None or path in made]
    return TreeNow(first, changed, since_first, enter, base, _changed_in_git(root, task, base))


def _look_at_own(actor: Actor, task: Task, ended: Run, before: dict[str, dict[str, Any] | None]) -> TreeNow:
    """The same for a tree of its own; where git fails it stays as it is, and what changed is unknown."""
    from overhand.runs.own_tree import look_after

    began = before[first_attempt(task, ended).id] or {}
    try:
        worked = look_after(actor, task, ended, str(began.get("w", "")))
    except (GitFailed, NotFound, Refused) as error:
        return TreeNow(why=error.message)
    return TreeNow(before[ended.id], worked.changed, worked.since_first, git=worked.set_aside, worked=worked)


def note_byproducts(actor: Actor, task: Task) -> None:
    """What checks have just written in its tree is no part of what the agent did."""
    from overhand.runs.own_tree import after_checks

    try:
        after_checks(actor, task)
    except (GitFailed, NotFound, Refused):
        return  # then it is shown as the agent's


def _changed_in_git(root: str, task: Task, base: dict[str, Any] | None) -> tuple[str, ...]:
    """Hooks, settings and refs that became others; without the tags of its checkpoints, which are ours."""
    marks = (base or {}).get("git")
    if not marks:
        return ()
    tags = {f"refs/tags/{one.id} (new)" for one in task.checkpoints}
    return tuple(one for one in changed_marks(marks, git_marks(root)) if one not in tags)


def first_attempt(task: Task, ended: Run) -> Run:
    """The run that this one repairs, or that the repaired one repairs; else the run itself."""
    first = ended
    for earlier in reversed([run for run in task.runs if run.id != ended.id]):
        if earlier.status != "repair":
            break
        first = earlier
    return first


def _made_by_runs(actor: Actor, task: Task, ended: Run, own: list[str] | None) -> set[str] | None:
    """Files that one of the runs changed; without what checks and people wrote in between. None: unknown."""
    made = set(own or ())
    for run in task.runs:
        if run.id == ended.id:
            continue
        kept = read_state(f"{actor.store.run_folder(task.id, run.id)}/{_CHANGED}")
        if kept is None or not isinstance(kept.get("changed"), list):
            return None
        made.update(map(str, kept["changed"]))
    return made


def company_of(actor: Actor, task: Task, ended: Run) -> list[str]:
    """Other tasks that had a run in this checkout at some time since this one began, or its checks ran on the base."""
    if task.tree is not None:
        return []
    first = task.runs[0] if task.runs else ended
    began, now = min(epoch_of(first.created), base_checked(actor, task)), time.time()
    return [
        f"task {other.name} ({other.agent})"
        for other in actor.store.at_work(began - _COARSE)
        if other.id != task.id
        and not other.is_plan
        and other.begins is None
        and any(
            epoch_of(run.created) < now and (run.ended is None or epoch_of(run.ended) > began) for run in other.runs
        )
    ]


def work_of(
    actor: Actor, case: tuple[Task, Run], tree: TreeNow, company: Sequence[str], checks: Sequence[CheckFact]
) -> Work:
    """The same for the verdict; what only a check that turned from red to green asks for is looked at only then."""
    (task, ended), changed = case, tree.since_first
    root = task.workplace(actor.store.root)
    turned = any(check.passed and check.before not in (0, None) for check in checks)
    suspects, inline = list(changed or ()), []
    if turned and changed and tree.first is not None:
        if tree.worked is not None:
            from overhand.runs.own_tree import can_be_own

            suspects = can_be_own(actor, task, tree.worked)
        else:
            suspects = worktree.can_be_own(root, tree.first, changed, tree.enter)
        inline = worktree.with_inline_tests(root, changed)
    return Work(
        changed=None if changed is None else tuple(changed),
        suspects=tuple(suspects),
        inline_tests=tuple(inline),
        company=tuple(company),
        leftovers=bool(ended.leftovers),
    )


def to_look_at(
    root: str, tree: TreeNow, ended: Run, company: Sequence[str], checks: Sequence[CheckFact]
) -> dict[str, Any]:
    """What a reviewer looks at: what changed, and of that first what decides over checks, builds and agents."""
    changed = tree.changed or []
    own = {one.path for check in checks for one in own_files(check.command, changed, check.files)}
    groups = {path: group for path in changed if (group := review_group(path, own))}
    how = tree.worked.how if tree.worked else worktree.how_changed(root, tree.base, list(groups), tree.enter)
    order = sorted(groups, key=lambda path: (_GROUPS.index(groups[path]), _CHANGES.index(how[path]), path))
    return {
        "changed": tree.changed,
        "alone": not company,
        "company": list(company),
        "git": list(tree.git),
        "sensitive": order,
        "groups": {group: [f"{path} ({how[path]})" for path in order if groups[path] == group] for group in _GROUPS},
        "leftovers": ended.leftovers,
        **({"why": tree.why} if tree.why else {}),
        **(tree.worked.as_json() if tree.worked else {}),
    }


_GROUPS = ("tests", "checks", "CI", "settings", "lock files")
_CHANGES = ("deleted", "emptied", "changed", "new")
