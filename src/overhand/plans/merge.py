"""Merging: the nodes' results as one, by the plan's strategy, and in the form that the plan asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from overhand.contracts.compare import canonical, compare
from overhand.documents.problems import Problem, warning, wrong
from overhand.plans import combine, shape
from overhand.plans.contract import ALL, MERGE
from overhand.plans.merged import Conflict, Merged, NodeResult, Variant
from overhand.plans.model import Plan

__all__ = ["CODES", "Conflict", "Merged", "NodeResult", "Variant", "members", "merge", "sinks"]

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
UNSET: Any = object()
"""No custom data, where null would be some."""


def merge(plan: Plan, results: Sequence[NodeResult], custom: Any = UNSET) -> Merged:
    """The results as one; `custom` is what the plan's own function or command made of them."""
    given = {one.id: one for one in results}
    ids = members(plan)
    ordered = [given[name] for name in ids if name in given]
    problems: list[Problem] = []
    usable = [one for one in ordered if _counts(one, problems)]
    counted = {one.id for one in usable}
    missing = tuple(name for name in ids if name not in counted)
    found = _merged(plan, usable, custom)
    problems += _missing(plan, missing, given)
    status = "partial" if found.status == "completed" and _short(plan, usable, missing) else found.status
    found = replace(found, status=status, missing=missing, problems=(*problems, *found.problems))
    if not plan.merge.shape or status not in USABLE:
        return found
    silent = {name: NodeResult(name, "no result") for name in missing if name not in given}
    told = {**given, **silent}
    return _in_form(plan, found, [told[name] for name in plan.nodes if name in told])


def sinks(plan: Plan) -> tuple[str, ...]:
    """The nodes that no other node waits for."""
    needed = {need for node in plan.nodes.values() for need in node.needs}
    return tuple(name for name in plan.nodes if name not in needed)


def members(plan: Plan) -> tuple[str, ...]:
    """The nodes whose results are merged.

    Winners and the ends of chains are sinks. Otherwise those with an interface to `merge` count; without any,
    a vote is among the sinks, and everything else takes all nodes.
    """
    strategy = plan.merge.strategy
    if strategy in ("first_wins", "sequential") or (strategy == "custom" and not _has_code(plan)):
        return sinks(plan)
    sources = {one.source for one in plan.interfaces if one.target == MERGE}
    if sources and ALL not in sources:
        return tuple(name for name in plan.nodes if name in sources)
    return sinks(plan) if strategy == "consensus" and not sources else tuple(plan.nodes)


def _has_code(plan: Plan) -> bool:
    return bool(plan.merge.function or plan.merge.command)


def _counts(one: NodeResult, problems: list[Problem]) -> bool:
    """Whether a result can be merged; data that are no JSON are told and left out."""
    if one.status not in USABLE or one.data is None:
        return False
    try:
        canonical(one.data)
    except ValueError as error:
        problems.append(wrong("merge-not-json", f"{one.id}: {error}.", fix="Return JSON; NaN and Infinity are none."))
        return False
    return True


def _missing(plan: Plan, missing: Sequence[str], given: dict[str, NodeResult]) -> list[Problem]:
    if plan.merge.strategy == "first_wins":
        return []
    found = []
    for name in missing:
        one = given.get(name)
        why = "has no result" if one is None else "returned no data" if one.status in USABLE else f"is {one.status}"
        found.append(warning("merge-missing", f"{name} {why}, so nothing of it was merged."))
    return found


def _short(plan: Plan, usable: Sequence[NodeResult], missing: Sequence[str]) -> bool:
    """Whether something is missing; a winner and a majority are whole without the others."""
    if plan.merge.strategy in ("first_wins", "consensus"):
        return False
    return bool(missing) or any(one.status != "completed" for one in usable)


def _merged(plan: Plan, usable: Sequence[NodeResult], custom: Any) -> Merged:
    strategy = plan.merge.strategy
    if strategy == "custom" and _has_code(plan):
        return _custom(plan, custom)
    if not usable:
        return Merged(None, "failed", problems=(wrong("merge-nothing", "No node gave data that could be merged."),))
    if strategy == "first_wins":
        return _first(usable)
    if strategy == "consensus":
        return _consensus(plan, usable)
    found = _aggregate(plan, usable)
    if strategy != "custom":
        return found
    message = "The custom merge has neither function nor command; what the last nodes gave was taken."
    fix = "Add `function: module:name` or `command: [...]` to the merge, or write `strategy: sequential`."
    return replace(found, problems=(*found.problems, warning("merge-custom", message, fix=fix)))


