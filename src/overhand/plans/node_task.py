"""One node of a plan as a child task: what its agent reads, what it must return, what it may do.

A plan adds no level and is no ancestor: a node has the depth, the path and the limits that it would have had if the
plan's caller had delegated it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, find_agent, find_driver
from overhand.documents import (
    Deliverable,
    Handoff,
    KeyFile,
    Problem,
    Section,
    decode_text,
    load_json,
    looks_like_path,
    one_line,
    shorten,
    with_kind_defaults,
)
from overhand.drafts import CONTRACT_FILE, Brief, Draft, build_draft, with_alerts
from overhand.errors import BadInput, OverhandError, TaskNotFound
from overhand.plans import strategy
from overhand.plans.contract import ENFORCED, Index, by_source, contract_of
from overhand.policy import AGENT_MARKS, Caller, parse_budget, require_trusted
from overhand.record import INPUTS_FILE
from overhand.runs import path_inside, whole_message
from overhand.system import read_file
from overhand.words import duration

if TYPE_CHECKING:
    from overhand.plans.model import Node, Plan
    from overhand.policy import Config
    from overhand.record import Store, Task

_SENT = "**Sent to all nodes of the plan:**"
BIG = 4096  # bytes of JSON; what is larger is referred to, not pasted

_OWN_DATA = "Put it into a `## Data` section of OUTPUT.md as one fenced json block, or into `data.json`."


@dataclass(frozen=True, slots=True)
class NodeDefaults:
    """What all nodes of a plan have in common, looked up once."""

    store: Store
    config: Config
    plan: Plan
    state: Task  # of the plan's own task
    caller: Caller  # the plan's caller, which would delegate the nodes if there were no plan
    find: Callable[[str], Agent]
    hint: str = ""  # low, medium or high: how strong a model the plan needs
    context: str = ""  # what every node gets
    edges: Index = field(default_factory=Index)  # the plan's interfaces by where they begin


def node_defaults(
    store: Store,
    config: Config,
    plan: Plan,
    task: Task,
    run_id: str,
    *,
    find: Callable[[str], Agent | None] = lambda _: None,
    hint: str = "",
) -> NodeDefaults:
    """What the nodes of this plan have in common; `find` gives an agent by its name, or None for that of a file."""
    common = with_alerts(store.root, config, Handoff(task="", context=for_all(plan)))
    return NodeDefaults(
        store=store,
        config=config,
        plan=plan,
        state=task,
        caller=caller_of(store, task, run_id),
        find=cache(lambda name: find(name) or _trusted(store, config, name)),
        hint=hint or strategy.score_plan(plan).level,
        context=common.context,
        edges=by_source(plan),
    )


def with_messages(base: NodeDefaults, task: Task) -> NodeDefaults:
    """What was sent to the plan is for all nodes that begin later."""
    if not task.messages:
        return base
    sent = "\n".join(f"- {whole_message(base.store, task.id, one)}" for one in task.messages)
    before = base.context.partition(_SENT)[0].rstrip()
    return replace(base, context=f"{before}\n\n{_SENT}\n\n{sent}".lstrip())


def caller_of(store: Store, task: Task, run_id: str) -> Caller:
    """The plan's run in the place of the plan's caller: with its depth and its path, not with the plan's own."""
    path = task.path
    above = path[:-1] if len(path) > 1 and path[-1] == task.agent else path
    may = True
    if task.parent is not None:
        try:
            may = bool(store.recorded(task.parent.task).settings.get("can_delegate", True))
        except TaskNotFound:
            pass  # it was cleaned away; the plan itself was allowed
    shielded = bool(task.settings.get("shielded"))
    depth, names = len(above) - 1, tuple(above)
    return Caller(task.id, run_id, depth, names, can_delegate=may, level=task.level, shielded=shielded)


def _trusted(store: Store, config: Config, name: str) -> Agent:
    agent = find_agent(store.root, name, config)
    require_trusted(store.root, agent.trusted_with)
    return agent


def refusals(base: NodeDefaults) -> list[Problem]:
    """What every guard has against the plan's nodes, all at once, before any of them is made."""
    found = []
    for node in base.plan.nodes.values():
        try:
            draft(base, node, node.inputs)
        except OverhandError as error:
            text = f"Node {node.id}: {error.message}"
            found.append(Problem("node-refused", text, of="substance", line=node.at or None, fix=error.hint))
    return found


def draft(base: NodeDefaults, node: Node, inputs: Mapping[str, Any], task: str | None = None) -> Draft:
    """The node as a task to be made; raises what a guard has against it."""
    brief = brief_of(base, node, inputs, node.task if task is None else task)
    return build_draft(brief, base.find(node.agent), base.caller, base.store, base.config)


