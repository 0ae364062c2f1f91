"""Killed at any write: whoever comes next finishes it, nothing is lost and nothing done twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from items.test_crashes import at_every_point, in_lots
from overhand.items import handle_changed_file, unrecorded_tags
from overhand.runs import finish_run, settle_run, start_run
from support.daemon import TYPED
from support.items import AT, BY, GATES
from support.scene import QUICK, kill, until

if TYPE_CHECKING:
    from support.daemon import Watched
    from support.items import House


@in_lots
def test_taking_what_was_typed(house: Watched, lot: int) -> None:
    """The task, the id in the span, the note of both."""

    def before(one: House) -> str:
        one.store.ensure()  # what was typed before that came with the files
        one.write(AT, TYPED)
        return AT

    def after(one: House) -> None:
        for _ in range(2):
            handle_changed_file(one.store, one.work.config, AT, BY)
        (task,) = one.items()
        assert one.read() == TYPED.replace("#delegated-fix", f"#delegated-fix <!--overhand:{task}-->")
        assert (one.state(task).queued, len(one.events(task, "accepted"))) == (True, 1)

    at_every_point(house, lot, "heed", before, after)


@in_lots
def test_queueing_again(house: Watched, lot: int) -> None:
    """`ended`, the verdict with `requeued`, one edit, the note: one step back, one entry, one more attempt."""

    def before(one: House) -> str:
        one.waiting_worker()
        one.write()
        task = one.prepared()
        assert start_run(one.work, task)
        one.appears("up")
        for name in ("shim", "pid"):
            kill(one.pid(task, name))
        return task

    def after(one: House) -> None:
        assert ("## Recovery" in one.read()) == (one.tag() == "#delegated-fix"), "one edit"
        (task,) = one.items()
        settle_run(one.work, task)
        state = finish_run(one.work, task)
        assert (state.queued, state.requeued, len(state.runs)) == (True, 1, 1)
        assert (one.tag(), one.read().count("**Prior Session**")) == ("#delegated-fix", 1)
        assert len(one.events(task, "requeued")) == 1
        GATES.pop(one.path, None)

    at_every_point(house, lot, "finish", before, after)


def test_inv_daemon_stateless(house: Watched) -> None:
    """kill -9 at each stage of an item's life, its own notes thrown away each time: the next one carries on."""
    house.waiting_worker(QUICK)
    house.begin()
    with house.undecided():
        house.write(AT, TYPED)
        house.seen()
        house.kill_supervisor()
    _again(house)  # seen, and not yet looked at
    house.appears("up")
    _again(house)  # at work
    house.becomes("#claimed-fix")
    house.kill_supervisor()
    house.let_go()
    (task,) = house.items()
    house.agent_ended(task)
    house.begin()  # ended, and nobody was there
    house.becomes("#done-fix")
    assert (house.starts(task), len(house.items())) == (1, 1)
    _again(house)
    until(lambda: not house.status()["pending"], "nothing to do")
    assert (house.starts(task), house.tag(), house.items()) == (1, "#done-fix", [task])


def _again(house: Watched) -> None:
    house.kill_supervisor()
    for name in ("daemon.jsonl", "told", "log"):
        Path(house.store.own, name).unlink(missing_ok=True)
    house.begin()


@pytest.mark.soak
def test_whoever_kills_it_again_and_again_gets_one_run_of_each(house: Watched) -> None:
    """What it had not looked at when a run began waits for a person, since that run may have written it."""
    house.begin()
    names = [f"requests/{number}.md" for number in range(6)]
    with house.undecided():
        for name in names:
            house.write(name, TYPED)

    def all_known() -> bool:
        return len(house.items()) + len(unrecorded_tags(house.store)) == len(names)

    for _ in range(8):
        seen = len(house.trail())
        house.kill_supervisor()
        house.begin()
        until(lambda seen=seen: len(house.trail()) > seen or all_known(), "one started, or all known")  # type: ignore[misc]
    until(all_known, "all started or waiting")
    for item in unrecorded_tags(house.store):
        house.approve(item.rpartition("#")[0])  # without the digest of its line
    for name in names:
        house.becomes("#done-fix", name)
    assert sorted(house.starts(task) for task in house.items()) == [1] * len(names)
