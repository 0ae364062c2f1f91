"""One node of a plan as a child task: what its agent is told, what it must return, what it may do.

A plan adds no level and is no ancestor: a node has the depth, the path and the limits that it would have had if the
plan's caller had delegated it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, files, find_driver
from overhand.documents import handoff as handoffs
from overhand.documents import jsontext
from overhand.documents.handoff import Handoff
from overhand.documents.problems import Problem
from overhand.documents.text import decode
from overhand.drafts import guards
from overhand.errors import BadInput, LimitExceeded, OverhandError, TaskNotFound
from overhand.items import alerts
from overhand.plans import strategy
from overhand.plans.contract import Index, by_source, contract_of
from overhand.plans.node_words import compact, deliverables, for_all
from overhand.plans.node_words import handoff as handoff_of
from overhand.policy import budget, trust
from overhand.policy.caller import Caller
from overhand.policy.config import AGENT_MARKS
from overhand.runs import spending, worktree
from overhand.runs.prompt import INPUTS
from overhand.system.files import read_file
from overhand.words import duration, say_duration

if TYPE_CHECKING:
    from overhand.plans.model import Node, Plan
    from overhand.policy.config import Config, Kind
    from overhand.record.store import Draft, Store
    from overhand.record.task import Task

CONTRACT = "contract.json"


@dataclass(frozen=True, slots=True)
class Ground:
    """What all nodes of a plan have in common, looked up once."""

    store: Store
    config: Config
    plan: Plan
    state: Task  # of the plan's own task
    who: Caller  # whoever would delegate the nodes if there were no plan
    find: Callable[[str], Agent]
    budget: str | None = None  # of a node that has none
    hint: str = ""  # low, medium or high: how strong a model the plan needs
    context: str = ""  # what every node is told
    edges: Index = field(default_factory=Index)  # the plan's interfaces by where they begin
    kinds: dict[str | None, Kind] = field(default_factory=dict)
    written: dict[tuple[str | None, str, str], str] = field(default_factory=dict)  # what HANDOFFs say after the task
    drafted: dict[str, Draft] | None = None  # by node, for who goes on with them in this process


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
        budget=spending.default(store, config, task.id),
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
            _look_at(base, node)
        except OverhandError as error:
            text = f"Node {node.id}: {error.message}"
            found.append(Problem("node-refused", text, of="substance", line=node.at or None, fix=error.hint))
    return found


def _look_at(base: Ground, node: Node) -> None:
    """Everything that `draft` could refuse, and nothing else."""
    agent = base.find(node.agent)
    _guarded(base, node, agent)
    _, schema = _contract(base, node)
    if not _is_alike(base, node, agent, node.inputs, schema):
        _require_sections(agent, handoff_of(base.plan, node, node.inputs, node.task, schema, base.context))
        compact([dict(node.inputs), schema])


def draft(base: Ground, node: Node, inputs: Mapping[str, Any], task: str | None = None) -> Draft:
    """The node as a task to be made; raises what a guard has against it."""
    agent = base.find(node.agent)
    depth, path, level, timeout = _guarded(base, node, agent)
    contract, schema = _contract(base, node)
    title, text = _worded(base, node, agent, inputs, node.task if task is None else task, schema)
    created: dict[str, Any] = {
        "title": title,
        "kind": node.kind,
        "priority": node.priority,
        "parent": {"task": base.state.id, "run": base.who.run},
        "node": node.id,
        "plan": base.state.handle,
        "depth": depth,
        "path": path,
        "timeout": timeout,
        "level": level,
        "contract": contract,
        "checks": _checks(base, node),
        "settings": _settings(base, agent),
        "model": _model(base, node, agent),
        "budget": f"{_budget(node)} tokens" if _budget(node) else base.budget,
        "strict": base.state.strict,
    }
    created = {name: value for name, value in created.items() if value not in (None, [], {}, False)}
    created["seal"] = trust.seal(created)
    given = {INPUTS: compact(dict(inputs)), CONTRACT: compact(schema) if contract == CONTRACT else b""}
    made = agent.name, text, created, given
    if base.drafted is not None:
        base.drafted[node.id] = made
    return made


def _worded(
    base: Ground, node: Node, agent: Agent, inputs: Mapping[str, Any], task: str, schema: dict[str, Any]
) -> tuple[str, str]:
    """Title and HANDOFF.md; nodes that have nothing of their own but a task share what stands below it."""
    alike = handoffs.is_plain(task) and _is_alike(base, node, agent, inputs, schema)
    key = (node.kind, node.context, base.context)
    if alike and key in base.written:
        return Handoff(task).title, handoffs.join(task, base.written[key])
    handoff = handoff_of(base.plan, node, inputs, task, schema, base.context)
    _require_sections(agent, handoff)
    text = handoffs.render(handoff)
    if alike and handoffs.split(text)[0] == task:
        base.written[key] = handoffs.split(text)[1]
    return handoff.title, text


def _is_alike(base: Ground, node: Node, agent: Agent, inputs: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether its HANDOFF says no more than its task, its context and what goes for all of its kind."""
    own = inputs or schema or node.outputs or node.deliverables or node.constraints or node.verification
    return not (own or node.key_files or node.writes or base.plan.constraints or agent.needs)


