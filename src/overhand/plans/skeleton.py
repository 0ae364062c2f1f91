"""`plan new`: a plan file to start from, valid as it stands, with a comment where a person has to say more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from overhand.plans.model import RESERVED, Node, Plan

_HEAD = """\
# {what} Say in each `task` what exactly is to be done; the rest may stay.
# check it: overhand plan check FILE     run it: overhand plan run FILE --wait
"""


_UNWRITABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")  # lone surrogates and noncharacters
_SPECIAL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def fitting_agents(task: str, agents: Mapping[str, Sequence[str]]) -> list[str]:
    """The agents one of whose capabilities the task speaks of, the best ones first."""
    spoken = _words(task)
    rated = {name: sum(_speaks_of(spoken, one) for one in able) for name, able in agents.items()}
    return [name for name, points in sorted(rated.items(), key=lambda one: -one[1]) if points]


def _words(text: str) -> set[str]:
    return {word.lower() for word in "".join(c if c.isalnum() else " " for c in text).split() if len(word) > 2}


def _speaks_of(spoken: set[str], capability: str) -> bool:
    """`security-analysis` is spoken of by «security»; a general word such as «analysis» alone does not count."""
    first = [word for word in _words(capability) if word not in _GENERAL]
    return bool(first) and all(any(_same(word, one) for one in spoken) for word in first)


_GENERAL = {"analysis", "check", "detection", "review", "work", "task", "tasks", "and", "the", "for"}


def _same(one: str, other: str) -> bool:
    """`profiling` and «profile», `tests` and «test»: the same but for the end."""
    if one == other:
        return True
    begin = min(len(one), len(other)) - (2 if min(len(one), len(other)) > 5 else 0)
    return begin > 3 and one[:begin] == other[:begin] and abs(len(one) - len(other)) <= 4


def outline_plan(task: str, agents: Sequence[str], strategy: str = "") -> Plan:
    """The nodes that these agents become, and which waits for which."""
    names = _named(agents)
    rows = enumerate(zip(names, agents, strict=True))
    nodes = {name: Node(name, agent, task, needs=_before(names, at, strategy)) for at, (name, agent) in rows}
    return Plan(task, nodes, strategy=strategy)


def _named(agents: Sequence[str]) -> list[str]:
    """A node for each, named after its agent; a second one gets a number."""
    names: list[str] = []
    for agent in agents:
        name, number = agent, 1
        while name in names or name in RESERVED:
            number += 1
            name = f"{agent}-{number}"
        names.append(name)
    return names


def _before(names: Sequence[str], number: int, strategy: str) -> tuple[str, ...]:
    if number == 0 or strategy in ("", "parallel"):
        return ()
    if strategy == "fan-out-fan-in" and len(names) > 2:
        return tuple(names[1:-1]) if number == len(names) - 1 else (names[0],)
    return (names[number - 1],)


def short_plan(plan: Plan, why: str = "") -> str:
    """The short form: one node for each agent, with a result that is checked and handed on."""
    lines = [f"plan: {quoted(plan.task)}"]
    if plan.strategy in ("sequential", "pipeline", "fan-out-fan-in"):
        lines.append(f"strategy: {plan.strategy}")
    lines.append("nodes:")
    for node in plan.nodes.values():
        part = "" if len(plan.nodes) == 1 else f" Your part is that of {node.id}."
        given = "".join(f" Go on from this: ${{{one}.result}}" for one in node.needs)
        lines += [
            f"  {node.id}:",
            f"    agent: {node.agent}",
            f"    task: {quoted(f'{_sentence(node.task)}{part}{given}')}",
            "    outputs: {result: string}            # what it returns: a name and its type for each",
            '    verify: "len(data.result) > 0"       # or {command: "make test"}, {exists: FILE}',
            "    timeout: 30m",
        ]
    needed = {one for node in plan.nodes.values() for one in node.needs}
    has_one_end = len(plan.nodes) > 1 and len(plan.nodes.keys() - needed) == 1  # whose result is then the plan's
    lines.append(f"merge: {'sequential' if has_one_end else 'aggregate'}")
    lines.append("on_failure: {policy: retry, max_retries: 1}")
    return _text(f"A plan, {plan.strategy}{f': {why}' if why else ''}.", *lines)


def plan_template(name: str, task: str, agents: Sequence[str]) -> str:
    return {"standard": _standard, "parallel": _parallel, "sequential": _sequential}[name](task, agents)


def _standard(task: str, agents: Sequence[str]) -> str:
    return _text(
        "One delegation.",
        "delegation:",
        "  from_agent: user",
        f"  to_agent: {agents[0]}",
        "  task:",
        f"    description: {quoted(_sentence(task))}",
        "    scope: []                             # files to begin with",
        '    deliverable: "A report of what was done, with file:line references"',
        "  context:",
        "    token_budget: 200000",
        "    priority: MEDIUM                      # CRITICAL, HIGH, MEDIUM or LOW",
    )


def _parallel(task: str, agents: Sequence[str]) -> str:
    rows = []
    for name, agent in zip(_named(agents), agents, strict=True):
        part = "" if len(agents) == 1 else f" Your part is that of {name}."
        rows += [
            f"    - agent: {agent}",
            f"      task: {quoted(_sentence(task) + part)}",
            f'      expected_output: "The findings of {name}"',
            "      token_budget: 200000",
            "      timeout: 30min",
        ]
    return _text(
        "Delegations that run at the same time.",
        "parallel_delegation:",
        "  coordinator: user",
        "  agents:",
        *rows,
        '  aggregation_strategy: "Wait for all, merge results by priority"',
    )


def _sequential(task: str, agents: Sequence[str]) -> str:
    rows = []
    for number, agent in enumerate(agents, 1):
        given = f" Go on from {{step_{number}_input}}." if number > 1 else ""
        part = "" if len(agents) == 1 else f" This is step {number} of {len(agents)}."
        rows += [
            f"    - step: {number}",
            f"      agent: {agent}",
            f"      task: {quoted(_sentence(task) + part + given)}",
            f'      expected_output: "The result of step {number}"',
            "      token_budget: 200000",
            *([f"      output_to: step_{number + 1}_input"] if number < len(agents) else []),
        ]
    head = ("sequential_delegation:", f"  workflow: {quoted(task)}", "  steps:")
    return _text("Delegations one after the other.", *head, *rows)


def _text(what: str, *lines: str) -> str:
    return _HEAD.format(what=what) + "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """What a person wrote, as a sentence; nothing in it is a reference."""
    flat = " ".join(text.split()).replace("${", "$${")
    return flat if flat.endswith((".", "!", "?")) else f"{flat}."


def quoted(text: str) -> str:
    """A YAML string in one line, whatever is in it."""
    written = json.dumps(" ".join(text.split()), ensure_ascii=False)
    return _SPECIAL.sub(lambda match: f"\\u{ord(match[0]):04X}", _UNWRITABLE.sub(r"\\uFFFD", written))


def plan_slug(task: str, taken: Iterable[str] = ()) -> str:
    """A file's name made from the task's first words, unlike all that are there."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in task.lower()).split()
    base = "-".join(words[:4])[:40].strip("-") or "plan"
    known, name, number = set(taken), base, 1
    while f"{name}.yaml" in known:
        number += 1
        name = f"{base}-{number}"
    return f"{name}.yaml"
