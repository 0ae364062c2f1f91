"""Tag and record disagree: before the first run the stricter one wins, afterwards the record."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Refused
from overhand.items import PastItems, approve_item, handle_changed_file, is_tag_behind, resolve_item
from overhand.policy import Actor, Caller
from overhand.record import LOG_FILE, Judged, Notice, Requeued, TagWritten
from overhand.runs import finish_run, settle_run, start_run
from overhand.system import is_held
from support.items import AT, BY, INLINE, NOTES, REQUEST
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.record import Task
    from support.items import House


@pytest.fixture
def approved(house: House) -> str:
    """An item that is approved and waits; nobody is there to start it."""
    house.waiting_worker()
    house.write()
    return house.prepared()


@pytest.fixture
def claimed(house: House, approved: str) -> Iterator[str]:
    """One whose run is alive."""
    assert start_run(house.work, approved)
    house.appears("up")
    yield approved
    house.let_go()


def ended(house: House, task: str, told: Callable[[Task], None] = lambda _: None) -> None:
    """It goes on to its end, without an OUTPUT.md, and is judged."""
    house.let_go()
    house.agent_ended(task)
    settle_run(house.work, task)
    finish_run(house.work, task, on_verdict=told)
    assert house.state(task).status == "failed"


def test_a_verdict_is_told_before_the_tag_can_show_it(house: House, claimed: str) -> None:
    """Whoever waits for the tag looks into the daemon's log next; who holds the task keeps everybody from the tag."""
    path, told = f"{house.store.record(claimed)}/{LOG_FILE}", list[object]()
    ended(house, claimed, lambda task: told.append((task.status, house.tag(), is_held(path))))
    assert (told, house.tag()) == ([("failed", "#claimed-fix", True)], "#needs-fix")


def test_a_person_who_puts_the_tag_back_withdraws_the_approval(house: House, approved: str) -> None:
    house.retag("#delegated-fix", "#needs-fix")
    task = house.show(approved)
    assert (task.status, task.queued) == ("cancelled", False)
    assert "withdrawn" in task.summary
    assert not start_run(house.work, approved)
    assert house.tag() == "#needs-fix"


def test_a_withdrawal_that_nobody_saw_is_heard_by_the_claim(house: House, approved: str) -> None:
    house.retag("#delegated-fix", "#needs-fix")
    assert not start_run(house.work, approved)
    assert (house.state(approved).status, house.state(approved).runs) == ("cancelled", [])
    assert "## Recovery" not in house.read()


@pytest.mark.parametrize("gone", ["tag", "file"])
def test_what_was_taken_away_before_it_ran_never_runs(house: House, approved: str, gone: str) -> None:
    if gone == "tag":
        house.retag(f"#delegated-fix <!--overhand:{approved}-->", "")
    else:
        (house.path / AT).unlink()
    assert not start_run(house.work, approved)
    assert house.state(approved).status == "cancelled"


def test_a_typed_claim_before_the_first_run_is_an_outside_claim(house: House, approved: str) -> None:
    house.retag("#delegated-fix", "#claimed-fix")
    assert not start_run(house.work, approved)
    task = house.state(approved)
    assert (task.status, task.queued, house.tag()) == (None, False, "#claimed-fix")
    assert task.staged is not None
    assert task.staged.how == "typed"
    assert "somebody outside" in house.waits()[f"{AT}#fix"]


def test_a_tag_that_allows_more_than_the_record_is_put_right(house: House) -> None:
    house.trusted()
    house.write()
    task = house.prepared(stage="next")
    house.retag("#next-fix", "#delegated-fix")
    state = house.show(task)
    assert (house.tag(), state.queued, state.status) == ("#next-fix", False, None)


def test_an_old_buffer_written_over_a_claim_is_put_right(house: House, claimed: str) -> None:
    """An editor that had the file open since before the approval."""
    house.write(AT, REQUEST.replace("zooms in", "zooms in or out"))
    task = house.show(claimed)
    assert house.tags() == [("#claimed-fix", claimed)]
    assert "zooms in or out" in house.read()
    assert task.tag is not None
    assert len(task.tag.repairs) == 1
    assert house.starts(claimed) == 1


def test_a_tag_that_an_agent_sets_to_done_is_put_right(house: House, claimed: str) -> None:
    house.retag("#claimed-fix", "#done-fix")
    house.show(claimed)
    assert house.tag() == "#claimed-fix"


