"""Which node comes behind which: dependencies, waves, and circles among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from overhand.plans.model import Node


def dependencies(nodes: Mapping[str, Node]) -> dict[str, Sequence[str]]:
    """What each node waits for, without what does not exist."""
    return {this: [name for name in node.needs if name in nodes] for this, node in nodes.items()}


def dependents(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """By node, those that wait for it."""
    after: dict[str, list[str]] = {this: [] for this in needs}
    for this, names in needs.items():
        for name in names:
            after[name].append(this)
    return after


def cycles(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """For every knot of nodes that wait for each other one shortest circle through its first node."""
    behind = set(_peeled(needs)[1])
    after = dependents({this: [name for name in needs[this] if name in behind] for this in needs if this in behind})
    knotted = _peeled(after)[1]  # without what only waits for a knot
    left = set(knotted)
    found = []
    for first in knotted:
        if first in left:
            knot = _reached(needs, first, left) & _reached(after, first, left)
            left -= knot
            if len(knot) > 1:
                found.append(_circle(needs, first, knot))
    return found


def in_order(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Every node behind those it waits for; what is knotted, or behind a knot, comes last."""
    order, left = _peeled(needs)
    return order + left


def depths(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many nodes one behind the other each has before it; what is knotted, or behind a knot, has no depth."""
    found: dict[str, int] = {}
    for this in _peeled(needs)[0]:
        found[this] = max((found[name] + 1 for name in needs[this]), default=0)
    return found


def plan_waves(nodes: Mapping[str, Node]) -> list[list[str]]:
    """The nodes in order, each in the first wave in which all it waits for has ended; those without a depth last."""
    depth = depths(dependencies(nodes))
    last = max(depth.values(), default=-1) + 1
    found: list[list[str]] = [[] for _ in range(last + (len(depth) < len(nodes)))]
    for name in nodes:
        found[depth.get(name, last)].append(name)
    return found


def _peeled(needs: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """What could run, in an order in which it could, and what is left when it has."""
    waiting = {this: len(names) for this, names in needs.items()}
    after = dependents(needs)
    order = [this for this, count in waiting.items() if not count]
    for this in order:  # it grows while it is walked along
        for other in after[this]:
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    return order, [this for this, count in waiting.items() if count]


def _reached(edges: Mapping[str, Sequence[str]], first: str, inside: set[str]) -> set[str]:
    """All nodes that edges lead to from the first one, without leaving `inside`."""
    found, line = {first}, [first]
    while line:
        new = [name for name in edges[line.pop()] if name in inside and name not in found]
        found.update(new)
        line += new
    return found


def _circle(needs: Mapping[str, Sequence[str]], first: str, inside: set[str]) -> list[str]:
    """The shortest way from a node back to it, without leaving `inside`."""
    came: dict[str, str] = {}
    line = deque([first])
    while line:
        this = line.popleft()
        for other in needs[this]:
            if other == first:
                path = [this]
                while path[-1] != first:
                    path.append(came[path[-1]])
                return path[::-1]
            if other in inside and other not in came:
                came[other] = this
                line.append(other)
    return []
