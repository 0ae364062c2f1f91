"""Driver `gemini`: Gemini CLI, headless, by its JSON stream; Qwen Code has the same roots and its own stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, Launch
from overhand.agents.programs import require
from overhand.agents.stream import Event, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "gemini"
RESUMES = True
COMPACTS = True
MAX_BLOCK = 100.0
MODES = {"read": "default", "work": "yolo", "full": "yolo"}


def problems(_agent: Agent) -> list[str]:
    """Nothing needs to be said in an agent file."""
    return []


def launch(agent: Agent, job: Job) -> Launch:
    """`gemini` with the prompt on stdin."""
    argv = [require(agent, PROGRAM), "--output-format", "stream-json", "--approval-mode", MODES[job.level]]
    argv += ["--include-directories", job.place]
    if job.model:
        argv += ["-m", job.model]
    if job.session:
        argv += ["--resume", job.session]
    argv += [str(word) for word in agent.options.get("args", ())]
    env = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}
    # no MCP server of ours: a settings file of one run alone is read only if root owns it and all folders above it
    return Launch(tuple(argv), env=env)


def translate(line: dict[str, Any]) -> Iterator[Event]:
    """One line of the stream."""
    kind = line.get("type")
    if kind == "init":
        yield Event("session", str(line.get("session_id", "")))
    elif kind == "message" and line.get("role") in ("assistant", "model"):
        yield Event("said", str(line.get("content", "")), {"part": bool(line.get("delta"))})
    elif kind == "tool_use":
        yield Event("did", str(line.get("tool_name", "")), line.get("parameters") or {})
    elif kind == "result":
        stats = line.get("stats") or {}
        yield Event("used", data={"input": stats.get("input_tokens", 0), "output": stats.get("output_tokens", 0)})
        error = line.get("error") or {}
        text = str(error.get("message", "")) if isinstance(error, dict) else str(error)
        how = "clean" if line.get("status") == "success" else failure(None, text)
        yield Event("ended", text[:500], {"how": how})
