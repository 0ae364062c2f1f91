"""Only a person approves: what runs try is refused or waits for a person, and is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.items import handle_changed_file, remember_tags, unrecorded_tags
from overhand.record import Item
from overhand.runs import settle_run, start_run
from support.items import AT, BY, INLINE, NOTES, REQUEST
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.items import House

APPROVE = f"$OVERHAND item approve '{AT}#fix' --json >said; echo $? >code"
CLEAN = 'env -i HOME="$HOME" PYTHONPATH="$PYTHONPATH" XDG_CONFIG_HOME="$XDG_CONFIG_HOME" sh ./attempt'
# what an agent may try: `attempt` is a script that approves, and writes down what it was told
ATTEMPTS = {
    "directly": ". ./attempt",
    "through a child": "sh ./attempt",
    "without the environment": CLEAN,
    "as a double fork without the environment": f"( ( setsid {CLEAN} & ) & )",
}


@pytest.mark.parametrize("how", ATTEMPTS)
def test_a_run_cannot_approve(house: House, how: str) -> None:
    """Although scripts may approve in this user's settings: a run is no script of a person."""
    house.write("attempt", f"OVERHAND='{sys.executable} -m overhand'; {APPROVE}\n")
    house.shell("worker", f"{ATTEMPTS[how]}; until [ -s code ]; do sleep 0.05; done")
    house.write()
    task = house.delegate()
    until(lambda: (house.path / "code").exists() and (house.path / "code").read_text(), "an answer to the attempt")
    assert (house.path / "code").read_text() == "3\n"
    error = json.loads((house.path / "said").read_text())["error"]
    assert (error["code"], "from inside run" in error["message"]) == ("APPROVAL_REQUIRED", True)
    assert (house.read(), house.items()) == (REQUEST, [])
    (noted,) = house.events(task, "refused")
    assert noted["code"] == "APPROVAL_REQUIRED"
    assert any("was tried from inside the run" in text for text in house.state(task).notices)
    house.judged(task)


def test_a_run_cannot_approve_while_its_parent_ends(house: House) -> None:
    """In a session of its own, without the environment, by a process that another one has just adopted."""
    call = f"{sys.executable} {Path(__file__).with_name('orphaned.py')} item approve '{AT}#fix' --json"
    clean = f"env -i PYTHONPATH='{os.pathsep.join(sys.path)}' XDG_CONFIG_HOME=\"$XDG_CONFIG_HOME\""
    house.shell("worker", f"{clean} {call} >said; until [ -s code ]; do sleep 0.05; done")
    house.write()
    task = house.delegate()
    house.judged(task)
    assert (house.path / "code").read_text() == "3\n"
    assert json.loads((house.path / "said").read_text())["error"]["code"] == "APPROVAL_REQUIRED"
    assert (house.read(), house.items(), len(house.events(task, "refused"))) == (REQUEST, [], 1)