def brief_of(base: NodeDefaults, node: Node, inputs: Mapping[str, Any], task: str) -> Brief:
    schema = _schema(base, node)
    return Brief(
        kind=node.kind,
        handoff=handoff_of(base.plan, node, inputs, task, schema, base.context),
        alerts=False,  # the context that all nodes share has them
        priority=node.priority,
        node=node.id,
        plan=base.state.handle,
        writes=bool(node.mutates or node.writes),
        timeout=_timeout(node),
        at_most=base.plan.timeout or None,
        contract=CONTRACT_FILE if schema else None,
        checks=_checks(node),
        settings={name: value for name, value in base.state.settings.items() if name not in AGENT_MARKS},
        model=_model(base, node, base.find(node.agent)),
        budget=_budget(node),
        strict=base.state.strict,
        fix="Say it in the plan.",
        files={INPUTS_FILE: compact(dict(inputs)), CONTRACT_FILE: compact(schema) if schema else b""},
    )


# what it may do: a Plan that was made in Python may name its limits among the constraints only


def _timeout(node: Node) -> float | None:
    if node.timeout is not None or "timeout" not in node.constraints:
        return node.timeout
    try:
        return duration(node.constraints["timeout"])
    except (TypeError, ValueError):
        return None


def _budget(node: Node) -> str | None:
    tokens = node.budget
    if tokens is None and (asked := node.constraints.get("token_budget")) is not None:
        try:
            tokens = parse_budget(asked).tokens
        except ValueError:
            return None
    return f"{tokens} tokens" if tokens else None


def _model(base: NodeDefaults, node: Node, agent: Agent) -> str | None:
    """The node's own; the plan's hint only where neither the agent's file nor the settings name one."""
    if node.model or agent.options.get("model") or not base.hint:
        return node.model
    names = agent.options.get("hints") or (strategy.HINTS if find_driver(agent.driver).hinted else {})
    found = names.get(base.hint) if isinstance(names, Mapping) else None
    return str(found) if found else None


def _checks(node: Node) -> list[dict[str, str]] | None:
    """The commands of its verification; None, for the project's own checks, where nothing of it can be checked."""
    rules = [one for one in node.verification if isinstance(one, Mapping)]
    if not rules:
        return None
    asked = [one["command"] for one in rules if one.get("command")]
    commands = [shlex.join(map(str, one)) if isinstance(one, list | tuple) else str(one) for one in asked]
    names = [f"verify-{number}" if len(commands) > 1 else "verify" for number in range(1, len(commands) + 1)]
    return [{"name": name, "command": command} for name, command in zip(names, commands, strict=True)]


# what it must return


def _schema(base: NodeDefaults, node: Node) -> dict[str, Any]:
    """The schema of its data; a node that promises no data has none, and returns what its kind says."""
    found = contract_of(base.plan, node, base.edges)
    if not found:
        return {}
    notes = dict(found.get("overhand", {}))
    named = [_schema_in(base.store.root, str(path)) for path in notes.pop("schemas", ())]
    if named:
        found = {**found, "allOf": [*found.get("allOf", ()), *named]}
    return {**found, "overhand": notes}


def _schema_in(root: str, path: str) -> dict[str, Any]:
    """A JSON Schema that the plan names by its file, as it is now."""
    inside = path_inside(root, path)
    raw = read_file(inside) if inside else None
    value, error = load_json(decode_text(raw)[0]) if raw is not None else (None, "there is no such file in the project")
    if error or not isinstance(value, dict):
        raise BadInput(f"The schema {path} cannot be used: {error or 'an object was needed'}.", "Mend the plan.")
    return value


# what its agent reads: its task, its inputs, and in words what it must return


def compact(value: object) -> bytes:
    """JSON without blanks; raises BadInput for what JSON cannot hold."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"A value of the plan cannot be written as JSON: {error}.", "Give it as text.") from None
    return text.encode("utf-8", "replace")


def for_all(plan: Plan) -> str:
    """The plan's task and the context of all its nodes."""
    parts = [f"It is one part of: {one_line(plan.task)}"] if plan.task else []
    rows = [f"- {one_line(str(name))}: {_shown(value)}" for name, value in (*plan.context, *plan.labels.items())]
    return "\n\n".join([*parts, "\n".join(rows)] if rows else parts)


def handoff_of(
    plan: Plan, node: Node, inputs: Mapping[str, Any], task: str, schema: Mapping[str, Any], common: str
) -> Handoff:
    """The node's HANDOFF; `common` is the context of every node of the plan."""
    wanted = Handoff(
        task=task.strip() or _made_up(plan, node),
        context="\n\n".join(part for part in (node.context.strip(), common) if part),
        key_files=tuple(KeyFile(path) for path in node.key_files),
        constraints=tuple(_constraints(plan, node)),
        deliverables=tuple(deliverables(node)),
        contract=_promise(plan, node, schema),
        extra=(Section("Inputs", _inputs(inputs)),) if inputs else (),
    )
    return with_kind_defaults(wanted, node.kind)


