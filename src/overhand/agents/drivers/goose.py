"""Driver `goose`: Goose, headless, by its JSON stream; its sessions have the names we give them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, Job, Launch, Login, Place, is_plain_name, tokens_of_session
from overhand.agents.programs import require
from overhand.agents.stream import StreamEvent, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

# Goose's own messages, printed as if by the model
_CUT_OFF = "I've reached the maximum number of actions"
_OWN_WORDS = ("Ran into this error", _CUT_OFF)


def launch(agent: Agent, job: Job) -> Launch:
    """`goose run -i -`, with the prompt on stdin."""
    name = job.session or f"overhand-{job.run}"
    argv = [require(agent), "run", "-n", name, *(["--resume"] if job.session else []), "-i", "-"]
    argv += ["--output-format", "stream-json", "--with-builtin", "developer", "--no-profile"]
    if job.mcp:
        argv += ["--with-extension", shlex.join(job.mcp)]
    argv += [str(word) for word in agent.options.get("args", ())]
    env = {"GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1"}
    if job.model:
        env["GOOSE_MODEL"] = job.model
    return Launch(tuple(argv), env=env)


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    """One line of the stream; text comes word by word."""
    kind = line.get("type")
    if kind == "message":
        message = line.get("message") or {}
        for block in message.get("content") or ():
            yield from _block(block, message)
    elif kind == "complete":
        yield StreamEvent(
            "used", data={"input": line.get("input_tokens") or 0, "output": line.get("output_tokens") or 0}
        )
        yield StreamEvent("turned")
    elif kind == "error":
        text = str(line.get("error") or line.get("message") or "")
        yield StreamEvent("ended", text[:500], {"how": failure(None, text)})


def _block(block: dict[str, Any], message: dict[str, Any]) -> Iterator[StreamEvent]:
    text = str(block.get("text", ""))
    if block.get("type") == "text" and message.get("role") == "assistant":
        if message.get("id") is None and text.startswith(_OWN_WORDS):  # it exits with 0 nevertheless
            cut_off = text.startswith(_CUT_OFF)
            yield StreamEvent("ended", text[:500], {"how": "max-turns" if cut_off else failure(None, text)})
        else:
            yield StreamEvent("said", text, {"part": True})
    elif block.get("type") == "toolRequest":
        call = (block.get("toolCall") or {}).get("value") or {}
        yield StreamEvent("did", str(call.get("name", "")), call.get("arguments") or {})


DRIVER = Driver(
    rank=14,
    title="Goose",
    launch=launch,
    translate=translate,
    program="goose",
    install="npm install -g @aaif/goose",
    login=Login(
        variables=(),
        files=(Place("XDG_CONFIG_HOME", "~/.config", "goose/secrets.yaml"),),
        settings=(Place("XDG_CONFIG_HOME", "~/.config", "goose/config.yaml"),),
        command="goose configure",
        provider="GOOSE_PROVIDER",
    ),
    open_session=("session", "--resume", "--name"),
    is_session=is_plain_name,
    own_session=lambda run_id, _heard: f"overhand-{run_id}",  # its stream names none
    session_totals=tokens_of_session,
    unheld="Goose has no sandbox: it is told to change nothing else, and what it changed is found afterwards",
)
