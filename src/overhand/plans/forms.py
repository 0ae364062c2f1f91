"""The forms of a plan: output, short and input, which name their nodes, and the three delegation templates.

A template is one agent, several at once, or several in a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from overhand.documents import one_line, shorten
from overhand.plans import refs
from overhand.plans.fields import make_node, read_node, read_plan, settled, words_of_id
from overhand.plans.merge import MERGES
from overhand.plans.model import RESERVED, Merge, Node, Plan
from overhand.plans.source import Path
from overhand.plans.values import ID, Gather, meant

_NODE = "Write `- id: a-name`, with `agent:` and `contract:` below it."
_CONTEXT = ("token_budget", "budget", "priority", "timeout", "kind", "model")
_INPUT = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_STEP = re.compile(r"step_?\d+_.*|.*_input")


class _Nodes:
    """The nodes read so far, and where each stands."""

    def __init__(self, gather: Gather) -> None:
        self.gather = gather
        self.found: dict[str, Node] = {}
        self.places: dict[str, Path] = {}
        self.counts: dict[str, int] = {}  # how many are called after one agent, where the form gives the names

    def add(self, id: str, fields: dict[str, Any], path: Path) -> None:
        """One more, unless its id is taken or none."""
        if id in self.found:
            first = self.gather.source.line(self.places[id])
            message = f"The id `{id}` occurs twice; the first one is on line {first}."
            self.gather.wrong("plan-id-twice", message, path, "Give one of them another id.")
        elif id:
            self.found[id] = make_node(id, fields, self.gather.source.line(path) or 0)
            self.places[id] = path

    def plan(self, form: str, task: str, options: dict[str, Any]) -> tuple[Plan, dict[str, Path]]:
        """The plan of these nodes, and where each stands."""
        return Plan(task, self.found, form=form, **settled(self.gather, options)), self.places


def output(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`delegation`, `subtasks`, `interfaces`, `merge_plan`, `failure_handling` and so on."""
    head = gather.mapping(raw.get("delegation"), ("delegation",))
    inside = "subtasks" in head and "subtasks" not in raw
    rows = head["subtasks"] if inside else raw.get("subtasks")
    own = ("delegation", "subtasks", "task", "description")
    options = read_plan(gather, raw, (), own)
    options = {**read_plan(gather, head, ("delegation",), own), **options}
    place: Path = ("delegation", "task") if "task" in head else ("task",)
    text, more = _task(gather, head.get("task", raw.get("task")), place)
    if not text:
        fix = 'Add `task: "…"` below `delegation:`.'
        gather.wrong("plan-missing", "The delegation has no task.", ("delegation",), fix)
    options["context"] = (*more, *options.get("context", ()))
    nodes = _Nodes(gather)
    path: Path = ("delegation", "subtasks") if inside else ("subtasks",)
    for number, one in enumerate(gather.rows(rows, path)):
        _subtask(nodes, one, (*path, number), text)
    if "failure" not in options:
        fix = "Add `failure_handling: {policy: abort, max_retries: 1, fallback: null}`."
        gather.wrong("plan-failure", "The plan does not say what happens when a node fails.", (), fix)
    if "merge" not in options and len(nodes.found) > 1:
        fix = "Add `merge_plan: {strategy: aggregate}`."
        gather.warn("plan-missing", "The plan has no `merge_plan`; results are aggregated.", (), fix)
    return nodes.plan("output", text, options)


def _subtask(nodes: _Nodes, one: Any, path: Path, task: str) -> None:
    gather = nodes.gather
    if type(one) is not dict:
        gather.typed(one, path, "a mapping", _NODE)
        return
    name = gather.id(one.get("id"), (*path, "id"))
    fields = read_node(gather, one, path)
    if not (fields.get("outputs") and fields.get("verification")):
        _promises(gather, one, path, name or "The node", fields)
    if not fields.get("task"):
        fields["task"] = f"{words_of_id(name)}: {task}" if task else words_of_id(name)
    nodes.add(name, fields, path)


