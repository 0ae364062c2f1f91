"""Nodes that write the same files without waiting for each other: they are run one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from overhand.plans.check_graph import dependencies, in_order
from overhand.plans.writers import meet, parts_of

if TYPE_CHECKING:
    from overhand.plans.check import Findings
    from overhand.plans.model import Node

_PAIRS = 1_000_000
_STEPS = 2_000_000
"""How far is looked in a plan whose nodes nearly all write; the run itself is always safe."""


def check(found: Findings) -> None:
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
