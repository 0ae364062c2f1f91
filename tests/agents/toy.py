"""An ACP agent made with the official SDK, for what real agents do too rarely: `python toy.py BEHAVIOUR …`.

The SDK checks every message that it is sent: whoever talks to this agent speaks the protocol.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import acp
from acp.schema import (
    AgentCapabilities,
    LoadSessionResponse,
    PermissionOption,
    SessionMode,
    SessionModeState,
    ToolCallUpdate,
    Usage,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="ever", name="Ever", kind="allow_always"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Toy:
    """Its words say what it does in a turn, one after the other."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.cancelled = asyncio.Event()
        self.said: list[str] = []

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        if "mute" in self.words:
            await asyncio.sleep(600)
        version = 7 if "future" in self.words else protocol_version
        can = AgentCapabilities(load_session="forgetful" not in self.words)
        return acp.InitializeResponse(protocol_version=version, agent_capabilities=can)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        if "locked" in self.words:
            raise acp.RequestError.auth_required({"reason": "no key"})
        assert cwd == os.getcwd()
        names = [word.partition(":")[2].split(",") for word in self.words if word.startswith("modes:")]
        modes = [SessionMode(id=name, name=name) for name in (names[0] if names else ("plan", "default", "yolo"))]
        state = SessionModeState(current_mode_id="plan", available_modes=modes)
        return acp.NewSessionResponse(session_id=f"toy-{os.getpid()}", modes=state)

    async def load_session(self, session_id: str, **_: Any) -> LoadSessionResponse:
        await self.client.session_update(
            session_id, acp.update_agent_message_text("CONTROL: PAUSE\nREASON: old news\n")
        )
        self.note(f"loaded {session_id}")
        return LoadSessionResponse()

    async def set_session_mode(self, mode_id: str, **_: Any) -> None:
        self.note(f"mode {mode_id}")

    async def cancel(self, **_: Any) -> None:
        self.note("cancelled")
        self.cancelled.set()

    async def prompt(self, session_id: str, **_: Any) -> acp.PromptResponse:
        stop: Any = "end_turn"
        for word in self.words:
            name, rest = word.split(":", 1) if ":" in word else (word, "")
            if name in ("refusal", "max_tokens", "max_turn_requests"):
                stop = name
            elif (do := getattr(self, f"do_{name}", None)) is not None and await do(session_id, rest):
                stop = "cancelled"
                break
        usage = Usage(total_tokens=130, input_tokens=70, output_tokens=30, cached_read_tokens=30)
        return acp.PromptResponse(stop_reason=stop, usage=usage)

    def note(self, line: str) -> None:
        """For the test to read, beside the project, which may be read-only."""
        with open(f"{os.getcwd()}.notes", "a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    async def do_say(self, session: str, text: str) -> None:
        for part in (text[:3], text[3:]):
            await self.client.session_update(session, acp.update_agent_message_text(part))

    async def do_ask(self, session: str, command: str) -> bool:
        """Ask whether it may run a command; run it if so."""
        given = {"command": command.replace("_", " ")}
        call = ToolCallUpdate(tool_call_id="1", title=given["command"], kind="execute", raw_input=given)
        answer = await self.client.request_permission(session, call, OPTIONS)
        chosen = getattr(answer.outcome, "option_id", "cancelled")
        self.note(f"{given['command']} -> {chosen}")
        return bool(self.cancelled.is_set())

    async def do_bare(self, session: str, text: str) -> None:
        """What it is about was said before; the request has only its number."""
        raw = {"command": text.replace("_", " ")} if "." not in text else _call(text)
        title = raw.get("command", f"mcp.{text}")
        await self.client.session_update(
            session, acp.start_tool_call("7", str(title), kind="execute", raw_input=raw, status="in_progress")
        )
        await self.request(session, ToolCallUpdate(tool_call_id="7", kind="execute", status="pending"), text)

    async def do_titled(self, session: str, text: str) -> None:
        """The command stands in the title, and nowhere else."""
        title = text.replace("_", " ")
        await self.request(session, ToolCallUpdate(tool_call_id="8", title=title, kind="execute"), title)

    async def do_other(self, session: str, title: str) -> None:
        await self.request(session, ToolCallUpdate(tool_call_id="9", title=title, kind="other"), title)

    async def request(self, session: str, call: ToolCallUpdate, about: str) -> None:
        answer = await self.client.request_permission(session, call, OPTIONS)
        self.note(f"{about} -> {getattr(answer.outcome, 'option_id', 'cancelled')}")

    async def do_both(self, session: str, _: str) -> None:
        """Two requests at a time."""
        await asyncio.gather(self.do_ask(session, "rm_a"), self.do_ask(session, "rm_b"))

    async def do_write(self, session: str, path: str) -> None:
        call = ToolCallUpdate(tool_call_id="2", title="write", kind="edit", raw_input={"path": path, "content": "x"})
        answer = await self.client.request_permission(session, call, OPTIONS)
        self.note(f"{path} -> {getattr(answer.outcome, 'option_id', 'cancelled')}")

    async def do_wait(self, *_: str) -> bool:
        self.note("waiting")
        await self.cancelled.wait()
        return True

    async def do_hang(self, *_: str) -> None:
        self.note("hanging")
        await asyncio.sleep(600)

    async def do_until(self, _: str, name: str) -> bool:
        """Silence until there is a file of this name."""
        while not os.path.exists(name) and not self.cancelled.is_set():  # noqa: ASYNC110, ASYNC240 -- nobody waits
            await asyncio.sleep(0.02)
        return self.cancelled.is_set()

    async def do_die(self, *_: str) -> None:
        os._exit(3)

    async def do_babble(self, *_: str) -> None:
        """Lines that are no messages."""
        sys.stdout.write('debug: on\n{"jsonrpc":\n[1, 2]\n{"jsonrpc":"2.0","id":99,"result":null}\n\n')
        sys.stdout.flush()

    async def do_huge(self, session: str, _: str) -> None:
        content = [acp.tool_content(acp.text_block("x" * 5_000_000))]
        await self.client.session_update(session, acp.start_tool_call("3", "cat all", content=content))
        await self.client.session_update(session, acp.update_agent_message_text("y" * 1_000_000))

    async def do_read(self, session: str, path: str) -> None:
        """A file through the client, which offers none."""
        try:
            await self.client.read_text_file(session_id=session, path=path)
        except acp.RequestError as error:
            self.note(f"refused {error.code}")

    async def do_return(self, *_: str) -> None:
        with open(os.environ["OVERHAND_OUTPUT"], "w", encoding="utf-8") as file:  # noqa: ASYNC230 -- nobody waits
            file.write("# Task Complete: toy\n\n**Status:** completed\n\n## Summary\nThe toy is done.\n")


def _call(text: str) -> dict[str, Any]:
    server, tool = text.split(".")
    return {"server": server, "tool": tool, "arguments": {}}


if __name__ == "__main__":
    toy: Any = Toy(*sys.argv[1:])  # what it has of an agent's methods is what it needs
    asyncio.run(acp.run_agent(toy))
