"""The events of a task's log: one class per kind, with its fields and with what it changes.

`read` makes an event of a line, `fold` a task of all lines. Fields are written in the order in which they are given;
what isn't given isn't written. A line that lacks a field, because it is old or damaged, reads as the field's default,
or as the empty value of its type.
"""

from __future__ import annotations

from overhand.record.shape import DAMAGED, EVENT_KIND, Shape
from overhand.record.task import Amount, Check, Item, Message, Parent, Question, Run, ShownTag, Task, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, ClassVar, Self, dataclass_transform

    from overhand.record.task import By, Line
    from overhand.words import Cause, Status, Via

    ABSENT: Any
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


ABSENT = object()  # given for a field that doesn't apply: it isn't written
_OLD_WORDS = {"all": "passing", "some": "passing"}  # of verifications
_EMPTY = {"str": "", "int": 0, "float": 0.0, "bool": False}


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """One line of a task's log."""

    e: ClassVar[str] = ""  # the kind, under the log's own key
    t: str = ""  # this and the next three are the stamp that every line gets when it is appended
    mono: float = 0.0
    boot: str = ""
    by: By | None = None
    _empty: ClassVar[dict[str, Any]] = {}
    _annotations: ClassVar[dict[str, str]] = {"t": "str", "mono": "float", "boot": "str", "by": "By | None"}
    _shape: ClassVar[Shape | None] = None

    def __init_subclass__(cls) -> None:
        fields = vars(cls).get("__annotations__", {})
        cls._empty = {**cls._empty, **{name: _EMPTY.get(kind) for name, kind in fields.items()}}
        cls._annotations, cls._shape = {**cls._annotations, **fields}, None

    @classmethod
    def problem_of(cls, line: Line) -> str:
        """What is wrong with a line of this kind; empty if nothing is."""
        if cls._shape is None:
            cls._shape = Shape({**cls._annotations, EVENT_KIND: "str"})
        return cls._shape.problem_of(line)

    def __init__(self, **fields: object) -> None:
        if ABSENT in fields.values():
            fields = {name: value for name, value in fields.items() if value is not ABSENT}
        self.__dict__ = fields

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            try:
                return self._empty[name]
            except KeyError:
                raise AttributeError(name) from None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def replace(self, **fields: object) -> Self:
        """A copy with other values in these fields, or with fields more."""
        copy = type(self).__new__(type(self))
        copy.__dict__ = {**vars(self), **fields}
        return copy

    @property
    def line(self) -> Line:
        """What is written to the log, without the stamp."""
        return {"e": self.e, **vars(self)}

    def apply(self, task: Task) -> None:
        """Change the task; most events don't."""


# the task


class Created(Event):
    """The task exists, as it was drafted."""

    e = "created"
    v: int
    task: str
    handle: int
    title: str = ""
    kind: str | None = None
    priority: str = "P2"
    parent: dict[str, str] | None = None
    depth: int = 1
    path: Sequence[str] = ("user",)
    timeout: float = 0.0
    level: str = "work"
    contract: str | None = None
    checks: Sequence[dict[str, str]] = ()
    after: str | None = None
    settings: dict[str, Any] | None = None
    model: str | None = None
    budget: str | None = None
    strict: bool = False
    cause: str | None = None
    item: dict[str, Any] | None = None
    node: str = ""
    plan: int | None = None
    agent: str = ""
    handoff: str | None = None  # the SHA-256 of HANDOFF.md
    begins: dict[str, Any] | None = None  # {ref | task, committed?}: it works in a tree of its own that begins there

    def apply(self, task: Task) -> None:
        task.created = self.t or None
        given = vars(self)
        vars(task).update({key: given[key] for key in _CREATED if key in given})
        if self.parent:
            task.parent = Parent(**self.parent)
        if self.checks:
            task.checks = [Check(**check) for check in self.checks]
        if self.item:
            task.item = Item(**self.item)


