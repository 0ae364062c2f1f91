"""A task and its parts: what its log says, and what follows from that alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform

    from overhand.record.events import CheckpointSaved, ControlHandled, Merged, PhaseMoved, StageSet, TreeReady
    from overhand.words import Headline

    Line = dict[str, Any]  # of a log
    By = dict[str, Any]  # the cause of an event: kind, user or run, via
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


_MIDDLE = 4.0  # the rank of a task that is no item: beside `implementation`
PLAN_KIND = "plan"  # the driver of a plan's run, which has no process: it lives until it is judged


@dataclass_transform(kw_only_default=True)
class Record:
    """Fields with defaults, compared and printed by value; `vars(record)` is its JSON form.

    A plain class that a type checker sees as a dataclass: light verbs load it, so neither `dataclasses` nor `typing`
    is imported at run time. A mutable field has no default: defaults are shared.
    """

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, *, frozen: bool = False) -> None:
        """Collect the defaults once; `frozen` is checked by the type checker alone."""
        own = vars(cls)
        cls._defaults = {**cls._defaults, **{name: own[name] for name in own["__annotations__"] if name in own}}

    def __init__(self, **fields: object) -> None:
        """Every field is set, also to its default, so that `vars` is complete."""
        self.__dict__ = {**self._defaults, **fields}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))  # one with a list has none

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def replace(self, **fields: object) -> Self:
        """A copy with other values in these fields."""
        return type(self)(**{**vars(self), **fields})


class Parent(Record, frozen=True):
    """The recorded run that delegated a task."""

    task: str
    run: str


class Check(Record, frozen=True):
    """A command that Overhand runs to verify a result."""

    name: str
    command: str


class Amount(Record, frozen=True):
    """Tokens and money; as a cap, 0 means that there is none in that measure."""

    tokens: int = 0
    usd: float = 0.0

    @property
    def is_cap(self) -> bool:
        """Whether it limits anything."""
        return bool(self.tokens or self.usd)

    def __add__(self, other: Amount) -> Amount:
        return Amount(tokens=self.tokens + other.tokens, usd=self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        """What is left; never below nothing."""
        return Amount(tokens=max(0, self.tokens - other.tokens), usd=max(0.0, self.usd - other.usd))

    def portion(self, cap: Amount) -> float:
        """Which part of the cap this is, in the measure that is closer to its end; 0 without a cap."""
        by_tokens = self.tokens / cap.tokens if cap.tokens else 0.0
        return max(by_tokens, self.usd / cap.usd if cap.usd else 0.0)

    def rounded(self) -> Amount:
        """Without the dust that adding floats leaves."""
        usd = round(self.usd, 6)
        return self if usd == self.usd else Amount(tokens=self.tokens, usd=usd)


class Usage(Record, frozen=True):
    """What a run has used so far: its own latest report, or an estimate."""

    input: int
    output: int
    usd: float
    turns: int
    context: int  # tokens of the latest turn
    window: int  # what the model can hold; 0 if unknown
    estimated: bool

    @property
    def amount(self) -> Amount:
        return Amount(tokens=self.input + self.output, usd=self.usd)


class Run(Record):
    """One attempt at a task by one agent."""

    id: str
    agent: str
    driver: str
    attached: bool
    opened: bool  # attached, and on a person's terminal; any other attached run is a function in a Python process
    state: str
    cause: str | None
    exit: int | None
    created: str
    mono: float
    boot: str
    machine: str
    pidns: str
    timeout: float
    shim: int | None
    life: str  # TASK/RUN whose `life` it shares, if it has none of its own
    ended: str | None
    status: str | None
    leftovers: list[int]
    control: bool  # whether CONTROL lines in its output are carried out
    waiting: float | None  # since when it is known to be blocked, on the monotonic clock of its boot
    waited: float  # seconds it was blocked before that: its deadline is later by as much
    usage: Usage | None
    queued_at: str | None  # since when its task had waited for it
    shield: dict[str, Any] | None = None  # what its program cannot write, or why it is not shielded

    @property
    def is_shielded(self) -> bool:
        return bool(self.shield and self.shield.get("held"))

    @property
    def has_ended(self) -> bool:
        return self.state == "ended"

    @property
    def is_judged(self) -> bool:
        return self.status is not None

    @property
    def is_plan_run(self) -> bool:
        return self.driver == PLAN_KIND


class Question(Record):
    """What an agent asked; answered once."""

    seq: int
    stem: str  # of its files: NNN, unless an agent named them differently
    text: str  # shortened; the whole of it is in ipc/NNN.question
    options: list[str]
    closed: bool  # only one of the options will do
    step: str
    via: str  # file, ask, pause, call, return, permission; control and child: something that was handed over
    run: str | None
    asked: str
    answered: str | None
    answer: str | None  # shortened, if `blob` names the file that has the whole of it
    blob: str | None
    sha: str  # of the question's file, where an agent wrote it

    @property
    def is_open(self) -> bool:
        return self.answered is None


class Message(Record):
    """What a person sent to an agent; it is handed over once."""

    n: int
    text: str  # shortened, if `blob` names the file that has the whole of it
    blob: str | None
    sent: str
    run: str | None  # the run that it was handed to; until then it is queued


class Item(Record, frozen=True):
    """A tagged place whose approval made the task; paths are relative to the project."""

    path: str = ""
    kind: str = ""
    stage: str = ""  # what it was approved as: delegated or next; claimed, by another program
    was: str = ""  # the stage it was approved from
    digest: str = ""  # of its line without tags
    whole: str = ""  # of an item of the Tags line: of its document without tags
    line: str = ""  # that line, shortened
    how: str = ""  # terminal, setting, typed, auto or outside
    mode: str = ""  # of its route: agent, interactive or external
    rank: float = 4.0  # its route's priority; without one it stands beside `implementation`
    weights: tuple[str, ...] | list[str] = ()  # `#P1`, `#M`, as they stood on its line
    again: str = ""  # the ended task whose id stands in its span so far
    origin: str = ""  # where the inline tag stood that was promoted to a request
    asked: str = ""  # the user or run that asked for it


class ShownTag(Record):
    """How the tag of a task's item was last written."""

    stage: str
    path: str
    run: str  # the run whose end the file tells
    claiming: bool  # a run was made: the tag may say claimed although no run began
    repairs: list[str]  # when it was put right after another process had changed it


