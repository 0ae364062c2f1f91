"""Driver `claude`: Claude Code, headless, by its JSON stream."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from overhand.agents import permissions
from overhand.agents.driver import (
    Agent,
    Driver,
    Job,
    Launch,
    Login,
    McpClient,
    OpenPermission,
    Place,
    session_name,
    tool_names,
)
from overhand.agents.programs import HOOK_SECONDS, require, stop_hook, wrong_patterns
from overhand.agents.stream import StreamEvent, failure
from overhand.system import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from overhand.record import Store

_READ = ("Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "TodoWrite", "Task")
_EDIT = ("Edit", "Write", "MultiEdit", "NotebookEdit")
_TOOLS = {"execute": ("Bash",), "edit": _EDIT, "read": ("Read",), "search": ("Grep", "Glob"), "fetch": ("WebFetch",)}
# the reverse: the kind of each of its tools
_KINDS = {**_TOOLS, "read": ("Read", "LS"), "fetch": ("WebFetch", "WebSearch"), "think": ("Task", "TodoWrite")}


def launch(agent: Agent, job: Job) -> Launch:
    """`claude -p` with the prompt on stdin."""
    argv = [require(agent), "-p", "--output-format", "stream-json", "--verbose"]
    argv += _permissions(job)
    argv += ["--model", job.model] if job.model else []
    argv += _tools(agent, job)
    argv += ["--resume", job.session] if job.session else ["--session-id", session_name(job.run)]
    if job.mcp:
        servers = {"overhand": {"command": job.mcp[0], "args": list(job.mcp[1:]), "alwaysLoad": True}}
        argv += ["--mcp-config", json.dumps({"mcpServers": servers})]
        argv += ["--permission-prompt-tool", "mcp__overhand__permit"]  # what is withheld becomes a question
    argv += _settings(agent, job)
    argv += [str(word) for word in agent.options.get("args", ())]
    env = {
        "BASH_MAX_TIMEOUT_MS": "600000",
        "BASH_DEFAULT_TIMEOUT_MS": "600000",
        "MCP_TOOL_TIMEOUT": "86400000",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Launch(tuple(argv), env=env)


def _tools(agent: Agent, job: Job) -> list[str]:
    """Only the built-in tools that the agent's file names; servers' tools, ours among them, are not meant by it."""
    given = tool_names(agent)
    names = dict.fromkeys(name.partition("(")[0].strip() for name in given if not name.startswith("mcp__"))
    if not names or "*" in names:
        return []
    if job.level == "read":
        names["Write"] = None  # for its return: nothing else can be written at that level
    return ["--tools", ",".join(names)]


def _settings(agent: Agent, job: Job) -> list[str]:
    """Settings with our stop hook and without the repository's MCP servers, which a headless run starts unasked."""
    settings: dict[str, Any] = {}
    if hook := stop_hook(agent, job):
        settings["hooks"] = {"Stop": [{"hooks": [{"type": "command", "command": hook, "timeout": HOOK_SECONDS}]}]}
    foreign = _servers_of(job.project)
    if foreign:
        settings["disabledMcpjsonServers"] = foreign
    argv = ["--settings", json.dumps(settings)] if settings else []
    return argv if foreign is not None else [*argv, "--strict-mcp-config"]


def _servers_of(folder: str) -> list[str] | None:
    """The MCP servers that `.mcp.json` here and in the folders above names; None where one cannot be read."""
    found: set[str] = set()
    while True:
        path = f"{folder.rstrip('/')}/.mcp.json"
        if os.path.lexists(path):
            try:
                found |= json.loads(read_file(path) or b"")["mcpServers"].keys()
            except (ValueError, KeyError, TypeError, AttributeError):
                return None
        if folder == (folder := os.path.dirname(folder)):
            return sorted(found)


def _permissions(job: Job) -> list[str]:
    """A level as mode and lists; the run's own folder is always writable, and `permit` decides the rest.

    With `deny` patterns as much as possible goes to `permit`, whose patterns see more than these lists do.
    """
    if job.level == "full" and not job.deny and os.geteuid() != 0:  # it refuses that as root
        return ["--permission-mode", "bypassPermissions"]
    folder = f"/{job.desk}/**"  # two slashes: from the root of the file system
    words = ["mcp__overhand", "Bash(overhand *)", f"Edit({folder})", f"Write({folder})"]
    if not job.deny or not job.mcp:
        words += [*_READ, *(["Bash"] if job.level != "read" else []), *(_EDIT if job.level == "full" else ())]
    words += _rules(job.allow)
    mode = "default" if job.level == "read" or job.deny else "acceptEdits"
    denied = list(_rules(job.deny))
    flags = ["--permission-mode", mode, "--add-dir", job.desk, "--allowedTools", *words]
    return [*flags, "--disallowedTools", *denied] if denied else flags


def _rules(patterns: tuple[str, ...]) -> Iterator[str]:
    """Patterns as Claude Code's rules; those already in its form stay as they are."""
    for pattern in patterns:
        kind, _, what = (part.strip() for part in pattern.partition(":"))
        if kind not in _TOOLS:
            yield from [pattern] if "*" not in kind.partition("(")[0] and " " not in kind.partition("(")[0] else []
            continue
        for tool in _TOOLS[kind]:
            yield tool if what in ("", "*") else f"{tool}({'/' if what.startswith('/') else ''}{what})"


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    kind = line.get("type")
    if kind == "system" and line.get("subtype") == "init":
        yield StreamEvent("session", str(line.get("session_id", "")))
    elif kind == "assistant" and not line.get("parent_tool_use_id"):
        yield from _spoken(line.get("message"))
    elif kind == "system" and line.get("subtype") == "api_retry":
        delay, status = line.get("retry_delay_ms"), line.get("error_status") or line.get("error")
        soon = f"in {delay / 1000:.0f} s" if isinstance(delay, int | float) else "soon"
        yield StreamEvent("noted", f"the model's service answered {status}; it tries again {soon}")
    elif kind == "rate_limit_event":
        info = line.get("rate_limit_info") or {}
        if info.get("status") == "rejected" and isinstance(info.get("resetsAt"), int | float):
            yield StreamEvent("limited", data={"retry_at": float(info["resetsAt"])})
    elif kind == "result":
        yield from _result(line)


