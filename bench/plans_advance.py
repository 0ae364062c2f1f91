"""Scheduling: plans of 100,000 nodes that do nothing, driven through `advance`, against graphlib on the same graph."""

from __future__ import annotations

import gc
import random
import time
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from measure import Row, median

from overhand.plans.advance import advance, new_state
from overhand.plans.model import Node, Plan
from overhand.plans.progress import FINISHED, Event, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Graph = Mapping[str, tuple[str, ...]]

_NODES = 100_000
_LAYER, _NEEDS = 1000, 3
_DONE, _OK = {"status": "completed", "result": "result.json", "digest": "0"}, {"ok": True}


def rows(*, quick: bool) -> list[Row]:
    """Chains, wide plans and layers with random dependencies, without a cap and with one; the slowest counts."""
    rounds = 3 if quick else 9
    graphs = {"chain": chain(_NODES), "wide": wide(_NODES), "layers": layers(_NODES)}
    found = {name: _ratio(graph, 0, rounds) for name, graph in graphs.items()}
    found["layers, 64 at once"] = _ratio(graphs["layers"], 64, rounds)
    worst = max(ratio for ratio, _, _ in found.values())
    each = (
        f"{name} {ratio:.2f} x ({ours * 1e3:.0f} ms, {theirs * 1e3:.0f})"
        for name, (ratio, ours, theirs) in found.items()
    )
    return [
        Row(
            f"schedule {_NODES:,} no-op nodes through `advance` (Started, Ended, Verified each), CPU vs graphlib",
            f"{worst:.2f} x",
            "≤ 4 x",
            "1 x",
            worst <= 4,
            worst <= 1,
            f"medians of {rounds} rounds: {'; '.join(each)}",
        )
    ]


def chain(count: int) -> Graph:
    """Each after the one before."""
    return {f"n{i}": (f"n{i - 1}",) if i else () for i in range(count)}


def wide(count: int) -> Graph:
    """No dependencies at all."""
    return {f"n{i}": () for i in range(count)}


def layers(count: int) -> Graph:
    """Each after three of the layer before."""
    dice = random.Random(6)
    return {f"n{i}": _above(dice, i // _LAYER) for i in range(count)}


def _above(dice: random.Random, layer: int) -> tuple[str, ...]:
    first = (layer - 1) * _LAYER
    return tuple(f"n{first + i}" for i in dice.sample(range(_LAYER), _NEEDS)) if layer else ()


def _ratio(graph: Graph, cap: int, rounds: int) -> tuple[float, float, float]:
    plan = Plan("nothing", {name: Node(name, "nobody", needs=needs) for name, needs in graph.items()})
    pairs = [(_cpu(lambda: _ours(plan, cap)), _cpu(lambda: _theirs(graph))) for _ in range(rounds)]
    ours, theirs = (median(column) for column in zip(*pairs, strict=True))
    return median([one / other for one, other in pairs]), ours, theirs


def _cpu(do: Callable[[], object]) -> float:
    """CPU seconds; what earlier rounds left behind is swept up before."""
    gc.collect()
    began = time.process_time()
    do()
    return time.process_time() - began


def _ours(plan: Plan, cap: int) -> None:
    state = new_state(plan, Limits(max_parallel=cap))
    live = advance(plan, state, Event("PlanStarted", 0.0, "", 1))
    while state.phase != FINISHED:
        upcoming = []
        for what, node, attempt, _ in live:
            if what == "Start":
                advance(plan, state, Event("Started", 0.0, node, attempt))
                upcoming += advance(plan, state, Event("Ended", 0.0, node, attempt, _DONE))
            elif what == "Verify":
                upcoming += advance(plan, state, Event("Verified", 0.0, node, attempt, _OK))
            elif what == "Merge":
                advance(plan, state, Event("Merged", 0.0, "", attempt))
        live = upcoming
    assert state.status == "completed"


def _theirs(graph: Graph) -> None:
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    while sorter.is_active():
        for node in sorter.get_ready():
            sorter.done(node)
