"""Driver `qwen`: Qwen Code, headless; its stream is like Claude Code's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, Launch, claude, gemini
from overhand.agents.programs import require
from overhand.agents.stream import Event, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "qwen"
RESUMES = True
COMPACTS = True
MAX_BLOCK = 100.0


def problems(_agent: Agent) -> list[str]:
    """Nothing needs to be said in an agent file."""
    return []


def launch(agent: Agent, job: Job) -> Launch:
    """`qwen` with the prompt on stdin."""
    argv = [require(agent, PROGRAM), "--output-format", "stream-json", "--approval-mode", gemini.MODES[job.level]]
    argv += ["--include-directories", job.place]
    if job.model:
        argv += ["-m", job.model]
    if job.session:
        argv += ["--resume", job.session]
    argv += [str(word) for word in agent.options.get("args", ())]
    return Launch(tuple(argv), files=_settings(job))


def _settings(job: Job) -> tuple[tuple[str, str, str], ...]:
    """A settings file of this run alone, named by a variable: nothing is written to HOME or the repository."""
    if not job.mcp:
        return ()
    server = {"command": job.mcp[0], "args": list(job.mcp[1:]), "timeout": 86_400_000, "trust": True}
    server["alwaysLoadTools"] = True  # else they are hidden behind a search
    return (("QWEN_CODE_SYSTEM_SETTINGS_PATH", "settings.json", json.dumps({"mcpServers": {"overhand": server}})),)


def translate(line: dict[str, Any]) -> Iterator[Event]:
    """One line; an error of the model's service may stand in the text of a success."""
    for event in claude.translate(line):
        text = event.text
        if event.kind == "ended" and event.data.get("how") != "max-turns":
            error = line.get("error")
            told = str(error.get("message", "")) if isinstance(error, dict) else text
            if "[API Error" in told:
                yield Event("ended", told[:500], {"how": failure(_status(told), told)})
                continue
        yield event


def _status(text: str) -> int | None:
    code = text.partition("[API Error: ")[2][:3]
    return int(code) if code.isdigit() else None
