"""Agents and drivers: the one place where the rest of the code looks up a driver.

Each module or package in `agents/drivers` is a driver of that name, described completely by one value, `DRIVER`. The
folder is the list: nothing else names a driver, and none is imported before it is needed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from overhand.agents import drivers
from overhand.errors import BadInput
from overhand.system import Beneath, home_of_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from overhand.agents.stream import StreamEvent, StreamSummary
    from overhand.record import Question, Store

    Translate = Callable[[dict[str, Any]], Iterable[StreamEvent]]
    Used = Mapping[str, Any]  # the keys of `Heard.usage`
    # of a task's run, for a tool and its input: the reply, or the question whose answer makes it
    Permit = Callable[[Store, str, str, str, dict[str, Any]], dict[str, Any] | "OpenPermission"]


@dataclass(frozen=True, slots=True)
class Agent:
    """What an agent file says."""

    name: str
    driver: str
    source: str = ""  # the file, relative to the project if it is inside
    trusted_with: tuple[str, ...] = ()  # project files whose content must be trusted before it runs
    description: str = ""
    body: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # the `overhand:` part
    capabilities: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # required sections of the HANDOFF
    gives: tuple[str, ...] = ()  # required sections of the OUTPUT
    digest: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def reentrant(self) -> bool:
        """Whether it may occur twice in one delegation path."""
        return bool(self.options.get("reentrant", False))

    @property
    def can_delegate(self) -> bool:
        return bool(self.options.get("can_delegate", True))

    @property
    def level(self) -> str:
        """The most that its runs may do."""
        return str(self.options.get("level", "full"))

    @property
    def shield(self) -> str | None:
        """The shield that its file wants: the user's own file decides, a project's can only raise."""
        return str(found) if (found := self.options.get("shield")) else None

    @property
    def is_of_project(self) -> bool:
        return not os.path.isabs(self.source)

    @property
    def exclusive(self) -> bool:
        """Whether it must be the only run in the checkout."""
        return bool(self.options.get("exclusive", False))

    @property
    def real(self) -> bool:
        """Whether a coding agent's own program runs it."""
        return translator(self.driver) is not None

    @property
    def in_place(self) -> bool:
        """Whether it needs no working tree of its own."""
        driver = lookup(self.driver)
        return driver is not None and driver.in_place

    @property
    def compacts(self) -> bool:
        return bool(self.options.get("compacts", self.real))

    @property
    def control(self) -> bool:
        """Whether CONTROL lines in its output are obeyed."""
        return bool(self.options.get("control", self.real))

    @property
    def reruns(self) -> bool:
        """Whether an invalid return is sent back: in the same session, or by running it again."""
        return self.real or self.options.get("repair") == "rerun"


UNANSWERED = "unanswered"  # on the desk of a function's run: it ended because its question was not answered


@dataclass(frozen=True, slots=True)
class Launch:
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
    project: str  # where it works: the task's tree, or the project
    home: str = ""  # the project
    place: str = ""  # the run's folder in the record, which the agent may only read
    record: str = ""  # the task's folder in the record
    desk: str = ""  # the run's folder in the workspace, where it leaves its return
    run: str = ""
    level: str = "work"
    model: str = ""
    session: str = ""  # the native session to continue
    mcp: tuple[str, ...] = ()  # the command of our own MCP server, for this run
    allow: tuple[str, ...] = ()  # patterns, in the agent's own words
    deny: tuple[str, ...] = ()
    asked_for: tuple[str, ...] = ()  # files, or globs, that a run of level read may write beside its own folder
    inputs: str = ""  # the file with the inputs of a plan's node
    enter: tuple[str, ...] = ()  # words before a program's own that put up the run's shield
    walled: bool = False  # the shield keeps the whole project read-only, but for the workspace


@dataclass(frozen=True, slots=True)
class Place:
    """A file in a folder that a variable names, or in its default folder."""

    variable: str
    default: str
    name: str

    @property
    def path(self) -> str:
        return os.path.join(os.path.expanduser(os.environ.get(self.variable) or self.default), self.name)


