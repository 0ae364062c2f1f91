"""Every form of a plan is read into one model."""

from __future__ import annotations

import json

import pytest

from overhand.documents import has_errors
from overhand.plans import AgentFacts, Plan, check_plan, formats, read_plan_text
from overhand.plans.yamlsource import load
from plans.reading.examples import (
    AGENTS,
    ALL,
    AUDIT,
    PARALLEL,
    PIPELINE_IN,
    PIPELINE_OUT,
    REVIEW_OUT,
    SEQUENTIAL,
    SHORT,
    STANDARD,
)

FACTS = {name: AgentFacts() for name in AGENTS}


def plan_of(text: str, name: str = "plan.yaml") -> Plan:
    found = read_plan_text(text, name)
    assert found.ok, found.problems
    assert found.plan is not None
    return found.plan


@pytest.mark.parametrize("name", ALL)
def test_the_examples_are_accepted(name: str) -> None:
    found = read_plan_text(ALL[name], f"{name}.yaml")
    assert found.plan is not None
    problems = [*found.problems, *check_plan(found.plan, FACTS, lines=found.lines)]
    assert not has_errors(problems), problems
    assert all(one.line for one in problems)


@pytest.mark.parametrize("name", ALL)
def test_json_says_the_same(name: str) -> None:
    value = load(ALL[name]).value
    for indent in (None, 2):
        as_json = plan_of(json.dumps(value, indent=indent), "plan.json")
        both = [formats.dump(one) for one in (as_json, plan_of(ALL[name]))]
        for one in both:
            for node in one["nodes"]:
                node.pop("at", None)
        assert both[0] == both[1]


def test_output_form() -> None:
    plan = plan_of(REVIEW_OUT)
    assert plan.form == "output"
    assert plan.task == "Look at change #123"
    assert list(plan.nodes) == ["security-review", "perf-review", "style-review"]
    node = plan.nodes["style-review"]
    assert (node.agent, node.timeout, node.needs) == ("style-agent", 180.0, ())
    assert node.inputs == {"pr_number": 123, "files": ["src/**/*.ts"], "focus": "style"}
    assert node.constraints["max_issues"] == 20
    assert node.verification == ("every issue has a place, severity in [low, medium, high, critical]",)
    assert plan.interfaces[0].required == ("issues", "passed")
    assert plan.merge.note.startswith("All issues")
    assert plan.merge.shape["all_issues"] == "array (combined)"
    assert (plan.failure.policy, plan.failure.max_retries, plan.failure.fallback) == ("continue", 1, "")
    assert plan.failure.note.startswith("Give what is there")
    assert plan.context == (("repository", {"owner": "org", "repo": "project"}), ("base_branch", "main"))
    assert plan.told["confidence"] == 0.9
    assert len(plan.notes) == 1
    assert "status" in plan.notes[0]


def test_references_imply_dependencies() -> None:
    plan = plan_of(PIPELINE_OUT.replace('dependencies: ["enrich-data"]', "dependencies: []"))
    assert plan.nodes["store-data"].needs == ("enrich-data",)


def test_an_interface_implies_a_dependency() -> None:
    plan = plan_of(
        PIPELINE_OUT.replace('"${enrich-data.enriched_records}"', '"those"').replace('["enrich-data"]', "[]")
    )
    assert plan.nodes["store-data"].needs == ("enrich-data",)


def test_input_form_chains_a_sequence() -> None:
    plan = plan_of(PIPELINE_IN)
    assert [node.needs for node in plan.nodes.values()] == [(), ("validator",), ("enricher",)]
    assert plan.nodes["enricher"].inputs == {"previous": "${validator}"}
    assert (plan.strategy, plan.merge.strategy) == ("sequential", "sequential")


def test_standard_template() -> None:
    node = plan_of(STANDARD).nodes["codebase-analyzer"]
    assert (node.budget, node.priority) == (12000, "P1")
    assert node.key_files == ("backend/src/handlers/auth.rs", "backend/src/middleware/auth.rs")
    assert node.deliverables == ("A list of weak points with file:line",)
    assert node.context == "current_phase: Audit"


