"""A plan as data: as plan.json keeps it, and in the output form, with the states and results its nodes really have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from overhand.plans.model import Failure, Interface, Merge, Node, Plan

VERSION = 1
_DEFAULT = Node("", "")


# plan.json: every field that is not its default, and back without any loss


def dump(plan: Plan) -> dict[str, Any]:
    """The plan as JSON can hold it."""
    found = _given(plan, Plan)
    found["nodes"] = [_given(node, Node) for node in plan.nodes.values()]
    if plan.interfaces:
        found["interfaces"] = [_given(one, Interface) for one in plan.interfaces]
    for key, value, kind in (("merge", plan.merge, Merge), ("failure", plan.failure, Failure)):
        if some := _given(value, kind):
            found[key] = some
        else:
            found.pop(key, None)
    if plan.context:
        found["context"] = [[key, value] for key, value in plan.context]
    return {"version": VERSION, **found}


def load(record: Mapping[str, Any]) -> Plan:
    """The plan that was dumped; ValueError if this is not one."""
    if record.get("version") != VERSION:
        raise ValueError(f"the plan's record has version {record.get('version')!r}; this Overhand reads {VERSION}")
    try:
        nodes = [Node(**_known(one, Node)) for one in record["nodes"]]
        rest = _known(record, Plan)
        rest["nodes"] = {node.id: node for node in nodes}
        rest["interfaces"] = tuple(Interface(**_known(one, Interface)) for one in record.get("interfaces", ()))
        rest["merge"] = Merge(**_known(record.get("merge", {}), Merge))
        rest["failure"] = Failure(**_known(record.get("failure", {}), Failure))
        rest["context"] = tuple((key, value) for key, value in record.get("context", ()))
        return Plan(**rest)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the plan's record cannot be read: {error}") from None


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """Each field's default; MISSING for one that must be given."""
    return {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default for one in fields(kind)
    }


def _given(value: object, kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, default in _defaults(kind).items():
        one = getattr(value, name)
        # 0 and False are equal in Python, not in a record.
        if default is MISSING or type(one) is not type(default) or one != default:
            found[name] = list(one) if type(one) is tuple else one
    return found


def _known(record: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The fields of this kind; a list becomes the tuple that it was."""
    defaults = _defaults(kind)
    return {
        name: tuple(value) if type(value) is list and type(defaults[name]) is tuple else value
        for name, value in record.items()
        if name in defaults
    }


# the output form


def plan_document(plan: Plan, status: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The whole document; `rows` has for each node its status, and its result once there is one."""
    limits = {"max_parallel": plan.max_parallel, "token_budget": plan.budget, "timeout": plan.timeout}
    more = {"complexity": plan.complexity, "checkpoint_after": plan.checkpoint_after, **plan.told}
    more = {name: value for name, value in more.items() if name != "delegated_to"}
    return {
        "delegation": {
            "task": plan.task,
            "delegated_to": [*dict.fromkeys(node.agent for node in plan.nodes.values() if node.agent)],
            "status": status,
            **({"strategy": plan.strategy} if plan.strategy else {}),
        },
        "subtasks": [_subtask(node, rows.get(name, {})) for name, node in plan.nodes.items()],
        "interfaces": [
            {"from": one.source, "to": one.target, "format": dict(one.format), "required_fields": list(one.required)}
            for one in plan.interfaces
        ],
        "merge_plan": _merge(plan.merge),
        "failure_handling": {
            "policy": plan.failure.policy,
            "max_retries": plan.failure.max_retries,
            "fallback": plan.failure.fallback or plan.failure.note or None,
        },
        "handoff_context": [{"key": key, "value": value} for key, value in plan.context],
        **({"constraints": dict(plan.constraints)} if plan.constraints else {}),
        **_some(limits, plan.constraints),
        **_some(more),
    }


def _subtask(node: Node, row: Mapping[str, Any]) -> dict[str, Any]:
    contract: dict[str, Any] = {name: dict(getattr(node, name)) for name in ("inputs", "outputs", "constraints")}
    if node.verification:
        several = len(node.verification) > 1
        contract["verification"] = list(node.verification) if several else node.verification[0]
    more = {
        name: list(value) if isinstance(value, tuple) else value
        for name in _MORE
        if (value := getattr(node, name)) != getattr(_DEFAULT, name)
    }
    return {
        "id": node.id,
        "agent": node.agent,
        **({"task": node.task} if node.task else {}),
        "contract": contract,
        "dependencies": list(node.needs),
        **_some({"timeout": node.timeout, "token_budget": node.budget}, node.constraints),
        **more,
        "status": row.get("status", "pending"),
        "result": row.get("result"),
    }


_MORE = (
    *("capabilities", "kind", "model", "priority", "writes", "mutates", "requires_approval", "key_files"),
    *("deliverables", "context", "checkpoint_after"),
)


def _merge(merge: Merge) -> dict[str, Any]:
    default = Merge()
    found: dict[str, Any] = {"strategy": merge.strategy, "conflict_resolution": merge.note or merge.rule}
    for name in ("rule", "rules", "dedupe", "quorum", "function", "command", "timeout"):
        value = getattr(merge, name)
        if value != getattr(default, name):
            found[name] = list(value) if isinstance(value, tuple) else dict(value) if name == "rules" else value
    return {**found, "final_output_format": dict(merge.shape)}


def _some(values: Mapping[str, Any], elsewhere: Collection[str] = ()) -> dict[str, Any]:
    """The values that are set; not a limit that stands among the constraints already."""
    return {name: value for name, value in values.items() if value and name not in elsewhere}


def as_yaml(value: Mapping[str, Any]) -> str:
    """YAML that people read: keys in their order, no aliases, no line breaks in the middle of words."""
    import yaml

    class Plain(yaml.SafeDumper):
        """Every value where it stands, also if it occurs twice."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    text: str = yaml.dump(_clean(value), Dumper=Plain, sort_keys=False, allow_unicode=True, width=110)
    return text


def _clean(value: Any) -> Any:
    """Only what YAML knows: mappings, lists, texts without halves of characters."""
    if isinstance(value, Mapping):
        return {str(_clean(key)): _clean(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
