"""Who does a node that names no agent: somebody who has all the capabilities it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from overhand.plans.model import Plan


class AgentFacts(NamedTuple):
    """What a plan needs to know of an agent."""

    capabilities: tuple[str, ...] = ()


def match(plan: Plan, agents: Mapping[str, AgentFacts]) -> Plan:
    """The plan with an agent for every node that names none and for which there is one."""
    found = {this: best(node.capabilities, agents) for this, node in plan.nodes.items() if not node.agent}
    if not any(found.values()):
        return plan
    nodes = {this: replace(node, agent=found[this]) if found.get(this) else node for this, node in plan.nodes.items()}
    return replace(plan, nodes=nodes)


def best(wanted: Iterable[str], agents: Mapping[str, AgentFacts]) -> str:
    """The agent that has everything wanted and the least beside it, by name where several do; "" for none."""
    needs = _plain(wanted)
    if not needs:
        return ""
    able = [(len(has), name) for name, facts in agents.items() if needs <= (has := _plain(facts.capabilities))]
    return min(able)[1] if able else ""


def nearest_able(wanted: Iterable[str], agents: Mapping[str, AgentFacts]) -> tuple[str, list[str]]:
    """Who has most of what is wanted, and what he lacks; "" where nobody has any of it."""
    needs = _plain(wanted)
    ranked = [(len(needs - _plain(facts.capabilities)), name) for name, facts in agents.items()]
    lacking, name = min(ranked, default=(len(needs), ""))
    return ("", sorted(needs)) if lacking == len(needs) else (name, sorted(needs - _plain(agents[name].capabilities)))


def _plain(words: Iterable[str]) -> set[str]:
    return {word.strip().lower().replace("_", "-").replace(" ", "-") for word in words}
