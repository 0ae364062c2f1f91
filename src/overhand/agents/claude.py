"""Driver `claude`: Claude Code, headless, by its JSON stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, Launch
from overhand.agents.programs import HOOK_SECONDS, require, session_name, stop_hook
from overhand.agents.stream import Event, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "claude"
RESUMES = True
COMPACTS = True
MAX_BLOCK = 540.0  # its shell tool ends commands after ten minutes at most
_READ = ("Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "TodoWrite", "Task", "Bash(overhand *)")
_WORK = ("Bash", "Edit", "Write", "MultiEdit", "NotebookEdit")


def problems(_agent: Agent) -> list[str]:
    """Nothing needs to be said in an agent file."""
    return []


def launch(agent: Agent, job: Job) -> Launch:
    """`claude -p` with the prompt on stdin."""
    argv = [require(agent, PROGRAM), "-p", "--output-format", "stream-json", "--verbose"]
    argv += _permissions(job)
    if job.model:
        argv += ["--model", job.model]
    argv += ["--resume", job.session] if job.session else ["--session-id", session_name(job.run)]
    if job.mcp:
        servers = {"overhand": {"command": job.mcp[0], "args": list(job.mcp[1:]), "alwaysLoad": True}}
        argv += ["--mcp-config", json.dumps({"mcpServers": servers}), "--strict-mcp-config"]
        argv += ["--permission-prompt-tool", "mcp__overhand__permit"]  # what is withheld becomes a question
    if hook := stop_hook(agent, job):
        stop = [{"hooks": [{"type": "command", "command": hook, "timeout": HOOK_SECONDS}]}]
        argv += ["--settings", json.dumps({"hooks": {"Stop": stop}})]  # beside the person's own, for this run
    argv += [str(word) for word in agent.options.get("args", ())]
    env = {
        "BASH_MAX_TIMEOUT_MS": "600000",
        "BASH_DEFAULT_TIMEOUT_MS": "600000",
        "MCP_TOOL_TIMEOUT": "86400000",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Launch(tuple(argv), env=env)


def _permissions(job: Job) -> list[str]:
    """A level as modes and lists; the run's own folder is always writable."""
    folder = f"/{job.place}/**"  # two slashes: from the root of the file system
    if job.level == "full":
        return ["--permission-mode", "bypassPermissions"]
    allowed = [*_READ, f"Edit({folder})", f"Write({folder})", "mcp__overhand"]
    words = [*allowed, *_WORK] if job.level == "work" else allowed
    words += job.allow
    denied = ["--disallowedTools", *job.deny] if job.deny else []
    mode = "acceptEdits" if job.level == "work" else "default"
    return ["--permission-mode", mode, "--add-dir", job.place, "--allowedTools", *words, *denied]


def translate(line: dict[str, Any]) -> Iterator[Event]:
    """One line of the stream."""
    kind = line.get("type")
    if kind == "system" and line.get("subtype") == "init":
        yield Event("session", str(line.get("session_id", "")))
    elif kind == "assistant" and not line.get("parent_tool_use_id"):
        yield from _spoken(line.get("message"))
    elif kind == "rate_limit_event":
        info = line.get("rate_limit_info") or {}
        if info.get("status") == "rejected" and isinstance(info.get("resetsAt"), int | float):
            yield Event("limited", data={"retry_at": float(info["resetsAt"])})
    elif kind == "result":
        yield from _result(line)


def _spoken(message: Any) -> Iterator[Event]:
    for block in message.get("content", ()) if isinstance(message, dict) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and block.get("text"):
            yield Event("said", str(block["text"]))
        elif block.get("type") == "tool_use":
            yield Event("did", str(block.get("name", "")), block.get("input") or {})


def _result(line: dict[str, Any]) -> Iterator[Event]:
    """The last line: usage is only here, and an error may call itself a success."""
    for denial in line.get("permission_denials") or ():
        shown = denial.get("tool_name", "a tool") if isinstance(denial, dict) else str(denial)
        yield Event("denied", str(shown))
    usage = line.get("usage") or {}
    cached = usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
    yield Event(
        "used",
        data={
            "input": usage.get("input_tokens", 0) + cached,
            "output": usage.get("output_tokens", 0),
            "usd": line.get("total_cost_usd") or 0.0,
            "turns": line.get("num_turns", 0),
        },
    )
    text = str(line.get("result") or "") or _errors(line)
    yield Event("ended", text[:500], {"how": _how(line, text)})


def _errors(line: dict[str, Any]) -> str:
    """What went wrong before anything was asked: a session that is not there, a login that is missing."""
    error = line.get("error")
    told = [error.get("message", "")] if isinstance(error, dict) else line.get("errors") or ()
    return "; ".join(str(one) for one in told)


def _how(line: dict[str, Any], text: str) -> str:
    subtype, reason = line.get("subtype"), str(line.get("terminal_reason") or "")
    if subtype == "error_max_turns":
        return "max-turns"
    if subtype == "error_max_budget_usd":
        return "budget"
    if reason.startswith("aborted") or (subtype == "error_during_execution" and not text):
        return "aborted"
    if subtype == "error_during_execution":
        found = failure(None, text)
        return found if found != "api-error" else "none"  # it never came to ask the model
    if line.get("is_error") or reason == "api_error":
        status = line.get("api_error_status")
        return failure(status if isinstance(status, int) else None, text)
    return "clean"
