"""The wire: stdio, by the official SDK, which speaks the current era of the protocol and the ones before."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent
from mcp_types import Tool as Described

from overhand import __version__
from overhand.errors import BadInput, OverhandError, storage_failed
from overhand.mcp import calls
from overhand.mcp.handshake import listed
from overhand.system import dump_spaced

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import ServerRequestContext

    from overhand.mcp.handshake import Service, StdioWire
    from overhand.mcp.tools import Tool

_BEAT = 5.0  # seconds between signs of life while a call blocks
_AT_ONCE = ("status",)  # never blocks, so no thread is needed


def run(service: Service, wire: StdioWire) -> None:
    anyio.run(_serve, build(service), wire)


async def _serve(server: Server[Any], wire: StdioWire) -> None:
    lines: Any = anyio.wrap_file(wire)  # type: ignore[arg-type] # what stdio_server reads and writes, and nothing else
    async with stdio_server(lines, lines) as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


def build(service: Service) -> Server[Any]:
    known = {tool.name: tool for tool in service.tools}
    described = ListToolsResult(tools=[Described.model_validate(listed(tool)) for tool in service.tools])

    async def list_tools(
        _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return described

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = known.get(params.name)
        if tool is None:
            return _failed(BadInput(f"There is no tool {params.name}.", f"There are: {', '.join(known)}."))
        given = params.arguments or {}
        if tool.name in _AT_ONCE:
            return _called(service, tool, given, None)
        return await _in_thread(context, service, tool, given)

    return Server(
        "overhand",
        version=__version__,
        instructions=service.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _called(
    service: Service, tool: Tool, given: dict[str, Any], progress: Callable[[str], None] | None, gone: int = -1
) -> CallToolResult:
    try:
        return _result(calls.call(service, tool, given, progress, gone))
    except OverhandError as error:
        return _failed(error)
    except OSError as error:
        return _failed(storage_failed(error, "That did not work"))
    except Exception as error:  # noqa: BLE001 - a bug: reported like any other error
        return _failed(OverhandError(f"{type(error).__name__}: {error}", "This is a mistake in Overhand."))


async def _in_thread(
    context: ServerRequestContext[Any], service: Service, tool: Tool, given: dict[str, Any]
) -> CallToolResult:
    """Call a tool, with progress notifications if the client asked for them; a cancelled call stops waiting."""
    began, said = time.monotonic(), [""]
    gone, wanted = os.pipe()

    async def beat() -> None:
        while True:
            await anyio.sleep(_BEAT if said[0] else 0.2)
            await context.session.report_progress(round(time.monotonic() - began, 1), None, said[0] or None)

    def work() -> CallToolResult:
        try:
            return _called(service, tool, given, lambda text: said.__setitem__(0, text), gone)
        finally:
            os.close(gone)

    alone = anyio.CapacityLimiter(1)  # a thread for each call: most of them wait, and must not hold up the others
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            found = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=alone)
            group.cancel_scope.cancel()
    finally:
        os.close(wanted)
    return found


def _result(found: dict[str, Any]) -> CallToolResult:
    """The result twice, as the protocol wants it: typed, and as text for clients that show nothing else."""
    if "next" not in found:
        return CallToolResult(content=[TextContent(type="text", text=dump_spaced(found))])
    text = f"{found['next']}\n\n{dump_spaced({key: value for key, value in found.items() if key != 'next'})}"
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=found)


def _failed(error: OverhandError) -> CallToolResult:
    """A refusal is a result that says so: code, message and what to do instead."""
    text = f"{error.message} {error.hint}".strip()
    told = {"next": error.hint, **error.as_json()}  # some clients validate refusals against the tool's schema too
    return CallToolResult(
        content=[TextContent(type="text", text=f"{text}\n\n{dump_spaced(told)}")],
        structured_content=told,
        is_error=True,
    )
