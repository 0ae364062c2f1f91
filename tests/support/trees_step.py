"""One step of a tree's life in a process of its own: `trees_step.py STEP PROJECT OURS PATH`."""

from __future__ import annotations

import sys

from overhand.trees.create import Request, create_tree
from overhand.trees.keep import check_agents_git, release_tree, remove_tree, restore_tree
from overhand.trees.part import take_part


def main(step: str, project: str, ours: str, path: str) -> None:
    if step == "create":
        number = path.rpartition("/")[2].partition("-")[0]
        create_tree(Request(project, ours, path, f"task-{number}"))
    elif step == "part":
        take_part(ours)
        check_agents_git(ours)
    elif step == "remove":
        remove_tree(ours)
    elif step == "restore":
        restore_tree(ours)
    else:
        release_tree(ours)


if __name__ == "__main__":
    main(*sys.argv[1:])
