"""Files that change under the daemon: editors, moves, older branches, copies."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from overhand.items import handle_changed_file
from support.daemon import TYPED
from support.items import AT, BY, REQUEST
from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.daemon import Watched


@pytest.fixture
def claimed(house: Watched) -> str:
    """At work under the daemon's eyes."""
    house.waiting_worker(QUICK)
    house.begin()
    house.write(AT, TYPED)
    house.appears("up")
    house.becomes("#claimed-fix")
    return house.items()[0]


def ends_well(house: Watched, task: str, path: str = AT) -> None:
    house.let_go()
    house.becomes("#done-fix", path)
    assert (house.starts(task), house.items()) == (1, [task])


def test_an_editor_that_writes_its_old_text_back(house: Watched, claimed: str) -> None:
    house.retag("#claimed-fix", "#delegated-fix")
    house.becomes("#claimed-fix")
    house.write(AT, TYPED + "One more line.\n")  # from before it had an id
    house.becomes("#claimed-fix")
    assert house.tags() == [("#claimed-fix", claimed)]
    assert "One more line." in house.read()
    ends_well(house, claimed)


def test_a_file_that_is_moved_while_it_is_worked_on(house: Watched, claimed: str) -> None:
    (house.path / "elsewhere").mkdir()
    (house.path / AT).rename(house.path / "elsewhere/MOVED.md")
    ends_well(house, claimed, "elsewhere/MOVED.md")


def test_a_folder_that_is_moved_while_it_is_worked_on(house: Watched, claimed: str) -> None:
    (house.path / "requests").rename(house.path / "other")
    ends_well(house, claimed, AT.replace("requests", "other"))


def test_a_copy_is_never_run(house: Watched, claimed: str) -> None:
    house.write("copy.md", house.read().replace("#claimed", "#delegated"))
    ends_well(house, claimed)
    assert house.tags("copy.md") == [("#delegated-fix", claimed)]


def test_an_older_branch_is_checked_out(house: Watched) -> None:
    """What is done stays done, whatever an old version of its file says."""

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@y")
        subprocess.run(["git", *who, *words], cwd=house.path, check=True, capture_output=True)

    house.store.ensure()  # what was typed before that came with the files
    house.write(AT, TYPED)
    git("init", "-q", "-b", "main")
    git("add", "requests")
    git("commit", "-qm", "asked")
    house.settings("approve_without_terminal = true\n")  # quicker, and what comes after a run might be the run's
    house.begin()
    house.becomes("#done-fix")
    (task,) = house.items()
    git("commit", "-qam", "done")
    git("checkout", "-q", "HEAD~1")
    house.becomes("#done-fix")
    git("checkout", "-q", "-f", "main")
    house.write("other.md", TYPED)
    house.becomes("#done-fix", "other.md")  # which is looked at after what changed before it
    assert (house.tag(), house.starts(task), len(house.items())) == ("#done-fix", 1, 2)


def test_who_takes_the_approval_back_in_time_is_heard(house: Watched) -> None:
    house.begin()
    with house.undecided():
        house.write(AT, TYPED)
        house.seen()
        house.write(AT, REQUEST)
    house.write("other.md", TYPED)
    house.becomes("#done-fix", "other.md")
    assert house.read() == REQUEST
    assert len(house.items()) == 1


def test_an_outside_claim_is_left_alone(house: Watched) -> None:
    house.begin()
    house.write(AT, REQUEST.replace("#needs-fix", "#claimed-fix"))
    (task,) = until(house.items, "the claim recorded")
    until(lambda: not house.status()["pending"], "nothing to do")
    assert (house.starts(task), house.tag()) == (0, "#claimed-fix")


def test_an_old_buffer_with_another_text_is_not_run_again_by_itself(house: Watched) -> None:
    house.begin()
    house.write(AT, TYPED)
    house.becomes("#done-fix")
    (task,) = house.items()
    house.write(AT, TYPED + "One more line.\n")
    (waits,) = until(lambda: house.log("waits"), "the tag in the inbox")
    assert "judged completed" in waits["why"]
    assert (house.starts(task), house.items()) == (1, [task])
    assert house.read() == TYPED + "One more line.\n"
    again = house.approve()
    house.becomes("#done-fix")
    assert house.starts(again) == 1


