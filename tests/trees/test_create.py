"""A tree has the user's files exactly, borrows the project's objects, and changes nothing of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.trees import Picture, files_of

if TYPE_CHECKING:
    from support.trees import Ground


def test_a_tree_has_what_the_checkout_has(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    before = Picture(ground.home)
    tree = ground.tree()
    changed = before.changes()
    refs = str(ground.top / ".git/refs/overhand")
    assert {path for path in changed if not path.startswith(refs)} == set()
    assert ground.git("rev-parse", tree.project_ref) == ground.git("rev-parse", "HEAD") == tree.head
    wanted = {name: data for name, data in files_of(ground.top).items() if not name.endswith((".log", ".env"))}
    assert files_of(tree.path) == wanted
    assert ground.git("status", "--porcelain", cwd=tree.path) == ""
    assert {(one.status, one.path) for one in tree.carried} == {
        ("M", "src/one.py"),
        ("M", "src/two.py"),
        ("D", "src/three.py"),
        ("A", "new/staged.py"),
        ("A", "new/untracked ü.txt"),
        ("A", "program"),
        ("A", "link"),
    }