def test_after_five_repairs_in_an_hour_the_tag_is_left_and_a_person_told(house: House, claimed: str) -> None:
    for _ in range(5):
        house.retag("#claimed-fix", "#needs-fix")
        house.show(claimed)
        assert house.tag() == "#claimed-fix"
    house.retag("#claimed-fix", "#needs-fix")
    for _ in range(3):
        task = house.show(claimed)
    assert house.tag() == "#needs-fix"
    assert ["again and again" in text for text in task.notices] == [True]
    assert len(house.events(claimed, "tagged")) == 7


def test_what_is_due_is_written_even_to_a_tag_that_was_repaired_often(house: House, claimed: str) -> None:
    for _ in range(6):
        house.write(AT, house.read().replace("#claimed-fix", "#needs-fix"))
        house.show(claimed)
    ended(house, claimed)
    assert "## Recovery" in house.read()


def test_a_moved_file_is_found_by_the_id(house: House, claimed: str) -> None:
    (house.path / "elsewhere/deep").mkdir(parents=True)
    moved = "elsewhere/deep/RENAMED.md"
    shutil.move(house.path / AT, house.path / moved)
    house.retag("#claimed-fix", "#needs-fix", moved)
    task = house.show(claimed)
    assert house.tags(moved) == [("#claimed-fix", claimed)]
    assert task.tag is not None
    assert task.tag.path == moved


def test_of_two_places_with_one_id_the_recorded_one_counts(house: House, claimed: str) -> None:
    house.write("a-copy.md", house.read())
    house.retag("#claimed-fix", "#needs-fix")
    house.show(claimed)
    assert (house.tag(), house.tag("a-copy.md")) == ("#claimed-fix", "#claimed-fix")
    house.retag("#claimed-fix", "#delegated-fix", "a-copy.md")
    house.show(claimed)
    assert house.tag("a-copy.md") == "#delegated-fix", "a copy is nobody's"
    assert "a copy of" in house.waits()["a-copy.md#fix"]
    assert house.json("item", "claim", "a-copy.md#fix", code=3)
    assert house.starts(claimed) == 1


def test_an_id_without_a_record_never_runs(house: House) -> None:
    house.agent("worker", "output")
    house.trusted()
    house.write(AT, REQUEST.replace("#needs-fix", "#delegated-fix <!--overhand:worker-20200101-000000-->"))
    assert handle_changed_file(house.store, house.work.config, AT, BY) == []
    assert house.items() == []
    assert "not recorded here" in house.waits()[f"{AT}#fix"]


def test_an_ended_task_never_runs_again_because_of_its_tag(house: House, claimed: str) -> None:
    ended(house, claimed)
    assert house.tag() == "#needs-fix"
    house.retag("#needs-fix", "#delegated-fix")
    handle_changed_file(house.store, house.work.config, AT, BY)
    assert (house.tag(), house.state(claimed).queued, house.starts(claimed)) == ("#needs-fix", False, 1)
    error = house.json("item", "approve", f"{AT}#fix", code=3)["error"]
    assert "judged failed" in error["message"]
    assert "--again" in error["hint"]
    again = house.prepared()
    assert again != claimed
    assert house.tags() == [("#delegated-fix", again)]


def test_a_file_that_is_gone_leaves_the_record_as_it_is(house: House, claimed: str) -> None:
    (house.path / AT).unlink()
    ended(house, claimed)
    task = house.state(claimed)
    assert any("is gone from" in text for text in task.notices)
    size = house.store.log_size(claimed)
    for _ in range(3):
        house.show(claimed)
    assert house.store.log_size(claimed) == size, "told once"
    assert not is_tag_behind(task)


def test_showing_what_is_right_already_writes_nothing(house: House, claimed: str) -> None:
    before = (house.path / AT).stat().st_ino, house.store.log_size(claimed)
    for _ in range(3):
        house.show(claimed)
    assert ((house.path / AT).stat().st_ino, house.store.log_size(claimed)) == before


def test_a_promoted_item_comes_back_from_an_older_branch(house: House) -> None:
    """`git checkout` of a branch from before the approval: the inline tag is there again, the request is gone."""
    house.waiting_worker()
    house.write("notes.md", NOTES)
    task = house.prepared("notes.md:4#chores")
    assert start_run(house.work, task)
    house.appears("up")
    (house.path / INLINE).unlink()
    house.write("notes.md", NOTES)
    state = house.show(task)
    assert state.status is None, "the run goes on"
    assert house.starts(task) == 1
    assert "is task" in house.waits()["notes.md:4#chores"]
    house.let_go()


