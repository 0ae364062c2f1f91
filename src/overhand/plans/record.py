"""A plan as plan.json keeps it: every field that is not its default, and back without any loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from overhand.plans.model import Failure, Interface, Merge, Node, Plan

VERSION = 1


def dump(plan: Plan) -> dict[str, Any]:
    """The plan as JSON can hold it."""
    found = _some(plan, _PLAN)
    found["nodes"] = [_some(node, _NODE) for node in plan.nodes.values()]
    if plan.interfaces:
        found["interfaces"] = [_some(one, _INTERFACE) for one in plan.interfaces]
    for key, value, kind in (("merge", plan.merge, _MERGE), ("failure", plan.failure, _FAILURE)):
        if some := _some(value, kind):
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
        nodes = [Node(**_known(one, _NODE)) for one in record["nodes"]]
        rest = _known(record, _PLAN)
        rest["nodes"] = {node.id: node for node in nodes}
        rest["interfaces"] = tuple(Interface(**_known(one, _INTERFACE)) for one in record.get("interfaces", ()))
        rest["merge"] = Merge(**_known(record.get("merge", {}), _MERGE))
        rest["failure"] = Failure(**_known(record.get("failure", {}), _FAILURE))
        rest["context"] = tuple((key, value) for key, value in record.get("context", ()))
        return Plan(**rest)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the plan's record cannot be read: {error}") from None


_Kind = dict[str, Any]


def _defaults(kind: type) -> _Kind:
    """Per field what it is when nothing is said; MISSING where something must be."""
    return {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default for one in fields(kind)
    }


_PLAN, _NODE, _INTERFACE = _defaults(Plan), _defaults(Node), _defaults(Interface)
_MERGE, _FAILURE = _defaults(Merge), _defaults(Failure)


def _some(value: object, kind: _Kind) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, default in kind.items():
        one = getattr(value, name)
        # 0 and False are equal in Python, not in a record.
        if default is MISSING or type(one) is not type(default) or one != default:
            found[name] = list(one) if type(one) is tuple else one
    return found


def _known(record: Mapping[str, Any], kind: _Kind) -> dict[str, Any]:
    """The fields of this kind; a list becomes the tuple that it was."""
    return {
        name: tuple(value) if type(value) is list and type(kind[name]) is tuple else value
        for name, value in record.items()
        if name in kind
    }