_CREATED = ("handle", "title", "agent", "kind", "priority", "path", "depth", "level", "timeout",
            "contract", "after", "settings", "model", "budget", "strict", "handoff",
            "cause", "node", "plan", "begins")  # fmt: skip


class Merged(Event):
    """What it did in its tree is landed."""

    e = "merged"
    into: str  # a ref of the project
    old: str = ""  # where that was
    commit: str

    def apply(self, task: Task) -> None:
        task.merged = self


class TreeReady(Event):
    """The task has a working tree of its own, and nothing has run in it yet."""

    e = "tree.ready"
    path: str
    folder: str = ""  # the project's folder in it, where that is below the repository's top
    base: str = ""  # the commit of the project that it began from; empty in a repository without any
    start: str = ""  # the commit, in a repository of ours, of that and of what was carried over
    behind: int | None = None  # commits that the branch's upstream has and the base hasn't, as of the last fetch
    carried: int = 0  # uncommitted files that came along
    left: Sequence[str] = ()  # those that did not, and why; the first ones
    ports: Sequence[int] = ()  # the first of its block, and how many

    def apply(self, task: Task) -> None:
        task.tree = self


class Accepted(Event):
    """The task is queued for its next run."""

    e = "accepted"
    resume: dict[str, Any] | None = None  # {run, why, problem?, note?, from?, cause?}: how it continues an earlier run
    limit: dict[str, Any] | None = None  # {driver, until, why, to?}: its provider's limit that it waits for
    repair: str | None = None  # the run whose return is to be put right
    agent: str | None = None
    budget: str | None = None
    cause: str | None = None

    def apply(self, task: Task) -> None:
        task.queued, task.queued_at = True, self.t or None
        task.status = task.judged = task.stop = None
        task.seen = task.dismissed = False
        task.merged = None
        task.resume, task.staged = self.resume, None
        task.paused = self.limit
        if self.limit:  # nothing is spent, and what it was about stays
            if task.runs and not task.runs[-1].is_judged:
                task.runs[-1].status = "limit"
                task.queued_at = task.runs[-1].queued_at  # it keeps its place
            _hand_to(task, self.agent)
        elif self.repair:
            task.repairs += 1
            task.runs[-1].status = "repair"
        else:
            task.repairs = 0
            task.requeued = task.requeued + 1 if isinstance(self, Requeued) else 0
            _hand_to(task, self.agent)
            task.budget = self.budget or task.budget


def _hand_to(task: Task, agent: str | None) -> None:
    """Another agent may take the task over: then it is the one that its delegation path names."""
    if agent and task.path[1:] and task.path[-1] == task.agent:
        task.path = [*task.path[:-1], agent]
    task.agent = agent or task.agent


class Requeued(Accepted):
    """The task of an item is queued again by itself, because another attempt may succeed."""

    e = "requeued"
    run: str
    why: str


class Judged(Event):
    """The verdict; of a task that never ran, without a run."""

    e = "judged"
    run: str | None
    status: Status
    claimed: str | None = None
    verified: str = ""  # the word, in logs of before
    verification: str = ""
    proof: str = ""
    summary: str
    output: str | None = None  # the SHA-256 of OUTPUT.md
    result: str | None = None  # the SHA-256 of result.json
    errors: int = 0
    code: str = ""
    why: str = ""  # the first thing that speaks against it
    part: int = 0  # how many files it changed in its tree

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        task.part = self.part
        if run:
            run.status = self.status
        task.status = self.status
        task.verification, task.proof = self.verification or _OLD_WORDS.get(self.verified, "none"), self.proof
        task.summary, task.output, task.why = self.summary, self.output, self.why
        task.judged, task.judged_run = self.t or None, self.run
        task.queued, task.queued_at, task.stop = False, None, None


class Rechecked(Event):
    """The checks ran again after the verdict."""

    e = "rechecked"
    verified: str = ""  # the word, in logs of before
    verification: str = ""
    proof: str = ""
    output: str | None
    result: str

    def apply(self, task: Task) -> None:
        task.verification, task.proof = self.verification or _OLD_WORDS.get(self.verified, "none"), self.proof


