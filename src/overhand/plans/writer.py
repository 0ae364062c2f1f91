"""A plan in the output form, with the states and results its nodes really have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from overhand.plans.model import Failure, Interface, Merge, Node, Plan

_DEFAULT = Node("", "")


def written(plan: Plan, status: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The whole document; `rows` has for each node its status, and its result once there is one."""
    limits = {"max_parallel": plan.max_parallel, "token_budget": plan.budget, "timeout": plan.timeout}
    told = {"complexity": plan.complexity, "checkpoint_after": plan.checkpoint_after, **plan.told}
    told = {name: value for name, value in told.items() if name != "delegated_to"}
    return {
        "delegation": {
            "task": plan.task,
            "delegated_to": [*dict.fromkeys(node.agent for node in plan.nodes.values() if node.agent)],
            "status": status,
            **({"strategy": plan.strategy} if plan.strategy else {}),
        },
        "subtasks": [_subtask(node, rows.get(name, {})) for name, node in plan.nodes.items()],
        "interfaces": [_interface(one) for one in plan.interfaces],
        "merge_plan": _merge(plan.merge),
        "failure_handling": _failure(plan.failure),
        "handoff_context": [{"key": key, "value": value} for key, value in plan.context],
        **({"constraints": dict(plan.constraints)} if plan.constraints else {}),
        **_some(limits, plan.constraints),
        **_some(told),
    }


def _subtask(node: Node, row: Mapping[str, Any]) -> dict[str, Any]:
    contract: dict[str, Any] = {"inputs": dict(node.inputs), "outputs": dict(node.outputs)}
    contract["constraints"] = dict(node.constraints)
    if node.verification:
        only = node.verification[0] if len(node.verification) == 1 else list(node.verification)
        contract["verification"] = only
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


def _interface(one: Interface) -> dict[str, Any]:
    return {
        "from": one.source,
        "to": one.target,
        "format": dict(one.format),
        "required_fields": list(one.required),
    }


def _merge(merge: Merge) -> dict[str, Any]:
    default = Merge()
    found: dict[str, Any] = {"strategy": merge.strategy, "conflict_resolution": merge.note or merge.rule}
    for name in ("rule", "rules", "dedupe", "quorum", "function", "command", "timeout"):
        value = getattr(merge, name)
        if value != getattr(default, name):
            found[name] = list(value) if isinstance(value, tuple) else dict(value) if name == "rules" else value
    return {**found, "final_output_format": dict(merge.shape)}


def _failure(failure: Failure) -> dict[str, Any]:
    fallback = failure.fallback or failure.note or None
    return {"policy": failure.policy, "max_retries": failure.max_retries, "fallback": fallback}


def _some(values: Mapping[str, Any], said: Collection[str] = ()) -> dict[str, Any]:
    """What there is to say, but what is said elsewhere; a limit among the constraints counts as one."""
    return {name: value for name, value in values.items() if value and name not in said}


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
