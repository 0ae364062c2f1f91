"""`merge`: land what tasks did in their trees, one after the other, and only what holds on the merged tree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, OverhandError, Refused
from overhand.policy import Actor, find_caller, load_config, require_person
from overhand.record import Merged
from overhand.runs import check_elsewhere, checks_as_json, git_of
from overhand.system import find_git, random_text
from overhand.trees import (
    Committer,
    Head,
    Landing,
    empty_trash,
    keep_part,
    land_on_branch,
    land_work,
    list_commits,
    load_tree,
    merge_trees,
    read_head,
    recover_landings,
    remove_tree,
    trees_of,
)
from overhand.verbs.tasks import look_at_task, read_result
from overhand.verbs.verb import Reply, about_task
from overhand.words import SHOWN_VERIFICATIONS, VERIFICATIONS

if TYPE_CHECKING:
    from overhand.record import Task
    from overhand.system import Git
    from overhand.trees import Conflict
    from overhand.verbs.verb import Session


def merge(
    session: Session,
    id: list[str],
    into: str | None = None,
    dry_run: bool = False,
    anyway: bool = False,
    require: str | None = None,
) -> Reply:
    """Land each in turn on the moved target; the first that cannot be landed ends it, and the earlier ones stay."""
    caller = find_caller(session.store)
    require_person(caller, "Merging")
    actor = Actor(session.store, load_config(session.root), caller.by(session.via))
    tasks = [look_at_task(session, session.store.task(session.store.resolve(one))) for one in id]
    rows: list[dict[str, Any]] = []
    for task in tasks:
        try:
            _require_mergeable(task, anyway=anyway, require=require)
            rows.append(_merge(session, actor, task, into, dry_run=dry_run, anyway=anyway))
        except OverhandError as error:
            if len(tasks) == 1:
                raise
            rows.append({**_about(task), "landed": False, "error": error.as_json()["error"]})
        if not rows[-1]["landed"] and not (dry_run and "error" not in rows[-1] and not rows[-1]["conflicts"]):
            break
    left = [_about(task) for task in tasks[len(rows) :]]
    failed = any("error" in row or row["conflicts"] or row["failing"] for row in rows)
    payload = {"schema": "overhand.merge/1", "dry_run": dry_run, "tasks": rows, "not_tried": left}
    return Reply(payload, 1 if failed else 0)


def _about(task: Task) -> dict[str, Any]:
    found = {**about_task("merge", task, "title"), "conflicts": [], "failing": []}
    found.pop("schema", None)
    return found


def _require_mergeable(task: Task, *, anyway: bool, require: str | None) -> None:
    if require is not None and require not in VERIFICATIONS:
        raise BadInput(f"--require {require} is no verification.", f"One of: {', '.join(VERIFICATIONS)}")
    if task.tree is None:
        raise Refused(f"Task {task.name} has no tree: there is nothing to merge.", "It worked in your checkout.")
    if task.merged is not None:
        commit = task.merged.commit[:10]
        raise Refused(f"Task {task.name} is merged already, as {commit}.", f"See it: git show {commit}")
    if task.current_run is not None or task.queued:
        raise Refused(f"Task {task.name} is still at work.", f"Wait for it: overhand wait {task.name}")
    if task.status != "completed" and not anyway:
        hint = f"See why: overhand show {task.name}; or land it as it is: overhand merge {task.name} --anyway"
        raise Refused(f"Task {task.name} is {task.status or 'not judged'}, not completed.", hint)
    order = list(VERIFICATIONS)
    if require is not None and order.index(task.verification) < order.index(require):
        shown = SHOWN_VERIFICATIONS[task.verification]
        raise Refused(f"Task {task.name} is {shown}, and {require} is required.", f"See: overhand show {task.name}")


def _merge(
    session: Session, actor: Actor, task: Task, into: str | None, *, dry_run: bool, anyway: bool
) -> dict[str, Any]:
    ours = git_of(session.store, task.id)
    part, tree = keep_part(ours), load_tree(ours)
    checkout = find_git(session.root, writes=True)
    if checkout is None:
        raise Refused("The project's repository can't be used.", "See what is wrong: overhand doctor")
    recover_landings(checkout, f"{session.root}/.overhand/landing")  # of a merge that was killed
    head = read_head(checkout)
    ref, old = _target(checkout, head, into)
    objects = tree.objects()
    session.progress(f"Merging task {task.name} …")
    merged = merge_trees(objects, tree.base, old or tree.base, part.commit)
    onto = trees_of(objects, old)[0] if old else ""
    row = {
        **_about(task),
        "into": ref.removeprefix("refs/heads/"),
        "old": old,
        "landed": False,
        "conflicts": [_conflict(one) for one in merged.conflicts],
        "files": len(part.changed),
        "checks": [],
    }
    if merged.conflicts:
        return row
    facts = [] if merged.tree == part.written and _holds(session, task) else _check(session, actor, task, merged.tree)
    row["checks"] = checks_as_json(facts, (), session.root)
    row["failing"] = [fact.command for fact in facts if not fact.passed]
    if dry_run or (row["failing"] and not anyway):
        return row
    if merged.tree == onto:  # a killed merge may have landed it
        _record(actor, task, ref, old, old)
        return {**row, "landed": True, "commit": old, "nothing": not part.changed}
    committer = Committer(checkout, objects)
    message = _message(task, row["failing"])
    if actor.config.trees.commits == "replay" and part.tip:
        commits = [one.id for one in reversed(list_commits(tree, part.tip))]
        made = committer.replay(old, merged.tree, message, tree.base, commits)
    else:
        made = committer.squash(old, merged.tree, message)
    done = (
        land_work(Landing(task.id, checkout, objects, f"{session.root}/.overhand/landing", head, old, made.commit))
        if into is None
        else land_on_branch(checkout, objects, ref, old if _exists(checkout, ref) else "", made.commit, start=old)
    )
    _record(actor, task, ref, old, made.commit)
    row |= {"landed": True, "commit": made.commit, "undo": done.undo, "notes": list(made.notes)}
    row["late"] = [{"path": path, "kept": kept} for path, kept in done.late]
    _drop_tree(session, ours, row)
    return row


def _target(checkout: Git, head: Head, into: str | None) -> tuple[str, str]:
    """The ref to land on, and its commit; a branch that does not exist begins at HEAD."""
    if into is None:
        return head.ref, head.commit
    ref = f"refs/heads/{into}"
    if checkout.call("check-ref-format", "--branch", into).status != 0:
        raise BadInput(f"{into} is no name for a branch.", "Such as: --into fix/login")
    found = checkout.call("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return ref, found.output.decode().strip() if found.status == 0 else head.commit


def _exists(checkout: Git, ref: str) -> bool:
    return checkout.call("rev-parse", "--verify", "--quiet", ref).status == 0


def _conflict(one: Conflict) -> dict[str, Any]:
    return {"path": one.path, "message": one.message, "hunks": [hunk._asdict() for hunk in one.hunks]}


def _holds(session: Session, task: Task) -> bool:
    """Whether the checks passed on the very files that are landed."""
    checks = read_result(session, task).get("checks", [])
    return len(checks) >= len(task.checks) and all(check["passed"] for check in checks)


def _check(session: Session, actor: Actor, task: Task, written: str) -> list[Any]:
    if not task.checks:
        return []
    session.progress(f"Running the checks of task {task.name} on the merged tree …")
    place = f"{session.store.run_folder(task.id, task.judged_run or '')}/merge-{random_text(6)}"
    return check_elsewhere(actor, task, written, place)


def _message(task: Task, failing: list[str]) -> str:
    title = " ".join(task.title.split())
    subject = title if len(title) <= 72 else title[:71] + "…"
    word = SHOWN_VERIFICATIONS[task.verification]
    lines = [subject, "", *([task.summary.strip(), ""] if task.summary.strip() else [])]
    lines += [f"Task: {task.id}", f"Agent: {task.agent}", f"Verification: {word}"]
    if task.status != "completed":
        lines.append(f"Landed although it is {task.status or 'not judged'}.")
    lines += [f"Landed although this fails on the merged tree: {command}" for command in failing]
    return "\n".join(lines) + "\n"


def _record(actor: Actor, task: Task, ref: str, old: str, commit: str) -> None:
    with actor.store.lock(task.id, actor.by) as locked:
        if locked.task.merged is None:
            locked.append(Merged(into=ref, old=old, commit=commit), sync=True)


def _drop_tree(session: Session, ours: str, row: dict[str, Any]) -> None:
    """The tree goes once its work is landed; a git dir of ours keeps it, so nothing is lost if that is impossible."""
    try:
        gone = remove_tree(ours)
        empty_trash(os.path.dirname(load_tree(ours).path))
        if gone.is_kept:
            row["kept"] = gone.trash
    except OverhandError as error:
        session.tell(f"The tree of task {row['handle']} stays for now: {error.message}")
