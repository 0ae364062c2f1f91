"""The server before the SDK: answers a client's handshake itself, and loads the SDK at the first call of a tool.

Importing the SDK takes most of a second and tens of megabytes, and an agent waits for its servers before it begins.
Most runs never call a tool. So `initialize`, `server/discover`, `ping` and `tools/list` are answered here, as the SDK
would; at the first other message the SDK is loaded, gets the earlier messages, and serves from then on.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NoReturn

from overhand import __version__
from overhand.errors import BadInput
from overhand.mcp.tools import FOR_HOSTS, FOR_RUNS, PERMIT

if TYPE_CHECKING:
    from overhand.mcp.tools import Tool
    from overhand.verbs import Session

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # any other handshake is for the SDK
STATELESS = "2026-07-28"
_PROTOCOL = "io.modelcontextprotocol"
_NAME = {"name": "overhand", "version": __version__}
HOST_LIMIT = 50.0  # seconds a call may block; the least patient client we know gives up after 60
RUN_LIMIT = 240.0  # inside a run the client's limits were raised by us, or are 300

FOR_A_HOST = (
    "Overhand hands tasks to other agents and takes back only what holds. delegate returns at once; wait gives the "
    "judged result; inbox shows what agents ask. Approving, trusting and setting checks is for a person at a terminal."
)
FOR_A_RUN = (
    "You are inside a run of Overhand. handoff is your task, step marks its plan, ask reaches a person, delegate hands "
    "on a part, checkpoint saves where you stand, finish returns your result: nothing counts without it."
)


class Service:
    """The project and tools that are served, and whether the client is a run's agent."""

    def __init__(self, root: str, *, inside: bool, limit: float, prompts: bool = False) -> None:
        self.root, self.limit = root, limit
        self.tools: tuple[Tool, ...] = FOR_RUNS if inside else FOR_HOSTS
        self.tools += (PERMIT,) if prompts else ()
        self.instructions = FOR_A_RUN if inside else FOR_A_HOST
        self.headline: Any = None  # kept between calls, so that the next one reads only what is new


def serve(session: Session) -> NoReturn:
    """Serve until the client disconnects, then exit without waiting for threads."""
    from overhand.policy import find_caller
    from overhand.verbs import prompts_of

    client = find_caller(session.store)
    inside = not client.is_person
    limit = _limit(RUN_LIMIT if inside else HOST_LIMIT)
    service = Service(session.root, inside=inside, limit=limit, prompts=prompts_of(session.store, client) is not None)
    wire = StdioWire()
    if open_with(service, wire):
        from overhand.mcp import server

        server.run(service, wire)
    os._exit(0)


def _limit(otherwise: float) -> float:
    """How long a call may block; `OVERHAND_MCP_BLOCK` in seconds for a client that is less patient."""
    given = os.environ.get("OVERHAND_MCP_BLOCK", "")
    try:
        return max(0.0, float(given)) if given else otherwise
    except ValueError:
        raise BadInput(f"OVERHAND_MCP_BLOCK is {given!r}, not a number of seconds.", "Set it to 50, or not.") from None


def open_with(service: Service, wire: StdioWire) -> bool:
    """Answer the handshake; True when the SDK must take over, False when the client has disconnected."""
    handshake: list[bytes] = []
    version = ""
    while line := wire.next():
        message = read(line)
        method, params = message.get("method"), message.get("params")
        if method == "initialize":
            version = str(params.get("protocolVersion")) if isinstance(params, dict) else ""
        found = _answer(service, method, message, version)
        if found is None:
            wire.unread = [*handshake, line]  # the SDK reads the handshake first
            return True
        if method in ("initialize", "notifications/initialized"):
            handshake.append(line)
            wire.answered |= {str(message["id"])} if "id" in message else set()
        if "id" in message:
            told = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}, ensure_ascii=False)
            wire.send(f"{told}\n")
    return False


def _answer(service: Service, method: object, message: dict[str, Any], version: str) -> dict[str, Any] | None:
    """The result of one opening message; None if it is for the SDK."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    alone = not set(params) - {"_meta"}  # no cursor: the list is one page
    meta = params.get("_meta")
    if alone and isinstance(meta, dict) and meta.get(f"{_PROTOCOL}/protocolVersion") == STATELESS:
        whole = isinstance(meta.get(f"{_PROTOCOL}/clientCapabilities"), dict)
        return _stateless(service, method) if whole and "id" in message else None
    if version not in VERSIONS:
        return None
    if method == "initialize":
        about = {"protocolVersion": version, "serverInfo": _NAME, **_offer(service)}
        return about if _is_whole(params) else None
    if method == "tools/list":
        return {"tools": [listed(tool) for tool in service.tools]} if alone else None
    return {} if method in ("ping", "notifications/initialized") else None


def _stateless(service: Service, method: object) -> dict[str, Any] | None:
    """Protocol versions without a handshake, where each request names its version."""
    common = {"resultType": "complete", "cacheScope": "private", "ttlMs": 0}
    about = {**common, "_meta": {f"{_PROTOCOL}/serverInfo": _NAME}}
    if method == "tools/list":
        return {"tools": [listed(tool) for tool in service.tools], **about}
    if method == "server/discover":
        return {"supportedVersions": [STATELESS], **_offer(service), **about}
    return None


def _is_whole(params: dict[str, Any]) -> bool:
    client = params.get("clientInfo")
    named = isinstance(client, dict) and isinstance(client.get("name"), str) and isinstance(client.get("version"), str)
    return named and isinstance(params.get("capabilities"), dict)


def _offer(service: Service) -> dict[str, Any]:
    return {"capabilities": {"tools": {"listChanged": False}}, "instructions": service.instructions}


def listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.about,
        "inputSchema": tool.input,
        **({} if tool.plain else {"outputSchema": tool.output}),
        "annotations": {"readOnlyHint": tool.reads, "destructiveHint": tool.name == "stop"},
    }


# the client's two pipes


def read(line: bytes) -> dict[str, Any]:
    """Parse one message; empty if it is not one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class StdioWire:
    """Stdin and stdout reserved for the client: other reads find nothing, other output goes to stderr."""

    def __init__(self) -> None:
        self.unread: list[bytes] = []  # lines that were read already, for the SDK to read again
        self.answered: set[str] = set()  # ids of requests whose second answer, by the SDK, is dropped
        self._reads, self._writes = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self._ahead = self._unsent = b""

    def next(self) -> bytes:
        """The next line; empty at the end."""
        if self.unread:
            return self.unread.pop(0)
        while b"\n" not in self._ahead:
            piece = os.read(self._reads, 1 << 16)
            if not piece:
                break
            self._ahead += piece
        line, end, self._ahead = self._ahead.partition(b"\n")
        return line + end

    def send(self, text: str) -> None:
        self._unsent += text.encode()
        self.flush()

    # as the SDK reads and writes

    def readline(self) -> str:
        """The next line; empty at the end."""
        return self.next().decode("utf-8", "replace")

    def write(self, text: str) -> None:
        """Queue a line, unless it answers a request that was answered before."""
        if self.answered:
            message = json.loads(text)
            if "method" not in message and str(message.get("id")) in self.answered:
                self.answered.discard(str(message["id"]))
                return
        self._unsent += text.encode()

    def flush(self) -> None:
        view, self._unsent = memoryview(self._unsent), b""
        while view:
            view = view[os.write(self._writes, view) :]
