"""P0 comes first: nothing else starts beside it, and it may use one slot above the cap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from overhand.policy import Config
from overhand.record import Item, Task
from overhand.supervisor.queue import fits
from overhand.verbs.tasks import queue
from overhand.words import PRIORITIES
from support.scene import until

if TYPE_CHECKING:
    from support.items import House


def task(name: str, priority: str = "P2", rank: float | None = None, **more: Any) -> Task:
    state = Task(name)
    state.priority = priority
    if rank is not None:
        state.item = Item(rank=rank, path=more.pop("path", "x.md"))
    return state.but(**more)


@given(st.lists(st.sampled_from(PRIORITIES), max_size=6), st.sampled_from(PRIORITIES), st.integers(0, 4))
def test_caps_and_urgency(at_work: list[str], priority: str, cap: int) -> None:
    holding = {str(n): task(str(n), p) for n, p in enumerate(at_work)}
    may = fits(task("new", priority), holding, Config(max_parallel=cap))
    room = not cap or len(at_work) < cap + (priority == "P0")
    assert may == (room and (priority == "P0" or "P0" not in at_work))


def test_the_order_is_weight_route_time_path() -> None:
    wanted = [
        task("a", "P0", 6.0, queued_at="9"),
        task("b", "P1", 1.0, queued_at="9"),
        task("c", "P1", 3.0, queued_at="1", path="a.md"),
        task("d", "P1", 3.0, queued_at="1", path="b.md"),
        task("e", "P1", 3.0, queued_at="2"),
        task("f", "P2", None, queued_at="1"),
        task("g", "P2", 5.0, queued_at="0"),
    ]
    backwards = wanted[::-1]
    assert [state.id for state in sorted(backwards, key=lambda one: one.queue_place)] == list("abcdefg")


def test_the_position_that_is_shown_is_that_of_the_queue() -> None:
    early = task("early", "P2", 6.0, queued=True, queued_at="1")
    late = task("late", "P2", 1.0, queued=True, queued_at="2")
    assert {name: place["position"] for name, place in queue([early, late]).items()} == {"late": 1, "early": 2}


def test_a_p0_starts_above_the_cap_and_keeps_the_others_waiting(house: House) -> None:
    house.project.config("[limits]\nmax_parallel = 1\n")
    house.waiting_worker()
    ordinary = house.delegate("ordinary")
    until(lambda: house.starts(ordinary), "the ordinary one at work")
    later = house.delegate("later")
    urgent = house.delegate("urgent", "--priority", "P0")
    until(lambda: house.starts(urgent), "the urgent one at work")
    assert house.starts(later) == 0
    shown = house.json("show", later)
    assert (shown["position"], shown["behind"]) == (1, house.store.task(urgent).handle)
    assert f"Task {shown['behind']} is P0" in house.project.run("show", later).out
    house.let_go()
    house.let_go()
    house.let_go()
    for one in (ordinary, urgent, later):
        house.judged(one)
    assert [line.removeprefix("+ ") for line in house.trail()] == [ordinary, urgent, later]
