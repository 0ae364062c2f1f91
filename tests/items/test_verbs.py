"""`item`: the list, the walk, claims, steps by hand, new requests, the next one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.items import items_in_file
from overhand.items import typed as heeding
from overhand.policy import load_config
from support.items import AT, BY, INLINE, NOTES, REQUEST
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.items import House


def typed(house: House, words: list[str], *answers: str) -> str:
    """A person at a terminal; what appeared on it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "overhand", *words],
        cwd=house.path,
        env=house.project.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # the other end is closed: that is how a terminal says it
    os.close(ours)
    process.wait(60)
    return shown.decode()


def request(house: House, kind: str, name: str, *weights: str) -> str:
    path = f"requests/{kind.upper()}_REQUEST_{name}.md"
    tag = " ".join((f"#needs-{kind}", *weights))
    house.write(path, f"# {kind.capitalize()} Request: {name}\n\n**Tags**: {tag}\n\n## What\nDo {name}.\n")
    return f"{path}#{kind}"


# the list


def test_the_list_is_in_the_order_of_dispatch(house: House) -> None:
    """Weight, the route's priority, when it was approved, path."""
    late = request(house, "documentation", "A", "#P1")
    early = request(house, "brainstorm", "B", "#P1")
    urgent = request(house, "chores", "C", "#P0")
    plain = request(house, "fix", "D")
    also = request(house, "fix", "E")
    rows = house.json("item", "list")["items"]
    assert [row["item"] for row in rows] == [urgent, early, late, plain, also]
    assert [row["priority"] for row in rows] == ["P0", "P1", "P1", "P2", "P2"]


def test_the_supervisor_starts_in_the_order_of_the_list(house: House) -> None:
    house.settings("approve_without_terminal = true\nshield = 'off'\n")  # research only reads, and they write
    house.project.config("[limits]\nmax_parallel = 1\n")
    house.waiting_worker(then="echo >go")  # each lets the next one go
    first = house.delegate("something that holds the only slot")
    house.appears("up")
    wanted = [request(house, kind, kind.upper()) for kind in ("documentation", "research", "fix")]
    house.json("item", "approve", "--all")
    rows = house.json("item", "list")["items"]
    assert [row["kind"] for row in rows] == ["research", "fix", "documentation"]
    house.let_go()
    until(lambda: len(house.trail()) == 4, "all of them started")
    started = [line.removeprefix("+ ") for line in house.trail()]
    assert started[0] == first
    assert [house.state(task).kind for task in started[1:]] == ["research", "fix", "documentation"]
    assert len(wanted) == 3
    for task in started:
        house.judged(task)


def test_a_row_says_what_a_script_needs(house: House) -> None:
    house.write("notes.md", NOTES)
    (row,) = house.json("item", "list")["items"]
    assert row == {
        "item": "notes.md:4#chores", "path": "notes.md", "line": 4, "tag": "#needs-chores", "kind": "chores",
        "stage": "needs", "priority": "P1", "effort": "S", "text": "repair the clock", "task_id": None, "handle": None,
        "status": None, "run_state": None, "waits": "approval",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "code", "says"),
    [
        ("notes.md", 2, "is no item"),
        ("nothing.md#fix", 4, "There is no file"),
        ("notes.md#fix", 4, "There is no item"),
        ("notes.md:3#chores", 4, "There is no item"),
        ("../notes.md#chores", 2, "not in this project"),
        (".agent-workspaces/x/HANDOFF.md#fix", 3, "holds no items"),
        ("twice.md#fix", 2, "fits 2 items"),
    ],
)
def test_what_is_no_item_is_told(house: House, written: str, code: int, says: str) -> None:
    house.write("notes.md", NOTES)
    house.write("twice.md", "- a #needs-fix\n- b #needs-fix\n")
    assert says in house.json("item", "approve", written, code=code)["error"]["message"]


def test_the_list_says_which_kinds_nobody_would_take(house: House) -> None:
    house.write("notes.md", "# N\n\n- a #needs-poem\n- b #needs-fix\n")
    assert house.waits() == {
        "notes.md:3#poem": "approval: the settings in force have no route for the kind poem",
        "notes.md:4#fix": "approval",
    }


def test_a_worktree_below_the_project_holds_no_items(house: House) -> None:
    house.write("tree/.git", "gitdir: elsewhere\n")
    house.write(f"tree/{AT}")
    assert house.json("item", "list")["items"] == []
    assert house.json("item", "approve", f"tree/{AT}#fix", code=3)


