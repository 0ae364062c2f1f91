"""Agent programs on this machine: where they are, and the names of their sessions."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from overhand.errors import ToolMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.agents import Agent, Job

INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "gemini": "npm install -g @google/gemini-cli",
    "opencode": "npm install -g opencode-ai",
    "goose": "npm install -g @aaif/goose",
    "qwen": "npm install -g @qwen-code/qwen-code",
}

# what our own MCP server needs of a run's environment, where an agent does not hand on all of it
SERVER_VARIABLES = (
    *("OVERHAND_PROJECT", "OVERHAND_TASK", "OVERHAND_RUN", "OVERHAND_DEPTH", "OVERHAND_MCP_BLOCK"),
    *("HOME", "PATH", "PYTHONPATH", "TMPDIR", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
)

HOOK_SECONDS = 20  # for our stop hook; after that the agent stops all the same

# how a person opens one of its sessions on a terminal
_OPEN = {
    "claude": ("--resume",),
    "codex": ("resume", "--no-daemon"),  # its background server would keep this run's environment for later ones
    "gemini": ("--resume",),
    "opencode": ("--session",),
    "goose": ("session", "--resume", "--name"),
    "qwen": ("--resume",),
}

# Programs that cannot be held to level read: who delegates is told, and what they changed is found afterwards.
UNHELD = {"goose": "Goose has no sandbox: it is told to change nothing else, and what it changed is found afterwards"}


def find(name: str) -> str | None:
    """The program of this name on PATH."""
    beside = [os.path.dirname(sys.executable)] if name == "overhand" else []  # in a virtual environment
    for folder in (*os.environ.get("PATH", os.defpath).split(os.pathsep), *beside):
        path = os.path.join(folder, name)
        if not os.path.isabs(folder):
            continue  # a place in whatever project one is in is nobody's installation
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def require(agent: Agent, name: str) -> str:
    """The program that runs this agent: the one its file names, or the one on PATH."""
    wanted = str(agent.options.get("program") or name)
    found = wanted if os.sep in wanted and os.access(wanted, os.X_OK) else find(wanted)
    if found is None:
        raise ToolMissing(
            f"Agent {agent.name} needs the program {wanted}, which is not there.",
            f"Install it: {INSTALL.get(name, f'put {wanted} on your PATH')}",
        )
    return found


def stop_hook(agent: Agent, job: Job) -> str:
    """The command that an agent's program is to run before it stops; `hooks: false` in the agent's file leaves it out.

    It is run by a shell in the project's folder: nothing there may be taken for a module of ours.
    """
    if not agent.options.get("hooks", True):
        return ""
    return shlex.join((sys.executable, "-P", "-m", "overhand.verbs.hook", job.project, job.place))


def own_server(agent: Agent) -> tuple[str, ...]:
    """The command of our MCP server, for agents that take one; `mcp: false` in the agent's file leaves it out."""
    if not agent.real or not agent.options.get("mcp", True):
        return ()
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        return ()
    return (sys.executable, "-P", "-m", "overhand", "mcp")  # -P: nothing in the project is a module of ours


def opened(agent: Agent, session: str) -> list[str]:
    """The command that opens a session for a person."""
    return [require(agent, agent.driver), *_OPEN[agent.driver], session]


def wrong_patterns(options: Mapping[str, Any]) -> list[str]:
    """What is wrong with `allow` and `deny`."""
    wrong = []
    for key in ("allow", "deny"):
        given = options.get(key, [])
        if not isinstance(given, list) or not all(isinstance(one, str) and one.strip() for one in given):
            wrong.append(f'overhand.{key} must be a list of patterns: ["execute: git *"].')
    return wrong


def is_session(name: str, text: str) -> bool:
    """Whether this can be a session of that program: it becomes a word of its command line."""
    if name in ("opencode", "goose"):
        return 0 < len(text) <= 200 and text[0].isalnum() and all(c.isalnum() or c in "._-" for c in text)
    import uuid

    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def session_name(run_id: str) -> str:
    """A session id of our own making, always the same for a run: a UUID, as some agents want it."""
    import uuid

    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"overhand:{run_id}"))