def test_two_approvals_of_one_item_make_one_task(house: House) -> None:
    house.agent("worker", "output")
    house.trusted()
    house.write()
    both = [house.project.start("item", "approve", f"{AT}#fix", "--json") for _ in range(4)]
    codes = sorted(process.wait(60) for process in both)
    for process in both:
        process.communicate()
    assert codes == [0, 3, 3, 3]
    (task,) = house.items()
    until(lambda: house.tag() == "#done-fix", "the tag done")
    assert house.starts(task) == 1


def test_a_line_that_stands_there_twice_cannot_be_approved(house: House) -> None:
    house.trusted()
    house.write("notes.md", NOTES + "- repair the clock #needs-chores #P1 #S\n")
    with pytest.raises(Refused, match="2 lines like"):
        house.prepared("notes.md:4#chores")
    assert house.items() == []


def test_what_changed_since_it_was_seen_is_not_approved(house: House) -> None:
    house.trusted()
    house.write("notes.md", NOTES)
    place = resolve_item(str(house.path), str(house.path), "notes.md:4#chores")
    house.write("notes.md", NOTES.replace("repair the clock", "melt the clock"))
    with pytest.raises(Refused, match="has changed since you saw it"):
        approve_item(Actor(house.store, house.work.config, Caller().by("test")), place)
    assert house.items() == []


def test_what_is_queued_again_goes_back_to_the_approved_stage_with_the_reason(house: House, claimed: str) -> None:
    """`requeued` in the log, then one edit: the entry under Recovery and the swap; shown twice, written once."""
    house.let_go()
    house.agent_ended(claimed)
    settle_run(house.work, claimed)
    (ended_run,) = house.state(claimed).runs
    with house.store.lock(claimed, BY) as locked:
        judged = Judged(run=ended_run.id, status="failed", summary="It was lost.")
        locked.append(judged, Requeued(run=ended_run.id, why="lost"))
    for _ in range(2):
        task = house.show(claimed)
    assert house.tags() == [("#delegated-fix", claimed)]
    assert (task.queued, task.requeued) == (True, 1)
    recovery = house.read().partition("## Recovery\n")[2]
    assert f"**Prior Session**: {ended_run.id}" in recovery
    assert "**Action**: Put back to `#delegated-fix`" in recovery
    assert house.read().count("**Prior Session**") == 1


def test_a_document_that_changed_since_it_was_read_is_not_approved(house: House) -> None:
    """Of an item of the Tags line a person approves the whole document; other tags in it may change."""
    house.trusted()
    house.write(AT, REQUEST + "\n- also #needs-chores\n")
    place = resolve_item(str(house.path), str(house.path), f"{AT}#fix")
    house.retag("one zooms in", "one breathes")
    with pytest.raises(Refused, match="has changed since you saw it"):
        approve_item(Actor(house.store, house.work.config, Caller().by("test")), place, shown=True)
    house.retag("one breathes", "one zooms in")
    house.retag("#needs-chores", "#P3")
    approve_item(Actor(house.store, house.work.config, Caller().by("test")), place, shown=True)
    assert house.tags()[0][0] == "#delegated-fix"


def test_an_agent_that_edits_its_own_request_loses_nothing(house: House) -> None:
    """What it wrote stays, and the response comes below it."""
    house.shell("worker", f"printf '\\n## Notes of the agent\\nIt was the cache.\\n' >>'{AT}'; {QUICK}")
    house.write()
    task = house.approve()
    until(lambda: house.tag() == "#done-fix", "the tag done")
    assert "## Notes of the agent\nIt was the cache.\n\n## Response" in house.read()
    assert house.starts(task) == 1


def test_the_swap_is_no_change_of_the_run(house: House) -> None:
    """The receipt lists what the agent changed, not what Overhand wrote into the request."""
    house.shell("worker", f"echo new >made.txt; {QUICK}")
    house.write()
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=T", "-c", "user.email=t@x", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=house.path, check=True, stdin=subprocess.DEVNULL)
    task = house.approve()
    house.judged(task)
    assert house.json("show", task)["look_at"]["changed"] == ["made.txt", "trail"]


