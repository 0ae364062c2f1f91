"""final_output_format: the merged data under the names that the plan asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overhand.contracts.data import pick
from overhand.contracts.types import optional, schema_of
from overhand.documents.problems import Problem, warning
from overhand.documents.text import one_line
from overhand.plans import refs
from overhand.plans.combine import ROOT, below
from overhand.plans.merged import NodeResult

GENERATED = "merge"
"""Where a generated field comes from, in the provenance."""

_GENERATED = re.compile(r"\(\s*generated\b", re.IGNORECASE)
_BESIDE_FROM = frozenset(("from", "type", "description", "note", "optional", "required"))
_NONE = object()


@dataclass(slots=True)
class Shaped:
    """Data in the plan's own form, and what that took."""

    data: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unfilled: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def shape(
    wanted: Mapping[str, Any],
    data: Any,
    provenance: Mapping[str, tuple[str, ...]],
    results: Sequence[NodeResult],
) -> Shaped:
    """The data as `final_output_format` wants them."""
    shaped = Shaped()
    nodes = {one.id: one for one in results}
    for name, spec in wanted.items():
        value, origin = _find(name, spec, data, nodes)
        if value is _NONE:
            if not optional(spec):
                shaped.unfilled.append(name)
            continue
        shaped.data[name] = value
        path = below("", name)
        shaped.provenance |= {path: origin} if isinstance(origin, tuple) else _renamed(provenance, origin, path)
    shaped.problems += _unfilled(shaped.unfilled, data)
    return shaped


def _find(name: str, spec: Any, data: Any, nodes: Mapping[str, NodeResult]) -> tuple[Any, tuple[str, ...] | str]:
    """A field's value, and the nodes it comes from or the merged field that it was."""
    source = source_of(spec)
    if source:
        value = _NONE if source.node else _pick(data, source.field)
        if value is not _NONE:
            return value, path_of(data, source.field)
        node, _, field = (source.node, "", source.field) if source.node else source.field.partition(".")
        return (_pick(nodes[node].data, field) if node in nodes else _NONE), (node,)
    if _is_generated(name, spec):
        return summary(nodes.values()), (GENERATED,)
    for candidate in (name, name.removeprefix("all_")):
        value = _pick(data, candidate)
        if value is not _NONE:
            return value, path_of(data, candidate)
    return (summary(nodes.values()), (GENERATED,)) if name == "summary" else (_NONE, "")


def _is_generated(name: str, spec: Any) -> bool:
    return isinstance(spec, str) and bool(_GENERATED.search(spec)) and name.endswith("summary")


def generated(wanted: Mapping[str, Any]) -> frozenset[str]:
    """The fields that the merge writes itself and nothing else of the format takes from the nodes."""
    taken = {source.field.partition(".")[0] for spec in wanted.values() if (source := source_of(spec))}
    written = {name for name, spec in wanted.items() if _is_generated(name, spec)}
    names = written - taken - {name.removeprefix("all_") for name in wanted if name not in written}
    return frozenset(below("", name) for name in names)


def source_of(spec: Any) -> refs.Ref | None:
    """The node or the field that an entry of the format names: `${node.field}`, `{from: field}`."""
    given = spec.get("from") if _names_source(spec) else spec
    if not isinstance(given, str):
        return None
    if "${" in given:
        return next(iter(refs.find(given)), None)
    return refs.Ref("", given.strip()) if given is not spec and given.strip() else None


def _names_source(spec: Any) -> bool:
    """`{from: x}`, which `{from: string, to: string}` is not."""
    return isinstance(spec, Mapping) and "from" in spec and spec.keys() <= _BESIDE_FROM


def _pick(data: Any, path: str) -> Any:
    if isinstance(data, Mapping) and path in data:
        return data[path]
    if not path:
        return _NONE if data is None else data
    try:
        return pick(data, path)
    except LookupError:
        return _NONE


def path_of(data: Any, field: str) -> str:
    """The path in a provenance of a field that is there; a name with a dot may be one field or several."""
    path, at = "", data
    for name in (field,) if isinstance(data, Mapping) and field in data else field.split("."):
        listed = isinstance(at, list)
        path = f"{path}[{int(name)}]" if listed else below(path, name)
        at = at[int(name)] if listed else at[name]
    return path


def _renamed(known: Mapping[str, tuple[str, ...]], old: str, new: str) -> dict[str, tuple[str, ...]]:
    """The lines of a provenance at and below a path, under another; without any, that of what it is part of."""
    inside = (f"{old}.", f"{old}[")
    found = {new + path[len(old) :]: nodes for path, nodes in known.items() if path == old or path.startswith(inside)}
    if found:
        return found
    above = [path for path in known if old.startswith((f"{path}.", f"{path}["))]
    return {new: known[max(above, key=len)] if above else known.get(ROOT, ())}


def _unfilled(names: Sequence[str], data: Any) -> list[Problem]:
    if not names:
        return []
    has = ", ".join(data) if isinstance(data, Mapping) and data else "no fields"
    one = "Nothing was found for " + ", ".join(names)
    fix = f"Name the source, such as `{names[0]}: {{from: field}}`; the merged data have {has}."
    return [warning("merge-unfilled", f"{one}, which final_output_format asks for.", fix=fix)]


def summary(results: Iterable[NodeResult]) -> str:
    """The nodes' summaries as one text, one line each."""
    return "\n".join(f"{one.id}: {_said(one)}" for one in results)


def _said(one: NodeResult) -> str:
    text = one.summary
    if not text and isinstance(one.data, Mapping) and isinstance(one.data.get("summary"), str):
        text = one.data["summary"]
    text = one_line(text.strip())
    if one.status != "completed":
        return f"{one.status}. {text}".strip() if text else one.status
    return text or "completed"


def types_of(wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The schemas of the format's fields, as far as its words say something."""
    found = {}
    for name, spec in wanted.items():
        words = spec.get("type") if _names_source(spec) else spec
        schema = {} if isinstance(words, str) and "${" in words else schema_of(words)
        if schema:
            found[name] = schema
    return found
