"""Which nodes may run at once: dependencies, waves, circles among them, and globs that may name one file."""

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


_MAGIC = "*?[{"


def glob_parts(glob: str) -> tuple[str, ...]:
    """Its segments, lower case: on some disks README and readme are one file."""
    parts = tuple(part for part in glob.casefold().split("/") if part not in ("", "."))
    if glob.endswith("/"):
        parts = (*parts, "**")
    return ("/", *parts) if glob.startswith(("/", "~")) or ".." in parts else parts


def may_overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two globs, in their parts, may name one file; in doubt yes. A path holds everything below it."""
    if (one[:1] == ("/",)) != (other[:1] == ("/",)):
        return True  # where an absolute path leads is not known here
    seen, todo = set(), [(0, 0)]
    while todo:
        place = i, j = todo.pop()
        if i == len(one) or j == len(other):
            return True
        if place in seen:
            continue
        seen.add(place)
        if one[i] == "**":
            todo.append((i + 1, j))
            todo += _swallow(one, i, other, j)
        elif other[j] == "**":
            todo.append((i, j + 1))
            todo += ((i, j) for j, i in _swallow(other, j, one, i))
        elif _alike(one[i], other[j]):
            todo.append((i + 1, j + 1))
    return False


def _swallow(glob: tuple[str, ...], i: int, other: tuple[str, ...], j: int) -> list[tuple[int, int]]:
    """`**` stands for the other's next folder; what looks like a file's name (`a.py`) is none."""
    is_file = j + 1 == len(other) and "." in other[j][1:] and set(glob[i:]) != {"**"}
    return [] if is_file else [(i, j + 1)]


def _alike(one: str, other: str) -> bool:
    """Whether two segments may be one name: by what stands before the first and after the last joker."""
    if one == other:
        return True
    (head, tail, loose), (begin, end, free) = _ends(one), _ends(other)
    if not loose and not free:
        return False
    if not free:
        return len(other) >= len(head) + len(tail) and other.startswith(head) and other.endswith(tail)
    if not loose:
        return len(one) >= len(begin) + len(end) and one.startswith(begin) and one.endswith(end)
    fits = head.startswith(begin) or begin.startswith(head)
    return fits and (tail.endswith(end) or end.endswith(tail))


def _ends(part: str) -> tuple[str, str, bool]:
    marks = [at for at, sign in enumerate(part) if sign in _MAGIC]
    if not marks:
        return part, part, False
    last = max(part.rfind(sign) for sign in "*?]}")
    return part[: marks[0]], part[max(last, marks[-1]) + 1 :], True
