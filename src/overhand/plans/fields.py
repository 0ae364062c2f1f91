"""The keys of a plan, the same in every form: those of a node, flat or below `contract`, and those beside the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from overhand.plans import refs
from overhand.plans.combine import RULES
from overhand.plans.merge import MERGES
from overhand.plans.model import POLICIES, STRATEGIES, Failure, Interface, Merge, Node
from overhand.plans.source import Path
from overhand.plans.values import AGENT, Gather

CHECKS = ("command", "exists", "schema", "expression")
IGNORED = {
    key: f"`{key}` in the file does not count: the plan's own record says what its nodes have done."
    for key in ("status", "result")
}
Reader = Callable[[Gather, Any, Path], Any]

# a node


def _verification(gather: Gather, value: Any, path: Path) -> tuple[Any, ...]:
    """What is checked when a node has ended: prose, or a mapping with one of command, exists, schema, expression."""
    if value is None:
        return ()
    rows = [((*path, at), one) for at, one in enumerate(value)] if type(value) is list else [(path, value)]
    found: list[Any] = []
    for place, one in rows:
        if type(one) is str:
            found += [one] if one.strip() else []
        elif type(one) is dict:
            found += _checks(gather, one, place)
        else:
            fix = 'Write prose, or {command: "…"}, {exists: path}, {schema: {…}}, {expression: "…"}.'
            gather.typed(one, place, "a text or a mapping", fix)
    return tuple(found)


def _checks(gather: Gather, one: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """A mapping may hold several checks; each becomes one of its own."""
    found: list[dict[str, Any]] = []
    for key, value in one.items():
        place = (*path, key)
        if key not in CHECKS:
            gather.unknown(key, CHECKS, place, "A check")
        elif key == "schema":
            if type(value) is bool or gather.mapping(value, place):
                found.append({key: value})
        elif type(value) is list and key != "expression":
            if words := gather.words(value, place):
                found += [{key: list(words)}] if key == "command" else [{key: word} for word in words]
        elif text := gather.text(value, place):
            found.append({key: text})
    if not one:
        gather.wrong("plan-missing", "A check is empty.", path, f"Give it one of {', '.join(CHECKS)}.")
    return found


def _verify(gather: Gather, value: Any, path: Path) -> tuple[Any, ...]:
    """The short word: a text is an expression here."""
    if type(value) is str:
        return ({"expression": value.strip()},) if value.strip() else ()
    if type(value) is list:
        return tuple(check for at, one in enumerate(value) for check in _verify(gather, one, (*path, at)))
    return _verification(gather, value, path)


def _agent(gather: Gather, value: Any, path: Path) -> str:
    return value if type(value) is str else gather.name(value, path)


def _outputs(gather: Gather, value: Any, path: Path) -> Mapping[str, Any]:
    """Per field its type words or its JSON Schema; a bare list of names promises them with any type."""
    if type(value) is list and all(type(one) is str for one in value):
        return dict.fromkeys(value, "any")
    found = gather.mapping(value, path)
    for key, one in found.items():
        if type(one) is not str and type(one) is not dict:
            fix = f"Write `{key}: string`, or a JSON Schema."
            gather.typed(one, (*path, key), "type words or a JSON Schema", fix)
    return found


def _context(gather: Gather, value: Any, path: Path) -> str:
    if type(value) is dict:
        return "\n".join(f"{key}: {refs.as_text(one)}" for key, one in value.items())
    return gather.text(value, path)


NODE_FIELDS: dict[str, tuple[str, Reader]] = {
    "agent": ("agent", _agent),
    "task": ("task", Gather.text),
    "description": ("task", Gather.text),
    "dependencies": ("needs", Gather.words),
    "depends_on": ("needs", Gather.words),
    "after": ("needs", Gather.words),
    "inputs": ("inputs", Gather.mapping),
    "outputs": ("outputs", _outputs),
    "constraints": ("constraints", Gather.mapping),
    "verification": ("verification", _verification),
    "verify": ("verification", _verify),
    "capabilities": ("capabilities", Gather.words),
    "kind": ("kind", Gather.text),
    "model": ("model", Gather.text),
    "priority": ("priority", Gather.priority),
    "timeout": ("timeout", Gather.seconds),
    "token_budget": ("budget", Gather.tokens),
    "budget": ("budget", Gather.tokens),
    "writes": ("writes", Gather.words),
    "mutates": ("mutates", Gather.flag),
    "requires_approval": ("requires_approval", Gather.flag),
    "key_files": ("key_files", Gather.words),
    "scope": ("key_files", Gather.words),
    "deliverable": ("deliverables", Gather.words),
    "deliverables": ("deliverables", Gather.words),
    "expected_output": ("deliverables", Gather.words),
    "context": ("context", _context),
    "checkpoint_after": ("checkpoint_after", Gather.flag),
}
CONTRACT = ("inputs", "outputs", "constraints", "verification", "verify")
KEYS = (*NODE_FIELDS, "id", "contract", *IGNORED)
_LISTS = ("needs", "verification", "writes", "key_files", "deliverables", "capabilities")


def read_node(gather: Gather, raw: Mapping[str, Any], path: Path, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a node; `more` are keys that the form reads itself."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        if key in NODE_FIELDS:
            _take_of_node(gather, fields, NODE_FIELDS[key], value, (*path, key))
        elif key == "contract":
            inside = (*path, key)
            for name, part in gather.mapping(value, inside).items():
                if name in CONTRACT:
                    _take_of_node(gather, fields, NODE_FIELDS[name], part, (*inside, name))
                else:
                    gather.unknown(name, CONTRACT, (*inside, name), "A contract")
        elif key in IGNORED:
            if value is not None:
                gather.notes[IGNORED[key]] = None
        elif key != "id" and key not in more:
            gather.unknown(key, (*KEYS, *more), (*path, key), "A node")
    return fields


def _take_of_node(gather: Gather, fields: dict[str, Any], entry: tuple[str, Reader], value: Any, path: Path) -> None:
    name, reader = entry
    found = reader(gather, value, path)
    if fields.get(name):
        if name in _LISTS:
            found = (*fields[name], *found)
        else:
            message = f"`{path[-1]}` says again what was said before in this node."
            gather.wrong("plan-key-twice", message, path, "Keep one of the two.")
    fields[name] = found
    if name == "constraints" and found:
        for key in ("timeout", "token_budget"):  # enforced wherever they stand
            if key in found:
                _take_of_node(gather, fields, NODE_FIELDS[key], found[key], (*path, key))


def make_node(id: str, fields: dict[str, Any], at: int) -> Node:
    """The node that these fields make; it waits for those it declares and those its `${…}` name, each once."""
    named = (ref.node for ref in refs.find([fields.get(key) for key in ("inputs", "task", "context")]))
    # The check refuses a node that names itself; it must not wait for itself because of that.
    needs = tuple(dict.fromkeys((*fields.get("needs", ()), *(name for name in named if name != id))))
    return Node(**{"agent": "", **fields, "id": id, "needs": needs, "at": at})


def words_of_id(id: str) -> str:
    """An id in words."""
    return id.replace("-", " ").replace("_", " ").strip().capitalize()


# beside its nodes

_MERGE_KEYS = (
    *("strategy", "conflict_resolution", "final_output_format", "rule", "rules", "dedupe", "quorum"),
    *("function", "command", "timeout", "shape"),
)
_FAILURE_KEYS = ("policy", "max_retries", "fallback")
_INTERFACE_KEYS = ("from", "to", "format", "required_fields", "required")
_LABELS = ("workflow", "coordinator", "from_agent")


def _merge(gather: Gather, value: Any, path: Path) -> Merge:
    """A strategy's name, or a mapping."""
    if type(value) is str:
        return Merge(gather.choice(value, path, MERGES, "aggregate"))
    found = gather.mapping(value, path)
    _only(gather, found, _MERGE_KEYS, path, "The merge")
    note, rule, rules = _conflicts(gather, found.get("conflict_resolution"), (*path, "conflict_resolution"))
    shape = "shape" if "shape" in found else "final_output_format"
    command = found.get("command")
    return Merge(
        strategy=gather.choice(found.get("strategy"), (*path, "strategy"), MERGES, "aggregate"),
        note=note,
        rule=gather.choice(found.get("rule"), (*path, "rule"), RULES, rule),
        rules={**rules, **_rules(gather, found.get("rules"), (*path, "rules"))},
        dedupe=gather.flag(found.get("dedupe", True), (*path, "dedupe")),
        quorum=_quorum(gather, found.get("quorum"), (*path, "quorum")),
        function=_function(gather, found.get("function"), (*path, "function")),
        command=tuple(command.split()) if type(command) is str else gather.words(command, (*path, "command")),
        timeout=gather.seconds(found.get("timeout"), (*path, "timeout")) or 60.0,
        shape=gather.mapping(found.get(shape), (*path, shape)),
    )


