"""A plan file in any of its forms becomes one Plan; everything that is wrong is reported at once, with its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from overhand.documents import Problem, by_line, has_errors, wrong
from overhand.plans import forms
from overhand.plans.fields import NODE_FIELDS, PLAN_FIELDS
from overhand.plans.model import Node, Plan
from overhand.plans.source import Path, Source, load
from overhand.plans.values import Gather, meant


class _Form(NamedTuple):
    keys: str
    read: Callable[[Gather, Mapping[str, Any]], tuple[Plan, dict[str, Path]]]
    fix: str  # where the plan has no nodes


_FORMS = {
    "output": _Form("delegation and subtasks", forms.output, "Add entries below `subtasks:`."),
    "standard": _Form("delegation with to_agent", forms.standard, "Add `to_agent:` and `task:`."),
    "parallel": _Form("parallel_delegation", forms.parallel, "Add entries below `agents:`."),
    "sequential": _Form("sequential_delegation", forms.sequential, "Add entries below `steps:`."),
    "input": _Form("task and agents", forms.given, "Add entries below `agents:`, such as `- id: worker`."),
    "short": _Form("plan and nodes", forms.short, "Add entries below `nodes:`."),
}
_FORM_OF_KEY = {
    "parallel_delegation": "parallel",
    "sequential_delegation": "sequential",
    "subtasks": "output",
    "nodes": "short",
    "delegation": "standard",
    "agents": "input",
}
_FEW = 8
_HEADS = ("delegation", "parallel_delegation", "sequential_delegation")


class Lines:
    """Where the parts of a plan stand in its file, looked up on demand."""

    def __init__(self, source: Source | None = None, places: Mapping[str, Path] | None = None) -> None:
        self._source = source
        self._places = places or {}

    def plan(self, name: str = "", *more: str | int) -> int | None:
        """The line of a field of the plan, by its name in the model."""
        return self._find((), name, more, PLAN_FIELDS)

    def node(self, id: str, name: str = "", *more: str | int) -> int | None:
        """The line of a node, or of one of its fields, by its name in the model."""
        path = self._places.get(id)
        return None if path is None else self._find(path, name, more, NODE_FIELDS)

    def _find(self, path: Path, name: str, more: Path, fields: Mapping[str, tuple[str, Any]]) -> int | None:
        if self._source is None:
            return None
        if not name:
            return self._source.line(path)
        for inside in (path, (*path, "contract"), *(((key,) for key in _HEADS) if not path else ())):
            raw = _follow(self._source.value, inside)
            for key in raw if isinstance(raw, dict) else ():
                if key == name or fields.get(key, ("",))[0] == name or (key, name) == ("to_agent", "agent"):
                    return self._source.line((*inside, key, *more))
        return self._source.line(path)


def _follow(value: Any, path: Path) -> Any:
    for step in path:
        inside = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if not inside:
            return None
        value = value[step]
    return value


@dataclass(frozen=True, slots=True)
class Reading:
    """A plan that was read: there is one once its form is known; with an error among the problems it may not run."""

    plan: Plan | None
    problems: list[Problem]
    lines: Lines = field(default_factory=Lines)

    @property
    def ok(self) -> bool:
        """Whether the plan was read without an error; `check` may still find some."""
        return self.plan is not None and not has_errors(self.problems)


def read_plan_text(text: str | bytes, name: str = "") -> Reading:
    """The plan in a text (YAML or JSON, whatever form), and everything that is wrong with how it is written."""
    source = load(text, name)
    if source.problems and source.value is None:
        return Reading(None, by_line(source.problems))
    form, problem = form_of(source.value)
    if problem:
        return Reading(None, by_line([*source.problems, replace(problem, line=source.line(()) or 1)]))
    gather = Gather(source)
    plan, places = _FORMS[form].read(gather, source.value)
    if not plan.nodes and not has_errors(gather.problems()):
        gather.wrong("plan-empty", "The plan has no nodes.", (), _FORMS[form].fix)
    if plan.interfaces:
        plan = replace(plan, nodes=_wired(plan))
    if gather.notes:
        plan = replace(plan, notes=tuple(gather.notes))
    return Reading(plan, by_line([*source.problems, *gather.problems()]), Lines(source, places))


def _wired(plan: Plan) -> Mapping[str, Node]:
    """The nodes with what the interfaces imply: a node waits for those it takes from."""
    nodes = plan.nodes
    more: dict[str, dict[str, None]] = {}
    for one in plan.interfaces:
        target = nodes.get(one.target)
        if target is None or one.source == one.target:
            continue
        if one.source in nodes:
            if one.source not in target.needs[:_FEW]:
                more.setdefault(one.target, dict.fromkeys(target.needs))[one.source] = None
        elif one.source == "all_subtasks":
            others = dict.fromkeys(name for name in nodes if name != one.target)
            more.setdefault(one.target, dict.fromkeys(target.needs)).update(others)
    wired = {name: replace(nodes[name], needs=tuple(needs)) for name, needs in more.items()}
    return {**nodes, **wired} if wired else nodes


def form_of(value: Any) -> tuple[str, Problem | None]:
    """Which form this is, or why it is none."""
    if value is None or value in ({}, []):
        return "", wrong("plan-empty", "The file is empty.", fix=_FIX)
    if type(value) is not dict:
        return "", wrong("plan-form", "A plan is a mapping of keys to values; this is none.", fix=_FIX)
    head = value.get("delegation")
    for key, form in _FORM_OF_KEY.items():
        if key in value or (key == "subtasks" and type(head) is dict and key in head):
            return form, None
    known = (*_FORM_OF_KEY, "plan", "task")
    hint = next((f" `{key}`:{found}" for key in value if (found := meant(key, known)) and key not in known), "")
    forms = "; ".join(f"{form.keys} ({name})" for name, form in _FORMS.items())
    return "", wrong("plan-form", f"This is none of the forms of a plan.{hint}", fix=f"Use the keys of one: {forms}.")


_FIX = "Write `plan: what it is for` and `nodes:` with one entry for each delegation, or see `overhand plan new`."
