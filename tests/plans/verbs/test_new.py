"""`plan new`: a file that passes its own check, is trusted, and never takes the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.plans import read_plan_text
from plans.verbs.house import ran_inside

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir


@pytest.mark.parametrize(
    ("words", "form", "strategy", "nodes"),
    [
        (["--agents", "echo,asker,echo"], "short", "parallel", 3),
        (["--agents", "echo,asker", "--strategy", "pipeline"], "short", "pipeline", 2),
        (["--agents", "echo", "--template", "standard"], "standard", "parallel", 1),
        (["--agents", "echo, asker", "--template", "parallel"], "parallel", "parallel", 2),
        (["--agents", "echo,asker,echo", "--template", "sequential"], "sequential", "sequential", 3),
    ],
)
def test_what_is_written_is_a_good_plan(
    shared: ProjectDir, words: list[str], form: str, strategy: str, nodes: int
) -> None:
    ran = shared.run("plan", "new", "Count the rivers of the atlas", *words, "--json", check=True)
    told = ran.json
    assert (told["schema"], told["form"], told["strategy"], told["nodes"]) == ("overhand.plan/1", form, strategy, nodes)
    assert told["trusted"] is True
    checked = shared.run("plan", "check", told["file"], "--json", check=True).json
    assert (checked["problems"], checked["form"]) == ([], form)
    assert shared.run("plan", "run", told["file"], "--dry-run", check=True).code == 0
    assert shared.run("trust", told["file"], "--yes").out == "Everything is trusted already.\n"


def test_agents_are_found_by_their_capabilities(own: ProjectDir) -> None:
    for name, able in (("guard", "security-analysis"), ("racer", "performance-analysis"), ("poet", "verses")):
        path = own.agent(name, "output")
        path.write_text(path.read_text().replace("overhand:", f"capabilities: [{able}]\noverhand:"))
    told = own.run("plan", "new", "Review the shop for security and performance", "--json", check=True).json
    assert (told["agents"], told["why"]) == (["guard", "racer"], "their capabilities fit the task")


def test_without_a_fitting_agent_somebody_must_be_named(shared: ProjectDir) -> None:
    ran = shared.run("plan", "new", "Bake bread", "--json")
    assert (ran.code, "--agents" in ran.json["error"]["hint"]) == (2, True)


def test_unknown_agents_are_told_all_at_once(shared: ProjectDir) -> None:
    ran = shared.run("plan", "new", "Count them", "--agents", "ecko,zzz,echo", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "AGENT_NOT_FOUND")
    assert "'ecko'. Did you mean echo?" in ran.json["error"]["message"]
    assert ran.json["error"]["missing"] == ["ecko", "zzz"]


def test_nothing_is_overwritten(own: ProjectDir) -> None:
    first = own.run("plan", "new", "Count the rivers", "--agents", "echo", "--json", check=True).json["file"]
    second = own.run("plan", "new", "Count the rivers", "--agents", "echo", "--json", check=True).json["file"]
    assert (first, second) == (".overhand/plans/count-the-rivers.yaml", ".overhand/plans/count-the-rivers-2.yaml")
    (own.path / "mine.yaml").write_text("mine\n")
    (own.path / "link.yaml").symlink_to("nowhere.yaml")
    for name in ("mine.yaml", "link.yaml"):
        ran = own.run("plan", "new", "Count the rivers", "--agents", "echo", "--out", name, "--json")
        assert (ran.code, "is there already" in ran.json["error"]["message"]) == (3, True)
    assert (own.path / "mine.yaml").read_text() == "mine\n"
    assert not (own.path / "nowhere.yaml").exists()
    assert own.run("plan", "new", "x", "--agents", "echo", "--out", ".").code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["", "--agents", "echo"],
        ["x" * 3000, "--agents", "echo"],
        ["x", "--agents", ","],
        ["x", "--agents", "echo,asker", "--template", "standard"],
        ["x", "--agents", "echo", "--template", "parallel", "--strategy", "pipeline"],
        ["x", "--template", "round"],
    ],
)
def test_what_cannot_be_written(shared: ProjectDir, words: list[str]) -> None:
    ran = shared.run("plan", "new", *words, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "VALIDATION_FAILED")
    assert ran.json["error"]["hint"]


def test_what_an_agent_has_written_is_not_trusted(own: ProjectDir) -> None:
    code, told = ran_inside(own, "plan", "new", "Count the rivers", "--agents", "echo", "--out", "theirs.yaml")
    assert (code, told["trusted"]) == (0, False)
    ran = own.run("plan", "run", "theirs.yaml", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (3, "NOT_TRUSTED")


def test_a_dash_prints_it_and_writes_nothing(shared: ProjectDir) -> None:
    ran = shared.run("plan", "new", "Count the rivers of the atlas", "--agents", "echo,asker", "--out", "-", check=True)
    found = read_plan_text(ran.out)
    assert found.ok
    assert found.plan is not None
    assert [node.agent for node in found.plan.nodes.values()] == ["echo", "asker"]
    (shared.path / "printed.yaml").write_text(ran.out)
    drawn = shared.run("plan", "graph", "printed.yaml", "--format", "dot", "--out", "-", check=True)
    assert drawn.out.startswith("digraph")
    assert not (shared.path / "-").exists()
