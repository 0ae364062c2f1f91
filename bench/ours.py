"""In-process delegation of nothing: every file written, judged and durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peers

from overhand import Project
from overhand.plans import Plan
from overhand.plans.model import Node

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.agents import Call


class Ours:
    """A project whose agent is a function of this process."""

    def __init__(self, place: Path) -> None:
        self._project = Project(place, max_parallel=0)
        self._project.agent("noop")(_noop)

    def one(self) -> None:
        """One task."""
        assert self._project.delegate("Do nothing", agent="noop").wait().ok

    def many(self, count: int) -> None:
        """So many tasks at once."""
        tasks = self._project.delegate_all([{"title": f"Do nothing, {n}", "agent": "noop"} for n in range(count)])
        assert all(task.wait().ok for task in tasks)

    def plan(self, count: int, times: int = 1) -> None:
        """A plan of so many nodes that need nothing of each other."""
        for _ in range(times):
            nodes = {f"n{i}": Node(f"n{i}", "noop", f"Do nothing, {i}") for i in range(count)}
            assert self._project.plan(Plan("Do nothing, often", nodes)).ok

    def close(self) -> None:
        """Let go of its threads."""
        self._project.close()


def _noop(_: Call) -> dict[str, str]:
    return dict(peers.RETURN)