# the walk


def test_the_walk(house: House) -> None:
    """Approve, next, later, dismiss, split; then a list of what was done."""
    house.settings("")  # a terminal is enough
    house.agent("worker", "output")
    house.trusted()
    names = [request(house, "fix", name) for name in ("A", "B", "C", "D", "E")]
    shown = typed(house, ["item", "approve"], "a", "n", "", "d", "s", "first half", "second half", "")
    paths = [name.partition("#")[0] for name in names]
    until(lambda: house.tag(paths[0]) == "#done-fix", "the approved one done")
    assert house.tag(paths[1]) == "#next-fix"
    assert house.tags(paths[2]) == [("#needs-fix", "")]
    assert house.tags(paths[3]) == []
    assert house.tags(paths[4]) == []
    assert "`#needs-fix` ([FIX_REQUEST_FIRST_HALF](FIX_REQUEST_FIRST_HALF.md), " in house.read(paths[4])
    for part in ("FIRST", "SECOND"):
        assert house.tag(f"requests/FIX_REQUEST_{part}_HALF.md") == "#needs-fix"
    assert "1 of 5" in shown
    assert "1 left for later" in shown
    items = [house.state(task).item for task in house.items()]
    assert [item.how for item in items if item] == ["terminal", "terminal"]


def test_the_walk_can_be_left(house: House) -> None:
    before = [house.read(request(house, "fix", name).partition("#")[0]) for name in ("A", "B")]
    assert "2 left for later" in typed(house, ["item", "approve"], "q")
    assert [house.read(f"requests/FIX_REQUEST_{name}.md") for name in ("A", "B")] == before


def test_without_a_terminal_there_is_no_walk(house: House) -> None:
    assert "Approve what?" in house.json("item", "approve", code=2)["error"]["message"]


def test_approving_by_kind_takes_only_that_kind(house: House) -> None:
    house.agent("worker", "output")
    request(house, "fix", "A")
    request(house, "chores", "B")
    (row,) = house.json("item", "approve", "--kind", "chores")["approved"]
    assert row["kind"] == "chores"
    assert house.tag("requests/FIX_REQUEST_A.md") == "#needs-fix"
    house.judged(row["task_id"])


# claims and steps by hand


def test_of_many_who_claim_one_gets_it(house: House) -> None:
    house.trusted()
    house.write()
    task = house.prepared()
    calls = [house.project.start("item", "claim", f"{AT}#fix", "--json") for _ in range(6)]
    said = [call.communicate(timeout=60)[0] for call in calls]
    assert sorted(call.returncode for call in calls) == [0, 3, 3, 3, 3, 3]
    assert sum("held by" in text for text in said) == 5, said
    assert house.tags() == [("#claimed-fix", task)]
    assert len(house.events(task, "staged")) == 1


def test_an_outside_claim_is_not_started_and_can_be_done_by_hand(house: House) -> None:
    house.agent("worker", "output")
    house.trusted()
    house.write()
    task = house.prepared()
    house.json("item", "claim", f"{AT}#fix")
    house.judged(house.delegate("something else"))  # the supervisor has looked at everything
    assert (house.starts(task), house.tag()) == (0, "#claimed-fix")
    (row,) = house.json("item", "done", f"{AT}#fix", "--summary", "Oiled it.")["items"]
    assert (row["stage"], row["status"]) == ("done", "completed")
    assert house.tag() == "#done-fix"
    assert "> Oiled it." in house.read()


def test_an_outside_claim_can_be_handed_back(house: House) -> None:
    house.agent("worker", "output")
    house.trusted()
    house.write()
    task = house.prepared()
    house.json("item", "claim", f"{AT}#fix")
    house.json("item", "approve", f"{AT}#fix")
    until(lambda: house.tag() == "#done-fix", "the tag done")
    assert (house.starts(task), house.items()) == (1, [task])


def test_what_was_claimed_before_anybody_approved_it_can_be_approved(house: House) -> None:
    house.agent("worker", "output")
    house.trusted()
    house.write(AT, REQUEST.replace("#needs-fix", "#claimed-fix"))
    (place,) = items_in_file(str(house.path), AT)
    claim = heeding.outside_claim(house.store, load_config(str(house.path)), place, BY)
    assert house.tags() == [("#claimed-fix", claim)]
    (row,) = house.json("item", "approve", f"{AT}#fix")["approved"]
    assert (row["agent"], row["stage"]) == ("worker", "delegated")
    until(lambda: house.tag() == "#done-fix", "the tag done")
    assert house.tags() == [("#done-fix", row["task_id"])]
    assert (house.starts(row["task_id"]), house.starts(claim)) == (1, 0)


