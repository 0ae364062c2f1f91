"""What a tree needs to run comes along, if it is ignored and listed; it is no part of the agent's work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.errors import BadInput
from overhand.trees.include import include_files
from overhand.trees.keep import check_agents_git
from overhand.trees.part import take_part
from support.trees import Picture

if TYPE_CHECKING:
    from support.trees import Ground


@pytest.fixture
def full(ground: Ground) -> Ground:
    ground.begin()
    ground.write(".gitignore", "*.log\nbuild/\n.env*\nnode_modules/\n.venv/\ndata/\n")
    ground.commit("rules")
    ground.write(".env", "SECRET=1\n")
    ground.write("app/.env.local", "SECRET=2\n").chmod(0o600)
    ground.write("node_modules/a/index.js")
    ground.write("node_modules/.env", "not mine\n")
    ground.write("data/fixtures/one.json", "{}\n")
    ground.write("data/fixtures/big.bin", "x\n")
    ground.write("data/with [blank] #1.json", "{}\n")
    ground.write(".venv/pyvenv.cfg")
    ground.write(".venv/bin/python")
    ground.write("keep.log", "log\n")
    return ground


def is_no_part(ground: Ground, ours: str) -> None:
    part = take_part(ours)
    assert (part.changed, part.hidden, part.left) == ((), (), ())
    assert check_agents_git(ours) == ()
    assert ground.git("status", "--porcelain", cwd=ground.request().path) == ""


def test_environment_files_come_along_by_default(full: Ground) -> None:
    tree = full.tree()
    before = Picture(full.home)
    included = include_files(tree.ours)
    assert included.copied == (".env", "app/.env.local")
    assert Path(tree.path, ".env").read_text() == "SECRET=1\n"
    assert Path(tree.path, "app/.env.local").stat().st_mode & 0o777 == 0o600
    assert os.stat(f"{tree.path}/.env").st_nlink == 1
    assert not Path(tree.path, "node_modules").exists()
    is_no_part(full, tree.ours)
    assert before.changes() == {}


def test_lists_name_what_is_copied_and_linked(full: Ground) -> None:
    full.write(".worktreeinclude", "data/**/*.json\n/data/*.json\nsrc/one.py\n.venv/\n*.log\n")
    full.write(".worktreelink", "node_modules\n")
    full.commit("lists")
    tree = full.tree()
    Path(tree.path, "keep.log").write_text("of the tree\n")
    included = include_files(tree.ours, default=())
    assert set(included.copied) == {"data/fixtures/one.json", "data/with [blank] #1.json"}
    assert included.linked == ("node_modules",)
    assert os.readlink(f"{tree.path}/node_modules") == str(full.top / "node_modules")
    assert {one.path for one in included.left} == {"keep.log", ".venv/"}
    assert Path(tree.path, "keep.log").read_text() == "of the tree\n"
    is_no_part(full, tree.ours)


def test_settings_name_files_and_folders(full: Ground) -> None:
    tree = full.tree()
    included = include_files(tree.ours, copy=["data", "absent"], link=["node_modules/"])
    assert len([path for path in included.copied if path.startswith("data/")]) == 3
    assert included.linked == ("node_modules",)
    is_no_part(full, tree.ours)
    for wrong in ("/etc/passwd", "../x", "~/x"):
        with pytest.raises(BadInput, match="leads out"):
            include_files(tree.ours, copy=[wrong])


def test_a_folder_of_the_tree_that_is_a_link_is_not_written_through(full: Ground) -> None:
    full.write("outside/keep", below=full.home)
    (full.top / "app/.env.local").unlink()
    (full.top / "app").rmdir()
    (full.top / "app").symlink_to(full.home / "outside")
    tree = full.tree()
    before = Picture(full.home)
    assert include_files(tree.ours, copy=["app"]).copied == (".env",)
    assert before.changes() == {}
