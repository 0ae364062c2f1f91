"""The dry run: what a task's work becomes on top of a target that has moved, and where both changed the same lines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Refused, ToolMissing
from overhand.trees.committer import Committer
from overhand.trees.land import land_work
from overhand.trees.merge import Conflict, Hunk, find_hunks, merge_trees
from trees.ground import Ground, put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trees.ground import Content

TEXT = "".join(f"{number}\n" for number in range(1, 21))
FILES: dict[str, Content] = {"a.txt": TEXT, "b.txt": "b\n", "c.bin": b"\0\1\2"}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.make(tmp_path / "ground", FILES)


def moved(ground: Ground, work: Mapping[str, Content], target: Mapping[str, Content]) -> Ground:
    """The agent did this, the user committed that."""
    ground.work(work)
    put(ground.top, target)
    ground.commit("meanwhile")
    return ground


def shown(ground: Ground, tree: str, path: str) -> str:
    return ground.our_git.run("cat-file", "blob", f"{tree}:{path}").decode()


def test_both_sides_are_merged_and_no_file_is_touched(ground: Ground) -> None:
    work, target = TEXT.replace("3\n", "three\n", 1), TEXT.replace("18\n", "eighteen\n")
    moved(ground, {"a.txt": work, "new.txt": "n\n"}, {"a.txt": target, "b.txt": "B\n"})
    before = ground.state()
    merged = ground.merge()
    assert merged.conflicts == ()
    assert shown(ground, merged.tree, "a.txt") == work.replace("18\n", "eighteen\n")
    assert shown(ground, merged.tree, "b.txt") == "B\n"
    assert ground.state() == before


def test_the_users_uncommitted_files_are_no_part_of_it(ground: Ground) -> None:
    put(ground.top, {"b.txt": "edited\n", "mine.txt": "mine\n"})
    ground.start()
    ground.work({"a.txt": "all new\n"})
    merged = ground.merge()
    assert merged.conflicts == ()
    names = ground.our_git.lines("ls-tree", "-r", "-z", "--name-only", merged.tree)
    assert (names, shown(ground, merged.tree, "b.txt")) == (["a.txt", "b.txt", "c.bin"], "b\n")


def test_conflicts_are_shown_by_hunk(ground: Ground) -> None:
    work = TEXT.replace("3\n", "task\n", 1).replace("15\n", "task too\nand more\n")
    target = "0\n" + TEXT.replace("3\n", "target\n", 1).replace("15\n", "")
    moved(ground, {"a.txt": work}, {"a.txt": target})
    before = ground.state()
    found = ground.merge().conflicts
    assert found == (
        Conflict(
            "a.txt",
            "CONFLICT (content): Merge conflict in a.txt",
            (Hunk(4, "target\n", "3\n", "task\n"), Hunk(16, "", "15\n", "task too\nand more\n")),
        ),
    )
    assert target.splitlines()[3] == "target"
    assert ground.state() == before


def test_conflicts_that_have_no_lines(ground: Ground) -> None:
    moved(ground, {"a.txt": None, "c.bin": b"\0\2"}, {"a.txt": "changed\n", "c.bin": b"\0\3"})
    found = {one.path: one for one in ground.merge().conflicts}
    assert sorted(found) == ["a.txt", "c.bin"]
    assert "deleted in the task and modified in the target" in found["a.txt"].message
    assert [one.hunks for one in found.values()] == [(), ()]


def test_a_renamed_file_in_conflict(ground: Ground) -> None:
    work = TEXT.replace("3\n", "task\n", 1)
    moved(ground, {"a.txt": None, "z.txt": work}, {"a.txt": TEXT.replace("3\n", "target\n", 1)})
    (found,) = ground.merge().conflicts
    assert (found.path, found.hunks) == ("z.txt", (Hunk(3, "target\n", "3\n", "task\n"),))


def test_lines_that_look_like_markers_are_text() -> None:
    text = b"<<<<<<< other\n=======\n<<<<<<< T\nt\n||||||| b\n=======\n=======\n>>>>>>> X\n>>>>>>> W\n"
    assert find_hunks(text, "T", "W") == [Hunk(3, "t\n", "", "=======\n>>>>>>> X\n")]


def test_a_merge_program_of_the_project_is_not_run(ground: Ground) -> None:
    """Our git dir has a copy of the project's configuration, which may come with a hostile archive."""
    trace = ground.folder / "ran"
    moved(ground, {"a.txt": "task\n"}, {"a.txt": "target\n", ".gitattributes": "*.txt merge=evil\n"})
    ground.git("config", "--file", str(ground.ours / "config"), "merge.evil.driver", f"touch {trace}")
    (found,) = ground.merge().conflicts
    assert found.path == "a.txt"
    assert not trace.exists()


