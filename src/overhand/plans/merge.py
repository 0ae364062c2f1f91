"""Merge the nodes' results by the plan's strategy, in the form that the plan asks for.

A strategy is one entry of `MERGES`. Only winning early (`first_wins`) is known elsewhere: `advance` stops the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from overhand.contracts import canonical_json
from overhand.documents import Problem, has_errors, warning, wrong
from overhand.plans import combine
from overhand.plans.combine import Conflict, NodeResult
from overhand.plans.contract import ALL, MERGE
from overhand.plans.model import Plan

CODES = {
    "merge-nothing": "No node gave anything that could be merged.",
    "merge-missing": "A node that was to be merged gave nothing.",
    "merge-not-json": "A node's data hold something that JSON does not have.",
    "merge-conflict": "Nodes gave different values for a field whose rule is fail.",
    "merge-no-majority": "Not enough of the declared nodes agree.",
    "merge-custom": "A custom merge has no code, or gave no data.",
    "merge-unfilled": "Nothing was found for a field of final_output_format.",
    "merge-mismatch": "A field is not of the type that final_output_format names.",
}
USABLE = ("completed", "partial")
UNSET: Any = object()  # no custom data, where null would be some


class Variant(NamedTuple):
    """What some nodes agree on."""

    nodes: tuple[str, ...]
    data: Any


@dataclass(frozen=True, slots=True)
class Merged:
    """The results as one."""

    data: Any
    status: str = "completed"  # completed, partial (something is missing), blocked (no majority) or failed
    conflicts: tuple[Conflict, ...] = ()
    # per field path the nodes it comes from; a path stands for everything below it that has no line of its own
    provenance: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    problems: tuple[Problem, ...] = ()
    unfilled: tuple[str, ...] = ()  # fields of final_output_format that nothing could be found for
    missing: tuple[str, ...] = ()  # nodes that were to be merged and gave nothing

    def as_json(self) -> dict[str, object]:
        """The merge without what is empty."""
        shown: dict[str, object] = {"status": self.status, "data": self.data}
        rows = {
            "conflicts": [one.as_json() for one in self.conflicts],
            "provenance": {path: list(nodes) for path, nodes in self.provenance.items()},
            "variants": [{"nodes": list(one.nodes), "data": one.data} for one in self.variants],
            "problems": [one.as_json() for one in self.problems],
            "unfilled": list(self.unfilled),
            "missing": list(self.missing),
        }
        return {**shown, **{name: value for name, value in rows.items() if value}}


def merge(plan: Plan, results: Sequence[NodeResult], custom: Any = UNSET) -> Merged:
    """The results as one; `custom` is what the plan's own function or command made of them."""
    given = {one.id: one for one in results}
    strategy = _strategy(plan)
    ids = members(plan)
    problems: list[Problem] = []
    usable = [given[name] for name in ids if name in given and _counts(given[name], problems)]
    counted = {one.id for one in usable}
    missing = tuple(name for name in ids if name not in counted)
    if usable or not strategy.needs_results:
        found = strategy.merge(plan, usable, custom)
    else:
        found = _failed("merge-nothing", "No node gave data that could be merged.")
    if strategy.warns:
        for name in missing:
            one = given.get(name)
            why = "has no result" if one is None else "returned no data" if one.status in USABLE else f"is {one.status}"
            problems.append(warning("merge-missing", f"{name} {why}, so nothing of it was merged."))
    short = strategy.needs_all and (missing or any(one.status != "completed" for one in usable))
    status = "partial" if found.status == "completed" and short else found.status
    found = replace(found, status=status, missing=missing, problems=(*problems, *found.problems))
    if not plan.merge.shape or status not in USABLE:
        return found
    known = {**{name: NodeResult(name, "no result") for name in missing}, **given}
    return _in_form(plan, found, [known[name] for name in plan.nodes if name in known])


def members(plan: Plan) -> tuple[str, ...]:
    """The nodes whose results are merged."""
    return _strategy(plan).members(plan)


def sinks(plan: Plan) -> tuple[str, ...]:
    """The nodes that no other node waits for."""
    needed = {need for node in plan.nodes.values() for need in node.needs}
    return tuple(name for name in plan.nodes if name not in needed)


def _declared(plan: Plan) -> tuple[str, ...]:
    """Those with an interface to `merge`; without any, all nodes."""
    sources = {one.source for one in plan.interfaces if one.target == MERGE}
    return tuple(name for name in plan.nodes if name in sources or not sources or ALL in sources)


def _voters(plan: Plan) -> tuple[str, ...]:
    """Those with an interface to `merge`; without any, the sinks."""
    return _declared(plan) if any(one.target == MERGE for one in plan.interfaces) else sinks(plan)


def _counts(one: NodeResult, problems: list[Problem]) -> bool:
    """Whether a result can be merged; data that are no JSON are a problem and left out."""
    if one.status not in USABLE or one.data is None:
        return False
    try:
        canonical_json(one.data)
    except ValueError as error:
        problems.append(wrong("merge-not-json", f"{one.id}: {error}.", fix="Return JSON; NaN and Infinity are none."))
        return False
    return True


def _failed(code: str, message: str, fix: str = "") -> Merged:
    return Merged(None, "failed", problems=(wrong(code, message, fix=fix),))


# the strategies