class Seen(Event):
    """A person has looked at the result."""

    e = "seen"

    def apply(self, task: Task) -> None:
        task.seen = True


class Dismissed(Event):
    """A person wants to hear no more of it; nothing is removed."""

    e = "dismissed"

    def apply(self, task: Task) -> None:
        task.dismissed = True


class StopRequested(Event):
    """The task's run is to be ended."""

    e = "stop"
    why: str

    def apply(self, task: Task) -> None:
        task.stop = self.why or "stopped"


class Notice(Event):
    """Something that a person may want to know."""

    e = "notice"
    text: str  # at most 1,000 characters
    cause: str | None = None

    def apply(self, task: Task) -> None:
        task.notices = [*task.notices, str(self.text)][-20:]


class ChildRefused(Event):
    """A run tried to delegate, or to approve, and was refused."""

    e = "refused"
    code: str
    agent: str | None = None
    title: str
    why: str


# its runs


class RunCreated(Event):
    """A run exists and holds the task."""

    e = "run.created"
    run: str
    agent: str
    driver: str
    timeout: float
    machine: str
    pidns: str
    control: bool = False  # its CONTROL lines are carried out
    attached: bool = False  # it is part of another process: a function, or a program on a terminal
    opened: bool = False  # the latter: a person opened its session
    messages: Sequence[int] = ()  # what it is handed with its prompt
    shield: dict[str, Any] | None = None  # what its program cannot write, or why it is not shielded

    def apply(self, task: Task) -> None:
        task.runs.append(Run(
            id=vars(self)["run"], agent=self.agent, driver=self.driver, attached=bool(self.attached),
            opened=bool(self.opened), state="starting", cause=None, exit=None, created=self.t, mono=self.mono,
            boot=self.boot,
            machine=self.machine, pidns=self.pidns, timeout=self.timeout, shim=None, life="", ended=None, status=None,
            leftovers=[], control=bool(self.control), waiting=None, waited=0.0, usage=None,
            queued_at=task.queued_at, shield=self.shield,
        ))  # fmt: skip
        task.queued, task.queued_at = False, None
        task.paused = None
        if task.tag:
            task.tag.claiming = True
        for message in task.pending_messages:
            if message.n in self.messages:
                message.run = self.run


class RunStarted(Event):
    """The run's process is running."""

    e = "run.started"
    run: str
    shim: int | None = None
    life: str = ""  # TASK/RUN whose `life` it shares: a function that its process was given together with others

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        if run and run.state == "starting":
            run.state, run.shim, run.life = "running", self.shim, self.life


class RunBlocked(Event):
    """The run waits for something; its clock stands still."""

    e = "run.waiting"
    run: str

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        if run and not run.has_ended and run.waiting is None:
            run.waiting = self.mono


class RunUnblocked(Event):
    """The run continues."""

    e = "run.going"
    run: str

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        if run and run.waiting is not None:
            run.waited += max(0.0, self.mono - run.waiting)
            run.waiting = None


class RunEnded(Event):
    """The run's process has ended."""

    e = "run.ended"
    run: str
    cause: Cause
    exit: int | None = None
    leftovers: Sequence[int] = ()  # processes that it left behind
    why: str = ""

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        if run is None or run.has_ended:
            return
        if run.waiting is not None:  # it ended before it was seen to continue
            run.waited += max(0.0, self.mono - run.waiting)
        run.state, run.ended, run.leftovers = "ended", self.t or None, list(self.leftovers)
        run.cause, run.exit = self.cause, self.exit


class RunNeverBegan(Event):
    """Nothing ran: no attempt is spent, and the task is queued again."""

    e = "run.ended"
    run: str
    never_began: bool
    why: str = ""

    def __init__(self, *, run: str, why: str = ABSENT) -> None:
        super().__init__(run=run, never_began=True, why=why)

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        if run is None or run.has_ended:
            return
        task.runs.remove(run)
        task.queued, task.queued_at = True, self.t or None
        for message in task.messages:
            if message.run == run.id:
                message.run = None  # no agent has read it


