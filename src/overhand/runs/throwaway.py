"""Checks in a throwaway tree: on a state that no working tree has, such as the result of a merge."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from overhand.runs import checks
from overhand.runs.own_tree import git_of, set_up
from overhand.system import random_text
from overhand.trees import find_filters, include_files, load_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.documents import Handoff
    from overhand.policy import Actor
    from overhand.record import Task
    from overhand.runs.judge import CheckFact
    from overhand.trees import Tree

_LONG = 600.0  # seconds to write many files


def check_base_apart(actor: Actor, task: Task, handoff: Handoff, *, shielded: bool) -> None:
    """Run the checks on the base, once, where they leave nothing that a later one could take for the result's."""
    if task.runs or task.tree is None:
        checks.check_base(actor, task, handoff, shielded=shielded)
        return
    tree = load_tree(git_of(actor.store, task.id))
    with _checked_out(actor, task, tree, tree.base) as there:
        set_up(actor, task, there, f"{actor.store.record(task.id)}/setup-base")
        checks.check_base(actor, _moved(task, there), handoff, shielded=shielded)


def check_elsewhere(actor: Actor, task: Task, written: str, evidence: str) -> list[CheckFact]:
    """Run the task's checks on a tree of its git dir; what they print is left in the folder `evidence`."""
    if not task.checks or task.tree is None:
        return []
    tree = load_tree(git_of(actor.store, task.id))
    with _checked_out(actor, task, tree, written) as there:
        set_up(actor, task, there, f"{evidence}/setup")
        return checks.checks_after(actor, _moved(task, there), evidence, task.run(task.judged_run))


def _moved(task: Task, there: Tree) -> Task:
    """The task as if it worked there."""
    if task.tree is None:
        return task
    return task.but(tree=task.tree.replace(path=there.path, folder=there.folder if there.prefix else ""))


@contextmanager
def _checked_out(actor: Actor, task: Task, tree: Tree, written: str) -> Iterator[Tree]:
    """The files of a tree in a folder of their own, beside the working trees; it has no repository."""
    name = f".throwaway-{random_text(8)}"
    path, index = f"{os.path.dirname(tree.path)}/{name}", f"{tree.ours}/{name}.index"
    os.makedirs(path, 0o700)
    try:
        git = tree.objects()._replace(work_tree=path, index_file=index, cwd=path)
        find_filters(git, tree.format).off(git).run("read-tree", "--reset", "-u", written, patience=_LONG)
        settings = actor.config_of(task).trees
        include_files(tree.ours, settings.copy, settings.link, into=path)
        yield replace(tree, path=path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        for left in (index, f"{index}.lock"):
            if os.path.lexists(left):
                os.unlink(left)
