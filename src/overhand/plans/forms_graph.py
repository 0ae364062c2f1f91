"""The forms that name their nodes: the output form, the short form, and the input form, whose agents become nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overhand.plans import forms_node, forms_plain, forms_plan, refs
from overhand.plans.forms import Gather
from overhand.plans.model import Node, Plan
from overhand.plans.source import Path

_NODE = "Write `- id: a-name`, with `agent:` and `contract:` below it."


class Nodes:
    """The nodes read so far, and where each stands."""

    def __init__(self, gather: Gather) -> None:
        self.gather = gather
        self.found: dict[str, Node] = {}
        self.places: dict[str, Path] = {}
        self.counts: dict[str, int] = {}
        """How many are called after one agent, where the form gives the names."""

    def add(self, id: str, fields: dict[str, Any], path: Path) -> None:
        """One more, unless its id is taken or none."""
        if id in self.found:
            first = self.gather.source.line(self.places[id])
            message = f"The id `{id}` occurs twice; the first one is on line {first}."
            self.gather.wrong("plan-id-twice", message, path, "Give one of them another id.")
        elif id:
            self.found[id] = forms_node.node(id, fields, self.line(path))
            self.places[id] = path

    def line(self, path: Path) -> int:
        """Where a node begins, if that costs nothing."""
        return self.gather.source.line(path) or 0 if self.gather.source.eager else 0


def output(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`delegation`, `subtasks`, `interfaces`, `merge_plan`, `failure_handling` and so on."""
    head = gather.mapping(raw.get("delegation"), ("delegation",))
    inside = "subtasks" in head and "subtasks" not in raw
    rows = head["subtasks"] if inside else raw.get("subtasks")
    own = ("delegation", "subtasks", "task", "description")
    said = forms_plan.read(gather, raw, (), own)
    said = {**forms_plan.read(gather, head, ("delegation",), own), **said}
    place: Path = ("delegation", "task") if "task" in head else ("task",)
    text, told = _task(gather, head.get("task", raw.get("task")), place)
    if not text:
        gather.wrong(
            "plan-missing", "The delegation has no task.", ("delegation",), 'Add `task: "…"` below `delegation:`.'
        )
    said["context"] = (*told, *said.get("context", ()))
    nodes = Nodes(gather)
    path: Path = ("delegation", "subtasks") if inside else ("subtasks",)
    for number, one in enumerate(gather.rows(rows, path)):
        place = (*path, number)
        plain = forms_plain.node(gather, one, text, nodes.line(place) if gather.source.eager else 0)
        if plain is None or plain.id in nodes.found:
            _subtask(nodes, one, place, text)
        else:
            nodes.found[plain.id], nodes.places[plain.id] = plain, place
    if "failure" not in said:
        fix = "Add `failure_handling: {policy: abort, max_retries: 1, fallback: null}`."
        gather.wrong("plan-failure", "The plan does not say what happens when a node fails.", (), fix)
    if "merge" not in said and len(nodes.found) > 1:
        fix = "Add `merge_plan: {strategy: aggregate}`."
        gather.warn("plan-missing", "The plan has no `merge_plan`; results are aggregated.", (), fix)
    return Plan(text, nodes.found, form="output", **forms_plan.settled(gather, said)), nodes.places


def _subtask(nodes: Nodes, one: Any, path: Path, task: str) -> None:
    gather = nodes.gather
    if type(one) is not dict:
        gather.typed(one, path, "a mapping", _NODE)
        return
    name = gather.id(one.get("id"), (*path, "id"))
    fields = forms_node.read(gather, one, path)
    if not (fields.get("outputs") and fields.get("verification")):
        _promises(gather, one, path, name or "The node", fields)
    if not fields.get("task"):
        fields["task"] = f"{forms_plain.spoken(name)}: {task}" if task else forms_plain.spoken(name)
    nodes.add(name, fields, path)


def _promises(gather: Gather, one: Mapping[str, Any], path: Path, said: str, fields: Mapping[str, Any]) -> None:
    """A node without outputs, or whose outputs nobody checks."""
    if "contract" not in one and not fields.get("outputs"):
        fix = "Add `contract: {inputs: {…}, outputs: {…}, constraints: {…}, verification: …}`."
        gather.wrong("plan-contract", f"{said} has no contract.", path, fix)
    elif not fields.get("outputs"):
        fix = "Add `outputs: {name: type}` below `contract:`."
        gather.wrong("plan-contract", f"The contract of {said} names no outputs.", path, fix)
    if not fields.get("verification") and ("contract" in one or fields.get("outputs")):
        fix = 'Add `verification: {expression: "…"}`, {command: "…"}, {exists: path}, or a sentence.'
        gather.wrong("plan-verification", f"{said} has no verification.", path, fix)