class LateReturn(Event):
    """A run that had been ended returned something; it is refused and kept in a file."""

    e = "late"
    run: str
    kept: str | None
    code: str


class UsageReported(Event):
    """What a run has used so far."""

    e = "usage"
    run: str
    input: int
    output: int
    usd: float
    turns: int
    context: int
    window: int
    estimated: bool

    def apply(self, task: Task) -> None:
        run = task.run(self.run)
        if run:
            run.usage = Usage(
                input=self.input, output=self.output, usd=self.usd, turns=self.turns,
                context=self.context, window=self.window, estimated=bool(self.estimated),
            )  # fmt: skip


# questions and messages


class Asked(Event):
    """A question, or the same question from a later run (`again`)."""

    e = "asked"
    seq: int
    question: str = ""
    options: Sequence[str] = ()
    step: str = ""
    via: Via = "file"
    run: str | None
    closed: bool = False
    cause: str | None = None
    stem: str = ""  # of its files, where an agent named them
    sha: str = ""  # of the file that the agent wrote
    again: bool = False

    def apply(self, task: Task) -> None:
        known = task.question(self.seq)
        if known is not None:
            known.run = self.run
            return
        task.questions.append(Question(
            seq=vars(self)["seq"], stem=self.stem or f"{self.seq:03d}", text=self.question,
            options=list(self.options), closed=bool(self.closed), step=self.step, via=self.via, run=self.run,
            asked=self.t, answered=None, answer=None, blob=None, sha=self.sha,
        ))  # fmt: skip


class Answered(Event):
    """The answer to a question; only the first counts."""

    e = "answered"
    seq: int
    answer: str | None
    via: str
    blob: str | None = None  # the file that has the whole of a long answer

    def apply(self, task: Task) -> None:
        known = task.question(self.seq)
        if known is not None and known.is_open:
            known.answered, known.answer = self.t, self.answer
            known.blob = self.blob


class MessageSent(Event):
    """A message to the agent, for its next run or for the one that it is handed to."""

    e = "message"
    text: str
    blob: str | None = None
    run: str | None = None

    def apply(self, task: Task) -> None:
        sent = Message(n=len(task.messages) + 1, text=self.text, blob=self.blob, sent=self.t, run=self.run)
        task.messages.append(sent)


# budgets


class LimitReached(Event):
    """A level of a budget or of the context window was reached and acted on."""

    e = "limit"
    key: str

    def apply(self, task: Task) -> None:
        task.limits.append(str(self.key))


class BudgetReserved(Event):
    """A child may use this much of the task's budget, in all its runs."""

    e = "reserved"
    child: str
    tokens: int
    usd: float

    def apply(self, task: Task) -> None:
        task.reserved[vars(self)["child"]] = Amount(tokens=self.tokens, usd=self.usd)


class BudgetReleased(Event):
    """A child came to rest, and had used this much."""

    e = "settled"
    child: str
    tokens: int
    usd: float

    def apply(self, task: Task) -> None:
        child = vars(self)["child"]
        task.reserved.pop(child, None)
        task.settled[child] = Amount(tokens=self.tokens, usd=self.usd)


# progress


class CheckpointSaved(Event):
    """A checkpoint is in the task's folder."""

    e = "checkpoint"
    id: str
    run: str | None
    reason: str
    why: str
    cause: str | None = None

    def apply(self, task: Task) -> None:
        task.checkpoints.append(self)


class ControlHandled(Event):
    """A CONTROL line was carried out, or refused."""

    e = "control"
    command: str
    arg: str
    run: str | None
    at: str = ""  # where in the run's output it stands
    reason: str
    ok: bool
    error: str | None = None
    child: str | None = None
    checkpoint: str | None = None
    seq: int | None = None

    def apply(self, task: Task) -> None:
        task.controls.append(self)


