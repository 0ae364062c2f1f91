"""The three delegation templates: one agent, several at once, several in a row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from overhand.documents.text import one_line, shorten
from overhand.plans import forms_node, forms_plan, refs
from overhand.plans.forms import ID, Gather, meant
from overhand.plans.forms_graph import Nodes
from overhand.plans.model import MERGES, RESERVED, Merge, Plan
from overhand.plans.source import Path

_CONTEXT = ("token_budget", "budget", "priority", "timeout", "kind", "model")
_INPUT = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_STEP = re.compile(r"step_?\d+_.*|.*_input")


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
    fields = forms_node.read(gather, head, path, ("to_agent", "from_agent", "workflow", "coordinator"))
    about = task if type(task) is dict else {"task": task} if task is not None else {}
    inner: Path = (*path, "task") if type(task) is dict else path
    fields.update(forms_node.read(gather, about, inner))
    if type(context) is dict:
        told = {key: one for key, one in context.items() if key in _CONTEXT}
        fields.update(forms_node.read(gather, told, (*path, "context")))
        context = {key: one for key, one in context.items() if key not in _CONTEXT} or None
    if context is not None:
        fields.update(forms_node.read(gather, {"context": context}, path))
    if not fields.get("task"):
        gather.wrong("plan-missing", "The delegation has no task.", path, "Add `task:` and `description: …` below it.")
    nodes = Nodes(gather)
    fields["agent"] = agent
    nodes.add(_id(agent, nodes), fields, path)
    said = forms_plan.settled(gather, forms_plan.read(gather, labels, path, ()))
    return Plan(fields.get("task", ""), nodes.found, form="standard", **said), nodes.places


def parallel(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`parallel_delegation: {coordinator, agents, aggregation_strategy}`: all at once."""
    path: Path = ("parallel_delegation",)
    head, said = _head(gather, raw, path, "agents")
    nodes = Nodes(gather)
    for place, one in _rows(gather, head.get("agents"), (*path, "agents")):
        fields = forms_node.read(gather, one, place)
        nodes.add(_id(fields.get("agent", ""), nodes), _complete(gather, fields, place), place)
    text = _about(gather, head, path, nodes)
    return Plan(text, nodes.found, form="parallel", **forms_plan.settled(gather, said)), nodes.places


def sequential(gather: Gather, raw: Mapping[str, Any]) -> tuple[Plan, dict[str, Path]]:
    """`sequential_delegation: {workflow, steps}`: one after the other, each with what the one before gives on."""
    path: Path = ("sequential_delegation",)
    head, said = _head(gather, raw, path, "steps")
    nodes = Nodes(gather)
    rows = _ordered(gather, _rows(gather, head.get("steps"), (*path, "steps")))
    names = [gather.name(one.get("output_to"), (*place, "output_to")) for place, one in rows]
    givers: dict[str, str] = {}
    last = ""
    for (place, one), gives in zip(rows, names, strict=True):
        fields = forms_node.read(gather, one, place, ("step", "output_to"))
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
    if "merge" not in said or not said["merge"].note:
        said["merge"] = replace(said.get("merge", Merge()), strategy="sequential")
    said.setdefault("strategy", "sequential")
    return Plan(text, nodes.found, form="sequential", **forms_plan.settled(gather, said)), nodes.places


def _head(gather: Gather, raw: Mapping[str, Any], path: Path, rows: str) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """What stands below the template's key, and what of it any plan may say."""
    head = gather.mapping(raw[str(path[0])], path)
    own = (rows, "aggregation_strategy", "task", "description")
    # What was meant to stand below the template's key is understood beside it as well.
    said = {**forms_plan.read(gather, raw, (), (str(path[0]),)), **forms_plan.read(gather, head, path, own)}
    note = gather.text(head.get("aggregation_strategy"), (*path, "aggregation_strategy"))
    if note:
        given = said.get("merge", Merge())
        said["merge"] = replace(given, strategy=note) if note in MERGES else replace(given, note=note)
    return head, said


def _rows(gather: Gather, value: Any, path: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    found: list[tuple[Path, Mapping[str, Any]]] = []
    for number, one in enumerate(gather.rows(value, path)):
        if type(one) is dict:
            found.append(((*path, number), one))
        else:
            gather.typed(one, (*path, number), "a mapping", "Write `- agent: a-name` and `task: …` below it.")
    return found


def _ordered(gather: Gather, rows: list[tuple[Path, Mapping[str, Any]]]) -> list[tuple[Path, Mapping[str, Any]]]:
    """By the steps' numbers; those without one come where they stand."""
    seen: set[int] = set()
    ranked: list[tuple[int, int]] = []
    last = 0
    for number, (path, one) in enumerate(rows):
        step = one.get("step")
        if step is not None and type(step) is not int:
            gather.typed(step, (*path, "step"), "a whole number", f"Write `step: {number + 1}`.")
        last = step if type(step) is int else last
        if type(step) is int and step in seen:
            gather.wrong("plan-id-twice", f"Step {step} occurs twice.", (*path, "step"), "Number the steps 1, 2, 3 …")
        if type(step) is int:
            seen.add(step)
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


def _id(agent: str, nodes: Nodes) -> str:
    """A node is called like its agent; who comes twice is counted."""
    base = re.sub(r"[^A-Za-z0-9_-]", "-", agent)[:58].lstrip("-") or "node"
    if not ID.fullmatch(base):
        base = "node"
    name, number = base, nodes.counts.get(base, 1)
    while name in nodes.found or name in RESERVED:
        number += 1
        name = f"{base}-{number}"
    nodes.counts[base] = number
    return name


def _about(gather: Gather, head: Mapping[str, Any], path: Path, nodes: Nodes) -> str:
    """What the whole is for: its task, its workflow's name, or what its nodes do."""
    for key in ("task", "description", "workflow"):
        if head.get(key) and (text := gather.name(head[key], (*path, key))):
            return text
    return shorten(one_line("; ".join(node.task for node in list(nodes.found.values())[:4])), 120)
