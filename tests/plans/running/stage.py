"""A project in which plans run: scripted agents, plans as JSON, and what became of their nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.plans import FAILED, SKIPPED, STOPPED, VERIFIED
from support.scene import Scene

if TYPE_CHECKING:
    from overhand.record import Task

__all__ = ["COPY", "FAILED", "SKIPPED", "STOPPED", "VERIFIED", "Stage", "node"]

# A shell's line: what the node was given is what it returns.
COPY = """
printf '{"status":"completed","summary":"copied","data":{"got":%s}}' "$(cat "$OVERHAND_INPUTS")" >"$OVERHAND_RESULT"
"""


# all that a plan's own task records of a plan that went well
PLAN_EVENTS = ["created", "accepted", "run.created", "run.started", "run.ended", "judged"]


def node(agent: str = "worker", *after: str, **keys: Any) -> dict[str, Any]:
    """A node in the short form."""
    found: dict[str, Any] = {
        "agent": agent,
        "task": "Do this part of the work as it was agreed",
        "verification": "it holds",
    }
    return {**found, **({"after": list(after)} if after else {}), **keys}


@dataclass(frozen=True)
class Stage(Scene):
    """The same project, with plans."""

    def gives(self, name: str, data: object = None, before: str = "", status: str = "completed") -> None:
        """An agent that returns these data; `before` is done first, in a shell."""
        returned = json.dumps({"status": status, "summary": f"{name} is done", "data": data or {"n": 1}})
        self.shell(name, f"{before}\ncat >\"$OVERHAND_RESULT\" <<'END'\n{returned}\nEND\n")

    def write(self, nodes: dict[str, Any], **keys: Any) -> str:
        """The plan's file, outside the project: whoever types its name vouches for it."""
        path = self.project.config_home / "plan.json"
        whole = {
            "plan": "Do all of it",
            "nodes": nodes,
            "merge": "aggregate",
            "on_failure": {"policy": "abort"},
            **keys,
        }
        path.write_text(json.dumps(whole))
        return str(path)

    def plan(self, nodes: dict[str, Any], **keys: Any) -> str:
        """Hand a plan over; its task."""
        task: str = self.json("plan", "run", self.write(nodes, **keys))["task_id"]
        return task

    def run(self, nodes: dict[str, Any], **keys: Any) -> dict[str, Any]:
        """Run a plan to its end; its result."""
        return self.result(self.plan(nodes, **keys))

    def result(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("wait", task, code=None)
        assert "status" in found, found
        return found

    def child(self, plan: str, name: str) -> Task:
        """The one task of a node."""
        (found,) = [s for s in self.store.tasks() if s.node == name and s.parent and s.parent.task == plan]
        return found

    def is_there(self, plan: str, name: str) -> bool:
        return any(s.node == name and s.parent and s.parent.task == plan for s in self.store.tasks())

    def began(self, plan: str) -> dict[str, int]:
        """By node, how often an agent really began with it."""
        nodes = [s for s in self.store.tasks() if s.parent and s.parent.task == plan]
        return {s.node: self.starts(s.id) for s in nodes}


def states(result: dict[str, Any]) -> dict[str, str]:
    """By node, how it ended."""
    return {row["node"]: row["state"] for row in result["nodes"]}