def test_a_process_whose_first_thread_has_ended_is_still_an_ancestor() -> None:
    """It looks like a zombie, and could otherwise hide the run above it."""
    ask = "import os; from overhand.system import ancestors_of; print(*ancestors_of(os.getpid()))"
    code = f"""
import ctypes, os, subprocess, sys, threading

def call():
    while ") Z " not in open("/proc/self/stat").read():
        pass
    subprocess.run([sys.executable, "-c", {ask!r}], check=True)
    os._exit(0)

threading.Thread(target=call).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout
    assert int(told.split()[2]) == os.getpid()


@pytest.mark.parametrize("do", [["claim"], ["done"], ["needs"], ["dismiss"]])
def test_a_run_cannot_move_items_either(house: House, do: list[str]) -> None:
    house.shell("worker", f"$OVERHAND item {do[0]} '{AT}#fix' --json >said; echo $? >code")
    house.write()
    house.judged(house.delegate())
    assert ((house.path / "code").read_text(), house.read()) == ("3\n", REQUEST)


def test_a_run_may_note_work_which_starts_at_needs(house: House) -> None:
    house.shell("worker", '$OVERHAND item new fix "The legend is cut off" --json >said')
    house.judged(house.delegate())
    (row,) = json.loads((house.path / "said").read_text())["items"]
    assert (row["stage"], row["waits"]) == ("needs", "approval")
    assert "worker, run sess_" in house.read(row["path"])


def test_without_a_terminal_approval_needs_the_users_own_setting(house: House) -> None:
    house.settings("")
    house.write()
    error = house.json("item", "approve", f"{AT}#fix", code=3)["error"]
    assert error["code"] == "APPROVAL_REQUIRED"
    assert "approve_without_terminal" in error["hint"]
    house.project.config("approve_without_terminal = true\n")
    assert house.project.run("item", "approve", f"{AT}#fix", "--json").code != 0, "the project cannot say so"
    assert (house.read(), house.items()) == (REQUEST, [])


def test_the_record_says_who_and_how(house: House) -> None:
    house.agent("worker", "output")
    house.write()
    task = house.approve()
    (created,) = house.events(task, "created")
    assert created["by"]["kind"] == "person"
    assert {name: created["item"][name] for name in ("path", "kind", "stage", "was", "how")} == {
        "path": AT, "kind": "fix", "stage": "delegated", "was": "needs", "how": "setting",
    }  # fmt: skip
    assert len(created["item"]["digest"]) == 64
    house.judged(task)


def test_a_kind_without_a_route_cannot_be_approved(house: House) -> None:
    house.write(AT, REQUEST.replace("fix", "juggling"))
    error = house.json("item", "approve", f"{AT}#juggling", code=3)["error"]
    assert "no route" in error["message"]
    assert "[routes.juggling]" in error["hint"]


# typed, without a record


@pytest.fixture
def alive(house: House) -> Iterator[str]:
    """A run of something else that is alive."""
    house.waiting_worker()
    task = house.accepted()
    assert start_run(house.work, task)
    house.appears("up")
    yield task
    house.let_go()
    house.agent_ended(task)


TYPED = REQUEST.replace("#needs-fix", "#delegated-fix")


def heed(house: House) -> list[str]:
    return handle_changed_file(house.store, house.work.config, AT, BY)


def test_a_typed_approval_is_a_persons_while_no_run_was_alive(house: House) -> None:
    house.trusted()
    house.write(AT, TYPED)
    (task,) = heed(house)
    state = house.state(task)
    assert state.item is not None
    assert (state.item.how, state.queued) == ("typed", True)
    assert house.tags() == [("#delegated-fix", task)]
    assert heed(house) == [task], "it is taken once"
    assert house.items() == [task]


def test_a_tag_that_appears_while_a_run_is_alive_waits_for_a_person(house: House, alive: str) -> None:
    house.write(AT, TYPED)
    assert heed(house) == []
    assert (house.items(), house.read()) == ([], TYPED)
    assert "may have been written by a run" in house.waits()[f"{AT}#fix"]
    assert any(f"#delegated-fix in {AT}" in text for text in house.state(alive).notices)
    assert [event["item"] for event in house.events(alive, "parked")] == [f"{AT}#fix"]
    (row,) = house.json("inbox")["items"]
    assert row["command"] == f"overhand item approve {AT}#fix"
    screen = house.project.run("inbox").out
    assert screen.startswith(f"waits for approval (1)\n    -  {AT}#fix")
    assert "may have been written by a run: task 1" in screen


def test_it_waits_on_when_that_run_has_ended(house: House, alive: str) -> None:
    house.write(AT, TYPED)
    heed(house)
    house.let_go()
    house.agent_ended(alive)
    settle_run(house.work, alive)
    remember_tags(house.store, 4e9)  # everything was looked at long after its end
    assert heed(house) == []
    task = house.prepared()
    assert house.tags() == [("#delegated-fix", task)]
    assert f"{AT}#fix" not in unrecorded_tags(house.store)


def test_a_run_that_has_ended_since_the_last_look_counts_too(house: House, alive: str) -> None:
    """It wrote the tag with its last breath: nobody looked in between."""
    house.write(AT, TYPED)
    house.let_go()
    house.agent_ended(alive)
    settle_run(house.work, alive)
    assert heed(house) == []
    assert house.items() == []


def test_a_run_that_ended_before_the_last_look_does_not(house: House, alive: str) -> None:
    house.let_go()
    house.agent_ended(alive)
    settle_run(house.work, alive)
    remember_tags(house.store, 4e9)
    house.write(AT, TYPED)
    assert len(heed(house)) == 1


def test_with_approval_by_record_nothing_typed_counts(house: House) -> None:
    house.project.config('approval = "record"\n')
    house.trusted()
    house.write(AT, TYPED)
    assert (heed(house), house.items()) == ([], [])
    assert "no record" in house.waits()[f"{AT}#fix"]
    assert house.prepared()


def test_a_kind_that_is_approved_automatically_is_taken_from_runs_as_well(house: House, alive: str) -> None:
    house.project.config("[routes.fix]\nauto_approve = true\n")
    house.trusted()
    house.write(AT, TYPED)
    (task,) = heed(house)
    item = house.state(task).item
    assert item is not None
    assert item.how == "auto"


@pytest.mark.parametrize("text", [REQUEST, TYPED])
def test_nobody_s_word_is_needed_for_such_a_kind_also_where_only_records_count(house: House, text: str) -> None:
    house.project.config('approval = "record"\n[routes.fix]\nauto_approve = true\n')
    house.trusted()
    house.write(AT, text)
    (task,) = heed(house)
    assert (house.state(task).item or Item()).how == "auto"
    assert house.tags() == [("#delegated-fix", task)]


def test_of_such_a_kind_what_is_noted_is_approved_as_it_is_found(house: House, alive: str) -> None:
    house.project.config("[routes.fix]\nauto_approve = true\n")
    house.trusted()
    house.write()
    (task,) = heed(house)
    item = house.state(task).item
    assert item is not None
    assert (item.how, house.tags(), house.state(task).queued) == ("auto", [("#delegated-fix", task)], True)
    assert house.events(task, "created")[0]["by"]["kind"] == "overhand"
    house.retag("#delegated-fix", "#needs-fix")  # a person's word counts all the same
    assert heed(house) == [task]
    assert heed(house) == [task]
    assert (house.state(task).status, house.items()) == ("cancelled", [task])


def test_inline_and_needs_are_never_taken(house: House) -> None:
    house.trusted()
    house.write("notes.md", NOTES.replace("#needs-", "#delegated-"))
    house.write()
    assert handle_changed_file(house.store, house.work.config, "notes.md", BY) == []
    assert heed(house) == []
    assert house.items() == []


def test_an_outside_claim_is_recorded_and_shown(house: House) -> None:
    house.trusted()
    house.write(AT, REQUEST.replace("#needs-fix", "#claimed-fix"))
    (task,) = heed(house)
    state = house.state(task)
    assert (state.queued, state.status, house.tags()) == (False, None, [("#claimed-fix", task)])
    assert heed(house) == [task]
    assert "outside" in house.waits()[f"{AT}#fix"]
    assert not house.events(task, "accepted")


def test_promotion_makes_a_request_and_leaves_a_mention(house: House) -> None:
    house.trusted()
    house.write("notes.md", NOTES)
    house.write(INLINE, "# Something else\n")
    task = house.prepared("notes.md:4#chores")
    second = INLINE.replace(".md", "_2.md")
    assert house.read(INLINE) == "# Something else\n", "never over a file"
    assert house.tags(second) == [("#delegated-chores", task)]
    link = "([CHORES_REQUEST_REPAIR_THE_CLOCK_2](requests/CHORES_REQUEST_REPAIR_THE_CLOCK_2.md))"
    assert house.read("notes.md") == NOTES.replace("#needs-chores", f"`#needs-chores` {link}")
    assert "repair the clock" in house.read(second)


def test_a_claim_that_cannot_be_recorded_is_told_once(house: House) -> None:
    house.trusted()
    house.write(AT, "# Notes\n\n- oil it #claimed-fix\n- oil it #claimed-fix\n")
    before = house.read()
    for _ in range(3):
        heed(house)
    assert house.read() == before
    assert len(house.store.tasks()) <= 2
    assert (house.items(), len(unrecorded_tags(house.store))) == ([], 1)


def test_what_cannot_be_approved_as_it_is_typed_waits(house: House) -> None:
    """Its agent is not there: nothing is made, and the list says why."""
    house.project.config('[routes.fix]\nagent = "nobody"\n')
    house.trusted()
    house.write(AT, TYPED)
    assert (heed(house), house.items(), house.read()) == ([], [], TYPED)
    assert "nobody" in house.waits()[f"{AT}#fix"]
