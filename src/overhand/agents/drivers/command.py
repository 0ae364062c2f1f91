"""Driver `command`: any program, by argv, never through a shell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.agents.driver import Agent, Driver, Job, Launch
from overhand.errors import BadInput, ToolMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PROMPT_ARGUMENT = 100_000
PLACEHOLDERS = ("prompt", "workspace", "handoff", "output", "project", "inputs")


def launch(agent: Agent, job: Job) -> Launch:
    """Fill the placeholders in; the prompt goes to stdin unless argv asks for it."""
    words: list[str] = list(agent.options["command"])
    in_argv = any("{prompt}" in word for word in words)
    if in_argv and len(job.prompt.encode("utf-8", "replace")) > MAX_PROMPT_ARGUMENT:
        raise BadInput(
            f"The prompt is longer than {MAX_PROMPT_ARGUMENT} bytes, too long for an argument.",
            f"Leave {{prompt}} out of overhand.command in {agent.source}: it is then given on stdin.",
        )
    values = {name: str(getattr(job, name)) for name in PLACEHOLDERS}
    argv = tuple(fill(word, values) for word in words)
    require_program(argv[0], job.project, agent)
    return Launch(argv, prompt_on_stdin=not in_argv)


def fill(word: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder once; a placeholder inside a value stays as it is."""
    parts = []
    rest = word
    while rest:
        found = [(rest.find("{" + name + "}"), name) for name in values if "{" + name + "}" in rest]
        if not found:
            break
        place, name = min(found)
        parts += [rest[:place], values[name]]
        rest = rest[place + len(name) + 2 :]
    return "".join(parts) + rest


def require_program(program: str, project: str, agent: Agent) -> None:
    """Raise before the start if a program is missing."""
    if "/" in program:
        found = os.access(os.path.join(project, program), os.X_OK)
    else:  # like `shutil.which`, without the three milliseconds that importing shutil costs every delegation
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        paths = [os.path.join(folder, program) for folder in folders]
        found = any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)
    if not found:
        raise ToolMissing(
            f"Agent {agent.name} needs the program {program}, which is not there.",
            "Install it, or change overhand.command.",
        )


DRIVER = Driver(rank=1, launch=launch, commands=("command",), reads_ipc=True)
