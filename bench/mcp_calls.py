"""MCP: our `status` beside a tool that does nothing on the raw SDK, over stdio; and what it takes to open."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import anyio
import measure
from mcp import Client, StdioServerParameters
from measure import OVERHAND, PYTHON, Row

if TYPE_CHECKING:
    from pathlib import Path

# A server of the SDK with one tool that does nothing: the same level of the SDK that ours is built on.
RAW = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

async def listed(context, params):
    return ListToolsResult(tools=[Tool(name="noop", input_schema={"type": "object"})])

async def called(context, params):
    return CallToolResult(content=[TextContent(type="text", text="{}")], structured_content={})

async def main():
    server = Server("raw", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())

anyio.run(main)
"""
_WORKER = '---\nname: worker\noverhand:\n  driver: command\n  command: ["true"]\n---\nWork.\n'
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def rows(*, quick: bool) -> list[Row]:
    """One call, and the opening."""
    with measure.folder() as place:
        env = measure.environment(place)
        (place / ".overhand/agents").mkdir(parents=True)
        (place / ".overhand/agents/worker.md").write_text(_WORKER)
        measure.run([OVERHAND, "trust", "--yes"], place, env)
        for title in ("One", "Two", "Three"):
            measure.run([OVERHAND, "delegate", title, "--agent", "worker", "--no-start"], place, env)
        ours, raw = anyio.run(_calls, place, env, 200 if quick else 1000)
        rounds = range(5 if quick else 11)
        both = [[_opening(words, place, env) for words in ([OVERHAND, "mcp"], [PYTHON, "-c", RAW])] for _ in rounds]
    opened, bare = zip(*both, strict=True)
    times = ours / raw
    return [
        Row(
            "MCP `status` over stdio / a tool that does nothing on the raw SDK",
            f"{times:.2f}x",
            "≤ 1.5x",
            "1.2x",
            times <= 1.5,
            times <= 1.2,
            f"{1000 * ours:.2f} ms and {1000 * raw:.2f} ms; from its start to the list of its tools a server takes "
            f"{1000 * measure.median(opened):.0f} ms, one on the raw SDK {1000 * measure.median(bare):.0f} ms",
        )
    ]


async def _calls(place: Path, env: dict[str, str], count: int) -> tuple[float, float]:
    """Medians of single calls, turn by turn, so that both have the same machine."""
    outside = {name: value for name, value in env.items() if not name.startswith("OVERHAND_")}
    ours = StdioServerParameters(command=OVERHAND, args=["mcp"], cwd=str(place), env=outside)
    raw = StdioServerParameters(command=PYTHON, args=["-c", RAW], cwd=str(place), env=outside)
    async with Client(ours, mode="legacy") as one, Client(raw, mode="legacy") as other:
        spent: dict[str, list[float]] = {"status": [], "noop": []}
        await one.list_tools()
        await other.list_tools()
        for number in range(count + 20):
            for client, name in ((one, "status"), (other, "noop")):
                began = time.perf_counter()
                found: Any = await client.call_tool(name, {})
                if number >= 20:
                    spent[name].append(time.perf_counter() - began)
                assert not found.is_error, found
    return measure.median(spent["status"]), measure.median(spent["noop"])


def _opening(command: list[str], place: Path, env: dict[str, str]) -> float:
    """What an agent waits for before it begins."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=place, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    for message in (
        {"id": 0, "method": "initialize", "params": _HELLO},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        if "id" in message:
            assert b"result" in process.stdout.readline()
    took = time.perf_counter() - began
    process.stdin.close()
    process.wait()
    process.stdout.close()
    return took
