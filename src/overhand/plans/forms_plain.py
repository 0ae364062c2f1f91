"""The quick way to read what is written as a program writes it; whatever is not so plain is left to the other forms.

Who reads a hundred thousand nodes has no time for places and messages that nobody will need. The result is the same.
"""

from __future__ import annotations

from typing import Any

from overhand.plans import refs
from overhand.plans.forms import ID, Gather
from overhand.plans.model import RESERVED, Interface, Node, adopted

IGNORED = {
    key: f"`{key}` in the file does not count: the plan's own record says what its nodes have done."
    for key in ("status", "result")
}
_NODE = frozenset(("id", "agent", "task", "contract", "dependencies", "status", "result"))
_CONTRACT = frozenset(("inputs", "outputs", "constraints", "verification"))
_INTERFACE = frozenset(("from", "to", "format", "required_fields"))


def node(gather: Gather, raw: Any, task: str, at: int) -> Node | None:
    """A subtask of the output form; None where anything needs a closer look."""
    if type(raw) is not dict or not _NODE.issuperset(raw):
        return None
    name, agent, own, contract = raw.get("id"), raw.get("agent"), raw.get("task", ""), raw.get("contract")
    if type(name) is not str or type(agent) is not str or type(own) is not str or type(contract) is not dict:
        return None
    inputs, outputs, constraints = contract.get("inputs"), contract.get("outputs"), contract.get("constraints", {})
    if type(inputs) is not dict or type(outputs) is not dict or type(constraints) is not dict:
        return None
    needs, checks = words(raw.get("dependencies", [])), _verification(contract.get("verification"))
    timeout = gather.known_seconds(constraints["timeout"]) if "timeout" in constraints else 0.0
    if needs is None or checks is None or timeout is None or not outputs or not _CONTRACT.issuperset(contract):
        return None
    if name in RESERVED or not ID.fullmatch(name) or raw.get("result") is not None or "token_budget" in constraints:
        return None
    for spec in outputs.values():
        if type(spec) is not str:
            return None
    if raw.get("status") is not None:
        gather.notes[IGNORED["status"]] = None
    own = own.strip() or (f"{spoken(name)}: {task}" if task else spoken(name))
    named = refs.nodes(inputs)
    if "${" in own:
        named += refs.nodes(own)
    fields = {
        "id": name,
        "agent": agent,
        "task": own,
        "needs": waits(name, needs, named) if named or len(needs) > 1 else needs,
        "inputs": inputs,
        "outputs": outputs,
        "constraints": constraints,
        "verification": checks,
        "timeout": timeout or None,
        "at": at,
    }
    return adopted(Node, fields)


def _verification(value: Any) -> tuple[Any, ...] | None:
    """A sentence, or a single check by an expression or a command."""
    if type(value) is str:
        return (value,) if value.strip() else None
    if type(value) is not dict or len(value) != 1:
        return None
    text = value.get("expression") or value.get("command")
    return (value,) if type(text) is str and text.strip() == text else None


def interface(raw: Any) -> Interface | None:
    """An interface; None where anything needs a closer look."""
    if type(raw) is not dict or not _INTERFACE.issuperset(raw):
        return None
    source, target, shape = raw.get("from"), raw.get("to"), raw.get("format")
    required = words(raw.get("required_fields", []))
    if type(source) is not str or type(target) is not str or type(shape) is not dict or required is None:
        return None
    if not (source and target) or source.strip() != source or target.strip() != target:
        return None
    return adopted(Interface, {"source": source, "target": target, "format": shape, "required": required, "at": 0})


def words(value: Any) -> tuple[str, ...] | None:
    """A list of words with nothing around them."""
    if type(value) is not list:
        return None
    for one in value:
        if type(one) is not str or not one or one.strip() != one:
            return None
    return tuple(value)


def spoken(id: str) -> str:
    """An id in words."""
    return id.replace("-", " ").replace("_", " ").strip().capitalize()


def waits(id: str, needs: tuple[str, ...], named: list[str]) -> tuple[str, ...]:
    """What a node waits for: those it declares, and those its `${…}` name, each once."""
    if len(named) > 1 or (named and named[0] != id and named[0] not in needs):
        # A node that names itself is told so by the check; it must not wait for itself because of it.
        needs = (*needs, *[name for name in named if name != id])
    return tuple(dict.fromkeys(needs)) if len(needs) > 1 else needs
