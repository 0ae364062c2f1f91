"""Agent programs on this machine: where they are, and the names of their sessions."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from overhand.errors import ToolMissing

if TYPE_CHECKING:
    from overhand.agents import Agent

INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "gemini": "npm install -g @google/gemini-cli",
    "opencode": "npm install -g opencode-ai",
    "goose": "npm install -g @aaif/goose",
    "qwen": "npm install -g @qwen-code/qwen-code",
}


def find(name: str) -> str | None:
    """The program of this name on PATH."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
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


def session_name(run_id: str) -> str:
    """A session id of our own making, always the same for a run: a UUID, as some agents want it."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"overhand:{run_id}"))
