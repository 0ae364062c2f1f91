"""An agent that speaks ACP: a turn through the driver against the raw SDK client."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, Row

if TYPE_CHECKING:
    from pathlib import Path

# Without any library, so that what is compared are the clients: 200 pieces of text, 20 requests, a return.
_AGENT = """\
import json, os, sys, time
def send(**message): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
def read(): return json.loads(sys.stdin.readline() or sys.exit())
def update(**what): send(method="session/update", params={"sessionId": "s", "update": what})
while True:
    asked = read()
    if asked["method"] == "initialize":
        send(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
    elif asked["method"] == "session/new":
        send(id=asked["id"], result={"sessionId": "s"})
    elif asked["method"] == "session/prompt":
        began = time.perf_counter()
        for n in range(200):
            update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "word " * 20})
        for n in range(20):
            call = {"toolCallId": str(n), "title": "ls", "kind": "read", "rawInput": {"path": "/tmp"}}
            update(sessionUpdate="tool_call", **call)
            choice = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            wanted = {"sessionId": "s", "toolCall": call, "options": choice}
            send(id=n, method="session/request_permission", params=wanted)
            assert read()["result"]["outcome"]["optionId"] == "yes"
        with open(os.environ.get("OVERHAND_OUTPUT", "bare.md"), "w") as file:
            file.write("# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n")
        with open("turns.txt", "a") as file:
            file.write(f"{time.perf_counter() - began}\\n")
        send(id=asked["id"], result={"stopReason": "end_turn"})
"""
_RAW = """\
import asyncio, sys
import acp
class Client(acp.Client):
    async def session_update(self, session_id, update, **_): pass
    async def request_permission(self, session_id, tool_call, options, **_):
        chosen = {"outcome": {"outcome": "selected", "optionId": options[0].option_id}}
        return acp.RequestPermissionResponse.model_validate(chosen)
async def main():
    async with acp.spawn_agent_process(Client(), *sys.argv[1:]) as (agent, process):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=".", mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
asyncio.run(main())
"""
_FILE = """\
---
name: {name}
overhand:
  driver: acp
  command: {command}
  mcp: false
---
Say so.
"""


def rows(*, quick: bool) -> list[Row]:
    """One turn, many times."""
    rounds = 5 if quick else 15
    with measure.folder() as place:
        env = {**measure.environment(place), "PYTHONDONTWRITEBYTECODE": ""}
        agent = place / "agent.py"
        agent.write_text(_AGENT)
        _project(place, env, agent)
        try:
            return [_times(place, env, agent, rounds)]
        finally:
            measure.run([OVERHAND, "stop", "--all", "--now"], place, env)


def _project(place: Path, env: dict[str, str], agent: Path) -> None:
    import json

    folder = place / ".overhand/agents"
    folder.mkdir(parents=True)
    command = json.dumps([sys.executable, "-IS", str(agent)])
    (folder / "quick.md").write_text(_FILE.format(name="quick", command=command))
    measure.run([OVERHAND, "init"], place, env)
    measure.run([OVERHAND, "trust", "--yes"], place, env)


def _times(place: Path, env: dict[str, str], agent: Path, rounds: int) -> Row:
    raw = [sys.executable, "-I", "-c", _RAW, sys.executable, "-IS", str(agent)]
    ours = [OVERHAND, "delegate", "go", "--agent", "quick", "--wait", "--read-only"]
    measure.run(ours, place, env)
    (place / "turns.txt").unlink()
    theirs_whole, our_whole = measure.interleaved(
        rounds, lambda: measure.run(raw, place, env), lambda: measure.run(ours, place, env)
    )
    turns = [float(line) for line in (place / "turns.txt").read_text().splitlines()]
    turn = measure.median(turns[1::2]) / measure.median(turns[0::2])
    whole = measure.median(our_whole) / measure.median(theirs_whole)
    return Row(
        "ACP turn through the driver / the raw SDK client",
        f"{turn:.2f}x",
        "≤ 1.5x",
        "1.2x",
        turn <= 1.5,
        turn <= 1.2,
        f"from prompt to end as the agent sees it, {measure.spread(turns[1::2])} and {measure.spread(turns[0::2])}; "
        f"`delegate --wait` as a whole / the SDK client's process as a whole: {whole:.2f}x",
    )