def _made_up(plan: Plan, node: Node) -> str:
    """Words for a node that has none: its id, the plan's task, what goes in and what comes out."""
    name = " ".join(node.id.replace("_", "-").split("-")).strip() or node.id
    title = f"{name[:1].upper()}{name[1:]}"
    title += f" (a part of: {shorten(one_line(plan.task).rstrip('.'), 60)})." if plan.task else "."
    given = ", ".join(f"`{name}`" for name in node.inputs)
    made = ", ".join(f"`{name}`" for name in (*node.outputs, *(node.deliverables if not node.outputs else ())))
    parts = [f"From {given} (see Inputs)" if given else "", f"make {made}" if made else ""]
    words = ", ".join(part for part in parts if part)
    return f"{title}\n\n{words[:1].upper()}{words[1:]}." if words else title


def _inputs(inputs: Mapping[str, Any]) -> str:
    """Small values as they are, big ones by reference to the file that holds all of them."""
    small, big = {}, []
    for name, value in inputs.items():
        raw = compact(value)
        if len(raw) <= BIG:
            small[name] = value
        else:
            big.append(f"- `{one_line(name)}`: {_measure(value, len(raw))}")
    parts = [f"All of them stand in `{INPUTS_FILE}` of the task's folder (OVERHAND_INPUTS), as JSON."]
    if small:
        parts.append(f"```json\n{json.dumps(small, ensure_ascii=False, indent=1)}\n```")
    if big:
        parts.append(f"Too big to be shown here, read them from `{INPUTS_FILE}`:\n" + "\n".join(big))
    return "\n\n".join(parts)


def _measure(value: object, size: int) -> str:
    """How much a big value is."""
    amount = f"{size / 1000:.0f} KB"
    if isinstance(value, list):
        return f"a list of {len(value)}, {amount}"
    if isinstance(value, dict):
        return f"an object with {', '.join(f'`{one_line(str(key))}`' for key in list(value)[:10])}, {amount}"
    return f"a text, {amount}"


def _constraints(plan: Plan, node: Node) -> Iterable[str]:
    """What Overhand does not enforce is for the agent to keep to."""
    for name, value in {**plan.constraints, **node.constraints}.items():
        enforced = name in ENFORCED or (name.startswith("max_") and name[4:] in node.outputs)
        if not enforced:
            yield name if value is True else f"{one_line(str(name))}: {_shown(value)}"
    if node.writes:
        yield f"Write only to: {', '.join(node.writes)}"


def _shown(value: object) -> str:
    return one_line(value) if isinstance(value, str) else compact(value).decode()


def deliverables(node: Node) -> list[Deliverable]:
    """Paths are checked, sentences are prose."""
    found = []
    for text in node.deliverables:
        bare = text.strip().strip("`")
        is_path = bool(bare) and not any(c.isspace() for c in bare) and (looks_like_path(bare) or "*" in bare)
        found.append(Deliverable(path=bare) if is_path else Deliverable(text=text.strip()))
    return found


def _promise(plan: Plan, node: Node, schema: Mapping[str, Any]) -> str:
    """What must be in `## Data`, in words an agent understands."""
    notes = schema.get("overhand", {})
    parts = []
    if node.outputs:
        rows = "\n".join(f"- `{name}`: {_typed(plan, node, name)}" for name in node.outputs)
        parts.append(f"Return one JSON object with exactly these fields:\n\n{rows}\n\n{_OWN_DATA}")
    needed = []
    for edge in notes.get("edges", ()):
        if edge.get("required"):
            names = ", ".join(f"`{name}`" for name in edge["required"])
            where = f"in `{edge['field']}` (of a list: in each entry)" if edge.get("field") else "in the data"
            needed.append(f"- `{edge.get('to', '')}` needs {names} {where}")
    if needed:
        parts.append("Others go on with it:\n\n" + "\n".join(needed))
    rules = [f"- `{text}`" for text in notes.get("expressions", ())]
    rules += [f"- the file `{path}` exists" for path in notes.get("exists", ())]
    rules += [f"- the data fit this JSON Schema: `{compact(one).decode()}`" for one in schema.get("allOf", ())]
    if rules:
        parts.append("This is checked afterwards, and must hold:\n\n" + "\n".join(rules))
    prose = [one for one in node.verification if isinstance(one, str)]
    if prose:
        rows = "\n".join(f"- {one_line(one)}" for one in prose)
        parts.append(f"This is expected too, though no program checks it:\n\n{rows}")
    return "\n\n".join(parts)


def _typed(plan: Plan, node: Node, name: str) -> str:
    """The type of an output as its plan words it, and its limit."""
    wanted = node.outputs[name]
    text = one_line(wanted) if isinstance(wanted, str) else f"as by this JSON Schema: `{compact(wanted).decode()}`"
    most = {**plan.constraints, **node.constraints}.get(f"max_{name}")
    return f"{text}, at most {most}" if most is not None else text
