"""When the time of a plan counts: before its first node is started, and while jobs take other plans up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.plans import NodeStarter, PlanExecutor, begin_plan, make_plan_task
from overhand.policy import Actor, find_caller, load_config
from overhand.verbs import Session, check_source, plan_source
from plans.running.stage import node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.plans import NodeStart
    from plans.running.stage import Stage


class Watching(NodeStarter):
    """Runs every node itself, and notes which timers were set by then."""

    def __init__(self) -> None:
        self.executor: PlanExecutor
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
    found = check_source(session, plan_source(stage.write({"a": node()}, timeout="1h")))
    assert found.plan is not None
    who = find_caller(session.store)
    work = Actor(session.store, load_config(session.root), who.by("test"))
    task = make_plan_task(work, who, found.plan, "", {"trusted": True}).id
    starter = Watching()
    executor = starter.executor = PlanExecutor.open(work, task, begin_plan(work, task) or "", starter)
    executor.resume()
    executor.close()
    assert starter.seen == ["timeout", "a"]
