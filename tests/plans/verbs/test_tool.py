"""The MCP tool `plan_run`: a plan as text or by its file, judged and typed; what is a person's it cannot do."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_server.desk import ERAS, call, refusal, talk
from plans.verbs.house import BROKEN, TWO, one, put

if TYPE_CHECKING:
    from mcp import Client

    from overhand.testing.project import ProjectDir

COMMAND = '{command: "touch RAN"}'


@pytest.mark.parametrize("era", ERAS)
def test_a_plan_as_text_is_run_and_judged(shared: ProjectDir, era: str) -> None:
    async def about(client: Client) -> None:
        told = await call(client, "plan_run", plan=TWO, wait=True, max_parallel=2)
        assert (told["status"], told["pending"], told["data"]) == ("completed", False, {"m": 7})
        assert [(row["node"], row["state"]) for row in told["nodes"]] == [
            ("first", "completed"),
            ("second", "completed"),
        ]
        assert f"Task {told['handle']}" in told["next"]

    talk(shared, era, about)


def test_a_plan_by_its_file_and_waited_for_later(shared: ProjectDir) -> None:
    put(shared, "two.yaml", TWO)

    async def about(client: Client) -> None:
        begun = await call(client, "plan_run", file="two.yaml")
        assert (begun["state"], begun["agent"]) == ("accepted", "plan")
        told = await call(client, "plan_run", again=begun["handle"], wait=True)
        assert (told["handle"], told["status"]) == (begun["handle"], "completed")
        dry = await call(client, "plan_run", plan=TWO, dry_run=True)
        assert [[row["node"] for row in wave] for wave in dry["waves"]] == [["first"], ["second"]]
        assert dry["next"].startswith("Nothing was run")

    talk(shared, "legacy", about)


def test_progress_tells_of_the_nodes(own: ProjectDir) -> None:
    seen: list[str] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")
        if "only" in seen[-1]:
            (own.path / "GO").touch()

    async def about(client: Client) -> None:
        given = {"plan": one(agent="patient"), "wait": True}
        found = await client.call_tool("plan_run", given, progress_callback=heard)
        assert found.structured_content["status"] == "completed"

    talk(own, "legacy", about)
    assert any("running" in said and "only" in said for said in seen), seen


def test_everything_wrong_is_told_at_once(shared: ProjectDir) -> None:
    before = shared.run("list", "--json").json["tasks"]

    async def about(client: Client) -> None:
        told = await refusal(client, "plan_run", plan=BROKEN)
        codes = {problem["code"] for problem in told["problems"]}
        assert {"plan-cycle", "plan-agent-unknown", "plan-node-unknown"} <= codes
        for wrong in ({}, {"plan": TWO, "file": "two.yaml"}):
            assert (await refusal(client, "plan_run", **wrong))["code"] == "VALIDATION_FAILED"
        assert (await refusal(client, "plan_run", file="nothing.yaml"))["code"] == "FILE_NOT_FOUND"
        unknown = await refusal(client, "plan_run", plan=TWO, set=["a=b"], trust=True)
        assert unknown["problems"] == ["there is no argument set", "there is no argument trust"]

    talk(shared, "legacy", about)
    assert shared.run("list", "--json").json["tasks"] == before


def test_no_command_runs_that_nobody_trusts(own: ProjectDir) -> None:
    put(own, "mine.yaml", one(COMMAND), trusted=False)
    outside = own.path.parent / "outside.yaml"
    outside.write_text(one(COMMAND))

    async def about(client: Client) -> None:
        for given in ({"plan": one(COMMAND)}, {"file": "mine.yaml"}, {"file": str(outside)}):
            told = await refusal(client, "plan_run", **given, wait=True)
            assert (told["code"], told["commands"]) == ("NOT_TRUSTED", ["only checks: touch RAN"])

    talk(own, "legacy", about)
    assert not (own.path / "RAN").exists()
    own.run("trust", "mine.yaml", "--yes", check=True)

    async def now(client: Client) -> None:
        assert (await call(client, "plan_run", file="mine.yaml", wait=True))["verification"] == "passing"

    talk(own, "legacy", now)
    assert (own.path / "RAN").exists()


def test_approval_is_asked_of_a_person_and_not_given_here(own: ProjectDir) -> None:
    text = one().replace("agent: echo", "agent: echo, requires_approval: true")

    async def about(client: Client) -> None:
        told = await call(client, "plan_run", plan=text, wait=True)
        assert told["pending"] is True
        assert "asks something" in told["next"]
        denied = await refusal(client, "answer", id=str(told["handle"]), text="yes")
        assert denied["code"] == "APPROVAL_REQUIRED"

    talk(own, "legacy", about)
    own.run("answer", "1", "yes", check=True)
    assert own.run("wait", "1").code == 0


def test_inside_a_run_it_is_the_same(own: ProjectDir) -> None:
    calls: list[list[Any]] = [["plan_run", {"plan": one(COMMAND)}], ["plan_run", {"plan": TWO, "wait": True}]]
    here = str(__import__("mcp_server.caller", fromlist=["x"]).__file__)
    own.agent("caller", command=[sys.executable, here, "legacy", "60", json.dumps(calls)])
    own.run("delegate", "Call the tools", "--agent", "caller", "--wait")
    names, refused, done = json.loads((own.path / "results.json").read_text())
    assert "plan_run" in names
    assert refused["error"]["code"] == "NOT_TRUSTED"
    assert (done["status"], done["data"]) == ("completed", {"m": 7})
