"""What a plan says beside its nodes: merge, failure, interfaces, context and limits; the same keys in every form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from overhand.plans import forms_plain
from overhand.plans.forms import AGENT, Gather
from overhand.plans.model import MERGES, POLICIES, RULES, STRATEGIES, Failure, Interface, Merge
from overhand.plans.source import Path

_MERGE = ("strategy", "conflict_resolution", "final_output_format", "rule", "rules", "dedupe", "quorum")
_MERGE_KEYS = (*_MERGE, "function", "command", "timeout", "shape")
_FAILURE_KEYS = ("policy", "max_retries", "fallback")
_INTERFACE_KEYS = ("from", "to", "format", "required_fields", "required")
_LABELS = ("workflow", "coordinator", "from_agent")


def merge(gather: Gather, value: Any, path: Path) -> Merge:
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
        gather.wrong(
            "plan-value", "More than all cannot agree: `quorum` must be below 1.", path, "Write `quorum: 0.99`."
        )
    return 0.5 if found is None or found == 1 else found


def _function(gather: Gather, value: Any, path: Path) -> str:
    text = gather.text(value, path)
    module, _, name = text.partition(":")
    if text and not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        gather.wrong("plan-value", f"`function` is {text[:60]!r}.", path, "Write `function: module:function`.")
        return ""
    return text


def failure(gather: Gather, value: Any, path: Path) -> Failure:
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


def interfaces(gather: Gather, value: Any, path: Path) -> tuple[Interface, ...]:
    """What goes from where to where."""
    found = []
    known = frozenset(_INTERFACE_KEYS)
    for number, one in enumerate(gather.rows(value, path)):
        plain = forms_plain.interface(one)
        if plain is not None:
            found.append(plain)
            continue
        place = (*path, number)
        raw = gather.mapping(one, place)
        if not known.issuperset(raw):
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


def context(gather: Gather, value: Any, path: Path) -> tuple[tuple[str, Any], ...]:
    """Keys and values that every node is told: a mapping, a text, or a list of {key, value}."""
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


def _strategy(gather: Gather, value: Any, path: Path) -> str:
    return gather.choice(value, path, STRATEGIES, "")


def _kept(gather: Gather, value: Any, path: Path) -> Any:  # noqa: ARG001 -- a reader like the others
    return value


Reader = Callable[[Gather, Any, Path], Any]
FIELDS: dict[str, tuple[str, Reader]] = {
    "constraints": ("constraints", Gather.mapping),
    "interfaces": ("interfaces", interfaces),
    "merge": ("merge", merge),
    "merge_plan": ("merge", merge),
    "merge_strategy": ("merge", merge),
    "on_failure": ("failure", failure),
    "failure_handling": ("failure", failure),
    "failure_policy": ("failure", failure),
    "handoff_context": ("context", context),
    "context": ("context", context),
    "strategy": ("strategy", _strategy),
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
    "status": ("status", _kept),
    "result": ("result", _kept),
}
_TOLD = ("confidence", "evidence_anchors", "assumptions", "delegated_to")


def read(gather: Gather, raw: Mapping[str, Any], path: Path, more: tuple[str, ...]) -> dict[str, Any]:
    """What the keys of a plan say, but those in `more`, which the form reads itself."""
    said: dict[str, Any] = {}
    for key, value in raw.items():
        if key in more:
            continue
        entry = FIELDS.get(key)
        if entry is None:
            gather.unknown(key, (*more, *FIELDS), (*path, key), "The plan")
            continue
        _take(gather, said, entry, value, (*path, key))
    return said


def _take(gather: Gather, said: dict[str, Any], entry: tuple[str, Reader], value: Any, path: Path) -> None:
    name, reader = entry
    if name in said and name != "context":
        message = f"`{path[-1]}` says again what was said before in the plan."
        gather.wrong("plan-key-twice", message, path, "Keep one of the two.")
    found = reader(gather, value, path)
    said[name] = (*said.get(name, ()), *found) if name == "context" else found
    if name == "constraints":
        for key in ("timeout", "token_budget", "max_parallel"):  # enforced wherever they stand
            if key in found:
                _take(gather, said, FIELDS[key], found[key], (*path, key))


def settled(gather: Gather, said: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a Plan, with labels and what is only told in places of their own."""
    for key in ("status", "result"):
        if said.pop(key, None) is not None:
            gather.notes[
                f"`{key}` in the file does not count: the plan's own record says what its nodes have done."
            ] = None
    labels = {key: said.pop(key) for key in _LABELS if key in said}
    told = {key: said.pop(key) for key in _TOLD if key in said}
    return {
        **{key: value for key, value in said.items() if value is not None},
        "labels": {key: value for key, value in labels.items() if value},
        "told": {key: value for key, value in told.items() if value is not None},
    }
