"""Small plans for the tests of the pure package."""

from __future__ import annotations

from typing import Any

from overhand.plans import Plan
from overhand.plans.combine import NodeResult
from overhand.plans.model import Interface, Merge, Node

ISSUES = "array of {severity, file, line, description}"


def plan(*nodes: Node, interfaces: tuple[Interface, ...] = (), **more: Any) -> Plan:
    """A plan of these nodes."""
    return Plan("A plan", {one.id: one for one in nodes}, interfaces, **more)


def voters(strategy: str, *names: str, **more: Any) -> Plan:
    """A plan of independent nodes."""
    return plan(*(Node(name, "worker") for name in names), merge=Merge(strategy, **more))


def result(id: str, data: Any, **more: Any) -> NodeResult:
    """What a node that completed gave back."""
    return NodeResult(id, more.pop("status", "completed"), data=data, **more)


def review() -> Plan:
    """The parallel code review: three reviewers, aggregated."""
    outputs = {"issues": ISSUES, "passed": "boolean"}
    nodes = (
        Node("security-review", "security-agent", outputs={**outputs, "summary": "string"}),
        Node("perf-review", "perf-agent", outputs={**outputs, "metrics": "object with timing estimates"}),
        Node("style-review", "style-agent", outputs=outputs),
    )
    shape = {
        "all_issues": "array (combined)",
        "passed": "boolean (all must pass)",
        "summary": "string (generated)",
    }
    note = "Combine all issues, AND passed flags"
    edge = Interface("all_subtasks", "merge", {"issues": "array", "passed": "boolean"}, ("issues", "passed"))
    return plan(*nodes, interfaces=(edge,), merge=Merge("aggregate", note, shape=shape))


def pipeline() -> Plan:
    """The sequential data pipeline: validate, enrich, store."""
    nodes = (
        Node(
            "validate-data",
            "validator",
            inputs={"data": "raw customer records"},
            outputs={"valid_records": "array of validated records", "invalid_records": "array with error reasons"},
            constraints={"schema": "customer_v2"},
            verification=("All valid_records match schema",),
        ),
        Node(
            "enrich-data",
            "enricher",
            needs=("validate-data",),
            inputs={"records": "${validate-data.valid_records}"},
            outputs={"enriched_records": "array with added fields"},
            constraints={"enrich_fields": ["company_size", "industry"]},
        ),
        Node(
            "store-data",
            "persister",
            needs=("enrich-data",),
            inputs={"records": "${enrich-data.enriched_records}"},
            outputs={"stored_count": "integer", "storage_location": "string"},
        ),
    )
    fields = ("id", "name", "email")
    edges = (
        Interface("validate-data", "enrich-data", {"records": "array of customer objects"}, fields),
        Interface(
            "enrich-data",
            "store-data",
            {"records": "array of enriched customer objects"},
            (*fields, "company_size", "industry"),
        ),
    )
    shape = {"processed": "integer", "stored": "integer", "errors": "array"}
    return plan(*nodes, interfaces=edges, merge=Merge("custom", "N/A - sequential pipeline", shape=shape))