@dataclass(frozen=True, slots=True)
class Login:
    """Signs that a program is logged in, and how to log in. The files are only checked for existence, never read."""

    variables: tuple[str, ...]
    files: tuple[Place, ...]
    settings: tuple[Place, ...]  # if these exist, the program may have a key that we can't see
    command: str
    provider: str = ""  # the variable that names the provider whose key it uses; without it only settings may have one
    unread: str = ""  # an API key that people expect it to use, but it doesn't
    keychain: bool = False  # on macOS its key may be there

    def state(self) -> tuple[bool | None, str]:
        """Whether the program seems to be logged in (None: unknown), and the evidence."""
        if variable := next((v for v in self.variables if os.environ.get(v)), None):
            return True, f"{variable} is set"
        if path := next((p.path for p in self.files if os.path.isfile(p.path)), None):
            return True, f"{_shown(path)} is there"
        if provider := os.environ.get(self.provider):
            key = f"{provider.upper()}_API_KEY"
            why = f"{key} is set" if os.environ.get(key) else f"{self.provider} is {provider}, a key may be elsewhere"
            return (True if os.environ.get(key) else None), why
        if path := next((p.path for p in self.settings if os.path.isfile(p.path)), None):
            return None, f"{_shown(path)} may name a key"
        if self.keychain and sys.platform == "darwin":
            return None, "it may have its key in the keychain"
        if os.environ.get(self.unread):
            return False, f"{self.unread} is set, but it does not take that one"
        return False, "no provider was chosen" if self.provider else "no key and no login was found"

    def hint(self) -> str:
        if self.unread and os.environ.get(self.unread):
            return f"printenv {self.unread} | {self.command} --with-api-key"
        return self.command


def _shown(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


@dataclass(frozen=True, slots=True)
class McpClient:
    """Where a coding client keeps its MCP servers, and how our own is written there."""

    path: Callable[[str | None], str]  # its file in a project, or (None) the user's own
    entry: Callable[[Sequence[str]], dict[str, Any]]  # for the command that starts our server
    key: str = "mcpServers"  # what holds the servers
    form: str = "JSON"  # or TOML
    comments: bool = True  # its JSON may have comments
    plugin: Mapping[str, str] = field(default_factory=dict)  # files of `mcp/plugin`, and where its plugins have them


def own_desk() -> Beneath:
    """The run's folder in the workspace, for a process of ours inside a run."""
    home = home_of_run()
    return Beneath(home, os.path.relpath(os.path.dirname(os.environ["OVERHAND_OUTPUT"]), home))


def is_uuid(text: str) -> bool:
    """Whether this is a UUID, as most programs name their sessions."""
    import uuid

    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def tool_names(agent: Agent) -> list[str]:
    """The tools that an agent's file names, as a list, a text with commas, or those of a mapping that are not off."""
    given = agent.options.get("tools")
    if isinstance(given, dict):
        return [str(name) for name, on in given.items() if on not in (False, "deny")]
    words = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else ()
    return [name for word in words if (name := str(word).strip())]


def is_plain_name(text: str) -> bool:
    """Whether this can be one word of a command line, and no option."""
    return 0 < len(text) <= 200 and text[0].isalnum() and all(c.isalnum() or c in "._-" for c in text)


def session_name(run_id: str) -> str:
    """Our own session id for a run, always the same: a UUID, as some agents require."""
    import uuid

    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"overhand:{run_id}"))


def tokens_of_session(_used: Used, _before: Used) -> tuple[str, ...]:
    """For programs that count the tokens of the whole session."""
    return "input", "output"