# what it may do


def _guarded(base: Ground, node: Node, agent: Agent) -> tuple[int, list[str], str, float]:
    """Depth, path, level and time; raises Refused and its like."""
    depth, path = guards.check_delegation(base.who, agent)
    kind = _kind(base, node)
    wanted = "work" if kind.level == "read" and (node.mutates or node.writes) else kind.level
    promised = [one.path for one in deliverables(node) if one.path]
    return depth, path, guards.level_for(wanted, base.who, agent, promised)[0], _time(base, node, kind)


def _kind(base: Ground, node: Node) -> Kind:
    if node.kind not in base.kinds:
        base.kinds[node.kind] = base.config.kind(node.kind)
    return base.kinds[node.kind]


def _require_sections(agent: Agent, handoff: Handoff) -> None:
    """What an agent's own file needs to be told."""
    missing = [word.replace("_", " ") for word in agent.needs if not getattr(handoff, word, None)]
    if missing:
        raise BadInput(f"Agent {agent.name} needs the section {', '.join(missing)}.", "Say it in the plan.")


def _time(base: Ground, node: Node, kind: Kind) -> float:
    """Seconds a run of it may take: its own limit, its kind's, and never longer than the plan as a whole."""
    seconds = node.timeout
    if seconds is None and "timeout" in node.constraints:
        try:
            seconds = duration(node.constraints["timeout"])
        except (TypeError, ValueError):
            seconds = None  # it was told when the plan was checked
    if seconds is None:
        seconds = kind.timeout
    elif seconds > kind.max_timeout:
        longest = f"the longest time for {node.kind or 'this kind of task'}, {say_duration(kind.max_timeout)}"
        raise LimitExceeded(
            f"Its timeout of {say_duration(seconds)} is above {longest}.",
            f"Ask for less, or raise kinds.{node.kind or 'none'}.max_timeout in .overhand/config.toml",
        )
    return min(seconds, base.plan.timeout) if base.plan.timeout else seconds


def _settings(base: Ground, agent: Agent) -> dict[str, Any]:
    """The plan's own settings, and what is known about the agent."""
    return {
        **{name: value for name, value in base.state.settings.items() if name not in AGENT_MARKS},
        **({"exclusive": True} if agent.exclusive else {}),
        **({"real": True} if agent.real else {}),
        **({} if agent.can_delegate else {"can_delegate": False}),
    }


def _model(base: Ground, node: Node, agent: Agent) -> str | None:
    """The node's own; the plan's hint only where neither the agent's file nor the settings name one."""
    if node.model or agent.options.get("model") or not base.hint:
        return node.model
    names = agent.options.get("hints") or (strategy.HINTS if find_driver(agent.driver).hinted else {})
    found = names.get(base.hint) if isinstance(names, Mapping) else None
    return str(found) if found else None


def _budget(node: Node) -> int | None:
    """Tokens, by its own key or as a constraint."""
    if node.budget is not None:
        return node.budget
    asked = node.constraints.get("token_budget")
    try:
        return budget.parse(asked).tokens or None if asked is not None else None
    except ValueError:
        return None  # it was told when the plan was checked


def _checks(base: Ground, node: Node) -> list[dict[str, str]]:
    """The commands of its verification; the project's own checks where it has nothing that can be checked."""
    rules = [one for one in node.verification if isinstance(one, Mapping)]
    commands = [_command(one["command"]) for one in rules if one.get("command")]
    if not rules:
        return [{"name": name, "command": command} for name, command in base.config.checks]
    names = [f"verify-{number}" if len(commands) > 1 else "verify" for number in range(1, len(commands) + 1)]
    return [{"name": name, "command": command} for name, command in zip(names, commands, strict=True)]


def _command(given: object) -> str:
    """As a shell reads it; a list is quoted word by word."""
    import shlex

    return shlex.join(map(str, given)) if isinstance(given, list | tuple) else str(given)


# what it must return


def _contract(base: Ground, node: Node) -> tuple[str | None, dict[str, Any]]:
    """The name of its contract and the schema of its data; a node that promises no data returns what its kind says."""
    found = contract_of(base.plan, node, base.edges)
    if not found:
        return _kind(base, node).contract, {}
    notes = dict(found.get("overhand", {}))
    named = [_schema(base.store.root, str(path)) for path in notes.pop("schemas", ())]
    if named:
        found = {**found, "allOf": [*found.get("allOf", ()), *named]}
    return CONTRACT, {**found, "overhand": notes}


def _schema(root: str, path: str) -> dict[str, Any]:
    """A JSON Schema that the plan names by its file, as it is now."""
    inside = worktree.inside(root, path)
    raw = read_file(inside) if inside else None
    value, error = jsontext.load(decode(raw)[0]) if raw is not None else (None, "there is no such file in the project")
    if error or not isinstance(value, dict):
        raise BadInput(f"The schema {path} cannot be used: {error or 'an object was needed'}.", "Mend the plan.")
    return value
