"""A running agent marks steps, asks, delegates, saves and returns through MCP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_server.desk import ERAS
from support.scene import until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

CALLER = str(Path(__file__).with_name("caller.py"))
TOOLS = ["handoff", "step", "ask", "checkpoint", "delegate", "finish", "plan_run"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "p", config='default_agent = "worker"\n')
    try:
        yield project
    finally:
        project.cleanup()


def does(project: ProjectDir, *calls: tuple[str, dict[str, Any]], era: str = "legacy", block: str = "20") -> None:
    """The agent `caller` makes these calls in its run."""
    project.agent("caller", command=[sys.executable, CALLER, era, block, json.dumps(calls)])


def results(project: ProjectDir) -> list[Any]:
    found: list[Any] = json.loads((project.path / "results.json").read_text())
    return found


@pytest.mark.parametrize("era", ERAS)
def test_a_whole_run_through_the_tools(house: ProjectDir, era: str) -> None:
    returned = {
        "status": "completed",
        "summary": "It is painted.",
        "decision": ["Blue=was told so"],
        "for_primary": "Mind the wet paint.",
        "data": {"colour": "blue"},
    }
    does(
        house,
        ("handoff", {}),
        ("step", {"step": "1", "state": "done"}),
        ("step", {}),
        ("checkpoint", {"reason": "half way"}),
        ("finish", returned),
        era=era,
    )
    shown = house.run("delegate", "Paint it", "--agent", "caller", "--step", "Choose", "--wait", "--json").json
    assert (shown["status"], shown["problems"]) == ("completed", [])
    assert shown["data"] == {"colour": "blue"}
    assert shown["decisions"] == [{"what": "Blue", "why": "was told so"}]
    assert shown["for_primary"] == "Mind the wet paint."
    tools, handoff, step, plan, saved, done = results(house)
    assert tools == TOOLS
    assert "Paint it" in handoff["text"]
    assert handoff["steps"] == [{"n": 1, "text": "Choose", "state": "open"}]
    assert step["step"]["state"] == "done"
    assert plan["progress"] == {"done": 1, "total": 1}
    assert "finish" in plan["next"]
    assert saved["checkpoint_id"].startswith("ckpt_")
    assert "End your turn now" in done["next"]


@pytest.mark.parametrize("era", ERAS)
def test_a_question_is_asked_again_until_it_is_answered(house: ProjectDir, era: str) -> None:
    does(
        house,
        ("ask", {"question": "Which colour?", "option": ["red", "blue"]}),
        ("finish", {"status": "completed", "summary": "Blue it is."}),
        era=era,
        block="0.5",
    )
    made = house.run("delegate", "Paint", "--agent", "caller", "--json", check=True)
    until((house.path / "pending").exists, "the file pending")
    house.run("answer", str(made.json["handle"]), "blue", check=True)
    assert house.run("wait", str(made.json["handle"]), "--json").json["status"] == "completed"
    _, first, last, _ = results(house)
    assert (first["pending"], first["answer"], first["seq"]) == (True, None, 1)
    assert "again: 1" in first["next"]
    assert (last["pending"], last["answer"]) == (False, "blue")


def test_a_part_is_handed_on_and_its_result_comes_back(house: ProjectDir) -> None:
    does(
        house,
        ("delegate", {"title": "Mix the paint", "agent": "worker", "wait": True}),
        ("finish", {"status": "completed", "summary": "Mixed and painted."}),
    )
    shown = house.run("delegate", "Paint", "--agent", "caller", "--wait", "--json").json
    assert shown["status"] == "completed"
    child = next(told for told in results(house)[1:] if told.get("status"))
    assert (child["agent"], child["status"], child["pending"]) == ("worker", "completed", False)
    assert len(house.run("list", "--json").json["tasks"]) == 2


def test_what_is_wrong_with_a_return_is_told_at_once_and_nothing_is_written(house: ProjectDir) -> None:
    bad = {"status": "completed", "summary": "All there.", "deliverable": ["no.txt=none"], "modified": ["nor.txt=none"]}
    does(
        house,
        ("finish", bad),
        ("finish", {"status": "partial", "summary": "Not all there.", "for_primary": "no.txt could not be made."}),
    )
    shown = house.run("delegate", "Write it", "--agent", "caller", "--deliverable", "no.txt", "--wait", "--json").json
    assert shown["status"] == "partial"
    refused = results(house)[1]["error"]
    assert refused["code"] == "VALIDATION_FAILED"
    codes = [problem["code"] for problem in refused["problems"]]
    assert codes == ["deliverable-missing", "file-missing"]
    assert "partial" in refused["hint"]


def test_inside_a_run_nothing_of_a_host_is_there(house: ProjectDir) -> None:
    names = ["answer", "stop", "status", "trust", "approve"]
    does(house, *((name, {"id": "1", "text": "yes"}) for name in names), ("handoff", {}))
    house.run("delegate", "Try it", "--agent", "caller", "--wait", "--json")
    told = results(house)[1:-1]
    assert [one["error"]["message"] for one in told] == [f"There is no tool {name}." for name in names]


def test_finish_in_a_shell_and_as_a_verb(house: ProjectDir) -> None:
    refused = house.run("finish", "--status", "completed", "--summary", "Done.", "--json")
    assert refused.code == 2
    words = ["finish", "--status", "completed", "--summary", "Done by a verb.", "--decision", "Short=it was enough"]
    house.agent("verb", command=[sys.executable, "-m", "overhand", *words, "--data", '{"n": 1}'])
    shown = house.run("delegate", "Do it", "--agent", "verb", "--wait", "--json").json
    assert (shown["status"], shown["summary"], shown["data"]) == ("completed", "Done by a verb.", {"n": 1})
    house.agent("empty", command=[sys.executable, "-m", "overhand", "finish", "--status", "completed"])
    empty = house.run("delegate", "Do it", "--agent", "empty", "--wait", "--json").json
    assert empty["status"] == "failed"
    assert "summary" in (house.path / empty["run_folder"] / "stderr").read_text()