class PhaseMoved(Event):
    """The task is in another phase."""

    e = "phase"
    phase: str
    iteration: int
    why: str = ""

    def __init__(self, *, phase: str, came_from: str, iteration: int, why: str = ABSENT) -> None:
        super().__init__(**{"phase": phase, "from": came_from, "iteration": iteration, "why": why})

    def apply(self, task: Task) -> None:
        task.phase = self.phase or None
        task.phases.append(self)


class StepMarked(Event):
    """A step of the checklist got another mark."""

    e = "step"
    n: int
    text: str
    marker: str
    run: str | None = None


# the item behind the task


class TagWritten(Event):
    """The tag of the task's item shows this stage."""

    e = "tagged"
    stage: str
    path: str
    run: str = ""  # the run whose end the file tells
    repair: bool = False  # another process had changed the tag

    def apply(self, task: Task) -> None:
        repairs = [*(task.tag.repairs if task.tag else ()), *([self.t] if self.repair else ())]
        task.tag = ShownTag(
            stage=self.stage, path=self.path, run=self.run, claiming=self.stage == "claimed", repairs=repairs[-10:]
        )


class StageSet(Event):
    """A person, or recovery, gave the task's item a stage."""

    e = "staged"
    stage: str
    how: str

    def apply(self, task: Task) -> None:
        task.staged = self
        task.queued, task.queued_at = False, None


class TagHeldBack(Event):
    """A tag appeared while this run was alive, and waits for a person's approval."""

    e = "parked"
    run: str
    item: str


KINDS: dict[object, type[Event]] = {
    kind.e: kind
    for kind in (
        Created, TreeReady, Merged, Accepted, Requeued, Judged, Rechecked, Seen, Dismissed, StopRequested, Notice,
        ChildRefused,
        RunCreated, RunStarted, RunBlocked, RunUnblocked, RunEnded, LateReturn, UsageReported,
        Asked, Answered, MessageSent, LimitReached, BudgetReserved, BudgetReleased,
        CheckpointSaved, ControlHandled, PhaseMoved, StepMarked, TagWritten, StageSet, TagHeldBack,
    )
}  # fmt: skip


def read(line: Line) -> Event | None:
    """The event of a line; None for a kind that this version doesn't know. ValueError if it is damaged."""
    name = line.get(EVENT_KIND)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        if name == DAMAGED:
            raise ValueError("it is no JSON object")
        if not isinstance(name, str):
            raise ValueError("`e` names no kind of event")
        return None
    if wrong := kind.problem_of(line):
        raise ValueError(wrong)
    if kind is RunEnded and line.get("never_began"):
        kind = RunNeverBegan
    event = kind.__new__(kind)
    event.__dict__ = line
    return event


def add(task: Task, event: Event) -> None:
    """Change the task by one event more."""
    event.apply(task)
    if "cause" in vars(event) and not isinstance(event, RunEnded | Created):  # an effect of output: done once
        task.causes[vars(event)["cause"]] = event.e


def fold(task_id: str, lines: Iterable[Line]) -> Task:
    """What the lines of one log add up to; damaged ones are left out, and named in `damage`."""
    task = Task(task_id)
    for number, line in enumerate(lines, 1):
        try:
            event = read(line)
            if event is not None:
                add(task, event)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            why = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)
            task.damage = (*task.damage[:9], (number, why[:200]))
    if task.damage:
        _say_damage(task)
    return task


def _say_damage(task: Task) -> None:
    """Have the task say it; unless something runs, it has come to its end: what it did so far is not known."""
    number, why = task.damage[0]
    more = f", and {len(task.damage) - 1} more like it" if len(task.damage) > 1 else ""
    text = f"line {number} is damaged ({why}){more}: overhand doctor says what to do."
    task.notices = [*task.notices, f"Its log cannot be read: {text}"]
    if task.status is None and task.current_run is None:
        task.status, task.queued, task.summary = "failed", False, f"Its log cannot be read: {text}"
