"""Killed after any write of approve, promote, claim and done: what comes next finishes it, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.items import reconcile_items
from overhand.runs import finish_run, settle_run, start_run
from support.items import AT, BY, INLINE, NOTES, REQUEST
from support.scene import until
from support.soak import lots

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.items import House

LOTS = 8
in_lots = pytest.mark.parametrize("lot", lots(LOTS))
DONE = """# Fix Request: The map pauses

**Tags**: #done-fix <!--overhand:TASK--> #P1

## What
The map pauses when one zooms in.

## Response

### Run RUN

**Outcome:** completed, UNVERIFIED

> Done.

**Deliverables:** none

**Result:** [OUTPUT.md](../.agent-workspaces/TASK/OUTPUT.md)
"""


def at_every_point(
    house: House, lot: int, step: str, before: Callable[[House], str], after: Callable[[House], None]
) -> None:
    """In a project of its own each: prepare, do the step until it is killed at its Nth write, look at what it left."""
    for point in range(lot, 100, LOTS):
        one = house.another(f"{step}-{point}")
        word = before(one)
        killed = one.kill_at(point, step, word)
        after(one)
        if not killed:
            assert point > 5, f"{step} has only {point} points"
            return
    raise AssertionError(f"{step} has no end")


def carried_on(house: House, item: str) -> str:
    """Whoever comes next finishes it; what was not recorded yet is approved again."""
    reconcile_items(house.store, BY)
    task = house.items()[0] if house.items() else house.prepared(item)
    assert house.items() == [task]
    assert [event["e"] for event in house.events(task)] == ["created", "tagged", "accepted"]
    assert house.state(task).queued
    return task


@in_lots
def test_approve(house: House, lot: int) -> None:
    """1 the task and `created`, 2 the swap, 3 the log."""

    def before(one: House) -> str:
        one.write()
        return f"{AT}#fix"

    def after(one: House) -> None:
        assert one.read() == REQUEST or one.tag() == "#delegated-fix"
        task = carried_on(one, f"{AT}#fix")
        assert one.read() == REQUEST.replace("#needs-fix", f"#delegated-fix <!--overhand:{task}-->")

    at_every_point(house, lot, "approve", before, after)


@in_lots
def test_promote(house: House, lot: int) -> None:
    """1 the task and `created`, 2 the request, 3 the mention, 4 the log; never a second request."""
    link = "`#needs-chores` ([CHORES_REQUEST_REPAIR_THE_CLOCK](requests/CHORES_REQUEST_REPAIR_THE_CLOCK.md))"

    def before(one: House) -> str:
        one.write("notes.md", NOTES)
        return "notes.md:4#chores"

    def after(one: House) -> None:
        task = carried_on(one, "notes.md:4#chores")
        assert one.read("notes.md") == NOTES.replace("#needs-chores", link)
        assert one.tags(INLINE) == [("#delegated-chores", task)]
        assert [p.name for p in (one.path / "requests").glob("*.md")] == ["CHORES_REQUEST_REPAIR_THE_CLOCK.md"]

    at_every_point(house, lot, "approve", before, after)


def closed(house: House, task: str) -> None:
    """Judged once, told once, by whoever comes next."""
    settle_run(house.work, task)
    finish_run(house.work, task)
    assert (house.state(task).status, house.starts(task)) == ("completed", 1)
    assert house.plain() == DONE
    assert [e["stage"] for e in house.events(task, "tagged")][-2:] == ["claimed", "done"]
    assert len(house.events(task, "judged")) == 1


@in_lots
def test_claim(house: House, lot: int) -> None:
    """1 `run.created`, 2 the swap, 3 the log, 4 the start: whoever comes next starts it, and it began once."""

    def before(one: House) -> str:
        one.write()
        return one.prepared()

    def after(one: House) -> None:
        (task,) = one.items()
        state = settle_run(one.work, task)
        if state.queued:
            assert one.starts(task) == 0
            assert start_run(one.work, task)
        assert one.tag() == "#claimed-fix", "claimed before any work"
        one.agent_ended(task)
        closed(one, task)

    at_every_point(house, lot, "start", before, after)


@in_lots
def test_done(house: House, lot: int) -> None:
    """1 `run.ended`, 2 OUTPUT, 3 `judged`, 4 one edit, 5 the log."""

    def before(one: House) -> str:
        one.write()
        task = one.prepared()
        assert start_run(one.work, task)
        one.agent_ended(task)
        return task

    def after(one: House) -> None:
        assert one.tag() in ("#claimed-fix", "#done-fix")
        assert ("## Response" in one.read()) == (one.tag() == "#done-fix"), "one edit"
        closed(one, one.items()[0])

    at_every_point(house, lot, "finish", before, after)


@in_lots
def test_step_back(house: House, lot: int) -> None:
    """The same for one that failed: `## Recovery` and the swap are one edit, and there is one entry."""

    def before(one: House) -> str:
        one.shell("worker", "exit 3")
        one.trusted()
        one.write()
        task = one.prepared()
        assert start_run(one.work, task)
        one.agent_ended(task)
        return task

    def after(one: House) -> None:
        assert ("## Recovery" in one.read()) == (one.tag() == "#needs-fix"), "one edit"
        (task,) = one.items()
        settle_run(one.work, task)
        finish_run(one.work, task)
        assert (one.tag(), one.state(task).status) == ("#needs-fix", "failed")
        assert one.read().count("**Prior Session**") == 1

    at_every_point(house, lot, "finish", before, after)


def cut_short(house: House, item: str) -> str:
    """An approval that was killed as soon as the record was made."""
    assert house.kill_at(99, "record", item)
    (task,) = house.items()
    assert [event["e"] for event in house.events(task)] == ["created"]
    return task


@pytest.mark.parametrize("verb", ["list", "show", "delegate"])
def test_an_approval_that_was_cut_short_is_finished_by_any_verb(house: House, verb: str) -> None:
    house.agent("worker", "output")
    house.trusted()
    house.write()
    task = cut_short(house, f"{AT}#fix")
    assert house.read() == REQUEST
    if verb == "delegate":
        house.delegate("something else")  # starts a supervisor, which looks at everything
    else:
        house.json(verb, *([task] if verb == "show" else []))
    until(lambda: house.tag() == "#done-fix", "the tag done")
    assert house.starts(task) == 1


def test_an_approval_that_was_cut_short_is_void_once_the_line_says_something_else(house: House) -> None:
    house.trusted()
    house.write()
    task = cut_short(house, f"{AT}#fix")
    house.retag("#needs-fix", "#needs-chores")
    house.show(task)
    state = house.state(task)
    assert (state.status, state.queued, state.runs) == ("rejected", False, [])
    assert "no longer as it was" in state.summary
    assert house.tags() == [("#needs-chores", "")]


def test_a_promotion_that_was_cut_short_leaves_a_request_that_nobody_has_approved(house: House) -> None:
    """The record was made, but the line it came from is gone: the request is made, and waits for a person."""
    house.trusted()
    house.write("notes.md", NOTES)
    task = cut_short(house, "notes.md:4#chores")
    house.write("notes.md", NOTES.replace("repair the clock #needs-chores", "repair the two clocks #needs-chores"))
    house.show(task)
    assert house.state(task).status == "rejected"
    assert house.tags(INLINE) == [("#needs-chores", task)]
    assert "`#needs-chores`" not in house.read("notes.md")
