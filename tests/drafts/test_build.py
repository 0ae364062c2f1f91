"""One builder: the same wish makes the same task, whether it comes as words, as an item or as a node of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand import Project
from overhand.agents import Agent
from overhand.documents import Deliverable, Handoff, parse_handoff
from overhand.drafts import Brief, Draft, brief_from_words, build_draft
from overhand.drafts.brief import compose
from overhand.errors import BadInput, OverhandError, Refused
from overhand.items import approve, items_in_file
from overhand.plans import Plan, node_task
from overhand.plans.model import Node
from overhand.policy import Caller, load_config
from overhand.record import Created, Store, fold

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

WORDS = st.lists(st.sampled_from(("Count", "the", "cats", "in", "`a.txt`", "again,", "é", "x: y")), min_size=1).map(
    " ".join
)
KINDS = st.sampled_from(("fix", "research", "review", "chores", "triage"))
AGENTS = st.builds(
    lambda driver, options: Agent("worker", driver, options=options),
    st.sampled_from(("command", "claude", "function")),
    st.fixed_dictionaries({}, optional={"exclusive": st.booleans(), "can_delegate": st.booleans()}),
)
SETTINGS = """[kinds.triage]
timeout = "3m"
[checks]
tests = "true"
[budget]
task = "9k tokens"
"""
APART = ("item", "node", "plan", "parent", "cause")  # what only one of the sources has


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(title=WORDS, kind=KINDS, agent=AGENTS, number=st.integers(0, 3))
def test_words_items_and_nodes_that_ask_for_the_same_make_the_same_task(
    overhand_project: ProjectDir, title: str, kind: str, agent: Agent, number: int
) -> None:
    overhand_project.config(SETTINGS)
    store, known = Store(str(overhand_project.path)), load_config(str(overhand_project.path))
    note = overhand_project.path / "notes.md"
    note.write_text(f"# Notes\n\n- {title} #needs-{kind} #P{number}\n")
    (place,) = items_in_file(store.root, "notes.md")
    node = Node("n", "worker", task=title, kind=kind, priority=f"P{number}")
    plan = Plan(task="", nodes={"n": node})
    like = fold("plan", [Created(v=1, task="plan", handle=1, path=("user", "plan"), level="full").line])
    defaults = node_task.node_defaults(store, known, plan, like, "", find=lambda _: agent, hint="none")

    def built(brief: Brief) -> dict[str, Any]:
        made = build_draft(brief, agent, Caller(), store, known)
        assert made.handoff == parse_handoff(made.task.handoff)
        return {name: value for name, value in made.task.created.items() if name not in APART}

    by_words = built(brief_from_words({"title": title, "kind": kind, "priority": f"P{number}"}))
    by_item = built(approve.brief_of(store.root, known, place, {"path": place.path}))
    by_node = built(node_task.brief_of(defaults, node, {}, title))
    assert by_words == by_item == by_node
    assert list(by_words) == list(by_item) == list(by_node)  # and in the same order


def test_each_task_of_a_batch_has_its_own_words(overhand_project: ProjectDir) -> None:
    with Project(overhand_project.path) as project:
        project.agent("helper")(lambda call: f"{call.handoff.task}: done.")
        wanted = [
            {"title": title, "agent": "helper"} for title in ("One is to be done", "# Two", "Three is to be done")
        ]
        wanted[2]["kind"] = "review"
        results = [task.wait() for task in project.delegate_all(wanted)]
        assert [result.title for result in results] == ["One is to be done", "Two", "Three is to be done"]
        assert [result.kind for result in results] == [None, None, "review"]
        texts = [(project.root / str(result.json["folder"]) / "HANDOFF.md").read_text() for result in results]
        assert [parse_handoff(text).task for text in texts] == [one["title"] for one in wanted]


def _built(project: ProjectDir, brief: Brief, caller: Caller | None = None, **options: Any) -> Draft:
    agent = Agent("worker", "command", options=options)
    root = str(project.path)
    return build_draft(brief, agent, caller or Caller(), Store(root), load_config(root))


def test_an_item_may_do_no_more_than_its_agent(overhand_project: ProjectDir) -> None:
    handoff = Handoff(task="Mend the roof of it", deliverables=(Deliverable(path="roof.txt"),))
    with pytest.raises(Refused, match="may only read"):
        _built(overhand_project, Brief(kind="fix", handoff=handoff, item={"path": "a.md"}), level="read")
    held = _built(overhand_project, Brief(handoff=handoff, level="full", item={"path": "a.md"}), level="work")
    assert (held.task.created["level"], len(held.notes)) == ("work", 1)


@pytest.mark.parametrize("timeout", [0, -1, 0.0, "0s", "soon", True, [1], float("nan"), 1e9])
def test_a_time_that_is_none_is_refused_however_it_is_given(overhand_project: ProjectDir, timeout: object) -> None:
    with pytest.raises(OverhandError, match="--timeout"):
        _built(overhand_project, brief_from_words({"title": "Count the cats in the yard", "timeout": timeout}))
    held = _built(overhand_project, brief_from_words({"title": "Count the cats in the yard", "timeout": 90}))
    assert held.task.created["timeout"] == 90.0


def test_a_prepared_folder_without_words_is_refused(overhand_project: ProjectDir) -> None:
    with pytest.raises(BadInput, match="The task is empty"):
        _built(overhand_project, Brief(text=""))


def test_what_is_wrong_with_a_document_is_said_with_its_name(overhand_project: ProjectDir) -> None:
    empty = Brief(handoff=Handoff(task=""), name="a.md:3", fix="Write more.")
    with pytest.raises(BadInput, match=r"^a\.md:3: The task is empty\.$") as refused:
        _built(overhand_project, empty)
    assert refused.value.hint == "Write more."


def test_the_projects_budget_counts_unless_one_above_does(overhand_project: ProjectDir) -> None:
    overhand_project.config('[budget]\ntask = "9k tokens"\n')
    store = Store(str(overhand_project.path))
    by = {"kind": "person", "via": "test"}
    brief = Brief(title="Count the cats in the yard")
    above = _built(overhand_project, brief)
    assert above.task.created["budget"] == "9k tokens"
    (parent,) = store.new_tasks([above.task], by, start=False)
    child = Caller(parent.id, "sess_1_a", depth=1, path=("user", "other"))
    assert "budget" not in _built(overhand_project, brief, child).task.created
    assert _built(overhand_project, brief.replace(budget="1k tokens"), child).task.created["budget"] == "1k tokens"


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "~/notes.md"])
def test_a_deliverable_outside_the_project_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="outside the project"):
        compose(Brief(title="Write it down", deliverable=(path,)), str(tmp_path), None)
