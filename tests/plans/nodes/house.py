"""A project with a plan's task, whose nodes the tests make one by one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.plans import Plan, node_task
from overhand.plans.model import Interface, Node
from overhand.policy import load_config
from overhand.record import NewTask, Store
from overhand.supervisor import hand_to_supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.agents import Agent
    from overhand.documents import Handoff
    from overhand.plans.node_task import NodeDefaults
    from overhand.record import Task
    from overhand.testing.project import ProjectDir

BY = {"kind": "person", "via": "test"}
RUN = "sess_1700000000_abc123"


def plan_of(*nodes_: Node, **facts: Any) -> Plan:
    return Plan(task=facts.pop("task", "Ship the release."), nodes={node.id: node for node in nodes_}, **facts)


def edge(source: str, target: str, *required: str, **format_: str) -> Interface:
    return Interface(source, target, format_, required)


@dataclass(frozen=True)
class House:
    """The project, and the task that stands for the plan."""

    project: ProjectDir
    state: Task

    @property
    def store(self) -> Store:
        return Store(str(self.project.path))

    def ground(self, plan: Plan, state: Mapping[str, Any] | None = None, **options: Any) -> NodeDefaults:
        known = self.state.but(**(state or {}))
        return node_task.node_defaults(self.store, load_config(self.store.root), plan, known, RUN, **options)

    def draft(self, plan: Plan, inputs: Mapping[str, Any] | None = None, **options: Any) -> tuple[Handoff, Any, Any]:
        """The first node's HANDOFF, what `created` would say, and the files."""
        node = next(iter(plan.nodes.values()))
        made = node_task.draft(self.ground(plan, **options), node, inputs or {})
        return made.handoff, made.task.created, made.task.files

    def hand_over(self, plan: Plan, inputs: Mapping[str, Any] | None = None, *, start: bool = True) -> Task:
        """The first node as a real task."""
        node = next(iter(plan.nodes.values()))
        drafted = node_task.draft(self.ground(plan), node, inputs or {})
        (task,) = self.store.new_tasks([drafted.task], BY, start=start)
        if start:
            hand_to_supervisor(self.store, [task.id])
        return task

    def done(self, task: Task, code: int | None = None) -> dict[str, Any]:
        """The task once it is judged."""
        ran = self.project.run("wait", task.id, "--json")
        assert code in (None, ran.code), ran.out + ran.err
        shown: dict[str, Any] = ran.json
        return shown

    def carried_out(self, plan: Plan, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.done(self.hand_over(plan, inputs))

    def folder(self, task: Task) -> Path:
        return Path(self.store.record(task.id))


def build(project: ProjectDir) -> House:
    """The plan's task has no run of its own here: nothing carries it but the test."""
    handoff = "# Task Handoff\n\n## Task\nShip the release.\n"
    created: dict[str, Any] = {"title": "Ship the release", "depth": 1, "path": ["user", "plan"], "level": "full"}
    new = NewTask(agent="plan", handoff=handoff, created=created)
    (task,) = Store(str(project.path)).new_tasks([new], BY, start=False)
    return House(project, task)


def wanted(schema: bytes) -> Any:
    return json.loads(schema)


def agent(name: str, driver: str = "command", **options: Any) -> Agent:
    from overhand.agents import Agent

    return Agent(name, driver, options=options)
