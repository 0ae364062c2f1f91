"""When the time of a plan counts: before its first node is started, and while jobs take other plans up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import task as starting
from overhand.plans.executor import Executor
from overhand.plans.starter import NodeStarter
from overhand.policy import config
from overhand.policy.actor import Actor
from overhand.policy.caller import caller
from overhand.verbs import Session
from overhand.verbs import plan as plans
from plans.running.stage import node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.plans.starter import NodeStart
    from plans.running.stage import Stage


class Watching(NodeStarter):
    """Runs every node itself, and notes which timers were set by then."""

    def __init__(self) -> None:
        self.executor: Executor
        self.seen: list[str] = []

    def is_own(self, _agent: str) -> bool:
        return True

    def start(self, nodes: Sequence[NodeStart]) -> None:
        self.seen.extend([*self.executor.timers, *(one.task.node for one in nodes)])


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
    starter = Watching()
    executor = starter.executor = Executor.open(work, task, starting.begin(work, task) or "", starter)
    executor.resume()
    executor.close()
    assert starter.seen == ["timeout", "a"]