@pytest.mark.parametrize("programs", ["all", "no ripgrep"])
def test_a_moved_file_is_found_with_and_without_ripgrep(
    house: House, claimed: str, programs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if somebody's formatter has put blanks around the id."""
    if programs == "no ripgrep":
        monkeypatch.setenv("PATH", "/nowhere")
    text = house.read().replace(f"<!--overhand:{claimed}-->", f"<!-- overhand:{claimed} -->")
    (house.path / AT).unlink()
    house.write("moved.md", text.replace("#claimed-fix", "#needs-fix"))
    house.show(claimed)
    assert house.tags("moved.md") == [("#claimed-fix", claimed)]


# an older text that comes back without the id


@pytest.fixture
def done(house: House) -> str:
    """An item that was done, by a worker that is quick."""
    house.shell("worker", QUICK)
    house.trusted()
    house.write()
    task = house.approve()
    until(lambda: house.tag() == "#done-fix", "the item done")
    return task


def test_an_old_text_at_needs_is_known_by_its_record(house: House, done: str) -> None:
    handle = house.state(done).handle
    house.write(AT, REQUEST + "One more line.\n")
    assert handle_changed_file(house.store, house.work.config, AT, BY) == []
    assert house.tags() == [("#needs-fix", "")]
    assert house.waits()[f"{AT}#fix"].startswith(f"was task {handle}, completed")
    assert house.json("item", "approve", "--all")["approved"] == []
    refused = house.project.run("item", "approve", f"{AT}#fix")
    assert (refused.code, f"was task {handle}, judged completed" in refused.err) == (3, True)
    assert "item approve --again" in refused.err
    again = house.approve(f"{AT}#fix", "--again")
    until(lambda: house.tags() == [("#done-fix", again)], "the second task done")
    assert house.items() == [done, again]


def test_where_an_item_was_is_known_however_long_its_log_is(house: House, done: str) -> None:
    with house.store.lock(done, BY) as locked:
        locked.append(*(Notice(text=f"{number} {'x' * 900}") for number in range(80)))
        locked.append(TagWritten(stage="done", path="moved.md"))
    assert len(Path(house.store.record(done), "log.jsonl").read_bytes()) > 1 << 16
    past = PastItems(house.store)
    assert [past.names(path) for path in (AT, "moved.md", "other.md")] == [True, True, False]


def test_many_at_once_take_an_old_text_only_again(house: House, done: str) -> None:
    house.write()
    (row,) = house.json("item", "approve", "--all", "--again")["approved"]
    until(lambda: house.tags() == [("#done-fix", row["task_id"])], "the second task done")
    assert house.items() == [done, row["task_id"]]


def test_the_very_text_that_was_approved_is_put_right(house: House, done: str) -> None:
    house.write()
    assert handle_changed_file(house.store, house.work.config, AT, BY) == [done]
    assert house.tags() == [("#done-fix", done)]
    assert "## Response" in house.read()


def test_a_line_that_was_promoted_and_comes_back_is_known(house: House) -> None:
    house.waiting_worker(QUICK)
    house.write("notes.md", NOTES)
    task = house.approve("notes.md:4#chores")
    house.write("notes.md", NOTES)
    handle = house.state(task).handle
    assert house.waits()["notes.md:4#chores"].startswith(f"it is task {handle} already")
    assert house.project.run("item", "approve", "--again", "notes.md:4#chores").code == 3
    house.let_go()
    until(lambda: house.tag(INLINE) == "#done-chores", "the item done")
    assert house.waits()["notes.md:4#chores"].startswith(f"was task {handle}, completed")
    assert house.json("item", "approve", "--all")["approved"] == []


def test_what_was_dismissed_may_be_noted_anew(house: House, done: str) -> None:
    house.json("item", "needs", f"{AT}#fix")
    house.json("item", "dismiss", f"{AT}#fix")
    house.write()
    assert handle_changed_file(house.store, house.work.config, AT, BY) == []
    assert (house.waits(), house.items()) == ({f"{AT}#fix": "approval"}, [done])


def test_an_old_text_before_the_first_run_withdraws_the_approval(house: House, approved: str) -> None:
    house.write()
    assert house.waits()[f"{AT}#fix"] == "approval"
    assert not start_run(house.work, approved)
    assert (house.state(approved).status, house.tags()) == ("cancelled", [("#needs-fix", "")])
