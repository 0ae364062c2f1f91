"""What goes into a merge and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from overhand.documents.problems import Problem


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What one node gave back."""

    id: str
    status: str
    verified: bool = True
    """Whether its data passed the contract, its edges and its checks."""
    data: Any = None
    summary: str = ""
    at: float = 0.0
    """When it ended."""
    priority: str = "P2"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field for which nodes gave different values, all of them, and which one was taken."""

    field: str
    values: tuple[tuple[str, Any], ...]
    """Node and value, in the order of the plan."""
    rule: str
    taken: str = ""
    """The node whose value was taken; "" where none was."""

    def as_json(self) -> dict[str, object]:
        """The conflict as result.json holds it."""
        values = [{"node": node, "value": value} for node, value in self.values]
        return {"field": self.field, "values": values, "rule": self.rule, "taken": self.taken or None}


@dataclass(frozen=True, slots=True)
class Variant:
    """What some nodes agree on."""

    nodes: tuple[str, ...]
    data: Any

    def as_json(self) -> dict[str, object]:
        """The variant as result.json holds it."""
        return {"nodes": list(self.nodes), "data": self.data}


@dataclass(frozen=True, slots=True)
class Merged:
    """The results as one."""

    data: Any
    status: str = "completed"
    """completed, partial (something is missing), blocked (no majority) or failed."""
    conflicts: tuple[Conflict, ...] = ()
    provenance: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per field path the nodes it comes from; a path stands for everything below it that has no line of its own."""
    variants: tuple[Variant, ...] = ()
    problems: tuple[Problem, ...] = ()
    unfilled: tuple[str, ...] = ()
    """Fields of final_output_format that nothing could be found for."""
    missing: tuple[str, ...] = ()
    """Nodes that were to be merged and gave nothing."""

    def as_json(self) -> dict[str, object]:
        """The merge as result.json holds it, without what is empty."""
        shown: dict[str, object] = {"status": self.status, "data": self.data}
        rows = {
            "conflicts": [one.as_json() for one in self.conflicts],
            "provenance": {path: list(nodes) for path, nodes in self.provenance.items()},
            "variants": [one.as_json() for one in self.variants],
            "problems": [one.as_json() for one in self.problems],
            "unfilled": list(self.unfilled),
            "missing": list(self.missing),
        }
        return {**shown, **{name: value for name, value in rows.items() if value}}
