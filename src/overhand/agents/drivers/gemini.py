"""Driver `gemini`: Gemini CLI, headless, by its JSON stream; Qwen Code has the same roots and its own stream."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, Job, Launch, Login, McpClient, Place
from overhand.agents.programs import HOOK_SECONDS, require, stop_hook
from overhand.agents.stream import StreamEvent, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS = ("/etc/gemini-cli/system-defaults.json", "/Library/Application Support/GeminiCli/system-defaults.json")
MODES = {"read": "default", "work": "yolo", "full": "yolo"}


def launch(agent: Agent, job: Job) -> Launch:
    """`gemini` with the prompt on stdin."""
    argv = command_line(agent, job)
    files: tuple[tuple[str, str, str], ...] = ()
    if job.level == "read":
        own = f"{os.environ.get('GEMINI_CLI_HOME') or os.path.expanduser('~')}/.gemini/policies"
        argv += ["--policy", f"{job.place}/policy.toml"]
        argv += ["--policy", own] if os.path.isdir(own) else []  # the person's own would be ignored otherwise
        files = (("OVERHAND_POLICY", "policy.toml", _policy(job)),)
    argv += [str(word) for word in agent.options.get("args", ())]
    env = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}
    if belongs_to_root(job.place):  # else it would ignore the file, with a warning
        found = defaults("AfterAgent", HOOK_SECONDS * 1000, stop_hook(agent, job), job.mcp)
        files += settings_file("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", _OTHERS, found)
    return Launch(tuple(argv), env=env, files=files)


def _policy(job: Job) -> str:
    """A policy for level read: only what was asked for and files directly in the run's folder may be written, and
    `overhand` may be called."""
    inside = _escaped(f"{job.desk}/") + r"[A-Za-z0-9_-]+\.[a-z]+"
    asked_for = [_escaped(path).replace(r"\*", '[^"]*') for path in job.asked_for]
    pattern = f'"file_path":"{"(" + "|".join([inside, *asked_for]) + ")" if asked_for else inside}"'
    return f"""\
[[rule]]
toolName = "write_file"
argsPattern = {json.dumps(pattern, ensure_ascii=False)}
decision = "allow"
priority = 900

[[rule]]
toolName = "run_shell_command"
commandPrefix = "overhand"
decision = "allow"
priority = 900
"""


def _escaped(path: str) -> str:
    """A path as it stands in JSON, as a regular expression."""
    return re.escape(json.dumps(path, ensure_ascii=False)[1:-1])


def command_line(agent: Agent, job: Job) -> list[str]:
    """The part of the command line that Qwen Code has, too."""
    argv = [require(agent), "--output-format", "stream-json", "--approval-mode", MODES[job.level]]
    argv += ["--include-directories", job.desk]
    argv += ["-m", job.model] if job.model else []
    return [*argv, "--resume", job.session] if job.session else argv


def belongs_to_root(path: str) -> bool:
    """Whether only root can change this path: Gemini accepts a settings file for one run from nowhere else."""
    while True:
        found = os.stat(path)
        if found.st_uid != 0 or found.st_mode & 0o022:
            return False
        if path == (path := os.path.dirname(path)):
            return True


def defaults(event: str, patience: int, hook: str, mcp: tuple[str, ...]) -> dict[str, Any]:
    """Our stop hook and MCP server, as settings that the person's or an administrator's override."""
    found: dict[str, Any] = {}
    if hook:
        found["hooks"] = {event: [{"hooks": [{"type": "command", "command": hook, "timeout": patience}]}]}
    if mcp:
        server = {"command": mcp[0], "args": list(mcp[1:]), "timeout": 86_400_000, "trust": True}
        found["mcpServers"] = {"overhand": server}
    return found


def settings_file(variable: str, others: tuple[str, ...], found: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """A settings file for this run only, named by a variable; none if it would replace one that exists."""
    if not found or variable in os.environ or any(os.path.exists(path) for path in others):
        return ()
    return ((variable, "settings.json", json.dumps(found)),)


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    kind = line.get("type")
    if kind == "init":
        yield StreamEvent("session", str(line.get("session_id", "")))
    elif kind == "message" and line.get("role") in ("assistant", "model"):
        yield StreamEvent("said", str(line.get("content", "")), {"part": bool(line.get("delta"))})
    elif kind == "tool_use":
        yield StreamEvent("did", str(line.get("tool_name", "")), line.get("parameters") or {})
    elif kind == "tool_result" and (line.get("error") or {}).get("type") == "policy_violation":
        yield StreamEvent("denied", str(line.get("tool_id", "")).partition("__")[0])
    elif kind == "result":
        stats = line.get("stats") or {}
        yield StreamEvent("used", data={"input": stats.get("input_tokens", 0), "output": stats.get("output_tokens", 0)})
        error = line.get("error") or {}
        text = str(error.get("message", "")) if isinstance(error, dict) else str(error)
        how = "clean" if line.get("status") == "success" else failure(None, text)
        yield StreamEvent("ended", text[:500], {"how": how})


DRIVER = Driver(
    rank=12,
    title="Gemini CLI",
    launch=launch,
    translate=translate,
    program="gemini",
    install="npm install -g @google/gemini-cli",
    own_model=lambda model: model in ("auto", "pro", "flash", "flash-lite") or "gemini" in model,
    login=Login(
        variables=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
        files=(Place("", "~/.gemini", "oauth_creds.json"),),
        settings=(Place("", "~/.gemini", "settings.json"),),
        command="gemini, then choose how to log in",
    ),
    open_session=("--resume",),
    project_files=(".gemini/settings.json",),
    client=McpClient(
        path=lambda root: f"{root or os.path.expanduser('~')}/.gemini/settings.json",
        entry=lambda command: {"command": command[0], "args": list(command[1:]), "timeout": 600000},
    ),
)