def test_a_claim_stays_if_the_approval_is_refused(house: House) -> None:
    house.write("notes.md", "# Notes\n\n- oil it #claimed-poem\n")
    assert house.json("item", "approve", "notes.md:3#poem", code=3)
    assert house.tag("notes.md") == "#claimed-poem"


def test_putting_back_withdraws_the_approval(house: House) -> None:
    house.trusted()
    house.write()
    task = house.prepared()
    house.json("item", "needs", f"{AT}#fix")
    assert (house.tag(), house.state(task).status, house.starts(task)) == ("#needs-fix", "cancelled", 0)
    house.json("item", "dismiss", f"{AT}#fix")
    assert house.tags() == []
    assert house.read() == REQUEST.replace(" #needs-fix", "")


def test_what_is_done_by_hand_and_open_again(house: House) -> None:
    house.write()
    house.json("item", "done", f"{AT}#fix")
    assert house.read() == REQUEST.replace("#needs", "#done")
    house.json("item", "needs", f"{AT}#fix")
    assert house.read() == REQUEST


@pytest.mark.parametrize(
    ("do", "stage", "hint"),
    [
        ("claim", "needs", "overhand item approve"),
        ("done", "delegated", "overhand item needs"),
        ("dismiss", "delegated", "overhand item needs"),
        ("dismiss", "done", "--again"),
        ("needs", "needs", "overhand item approve"),
    ],
)
def test_other_steps_are_refused_with_what_to_type(house: House, do: str, stage: str, hint: str) -> None:
    house.trusted()
    house.write()
    if stage == "delegated":
        house.prepared()
    elif stage == "done":
        house.json("item", "done", f"{AT}#fix")
    before = house.read()
    error = house.json("item", do, f"{AT}#fix", code=3)["error"]
    assert "cannot be" in error["message"]
    assert hint in error["hint"]
    assert house.read() == before


@pytest.mark.parametrize("do", ["done", "needs", "dismiss", "claim"])
def test_nothing_takes_an_item_from_a_live_run(house: House, do: str) -> None:
    house.waiting_worker()
    house.write()
    task = house.approve()
    house.appears("up")
    before = house.read()
    error = house.json("item", do, f"{AT}#fix", code=3)["error"]
    assert "held by task 1" in error["message"]
    assert error["hint"] == "Stop it first: overhand stop 1"
    assert house.read() == before
    house.let_go()
    house.judged(task)


def test_stopping_the_task_puts_the_item_back(house: House) -> None:
    house.waiting_worker()
    house.write()
    task = house.approve()
    house.appears("up")
    house.json("stop", task)
    until(lambda: house.tag() == "#needs-fix", "the tag back at needs")
    assert "## Recovery" in house.read()
    assert house.read().count("**Prior Session**") == 1


def test_again_makes_a_new_task(house: House) -> None:
    house.shell("worker", "exit 1")
    house.write()
    first = house.approve()
    until(lambda: house.tag() == "#needs-fix", "the tag back at needs")
    assert "--again" in house.json("item", "approve", f"{AT}#fix", code=3)["error"]["hint"]
    house.agent("worker", "output")
    second = house.approve(f"{AT}#fix", "--again")
    until(lambda: house.tag() == "#done-fix", "the tag done")
    assert (first != second, house.starts(first), house.starts(second)) == (True, 1, 1)
    assert house.tags() == [("#done-fix", second)]


def test_again_takes_what_failed_with_all_the_others(house: House) -> None:
    house.shell("worker", "exit 1")
    house.write()
    first = house.approve()
    until(lambda: house.tag() == "#needs-fix", "the tag back at needs")
    assert house.json("item", "approve", "--all")["approved"] == []
    (row,) = house.json("item", "approve", "--all", "--again")["approved"]
    assert row["task_id"] != first
    house.judged(row["task_id"])


def test_the_answer_to_all_has_one_form(house: House) -> None:
    house.write("notes.md", "# Notes\n\n- rhyme #needs-poem\n")
    said = house.json("item", "approve", "--all", code=3)
    assert (said["approved"], [row["item"] for row in said["refused"]]) == ([], ["notes.md:3#poem"])


# new, next


