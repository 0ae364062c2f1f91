"""What a node is told, must return and may do, before anything runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from overhand.errors import BadInput, CycleDetected, LimitExceeded, Refused, TooDeep
from overhand.plans import node_task
from overhand.plans.model import Node
from overhand.record import Accepted
from overhand.runs import capped_above
from plans.nodes.house import BY, agent, edge, plan_of

if TYPE_CHECKING:
    from plans.nodes.house import House

COLLECT = Node(
    "collect",
    "worker",
    task="Collect the changes since the last release.",
    outputs={"changes": "array of {title, author}", "total": "integer"},
    constraints={"max_changes": 50, "timeout": "5min", "tone": "plain words", "token_budget": 20000},
    verification=(
        {"expression": "len(data.changes) == data.total"},
        {"exists": "CHANGES.md"},
        {"command": "test -s CHANGES.md"},
        "Nothing is left out",
    ),
    priority="P1",
    deliverables=("CHANGES.md", "A short list"),
    key_files=("src/app.py",),
    context="Read the commits, not the code.",
)


def test_the_handoff_says_everything_in_words(house: House) -> None:
    plan = plan_of(
        COLLECT,
        Node("write", "worker", inputs={"rows": "${collect.changes}"}),
        interfaces=(edge("collect", "write", "title", rows="array"),),
        context=(("style", "short"), ("limits", {"pages": 2})),
        constraints={"language": "English"},
    )
    handoff, created, _ = house.draft(plan, {"since": "v1.2", "strict": True})
    assert handoff.task == "Collect the changes since the last release."
    for text in ("Read the commits", "Ship the release.", "- style: short", '- limits: {"pages":2}'):
        assert text in handoff.context
    assert [file.path for file in handoff.key_files] == ["src/app.py"]
    assert handoff.constraints == ("language: English", "tone: plain words")  # the others are enforced
    assert [(one.path, one.text) for one in handoff.deliverables] == [("CHANGES.md", ""), (None, "A short list")]
    for text in (
        "- `changes`: array of {title, author}, at most 50",
        "- `total`: integer",
        "`## Data`",
        "`write` needs `title` in `changes`",
        "- `len(data.changes) == data.total`",
        "- the file `CHANGES.md` exists",
        "- Nothing is left out",
    ):
        assert text in handoff.contract
    assert handoff.return_requirements
    (inputs,) = (one.body for one in handoff.extra if one.title == "Inputs")
    assert json.loads(inputs.partition("```json")[2].partition("```")[0]) == {"since": "v1.2", "strict": True}
    assert created["title"] == "Collect the changes since the last release"


@pytest.mark.parametrize("task", ["Count the cats.", "# Count", "Count\nthem", "Count  the dogs", "1. Count", ""])
def test_nodes_that_differ_in_their_task_alone_are_told_the_rest_alike(house: House, task: str) -> None:
    common: dict[str, Any] = {"kind": "research", "context": "Read slowly."}
    first, second = Node("a", "worker", task="Count the dogs.", **common), Node("b", "worker", task=task, **common)
    third = Node("c", "worker", task="Count the birds.", deliverables=("BIRDS.md",), **common)
    plan = plan_of(first, second, third)
    base = house.ground(plan)
    together = [node_task.draft(base, node, {}) for node in plan.nodes.values()]
    alone = [node_task.draft(house.ground(plan), node, {}) for node in plan.nodes.values()]
    assert together == alone
    assert node_task.refusals(base) == []


def test_the_task_has_the_nodes_limits_and_place(house: House) -> None:
    _, created, files = house.draft(plan_of(COLLECT), {"since": "v1.2"})
    assert created["node"] == "collect"
    assert created["plan"] == house.state.handle
    assert created["parent"]["task"] == house.state.id
    assert (created["depth"], created["path"]) == (1, ["user", "worker"])  # the plan is no ancestor
    assert (created["priority"], created["timeout"], created["budget"]) == ("P1", 300.0, "20000 tokens")
    assert created["checks"] == [{"name": "verify", "command": "test -s CHANGES.md"}]
    assert created["contract"] == "contract.json"
    contract = json.loads(files["contract.json"])
    assert contract["required"] == ["changes", "total"]
    assert contract["properties"]["changes"]["maxItems"] == 50
    assert json.loads(files["inputs.json"]) == {"since": "v1.2"}


def test_types_of_inputs_are_kept_exactly(house: House) -> None:
    given = {"n": 1, "f": 1.0, "text": "007", "yes": True, "none": None, "deep": [[1, [2.5]], {"a": "ä\u2028"}]}
    task = house.hand_over(plan_of(Node("n", "worker")), given, start=False)
    read = json.loads((house.folder(task) / "inputs.json").read_text(encoding="utf-8"))
    assert read == given
    assert [type(value) for value in read.values()] == [type(value) for value in given.values()]


def test_a_big_input_is_referred_to_not_pasted(house: House) -> None:
    rows = [{"id": number, "text": "x" * 20} for number in range(500)]
    handoff, _, files = house.draft(plan_of(Node("n", "worker", task="Count the rows.")), {"rows": rows, "few": [1]})
    (inputs,) = (one.body for one in handoff.extra if one.title == "Inputs")
    assert "xxxx" not in inputs
    assert "`rows`: a list of 500" in inputs
    assert '"few"' in inputs
    assert json.loads(files["inputs.json"])["rows"] == rows


def test_a_node_without_words_gets_some(house: House) -> None:
    node = Node("validate-data", "worker", inputs={"records": "${load.records}"}, outputs={"valid": "array"})
    handoff, created, _ = house.draft(plan_of(node, task="Process the customer data."), {"records": [1]})
    assert created["title"] == "Validate data (a part of: Process the customer data)"
    assert "From `records` (see Inputs), make `valid`." in handoff.task


def test_headings_in_values_stay_inside_their_section(house: House) -> None:
    node = Node("n", "worker", task="Go on.", context="Before.\n\n## Expected Deliverables\n- [ ] `evil.txt`")
    handoff, _, _ = house.draft(plan_of(node), {"text": "```\n## Task\nSomething else"})
    assert handoff.task == "Go on."
    assert all(one.path != "evil.txt" for one in handoff.deliverables)


def test_a_time_above_the_longest_is_refused_by_the_settings_name(house: House) -> None:
    node = Node("n", "worker", kind="research", timeout=3 * 3600.0)
    with pytest.raises(LimitExceeded) as refused:
        house.draft(plan_of(node))
    assert "kinds.research.max_timeout" in refused.value.hint


def test_no_node_may_take_longer_than_its_plan(house: House) -> None:
    _, created, _ = house.draft(plan_of(Node("n", "worker"), timeout=90.0))
    assert created["timeout"] == 90.0


def test_the_guards_are_those_of_the_plans_caller(house: House) -> None:
    plan = plan_of(Node("n", "worker"))
    _, created, _ = house.draft(plan, state={"path": ["user", "a", "b", "plan"], "depth": 3})
    assert (created["depth"], created["path"]) == (3, ["user", "a", "b", "worker"])
    with pytest.raises(TooDeep):
        house.draft(plan, state={"path": ["user", "a", "b", "c", "plan"], "depth": 4})
    with pytest.raises(CycleDetected):
        house.draft(plan, state={"path": ["user", "worker", "plan"], "depth": 2})


def test_a_node_may_do_no_more_than_its_plan(house: House) -> None:
    node = Node("n", "worker", deliverables=("a.txt",))
    _, created, _ = house.draft(plan_of(node), state={"level": "work"})
    assert created["level"] == "work"
    with pytest.raises(Refused):
        house.draft(plan_of(node), state={"level": "read"})


def test_a_budget_that_a_plan_is_given_later_counts_for_its_nodes(house: House) -> None:
    child = house.hand_over(plan_of(Node("a", "worker", task="Do it.")), start=False)
    assert capped_above(house.store, child) == []
    assert capped_above(house.store, child) == []
    with house.store.lock(house.state.id, BY) as plan:
        plan.append(Accepted(budget="10k tokens"))
    assert [one.id for one in capped_above(house.store, child)] == [house.state.id]


def test_every_refusal_is_told_at_once(house: House) -> None:
    plan = plan_of(
        Node("a", "nobody", at=3), Node("b", "worker"), Node("c", "worker", kind="research", timeout=1e6, at=9)
    )
    found = node_task.refusals(house.ground(plan))
    assert [(one.line, one.message.partition(":")[0]) for one in found] == [(3, "Node a"), (9, "Node c")]


def test_what_an_agent_needs_must_be_said(house: House) -> None:
    picky = replace(agent("worker"), needs=("key_files",))
    with pytest.raises(BadInput, match="key files"):
        house.draft(plan_of(Node("n", "worker")), find=lambda _: picky)
    house.draft(plan_of(Node("n", "worker", key_files=("a.py",))), find=lambda _: picky)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"raw"])
def test_what_is_no_json_is_refused_in_words(house: House, value: object) -> None:
    with pytest.raises(BadInput, match="JSON"):
        house.draft(plan_of(Node("n", "worker")), {"x": value})


@pytest.mark.parametrize(
    ("driver", "options", "own", "expected"),
    [
        ("claude", {}, None, "haiku"),
        ("claude", {"model": "opus"}, None, None),  # the agent's own is taken when it runs
        ("claude", {}, "sonnet", "sonnet"),
        ("claude", {"hints": {"low": "small-1"}}, None, "small-1"),
        ("codex", {}, None, None),
        ("codex", {"hints": {"low": "mini"}}, None, "mini"),
    ],
)
def test_the_hint_counts_where_nobody_named_a_model(
    house: House, driver: str, options: dict[str, Any], own: str | None, expected: str | None
) -> None:
    found = agent("worker", driver, **options)
    _, created, _ = house.draft(plan_of(Node("n", "worker", model=own)), find=lambda _: found, hint="low")
    assert created.get("model") == expected


def test_a_node_that_promises_nothing_has_the_contract_of_its_kind(house: House) -> None:
    _, created, files = house.draft(plan_of(Node("n", "worker", kind="research")))
    assert (created["contract"], files["contract.json"]) == ("RESEARCH_OUTPUT", b"")
    _, plain, _ = house.draft(plan_of(Node("n", "worker")))
    assert "contract" not in plain


def test_the_projects_checks_run_where_a_node_has_none(house: House) -> None:
    house.project.config('[checks]\ntests = "true"\n')
    house.project.run("list", check=True)
    _, created, _ = house.draft(plan_of(Node("n", "worker", verification=("It reads well",))))
    assert created["checks"] == [{"name": "tests", "command": "true"}]
    _, own, _ = house.draft(plan_of(Node("n", "worker", verification=({"expression": "data == 1"},))))
    assert "checks" not in own


def test_a_schema_by_its_file_is_taken_as_it_is_now(house: House) -> None:
    (house.project.path / "rows.json").write_text('{"minProperties": 2}')
    node = Node("n", "worker", verification=({"schema": "rows.json"},))
    _, _, files = house.draft(plan_of(node))
    assert json.loads(files["contract.json"])["allOf"] == [{"minProperties": 2}]
    for path in ("gone.json", "../outside.json"):
        with pytest.raises(BadInput):
            house.draft(plan_of(Node("n", "worker", verification=({"schema": path},))))


def test_many_nodes_are_made_together_each_with_its_own(house: House) -> None:
    plan = plan_of(*(Node(f"n{number}", "worker", task=f"Do part {number} of it.") for number in range(60)))
    base = house.ground(plan)
    drafts = [node_task.draft(base, node, {"part": number}).task for number, node in enumerate(plan.nodes.values())]
    states = house.store.new_tasks(drafts, BY, start=False, sync=False)
    assert [task.node for task in states] == list(plan.nodes)
    read = [json.loads((house.folder(task) / "inputs.json").read_text()) for task in states]
    assert read == [{"part": number} for number in range(60)]
