"""A client of the official SDK at `overhand mcp`, in either era of the protocol."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from overhand.testing.project import ProjectDir

ERAS = ("legacy", "2026-07-28")


@asynccontextmanager
async def at(project: ProjectDir, era: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Client]:
    """Connected to a server of this project, as a host outside every run."""
    project.run("version", check=True)  # what is on disk is trusted now
    words = ["-m", "overhand", "mcp"]
    server = StdioServerParameters(
        command=sys.executable, args=words, cwd=str(project.path), env={**project.environment(), **(env or {})}
    )
    async with Client(server, mode=era) as client:
        yield client


def talk(
    project: ProjectDir, era: str, about: Callable[[Client], Awaitable[None]], env: Mapping[str, str] | None = None
) -> None:
    """Connect, do what is to be done, and leave."""

    async def main() -> None:
        with anyio.fail_after(60):
            async with at(project, era, env) as client:
                await about(client)

    anyio.run(main)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The typed result of a call that must not fail."""
    found = await client.call_tool(tool, arguments)
    assert isinstance(found, CallToolResult)
    assert not found.is_error, found.content
    told: dict[str, Any] = found.structured_content
    assert found.content[0].type == "text"
    assert found.content[0].text.startswith(told["next"])
    return told


async def refusal(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The typed error of a call that must fail."""
    found = await client.call_tool(tool, arguments)
    assert isinstance(found, CallToolResult)
    assert found.is_error, found.structured_content
    told: dict[str, Any] = found.structured_content["error"]
    assert found.content[0].type == "text"
    assert told["message"] in found.content[0].text
    return told
