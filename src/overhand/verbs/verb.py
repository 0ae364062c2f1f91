"""What a verb is; table.py lists them.

A verb's function takes a `Session` and the arguments by name and returns a `Reply`: the JSON object of the verb and
the exit status. Text on a terminal is rendered from that object, so `--json` shows the same facts by construction.
"""

from __future__ import annotations

import os

from overhand.errors import NotFound, OverhandError, Refused, storage_failed
from overhand.record import Store, find_root
from overhand.system import home_of_run
from overhand.words import SHOWN_VERIFICATIONS, VERIFICATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from overhand.policy import Caller
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
        store: Store | None = None,
    ) -> None:
        self.root = root
        self.store = store or Store(root, on_move=_move_trust)
        self.store.ask = _ask_supervisor
        self.via = via
        self.env: Mapping[str, str] = os.environ  # of what the verb starts
        self.cwd = ""  # where the caller is, if not where this process is
        self.defers = False  # a verb that has to wait raises Deferred: this thread is needed for others
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
        self.has_left: Callable[[], bool] | None = None  # says so where there is no such descriptor

    def folder(self) -> str:
        """Where the caller is: names of files are relative to it."""
        return self.cwd or os.getcwd()

    def wait(self, pending: Pending) -> Reply:
        """The reply of a verb that waits for tasks, or for an answer; a run that waits holds no slot."""
        if self.defers:
            raise Deferred(pending)
        import time

        from overhand.policy import find_caller
        from overhand.questions import mark_of_caller
        from overhand.supervisor import hand_to_supervisor

        caller = find_caller(self.store)
        mark = mark_of_caller(self.store, caller.task, caller.run, pending.seq)
        with self.store.subscribe(pending.tasks) as bell, mark:
            if not caller.is_person and pending.seq is None:
                hand_to_supervisor(self.store, pending.tasks)  # our slot is free now
            while True:
                reply = pending.look(time.monotonic() >= pending.until or self.is_gone())
                if reply is not None:
                    return reply
                bell.wait(pending.until - time.monotonic(), self.gone)

    def is_gone(self) -> bool:
        """Whether the client no longer waits for the reply."""
        if self.has_left is not None:
            return self.has_left()
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


class Pending:
    """What a verb waits for: tasks whose logs grow when something happens, at most until then.

    `look` returns the reply once there is one; when the time is over it returns what it has, or raises TimedOut.
    """

    def __init__(
        self, tasks: list[str], look: Callable[[bool], Reply | None], until: float, *, seq: int | None = None
    ) -> None:
        self.tasks, self.look, self.until = tasks, look, until
        self.seq = seq  # of the question whose answer is waited for


class Deferred(Exception):
    """The verb has done all but wait."""

    def __init__(self, pending: Pending) -> None:
        super().__init__()
        self.pending = pending


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
        if isinstance(error, Deferred):
            look = error.pending.look
            error.pending.look = lambda over: self._look(look, over)

    def _look(self, look: Callable[[bool], Reply | None], over: bool) -> Reply | None:
        with self:
            return look(over)

    def _named(self, error: OverhandError) -> OverhandError:
        task = self.task
        error.facts = {"task_id": task.id, "handle": task.handle, **error.facts}
        error.message = f"Task {task.name} ({task.id}) is recorded, and runs when it can. {error.message}"
        error.hint = f"Don't type it again; look at it: overhand show {task.name}. {error.hint}".strip()
        return error


def _move_trust(before: str, after: str) -> None:
    from overhand.policy import move_trust  # rarely needed

    move_trust(before, after)


def _ask_supervisor(store: Store, question: Mapping[str, object]) -> bytes | None:
    from overhand.supervisor import ask_supervisor  # rarely needed

    return ask_supervisor(store, question)


class Reply:
    """What a verb returns: one object, or a stream of objects, and the exit status."""

    def __init__(self, payload: dict[str, Any], code: int = 0, stream: Iterator[dict[str, Any]] | None = None) -> None:
        self.payload, self.code, self.stream = payload, code, stream


def with_requirement(reply: Reply, least: str | None) -> Reply:
    """The reply, with exit status 1 and the reasons, if a result in it is verified less than `least`."""
    if least is None:
        return reply
    words, unmet = list(SHOWN_VERIFICATIONS), []
    for one in reply.payload.get("tasks") or [reply.payload]:
        word = one.get("verification") or "none"
        if words.index(word) < words.index(least):
            why = "; ".join(one.get("doubts") or ()) or VERIFICATIONS[word]
            wanted = f"--require {least} asks for {SHOWN_VERIFICATIONS[least]}"
            unmet.append(f"Task {one['handle']}: {SHOWN_VERIFICATIONS[word]}, but {wanted}: {why}.")
    return Reply({**reply.payload, "required": least, "unmet": unmet}, 1 if unmet else reply.code)


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
    inside = home_of_run()
    if given is None and inside and os.path.isdir(inside):
        given = inside
    try:
        here = os.getcwd() if given in (None, ".") else given
    except FileNotFoundError:
        raise NotFound("The folder you are in is gone.", "Go to an existing one.") from None
    root = find_root(here, given=here if given == "." else given)
    return Session(root, via, interactive=interactive, tell=tell, progress=progress, confirm=confirm, read=read)


# What a run can only have done by the supervisor: what changes something, and `wait`.
_CALLED = (
    "ask",
    "step",
    "checkpoint",
    "finish",
    "delegate",
    "send",
    "answer",
    "stop",
    "resume",
    "run",
    "wait",
    "monitor",
    "permit",
)
_CALLED_TO = {"item": ("approve", "next", "claim", "done", "needs", "dismiss", "new"), "alert": ("raise", "resolve"),
              "plan": ("run",)}  # fmt: skip
_READS_RECORD = ("status", "list", "show", "log", "step", "checkpoint", "doctor", "projects")


def call_verb(verb: Verb, session: Session, values: dict[str, Any]) -> Reply:
    """Call a verb: here, or from inside a run by the supervisor, with the same reply."""
    if is_called(verb.name, values) and (caller := calling_run(session)) is not None:
        from overhand.verbs.calls import call_by_file

        return call_by_file(session, caller, verb.name, values)
    if verb.name in _READS_RECORD and "OVERHAND_RUN" in os.environ:
        from overhand.policy import require_readable_record

        require_readable_record(session.store)
    return verb.function()(session, **values)


def calling_run(session: Session) -> Caller | None:
    """The run that this process is in, if a supervisor looks after it."""
    from overhand.policy import find_caller, inside_run

    if inside_run.get() is not None or session.env.get("OVERHAND_CAUSE"):
        return None  # a function in its own process; the supervisor's own delegation for a CONTROL line
    caller = find_caller(session.store)
    return None if caller.is_person or caller.unknown or caller.attached else caller


def is_called(verb: str, values: dict[str, Any]) -> bool:
    """Whether a run reaches the supervisor for this."""
    if verb == "checkpoint":
        return values.get("do") == "create"
    if verb == "step":
        return any(values.get(name) is not None for name in ("id", "step", "state", "phase"))  # else it shows the plan
    return verb in _CALLED or values.get("do") in _CALLED_TO.get(verb, ())
