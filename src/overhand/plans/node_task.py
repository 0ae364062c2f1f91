"""One node of a plan as a child task: what its agent is told, what it must return, what it may do.

A plan adds no level and is no ancestor: a node has the depth, the path and the limits that it would have had if the
plan's caller had delegated it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, files, find_driver
from overhand.documents import jsontext
from overhand.documents.handoff import Handoff
from overhand.documents.problems import Problem
from overhand.documents.text import decode
from overhand.drafts import alerts
from overhand.drafts.build import Brief, Draft, build
from overhand.drafts.handoff import CONTRACT
from overhand.errors import BadInput, OverhandError, TaskNotFound
from overhand.plans import strategy
from overhand.plans.contract import Index, by_source, contract_of
from overhand.plans.node_words import compact, for_all
from overhand.plans.node_words import handoff as handoff_of
from overhand.policy import budget, trust
from overhand.policy.caller import Caller
from overhand.policy.config import AGENT_MARKS
from overhand.runs import worktree
from overhand.runs.prompt import INPUTS
from overhand.system.files import read_file
from overhand.words import duration

if TYPE_CHECKING:
    from overhand.plans.model import Node, Plan
    from overhand.policy.config import Config
    from overhand.record.store import Store
    from overhand.record.task import Task


@dataclass(frozen=True, slots=True)
class Ground:
    """What all nodes of a plan have in common, looked up once."""

    store: Store
    config: Config
    plan: Plan
    state: Task  # of the plan's own task
    who: Caller  # whoever would delegate the nodes if there were no plan
    find: Callable[[str], Agent]
    hint: str = ""  # low, medium or high: how strong a model the plan needs
    context: str = ""  # what every node is told
    edges: Index = field(default_factory=Index)  # the plan's interfaces by where they begin
    drafted: dict[str, Draft] | None = None  # by node, for what goes on with them in this process


def ground(
    store: Store,
    config: Config,
    plan: Plan,
    task: Task,
    run_id: str,
    *,
    find: Callable[[str], Agent] | None = None,
    hint: str = "",
) -> Ground:
    """What the nodes of this plan stand on; `find` gives an agent by its name, from the agent files by default."""
    told = alerts.told(store.root, config, Handoff(task="", context=for_all(plan)))
    return Ground(
        store=store,
        config=config,
        plan=plan,
        state=task,
        who=caller_of(store, task, run_id),
        find=_remembered(find or (lambda name: _trusted(store, config, name))),
        hint=hint or strategy.score(plan).level,
        context=told.context,
        edges=by_source(plan),
    )


def caller_of(store: Store, task: Task, run_id: str) -> Caller:
    """The plan's run in the place of the plan's caller: with its depth and its path, not with the plan's own."""
    path = task.path
    above = path[:-1] if len(path) > 1 and path[-1] == task.agent else path
    may = True
    if task.parent is not None:
        try:
            may = bool(store.task(task.parent.task).settings.get("can_delegate", True))
        except TaskNotFound:
            pass  # it was cleaned away; the plan itself was allowed
    return Caller(task.id, run_id, depth=len(above) - 1, path=tuple(above), can_delegate=may, level=task.level)


def _remembered(find: Callable[[str], Agent]) -> Callable[[str], Agent]:
    """A wide plan names the same agent many times."""
    known: dict[str, Agent] = {}

    def found(name: str) -> Agent:
        if name not in known:
            known[name] = find(name)
        return known[name]

    return found


def _trusted(store: Store, config: Config, name: str) -> Agent:
    agent = files.find(store.root, name, config)
    trust.require(store.root, agent.trusted_with)
    return agent


def refusals(base: Ground) -> list[Problem]:
    """What every guard has against the plan's nodes, all at once, before any of them is made."""
    found = []
    for node in base.plan.nodes.values():
        try:
            _built(base, node, node.inputs, node.task)
        except OverhandError as error:
            text = f"Node {node.id}: {error.message}"
            found.append(Problem("node-refused", text, of="substance", line=node.at or None, fix=error.hint))
    return found


def draft(base: Ground, node: Node, inputs: Mapping[str, Any], task: str | None = None) -> Draft:
    """The node as a task to be made; raises what a guard has against it."""
    made = _built(base, node, inputs, node.task if task is None else task)
    if base.drafted is not None:
        base.drafted[node.id] = made
    return made


def _built(base: Ground, node: Node, inputs: Mapping[str, Any], task: str) -> Draft:
    return build(brief_of(base, node, inputs, task), base.find(node.agent), base.who, base.store, base.config)


def brief_of(base: Ground, node: Node, inputs: Mapping[str, Any], task: str) -> Brief:
    """What the node asks for."""
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
        contract=CONTRACT if schema else None,
        checks=_checks(node),
        settings={name: value for name, value in base.state.settings.items() if name not in AGENT_MARKS},
        model=_model(base, node, base.find(node.agent)),
        budget=_budget(node),
        strict=base.state.strict,
        fix="Say it in the plan.",
        files={INPUTS: compact(dict(inputs)), CONTRACT: compact(schema) if schema else b""},
    )


# what it may do


def _timeout(node: Node) -> float | None:
    """Its own limit in seconds, by its key or as a constraint."""
    if node.timeout is not None or "timeout" not in node.constraints:
        return node.timeout
    try:
        return duration(node.constraints["timeout"])
    except (TypeError, ValueError):
        return None  # it was told when the plan was checked


def _model(base: Ground, node: Node, agent: Agent) -> str | None:
    """The node's own; the plan's hint only where neither the agent's file nor the settings name one."""
    if node.model or agent.options.get("model") or not base.hint:
        return node.model
    names = agent.options.get("hints") or (strategy.HINTS if find_driver(agent.driver).hinted else {})
    found = names.get(base.hint) if isinstance(names, Mapping) else None
    return str(found) if found else None


def _budget(node: Node) -> str | None:
    """Tokens, by its own key or as a constraint."""
    tokens = node.budget
    if tokens is None and (asked := node.constraints.get("token_budget")) is not None:
        try:
            tokens = budget.parse(asked).tokens
        except ValueError:
            return None  # it was told when the plan was checked
    return f"{tokens} tokens" if tokens else None


def _checks(node: Node) -> list[dict[str, str]] | None:
    """The commands of its verification; None, for the project's own checks, where nothing of it can be checked."""
    rules = [one for one in node.verification if isinstance(one, Mapping)]
    if not rules:
        return None
    commands = [_command(one["command"]) for one in rules if one.get("command")]
    names = [f"verify-{number}" if len(commands) > 1 else "verify" for number in range(1, len(commands) + 1)]
    return [{"name": name, "command": command} for name, command in zip(names, commands, strict=True)]


def _command(given: object) -> str:
    """As a shell reads it; a list is quoted word by word."""
    import shlex

    return shlex.join(map(str, given)) if isinstance(given, list | tuple) else str(given)


# what it must return


def _schema(base: Ground, node: Node) -> dict[str, Any]:
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
    inside = worktree.inside(root, path)
    raw = read_file(inside) if inside else None
    value, error = jsontext.load(decode(raw)[0]) if raw is not None else (None, "there is no such file in the project")
    if error or not isinstance(value, dict):
        raise BadInput(f"The schema {path} cannot be used: {error or 'an object was needed'}.", "Mend the plan.")
    return value
