"""Driver `opencode`: opencode, headless; its whole configuration fits into one variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, Launch
from overhand.agents.programs import require
from overhand.agents.stream import Event, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "opencode"
RESUMES = True
COMPACTS = True
MAX_BLOCK = 100.0


def problems(_agent: Agent) -> list[str]:
    """Nothing needs to be said in an agent file."""
    return []


def launch(agent: Agent, job: Job) -> Launch:
    """`opencode run` with the prompt on stdin."""
    argv = [require(agent, PROGRAM), "run", "--format", "json"]
    if job.model:
        argv += ["-m", job.model]
    if job.session:
        argv += ["-s", job.session]
    argv += [str(word) for word in agent.options.get("args", ())]
    allowed = "deny" if job.level == "read" else "allow"
    config: dict[str, Any] = {"permission": {"edit": allowed, "bash": allowed, "external_directory": "allow"}}
    if job.level == "read":
        config["permission"]["edit"] = {f"{job.place}/**": "allow", "*": "deny"}
    if job.mcp:
        config["mcp"] = {"overhand": {"type": "local", "command": list(job.mcp), "timeout": 86_400_000}}
    env = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }
    return Launch(tuple(argv), env=env)


def translate(line: dict[str, Any]) -> Iterator[Event]:
    """One line of the stream; the session is on each."""
    if line.get("sessionID"):
        yield Event("session", str(line["sessionID"]))
    kind, part = line.get("type"), line.get("part") or {}
    if kind == "text":
        yield Event("said", str(part.get("text", "")))
    elif kind == "tool_use":
        state = part.get("state") or {}
        yield Event("did", str(part.get("tool", "")), state.get("input") or {})
        if state.get("status") == "error" and "reject" in str(state.get("error", "")).lower():
            yield Event("denied", str(part.get("tool", "")))
    elif kind == "step_finish":
        tokens = part.get("tokens") or {}
        used = {"input": tokens.get("input", 0), "output": tokens.get("output", 0), "usd": part.get("cost") or 0.0}
        yield Event("used", data={**used, "turns": 1, "add": True})
        if part.get("reason") != "tool-calls":
            yield Event("turned")
    elif kind == "error":
        error = line.get("error") or {}
        data = error.get("data") or {}
        text = str(data.get("message") or error.get("name") or "")
        yield Event("ended", text[:500], {"how": failure(data.get("statusCode"), text)})
