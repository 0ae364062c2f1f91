"""One table of verbs: it feeds the parser, the help, the completion and the reference page.

A verb's function takes a `Session` and the arguments by name and returns an `Answer`: the JSON object of the verb and
the exit status. Text on a terminal is rendered from that object, so `--json` shows the same facts by construction.
"""

from __future__ import annotations

import os

from overhand.errors import NotFound
from overhand.store import Store, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class Session:
    """Who calls a verb and where."""

    def __init__(
        self,
        root: str,
        via: str = "cli",
        *,
        interactive: bool = False,
        tell: Callable[[str], None] | None = None,
        progress: Callable[[str], None] | None = None,
        confirm: Callable[[str], bool] | None = None,
    ) -> None:
        self.root = root
        self.store = Store(root)
        self.via = via
        self.interactive = interactive  # a person at a terminal: may be asked, and has seen what is shown
        self.tell = tell or (lambda _text: None)  # a line that stays
        self.progress = progress or (lambda _text: None)  # a line that the next one replaces
        self.confirm = confirm  # asks a person yes or no; None where nobody can be asked


class Answer:
    """What a verb says: one object, or a stream of objects, and the exit status."""

    def __init__(self, payload: dict[str, Any], code: int = 0, stream: Iterator[dict[str, Any]] | None = None) -> None:
        self.payload, self.code, self.stream = payload, code, stream


class Arg:
    """One argument: a word, an option with a value, or a flag (no `value`)."""

    def __init__(
        self,
        name: str,
        help: str,
        *,
        value: str = "",
        many: bool = False,
        optional: bool = False,
        short: str = "",
        choices: tuple[str, ...] = (),
    ) -> None:
        self.name, self.help, self.value, self.many = name, help, value, many
        self.optional, self.short, self.choices = optional, short, choices

    @property
    def key(self) -> str:
        """The parameter it becomes."""
        return self.name.lstrip("-").replace("-", "_").lower()


class Verb:
    """A row of the table."""

    def __init__(
        self,
        name: str,
        group: str,
        help: str,
        call: str,
        *,
        words: tuple[Arg, ...] = (),
        options: tuple[Arg, ...] = (),
        about: str = "",
        aliases: tuple[str, ...] = (),
        project: bool = True,
        person: bool = False,
    ) -> None:
        self.name, self.group, self.help, self.call = name, group, help, call
        self.words, self.options, self.about, self.aliases = words, options, about, aliases
        self.project, self.person = project, person

    def function(self) -> Callable[..., Answer]:
        """Import what the verb does, now that it is needed."""
        from importlib import import_module

        module, _, name = self.call.partition(":")
        found: Callable[..., Answer] = getattr(import_module(module), name)
        return found


ID = Arg("ID", "a task: its number, a part of its title, its id, or - for the last one", value="ID")
IDS = Arg("ID", ID.help, value="ID", many=True)

DELEGATE = (
    Arg("--agent", "who does it (else the default agent)", value="NAME"),
    Arg(
        "--kind",
        "what kind of work: research, plan, fix, review, … (times, level and contract come with it)",
        value="KIND",
    ),
    Arg("--context", "background the agent needs; refer to files instead of pasting them", value="TEXT", many=True),
    Arg("--file", "a key file, optionally with a reason: path=why", value="PATH", many=True),
    Arg("--constraint", "something to keep to", value="TEXT", many=True),
    Arg("--deliverable", "what must be there afterwards: a path, or a sentence", value="PATH|TEXT", many=True),
    Arg("--return", "what the answer must tell", value="TEXT", many=True),
    Arg("--step", "a step of the plan", value="TEXT", many=True),
    Arg("--verify", "a command that must succeed afterwards; run by Overhand before and after", value="CMD", many=True),
    Arg("--handoff", "take the HANDOFF from a file, or - for standard input", value="FILE"),
    Arg("--edit", "open the HANDOFF in $EDITOR before it starts"),
    Arg("--no-start", "only prepare the task; start it later with `overhand run`"),
    Arg("--wait", "wait for the result and show progress", short="-w"),
    Arg("--timeout", "how long the run may take, such as 30m", value="TIME"),
    Arg("--budget", "a budget to tell the agent, such as 200k tokens", value="TEXT"),
    Arg("--priority", "order in the queue", value="P", choices=("P0", "P1", "P2", "P3")),
    Arg(
        "--contract",
        "DOCUMENT_ANALYSIS, RESEARCH_OUTPUT, REVIEW_OUTPUT, or a JSON Schema file for the data",
        value="NAME|FILE",
    ),
    Arg("--model", "passed on to the agent", value="NAME"),
    Arg("--read-only", "the agent may only read"),
    Arg("--here", "work in your own checkout (the only way so far)"),
    Arg("--after", "start when that task is judged completed", value="ID"),
    Arg("--set", "a setting for this task only", value="KEY=VALUE", many=True),
    Arg("--strict", "warnings count as errors"),
)

GLOBAL = (
    Arg("--json", "one JSON object instead of text (JSON lines for streams)"),
    Arg("--project", "the project folder (else the one around you)", value="DIR", short="-C"),
    Arg("--help", "show this", short="-h"),
)

