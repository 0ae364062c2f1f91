"""A host delegates, waits, answers and stops through MCP; what is a person's to decide it cannot do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_server.desk import ERAS, call, refusal, talk
from overhand.mcp.tools import FOR_HOSTS, FOR_RUNS
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import Client

    from overhand.testing.project import ProjectDir

AGENTS = {
    "worker": ("output",),
    "asker": ("overhand-ask:Which colour?=red|blue", "output"),
    "sleeper": ("sleep:60", "output"),
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("house") / "p", AGENTS, config='default_agent = "worker"\n')
    try:
        yield project
    finally:
        project.cleanup()


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_of_a_host_are_typed(house: ProjectDir, era: str) -> None:
    async def about(client: Client) -> None:
        tools = (await client.list_tools()).tools
        names = ["delegate", "status", "wait", "result", "answer", "inbox", "stop", "agents", "plan_run"]
        assert [tool.name for tool in tools] == names
        for tool in tools:
            assert tool.description
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
            assert "next" in tool.output_schema["required"]
        assert client.session.protocol_version == ("2025-11-25" if era == "legacy" else era)

    talk(house, era, about)


@pytest.mark.parametrize("era", ERAS)
def test_delegated_waited_for_and_judged(house: ProjectDir, era: str) -> None:
    seen: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async def about(client: Client) -> None:
        made = await call(client, "delegate", title="Write the release notes", deliverable=["notes in the answer"])
        assert made["agent"] == "worker"
        assert f"Task {made['handle']} is accepted" in made["next"]
        found = await client.call_tool("wait", {"id": [made["handle"]]}, progress_callback=progress)
        judged = found.structured_content
        assert (judged["status"], judged["verification"], judged["pending"]) == ("completed", "none", False)
        assert "not verified" in judged["next"]
        again = await call(client, "result", id=made["handle"])
        assert again["summary"] == "Did the scripted work."
        everything = await call(client, "status")
        assert everything["counts"]["done"] >= 1, "the host that asked for it has it"
        agents = await call(client, "agents")
        assert {"worker", "asker"} <= {row["name"] for row in agents["agents"]}

    talk(house, era, about)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("era", ERAS)
def test_a_question_ends_the_waiting_and_is_answered(house: ProjectDir, era: str) -> None:
    async def about(client: Client) -> None:
        made = await call(client, "delegate", title="Paint the house", agent="asker")
        asked = await call(client, "wait", id=made["handle"])
        assert asked["pending"] is True
        assert [one["question"] for one in asked["questions"]] == ["Which colour?"]
        assert "asks something" in asked["next"]
        waiting = await call(client, "inbox")
        mine = next(row for row in waiting["tasks"] if row["handle"] == made["handle"])
        assert mine["questions"][0]["options"] == ["red", "blue"]
        given = await call(client, "answer", id=made["handle"], text="blue")
        assert given["answer"] == "blue"
        judged = await call(client, "wait", id=made["handle"])
        assert judged["status"] == "completed"
        twice = await refusal(client, "answer", id=made["handle"], seq=1, text="red")
        assert twice["code"] == "REFUSED"

    talk(house, era, about)


def test_waiting_ends_before_a_client_gives_up(house: ProjectDir) -> None:
    async def about(client: Client) -> None:
        made = await call(client, "delegate", title="Sleep for a minute", agent="sleeper")
        found = await call(client, "wait", id=made["handle"])
        assert found["pending"] is True
        assert "Call wait again" in found["next"]
        ended = await call(client, "stop", id=made["handle"], now=True)
        assert ended["tasks"][0]["status"] == "cancelled"

    talk(house, "legacy", about, {"OVERHAND_MCP_BLOCK": "0.5"})


def test_wrong_arguments_are_told_all_at_once(house: ProjectDir) -> None:
    async def about(client: Client) -> None:
        told = await refusal(client, "delegate", agnt="worker", priority="P9", read_only="yes")
        assert told["code"] == "VALIDATION_FAILED"
        assert told["problems"] == [
            "title is missing",
            "there is no argument agnt",
            "priority cannot be 'P9'",
            "read_only must be true or false",
        ]
        assert "title" in told["hint"]
        unknown = await refusal(client, "result", id="99")
        assert unknown["code"] == "TASK_NOT_FOUND"
        nobody = await refusal(client, "delegate", title="Do it", agent="wroker")
        assert nobody["code"] == "AGENT_NOT_FOUND"
        assert "worker" in nobody["message"] + nobody["hint"]

    talk(house, "legacy", about)


# ------------------------------------------------------------------------------------- what is a person's to decide


@pytest.mark.parametrize("name", ["trust", "approve", "item", "init", "clean", "connect", "merge", "finish", "step"])
def test_there_is_no_tool_to_decide_with(house: ProjectDir, name: str) -> None:
    async def about(client: Client) -> None:
        told = await refusal(client, name, id="1", yes=True)
        assert f"no tool {name}" in told["message"]

    talk(house, "legacy", about)


@pytest.mark.parametrize("given", [{"verify": ["true"]}, {"set": ["a=b"]}, {"edit": True}, {"handoff": "/etc/passwd"}])
def test_checks_and_settings_cannot_be_given(house: ProjectDir, given: dict[str, Any]) -> None:
    async def about(client: Client) -> None:
        told = await refusal(client, "delegate", title="Do something", **given)
        assert f"no argument {next(iter(given))}" in told["message"]

    talk(house, "legacy", about)


def test_no_tool_takes_what_only_a_person_may_say() -> None:
    for tool in (*FOR_HOSTS, *FOR_RUNS):
        assert not {"verify", "set", "yes", "edit", "all", "approve", "project"} & set(tool.takes), tool.name


def test_an_untrusted_project_stays_untrusted(tmp_path: Any) -> None:
    project = make_project(tmp_path / "p", AGENTS, config='default_agent = "worker"\n', trust=False)

    async def about(client: Client) -> None:
        told = await refusal(client, "delegate", title="Do something")
        assert told["code"] == "NOT_TRUSTED"

    try:
        talk(project, "legacy", about)
        assert json.loads(project.run("list", "--json").out)["tasks"] == []
    finally:
        project.cleanup()


def test_a_permission_cannot_be_granted(house: ProjectDir) -> None:
    from overhand.questions import Asking, ask_question
    from overhand.record import Store

    project = house
    made = project.run("delegate", "Sleep for long", "--agent", "sleeper", "--json", check=True).json
    store = Store(str(project.path))
    by = {"kind": "person", "user": "test", "via": "test"}
    asking = Asking(text="May it run rm?", options=("allow", "deny"), via="permission")
    ask_question(store, made["task_id"], None, asking, by)

    async def about(client: Client) -> None:
        for given in ({"text": "allow"}, {"text": "allow", "seq": 1}):
            told = await refusal(client, "answer", id=made["handle"], **given)
            assert told["code"] == "APPROVAL_REQUIRED"

    talk(project, "legacy", about)
    shown = project.run("show", str(made["handle"]), "--json").json
    assert shown["questions"][0]["answered"] is None
    project.run("stop", str(made["handle"]), "--now", check=True)
