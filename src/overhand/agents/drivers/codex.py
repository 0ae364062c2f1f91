"""Driver `codex`: Codex, headless, by its JSON events."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, Job, Launch, Login, McpClient, Place, tokens_of_session
from overhand.agents.programs import HOOK_SECONDS, SERVER_VARIABLES, require, stop_hook
from overhand.agents.stream import StreamEvent, failure

if TYPE_CHECKING:
    from collections.abc import Iterator


def launch(agent: Agent, job: Job) -> Launch:
    """`codex exec --json -`, with the prompt on stdin."""
    argv = [require(agent), "exec", "--json", "--skip-git-repo-check"]
    argv += ["-s", "danger-full-access"] if job.level == "full" else []
    settings = [] if job.level == "full" else _sandbox(job)
    settings += ["check_for_update_on_startup=false", "analytics.enabled=false", "features.plugins=false"]
    if job.mcp:
        settings += [
            f"mcp_servers.overhand.command={_toml(job.mcp[0])}",
            f"mcp_servers.overhand.args={_toml(list(job.mcp[1:]))}",
            f"mcp_servers.overhand.env_vars={_toml(SERVER_VARIABLES)}",  # it passes on next to nothing by itself
            'mcp_servers.overhand.default_tools_approval_mode="approve"',
            "mcp_servers.overhand.tool_timeout_sec=86400",
            "mcp_servers.overhand.required=true",  # else it starts without our tools if they take a second to load
            "mcp_servers.overhand.startup_timeout_sec=120",
        ]
    if hook := stop_hook(agent, job):
        settings += _stop_hook(hook)
    for setting in settings:
        argv += ["-c", setting]
    argv += ["-m", job.model] if job.model else []
    argv += [str(word) for word in agent.options.get("args", ())]
    argv += ["resume", job.session, "-"] if job.session else ["-"]
    return Launch(tuple(argv), env={"TMPDIR": job.desk} if job.level == "read" else {})


def _sandbox(job: Job) -> list[str]:
    """What its sandbox may write: the task's own folder, and at level work the project with its git folder.

    A file that level read is asked for and that is not there yet opens the folder that is; what else changes there is
    found by the verdict. What a shield protects is read-only here, too: where the kernel has room for one sandbox
    only, this one holds.

    Its built-in modes don't fit: `workspace-write` lets a run of level read write the project, and denies a run of
    level work the git folder.
    """
    writable = [job.workspace, *map(_there, job.asked_for)]
    kept = []
    if job.level == "work":
        writable += [job.project, ":tmpdir", ":slash_tmp"]
        writable += [f"{job.project}/.git"] if os.path.isdir(f"{job.project}/.git") else []
    if job.level == "work" or job.asked_for:
        record = os.path.dirname(os.path.dirname(job.record))  # it may lie in the folder of temporary files
        others = (os.path.dirname(job.workspace), f"{job.project}/.overhand", f"{job.project}/.git/hooks", record)
        kept = [path for path in others if os.path.isdir(path)]
    rules = {":root": "read", **dict.fromkeys(kept, "read"), **dict.fromkeys(writable, "write")}
    shown = ",".join(f"{_toml(path)}={_toml(may)}" for path, may in rules.items())
    return [
        'default_permissions="overhand"',
        f"permissions.overhand.filesystem={{{shown}}}",
        "permissions.overhand.network={enabled=true}",
    ]


def _there(path: str) -> str:
    """The path, or the nearest folder above it that exists: its sandbox knows no files that do not."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _toml(value: object) -> str:
    """A string or list of strings as TOML, which has no surrogate pairs for characters beyond 16 bits."""
    return json.dumps(value, ensure_ascii=False)


def _stop_hook(command: str) -> list[str]:
    """Our hook, with trust for exactly this one; Codex's own switch would trust the repository's hooks too.

    Codex identifies a hook by where it is configured and by a hash of its content. If its hashing changes, our hook is
    skipped, and an invalid return is sent back after the run instead.
    """
    hook = {"async": False, "command": command, "timeout": HOOK_SECONDS, "type": "command"}
    known = json.dumps(
        {"event_name": "stop", "hooks": [hook]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    digest = f"sha256:{hashlib.sha256(known.encode()).hexdigest()}"
    return [
        f'hooks.Stop=[{{hooks=[{{type="command",command={_toml(command)},timeout={HOOK_SECONDS}}}]}}]',
        f'hooks.state={{"/<session-flags>/config.toml:stop:0:0"={{trusted_hash={_toml(digest)}}}}}',
    ]


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    kind = line.get("type")
    if kind == "thread.started":
        yield StreamEvent("session", str(line.get("thread_id", "")))
    elif kind == "item.completed":
        yield from _item(line.get("item") or {})
    elif kind == "turn.completed":
        usage = line.get("usage") or {}
        used = {"input": usage.get("input_tokens", 0), "output": usage.get("output_tokens", 0)}
        yield StreamEvent("used", data={**used, "turns": 1})
        yield StreamEvent("ended", data={"how": "clean"})
    elif kind in ("turn.failed", "error"):
        error = line.get("error")
        text = str(error.get("message") if isinstance(error, dict) else error or line.get("message") or "")
        if kind == "turn.failed" or text:
            yield StreamEvent("ended", text[:500], {"how": failure(None, text)})


def _item(item: dict[str, Any]) -> Iterator[StreamEvent]:
    kind = item.get("type")
    if kind == "agent_message":
        yield StreamEvent("said", str(item.get("text", "")))
    elif kind == "command_execution":
        yield StreamEvent("did", "shell", {"command": item.get("command"), "exit": item.get("exit_code")})
    elif kind == "mcp_tool_call":
        name = f"{item.get('server')}.{item.get('tool')}"
        yield StreamEvent("did", name, item.get("arguments") or {})
        if "requires approval" in str(item.get("error") or ""):
            yield StreamEvent("denied", name)
    elif kind in ("file_change", "web_search", "todo_list"):
        yield StreamEvent("did", str(kind), {})


def _settings_file(root: str | None) -> str:
    home = f"{root}/.codex" if root is not None else os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    return f"{home}/config.toml"


DRIVER = Driver(
    rank=11,
    title="Codex",
    launch=launch,
    translate=translate,
    program="codex",
    install="npm install -g @openai/codex",
    own_model=lambda model: model.startswith(("gpt", "o1", "o3", "o4", "codex")),
    login=Login(
        variables=("CODEX_API_KEY",),
        files=(Place("CODEX_HOME", "~/.codex", "auth.json"),),
        settings=(Place("CODEX_HOME", "~/.codex", "config.toml"),),
        command="codex login",
        unread="OPENAI_API_KEY",
    ),
    open_session=("resume", "--no-daemon"),  # its background server would keep this run's environment for later ones
    session_totals=tokens_of_session,
    sandbox="its own sandbox keeps the record, other tasks, .overhand and git hooks read-only",
    project_files=(".codex/config.toml", ".codex/hooks.json"),
    client=McpClient(
        path=_settings_file,
        # it passes on next to nothing of its environment; our server needs the configuration folder, for trust
        entry=lambda command: {"command": command[0], "args": list(command[1:]), "env_vars": ["XDG_CONFIG_HOME"]},
        key="mcp_servers",
        form="TOML",
    ),
)