def _conflicts(gather: Gather, value: Any, path: Path) -> tuple[str, str, Mapping[str, str]]:
    """Prose is a note, one of the rules' names is the rule, a mapping has a rule for each field."""
    if type(value) is dict:
        return "", "prefer_first", _rules(gather, value, path)
    text = gather.text(value, path)
    return ("", text, {}) if text in RULES else (text, "prefer_first", {})


def _rules(gather: Gather, value: Any, path: Path) -> Mapping[str, str]:
    found = gather.mapping(value, path)
    return {key: gather.choice(one, (*path, key), RULES, "prefer_first") for key, one in found.items()}


def _quorum(gather: Gather, value: Any, path: Path) -> float:
    found = gather.part(value, path)
    if found == 1:
        message = "More than all cannot agree: `quorum` must be below 1."
        gather.wrong("plan-value", message, path, "Write `quorum: 0.99`.")
    return 0.5 if found is None or found == 1 else found


def _function(gather: Gather, value: Any, path: Path) -> str:
    text = gather.text(value, path)
    module, _, name = text.partition(":")
    if text and not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        gather.wrong("plan-value", f"`function` is {text[:60]!r}.", path, "Write `function: module:function`.")
        return ""
    return text


def _failure(gather: Gather, value: Any, path: Path) -> Failure:
    """A policy's name, or a mapping."""
    if type(value) is str:
        policy = gather.choice(value, path, POLICIES, "abort")
        return Failure(policy, int(policy == "retry"))
    found = gather.mapping(value, path)
    _only(gather, found, _FAILURE_KEYS, path, "Failure handling")
    if found and "policy" not in found:
        fix = f"Add `policy:` with one of {', '.join(POLICIES)}."
        gather.wrong("plan-failure", "Failure handling has no policy.", path, fix)
    policy = gather.choice(found.get("policy"), (*path, "policy"), POLICIES, "abort")
    retries = gather.count(found.get("max_retries", int(policy == "retry")), (*path, "max_retries"), 100)
    if policy == "retry" and retries == 0:
        message = "The policy is retry, and `max_retries` is 0: nothing is tried again."
        gather.warn("plan-failure", message, (*path, "max_retries"), "Write `max_retries: 1`, or `policy: abort`.")
    fallback = gather.text(found.get("fallback"), (*path, "fallback"))
    named = AGENT.fullmatch(fallback) is not None
    return Failure(policy, retries, fallback if named else "", "" if named else fallback)