def _aggregate(plan: Plan, usable: Sequence[NodeResult], _: Any) -> Merged:
    total = combine.Sum(plan.merge, combine.generated(plan.merge.shape))
    try:
        data = combine.combine(total, [(one, one.data) for one in usable])
    except (RecursionError, ValueError):  # each was JSON: only the depth of all together can be too much
        return _failed("merge-not-json", "The data are nested too deeply to be merged.", "Return flatter data.")
    problems = []
    for conflict in total.conflicts:
        if not conflict.taken:
            nodes = ", ".join(node for node, _ in conflict.values)
            message = f"{conflict.field}: {nodes} gave different values, and its rule is fail."
            fix = f"Let the nodes agree, or give {conflict.field} another rule, such as prefer_first."
            problems.append(wrong("merge-conflict", message, fix=fix))
    status = "failed" if problems else "completed"
    data = None if data is combine.NOTHING else data
    return Merged(data, status, tuple(total.conflicts), total.provenance, problems=tuple(problems))


def _first(_: Plan, usable: Sequence[NodeResult], __: Any) -> Merged:
    fit = [one for one in usable if one.status == "completed" and one.verified]
    if not fit:
        return _failed("merge-nothing", "No node completed with a verified result.")
    winner = min(fit, key=lambda one: one.at)
    return Merged(winner.data, provenance=_whole(winner.data, (winner.id,)))


def _consensus(plan: Plan, usable: Sequence[NodeResult], _: Any) -> Merged:
    groups: dict[str, list[NodeResult]] = {}
    for one in usable:
        groups.setdefault(canonical_json(one.data), []).append(one)
    ranked = sorted(groups.values(), key=len, reverse=True)
    variants = tuple(Variant(tuple(one.id for one in group), group[0].data) for group in ranked)
    declared = len(_voters(plan))
    best = ranked[0]
    if _enough(len(best), declared, plan.merge.quorum):
        status = "completed" if any(one.status == "completed" for one in best) else "partial"
        return Merged(best[0].data, status, (), _whole(best[0].data, variants[0].nodes), variants)
    needed = next((count for count in range(1, declared + 1) if _enough(count, declared, plan.merge.quorum)), declared)
    message = f"{len(best)} of {declared} nodes agree at most, {needed} are needed."
    fix = "Compare the variants, then decide, or run the nodes that differ again."
    return Merged(None, "blocked", variants=variants, problems=(wrong("merge-no-majority", message, fix=fix),))


def _enough(agreeing: int, declared: int, quorum: float) -> bool:
    """Whether so many of the declared nodes are more than the quorum; a quorum of 1 means all of them."""
    return agreeing > declared * quorum or (quorum >= 1 and agreeing == declared)


def _custom(plan: Plan, _: Sequence[NodeResult], custom: Any) -> Merged:
    if custom is UNSET:
        name = plan.merge.function or " ".join(plan.merge.command)
        return _failed("merge-custom", f"The custom merge `{name}` gave no data.")
    try:
        canonical_json(custom)
    except ValueError as error:
        return _failed("merge-not-json", f"The custom merge's data: {error}.")
    return Merged(custom, provenance=_whole(custom, (combine.GENERATED,)))


def _custom_without_code(plan: Plan, usable: Sequence[NodeResult], custom: Any) -> Merged:
    found = _aggregate(plan, usable, custom)
    message = "The custom merge has neither function nor command; what the last nodes gave was taken."
    fix = "Add `function: module:name` or `command: [...]` to the merge, or write `strategy: sequential`."
    return replace(found, problems=(*found.problems, warning("merge-custom", message, fix=fix)))


class Strategy(NamedTuple):
    """What a merge strategy does."""

    # one result from those that can be used; the third is what the plan's own code made of them
    merge: Callable[[Plan, Sequence[NodeResult], Any], Merged]
    members: Callable[[Plan], tuple[str, ...]]  # the nodes whose results are merged
    needs_all: bool = True  # whether the merge is partial when one of them gave nothing or a partial result
    warns: bool = True  # whether it warns of those that gave nothing
    needs_results: bool = True  # whether the merge fails when none gave anything; custom code decides that itself


MERGES = {
    "aggregate": Strategy(_aggregate, _declared),
    "consensus": Strategy(_consensus, _voters, needs_all=False),
    "custom": Strategy(_custom, _declared, needs_results=False),
    "first_wins": Strategy(_first, sinks, needs_all=False, warns=False),
    "sequential": Strategy(_aggregate, sinks),
}
_WITHOUT_CODE = Strategy(_custom_without_code, sinks)


def _strategy(plan: Plan) -> Strategy:
    if plan.merge.strategy == "custom" and not (plan.merge.function or plan.merge.command):
        return _WITHOUT_CODE
    return MERGES.get(plan.merge.strategy, MERGES["aggregate"])


def _whole(data: Any, nodes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The provenance of data that come from the same nodes all through."""
    if isinstance(data, dict) and data:
        return {combine.below("", key): nodes for key in data}
    return {combine.ROOT: nodes}


def _in_form(plan: Plan, found: Merged, results: Sequence[NodeResult]) -> Merged:
    """The merge in the plan's form; if nothing of the form can be filled, the data stay as they are."""
    shaped = combine.shape(plan.merge.shape, found.data, found.provenance, results)
    return replace(
        found,
        data=shaped.data or found.data,
        provenance=shaped.provenance if shaped.data else found.provenance,
        status="partial" if has_errors(shaped.problems) else found.status,
        problems=(*found.problems, *shaped.problems),
        unfilled=tuple(shaped.unfilled),
    )
