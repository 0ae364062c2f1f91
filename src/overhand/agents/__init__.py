"""Agents: a name for something that can be run. Each driver is one small module here."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from overhand.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from overhand.agents import stream

REAL = ("claude", "codex", "gemini", "opencode", "goose", "qwen")  # programs with a structured stream of their own
STREAMS = (*REAL, "acp")  # drivers whose runs are coding agents, heard by their streams
DRIVERS = ("command", "function", "external", *STREAMS)
LATER = ("a2a",)


@dataclass(frozen=True, slots=True)
class Agent:
    """What an agent file says."""

    name: str
    driver: str
    source: str = ""  # the file, relative to the project where it lies there
    trusted_with: tuple[str, ...] = ()  # project files whose content must be trusted before it runs
    description: str = ""
    body: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # the `overhand:` part
    capabilities: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # sections of the HANDOFF that must be there
    gives: tuple[str, ...] = ()  # sections of the OUTPUT that must be there
    digest: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def reentrant(self) -> bool:
        """Whether it may occur twice in one delegation path."""
        return bool(self.options.get("reentrant", False))

    @property
    def can_delegate(self) -> bool:
        """Whether its runs may delegate."""
        return bool(self.options.get("can_delegate", True))

    @property
    def level(self) -> str:
        """The most that its runs may do."""
        return str(self.options.get("level", "full"))

    @property
    def exclusive(self) -> bool:
        """Whether it must be the only run in the checkout."""
        return bool(self.options.get("exclusive", False))

    @property
    def real(self) -> bool:
        """Whether a coding agent's own program runs it."""
        return self.driver in STREAMS

    @property
    def compacts(self) -> bool:
        """Whether it makes room in its context window itself."""
        return bool(self.options.get("compacts", self.real))

    @property
    def control(self) -> bool:
        """Whether CONTROL lines in what it says are heard."""
        return bool(self.options.get("control", self.real))

    @property
    def reruns(self) -> bool:
        """Whether an invalid return is sent back: in the same session, or by running it again."""
        return self.real or self.options.get("repair") == "rerun"


@dataclass(frozen=True, slots=True)
class Launch:
    """How one run of an agent is started."""

    argv: tuple[str, ...]
    prompt_on_stdin: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[tuple[str, str, str], ...] = ()  # variable, name and text of files put into the run's folder


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver is given to build a launch from: absolute paths."""

    prompt: str
    workspace: str
    handoff: str
    output: str
    project: str
    place: str = ""  # the run's own folder
    run: str = ""
    level: str = "work"
    model: str = ""
    session: str = ""  # the native session to go on with
    mcp: tuple[str, ...] = ()  # the command of our own MCP server, for this run
    allow: tuple[str, ...] = ()  # patterns, in the agent's own words
    deny: tuple[str, ...] = ()
    inputs: str = ""  # the file with the inputs of a plan's node


class Driver(Protocol):
    """What each module of this package offers."""

    def problems(self, agent: Agent) -> list[str]:
        """What is missing or wrong in the agent's `overhand:` part."""

    def launch(self, agent: Agent, job: Job) -> Launch:
        """The command that runs it; raises ToolMissing, BadInput."""


def translator(name: str) -> Callable[[dict[str, Any]], Iterable[stream.Event]] | None:
    """What reads the JSON lines of a driver's program; None where it prints plain text."""
    if name not in STREAMS:
        return None
    module: Any = import_module(f"overhand.agents.{name}")
    found: Callable[[dict[str, Any]], Iterable[stream.Event]] = module.translate
    return found


def driver(name: str) -> Driver:
    """The driver of this name."""
    if name not in DRIVERS:
        known = ", ".join(DRIVERS)
        raise BadInput(
            f"There is no driver {name!r}; this version has {known}.", "Set overhand.driver in the agent file."
        )
    module: Any = import_module(f"overhand.agents.{name}")
    found: Driver = module
    return found
