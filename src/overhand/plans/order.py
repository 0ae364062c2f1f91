"""Which node comes behind which: dependencies, waves, and circles among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from overhand.plans.model import Node


def dependencies(nodes: Mapping[str, Node]) -> dict[str, Sequence[str]]:
    """What each node waits for, without what does not exist."""
    return {this: [name for name in node.needs if name in nodes] for this, node in nodes.items()}


def cycles(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """For every knot of nodes that wait for each other one shortest circle through its first node."""
    left = _peeled(needs)[1]
    return [circle for knot in _knots(needs, set(left)) if (circle := _circle(needs, knot))] if left else []


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


def waves(nodes: Mapping[str, Node]) -> list[list[str]]:
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
    after: dict[str, list[str]] = {}
    for this, names in needs.items():
        for name in names:
            after.setdefault(name, []).append(this)
    order = [this for this, count in waiting.items() if not count]
    for this in order:  # it grows while it is walked along
        for other in after.get(this, ()):
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    return order, [this for this, count in waiting.items() if count] if len(order) < len(needs) else []


def _knots(needs: Mapping[str, Sequence[str]], left: set[str]) -> list[list[str]]:
    """The strongly connected parts of what is left (Tarjan, without recursion), in the file's order."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    place: dict[str, int] = {}
    found: list[list[str]] = []
    work: list[tuple[str, Iterator[str]]] = []

    def enter(this: str) -> None:
        index[this] = low[this] = len(index)
        place[this] = len(stack)
        stack.append(this)
        work.append((this, iter(needs[this])))

    for root in needs:
        if root in left and root not in index:
            enter(root)
        while work:
            this, others = work[-1]
            for other in others:
                if other in left and other not in index:
                    enter(other)
                    break
                if other in place:
                    low[this] = min(low[this], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[this])
                if low[this] == index[this]:
                    found.append(knot := stack[place[this] :])
                    del stack[place[this] :]
                    for one in knot:
                        del place[one]
    order = {this: number for number, this in enumerate(needs)}
    knots = (sorted(knot, key=order.__getitem__) for knot in found if len(knot) > 1)
    return sorted(knots, key=lambda knot: order[knot[0]])


def _circle(needs: Mapping[str, Sequence[str]], knot: Sequence[str]) -> list[str]:
    """The shortest way from the knot's first node back to it."""
    first, inside = knot[0], set(knot)
    came: dict[str, str] = {}
    edge = [first]
    while edge:
        following: list[str] = []
        for this in edge:
            for other in needs[this]:
                if other == first:
                    path = [this]
                    while path[-1] != first:
                        path.append(came[path[-1]])
                    return path[::-1]
                if other in inside and other not in came:
                    came[other] = this
                    following.append(other)
        edge = following
    return []