def _aggregate(plan: Plan, usable: Sequence[NodeResult]) -> Merged:
    total = combine.Sum(plan.merge, shape.generated(plan.merge.shape))
    try:
        data = combine.combine(total, [(one, one.data) for one in usable])
    except (RecursionError, ValueError):  # each was JSON: only the depth of all together can be too much
        message = "The data are nested too deeply to be merged."
        return Merged(None, "failed", problems=(wrong("merge-not-json", message, fix="Return flatter data."),))
    failed = [one for one in total.conflicts if not one.taken]
    problems = tuple(_unsolved(one) for one in failed)
    status = "failed" if failed else "completed"
    return Merged(
        None if data is combine.NOTHING else data, status, tuple(total.conflicts), total.provenance, problems=problems
    )


def _unsolved(one: Conflict) -> Problem:
    nodes = ", ".join(node for node, _ in one.values)
    fix = f"Let the nodes agree, or give {one.field} another rule, such as prefer_first."
    return wrong("merge-conflict", f"{one.field}: {nodes} gave different values, and its rule is fail.", fix=fix)


def _first(usable: Sequence[NodeResult]) -> Merged:
    fit = [one for one in usable if one.status == "completed" and one.verified]
    if not fit:
        message = "No node completed with a verified result."
        return Merged(None, "failed", problems=(wrong("merge-nothing", message),))
    winner = min(fit, key=lambda one: one.at)
    return Merged(winner.data, provenance=_whole(winner.data, (winner.id,)))


def _consensus(plan: Plan, usable: Sequence[NodeResult]) -> Merged:
    groups: dict[str, list[NodeResult]] = {}
    for one in usable:
        groups.setdefault(canonical(one.data), []).append(one)
    ranked = sorted(groups.values(), key=len, reverse=True)
    variants = tuple(Variant(tuple(one.id for one in group), group[0].data) for group in ranked)
    declared = len(members(plan))
    best = ranked[0]
    if enough(len(best), declared, plan.merge.quorum):
        status = "completed" if any(one.status == "completed" for one in best) else "partial"
        return Merged(best[0].data, status, (), _whole(best[0].data, variants[0].nodes), variants)
    needed = next((count for count in range(1, declared + 1) if enough(count, declared, plan.merge.quorum)), declared)
    message = f"{len(best)} of {declared} nodes agree at most, {needed} are needed."
    fix = "Compare the variants, then decide, or run the nodes that differ again."
    return Merged(None, "blocked", variants=variants, problems=(wrong("merge-no-majority", message, fix=fix),))


def enough(agreeing: int, declared: int, quorum: float) -> bool:
    """Whether so many of the declared nodes are more than the quorum; a quorum of 1 means all of them."""
    return agreeing > declared * quorum or (quorum >= 1 and agreeing == declared)


def _custom(plan: Plan, custom: Any) -> Merged:
    if custom is UNSET:
        name = plan.merge.function or " ".join(plan.merge.command)
        return Merged(None, "failed", problems=(wrong("merge-custom", f"The custom merge `{name}` gave no data."),))
    try:
        canonical(custom)
    except ValueError as error:
        return Merged(None, "failed", problems=(wrong("merge-not-json", f"The custom merge's data: {error}."),))
    return Merged(custom, provenance=_whole(custom, (shape.GENERATED,)))


def _whole(data: Any, nodes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The provenance of data that come from the same nodes all through."""
    if isinstance(data, dict) and data:
        return {combine.below("", key): nodes for key in data}
    return {combine.ROOT: nodes}


def _in_form(plan: Plan, found: Merged, results: Sequence[NodeResult]) -> Merged:
    """The merge in the plan's form; if nothing of the form can be filled, the data stay as they are."""
    shaped = shape.shape(plan.merge.shape, found.data, found.provenance, results)
    problems = list(shaped.problems)
    for name, schema in shape.types_of(plan.merge.shape).items():
        if name in shaped.data:
            problems += compare(schema, shaped.data[name], name, "final_output_format: ", "merge-mismatch")
    status = "partial" if any(one.level == "error" for one in problems) else found.status
    kept = bool(shaped.data)
    return replace(
        found,
        data=shaped.data if kept else found.data,
        provenance=shaped.provenance if kept else found.provenance,
        status=status,
        problems=(*found.problems, *problems),
        unfilled=tuple(shaped.unfilled),
    )
