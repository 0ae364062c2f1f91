"""However many processes approve an item at once, at whatever moment of its run: it runs once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Refused
from overhand.items import hand_item_back, may_approve, resolve_item, restage_item
from overhand.record import Accepted
from support.items import AT, BY, House
from support.scene import QUICK

if TYPE_CHECKING:
    pass


def test_sixty_four_approvals_at_once_run_it_once(house: House) -> None:
    house.shell("worker", QUICK)
    house.write()
    house.json("list")
    with ThreadPoolExecutor(64) as pool:
        calls = [pool.submit(house.project.run, "item", "approve", f"{AT}#fix", "--json") for _ in range(64)]
        codes = sorted(call.result().code for call in calls)
    assert codes == [0] + [3] * 63
    (task,) = house.items()
    assert house.judged(task).status == "completed"
    assert (house.starts(task), len(house.events(task, "accepted"))) == (1, 1)


def test_a_tag_that_was_read_before_its_run_ended_does_not_run_the_task_again(house: House) -> None:
    house.waiting_worker(QUICK)
    house.write()
    task = house.approve()
    house.appears("up")
    place = resolve_item(str(house.path), str(house.path), f"{AT}#fix")
    assert place.stage == "claimed"
    house.let_go()
    assert house.judged(task).status == "completed"
    seen = may_approve(house.store, place, again=False)
    assert seen is not None
    with pytest.raises(Refused, match="completed by now"):
        hand_item_back(house.store, seen, BY)
    assert len(house.events(task, "accepted")) == 1


def test_a_task_that_was_judged_after_the_look_at_it_stays_judged(house: House) -> None:
    house.waiting_worker(QUICK)
    house.write()
    task = house.approve()
    house.appears("up")
    seen = house.state(task)
    house.let_go()
    house.judged(task)
    with pytest.raises(Refused, match="completed by now"):
        restage_item(house.store, seen, BY, [Accepted()])
    assert house.state(task).status == "completed"