def _interfaces(gather: Gather, value: Any, path: Path) -> tuple[Interface, ...]:
    found = []
    for number, one in enumerate(gather.rows(value, path)):
        place = (*path, number)
        raw = gather.mapping(one, place)
        _only(gather, raw, _INTERFACE_KEYS, place, "An interface")
        if not (raw.get("from") and raw.get("to")):
            for key in ("from", "to") if type(one) is dict else ():
                if not raw.get(key):
                    gather.wrong("plan-missing", f"An interface has no `{key}`.", place, f"Add `{key}: a node's id`.")
            continue
        required = "required" if "required" in raw else "required_fields"
        found.append(
            Interface(
                gather.name(raw["from"], (*place, "from")),
                gather.name(raw["to"], (*place, "to")),
                gather.mapping(raw.get("format"), (*place, "format")),
                gather.words(raw.get(required), (*place, required)),
            )
        )
    return tuple(found)


def _plan_context(gather: Gather, value: Any, path: Path) -> tuple[tuple[str, Any], ...]:
    """Keys and values that every node is given: a mapping, a text, or a list of {key, value}."""
    if type(value) is dict:
        return tuple(value.items())
    if type(value) is str:
        return (("context", value),) if value.strip() else ()
    found = []
    for number, one in enumerate(gather.rows(value, path)):
        raw = gather.mapping(one, (*path, number))
        _only(gather, raw, ("key", "value"), (*path, number), "An entry of the context")
        if key := gather.name(raw.get("key"), (*path, number, "key")):
            found.append((key, raw.get("value")))
        elif type(one) is dict and raw.get("key") in (None, ""):
            gather.wrong("plan-missing", "An entry of the context has no key.", (*path, number), "Add `key: a-name`.")
    return tuple(found)


