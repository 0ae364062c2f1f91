"""Driver `opencode`: opencode, headless; its whole configuration fits into one variable."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, Job, Launch, Login, McpClient, Place, is_plain_name, tool_names
from overhand.agents.programs import require
from overhand.agents.stream import StreamEvent, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_DENIED = ("rejected", "a rule which prevents")


def launch(agent: Agent, job: Job) -> Launch:
    """`opencode run` with the prompt on stdin."""
    argv = [require(agent), "run", "--format", "json"]
    argv += ["-m", job.model] if job.model else []
    argv += ["-s", job.session] if job.session else []
    argv += [str(word) for word in agent.options.get("args", ())]
    # the last matching pattern wins, and paths are relative to the repository
    permission: dict[str, Any] = {"edit": "allow", "bash": "allow", "external_directory": "allow"}
    if job.level == "read":
        own = (f"{job.desk}/*", *job.asked_for)
        permission["edit"] = {"*": "deny", **{f"*{os.path.relpath(path, job.project)}": "allow" for path in own}}
        permission["bash"] = "deny"  # a pattern for one command would also allow redirecting its output
    config: dict[str, Any] = {"permission": permission}
    if isinstance(tools := agent.options.get("tools"), dict):
        config["tools"] = {str(name): on not in (False, "deny") for name, on in tools.items()}
    elif names := tool_names(agent):
        config["tools"] = {"*": False, "overhand_*": True, **dict.fromkeys(map(str.lower, names), True)}
    if job.mcp:
        config["mcp"] = {"overhand": {"type": "local", "command": list(job.mcp), "timeout": 86_400_000}}
    env = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }
    return Launch(tuple(argv), env=env)


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    """One line of the stream; every line names the session."""
    if line.get("sessionID"):
        yield StreamEvent("session", str(line["sessionID"]))
    kind, part = line.get("type"), line.get("part") or {}
    if kind == "text":
        yield StreamEvent("said", str(part.get("text", "")))
    elif kind == "tool_use":
        outcome = part.get("state") or {}
        yield StreamEvent("did", str(part.get("tool", "")), outcome.get("input") or {})
        if outcome.get("status") == "error" and any(one in str(outcome.get("error", "")) for one in _DENIED):
            yield StreamEvent("denied", str(part.get("tool", "")))
    elif kind == "step_finish":
        tokens = part.get("tokens") or {}
        used = {"input": tokens.get("input", 0), "output": tokens.get("output", 0), "usd": part.get("cost") or 0.0}
        yield StreamEvent("used", data={**used, "turns": 1, "add": True})
        if part.get("reason") != "tool-calls":
            yield StreamEvent("turned")
    elif kind == "error":
        error = line.get("error") or {}
        data = error.get("data") or {}
        text = str(data.get("message") or error.get("name") or "")
        refused = error.get("name") == "ContentFilterError"
        yield StreamEvent("ended", text[:500], {"how": "refused" if refused else failure(data.get("statusCode"), text)})


def _settings_file(root: str | None) -> str:
    """The person's settings file; opencode reads both names."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    folder = root if root is not None else f"{config}/opencode"
    with_comments, plain = f"{folder}/opencode.jsonc", f"{folder}/opencode.json"
    return with_comments if os.path.lexists(with_comments) and not os.path.lexists(plain) else plain


DRIVER = Driver(
    rank=13,
    title="opencode",
    launch=launch,
    translate=translate,
    program="opencode",
    install="npm install -g opencode-ai",
    own_model=lambda model: "/" in model,
    takes_tools=True,
    login=Login(
        variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        files=(Place("XDG_DATA_HOME", "~/.local/share", "opencode/auth.json"),),
        settings=(Place("XDG_CONFIG_HOME", "~/.config", "opencode/opencode.json"),),
        command="opencode auth login",
    ),
    quiet={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
    open_session=("--session",),
    is_session=is_plain_name,
    project_files=("opencode.json", "opencode.jsonc", ".opencode"),
    client=McpClient(
        path=_settings_file,
        entry=lambda command: {"type": "local", "command": list(command), "enabled": True, "timeout": 60000},
        key="mcp",
    ),
)
