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
from overhand.trees import find_filters, load_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.policy import Actor
    from overhand.record import Task
    from overhand.runs.judge import CheckFact
    from overhand.trees import Tree

_LONG = 600.0  # seconds to write many files


def check_elsewhere(actor: Actor, task: Task, written: str, evidence: str) -> list[CheckFact]:
    """Run the task's checks on a tree of its git dir; what they print is left in the folder `evidence`."""
    if not task.checks or task.tree is None:
        return []
    tree = load_tree(git_of(actor.store, task.id))
    with _checked_out(tree, written) as there:
        set_up(actor, task, there, f"{evidence}/setup")
        folder = there.folder if there.prefix else ""
        moved = task.but(tree=task.tree.replace(path=there.path, folder=folder))
        return checks.checks_after(actor, moved, evidence, task.run(task.judged_run))


@contextmanager
def _checked_out(tree: Tree, written: str) -> Iterator[Tree]:
    """The files of a tree in a folder of their own, beside the working trees; it has no repository."""
    name = f".throwaway-{random_text(8)}"
    path, index = f"{os.path.dirname(tree.path)}/{name}", f"{tree.ours}/{name}.index"
    os.makedirs(path, 0o700)
    try:
        git = tree.objects()._replace(work_tree=path, index_file=index, cwd=path)
        find_filters(git, tree.format).off(git).run("read-tree", "--reset", "-u", written, patience=_LONG)
        yield replace(tree, path=path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        for left in (index, f"{index}.lock"):
            if os.path.lexists(left):
                os.unlink(left)
