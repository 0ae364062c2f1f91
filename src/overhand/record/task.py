"""What a task's state looks like: declared keys of plain dictionaries, for the type checker and the reader.

They go to JSON as they are, and no light verb imports this: it would pay for `typing` when it starts.
"""

from __future__ import annotations

from typing import Any, TypedDict

Event = dict[str, Any]


class Parent(TypedDict):
    """The recorded run that delegated a task."""

    task: str
    run: str


class Check(TypedDict):
    """A command that Overhand runs to verify a result."""

    name: str
    command: str


class Run(TypedDict):
    """One attempt at a task by one agent."""

    id: str
    agent: str
    driver: str
    attached: bool
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
    ended: str | None
    status: str | None
    leftovers: list[int]
    control: bool  # whether CONTROL lines in what it prints are heard
    waiting: float | None  # since when it is known to be blocked, on the monotonic clock of its boot
    waited: float  # seconds it was blocked before that: its deadline is later by as much
    usage: Usage | None
    queued_at: str | None  # since when its task had waited for it


class Usage(TypedDict):
    """What a run has used so far: its own latest report, or an estimate."""

    input: int
    output: int
    usd: float
    turns: int
    context: int  # tokens of the latest turn
    window: int  # what the model can hold; 0 if nobody said
    estimated: bool


class Question(TypedDict):
    """What an agent asked; answered once."""

    seq: int
    stem: str  # of its files: NNN, unless an agent named them differently
    question: str  # shortened; the whole of it is in ipc/NNN.question
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


class Message(TypedDict):
    """What a person sent to an agent; it is handed over once."""

    n: int
    text: str  # shortened, if `blob` names the file that has the whole of it
    blob: str | None
    sent: str
    run: str | None  # the run that it was handed to; until then it is queued


class Amount(TypedDict):
    """Tokens and money."""

    tokens: int
    usd: float


class Item(TypedDict, total=False):
    """A tagged place whose approval made the task; paths are relative to the project."""

    path: str
    kind: str
    stage: str  # what it was approved as: delegated or next; claimed, by somebody outside
    was: str  # the stage it was approved from
    digest: str  # of its line without tags
    whole: str  # of an item of the Tags line: of its document without tags
    line: str  # that line, shortened
    how: str  # terminal, setting, typed, auto or outside
    mode: str  # of its route: agent, interactive or external
    rank: float  # its route's priority
    weights: list[str]  # `#P1`, `#M`, as they stood on its line
    again: str  # the ended task whose id stands in its span so far
    origin: str  # where the inline tag stood that was promoted to a request
    asked: str  # by whom


class Shown(TypedDict):
    """How the tag of a task's item was last written."""

    stage: str
    path: str
    run: str  # whose end the file tells
    claiming: bool  # a run was made: the tag may say claimed although no run began
    repairs: list[str]  # when it was put right after somebody else had changed it


class State(TypedDict):
    """What a task's log says."""

    task_id: str
    handle: int | None
    title: str
    agent: str
    kind: str | None
    priority: str
    parent: Parent | None
    path: list[str]
    depth: int
    created: str | None
    level: str
    timeout: float
    contract: str | None
    checks: list[Check]
    after: str | None
    settings: dict[str, Any]
    model: str | None
    budget: str | None
    strict: bool
    handoff: str | None
    seal: str
    cause: str | None  # the CONTROL line that made it
    queued: bool
    queued_at: str | None
    runs: list[Run]
    status: str | None
    verified: str
    summary: str
    judged_run: str | None
    judged: str | None
    output: str | None
    seen: bool
    stop: str | None
    repairs: int
    notices: list[str]
    questions: list[Question]
    messages: list[Message]
    resume: Event | None  # how the queued run is to go on from an earlier one
    paused: Event | None  # the limit of its provider that it waits for, or that made another agent take over (`to`)
    checkpoints: list[Event]
    controls: list[Event]
    causes: dict[str, str]  # effects of output that were carried out: cause -> what
    limits: list[str]  # budget levels that were acted on
    reserved: dict[str, Amount]  # by child, what it and all below it may use of this task's budget in all its runs
    settled: dict[str, Amount]  # by child, what it had used of it when it last came to rest
    node: str  # the node of the plan that it was made for; its parent is that plan
    plan: int | None  # the handle of that plan
    phase: str | None
    phases: list[Event]
    item: Item | None
    tag: Shown | None
    staged: Event | None  # the stage that a person, or somebody outside, gave its item
    requeued: int  # how often it was queued again by itself since somebody last asked for it
    size: int  # of the log, where it is known that nothing was appended since