def _only(gather: Gather, raw: Mapping[str, Any], known: tuple[str, ...], path: Path, where: str) -> None:
    for key in raw:
        if key not in known:
            gather.unknown(key, known, (*path, key), where)


PLAN_FIELDS: dict[str, tuple[str, Reader]] = {
    "constraints": ("constraints", Gather.mapping),
    "interfaces": ("interfaces", _interfaces),
    "merge": ("merge", _merge),
    "merge_plan": ("merge", _merge),
    "merge_strategy": ("merge", _merge),
    "on_failure": ("failure", _failure),
    "failure_handling": ("failure", _failure),
    "failure_policy": ("failure", _failure),
    "handoff_context": ("context", _plan_context),
    "context": ("context", _plan_context),
    "strategy": ("strategy", lambda gather, value, path: gather.choice(value, path, STRATEGIES, "")),
    "complexity": ("complexity", Gather.part),
    "max_parallel": ("max_parallel", Gather.count),
    "token_budget": ("budget", Gather.tokens),
    "budget": ("budget", Gather.tokens),
    "timeout": ("timeout", Gather.seconds),
    "checkpoint_after": ("checkpoint_after", Gather.flag),
    "confidence": ("confidence", Gather.part),
    "evidence_anchors": ("evidence_anchors", Gather.rows),
    "assumptions": ("assumptions", Gather.rows),
    **{name: (name, Gather.name) for name in _LABELS},
    "delegated_to": ("delegated_to", Gather.rows),
    **{name: (name, lambda _gather, value, _path: value) for name in IGNORED},
}
_KEPT = ("confidence", "evidence_anchors", "assumptions", "delegated_to")


def read_plan(gather: Gather, raw: Mapping[str, Any], path: Path, more: tuple[str, ...]) -> dict[str, Any]:
    """What the keys of a plan say, but those in `more`, which the form reads itself."""
    options: dict[str, Any] = {}
    for key, value in raw.items():
        if key in more:
            continue
        if key in PLAN_FIELDS:
            _take_of_plan(gather, options, PLAN_FIELDS[key], value, (*path, key))
        else:
            gather.unknown(key, (*more, *PLAN_FIELDS), (*path, key), "The plan")
    return options


def _take_of_plan(gather: Gather, options: dict[str, Any], entry: tuple[str, Reader], value: Any, path: Path) -> None:
    name, reader = entry
    if name in options and name != "context":
        message = f"`{path[-1]}` says again what was said before in the plan."
        gather.wrong("plan-key-twice", message, path, "Keep one of the two.")
    found = reader(gather, value, path)
    options[name] = (*options.get(name, ()), *found) if name == "context" else found
    if name == "constraints":
        for key in ("timeout", "token_budget", "max_parallel"):  # enforced wherever they stand
            if key in found:
                _take_of_plan(gather, options, PLAN_FIELDS[key], found[key], (*path, key))


def settled(gather: Gather, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a Plan, with labels and what is only kept in fields of their own."""
    for key, note in IGNORED.items():
        if options.pop(key, None) is not None:
            gather.notes[note] = None
    labels = {key: options.pop(key) for key in _LABELS if key in options}
    kept = {key: options.pop(key) for key in _KEPT if key in options}
    return {
        **{key: value for key, value in options.items() if value is not None},
        "labels": {key: value for key, value in labels.items() if value},
        "told": {key: value for key, value in kept.items() if value is not None},
    }
