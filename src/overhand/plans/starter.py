"""The tasks of a plan's nodes: made, then queued or run by the process that has their agents as functions."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.errors import NotFound, OverhandError
from overhand.plans import node_task, refs, results
from overhand.plans import task as tasks
from overhand.plans.progress import PlanEvent
from overhand.system import dump_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overhand.agents import Agent
    from overhand.drafts import Draft
    from overhand.plans.model import Plan
    from overhand.plans.progress import Command
    from overhand.policy import Actor
    from overhand.record import Task


class NodeStart(NamedTuple):
    """A node's task that its starter is to run at once."""

    task: Task
    agent: str
    draft: Draft | None  # as it was made, if it is new
    resume: dict[str, Any] | None  # about the attempt before, if it is not


class NodeStarter:
    """What runs the nodes of a plan: by itself the project's queue; a Python process overrides it for its functions."""

    def find(self, _name: str) -> Agent | None:
        """An agent by its name; None for the one of the project's files."""
        return None

    def is_own(self, _agent: str) -> bool:
        """Whether it runs this agent itself, without the queue."""
        return False

    def start(self, nodes: Sequence[NodeStart]) -> None:
        """Run tasks of its own agents."""

    def changed(self, task_id: str) -> None:
        """A task is new in the queue, or was asked to stop."""

    def events_handled(self) -> None:
        """Events are on disk, and what they call for is done."""

    def before_finish(self) -> None:
        """Bring the nodes' results to the disk."""


class NodeTasks:
    """The tasks of one plan's nodes."""

    def __init__(
        self,
        actor: Actor,
        defaults: node_task.NodeDefaults,
        starter: NodeStarter,
        value: Callable[[str], results.Value],
    ) -> None:
        self.actor, self.defaults, self.starter = actor, defaults, starter
        self.by_node: dict[str, str] = {}
        self._value = value  # what a node returned
        self._log_size = -1  # of the plan's log when its messages were last read

    def start(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Begin nodes, in the queue or by the starter itself; the events that say so."""
        own: list[Command] = []
        queued: list[Command] = []
        for command in commands:
            (own if self.starter.is_own(self._agent_of(command)) else queued).append(command)
        return [*(self._queue(queued) if queued else ()), *(self._start_own(own) if own else ())]

    def _agent_of(self, command: Command) -> str:
        return command.facts.get("agent") or self.defaults.plan.nodes[command.node].agent

    def _queue(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Have the supervisor run these nodes: new tasks share their syncs, one before any of them starts."""
        found, fresh = self.go_on(commands)
        made, refused = self._make(fresh, start=True)
        for command, task, _ in made:
            if command.attempt > 1:  # the task of the attempts before is gone
                tasks.next_attempt(self.actor, task.id, command)
            self.starter.changed(task.id)
        return [*found, *refused, *(_started(command, task.id) for command, task, _ in made)]

    def _start_own(self, commands: Sequence[Command]) -> list[PlanEvent]:
        """Have the starter run these nodes."""
        again = [command for command in commands if command.node in self.by_node]
        made, refused = self._make([command for command in commands if command.node not in self.by_node], start=False)
        nodes = [NodeStart(task, self._agent_of(command), draft, None) for command, task, draft in made]
        for command in again:
            task = self.actor.store.task(self.by_node[command.node])
            resume = tasks.resume_of(task, command, cause=command.id)
            nodes.append(NodeStart(task, self._agent_of(command), None, resume))
        self.starter.start(nodes)
        wanted = [*(command for command, _, _ in made), *again]
        return [*refused, *(_started(command, self.by_node[command.node]) for command in wanted)]

    def _make(
        self, commands: Sequence[Command], *, start: bool
    ) -> tuple[list[tuple[Command, Task, Draft]], list[PlanEvent]]:
        """Tasks for nodes that have none yet, and the end of those that cannot have one."""
        drafts: list[tuple[Command, Draft]] = []
        refused = []
        self._read_messages()
        for command in commands:
            try:
                drafts.append((command, self._draft(command)))
            except (OverhandError, LookupError) as error:
                facts = {"status": "rejected", "why": str(error)[:1000], "again": False}
                refused.append(PlanEvent("Ended", time.time(), command.node, command.attempt, facts))
        if not drafts:
            return [], refused
        new = self.actor.store.new_tasks([draft.task for _, draft in drafts], self.actor.by, start=start)
        made = [(command, task, draft) for (command, draft), task in zip(drafts, new, strict=True)]
        self.by_node.update({command.node: task.id for command, task, _ in made})
        return made, refused

    def _read_messages(self) -> None:
        """Give the messages sent so far to all nodes that begin from now on."""
        size = self.actor.store.log_size(self.defaults.state.id)
        if size != self._log_size:
            self.defaults = node_task.with_messages(self.defaults, self.actor.store.task(self.defaults.state.id))
            self._log_size = size

    def _draft(self, command: Command) -> Draft:
        """A node as a task, its references filled in."""
        node = self.defaults.plan.nodes[command.node]

        def look_up(ref: refs.Ref) -> Any:
            return results.look_up(node.id, ref, self._value(ref.node))

        inputs = refs.resolve(node.inputs, look_up)
        words = refs.resolve(node.task, look_up)
        agent = self._agent_of(command)
        by = node if agent == node.agent else replace(node, agent=agent)
        return node_task.draft(self.defaults, by, inputs, words if isinstance(words, str) else dump_line(words))

    def go_on(self, commands: Sequence[Command]) -> tuple[list[PlanEvent], list[Command]]:
        """Nodes that have a task already: it goes on, once per attempt; and the commands for those that have none."""
        found, fresh = [], []
        for command in commands:
            task_id = self.by_node.get(command.node)
            if task_id is None:
                fresh.append(command)
                continue
            try:
                if command.attempt > 1 or tasks.never_started(self.actor.store.task(task_id), 1):
                    tasks.next_attempt(self.actor, task_id, command)
            except NotFound:  # it was cleaned away since: the node begins anew
                fresh.append(command)
                continue
            self.starter.changed(task_id)
            found.append(_started(command, task_id))
        return found, fresh


def defaults_for(actor: Actor, plan: Plan, own: Task, run_id: str, starter: NodeStarter) -> node_task.NodeDefaults:
    try:
        config = actor.config_of(own)
    except OverhandError:  # the project's settings cannot be read now
        config = actor.config
    defaults = node_task.node_defaults(actor.store, config, plan, own, run_id, find=starter.find)
    return node_task.with_messages(defaults, own)


def _started(command: Command, task_id: str) -> PlanEvent:
    return PlanEvent("Started", time.time(), command.node, command.attempt, {"task": task_id})
