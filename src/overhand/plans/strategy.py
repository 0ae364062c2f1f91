"""How complex a plan is, in points that can be looked up, and what follows from it: a strategy and a model hint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from overhand.documents import looks_like_path
from overhand.plans.model import Node, Plan
from overhand.plans.order import dependencies, depths

HINTS = {"low": "haiku", "medium": "sonnet", "high": "opus"}  # models by level; a project may name others

POINTS = {"module": 5, "dependency level": 10, "node": 3, "file": 1, "edge between different agents": 15, "retry": 20}
_GLOB = frozenset("*?[")
_STAIRS = ((0, 0.0), (50, 0.4), (150, 0.7), (300, 1.0))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the breakdown: `count` of `what`, each worth `each` points."""

    what: str
    count: int
    each: int

    @property
    def points(self) -> int:
        return self.count * self.each


@dataclass(frozen=True, slots=True)
class Score:
    """A plan's complexity and what follows from it."""

    value: float  # 0 to 1; the file's own value where it gives one
    points: int
    breakdown: tuple[Row, ...]
    strategy: str
    hint: str
    level: str  # low, medium or high
    dependencies: int
    calculated: float  # the value that the points give, also where the file gives another
    given: tuple[str, ...] = ()  # which of `complexity` and `strategy` the file gave

    def as_json(self) -> dict[str, object]:
        rows = [
            {"what": row.what, "count": row.count, "each": row.each, "points": row.points} for row in self.breakdown
        ]
        return {
            "complexity": self.value,
            "points": self.points,
            "breakdown": rows,
            "dependencies": self.dependencies,
            "strategy": self.strategy,
            "model_hint": self.hint,
            "level": self.level,
            "auto_calculated": not self.given,
        }


def score_plan(plan: Plan, hints: Mapping[str, str] = HINTS) -> Score:
    """The plan's score; what the file gives wins over what is calculated."""
    files = _files(plan.nodes.values())
    needs = dependencies(plan.nodes)
    levels = max(depths(needs).values(), default=0)  # nodes of a circle, which the check refuses, are in no chain
    agents = [(plan.nodes[need].agent, plan.nodes[name].agent) for name, names in needs.items() for need in names]
    edges, crossing = len(agents), sum(one != other for one, other in agents)
    modules, retries = len({_top(path) for path in files}), max(plan.failure.max_retries, 0)
    counts = (modules, levels, len(plan.nodes), len(files), crossing, retries)
    rows = tuple(Row(what, count, each) for (what, each), count in zip(POINTS.items(), counts, strict=True))
    points = sum(row.points for row in rows)
    calculated = value_of(points)
    value = calculated if plan.complexity is None else plan.complexity
    level = level_of(value)
    strategy = plan.strategy or strategy_of(value, edges)
    given = [name for name, one in (("complexity", plan.complexity is not None), ("strategy", plan.strategy)) if one]
    hint = hints.get(level, HINTS[level])
    return Score(value, points, rows, strategy, hint, level, edges, calculated, tuple(given))


def value_of(points: float) -> float:
    """Points as a value from 0 to 1: straight lines between 0, 50, 150 and 300 points."""
    for (low, start), (high, end) in pairwise(_STAIRS):
        if points <= high:
            return round(start + (end - start) * (max(points, 0) - low) / (high - low), 4)
    return 1.0


def level_of(value: float) -> str:
    return "low" if value < 0.4 else "medium" if value < 0.7 else "high"


def strategy_of(value: float, dependencies: int) -> str:
    """The strategy for a complexity and a number of dependencies."""
    if value < 0.7:
        return "sequential" if dependencies else "parallel"
    return "pipeline" if dependencies <= 2 else "fan-out-fan-in"


def explain_score(found: Score) -> list[str]:
    """The score for people, one line each: the rows, their sum, and what it leads to."""
    width = max(len(_counted(row)) for row in found.breakdown)
    lines = [f"{_counted(row):<{width}}  x {row.each:>2} = {row.points:>4}" for row in found.breakdown]
    lines.append(f"{found.points} points → complexity {found.calculated:.2f}")
    if "complexity" in found.given:
        lines.append(f"the plan gives complexity {found.value:.2f}, which counts")
    several = "y" if found.dependencies == 1 else "ies"
    why = "given by the plan" if "strategy" in found.given else f"{found.dependencies} dependenc{several}"
    lines.append(f"strategy {found.strategy} ({why}), model hint {found.hint} ({found.level})")
    return lines


def _counted(row: Row) -> str:
    if row.count == 1:
        return f"1 {row.what}"
    if row.what.startswith("edge "):
        return f"{row.count} {row.what.replace('edge ', 'edges ', 1)}"
    return f"{row.count} {row.what.removesuffix('y')}ies" if row.what.endswith("try") else f"{row.count} {row.what}s"


def _files(nodes: Iterable[Node]) -> set[str]:
    """Every file that a node names, once, however it is spelled; a deliverable may be described in prose instead."""
    named: set[str] = set()
    for node in nodes:
        named.update(node.key_files)
        named.update(one for one in node.deliverables if looks_like_path(one))
    return {path.strip().removeprefix("./").lstrip("/") for path in named}


def _top(path: str) -> str:
    """The top directory; files of the root, and globs that begin anywhere, belong to the root itself."""
    top, slash, _ = path.partition("/")
    return top if slash and _GLOB.isdisjoint(top) else "."
