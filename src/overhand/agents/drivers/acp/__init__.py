"""Driver `acp`: any agent that speaks the Agent Client Protocol on its stdin and stdout.

What runs is `client.py`, a small client process that starts the agent and prints what happens as our own events.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import overhand
from overhand.agents.driver import Agent, Driver, Job, Launch
from overhand.agents.drivers.command import fill, require_program
from overhand.agents.programs import wrong_patterns
from overhand.agents.stream import StreamEvent, failure
from overhand.errors import ToolMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

RECIPES = {  # what to write as `command`, and the program's name
    "claude-agent-acp": "npm install -g @agentclientprotocol/claude-agent-acp",
    "codex-acp": "npm install -g @agentclientprotocol/codex-acp",
    "goose": 'npm install -g @aaif/goose; command: ["goose", "acp", "--with-builtin", "developer"]',
    "gemini": 'npm install -g @google/gemini-cli; command: ["gemini", "--acp"]',
    "opencode": 'npm install -g opencode-ai; command: ["opencode", "acp"]',
    "qwen": 'npm install -g @qwen-code/qwen-code; command: ["qwen", "--acp"]',
}
# opencode asks only for what its settings list; a run adds nothing but this
_ASKS = {"permission": {"edit": "ask", "bash": "ask", "external_directory": "allow"}}
_AUTH = -32000  # ACP's error code for a missing login
_ENTER = f"import sys; sys.path.insert(0, sys.argv.pop()); from {__name__}.client import main; sys.exit(main())"


def problems(agent: Agent) -> list[str]:
    """Check `mode` and `auth`, whose values are the agent's own."""
    wrong = [
        f"overhand.{key} must be a word." for key in ("mode", "auth") if not isinstance(agent.options.get(key, ""), str)
    ]
    return wrong + wrong_patterns(agent.options)


def launch(agent: Agent, job: Job) -> Launch:
    """The client process, with a file that configures it and the prompt on stdin."""
    values = {"project": job.project, "workspace": job.workspace, "place": job.desk, "inputs": job.inputs}
    argv = [fill(str(word), values) for word in agent.options["command"]]
    try:
        require_program(argv[0], job.project, agent)
    except ToolMissing as missing:
        known = RECIPES.get(os.path.basename(argv[0]))
        raise ToolMissing(missing.message, f"Install it: {known}" if known else missing.hint) from None
    home = os.path.dirname(os.path.dirname(os.path.abspath(overhand.__file__)))
    spec = {
        "command": [*job.enter, *argv],
        "version": overhand.__version__,
        "task": os.path.basename(job.workspace),
        "run": job.run,
        "project": job.project,
        "home": job.home,
        "place": job.place,
        "desk": job.desk,
        "level": job.level,
        "allow": list(job.allow),
        "deny": list(job.deny),
        "workspace": job.workspace if job.walled else "",
        "session": job.session,
        "mcp": list(job.mcp),
        "model": job.model,
        "mode": agent.options.get("mode", ""),
        "auth": agent.options.get("auth", ""),
    }
    asks = os.path.basename(argv[0]) == "opencode" and (job.level != "full" or job.deny)
    return Launch(
        (sys.executable, "-IS", "-c", _ENTER, home),
        env={"OPENCODE_CONFIG_CONTENT": json.dumps(_ASKS)} if asks else {},
        files=(("OVERHAND_ACP", "acp.json", json.dumps(spec)),),
    )


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    """Translate one line of the client, and classify errors."""
    kind, text, data = str(line.get("kind", "")), str(line.get("text", "")), line.get("data")
    given = data if isinstance(data, dict) else {}
    if kind == "ended" and given.get("how") == "error":
        yield StreamEvent("ended", text[:500], {"how": "auth" if given.get("code") == _AUTH else failure(None, text)})
    elif kind == "said" and text.startswith("Ran into this error"):  # Goose prints this and ends its turn as a success
        yield StreamEvent("said", text, given)
        yield StreamEvent("ended", text[:500], {"how": failure(None, text)})
    elif kind == "ended" and given.get("how") == "clean":
        yield StreamEvent("turned")  # a clean end, unless an earlier event says otherwise
    elif kind:
        yield StreamEvent(kind, text, given)


DRIVER = Driver(
    rank=20,
    launch=launch,
    problems=problems,
    commands=("command",),
    example='  command: ["goose", "acp"]\n',
    translate=translate,
    runs_any=True,
    asks=True,
    bridges=True,
)