def test_parallel_template() -> None:
    plan = plan_of(AUDIT)
    assert (plan.budget, plan.checkpoint_after, plan.task) == (55000, True, "Audit")
    assert [node.timeout for node in plan.nodes.values()] == [300.0, 480.0, 180.0]
    assert (plan.merge.strategy, plan.merge.note[:12]) == ("aggregate", "Put together")
    assert plan.labels["coordinator"] == "orchestrator"
    assert not any(node.needs for node in plan.nodes.values())


def test_an_agent_may_occur_twice_in_a_template() -> None:
    plan = plan_of(PARALLEL.replace("thoughts-locator", "codebase-locator"))
    assert list(plan.nodes) == ["codebase-locator", "codebase-analyzer", "codebase-locator-2"]
    assert plan.nodes["codebase-locator-2"].agent == "codebase-locator"


def test_sequential_template() -> None:
    plan = plan_of(SEQUENTIAL)
    first, second, third = plan.nodes.values()
    assert second.task == "Find the cause in ${codebase-locator}"
    assert second.inputs == {"step_2_input": "${codebase-locator}"}
    assert (first.needs, second.needs, third.needs) == ((), ("codebase-locator",), ("codebase-analyzer",))


def test_steps_are_taken_by_their_numbers() -> None:
    plan = plan_of(SEQUENTIAL.replace("step: 1", "step: 7").replace("{step_2_input}", "it"))
    assert [node.agent for node in plan.nodes.values()] == ["codebase-analyzer", "orchestrator", "codebase-locator"]


def test_short_form() -> None:
    plan = plan_of(SHORT)
    assert plan.nodes["collect"].verification == ({"expression": "len(data.changes) > 0"},)
    assert plan.nodes["write"].verification == ({"command": "test -s NOTES.md"},)
    assert plan.nodes["write"].needs == ("collect",)
    assert plan.nodes["write"].at == 4
    assert (plan.failure.policy, plan.failure.max_retries) == ("retry", 1)


def test_words_stay_words_and_numbers_that_are_none_stay_texts() -> None:
    values = "{a: no, b: on, c: 2024-01-15, d: 007, e: 1:30, f: 12, g: 1.5, h: true, i: ~, j: 0x1F, k: 1e3}"
    text = f"plan: p\nnodes:\n  a:\n    agent: x\n    task: t\n    inputs: {values}\n"
    assert plan_of(text).nodes["a"].inputs == {
        "a": "no",
        "b": "on",
        "c": "2024-01-15",
        "d": "007",
        "e": "1:30",
        "f": 12,
        "g": 1.5,
        "h": True,
        "i": None,
        "j": "0x1F",
        "k": 1000.0,
    }


def test_anchors_save_writing() -> None:
    text = "plan: p\nnodes:\n  a: &base {agent: x, task: Do this}\n  b: {<<: *base, task: Do the second thing}\n"
    plan = plan_of(text)
    assert (plan.nodes["b"].agent, plan.nodes["b"].task) == ("x", "Do the second thing")


def test_bytes_with_bom_and_crlf() -> None:
    raw = b"\xef\xbb\xbf" + SHORT.replace("\n", "\r\n").encode()
    assert read_plan_text(raw, "plan.yaml").plan == plan_of(SHORT)


def test_merge_and_failure_in_short() -> None:
    text = SHORT.replace(
        "merge: aggregate", "merge: {strategy: custom, command: [jq, .], timeout: 5s, rules: {changes: prefer_last}}"
    )
    merge = plan_of(text).merge
    assert (merge.command, merge.timeout, dict(merge.rules)) == (("jq", "."), 5.0, {"changes": "prefer_last"})
    assert plan_of(SHORT.replace("{policy: retry, max_retries: 1}", "retry")).failure.max_retries == 1