def _promises(gather: Gather, one: Mapping[str, Any], path: Path, name: str, fields: Mapping[str, Any]) -> None:
    """A node without outputs, or with outputs that nothing checks."""
    if "contract" not in one and not fields.get("outputs"):
        fix = "Add `contract: {inputs: {…}, outputs: {…}, constraints: {…}, verification: …}`."
        gather.wrong("plan-contract", f"{name} has no contract.", path, fix)
    elif not fields.get("outputs"):
        fix = "Add `outputs: {name: type}` below `contract:`."
        gather.wrong("plan-contract", f"The contract of {name} names no outputs.", path, fix)
    if not fields.get("verification") and ("contract" in one or fields.get("outputs")):
        fix = 'Add `verification: {expression: "…"}`, {command: "…"}, {exists: path}, or a sentence.'
        gather.wrong("plan-verification", f"{name} has no verification.", path, fix)


def _task(gather: Gather, value: Any, path: Path) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """A text, or an object whose description it is; what else it says is context."""
    if type(value) is not dict:
        return gather.text(value, path), ()
    key = next((key for key in ("description", "task", "goal", "title") if key in value), "")
    if not key:
        gather.wrong("plan-missing", "The task has no description.", path, "Add `description: …` to it.")
        return "", ()
    more = tuple((name, one) for name, one in value.items() if name != key)
    return gather.text(value[key], (*path, key)), more


