"""When the time of a plan counts: before its first node is started, and while jobs take other plans up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import task as starting
from overhand.plans.executor import Carrying, open_plan
from overhand.policy import config
from overhand.policy.actor import Actor
from overhand.policy.caller import caller
from overhand.verbs import Session
from overhand.verbs import plan as plans
from plans.running.stage import node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.plans.progress import Command, Event
    from plans.running.stage import Stage


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