def _spoken(message: Any) -> Iterator[StreamEvent]:
    for block in message.get("content", ()) if isinstance(message, dict) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and block.get("text"):
            yield StreamEvent("said", str(block["text"]))
        elif block.get("type") == "tool_use":
            yield StreamEvent("did", str(block.get("name", "")), block.get("input") or {})


def _result(line: dict[str, Any]) -> Iterator[StreamEvent]:
    """Translate the last line: only it has the usage, and an error may claim to be a success."""
    for denial in line.get("permission_denials") or ():
        yield StreamEvent("denied", _denied(denial))
    usage = line.get("usage") or {}
    cached = usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
    yield StreamEvent(
        "used",
        data={
            "input": usage.get("input_tokens", 0) + cached,
            "output": usage.get("output_tokens", 0),
            "usd": line.get("total_cost_usd") or 0.0,
            "turns": line.get("num_turns", 0),
            "counted": sum(map(_tokens, (line.get("modelUsage") or {}).values())),
        },
    )
    error = line.get("error")  # from before the first request: a missing session, a missing login
    errors = [error.get("message", "")] if isinstance(error, dict) else line.get("errors") or ()
    text = str(line.get("result") or "") or "; ".join(map(str, errors))
    yield StreamEvent("ended", text[:500], {"how": _how(line, text)})


def _tokens(used: Any) -> int:
    """Input and output tokens behind the reported cost, which may be that of the whole session."""
    kinds = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return sum(used.get(kind) or 0 for kind in kinds) if isinstance(used, dict) else 0


def _denied(denial: Any) -> str:
    if not isinstance(denial, dict):
        return str(denial)[:300]
    given = denial.get("tool_input")
    given = given if isinstance(given, dict) else {}
    about = given.get("command") or given.get("file_path") or given.get("url") or ""
    return f"{denial.get('tool_name', 'a tool')}{f': {about}' if about else ''}"[:300]


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
        return found if found != "api-error" else "none"  # it never called the model
    if line.get("stop_reason") == "refusal":
        return "refused"
    if line.get("is_error") or reason == "api_error":
        status = line.get("api_error_status")
        return failure(status if isinstance(status, int) else None, text)
    return "clean"


def _session_totals(used: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[str, ...]:
    """It continues the cost of a session only if no other session came between, which its token counts show."""
    return ("usd",) if used["counted"] >= before["counted"] + used["input"] + used["output"] else ()


def _permit(store: Store, task: str, run: str, tool: str, given: dict[str, Any]) -> dict[str, Any] | OpenPermission:
    """Answer its permission prompt tool, which it calls for what its lists don't decide."""
    kind = next((kind for kind, tools in _KINDS.items() if tool in tools), None)
    asked = permissions.request(kind, tool, given, cwd=store.root)
    policy = permissions.policy_of(store, task, run)
    found = permissions.begin(store, task, run, asked, policy, "mcp")

    def reply(decided: str) -> dict[str, Any]:
        if decided == "allow":
            return {"behavior": "allow", "updatedInput": given}
        return {"behavior": "deny", "message": permissions.denial(asked, policy)}

    if isinstance(found, str):
        return reply(found)
    return OpenPermission(found, lambda answer: reply(permissions.verdict(answer)))


def _settings_file(root: str | None) -> str:
    if root is not None:
        return f"{root}/.mcp.json"
    return f"{os.environ.get('CLAUDE_CONFIG_DIR') or os.path.expanduser('~')}/.claude.json"


DRIVER = Driver(
    rank=10,
    title="Claude Code",
    launch=launch,
    problems=lambda agent: wrong_patterns(agent.options),
    translate=translate,
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    login=Login(
        variables=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
        ),
        files=(Place("CLAUDE_CONFIG_DIR", "~/.claude", ".credentials.json"),),
        settings=(),
        command="claude, then /login",
        keychain=True,
    ),
    quiet={"DISABLE_AUTOUPDATER": "1"},
    own_model=lambda model: any(word in model for word in ("claude", "haiku", "sonnet", "opus", "arn:")),
    takes_tools=True,
    hinted=True,
    open_session=("--resume",),
    # the session exists once the run has reported how it ended
    own_session=lambda run_id, heard: session_name(run_id) if heard.end != "none" else "",
    session_totals=_session_totals,
    project_files=(".claude/settings.json", ".claude/settings.local.json"),
    personal_files=(".claude/settings.local.json",),
    asks=True,
    permit=_permit,
    client=McpClient(
        path=_settings_file,
        entry=lambda command: {"type": "stdio", "command": command[0], "args": list(command[1:]), "env": {}},
        comments=False,
        plugin={
            "plugin.json": ".claude-plugin/plugin.json",
            "dispatch.md": "commands/dispatch.md",
            "SKILL.md": "skills/overhand/SKILL.md",
            "README.md": "README.md",
        },
    ),
)