VERBS = (
    Verb(
        "status",
        "everyday",
        "what needs you, what works, what is ready",
        "overhand.verbs.look:status",
        aliases=("inbox",),
    ),
    Verb(
        "delegate",
        "everyday",
        "hand a task to an agent",
        "overhand.verbs.delegate:delegate",
        words=(Arg("TITLE", "what to do", value="TITLE", optional=True),),
        options=DELEGATE,
        aliases=("dispatch",),
        about="Returns at once; the work goes on without this terminal. `overhand wait -` waits for it, "
        "`overhand show -` shows the checked result.",
    ),
    Verb(
        "show",
        "everyday",
        "a task and its receipt: claimed, checked, look at",
        "overhand.verbs.look:show",
        words=(ID,),
        options=(Arg("--output", "print its OUTPUT.md and nothing else"),),
    ),
    Verb(
        "stop",
        "everyday",
        "stop a task and everything its run started",
        "overhand.verbs.control:stop",
        words=(Arg("ID", ID.help, value="ID", many=True, optional=True),),
        options=(
            Arg("--all", "every task that is queued or at work"),
            Arg("--now", "without waiting for the agent to end by itself"),
        ),
        aliases=("cancel",),
    ),
    Verb("init", "set-up", "make this folder an Overhand project", "overhand.verbs.setup:init"),
    Verb(
        "agents",
        "set-up",
        "the agents of this project",
        "overhand.verbs.setup:agents",
        words=(Arg("NAME", "only this one", value="NAME", optional=True),),
        options=(Arg("--example", "print an agent file to start from"),),
    ),
    Verb(
        "trust",
        "set-up",
        "allow this project's agents, checks and settings to run",
        "overhand.verbs.setup:trust_project",
        options=(Arg("--yes", "without asking", short="-y"),),
        person=True,
        about="Trust is bound to the content of these files: a change asks again. "
        "It is kept in your own configuration folder.",
    ),
    Verb(
        "clean",
        "set-up",
        "remove finished tasks that were seen",
        "overhand.verbs.control:clean",
        options=(
            Arg("--older", "how long ago they ended (7d)", value="TIME"),
            Arg("--dry-run", "only say what would go"),
            Arg("--yes", "without asking", short="-y"),
        ),
        person=True,
        about="Removes tasks that ended more than 7 days ago. What nobody has looked at stays, "
        "and so does what a run still holds.",
    ),
    Verb(
        "demo",
        "set-up",
        "see it work, in a minute, without keys or a server",
        "overhand.verbs.setup:demo",
        options=(Arg("--keep", "keep the demo's project folder"),),
        project=False,
    ),
    Verb("version", "set-up", "print the version", "overhand.verbs.setup:version", project=False),
    Verb(
        "completion",
        "set-up",
        "a completion script for your shell",
        "overhand.verbs.setup:completion",
        words=(Arg("SHELL", "bash, zsh or fish", value="SHELL", choices=("bash", "zsh", "fish")),),
        project=False,
    ),
    Verb(
        "list",
        "for scripts",
        "all tasks, or only the live runs",
        "overhand.verbs.look:list_tasks",
        options=(
            Arg("--live", "live runs: session, agent, start, deadline, depth, path"),
            Arg("--delegated", "only tasks that were handed to an agent, not merely prepared"),
        ),
        aliases=("ls",),
    ),
    Verb(
        "wait",
        "for scripts",
        "wait until tasks are judged",
        "overhand.verbs.look:wait",
        words=(IDS,),
        options=(Arg("--timeout", "give up after this long (exit 124)", value="TIME"),),
    ),
    Verb(
        "log",
        "for scripts",
        "what happened, event by event",
        "overhand.verbs.look:show_log",
        words=(ID,),
        options=(
            Arg("--follow", "go on until it is judged", short="-f"),
            Arg("--out", "what the agent printed as well", short="-o"),
        ),
    ),
    Verb(
        "run",
        "for scripts",
        "start a prepared task, or an ended one again",
        "overhand.verbs.control:run_again",
        words=(Arg("ID", "a task, or the path of a folder with a HANDOFF.md", value="ID|PATH"),),
        options=(
            Arg("--agent", "another agent than before", value="NAME"),
            Arg("--wait", "wait for the result", short="-w"),
        ),
    ),
    Verb(
        "check",
        "for scripts",
        "lint a document, or run a task's checks again",
        "overhand.verbs.check:check",
        words=(Arg("FILE|ID", "a file (with a / or a suffix), or a task", value="FILE|ID", optional=True),),
        options=(Arg("--stdin", "read the document from standard input"), Arg("--strict", "warnings count as errors")),
    ),
)

# other names people try; what stands behind the name is added to the arguments
ALIASES: dict[str, tuple[str, ...]] = {
    **{alias: (verb.name,) for verb in VERBS for alias in verb.aliases},
    "ps": ("list", "--live"),
}


def verb(name: str) -> Verb | None:
    """The verb of this name."""
    return next((row for row in VERBS if row.name == name), None)


def open_session(
    given: str | None,
    via: str,
    *,
    interactive: bool,
    tell: Callable[[str], None],
    progress: Callable[[str], None],
    confirm: Callable[[str], bool] | None,
) -> Session:
    """The project this call is about: the one named, the one of the run we are in, or the one around us."""
    inside = os.environ.get("OVERHAND_PROJECT")
    if given is None and inside and os.path.isdir(inside):
        given = inside
    try:
        here = os.getcwd() if given is None else given
    except FileNotFoundError:
        raise NotFound("The folder you are in is gone.", "Go to an existing one.") from None
    root = find_root(here, given=given)
    return Session(root, via, interactive=interactive, tell=tell, progress=progress, confirm=confirm)
