"""Plan files that `plan new` writes: read without a problem, whatever the task says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overhand.plans import (
    as_yaml,
    fitting_agents,
    outline_plan,
    plan_document,
    plan_slug,
    plan_template,
    read_plan_text,
    short_plan,
)
from overhand.plans.model import STRATEGIES, TEMPLATES

TASKS = [
    "Review the shop for security and speed",
    'Say "hello": {x} & [y] # z, ${a.b} and $5',
    "- not: a list\n\n  of ---\nthings | > ?",
    "tab\t nul\x00 nel\x85 line\u2028 bom\ufeff half\ud800 emoji😀 日本語",
    "x" * 2000,
    "yes",
    "1.5",
]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_read_as_it_was_meant(template: str, task: str) -> None:
    agents = ["locator"] if template == "standard" else ["locator", "fixer", "locator"]
    found = read_plan_text(plan_template(template, task, agents).encode("utf-8", "replace"), "new.yaml")
    assert found.plan is not None
    assert found.problems == []
    assert found.plan.form == template
    assert [node.agent for node in found.plan.nodes.values()] == agents
    names = list(found.plan.nodes)
    needs = [node.needs for node in found.plan.nodes.values()]
    assert needs == [(), (names[0],), (names[1],)] if template == "sequential" else [()] * len(agents)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_short_form_follows_its_strategy(strategy: str, task: str) -> None:
    outline = outline_plan(task, ["a", "b", "c", "a"], strategy)
    found = read_plan_text(short_plan(outline, "because").encode("utf-8", "replace"), "new.yaml")
    assert found.plan is not None
    assert found.problems == []
    assert list(found.plan.nodes) == ["a", "b", "c", "a-2"]
    needs = {name: node.needs for name, node in found.plan.nodes.items()}
    chain = {"a": (), "b": ("a",), "c": ("b",), "a-2": ("c",)}
    assert (
        needs
        == {
            "parallel": dict.fromkeys(needs, ()),
            "sequential": chain,
            "pipeline": chain,
            "fan-out-fan-in": {"a": (), "b": ("a",), "c": ("a",), "a-2": ("b", "c")},
        }[strategy]
    )
    assert all(node.outputs and node.verification for node in found.plan.nodes.values())
    assert found.plan.merge.strategy == ("aggregate" if strategy == "parallel" else "sequential")


ABLE = {
    "guard": ("security-analysis", "vulnerability-detection"),
    "racer": ("performance-analysis", "profiling"),
    "tidy": ("lint", "style-check"),
    "writer": ("documentation",),
}


@pytest.mark.parametrize(
    ("task", "fit"),
    [
        ("Review pull request #123 for security, performance, and style", ["guard", "racer", "tidy"]),
        ("Profile the parser", ["racer"]),
        ("Look for vulnerabilities; security matters most", ["guard"]),
        ("An analysis and a check", []),
        ("Bake bread", []),
    ],
)
def test_agents_are_matched_by_what_the_task_speaks_of(task: str, fit: list[str]) -> None:
    assert fitting_agents(task, ABLE) == fit


def test_a_file_name_is_free_and_harmless() -> None:
    assert plan_slug("Release: the 2nd Notes, now and for ever") == "release-the-2nd-notes.yaml"
    assert plan_slug("../../etc/passwd") == "etc-passwd.yaml"
    assert plan_slug("日本語") == "plan.yaml"
    assert plan_slug("Go", ["go.yaml", "go-2.yaml"]) == "go-3.yaml"


FULL = """
plan: Everything at once
strategy: pipeline
complexity: 0.5
max_parallel: 2
token_budget: 90000
timeout: 2h
constraints: {tone: calm}
handoff_context: {branch: main, limits: {a: [1, 2]}}
confidence: 0.9
assumptions: [it rains]
nodes:
  a:
    agent: worker
    task: First
    inputs: {n: 3, text: "007"}
    outputs: {rows: "array of {id, name}", ok: {type: boolean}}
    verify: [{command: "make test"}, {exists: out.txt}, "all is well and good"]
    constraints: {timeout: 5m, max_rows: 3}
    writes: [src/**]
    mutates: true
    requires_approval: true
    priority: P1
    token_budget: 20k
    key_files: [README.md]
    deliverable: out.txt
    checkpoint_after: true
  b: {capabilities: [review], task: "Second, from ${a.rows}", outputs: {ok: boolean}, verify: "data.ok", timeout: 30}
interfaces:
  - {from: a, to: b, format: {rows: array}, required_fields: [id]}
merge:
  {strategy: aggregate, rule: prefer_last, rules: {ok: fail}, dedupe: false, final_output_format: {all_rows: array}}
on_failure: {policy: continue, max_retries: 2, fallback: worker}
"""


def test_the_output_form_says_all_of_it_again() -> None:
    """What `plan show --format yaml` writes is the same plan."""
    first = read_plan_text(FULL, "full.yaml")
    assert first.plan is not None
    assert not [one for one in first.problems if one.level == "error"]
    rows = {"a": {"status": "completed", "result": {"ok": True}}}
    again = read_plan_text(as_yaml(plan_document(first.plan, "running", rows)), "again.yaml")
    assert again.plan is not None
    assert not [one for one in again.problems if one.level == "error"]
    for name, node in first.plan.nodes.items():
        assert replace(again.plan.nodes[name], at=node.at) == node
    same = ("task", "merge", "failure", "context", "constraints", "strategy", "complexity", "max_parallel", "budget")
    assert all(getattr(first.plan, f) == getattr(again.plan, f) for f in (*same, "timeout"))
    assert {key: again.plan.told[key] for key in ("confidence", "assumptions")} == {
        "confidence": 0.9,
        "assumptions": ["it rains"],
    }


def test_states_and_results_are_real_ones() -> None:
    plan = read_plan_text(FULL, "full.yaml").plan
    assert plan is not None
    text = as_yaml(
        plan_document(plan, "partial", {"a": {"status": "failed", "result": None}, "b": {"result": {"ok": True}}})
    )
    made = plan_document(
        plan, "partial", {"a": {"status": "failed"}, "b": {"status": "completed", "result": {"ok": True}}}
    )
    assert made["delegation"]["status"] == "partial"
    assert [(one["id"], one["status"], one["result"]) for one in made["subtasks"]] == [
        ("a", "failed", None),
        ("b", "completed", {"ok": True}),
    ]
    assert "&id" not in text, "no aliases"
