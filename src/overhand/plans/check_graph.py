"""How nodes hang together: dependencies and references that exist, no circle among them, and an order among writers.

Nodes that write the same files without waiting for each other are run one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from overhand.contracts.types import kinds_of, schema_of
from overhand.documents.text import one_line, shorten
from overhand.plans import refs
from overhand.plans.findings import Findings
from overhand.plans.model import RESERVED, Node
from overhand.plans.writers import meet, parts_of

_SHOWN = 12
_ESCAPE = "write `$${` where none is meant"
_PAIRS = 1_000_000
_STEPS = 2_000_000
"""How far is looked in a plan whose nodes nearly all write; the run itself is always safe."""


def check(found: Findings) -> None:
    """Every dependency and every `${…}`, then the order of all."""
    nodes = found.plan.nodes
    for this, node in nodes.items():
        for name in node.needs:
            if name not in nodes or name == this:
                _dependency(found, node, name)
        for text in refs.texts(node.inputs):
            _text(found, node, "inputs", text)
        _text(found, node, "task", node.task)
        _text(found, node, "context", node.context)
    for cycle in cycles(dependencies(nodes)):
        _cycle(found, cycle)


def dependencies(nodes: Mapping[str, Node]) -> dict[str, Sequence[str]]:
    """What each node waits for, without what does not exist."""
    return {this: [name for name in node.needs if name in nodes] for this, node in nodes.items()}


def _dependency(found: Findings, node: Node, name: str) -> None:
    line = found.of_node(node.id, "needs")
    if name == node.id:
        found.wrong("plan-ref-self", f"{name} waits for itself.", line, f"Remove {name} from its own dependencies.")
    elif not any(one.node == name for one in refs.find([node.inputs, node.task, node.context])):
        said = shorten(one_line(name), 60)
        message = f"{node.id} waits for {said}, which is no node.{found.meant('node', name, found.plan.nodes)}"
        found.wrong("plan-node-unknown", message, line, "Name a node of this plan, or remove the dependency.")


def _text(found: Findings, node: Node, where: str, text: str) -> None:
    """Every `${` in a text."""
    for ref, start, _ in refs.scan(text):
        if ref is None:
            said = shorten(one_line(text[start : start + 80]), 40)
            message = f"{node.id}: {said!r} begins like a reference and is none."
            fix = f"Write `${{node.field}}`, or {_ESCAPE}."
            found.wrong("plan-ref", message, _line(found, node, where, text), fix)
        else:
            _ref(found, node, where, text, ref)


def _ref(found: Findings, node: Node, where: str, text: str, ref: refs.Ref) -> None:
    giver = found.plan.nodes.get(ref.node)
    if giver is not None and ref.node != node.id:
        if not ref.field or not giver.outputs:
            return
        first, _, rest = ref.field.partition(".")
        if first in giver.outputs and not rest:
            return
        _field(found, node, where, text, ref)
    elif ref.node == node.id:
        message = f"{node.id} refers to itself: {ref}."
        found.wrong("plan-ref-self", message, _line(found, node, where, text), "Refer to a node that ends before it.")
    else:
        reserved = " It is a word of its own, not a node." if ref.node in RESERVED else ""
        near = reserved or found.meant("node", ref.node, found.plan.nodes)
        message = f"{node.id}: {ref} names no node of this plan.{near}"
        fix = f"Name a node of this plan, or {_ESCAPE}."
        found.wrong("plan-node-unknown", message, _line(found, node, where, text), fix)


def _field(found: Findings, node: Node, where: str, text: str, ref: refs.Ref) -> None:
    """A field that the giver does not declare, or a part of something that has no parts."""
    outputs = found.plan.nodes[ref.node].outputs
    first, _, rest = ref.field.partition(".")
    fix = f"Use one of {', '.join(outputs)}, or add {first} to the outputs of {ref.node}."
    if first not in outputs:
        message = f"{node.id}: {ref} asks for {first}, which {ref.node} does not give."
        message += found.meant(f"field {ref.node}", first, outputs)
    else:
        kinds = kinds_of(schema_of(outputs[first]))
        if not kinds or kinds & {"object", "array"}:
            return
        message = f"{node.id}: {ref} asks for {rest} within {first}, which {ref.node} gives as {', '.join(kinds)}."
        fix = f"Write `${{{ref.node}.{first}}}`."
    found.wrong("plan-field-unknown", message, _line(found, node, where, text), fix)


def _line(found: Findings, node: Node, where: str, text: str) -> int | None:
    """The line of the field; within inputs that of the one that holds the text."""
    if where == "inputs":
        for key, value in node.inputs.items():
            if any(one == text for one in refs.texts(value)):
                return found.of_node(node.id, where, key)
    return found.of_node(node.id, where)


def _cycle(found: Findings, cycle: Sequence[str]) -> None:
    path = [*cycle, cycle[0]]
    shown = path if len(path) <= _SHOWN else [*path[: _SHOWN - 2], "…", path[-1]]
    more = f" ({len(cycle):,} nodes)" if len(path) > _SHOWN else ""
    message = f"Nodes wait for each other in a circle: {' → '.join(shown)}{more}."
    fix = "Take one of these dependencies out; → means “waits for”."
    found.wrong("plan-cycle", message, found.of_node(cycle[0], "needs"), fix)


def cycles(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """For every knot of nodes that wait for each other one shortest circle through its first node."""
    left = _peeled(needs)[1]
    return [circle for knot in _knots(needs, set(left)) if (circle := _circle(needs, knot))] if left else []


def in_order(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Every node behind those it waits for; what is knotted, or behind a knot, comes last."""
    order, left = _peeled(needs)
    return order + left


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


