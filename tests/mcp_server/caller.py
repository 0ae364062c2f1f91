"""An agent of its own making: it calls the tools it was told to, by the official SDK, and keeps what came back.

python caller.py ERA BLOCK CALLS    CALLS: a JSON list of [tool, arguments]; a call blocks BLOCK seconds at most;
                                    results go to results.json in the project; `pending` appears there with the
                                    first call that came back without an answer
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from mcp import Client, StdioServerParameters


async def main(era: str, block: str, calls: list[list[Any]]) -> list[Any]:
    env = {**os.environ, "OVERHAND_MCP_BLOCK": block}
    server = StdioServerParameters(command=sys.executable, args=["-m", "overhand", "mcp"], env=env)
    told: list[Any] = []
    async with Client(server, mode=era) as client:
        told.append([tool.name for tool in (await client.list_tools()).tools])
        for tool, arguments in calls:
            found = await client.call_tool(tool, arguments)
            told.append(found.structured_content)
            if found.structured_content.get("pending"):
                await anyio.Path(os.environ["OVERHAND_PROJECT"], "pending").touch()
                number = {"again": found.structured_content.get("seq") or found.structured_content.get("handle")}
                while found.structured_content.get("pending"):
                    found = await client.call_tool(tool, number)
                told.append(found.structured_content)
    return told


if __name__ == "__main__":
    results = anyio.run(main, sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    with open(os.environ["OVERHAND_PROJECT"] + "/results.json", "w", encoding="utf-8") as kept:
        json.dump(results, kept)
