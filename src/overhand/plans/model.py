"""A plan as everything else sees it, whatever form it was written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STRATEGIES = ("parallel", "sequential", "pipeline", "fan-out-fan-in")
POLICIES = ("abort", "continue", "retry")
RESERVED = ("all_subtasks", "merge")
TEMPLATES = ("standard", "parallel", "sequential")  # the forms that are delegation templates


@dataclass(frozen=True, slots=True)
class Node:
    """One delegation of a plan; `at` is its place in the file, for messages."""

    id: str
    agent: str  # the agent's name; "" while none is named nor matched
    task: str = ""
    needs: tuple[str, ...] = ()  # the nodes it waits for, declared or named by a `${…}`, each once
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)  # per field: type words or a JSON Schema
    constraints: Mapping[str, Any] = field(default_factory=dict)
    verification: tuple[Any, ...] = ()  # each a prose string, or a mapping with one of `fields.CHECKS`
    capabilities: tuple[str, ...] = ()
    kind: str | None = None
    model: str | None = None
    priority: str = "P2"
    timeout: float | None = None
    budget: int | None = None  # tokens
    writes: tuple[str, ...] = ()
    mutates: bool = False
    requires_approval: bool = False
    key_files: tuple[str, ...] = ()
    deliverables: tuple[str, ...] = ()
    context: str = ""
    checkpoint_after: bool = False
    at: int = 0  # the line it begins in; 0 where it is not known (yet)


@dataclass(frozen=True, slots=True)
class Interface:
    """What goes from one node (or `all_subtasks`) to another (or `merge`)."""

    source: str
    target: str
    format: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """How results become one."""

    strategy: str = "aggregate"
    note: str = ""  # what the plan says in prose about conflicts
    rule: str = "prefer_first"
    rules: Mapping[str, str] = field(default_factory=dict)  # the rule of single fields
    dedupe: bool = True
    quorum: float = 0.5  # consensus: more than this part of the declared nodes must agree
    function: str = ""  # custom: `module:function`
    command: tuple[str, ...] = ()  # custom: argv, JSON on stdin and stdout
    timeout: float = 60.0
    shape: Mapping[str, Any] = field(default_factory=dict)  # final_output_format


@dataclass(frozen=True, slots=True)
class Failure:
    """What happens when a node fails."""

    policy: str = "abort"
    max_retries: int = 0
    fallback: str = ""  # an agent's name, `partial`, or "" where there is none
    note: str = ""  # a fallback in prose


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan; nodes in the order of the file."""

    task: str
    nodes: Mapping[str, Node]
    interfaces: tuple[Interface, ...] = ()
    merge: Merge = field(default_factory=Merge)
    failure: Failure = field(default_factory=Failure)
    context: tuple[tuple[str, Any], ...] = ()  # handoff_context: keys and values that every node is given
    constraints: Mapping[str, Any] = field(default_factory=dict)
    strategy: str = ""
    complexity: float | None = None  # as the file gives it; None: it is calculated
    max_parallel: int = 0
    budget: int | None = None
    timeout: float | None = None
    checkpoint_after: bool = False
    form: str = "short"  # short, input, output, standard, parallel, sequential
    labels: Mapping[str, str] = field(default_factory=dict)  # coordinator, from_agent, workflow: only shown
    told: Mapping[str, Any] = field(default_factory=dict)  # confidence, assumptions and the like, as in the file
    notes: tuple[str, ...] = ()  # what was read and does not count, such as a status in the file
