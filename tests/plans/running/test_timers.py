"""When the time of a plan counts: before its first node is started, and while jobs take other plans up."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from overhand.plans import task as starting
from overhand.plans.executor import Carrying, open_plan
from overhand.policy import config
from overhand.policy.actor import Actor
from overhand.policy.caller import caller
from overhand.supervisor import plans as conducting
from overhand.verbs import Session
from overhand.verbs import plan as plans
from plans.running.stage import node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, ValuesView

    from overhand.plans.progress import Command, Event
    from plans.running.stage import Stage


class Timers(dict[str, float]):
    """A job of another thread has its turn in the middle of a look at them."""

    def __init__(self, at: float, job: Callable[[], None]) -> None:
        super().__init__(timeout=at)
        self.job = job

    def values(self) -> ValuesView[float]:  # type: ignore[override]
        self.job()
        return super().values()


def test_a_job_that_takes_up_another_plan_meanwhile_disturbs_nobody() -> None:
    boss = SimpleNamespace(plans={})

    def job() -> None:
        boss.plans["second"] = SimpleNamespace(timers={"timeout": 0.0})

    boss.plans["first"] = SimpleNamespace(timers=Timers(time.time() + 3600, job))
    assert conducting.due(cast("Any", boss)) > 0
    assert conducting.due(cast("Any", boss)) == 0


def test_it_counts_before_anything_is_started(stage: Stage) -> None:
    """Of many nodes one may end, by the same time, before the last is made."""
    stage.gives("worker")
    stage.json("list")  # trusts what is there now
    session = Session(str(stage.path))
    found = plans.look_over(session, plans.source(stage.write({"a": node()}, timeout="1h")))
    assert found.plan is not None
    who = caller(session.store)
    work = Actor(session.store, config.load(session.root), who.by("test"))
    task = starting.make(work, who, found.plan, "", {"trusted": True}).id
    seen: list[str] = []

    def start(carried: Carrying, commands: Sequence[Command]) -> list[Event]:
        seen.extend([*carried.timers, *(command.node for command in commands)])
        return []

    carried = open_plan(work, task, starting.begin(work, task) or "", start=start)
    carried.go_on()
    carried.close()
    assert seen == ["timeout", "a"]
