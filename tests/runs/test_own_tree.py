"""Tasks in a working tree of their own: where they work, what is judged, and what stays as it was."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from support.items import House
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

DONE = "printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' > \"$OVERHAND_OUTPUT\""
FIX = f"sed -i s/a-b/a+b/ app.py; {DONE}"
CHECK = "python3 -c 'from app import add; assert add(1, 2) == 3'"


def git(place: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    return subprocess.run(["git", "-C", str(place), *who, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    house = House(overhand_project)
    house.write("app.py", "def add(a, b): return a-b\n")
    house.write(".gitignore", "__pycache__/\ntrail\n")
    git(house.path, "init", "-q", "-b", "main")
    git(house.path, "config", "user.name", "Ada")
    git(house.path, "config", "user.email", "ada@example.com")
    git(house.path, "add", "app.py", ".gitignore")
    git(house.path, "commit", "-qm", "First")
    house.settings('[trees]\ndefault = "tree"\n')
    house.project.agent("worker", command=["/bin/sh", "-c", FIX])
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")


def state(place: Path) -> dict[str, bytes]:
    """Every file of the checkout and its git dir, but what Overhand writes there."""
    ours = (".agent-workspaces", ".overhand", ".git/refs/overhand")
    files = (path for path in place.rglob("*") if path.is_file())
    named = {str(path.relative_to(place)): path.read_bytes() for path in files}
    return {name: data for name, data in named.items() if not name.startswith(ours)}


def test_the_checkout_stays_as_it_was_and_the_tree_is_judged(house: House) -> None:
    house.write("notes.txt", "not committed\n")
    before = state(house.path)
    shown = house.json("delegate", "Fix add", "--agent", "worker", "--verify", CHECK, "--wait")
    assert (shown["status"], shown["verification"], shown["proof"]) == ("completed", "proved", "red-green")
    assert shown["look_at"]["changed"] == ["app.py"]
    assert shown["works_in"]["carried"] >= 1
    assert state(house.path) == before
    tree = house.state(shown["task_id"]).tree
    assert tree is not None
    assert not tree.path.startswith(str(house.path))
    assert house.project.run("show", shown["task_id"], "--path").out.split()[-1] == tree.path
    with open(f"{tree.path}/notes.txt", encoding="utf-8") as file:
        assert file.read() == "not committed\n"


def test_diff_shows_only_the_agents_part(house: House) -> None:
    house.write("notes.txt", "not committed\n")
    task = house.json("delegate", "Fix add", "--agent", "worker", "--wait")["task_id"]
    found = house.json("diff", task)
    assert found["schema"] == "overhand.diff/1"
    assert [(one["path"], one["change"], one["added"], one["deleted"]) for one in found["files"]] == [
        ("app.py", "changed", 1, 1)
    ]
    assert "+def add(a, b): return a+b" in found["patch"].splitlines()
    assert "notes.txt" not in found["patch"]
    text = house.project.run("diff", task, "--stat").out
    assert "1 file, 1 lines added, 1 deleted" in text
    assert "@@" not in text
    assert house.json("diff", task, "gone.py")["files"] == []
    assert "@@" in house.project.run("show", task, "--diff").out


def test_two_writers_work_at_the_same_time(house: House) -> None:
    go = house.path.parent / "go"
    work = f'echo "$OVERHAND_TASK" > mine; until [ -e {go} ]; do sleep 0.05; done; {DONE}'
    house.project.agent("worker", command=["/bin/sh", "-c", work])
    tasks = [house.delegate(f"Part {number}", "--agent", "worker") for number in (1, 2)]
    until(lambda: all(house.state(task).tree for task in tasks), "both trees")
    trees = [tree.path for task in tasks if (tree := house.state(task).tree)]
    until(lambda: all(_text(f"{tree}/mine") for tree in trees), "both at work")
    go.touch()
    assert [house.judged(task).status for task in tasks] == ["completed"] * 2
    assert [_text(f"{tree}/mine").strip() for tree in trees] == tasks
    assert not (house.path / "mine").exists()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def test_here_base_and_committed(house: House) -> None:
    house.write("app.py", "def add(a, b): return a*b\n")
    git(house.path, "commit", "-qam", "Second")
    house.write("app.py", "def add(a, b): return a//b\n")
    house.project.agent(
        "worker", command=["/bin/sh", "-c", f'cat app.py > "$OVERHAND_DATA.txt"; {DONE}; cp app.py seen']
    )

    def seen(*options: str) -> str:
        task = house.json("delegate", "Look", "--agent", "worker", "--wait", *options)["task_id"]
        return _text(house.state(task).workplace(str(house.path)) + "/seen")

    assert "a//b" in seen()
    assert "a*b" in seen("--committed")
    assert "a-b" in seen("--base", "HEAD~1")
    assert not (house.path / "seen").exists()
    assert "a//b" in seen("--here")
    assert (house.path / "seen").exists()


def test_a_task_begins_with_the_result_of_another(house: House) -> None:
    first = house.json("delegate", "Fix add", "--agent", "worker", "--wait")["handle"]
    house.project.agent("worker", command=["/bin/sh", "-c", f"cp app.py seen; {DONE}"])
    second = house.json("delegate", "Go on", "--agent", "worker", "--wait", "--base", str(first))["task_id"]
    tree = house.state(second).tree
    assert tree is not None
    assert "a+b" in _text(f"{tree.path}/seen")
    assert [one["path"] for one in house.json("diff", second)["files"]] == ["seen"]


@pytest.mark.parametrize("words", [("--base", "HEAD", "--here"), ("--committed", "--here")])
def test_contradicting_options_are_refused(house: House, words: tuple[str, ...]) -> None:
    ran = house.project.run("delegate", "x", "--agent", "worker", *words)
    assert (ran.code, "--here works in your checkout" in ran.err) == (2, True)


def test_an_unknown_base_is_named(house: House) -> None:
    ran = house.project.run("delegate", "x", "--agent", "worker", "--base", "nowhere")
    assert (ran.code, "nowhere is neither a commit nor a task here" in ran.err) == (4, True)


def test_set_up_and_ports(house: House) -> None:
    house.settings(
        '[trees]\ndefault = "tree"\nsetup = ["echo made > made", "test -n \\"$OVERHAND_HOME\\""]\nports = 5\n'
    )
    work = f'test -f made && echo "$OVERHAND_PORT $OVERHAND_PORTS" > ports; {DONE}'
    house.project.agent("worker", command=["/bin/sh", "-c", work])
    shown = house.json("delegate", "x", "--agent", "worker", "--wait")
    tree = house.state(shown["task_id"]).tree
    assert tree is not None
    assert shown["look_at"]["changed"] == ["ports"], "what set-up wrote is no part of it"
    first = tree.ports[0]
    assert _text(f"{tree.path}/ports") == f"{first} {first}-{first + 4}\n"


def test_a_failed_set_up_is_told_with_its_last_words(house: House) -> None:
    house.settings('[trees]\ndefault = "tree"\nsetup = ["echo no such package >&2; exit 3"]\n')
    shown = house.json("delegate", "x", "--agent", "worker", "--wait", code=1)
    assert (shown["status"], shown["runs"]) == ("rejected", [])
    assert "ended with 3 in the new tree: no such package" in shown["summary"]


def test_what_a_check_writes_is_no_part_of_a_later_run(house: House) -> None:
    house.project.agent("worker", command=["/bin/sh", "-c", f"echo more >> work; {DONE}"])
    task = house.json("delegate", "x", "--agent", "worker", "--verify", "echo $$ > report", "--wait")["task_id"]
    assert [one["path"] for one in house.json("diff", task)["files"]] == ["work"]
    house.json("send", task, "Once more")
    assert house.judged(task).status == "completed"
    assert [one["path"] for one in house.json("diff", task)["files"]] == ["work"]


def worker(house: House, script: str) -> None:
    house.project.agent("worker", command=["/bin/sh", "-c", f"{script}; {DONE}"])


def done(house: House, title: str, *options: str) -> str:
    return str(house.json("delegate", title, "--agent", "worker", "--wait", *options)["task_id"])


def test_merge_lands_one_commit_and_leaves_the_rest_alone(house: House) -> None:
    task = done(house, "Fix add", "--verify", CHECK)
    house.write("notes.txt", "mine\n")
    old = git(house.path, "rev-parse", "HEAD").strip()
    whole = house.json("merge", task, "--dry-run")
    tried = whole["tasks"][0]
    assert whole["schema"] == "overhand.merge/1"
    assert (tried["landed"], tried["failing"], git(house.path, "rev-parse", "HEAD").strip()) == (False, [], old)
    row = house.json("merge", task)["tasks"][0]
    assert (row["landed"], row["into"], row["undo"]) == (True, "main", f"git reset --keep {old}")
    assert "a+b" in _text(str(house.path / "app.py"))
    assert git(house.path, "log", "--format=%s %an", "-1") == "Fix add Ada\n"
    assert f"Task: {task}" in git(house.path, "log", "--format=%b", "-1")
    assert git(house.path, "status", "--short", "--", "app.py", "notes.txt") == "?? notes.txt\n"
    shown = house.json("show", task)
    assert shown["headline"] == "done"
    tree = house.state(task).tree
    assert tree is not None
    assert not (house.path.parent / tree.path).exists()
    again = house.project.run("merge", task)
    assert (again.code, "is merged already" in again.err) == (3, True)


def test_a_task_with_work_to_merge_stays_ready_although_it_was_seen(house: House) -> None:
    task = done(house, "Fix add")
    house.project.run("show", task)
    assert house.json("show", task)["headline"] == "ready"


def test_several_land_on_each_other_until_one_cannot(house: House) -> None:
    worker(house, "echo one > one")
    first = done(house, "One")
    worker(house, "sed -i s/a-b/a+b/ app.py")
    second = done(house, "Two")
    worker(house, "sed -i s/a-b/a*b/ app.py")
    third = done(house, "Three")
    worker(house, "echo four > four")
    fourth = done(house, "Four")
    found = house.json("merge", first, second, third, fourth, code=1)
    assert [row["landed"] for row in found["tasks"]] == [True, True, False]
    (conflict,) = found["tasks"][2]["conflicts"]
    assert (conflict["path"], conflict["hunks"][0]["line"]) == ("app.py", 1)
    assert [one["task_id"] for one in found["not_tried"]] == [fourth]
    assert git(house.path, "log", "--format=%s").split() == ["Two", "One", "First"]
    assert "not landed; tell the agent: overhand send" in house.project.run("merge", third).out


def test_an_edit_of_the_user_is_in_the_way(house: House) -> None:
    task = done(house, "Fix add")
    house.write("app.py", "def add(a, b): return a-b  # mine\n")
    ran = house.project.run("merge", task)
    assert (ran.code, "app.py" in ran.err) == (3, True)
    assert "# mine" in _text(str(house.path / "app.py"))
    assert house.json("show", task)["headline"] == "ready"


def test_into_makes_a_branch_and_leaves_the_checkout(house: House) -> None:
    task = done(house, "Fix add")
    before = state(house.path)
    assert house.json("merge", task, "--into", "fix/add")["tasks"][0]["into"] == "fix/add"
    assert {name: data for name, data in state(house.path).items() if not name.startswith(".git/")} == {
        name: data for name, data in before.items() if not name.startswith(".git/")
    }
    assert "a+b" in git(house.path, "show", "fix/add:app.py")
    assert "a-b" in git(house.path, "show", "main:app.py")


def test_what_fails_on_the_merged_tree_is_not_landed(house: House) -> None:
    check = "! grep -q forbidden other.py || ! grep -q a+b app.py"
    task = done(house, "Fix add", "--verify", check)
    house.write("other.py", "forbidden\n")
    git(house.path, "add", "other.py")
    git(house.path, "commit", "-qm", "Other")
    row = house.json("merge", task, code=1)["tasks"][0]
    assert (row["landed"], row["failing"]) == (False, [check])
    assert "a-b" in _text(str(house.path / "app.py"))
    assert house.json("merge", task, "--anyway", code=1)["tasks"][0]["landed"]
    assert "Landed although this fails on the merged tree" in git(house.path, "log", "--format=%b", "-1")


def test_only_completed_work_is_landed(house: House) -> None:
    house.project.agent("worker", command=["/bin/sh", "-c", "echo half > half; exit 1"])
    task = house.json("delegate", "Half", "--agent", "worker", "--wait", code=1)["task_id"]
    ran = house.project.run("merge", task)
    assert (ran.code, "is failed, not completed" in ran.err) == (3, True)
    proved = house.project.run("merge", task, "--anyway", "--require", "proved")
    assert (proved.code, "proved is required" in proved.err) == (3, True)
    assert house.json("merge", task, "--anyway")["tasks"][0]["landed"]
    assert _text(str(house.path / "half")) == "half\n"


def test_ignored_files_come_along_as_the_settings_say(house: House) -> None:
    house.write(".gitignore", "__pycache__/\ntrail\n.env\nvendor/\nbig/\n")
    for path in (".env", "vendor/one", "big/two"):
        house.write(path, f"{path}\n")
    house.settings('[trees]\ndefault = "tree"\ncopy = ["vendor"]\nlink = ["big"]\n')
    worker(house, "cat .env vendor/one big/two > seen")
    task = done(house, "Look")
    tree = house.state(task).tree
    assert tree is not None
    assert _text(f"{tree.path}/seen") == ".env\nvendor/one\nbig/two\n"
    assert [one["path"] for one in house.json("diff", task)["files"]] == ["seen"]