def test_a_new_request(house: House) -> None:
    args = ["--why", "It hurts.", "--expect", "docs/map.md", "--criterion", "It holds", "--priority", "P1"]
    (row,) = house.json("item", "new", "fix", "The legend is cut off", *args, "--effort", "S")["items"]
    assert row["item"] == "requests/FIX_REQUEST_THE_LEGEND_IS_CUT_OFF.md#fix"
    assert (row["stage"], row["priority"], row["effort"]) == ("needs", "P1", "S")
    (again,) = house.json("item", "new", "fix", "The legend is cut off")["items"]
    assert again["path"].endswith("_2.md")
    text = house.read(row["path"])
    assert all(part in text for part in ("## Why\nIt hurts.", "docs/map.md", "It holds", "## Requester"))


@pytest.fixture
def two(house: House) -> Iterator[list[str]]:
    house.agent("worker", "output")
    yield [request(house, "fix", "LATER"), request(house, "fix", "FIRST", "#P0")]
    assert not any("claimed" in house.tag(f"requests/FIX_REQUEST_{name}.md") for name in ("LATER", "FIRST"))


def test_next_runs_the_first_one_here_and_now(house: House, two: list[str]) -> None:
    for item in two:
        house.json("item", "approve", "--next", item)
    result = house.json("item", "next", "fix")
    assert (result["status"], result["title"]) == ("completed", "FIRST")
    assert [house.tag(item.partition("#")[0]) for item in two] == ["#next-fix", "#done-fix"]
    assert house.json("item", "next", two[0])["status"] == "completed"
    assert "No item of kind fix" in house.json("item", "next", "fix", code=3)["error"]["message"]


def test_the_aliases(house: House) -> None:
    house.agent("worker", "output")
    house.write()
    (row,) = house.json("approve", "--next", f"{AT}#fix")["approved"]
    assert row["stage"] == "next"
    house.json("claim", f"{AT}#fix")
    assert house.tag() == "#claimed-fix"


def test_people_read(house: House) -> None:
    house.agent("worker", "output")
    house.write("notes.md", NOTES)
    listed = house.project.run("item", "list").out
    assert listed == "needs     P1 S  notes.md:4#chores\n               repair the clock\n"
    approved = house.project.run("item", "approve", "notes.md:4#chores").out
    assert f"worker · approved · {INLINE}#chores" in approved
    assert house.project.run("item", "list", "--kind", "fix").out.startswith("Nothing is noted.")
    (task,) = house.items()
    house.judged(task)


# a person is to open it, or nobody is to go on with it


def test_an_interactive_item_needs_a_person(house: House) -> None:
    house.shell("worker", QUICK)
    house.project.config('[routes.fix]\nmode = "interactive"\n')
    house.trusted()
    house.write()
    task = house.approve()
    groups = house.json("status")["groups"]
    (row,) = groups["needs you"]
    assert (row["task_id"], row["command"]) == (task, f"overhand item next {AT}#fix")
    assert groups["queued"] == []
    house.json("item", "next", f"{AT}#fix")
    assert (house.tag(), house.json("status")["groups"]["needs you"]) == ("#done-fix", [])


@pytest.mark.parametrize("verb", ["resume", "run"])
def test_a_task_that_has_lost_its_item_is_not_run_again(house: House, verb: str) -> None:
    house.shell("worker", "exit 3")
    house.trusted()
    house.write()
    first = house.approve()
    until(lambda: house.state(first).status == "failed" and house.tag() == "#needs-fix", "the failure")
    second = house.approve(f"{AT}#fix", "--again")
    until(lambda: house.state(second).status == "failed" and house.tag() == "#needs-fix", "the second failure")
    numbers = [str(house.state(task).handle) for task in (first, second)]
    told = house.project.run(verb, numbers[0])
    assert (told.code, f"is task {numbers[1]}'s now" in told.err) == (3, True)
    assert f"overhand show {numbers[1]}" in told.err
    house.json("item", "dismiss", f"{AT}#fix")
    told = house.project.run(verb, numbers[1])
    assert (told.code, "was dismissed" in told.err) == (3, True)
    assert f"overhand tag add {AT} '#needs-fix'" in told.err
    assert [house.starts(task) for task in (first, second)] == [1, 1]


def test_a_request_is_listed_by_what_it_asks_for(house: House) -> None:
    house.write()
    house.write("other.md", REQUEST.replace("Fix Request:", "Chores Request:"))
    rows = house.json("item", "list")["items"]
    assert {row["item"]: row["text"] for row in rows} == {
        f"{AT}#fix": "The map pauses",
        "other.md#fix": "Chores Request: The map pauses",
    }