def test_an_older_git_is_refused_with_the_reason(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git 2.37 knows `merge-tree`, but not this one: it prints its usage."""
    moved(ground, {"a.txt": "task\n"}, {"b.txt": "target\n"})
    old = tmp_path / "bin/git"
    old.parent.mkdir()
    real = next(path for folder in os.get_exec_path() if (path := Path(folder, "git")).exists())
    old.write_text(
        '#!/bin/sh\ncase "$*" in\n*"merge-tree --write-tree"*) echo "usage: git merge-tree" >&2; exit 129;;\n'
        f'*version*) echo "git version 2.37.0";;\n*) exec {real} "$@";;\nesac\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    with pytest.raises(ToolMissing, match=r"needs git 2\.38 or newer; this is git 2\.37\.0"):
        ground.merge()


def test_a_target_that_has_not_moved_needs_no_merge(ground: Ground) -> None:
    work = ground.work({"a.txt": "task\n"})
    assert ground.merge().tree == work


def test_a_task_that_changed_nothing(ground: Ground) -> None:
    base = ground.start()
    put(ground.top, {"b.txt": "B\n"})
    target = ground.commit("meanwhile")
    assert merge_trees(ground.our_git, base, target, base).tree == ground.git("rev-parse", f"{target}^{{tree}}")


# the commit


def committer(ground: Ground) -> Committer:
    return Committer(ground.checkout, ground.our_git)


def test_commits_of_the_agent_are_replayed(ground: Ground) -> None:
    base = ground.start()
    dated = {"GIT_AUTHOR_NAME": "Somebody Else", "GIT_AUTHOR_DATE": "@1700000000 +0200"}
    one = ground.agent_commit({"a.txt": TEXT.replace("3\n", "three\n", 1)}, "First\n\nWith a body.", base, **dated)
    two = ground.agent_commit({"new.txt": "n\n"}, "Second", one)
    ground.work({"left.txt": "not committed\n"})
    put(ground.top, {"b.txt": "B\n"})
    target = ground.commit("meanwhile")
    merged = ground.merge()
    made = committer(ground).replay(target, merged.tree, "The rest", base, [one, two])
    assert made.notes == ()
    land_work(ground.landing(made.commit))
    log = ground.git("log", "--reverse", "--format=%s|%an|%cn|%ad|%P", "--date=raw", f"{target}..HEAD").splitlines()
    assert [line.split("|")[0] for line in log] == ["First", "Second", "The rest"]
    assert log[0].split("|")[1:4] == ["Ada", "Ada", "1700000000 +0200"]
    assert log[0].endswith(target)
    assert ground.git("log", "-1", "--format=%b", "HEAD~2") == "With a body."
    assert ground.git("show", "--name-only", "--format=", "HEAD~1") == "new.txt"
    assert ground.git("rev-parse", "HEAD^{tree}") == merged.tree


@pytest.mark.parametrize("why", ["not a single line", "do not begin where", "alone is in conflict", "none to replay"])
def test_commits_that_cannot_be_replayed_are_squashed(ground: Ground, why: str) -> None:
    base = ground.start()
    one = ground.agent_commit({"a.txt": "passing\n"}, "First", base)
    two = ground.agent_commit({"a.txt": TEXT, "new.txt": "n\n"}, "Second", one)
    put(ground.top, {"a.txt": TEXT.replace("3\n", "target\n", 1)})
    target = ground.commit("meanwhile")
    commits = {
        "not a single line": [one, one],
        "do not begin where": [two],
        "alone is in conflict": [one, two],
        "none to replay": [],
    }[why]
    merged = ground.merge()
    assert merged.conflicts == ()
    made = committer(ground).replay(target, merged.tree, "All", base, commits)
    assert len(made.notes) == 1
    assert why in made.notes[0]
    parents = ground.our_git.run("rev-list", "--parents", "-1", made.commit).decode().split()
    assert parents == [made.commit, target]


def test_signed_where_no_prompt_is_needed(ground: Ground, tmp_path: Path) -> None:
    key = tmp_path / "key"
    sign(ground, key, "")
    made = ground.make_commit()
    assert made.notes == ()
    assert "-----BEGIN SSH SIGNATURE-----" in ground.our_git.run("cat-file", "commit", made.commit).decode()


def test_unsigned_and_said_where_the_signer_would_ask(ground: Ground, tmp_path: Path) -> None:
    sign(ground, tmp_path / "key", "a passphrase")
    made = ground.make_commit()
    assert len(made.notes) == 1
    assert made.notes[0].startswith("Not signed: ")
    assert "SIGNATURE" not in ground.our_git.run("cat-file", "commit", made.commit).decode()


def test_a_signer_of_the_project_is_not_run(ground: Ground, tmp_path: Path) -> None:
    ground.work({"a.txt": "task\n"})
    for key, value in {"commit.gpgSign": "true", "gpg.program": f"{tmp_path}/evil"}.items():
        ground.git("config", key, value)
    made = ground.make_commit()
    assert made.notes == ("Not signed: the repository's own configuration, not yours, names the program that signs.",)


def sign(ground: Ground, key: Path, passphrase: str) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(key)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    ground.work({"a.txt": "task\n"})
    settings = {"commit.gpgSign": "true", "gpg.format": "ssh", "user.signingKey": f"{key}.pub"}
    for name, value in settings.items():
        ground.git("config", "--global", name, value)


def test_without_an_identity_it_is_said_what_to_type(ground: Ground) -> None:
    ground.work({"a.txt": "task\n"})
    (ground.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    with pytest.raises(Refused, match="does not know who you are") as refused:
        ground.make_commit()
    assert "git config --global user.name" in refused.value.hint


def test_an_identity_of_an_included_file(ground: Ground) -> None:
    """Work and private projects have other addresses: `includeIf` goes by the user's git dir, not by ours."""
    ground.work({"a.txt": "task\n"})
    (ground.home / "work.config").write_text("[user]\n\temail = ada@work.example\n")
    with (ground.home / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{ground.top}/"]\n\tpath = {ground.home}/work.config\n')
    ground.land()
    assert ground.git("log", "-1", "--format=%ae %ce") == "ada@work.example ada@work.example"