class Task:
    """What a task's log says."""

    __slots__ = ("__dict__", "log_mark")
    log_mark: tuple[int, int] | None  # no part of `vars`: inode and size of the log that says all this, if known
    id: str
    handle: int | None = None
    title: str = ""
    agent: str = ""
    kind: str | None = None
    priority: str = "P2"
    parent: Parent | None = None
    path: list[str]
    depth: int = 1
    created: str | None = None
    level: str = "work"
    timeout: float = 0.0
    contract: str | None = None
    checks: list[Check]
    after: str | None = None
    settings: dict[str, Any]
    model: str | None = None
    budget: str | None = None
    strict: bool = False
    handoff: str | None = None
    cause: str | None = None  # the CONTROL line that made it
    queued: bool = False
    queued_at: str | None = None
    runs: list[Run]
    status: str | None = None
    verification: str = "none"
    proof: str = ""  # what proves it, if it is proved
    summary: str = ""
    judged_run: str | None = None
    judged: str | None = None
    output: str | None = None
    seen: bool = False
    dismissed: bool = False
    why: str = ""  # the first thing that spoke against its result
    stop: str | None = None
    repairs: int = 0
    notices: list[str]
    questions: list[Question]
    messages: list[Message]
    resume: dict[str, Any] | None = None  # how the queued run is to go on from an earlier one
    # its provider's limit that it waits for, or that made another agent take over (`to`)
    paused: dict[str, Any] | None = None
    checkpoints: list[CheckpointSaved]
    controls: list[ControlHandled]
    causes: dict[str, str]  # effects of output that were carried out: cause -> what
    limits: list[str]  # budget levels that were acted on
    reserved: dict[str, Amount]  # by child, what it and all below it may use of this task's budget in all its runs
    settled: dict[str, Amount]  # by child, what it had used of it when it last came to rest
    node: str = ""  # the node of the plan that it was made for; its parent is that plan
    plan: int | None = None  # the handle of that plan
    phase: str | None = None
    phases: list[PhaseMoved]
    item: Item | None = None
    tag: ShownTag | None = None
    begins: dict[str, Any] | None = None  # where its tree begins; None: it works in the project itself
    part: int = 0  # how many files it changed there
    merged: Merged | None = None  # that is landed
    tree: TreeReady | None = None  # where its runs work, if that is not the project itself
    staged: StageSet | None = None  # the stage that a person, or another program, gave its item
    damage: tuple[tuple[int, str], ...] = ()  # lines of its log that cannot be read, and why; the first ten
    requeued: int = 0  # how often it was queued again by itself since it was last asked for

    def __init__(self, id: str) -> None:
        """A folder about which nothing is recorded yet."""
        self.id, self.log_mark = id, None
        self.path = ["user"]
        self.settings, self.causes, self.reserved, self.settled = {}, {}, {}, {}
        self.checks, self.runs, self.notices, self.questions, self.messages = [], [], [], [], []
        self.checkpoints, self.controls, self.limits, self.phases = [], [], [], []

    def but(self, **fields: object) -> Task:
        """The same task with other values in these fields; everything else is shared."""
        copy = Task.__new__(Task)
        copy.__dict__, copy.log_mark = {**self.__dict__, **fields}, None
        return copy

    @property
    def name(self) -> str:
        """What people call it: its handle, or its id where it has none."""
        return str(self.handle or self.id)

    @property
    def current_run(self) -> Run | None:
        """The run that holds the task: the newest, until it is judged."""
        run = self.last_run
        return run if run and not (run.has_ended and run.is_judged) else None

    @property
    def last_run(self) -> Run | None:
        return self.runs[-1] if self.runs else None

    @property
    def run_state(self) -> str | None:
        """`queued`, the state of the newest run, or None for a folder that was never started."""
        if self.queued:
            return "queued"
        run = self.last_run
        if run is None:
            return None
        return "waiting" if run.state == "running" and self.open_questions else run.state

    @property
    def open_questions(self) -> list[Question]:
        return [question for question in self.questions if question.answered is None]

    @property
    def pending_messages(self) -> list[Message]:
        """What was sent to the agent and goes with its next run."""
        return [message for message in self.messages if message.run is None]

    @property
    def verified(self) -> bool:
        return self.verification == "proved"

    @property
    def is_unwanted(self) -> bool:
        """Whether a person has stopped it."""
        return self.stop is not None or self.status == "cancelled"

    @property
    def is_plan(self) -> bool:
        """Whether it is a plan: its nodes are tasks of their own."""
        return PLAN_KIND in self.settings

    @property
    def is_open(self) -> bool:
        """Whether it is queued or held by a run: a supervisor has to look at it."""
        return bool(self.queued or self.stop or self.current_run)

    @property
    def is_idle(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.status is not None or (not self.queued and not self.runs)

    @property
    def headline(self) -> Headline:
        """The one word that people see for where it stands."""
        if self.status is None or self.queued:
            return self._unjudged_headline()
        if self.dismissed or self.merged or self.status == "cancelled":
            return "done"
        if self.status in ("needs-input", "blocked"):
            return "working" if self._waits_for_children else "needs you"
        if self.status not in ("completed", "rejected") and self.open_questions:
            return "needs you"
        if self.status == "completed" and self.verification != "failing":
            return "done" if self.is_taken and not self.part else "ready"
        return "done" if self.is_taken else "failed"

    def _unjudged_headline(self) -> Headline:
        if self.queued and self.paused and "to" not in self.paused:
            return "working"  # it waits for its provider
        if self.open_questions and not self.queued:
            return "needs you"
        if self.current_run and not self.queued:
            return "working"
        is_prepared = bool(self.created) and not self.queued and not self.item and not self.node
        return "needs you" if self.is_for_a_person or is_prepared else "queued"

    @property
    def _waits_for_children(self) -> bool:
        """Whether its run ended to wait for what it delegated."""
        return self.status == "blocked" and bool(self.awaited_children(self.judged_run or ""))

    @property
    def is_taken(self) -> bool:
        """Whether its result was seen by a person, or reached the run, plan or Python program that asked for it."""
        run = self.run(self.judged_run)
        return self.seen or self.parent is not None or bool(run and run.attached and not run.opened)

    @property
    def is_folded(self) -> bool:
        """Whether people see it in the row of its plan: a node, unless it needs them itself."""
        return bool(self.node and self.parent) and self.headline != "needs you"

    @property
    def is_for_a_person(self) -> bool:
        """Whether it is an approved item that a person is to open: its route says so."""
        item, shown = self.item, self.tag
        if item is None or shown is None or item.mode != "interactive" or shown.stage != "delegated":
            return False
        return self.status is None and not self.queued and not self.staged and self.current_run is None

    @property
    def writes_here(self) -> bool:
        """Whether a coding agent works in the checkout itself: those go one at a time."""
        return bool(self.settings.get("real")) and self.level != "read" and self.begins is None

    def workplace(self, project: str) -> str:
        """The folder in which its runs and checks work: its tree, or the project."""
        return (self.tree.folder or self.tree.path) if self.tree else project

    @property
    def queue_place(self) -> tuple[str, float, str, str, int]:
        """What orders the queue: weight, an item's route priority, the time of acceptance, path, handle."""
        rank = self.item.rank if self.item else _MIDDLE
        return self.priority, rank, self.queued_at or "", self.item.path if self.item else "", self.handle or 0

    def run(self, run_id: object) -> Run | None:
        for run in reversed(self.runs):
            if run.id == run_id:
                return run
        return None

    def question(self, seq: object) -> Question | None:
        return next((question for question in self.questions if question.seq == seq), None)

    def escalation(self, run_id: str) -> ControlHandled | None:
        """The event by which this run called for a person, if it did."""
        return next((e for e in self.controls if e.run == run_id and e.command == "ESCALATE" and e.ok), None)

    def awaited_children(self, run_id: str) -> list[str]:
        """Tasks that this run delegated by a CONTROL line and whose results have not reached it."""
        if not self.controls:
            return []
        given = {e.child for e in self.controls if e.run == run_id and e.child}
        return sorted(child for child in given if f"child:{child}" not in self.causes)
