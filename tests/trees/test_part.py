"""The agent's part is what its files differ from the start, whatever it did with its repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from overhand.trees.commits import list_commits
from overhand.trees.keep import check_agents_git, remove_tree, restore_tree
from overhand.trees.part import diff_part, take_part
from support.trees import files_of

if TYPE_CHECKING:
    from overhand.trees.part import Part
    from support.trees import Ground


def found(part: Part) -> set[tuple[str, str]]:
    return {(one.status, one.path) for one in part.changed}


def test_an_untouched_tree_has_no_part(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    part = take_part(tree.ours)
    assert (part.written, part.commit, part.changed, part.left) == (tree.base_tree, tree.base, (), ())
    assert part.settled
    assert check_agents_git(tree.ours) == ()


def test_committed_and_uncommitted_work_is_one_part(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    ground.write("src/one.py", "one = 'mine'\n", below=tree.path)
    ground.commit("Change one", cwd=tree.path)
    ground.write("src/four.py", "four = 4\n", below=tree.path)
    (Path(tree.path) / "src/two.py").unlink()
    part = take_part(tree.ours)
    assert found(part) == {("M", "src/one.py"), ("A", "src/four.py"), ("D", "src/two.py")}
    assert part.tip == ground.git("rev-parse", "HEAD", cwd=tree.path)
    assert [one.subject for one in list_commits(tree, part.tip)] == ["Change one"]
    assert diff_part(tree, part.written, "--numstat") == b"1\t0\tsrc/four.py\n1\t1\tsrc/one.py\n0\t1\tsrc/two.py\n"
    assert b"+one = 'mine'" in diff_part(tree, part.written, paths=["src/one.py"])
    again = take_part(tree.ours)
    assert (again.written, again.commit) == (part.written, part.commit)


def test_a_removed_tree_comes_back(ground: Ground) -> None:
    ground.begin_fully()
    ground.make_dirty()
    tree = ground.tree()
    ground.write("src/four.py", "four = 4\n", below=tree.path)
    had = files_of(tree.path)
    removed = remove_tree(tree.ours)
    assert not Path(tree.path).exists()
    assert restore_tree(tree.ours).path == tree.path
    assert files_of(tree.path) == had
    part = take_part(tree.ours)
    assert part.commit == removed.commit
    assert found(part) == {("A", "src/four.py")}