def _task(gather: Gather, value: Any, path: Path) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """A text, or an object whose description it is; what else it says is context."""
    if type(value) is not dict:
        return gather.text(value, path), ()
    key = next((key for key in ("description", "task", "goal", "title") if key in value), "")
    if not key:
        gather.wrong("plan-missing", "The task has no description.", path, "Add `description: …` to it.")
        return "", ()
    told = tuple((name, one) for name, one in value.items() if name != key)
    return gather.text(value[key], (*path, key)), told


def short(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """Our own form for people: `plan`, `nodes`, `merge`, `on_failure`."""
    said = forms_plan.read(gather, raw, (), ("plan", "task", "nodes", "description"))
    key = next((key for key in ("plan", "task", "description") if key in raw), "plan")
    text, told = _task(gather, raw.get(key), (key,))
    if not (text or raw.get(key)):
        gather.wrong("plan-missing", "The plan does not say what it is for.", (), 'Add `plan: "…"` at its top.')
    said["context"] = (*told, *said.get("context", ()))
    nodes = Nodes(gather)
    for name, one, path in _short_nodes(gather, raw.get("nodes")):
        if type(one) is not dict:
            gather.typed(one, path, "a mapping", f"Write `{path[-1]}: {{agent: …, task: …}}`.")
            continue
        fields = forms_node.read(gather, one, path)
        if not fields.get("task"):
            message = f"{name or 'A node'} does not say what is to be done."
            gather.wrong("plan-missing", message, path, 'Add `task: "…"`.')
        nodes.add(name, fields, path)
    return Plan(text, nodes.found, form="short", **forms_plan.settled(gather, said)), nodes.places


def _short_nodes(gather: Gather, value: Any) -> list[tuple[str, Any, Path]]:
    """By name, or as a list of mappings with an name."""
    if type(value) is list:
        rows = [(one, ("nodes", number)) for number, one in enumerate(value)]
        return [(gather.id(one.get("id"), (*path, "id")) if type(one) is dict else "", one, path) for one, path in rows]
    found = gather.mapping(value, ("nodes",))
    return [(gather.id(key, ("nodes", key)), one, ("nodes", key)) for key, one in found.items()]


def given(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """The input form: a task and agents, each of whom does its part; `sequential` chains them."""
    said = forms_plan.read(gather, raw, (), ("task", "agents"))
    text, told = _task(gather, raw.get("task"), ("task",))
    if not (text or raw.get("task")):
        gather.wrong("plan-missing", "There is no task.", (), 'Add `task: "…"`.')
    said["context"] = (*told, *said.get("context", ()))
    merge = said.get("merge")
    chained = (merge is not None and merge.strategy == "sequential") or said.get("strategy") in (
        "sequential",
        "pipeline",
    )
    nodes = Nodes(gather)
    last = ""
    for number, one in enumerate(gather.rows(raw.get("agents"), ("agents",))):
        path: Path = ("agents", number)
        entry = {"id": one} if type(one) is str else gather.mapping(one, path)
        if not entry:
            continue
        name = gather.id(entry.get("id", entry.get("agent")), (*path, "id"))
        fields = forms_node.read(gather, entry, path, ("name",))
        fields["agent"] = fields.get("agent") or name
        fields["task"] = fields.get("task") or _part(text, name, fields.get("capabilities", ()))
        if chained and last:
            fields["needs"] = (*fields.get("needs", ()), last)
            fields.setdefault("inputs", {"previous": str(refs.Ref(last))})
        nodes.add(name, fields, path)
        last = name or last
    if chained:
        said.setdefault("strategy", "sequential")
    return Plan(text, nodes.found, form="input", **forms_plan.settled(gather, said)), nodes.places


def _part(task: str, id: str, capabilities: tuple[str, ...]) -> str:
    able = f": {', '.join(capabilities)}" if capabilities else ""
    return f"{task.rstrip('.')}. Your part is that of {id}{able}."
