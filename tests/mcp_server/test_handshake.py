"""The opening is answered without the SDK, exactly as the SDK answers it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client._memory import InMemoryTransport
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from overhand.mcp import handshake, server
from overhand.mcp.tools import FOR_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Message = dict[str, Any]

CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
READY: Message = {"method": "notifications/initialized"}


def hello(version: str, **more: Any) -> Message:
    return {"id": 0, "method": "initialize", "params": {"protocolVersion": version, **CLIENT, **more}}


class Line:
    """A server and its two pipes."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / ".overhand").mkdir()
        (folder / ".overhand/config.toml").touch()  # here the project begins, whatever lies above
        outside = {name: value for name, value in os.environ.items() if not name.startswith("OVERHAND_")}
        self.process = subprocess.Popen(
            [sys.executable, *(words or ("-m", "overhand", "mcp"))],
            cwd=folder,
            env={**outside, "XDG_CONFIG_HOME": str(folder / "config")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def say(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, message: Message) -> Message:
        self.say(message)
        assert self.process.stdout is not None
        found: Message = json.loads(self.process.stdout.readline())
        assert found["id"] == message["id"]
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def has_sdk(self) -> bool:
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as file:
            return "pydantic_core" in file.read()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line(tmp_path)
    try:
        yield made
    finally:
        made.close()


def by_the_sdk(inside: bool, *messages: Message) -> list[Message]:
    """What the SDK's own server answers to these."""
    service = handshake.Service("/nowhere", inside=inside, limit=1.0)
    found: list[Message] = []

    async def main() -> None:
        transport = InMemoryTransport(server.build(service))
        with anyio.fail_after(30):
            async with transport as (reads, writes):
                for message in messages:
                    parsed = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message})
                    await writes.send(SessionMessage(parsed))
                    if "id" in message:
                        got = await reads.receive()
                        assert isinstance(got, SessionMessage)
                        found.append(json.loads(got.message.model_dump_json(by_alias=True, exclude_unset=True)))

    anyio.run(main)
    return [one["result"] for one in found]


def by_the_door(inside: bool, *messages: Message) -> list[Message | None]:
    service = handshake.Service("/nowhere", inside=inside, limit=1.0)
    version = next((m["params"]["protocolVersion"] for m in messages if m["method"] == "initialize"), "")
    return [handshake._answer(service, m["method"], m, version) for m in messages if "id" in m]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("version", handshake.VERSIONS)
def test_the_handshake_is_answered_as_the_sdk_does(version: str, inside: bool) -> None:
    said = (hello(version), READY, {"id": 1, "method": "tools/list"}, {"id": 2, "method": "ping"})
    assert by_the_door(inside, *said) == by_the_sdk(inside, *said)


@pytest.mark.parametrize("inside", [False, True])
def test_the_era_without_a_handshake_is_answered_as_the_sdk_does(inside: bool) -> None:
    said = tuple(
        {"id": n, "method": m, "params": {"_meta": META}} for n, m in enumerate(("server/discover", "tools/list"))
    )
    assert by_the_door(inside, *said) == by_the_sdk(inside, *said)


def test_the_versions_are_those_of_the_sdk() -> None:
    assert tuple(HANDSHAKE_PROTOCOL_VERSIONS) == handshake.VERSIONS
    assert handshake.STATELESS == LATEST_MODERN_VERSION


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_the_sdk_is_loaded_by_the_first_call_and_knows_what_was_said(line: Line) -> None:
    line.ask(hello("2025-11-25"))
    line.say(READY)
    assert len(line.ask({"id": 1, "method": "tools/list", "params": {}})["result"]["tools"]) == len(FOR_HOSTS)
    assert not line.has_sdk()
    found = line.ask({"id": "two", "method": "tools/call", "params": {"name": "status", "arguments": {}}})
    assert found["result"]["structuredContent"]["tasks"] == []
    assert line.has_sdk()
    assert len(line.ask({"id": 3, "method": "tools/list", "params": {}})["result"]["tools"]) == len(FOR_HOSTS)
    assert line.ask({"id": 0, "method": "ping"})["result"] == {}  # the number of the handshake may come again


CALL = {"method": "tools/call", "params": {"name": "status", "arguments": {}}}
LONG = {
    "method": "tools/call",
    "params": {"name": "status", "arguments": {"no such": 'a \\n "b" $HOME `id` ü\n' * 9000}},
}


def test_calls_that_come_while_the_sdk_is_loaded_are_answered_and_so_is_a_second_handshake(line: Line) -> None:
    opened = line.ask(hello("2025-11-25"))
    line.say(READY)
    for number in range(3):
        line.say({"id": number, **CALL})
    assert line.process.stdout is not None
    assert [b"structuredContent" in line.process.stdout.readline() for _ in range(3)] == [True] * 3
    assert "there is no argument no such" in line.ask({"id": 2, **LONG})["result"]["content"][0]["text"]
    assert line.ask(hello("2025-11-25") | {"id": 7})["result"] == opened["result"]


def test_a_version_nobody_knows_is_answered_by_the_sdk(line: Line) -> None:
    assert line.ask(hello("1999-01-01"))["result"]["protocolVersion"] == "2025-11-25"
    line.say(READY)
    assert len(line.ask({"id": 1, "method": "tools/list"})["result"]["tools"]) == len(FOR_HOSTS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"id": 0, "method": "tools/call", "params": {"name": "status"}},
        {"id": 0, "method": "no/such", "params": {"_meta": META}},
        {
            "id": 0,
            "method": "tools/list",
            "params": {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "x"}},
        },
    ],
)
def test_a_wrong_opening_is_told_by_the_sdk(line: Line, wrong: Message) -> None:
    assert "error" in line.ask(wrong)


def test_it_ends_with_its_client(line: Line) -> None:
    line.ask(hello("2025-11-25"))
    assert line.process.stdin is not None
    line.process.stdin.close()
    assert line.process.wait(60) == 0