class OpenPermission:
    """A question that a person has to answer before a tool is used, and the reply that an answer makes."""

    def __init__(self, question: Question, reply: Callable[[str | None], dict[str, Any]]) -> None:
        self.question, self.reply = question, reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Everything that Overhand knows about one way to run an agent; the defaults fit any command."""

    rank: int  # its place in lists; the first installed program that is logged in is the default
    launch: Callable[[Agent, Job], Launch]  # raises ToolMissing, BadInput
    title: str = ""  # as people call it
    problems: Callable[[Agent], list[str]] = lambda _agent: []  # what is wrong in the agent's `overhand:` part
    commands: tuple[str, ...] = ()  # required keys of that part: each a command, as a list of words
    example: str = ""  # lines of that part, beside `driver`, for `agents --example`

    # a coding agent: what its program prints, and what it is called
    translate: Translate | None = None  # reads one JSON line of its stream; None where it prints plain text
    program: str = ""  # on PATH; an agent of the driver's name needs no file then
    install: str = ""  # what to type where it is missing
    login: Login | None = None
    quiet: Mapping[str, str] = field(default_factory=dict)  # variables with which `--version` does nothing else
    # whether a model that an agent file names is one of its own: such files are written for any program
    own_model: Callable[[str], bool] = lambda model: model not in ("inherit", "haiku", "sonnet", "opus")
    takes_tools: bool = False  # its runs have no other tools than those that an agent file names
    hinted: bool = False  # its models have the names that plans use as hints

    # its sessions
    open_session: tuple[str, ...] = ()  # arguments before a session's id that open it on a terminal
    is_session: Callable[[str], bool] = is_uuid
    own_session: Callable[[str, StreamSummary], str] = lambda _run, _heard: ""  # of a run whose stream names none
    session_totals: Callable[[Used, Used], tuple[str, ...]] = lambda _used, _before: ()  # what counts the whole session

    # what it may do
    project_files: tuple[str, ...] = ()  # files and folders of a project from which it runs hooks, servers, plugins
    personal_files: tuple[str, ...] = ()  # those of them that are the person's own unless the repository tracks them
    runs_any: bool = False  # what it starts may be the program of any driver, with that one's project files
    asks: bool = False  # what its level withholds becomes a question; `allow` and `deny` can be enforced
    permit: Permit | None = None  # answers the prompts that its program sends to our MCP server
    unheld: str = ""  # why level `read` can't be enforced

    in_place: bool = False  # it gets no tree of its own: it works in another process or on another machine
    bridges: bool = False  # its own process stays outside the shield and puts `enter` before what it starts
    sandbox: str = ""  # what keeps its programs from the same folders at levels below full, where no shield does

    # our side
    client: McpClient | None = None
    parks_itself: bool = False  # its process ends, and leaves UNANSWERED on its desk, when a question is not answered
    reads_ipc: bool = False  # it reads its ipc folder while it runs
    open_job: Callable[[str], str | None] | None = None  # the handle of a task's job elsewhere that is not over


def check_programs(agent: Agent, project: str) -> None:
    """Raise ToolMissing if a program is missing: better before a task is accepted than after."""
    driver = find_driver(agent.driver)
    if driver.program:
        from overhand.agents.programs import require

        require(agent)
    elif driver.commands and driver.open_job is None:  # it runs here
        driver.launch(agent, Job("", project, "", "", project))


def driver_names() -> list[str]:
    """The names of all drivers; none is imported."""
    found = set()
    for folder in drivers.__path__:
        for name in os.listdir(folder):
            if name.endswith(".py") or os.path.isfile(f"{folder}/{name}/__init__.py"):
                found.add(name.removesuffix(".py"))
    return sorted(found - {"__init__"})


def lookup(name: str) -> Driver | None:
    """The driver of this name, or None: a run may be of another version, and a plan has no driver here."""
    place = f"{drivers.__name__}.{name}"
    if place not in sys.modules and name not in driver_names():
        return None
    return _described(place)


@cache
def _described(place: str) -> Driver | None:
    """What a module says of itself, once it is imported whole: another thread may have imported half of it."""
    module: Any = import_module(place)
    found: Driver | None = getattr(module, "DRIVER", None)
    return found


def find_driver(name: str) -> Driver:
    """The driver of this name; raises BadInput."""
    if (found := lookup(name)) is None:
        raise BadInput(
            f"There is no driver {name!r}; this version has {', '.join(all_drivers())}.",
            "Set overhand.driver in the agent file.",
        )
    return found


def all_drivers() -> dict[str, Driver]:
    """Every driver by its name, in the order of lists."""
    found = {name: find_driver(name) for name in driver_names()}
    return dict(sorted(found.items(), key=lambda one: one[1].rank))


def installable() -> dict[str, Driver]:
    """The drivers of programs: an installed one is an agent of the driver's name."""
    return {name: driver for name, driver in all_drivers().items() if driver.program}


def translator(name: str) -> Translate | None:
    """The parser for the JSON lines of a driver's program; None if it prints plain text or the driver is unknown."""
    return found.translate if (found := lookup(name)) else None
