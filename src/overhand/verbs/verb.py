"""What a verb is; table.py lists them.

A verb's function takes a `Session` and the arguments by name and returns a `Reply`: the JSON object of the verb and
the exit status. Text on a terminal is rendered from that object, so `--json` shows the same facts by construction.
"""

from __future__ import annotations

import os

from overhand.errors import NotFound, OverhandError, Refused, storage_failed
from overhand.record import Store, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from overhand.record import Task

PATIENCE = 1.0  # seconds


class Session:
    """The project and the terminal of one call of a verb."""

    def __init__(
        self,
        root: str,
        via: str = "cli",
        *,
        interactive: bool = False,
        tell: Callable[[str], None] | None = None,
        progress: Callable[[str], None] | None = None,
        confirm: Callable[[str], bool] | None = None,
        read: Callable[[str], str | None] | None = None,
    ) -> None:
        self.root = root
        self.store = Store(root, on_move=_move_trust)
        self.via = via
        self.interactive = interactive  # a person at a terminal: may be asked, and has seen what is shown
        self.tell = tell or (lambda _text: None)  # a line that stays
        self.progress = progress or (lambda _text: None)  # a line that the next one replaces
        self.confirm = confirm  # asks a person yes or no; None without a terminal
        self.read = read  # asks a person for a line; it returns None at the end of input
        self.plain = False  # the output is only read: text is enough where an object for each line would be slow
        self.draw: Callable[[dict[str, Any]], None] | None = None  # redraws a plan in place; None where that can't be
        self.patience = PATIENCE  # left for a supervisor that is behind, until it is not
        self.reminded: set[tuple[str, str | None]] = set()  # queued tasks that the supervisor was reminded of
        self.gone = -1  # a descriptor that becomes readable once the client is gone

    def is_gone(self) -> bool:
        """Whether the client no longer waits for the reply."""
        import select

        return self.gone >= 0 and bool(select.select([self.gone], [], [], 0)[0])

    def hand_over(self, task_ids: list[str]) -> str:
        """Let a supervisor run these recorded tasks. Returns, and says, why they don't start yet; else nothing.

        It raises no error: the tasks are made, and a command that failed would be typed again and make more.
        """
        from overhand.supervisor import hand_to_supervisor

        try:
            if not hand_to_supervisor(self.store, task_ids):
                self.tell(
                    "It is recorded, but no supervisor may be started from inside this sandbox; "
                    "the next verb outside will."
                )
            return ""
        except (Refused, OSError) as error:
            why = error if isinstance(error, Refused) else storage_failed(error, "Cannot reach a supervisor")
        self.tell(f"It is recorded, and the next verb tries again to start it. {why.message} {why.hint}")
        return f"Recorded, but not started yet; the next verb tries again. {why.message}"


class Recorded:
    """What goes wrong inside is reported with the task's id: it is made, and will run."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise self._named(storage_failed(error, "That did not work")) from error
        if isinstance(error, OverhandError):
            self._named(error)

    def _named(self, error: OverhandError) -> OverhandError:
        task = self.task
        error.facts = {"task_id": task.id, "handle": task.handle, **error.facts}
        error.message = f"Task {task.name} ({task.id}) is recorded, and runs when it can. {error.message}"
        error.hint = f"Don't type it again; look at it: overhand show {task.name}. {error.hint}".strip()
        return error


def _move_trust(before: str, after: str) -> None:
    from overhand.policy import move_trust  # rarely needed

    move_trust(before, after)


class Reply:
    """What a verb returns: one object, or a stream of objects, and the exit status."""

    def __init__(self, payload: dict[str, Any], code: int = 0, stream: Iterator[dict[str, Any]] | None = None) -> None:
        self.payload, self.code, self.stream = payload, code, stream


def about_task(verb: str, task: Task, *fields: str) -> dict[str, Any]:
    """The first keys of a reply about a task."""
    head = {"schema": f"overhand.{verb}/1", "task_id": task.id, "handle": task.handle}
    return {**head, **{name: getattr(task, name) for name in fields}}


class Arg:
    """One argument: a word, an option with a value (`--agent NAME`), or a flag.

    Without a name, a value is called like its choices or its word.
    """

    def __init__(
        self,
        name: str,
        help: str,
        *,
        value: str = "",
        many: bool = False,
        optional: bool = False,
        short: str = "",
        choices: tuple[str, ...] | str = (),
        bare: str = "",
    ) -> None:
        self.name, _, named = name.partition(" ")
        self.help, self.many = help, many
        word = "" if name.startswith("-") else name
        self.value = value or named or ("|".join(choices) if isinstance(choices, tuple) else "") or word
        self.optional, self.short, self._choices = optional, short, choices
        self.bare = bare  # the value of an option that no number follows

    @property
    def choices(self) -> tuple[str, ...]:
        """The values it may have, if only some; a string names the function that returns them."""
        return _imported(self._choices)() if isinstance(self._choices, str) else self._choices

    @property
    def key(self) -> str:
        """The parameter it becomes."""
        key = self.name.lstrip("-").replace("-", "_").lower()
        return f"{key}_" if key == "from" else key  # a word that Python keeps for itself


class Verb:
    """A row of the table; without `call`, the verb is the function of its name in the module of its name."""

    def __init__(
        self,
        name: str,
        help: str,
        call: str = "",
        *,
        words: tuple[Arg, ...] = (),
        options: tuple[Arg, ...] = (),
        about: str = "",
        aliases: tuple[str, ...] = (),
        project: bool = True,
        person: bool = False,
    ) -> None:
        self.name, self.help = name, help
        self.call = call or f"overhand.verbs.{name}:{name}"
        self.words, self.options, self.about, self.aliases = words, options, about, aliases
        self.project, self.person = project, person

    def function(self) -> Callable[..., Reply]:
        """Import the verb's function, now that it is needed."""
        found: Callable[..., Reply] = _imported(self.call)
        return found


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(__import__(module, fromlist=[name]), name)  # importlib is slow to import


def is_file(text: str) -> bool:
    """Whether a word means a file: it has a `/` or a suffix."""
    return "/" in text or "." in text.strip(".")


def open_session(
    given: str | None,
    via: str,
    *,
    interactive: bool,
    tell: Callable[[str], None],
    progress: Callable[[str], None],
    confirm: Callable[[str], bool] | None,
    read: Callable[[str], str | None] | None = None,
) -> Session:
    """The project of this call: the one named, the one of the run we are in, or the one around us."""
    inside = os.environ.get("OVERHAND_PROJECT")
    if given is None and inside and os.path.isdir(inside):
        given = inside
    try:
        here = os.getcwd() if given in (None, ".") else given
    except FileNotFoundError:
        raise NotFound("The folder you are in is gone.", "Go to an existing one.") from None
    root = find_root(here, given=here if given == "." else given)
    return Session(root, via, interactive=interactive, tell=tell, progress=progress, confirm=confirm, read=read)
