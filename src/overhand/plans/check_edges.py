"""Interfaces: both ends exist, and what one node gives fits what the other takes."""

from __future__ import annotations

from itertools import chain
from typing import Any

from overhand.contracts.types import kinds, mismatch
from overhand.documents.text import one_line, shorten
from overhand.plans import refs
from overhand.plans.contract import ALL, MERGE
from overhand.plans.findings import Findings
from overhand.plans.model import Interface, Node


def check(found: Findings) -> None:
    """Every interface of the plan."""
    nodes = found.plan.nodes
    for number, edge in enumerate(found.plan.interfaces):
        source, target = nodes.get(edge.source), nodes.get(edge.target)
        if source is not None and target is not None and source is not target:
            _between(found, number, edge, source, target)
            continue
        known = (source is not None or edge.source == ALL) and (target is not None or edge.target == MERGE)
        if not known or edge.source == edge.target:
            _ends(found, number, edge)
        elif target is None:
            _to_merge(found, number, edge, [source] if source is not None else list(nodes.values()))
        else:
            for one in nodes.values():
                if one is not target:
                    _between(found, number, edge, one, target)


def _line(found: Findings, number: int, *more: str | int) -> int | None:
    return found.of_plan("interfaces", number, *more)


def _ends(found: Findings, number: int, edge: Interface) -> None:
    """An end that is no node, or both the same."""
    nodes = found.plan.nodes
    for key, name, word in (("from", edge.source, ALL), ("to", edge.target, MERGE)):
        if name not in nodes and name != word:
            said = shorten(one_line(name), 60)
            message = f"The interface goes {key} {said}, which is no node."
            message += found.meant(f"end {key}", name, chain(nodes, (word,)))
            fix = f"Name a node of this plan, or `{word}`."
            found.wrong("plan-node-unknown", message, _line(found, number, key), fix)
    if edge.source == edge.target and edge.source in nodes:
        message = f"The interface goes from {edge.source} to itself."
        found.wrong("plan-ref-self", message, _line(found, number), "Name two different nodes.")


def _to_merge(found: Findings, number: int, edge: Interface, sources: list[Node]) -> None:
    """What is merged must be an output of every source."""
    for key, words in edge.format.items():
        for source in sources:
            if source.outputs:
                _fits(found, number, edge, source, key, key, words)
    for name in edge.required:
        first = name.partition(".")[0]
        if first in edge.format:
            continue
        for source in sources:
            if source.outputs and first not in source.outputs and not _has_array(source, edge, {}):
                _lacks(found, number, edge, source, first)


def _between(found: Findings, number: int, edge: Interface, source: Node, target: Node) -> None:
    ties: dict[str, str] = {}
    outputs, inputs = source.outputs, target.inputs
    for key, words in edge.format.items():
        if key not in inputs:
            message = f"{source.id} → {target.id}: {key} is not among the inputs of {target.id}."
            message += found.meant(f"input {target.id}", key, target.inputs)
            own = f"Name one of them ({', '.join(target.inputs)})" if target.inputs else "Name an input"
            fix = f'{own}, or add `{key}: "${{{source.id}.…}}"` to them.'
            found.wrong("plan-interface", message, _line(found, number, "format", key), fix)
            continue
        given = inputs[key]
        field = _tie(given, source.id)
        if field is None and (named := refs.find(given)):
            _elsewhere(found, number, edge, key, named)
            continue
        if field is None:
            field = key
        elif not field:  # all its data: the key is looked for there
            field = key if key in source.outputs else ""
        if source.outputs and field:
            ties[key] = field
            _fits(found, number, edge, source, key, field, words)
    if not (outputs and edge.required) or _has_array(source, edge, ties):
        return
    for name in edge.required:
        first = name.partition(".")[0]
        if first not in outputs and first not in edge.format:
            _lacks(found, number, edge, source, first)


def _tie(given: Any, source: str) -> str | None:
    """The field of the source that an input refers to; "" for all of it, None for none."""
    for ref in refs.find(given):
        if ref.node == source:
            return ref.field
    return None


def _elsewhere(found: Findings, number: int, edge: Interface, key: str, named: list[refs.Ref]) -> None:
    """An input that comes from another node; one that does not exist is told where it is named."""
    if all(ref.node in found.plan.nodes for ref in named):
        message = f"{edge.source} → {edge.target}: {key} comes from {named[0].node}, not from {edge.source}."
        fix = f"Refer to `${{{edge.source}.…}}` in the input {key}, or begin the interface at {named[0].node}."
        found.wrong("plan-interface", message, _line(found, number, "format", key), fix)


def _fits(found: Findings, number: int, edge: Interface, source: Node, key: str, field: str, words: Any) -> None:
    first, _, rest = field.partition(".")
    if first not in source.outputs:
        if key != field:
            return  # the reference itself is what is wrong, and is told
        message = f"{source.id} → {edge.target}: {source.id} has no output {first}."
        message += found.meant(f"field {source.id}", first, source.outputs)
        fix = f"Add {first} to the outputs of {source.id}, or refer to one of {', '.join(source.outputs)}."
        found.wrong("plan-interface", message, _line(found, number, "format", key), fix)
    elif not rest and (said := mismatch(source.outputs[first], words)):
        other = f" {key}" if key != first else ""
        message = f"{source.id} → {edge.target}: {first} does not fit{other}: {said}."
        fix = f"Let {source.id} give what is wanted, or change the format."
        found.wrong("plan-interface", message, _line(found, number, "format", key), fix)


def _has_array(source: Node, edge: Interface, ties: dict[str, str]) -> bool:
    """Whether something on this edge may have items (or parts) in which a required field can be looked for."""
    fields = ties or {key: key for key in edge.format} or {key: key for key in source.outputs}
    for key, field in fields.items():
        for spec in (edge.format.get(key), source.outputs.get(field.partition(".")[0])):
            if spec is not None and (not (found := kinds(spec)) or "array" in found or "object" in found):
                return True
    return False


def _lacks(found: Findings, number: int, edge: Interface, source: Node, name: str) -> None:
    message = f"{source.id} → {edge.target}: {name} is required, and {source.id} does not give it."
    message += found.meant(f"field {source.id}", name, source.outputs)
    fix = f"Add {name} to the outputs of {source.id}, or take it out of `required_fields`."
    found.wrong("plan-interface", message, _line(found, number, "required_fields"), fix)
