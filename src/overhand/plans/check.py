"""Everything about a plan that can be known before it runs, reported at once (G2, P4)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.contracts import parse_expression
from overhand.documents import Problem, by_line, is_vague, one_line, shorten, warning, wrong
from overhand.plans import check_graph
from overhand.plans.model import TEMPLATES, Node, Plan
from overhand.plans.values import meant
from overhand.words import say_duration

if TYPE_CHECKING:
    from overhand.plans.reader import Lines


CODES: dict[str, str] = {
    # the file
    "plan-too-large": "the file is larger than a plan may be",
    "plan-encoding": "the file is not UTF-8 text",
    "plan-syntax": "the file is neither valid YAML nor valid JSON",
    "plan-deep": "values are nested too deeply",
    "plan-aliases": "aliases make the file too large, or contain themselves",
    "plan-tag": "a YAML tag asks for something that no plan holds",
    "plan-key-twice": "a key occurs twice in one mapping",
    "plan-form": "none of the forms of a plan was recognised",
    # single values
    "plan-type": "a value has the wrong type",
    "plan-value": "a value is none of those that are allowed",
    "plan-key": "a key is not part of the form",
    "plan-missing": "something that the form needs is missing",
    "plan-duration": "a time is not a duration",
    "plan-budget-value": "a budget is not a number of tokens",
    "plan-id": "an id cannot name a node",
    "plan-id-twice": "two nodes have one id",
    "plan-id-reserved": "an id has a meaning of its own",
    # how nodes hang together
    "plan-empty": "the plan has no nodes",
    "plan-ref": "a `${…}` cannot be read",
    "plan-ref-self": "a node refers to itself",
    "plan-node-unknown": "a node that is named does not exist",
    "plan-field-unknown": "a field that is named does not exist",
    "plan-cycle": "nodes wait for each other in a circle",
    "plan-interface": "what one node gives does not fit what another takes",
    "plan-agent-unknown": "an agent that is named does not exist",
    "plan-agent-missing": "a node has no agent, and none has what it needs",
    "plan-expression": "an expression cannot be read",
    "plan-schema": "a JSON Schema is not one",
    "plan-outside": "a file that must be there lies outside the project",
    "plan-depth": "the nodes would be delegated too deeply",
    "plan-budget": "the nodes may use more than the plan",
    "plan-timeout": "a node may take longer than the plan",
    "plan-custom": "a custom merge has nothing that merges",
    # what makes a delegation worth starting
    "plan-contract": "a node promises nothing",
    "plan-verification": "nobody checks what a node gives back",
    "plan-failure": "the plan does not say what happens when a node fails",
    "plan-writers": "nodes that might run at once write the same file",
    "plan-mutates": "a node changes things and does not say which",
    "plan-unmerged": "something of the merge cannot be filled",
    "vague-task": "a task is too general to be done by somebody else",
    "no-deliverable": "a node is asked for nothing that could be checked",
    "no-budget": "the nodes of a workflow have no token budget",
}
_SUGGESTIONS = 50


class Findings:
    """What was found, with lines where they are known."""

    def __init__(self, plan: Plan, lines: Lines | None) -> None:
        self.plan = plan
        self.lines = lines
        self.problems: list[Problem] = []
        self._unknown: dict[tuple[str, str], str] = {}

    def wrong(self, code: str, message: str, line: int | None, fix: str) -> None:
        """Note an error; one without a line is reported at the beginning of the file."""
        self.problems.append(wrong(code, message, line or self.of_plan(), fix))

    def warn(self, code: str, message: str, line: int | None, fix: str) -> None:
        self.problems.append(warning(code, message, line or self.of_plan(), fix))

    def of_node(self, id: str, name: str = "", *more: str | int) -> int | None:
        if self.lines is None:
            return self.plan.nodes[id].at or None if id in self.plan.nodes else None
        return self.lines.node(id, name, *more)

    def of_plan(self, name: str = "", *more: str | int) -> int | None:
        return self.lines.plan(name, *more) if self.lines else None

    def meant(self, kind: str, name: str, known: Iterable[str]) -> str:
        """` Did you mean X?`: looked for once for each name, and not for hundreds."""
        key = (kind, name)
        if key not in self._unknown:
            self._unknown[key] = meant(name, known) if len(self._unknown) < _SUGGESTIONS else ""
        return self._unknown[key]


class AgentFacts(NamedTuple):
    """What a plan needs to know of an agent."""

    capabilities: tuple[str, ...] = ()


def check_plan(
    plan: Plan,
    agents: Mapping[str, AgentFacts] | None = None,
    *,
    lines: Lines | None = None,
    depth: int = 1,
    max_depth: int = 3,
    budget: int | None = None,
) -> list[Problem]:
    """Every problem of a plan that was read.

    `agents` are those that exist (None: not known), `depth` is the one that the nodes will have, `budget` what the
    plan's caller has left.
    """
    found = Findings(plan, lines)
    _nodes(found, agents)
    check_graph.check(found)
    check_graph.check_interfaces(found)
    check_graph.check_writers(found)
    _limits(found, depth, max_depth, budget)
    _merge(found)
    _failure(found, agents)
    _workflow(found)
    return by_line(found.problems)


def _nodes(found: Findings, agents: Mapping[str, AgentFacts] | None) -> None:
    """What each node says by itself."""
    has_task = found.plan.form not in ("output", "input")  # in these the outputs say what to do
    for node in found.plan.nodes.values():
        if agents is None or node.agent not in agents:
            _agent(found, node, agents)
        if node.verification:
            _verification(found, node)
        for path in node.deliverables:
            _inside(found, node, path, "deliverables")
        for name, spec in node.outputs.items():
            if type(spec) is dict and (reason := _bad_schema(spec)):
                message = f"{node.id}: the type of the output {name} is no JSON Schema: {reason}."
                line = found.of_node(node.id, "outputs", name)
                found.wrong("plan-schema", message, line, "Correct it, or write type words.")
        if has_task:
            _worth(found, node)
        if node.mutates and not (node.writes or node.requires_approval):
            message = f"{node.id} changes things, but does not say which files, nor asks for approval."
            fix = "Add `writes: [glob]`, or `requires_approval: true`."
            found.warn("plan-mutates", message, found.of_node(node.id, "mutates"), fix)


def _agent(found: Findings, node: Node, agents: Mapping[str, AgentFacts] | None) -> None:
    if node.agent:
        if agents is not None:
            line = found.of_node(node.id, "agent")
            message = f"{node.id}: there is no agent {shorten(one_line(node.agent), 60)}."
            message += found.meant("agent", node.agent, agents)
            found.wrong("plan-agent-unknown", message, line, _name_one(agents))
    elif not node.capabilities:
        message = f"{node.id} names neither an agent nor capabilities."
        fix = _name_one(agents) if agents else "Add `agent: a-name`, or `capabilities: [what it takes]`."
        found.wrong("plan-agent-missing", message, found.of_node(node.id), fix)
    elif agents is not None and not _best(node.capabilities, agents):
        name, lacking = _nearest_able(node.capabilities, agents)
        near = f"; {name} lacks {', '.join(lacking)}" if name else ""
        message = f"No agent has all that {node.id} needs ({', '.join(node.capabilities)}){near}."
        fix = "Name the agent with `agent:`, or add the capabilities to the agent's file."
        found.wrong("plan-agent-missing", message, found.of_node(node.id, "capabilities"), fix)


def _name_one(agents: Mapping[str, AgentFacts] | None) -> str:
    if not agents:
        return "Write .overhand/agents/NAME.md first."
    names = sorted(agents)
    more = f" or one of {len(names) - 12} more" if len(names) > 12 else ""
    return f"Name one of {', '.join(names[:12])}{more}."


def _verification(found: Findings, node: Node) -> None:
    for number, one in enumerate(node.verification):
        if not isinstance(one, Mapping):
            continue
        if "expression" in one:
            _expression(found, node, one["expression"])
        elif isinstance(one.get("schema"), Mapping) and (reason := _bad_schema(one["schema"])):
            message = f"{node.id}: the schema of verification {number + 1} is none: {reason}."
            fix = "Correct it; it must be a JSON Schema."
            found.wrong("plan-schema", message, found.of_node(node.id, "verification"), fix)
        elif isinstance(one.get("exists"), str):
            _inside(found, node, one["exists"], "verification")


def _inside(found: Findings, node: Node, path: str, where: str) -> None:
    """A file outside the project never counts, so it need not be made; an absolute path may lie inside."""
    bare = path.strip().strip("`")
    if bare.startswith("..") or "/.." in bare:
        inside = posixpath.normpath(bare)
        if not posixpath.isabs(inside) and inside.split("/", 1)[0] == "..":
            message = f"{node.id}: {shorten(one_line(bare), 60)} lies outside the project."
            found.wrong("plan-outside", message, found.of_node(node.id, where), "Name a path inside the project.")


def _expression(found: Findings, node: Node, text: str) -> None:
    try:
        parsed = parse_expression(text)
    except ValueError as error:
        message = f"{node.id}: the expression {shorten(one_line(text), 60)!r} cannot be read: {error}"
        fix = "Correct the expression; a sentence is written under `verification:`."
        found.wrong("plan-expression", message.rstrip(".") + ".", found.of_node(node.id, "verification"), fix)
        return
    for path in parsed.paths:
        known: Mapping[str, Any] = node.outputs if path[0] == "data" else node.inputs
        if len(path) > 1 and (known or path[0] == "inputs") and path[1] not in known:
            what = "outputs" if path[0] == "data" else "inputs"
            message = f"{node.id}: the expression asks for {path[0]}.{path[1]}, which is not among its {what}."
            message += found.meant(what, str(path[1]), known)
            fix = f"Declare it under `{what}:`, or ask for {', '.join(known) or 'nothing of it'}."
            found.wrong("plan-field-unknown", message, found.of_node(node.id, "verification"), fix)


def _bad_schema(schema: Mapping[str, Any]) -> str:
    """Why this is no JSON Schema, or nothing."""
    import jsonschema_rs

    from overhand.contracts import schema_of

    try:
        jsonschema_rs.validator_for(schema_of(schema))
    except (ValueError, TypeError) as error:
        return shorten(str(error).partition("\n")[0], 120)
    return ""


def _worth(found: Findings, node: Node) -> None:
    """Whether the task says enough for another agent, and something comes back."""
    if is_vague(node.task) and node.task:
        message = f"{node.id}: the task “{shorten(one_line(node.task), 40)}” is vague."
        fix = "Name what to change, where, and how one sees that it is done."
        found.warn("vague-task", message, found.of_node(node.id, "task"), fix)
    if not (node.outputs or node.deliverables or node.verification):
        fix = "Add `deliverable:`." if found.plan.form in TEMPLATES else "Add `outputs:`, `deliverable:` or `verify:`."
        found.warn("no-deliverable", f"{node.id}: nothing is expected back.", found.of_node(node.id), fix)


def _limits(found: Findings, depth: int, max_depth: int, budget: int | None) -> None:
    plan = found.plan
    if depth > max_depth:
        message = f"The nodes would be at depth {depth}; at most {max_depth} are allowed."
        found.wrong("plan-depth", message, None, "Run the plan from a task nearer to the person, or do the work here.")
    total = sum([node.budget for node in plan.nodes.values() if node.budget])
    for node in plan.nodes.values():
        if plan.timeout and node.timeout and node.timeout > plan.timeout:
            message = f"{node.id} may take {say_duration(node.timeout)}, the whole plan {say_duration(plan.timeout)}."
            fix = "Give the node less time, or the plan more."
            found.warn("plan-timeout", message, found.of_node(node.id, "timeout"), fix)
    if plan.budget is not None and total > plan.budget:
        message = f"The nodes may use {total:,} tokens together, the plan only {plan.budget:,}."
        found.wrong("plan-budget", message, found.of_plan("budget"), f"Give the plan {total:,}, or the nodes less.")
    if budget is not None and max(total, plan.budget or 0) > budget:
        message = f"The plan may use {max(total, plan.budget or 0):,} tokens; its caller has {budget:,} left."
        found.wrong("plan-budget", message, found.of_plan("budget"), "Give the plan less, or its caller more.")


def _merge(found: Findings) -> None:
    plan, merge = found.plan, found.plan.merge
    if merge.strategy == "custom" and not (merge.function or merge.command):
        message = "The merge is custom, and nothing merges: the results of the last nodes are taken as they are."
        fix = "Add `function: module:function` or `command: [program]` to the merge, or choose another strategy."
        found.warn("plan-custom", message, found.of_plan("merge"), fix)
    if merge.function and merge.command:
        message = "The merge has a function and a command."
        found.wrong("plan-custom", message, found.of_plan("merge"), "Keep one of the two.")
    if merge.strategy == "consensus" and len(plan.nodes) == 1:
        found.warn("plan-unmerged", "One node alone always agrees.", found.of_plan("merge"), "Add nodes, or aggregate.")
    if not (merge.rules or merge.shape) or not all(node.outputs for node in plan.nodes.values()):
        return
    known = {name for node in plan.nodes.values() for name in node.outputs}
    asked = dict.fromkeys(merge.rules, "rule")
    for spec in merge.shape.values():
        if isinstance(spec, Mapping) and isinstance(spec.get("from"), str):
            asked[spec["from"]] = "final output"
    for name, what in asked.items():
        if name.partition(".")[0] not in known:
            message = f"The merge has a {what} of {name}, which no node gives.{found.meant('merge', name, known)}"
            fix = f"Use one of {', '.join(sorted(known)[:12])}."
            found.wrong("plan-field-unknown", message, found.of_plan("merge"), fix)


def _failure(found: Findings, agents: Mapping[str, AgentFacts] | None) -> None:
    fallback = found.plan.failure.fallback
    if fallback and fallback != "partial" and agents is not None and fallback not in agents:
        message = f"The fallback {fallback} is no agent.{found.meant('agent', fallback, (*agents, 'partial'))}"
        fix = f"{_name_one(agents)[:-1]}, or write `partial`, a sentence, or null."
        found.wrong("plan-agent-unknown", message, found.of_plan("failure", "fallback"), fix)


def _workflow(found: Findings) -> None:
    """What a delegation within a workflow should say."""
    plan = found.plan
    if plan.form == "input" and not any(node.outputs or node.deliverables for node in plan.nodes.values()):
        fix = "Add `outputs: {name: type}` to the agents, or write the plan out."
        found.warn("no-deliverable", "Nothing is expected back from any node.", None, fix)
    if len(plan.nodes) < 2 or not (plan.form in TEMPLATES or plan.labels.get("workflow")):
        return
    if plan.budget is None and not any(node.budget for node in plan.nodes.values()):
        fix = "Add `token_budget: 50000` to the plan or to its nodes."
        found.warn("no-budget", "The workflow has no token budget.", None, fix)


# which agent does a node that names none: one that has all the capabilities the node asks for


def match_agents(plan: Plan, agents: Mapping[str, AgentFacts]) -> Plan:
    """The plan with an agent for every node that names none and for which there is one."""
    found = {this: _best(node.capabilities, agents) for this, node in plan.nodes.items() if not node.agent}
    if not any(found.values()):
        return plan
    nodes = {this: replace(node, agent=found[this]) if found.get(this) else node for this, node in plan.nodes.items()}
    return replace(plan, nodes=nodes)


def _best(wanted: Iterable[str], agents: Mapping[str, AgentFacts]) -> str:
    """The agent that has everything wanted and the least beside it, by name where several do; "" for none."""
    needs = _plain(wanted)
    if not needs:
        return ""
    able = [(len(has), name) for name, facts in agents.items() if needs <= (has := _plain(facts.capabilities))]
    return min(able)[1] if able else ""


def _nearest_able(wanted: Iterable[str], agents: Mapping[str, AgentFacts]) -> tuple[str, list[str]]:
    """The agent that has most of what is wanted, and what it lacks; "" where none has any of it."""
    needs = _plain(wanted)
    ranked = [(len(needs - _plain(facts.capabilities)), name) for name, facts in agents.items()]
    lacking, name = min(ranked, default=(len(needs), ""))
    return ("", sorted(needs)) if lacking == len(needs) else (name, sorted(needs - _plain(agents[name].capabilities)))


def _plain(words: Iterable[str]) -> set[str]:
    return {word.strip().lower().replace("_", "-").replace(" ", "-") for word in words}