def test_an_editor_that_saves_its_old_buffer_all_the_time_gets_one_run(house: Watched) -> None:
    """Whenever the file changes under it, it writes back what it had, with one line more."""
    house.waiting_worker(QUICK)
    house.begin()
    house.write()
    task = house.approve()
    stale = house.read().replace("#claimed-fix", "#delegated-fix")
    house.appears("up")
    for number in range(6):
        house.becomes("#claimed-fix")
        stale += f"line {number}\n"
        house.write(AT, stale)
    until(lambda: "changed again and again" in " ".join(house.state(task).notices), "that a person is told")
    assert house.read() == stale
    house.let_go()
    house.becomes("#done-fix")
    assert (house.starts(task), house.items()) == (1, [task])
    assert "line 5\n" in house.read()


def test_an_old_buffer_before_the_first_run_is_approved_anew(house: Watched) -> None:
    """The id was lost before anything ran: that approval is void, and what is typed now counts, once."""
    house.write()
    first = house.prepared()
    house.write(AT, TYPED)
    (second,) = handle_changed_file(house.store, house.work.config, AT, BY)
    assert second != first
    assert (house.state(first).status, house.state(second).queued) == ("cancelled", True)
    assert house.tags() == [("#delegated-fix", second)]
    assert handle_changed_file(house.store, house.work.config, AT, BY) == [second]


def test_an_older_branch_from_before_the_approval_is_checked_out(house: Watched) -> None:
    """The tag comes back at needs, without an id: the record wins, and the log says so."""
    house.write()
    house.begin()
    task = house.approve()
    house.becomes("#done-fix")
    house.write()
    house.becomes("#done-fix")
    assert house.tags() == [("#done-fix", task)]
    (line,) = until(lambda: house.log("repaired"), "the line in the log")
    assert (line["task"], line["path"], line["stage"]) == (task, AT, "done")
    assert house.starts(task) == 1


def test_an_older_branch_that_was_checked_out_while_nobody_watched(house: Watched) -> None:
    """At its start the daemon puts right what came back; what was never approved is left alone."""
    house.write()
    house.begin()
    task = house.approve()
    house.becomes("#done-fix")
    house.json("daemon", "stop")
    house.write()
    house.write("other.md")
    house.begin()
    house.becomes("#done-fix")
    assert house.tags() == [("#done-fix", task)]
    assert (house.starts(task), house.items()) == (1, [task])
    until(lambda: not house.status()["pending"], "nothing to do")
    assert house.read("other.md") == REQUEST


def test_what_is_noted_of_an_automatic_kind_is_started(house: Watched) -> None:
    """Found at the beginning, when it is written, and when the setting comes."""
    house.write()
    house.begin()
    house.project.config("[routes.fix]\nauto_approve = true\n")
    house.trusted()
    house.becomes("#done-fix")
    house.write("second.md")
    house.becomes("#done-fix", "second.md")
    house.json("daemon", "stop")
    house.write("third.md")
    house.begin()
    house.becomes("#done-fix", "third.md")
    assert {line["why"] for line in house.log("queued")} == {"auto"}
    assert len(house.items()) == 3


def test_the_log_names_items_as_people_write_them(house: Watched) -> None:
    house.project.config('approval = "record"\n')
    house.trusted()
    house.begin()
    house.write(AT, TYPED)
    (line,) = until(lambda: house.log("waits"), "the tag in the inbox")
    assert line["item"] == f"{AT}#fix"


def test_status_names_tasks_as_people_know_them(house: Watched, claimed: str) -> None:
    handle = house.state(claimed).handle
    status = house.status()
    assert (status["at_work"], status["tasks"][0]["handle"]) == ([claimed], handle)
    told = house.project.run("daemon", "status").out
    assert f"at work: {handle} The map pauses" in told
    house.json("daemon", "stop")
    assert house.status()["pid"] is None
    ends_well(house, claimed)
