"""What becomes of an item whose run did not complete."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from overhand.items import retry_not_before
from overhand.record import Accepted
from overhand.runs import finish_run, settle_run, start_run
from overhand.system import epoch_of
from support.items import AT
from support.scene import QUICK, kill, until

if TYPE_CHECKING:
    from overhand.record import Task
    from support.daemon import Watched

FAILED = """cat >"$OVERHAND_RESULT" <<'END'
{"status": "failed", "summary": "The server was away.",
 "errors": [{"message": "503", "recoverable": %s, "recommendation": "later"}]}
END
"""


def attempt(house: Watched, task: str) -> Task:
    """One run without a supervisor, from its start to its verdict."""
    assert start_run(house.work, task)
    house.agent_ended(task)
    settle_run(house.work, task)
    return finish_run(house.work, task)


def lost(house: Watched, task: str) -> Task:
    """A run whose shim and agent are killed at once, so that nobody can say how it ended."""
    assert start_run(house.work, task)
    house.appears("up").unlink()
    for name in ("shim", "pid"):
        kill(house.pid(task, name))
    settle_run(house.work, task)
    return finish_run(house.work, task)


def shown(house: Watched) -> tuple[str, int]:
    return house.tag(), house.read().count("**Prior Session**")


@pytest.fixture
def approved(house: Watched) -> str:
    house.write()
    return house.prepared()


def test_a_lost_run_is_tried_three_times_and_then_a_person_is_told(house: Watched, approved: str) -> None:
    house.waiting_worker()
    for number in (1, 2):
        task = lost(house, approved)
        assert (task.queued, task.requeued, task.status) == (True, number, None)
        assert shown(house) == ("#delegated-fix", number)
    task = lost(house, approved)
    assert (task.queued, task.status, len(task.runs)) == (False, "failed", 3)
    assert shown(house) == ("#needs-fix", 3)
    assert "attempt 3 of 3" in task.notices[-1]
    assert not start_run(house.work, approved)


def test_the_next_attempt_is_told_what_the_last_one_left(house: Watched, approved: str) -> None:
    house.waiting_worker()
    lost(house, approved)
    house.shell("worker", QUICK)
    house.trusted()
    task = attempt(house, approved)
    assert (task.status, house.tag()) == ("completed", "#done-fix")
    assert "## Previous Worker Context" in (house.path / ".agent-workspaces" / approved / "HANDOFF.md").read_text()


@pytest.mark.parametrize(
    ("script", "stage"), [(FAILED % "true", "delegated"), (FAILED % "false", "needs"), ("exit 3", "needs")]
)
def test_a_failure_is_tried_again_if_its_agent_says_that_it_may_pass(
    house: Watched, approved: str, script: str, stage: str
) -> None:
    house.shell("worker", script)
    house.trusted()
    task = attempt(house, approved)
    assert shown(house) == (f"#{stage}-fix", 1)
    assert task.queued is (stage == "delegated")
    assert bool(task.notices) is (stage == "needs")


def test_one_that_was_killed_from_outside_is_tried_again(house: Watched, approved: str) -> None:
    house.waiting_worker()
    assert start_run(house.work, approved)
    house.appears("up")
    os.kill(house.pid(approved, "pid"), signal.SIGKILL)
    house.agent_ended(approved)
    settle_run(house.work, approved)
    assert finish_run(house.work, approved).queued


@pytest.mark.parametrize("status", ["blocked", "needs-input"])
def test_what_only_a_person_can_mend_goes_back_to_needs(house: Watched, approved: str, status: str) -> None:
    house.shell("worker", QUICK.replace("completed", status))
    house.trusted()
    task = attempt(house, approved)
    assert (task.status, task.queued, task.requeued) == (status, False, 0)
    assert shown(house) == ("#needs-fix", 1)
    assert "#needs-fix again" in task.notices[-1]


def test_a_person_who_stops_it_ends_it(house: Watched) -> None:
    house.waiting_worker()
    house.write()
    task = house.approve()
    house.appears("up")
    house.json("stop", task, "--now")
    house.becomes("#needs-fix")
    assert (house.state(task).status, house.state(task).queued) == ("cancelled", False)


def test_what_was_approved_as_next_goes_back_to_next(house: Watched) -> None:
    """Nobody starts it by itself; asked for again, it is another attempt."""
    house.write()
    task = house.prepared(stage="next")
    with house.store.lock(task, {"kind": "person"}) as locked:
        locked.append(Accepted())
    house.waiting_worker()
    state = lost(house, task)
    assert (state.queued, house.tag()) == (False, "#next-fix")
    house.shell("worker", QUICK)
    house.trusted()
    house.json("item", "next", "fix")
    assert house.tag() == "#done-fix"
    assert house.starts(task) == 2


def test_processes_that_are_left_keep_it_from_another_attempt(house: Watched, approved: str) -> None:
    house.agent("worker", "spawn:setsid", "hang")
    house.trusted()
    assert start_run(house.work, approved)
    until(lambda: house.strays(approved), "somebody left behind")
    os.kill(house.pid(approved, "pid"), signal.SIGKILL)
    house.agent_ended(approved)
    settle_run(house.work, approved)
    task = finish_run(house.work, approved)
    try:
        assert (task.queued, house.tag()) == (False, "#needs-fix")
        assert "are left" in task.notices[-1]
    finally:
        for pid in house.strays(approved):
            kill(pid)


def test_the_backoff_is_in_the_record(house: Watched, approved: str) -> None:
    """A new supervisor does not start it sooner."""
    house.waiting_worker()
    task = lost(house, approved)
    due = retry_not_before(task)
    (row,) = house.json("list")["tasks"]
    assert row["reason"].startswith("attempt 2 of 3, not before ")
    house.delegate("something else", "--agent", "worker")  # which starts a supervisor
    house.let_go()
    house.appears("up").unlink()
    house.kill_supervisor()
    house.begin()
    house.let_go()
    until(lambda: house.starts(approved) == 2, "the second attempt")
    assert epoch_of(house.state(approved).runs[1].created) >= due
    house.let_go()
    until(lambda: house.tag(AT) == "#needs-fix", "the end of the second attempt")