def short(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """Our own form for people: `plan`, `nodes`, `merge`, `on_failure`."""
    options = read_plan(gather, raw, (), ("plan", "task", "nodes", "description"))
    key = next((key for key in ("plan", "task", "description") if key in raw), "plan")
    text, more = _task(gather, raw.get(key), (key,))
    if not (text or raw.get(key)):
        gather.wrong("plan-missing", "The plan does not say what it is for.", (), 'Add `plan: "…"` at its top.')
    options["context"] = (*more, *options.get("context", ()))
    nodes = _Nodes(gather)
    for name, one, path in _short_nodes(gather, raw.get("nodes")):
        if type(one) is not dict:
            gather.typed(one, path, "a mapping", f"Write `{path[-1]}: {{agent: …, task: …}}`.")
            continue
        fields = read_node(gather, one, path)
        if not fields.get("task"):
            message = f"{name or 'A node'} does not say what is to be done."
            gather.wrong("plan-missing", message, path, 'Add `task: "…"`.')
        nodes.add(name, fields, path)
    return nodes.plan("short", text, options)


def _short_nodes(gather: Gather, value: Any) -> list[tuple[str, Any, Path]]:
    """By id, or as a list of mappings with an id."""
    if type(value) is list:
        rows = [(one, ("nodes", number)) for number, one in enumerate(value)]
        return [(gather.id(one.get("id"), (*path, "id")) if type(one) is dict else "", one, path) for one, path in rows]
    found = gather.mapping(value, ("nodes",))
    return [(gather.id(key, ("nodes", key)), one, ("nodes", key)) for key, one in found.items()]


def given(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """The input form: a task and agents, each of which does its part; `sequential` chains them."""
    options = read_plan(gather, raw, (), ("task", "agents"))
    text, more = _task(gather, raw.get("task"), ("task",))
    if not (text or raw.get("task")):
        gather.wrong("plan-missing", "There is no task.", (), 'Add `task: "…"`.')
    options["context"] = (*more, *options.get("context", ()))
    merge = options.get("merge")
    chained = options.get("strategy") in ("sequential", "pipeline") or (merge and merge.strategy == "sequential")
    nodes = _Nodes(gather)
    last = ""
    for number, one in enumerate(gather.rows(raw.get("agents"), ("agents",))):
        path: Path = ("agents", number)
        entry = {"id": one} if type(one) is str else gather.mapping(one, path)
        if not entry:
            continue
        name = gather.id(entry.get("id", entry.get("agent")), (*path, "id"))
        fields = read_node(gather, entry, path, ("name",))
        fields["agent"] = fields.get("agent") or name
        able = f": {', '.join(fields['capabilities'])}" if fields.get("capabilities") else ""
        fields["task"] = fields.get("task") or f"{text.rstrip('.')}. Your part is that of {name}{able}."
        if chained and last:
            fields["needs"] = (*fields.get("needs", ()), last)
            fields.setdefault("inputs", {"previous": str(refs.Ref(last))})
        nodes.add(name, fields, path)
        last = name or last
    if chained:
        options.setdefault("strategy", "sequential")
    return nodes.plan("input", text, options)


# the templates


def standard(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`delegation: {from_agent, to_agent, task, context}`: a plan of one node."""
    path: Path = ("delegation",)
    for key in raw:
        if key != "delegation":
            gather.unknown(key, ("delegation",), (key,), "The file")
    head = dict(gather.mapping(raw["delegation"], path))
    agent = gather.name(head.pop("to_agent", None), (*path, "to_agent"))
    task, context = head.pop("task", None), head.pop("context", None)
    labels: dict[str, Any] = {key: head.pop(key) for key in ("from_agent", "workflow", "coordinator") if key in head}
    fields = read_node(gather, head, path, ("to_agent", "from_agent", "workflow", "coordinator"))
    about = task if type(task) is dict else {"task": task} if task is not None else {}
    inner: Path = (*path, "task") if type(task) is dict else path
    fields.update(read_node(gather, about, inner))
    if type(context) is dict:
        more = {key: one for key, one in context.items() if key in _CONTEXT}
        fields.update(read_node(gather, more, (*path, "context")))
        context = {key: one for key, one in context.items() if key not in _CONTEXT} or None
    if context is not None:
        fields.update(read_node(gather, {"context": context}, path))
    if not fields.get("task"):
        gather.wrong("plan-missing", "The delegation has no task.", path, "Add `task:` and `description: …` below it.")
    nodes = _Nodes(gather)
    fields["agent"] = agent
    nodes.add(_id(agent, nodes), fields, path)
    return nodes.plan("standard", fields.get("task", ""), read_plan(gather, labels, path, ()))


def parallel(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`parallel_delegation: {coordinator, agents, aggregation_strategy}`: all at once."""
    path: Path = ("parallel_delegation",)
    head, options = _head(gather, raw, path, "agents")
    nodes = _Nodes(gather)
    for place, one in _rows(gather, head.get("agents"), (*path, "agents")):
        fields = read_node(gather, one, place)
        nodes.add(_id(fields.get("agent", ""), nodes), _complete(gather, fields, place), place)
    return nodes.plan("parallel", _about(gather, head, path, nodes), options)


def sequential(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`sequential_delegation: {workflow, steps}`: one after the other, each with what the one before gives on."""
    path: Path = ("sequential_delegation",)
    head, options = _head(gather, raw, path, "steps")
    nodes = _Nodes(gather)
    rows = _ordered(gather, _rows(gather, head.get("steps"), (*path, "steps")))
    names = [gather.name(one.get("output_to"), (*place, "output_to")) for place, one in rows]
    givers: dict[str, str] = {}
    last = ""
    for (place, one), gives in zip(rows, names, strict=True):
        fields = read_node(gather, one, place, ("step", "output_to"))
        name = _id(fields.get("agent", ""), nodes)
        _complete(gather, fields, place)
        if last:
            fields["needs"] = (*fields.get("needs", ()), last)
        _filled(gather, fields, givers, names, place)
        if gives in givers:
            message = f"Two steps give on as `{gives}`."
            gather.wrong("plan-id-twice", message, (*place, "output_to"), "Give one of them another name.")
        nodes.add(name, fields, place)
        if gives:
            givers[gives] = name
        last = name
    text = _about(gather, head, path, nodes)
    if "merge" not in options or not options["merge"].note:
        options["merge"] = replace(options.get("merge", Merge()), strategy="sequential")
    options.setdefault("strategy", "sequential")
    return nodes.plan("sequential", text, options)


def _head(gather: Gather, raw: Mapping[str, Any], path: Path, rows: str) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """What stands below the template's key, and what of it any plan may say."""
    head = gather.mapping(raw[str(path[0])], path)
    own = (rows, "aggregation_strategy", "task", "description")
    # What was meant to stand below the template's key is understood beside it as well.
    options = {**read_plan(gather, raw, (), (str(path[0]),)), **read_plan(gather, head, path, own)}
    note = gather.text(head.get("aggregation_strategy"), (*path, "aggregation_strategy"))
    if note:
        given = options.get("merge", Merge())
        options["merge"] = replace(given, strategy=note) if note in MERGES else replace(given, note=note)
    return head, options


def _rows(gather: Gather, value: Any, path: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    rows: list[tuple[Path, Any]] = [((*path, number), one) for number, one in enumerate(gather.rows(value, path))]
    for place, one in rows:
        if type(one) is not dict:
            gather.typed(one, place, "a mapping", "Write `- agent: a-name` and `task: …` below it.")
    return [row for row in rows if type(row[1]) is dict]


def _ordered(gather: Gather, rows: list[tuple[Path, Mapping[str, Any]]]) -> list[tuple[Path, Mapping[str, Any]]]:
    """By the steps' numbers; those without one come where they stand."""
    seen: set[int] = set()
    ranked: list[tuple[int, int]] = []
    last = 0
    for number, (path, one) in enumerate(rows):
        step = one.get("step")
        if type(step) is int:
            last = step
            if step in seen:
                message = f"Step {step} occurs twice."
                gather.wrong("plan-id-twice", message, (*path, "step"), "Number the steps 1, 2, 3 …")
            seen.add(step)
        elif step is not None:
            gather.typed(step, (*path, "step"), "a whole number", f"Write `step: {number + 1}`.")
        ranked.append((last, number))
    return [rows[number] for _, number in sorted(ranked)]


def _filled(gather: Gather, fields: dict[str, Any], givers: Mapping[str, str], names: list[str], path: Path) -> None:
    """`{step_2_input}` becomes the `${…}` of the step that gives it on, and an input of that name."""
    inputs = dict(fields.get("inputs") or {})

    def filled(match: re.Match[str]) -> str:
        name = match[1]
        if name in givers:
            inputs.setdefault(name, str(refs.Ref(givers[name])))
            return str(refs.Ref(givers[name]))
        if name in names:
            message = f"{{{name}}} is given by this step or a later one, so it is not there yet."
            gather.wrong("plan-field-unknown", message, (*path, "task"), "Use what an earlier step gives on.")
        elif _STEP.fullmatch(name):
            message = f"No step gives on {{{name}}}.{meant(name, filter(None, names))}"
            fix = f"Write `output_to: {name}` in an earlier step."
            gather.wrong("plan-field-unknown", message, (*path, "task"), fix)
        return match[0]

    fields["task"] = _INPUT.sub(filled, fields.get("task", ""))
    if inputs:
        fields["inputs"] = inputs


def _complete(gather: Gather, fields: dict[str, Any], path: Path) -> dict[str, Any]:
    if not fields.get("task"):
        gather.wrong("plan-missing", "There is no task here.", path, 'Add `task: "…"`.')
    return fields


def _id(agent: str, nodes: _Nodes) -> str:
    """A node is called like its agent; a second one gets a number."""
    base = re.sub(r"[^A-Za-z0-9_-]", "-", agent)[:58].lstrip("-") or "node"
    if not ID.fullmatch(base):
        base = "node"
    name, number = base, nodes.counts.get(base, 1)
    while name in nodes.found or name in RESERVED:
        number += 1
        name = f"{base}-{number}"
    nodes.counts[base] = number
    return name


def _about(gather: Gather, head: Mapping[str, Any], path: Path, nodes: _Nodes) -> str:
    """What the whole is for: its task, its workflow's name, or what its nodes do."""
    for key in ("task", "description", "workflow"):
        if head.get(key) and (text := gather.name(head[key], (*path, key))):
            return text
    return shorten(one_line("; ".join(node.task for node in list(nodes.found.values())[:4])), 120)