# writers


def check_writers(found: Findings) -> None:
    """Warn once for every pair of globs that may meet."""
    writers: dict[str, list[str]] = {}
    for this, node in found.plan.nodes.items():
        if not node.writes:
            continue
        for glob in dict.fromkeys(node.writes):
            writers.setdefault(glob, []).append(this)
    if not writers:
        return
    order = _Order(found.plan.nodes)
    for one, other in _meeting(writers):
        clash = order.loose(writers[one]) if one == other else order.apart(writers[one], writers[other])
        if clash:
            _warn(found, one, other, clash)


def _warn(found: Findings, one: str, other: str, clash: Sequence[str]) -> None:
    names = f"{', '.join(clash[:5])}{f' and {len(clash) - 5:,} more' if len(clash) > 5 else ''}"
    what = f"`{one}`" if one == other else f"`{one}` and `{other}`, which may be one file"
    message = f"{names} could run at once and write {what}: they are run one after the other."
    fix = "Let one wait for the other (`dependencies:`), or give them files of their own."
    found.warn("plan-writers", message, found.of_node(clash[-1], "writes"), fix)


def _meeting(writers: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Pairs of globs that may name one file; a glob that several nodes have meets itself."""
    globs = list(writers)
    yield from ((glob, glob) for glob in globs if len(writers[glob]) > 1)
    loose = [glob for glob in globs if any(sign in glob for sign in "*?[{")]
    if len(globs) * len(globs) // 2 <= _PAIRS:
        loose = globs
    left = _PAIRS
    done: set[str] = set()
    parts = {glob: parts_of(glob) for glob in globs}
    for one in loose:
        done.add(one)
        for other in globs:
            if other not in done:
                if not left:
                    return
                left -= 1
                if meet(parts[one], parts[other]):
                    yield one, other


class _Order:
    """Who waits for whom, at any distance."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._needs = dependencies(nodes)
        self._rank = {this: number for number, this in enumerate(in_order(self._needs))}
        self._steps = _STEPS

    def loose(self, names: Sequence[str]) -> list[str]:
        """Those of a group that do not all wait for each other; none where they form one row."""
        clash: dict[str, None] = {}
        for one, other in pairwise(sorted(names, key=self._rank.__getitem__)):
            if not self._waits(other, one):
                clash |= {one: None, other: None}
        return [name for name in names if name in clash]

    def apart(self, ones: Sequence[str], others: Sequence[str]) -> list[str]:
        """The first two of different groups that do not wait for each other."""
        for one in ones:
            for other in others:
                first, second = sorted((one, other), key=self._rank.__getitem__)
                if one != other and not self._waits(second, first):
                    return [one, other]
                if self._steps <= 0:
                    return []
        return []

    def _waits(self, one: str, other: str) -> bool:
        """Whether `one` waits for `other`, directly or through others; yes where it is too far to tell."""
        until = self._rank[other]
        seen, waiting = {one}, [one]
        while waiting:
            self._steps -= 1
            needs = self._needs[waiting.pop()]
            if other in needs or self._steps <= 0:
                return True
            for name in needs:
                if name not in seen and self._rank[name] > until:
                    seen.add(name)
                    waiting.append(name)
        return False
