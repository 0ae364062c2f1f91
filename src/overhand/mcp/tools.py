"""The tools: which verb each one calls, which of its arguments it offers, and what it returns.

Decisions that are a person's (trust, approval, checks, settings) are not here, so no tool can make them.
"""

from __future__ import annotations

from overhand.verbs import VERB_BY_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.verbs import Arg

    Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_ROWS: Schema = {"type": "array", "items": {"type": "object"}}
_MAYBE: Schema = {"type": ["string", "null"]}
_TASK: Schema = {"task_id": _TEXT, "handle": {"type": ["integer", "null"]}, "title": _TEXT}
_RESULT: Schema = {
    **_TASK,
    "agent": _TEXT,
    "headline": _TEXT,
    "status": _MAYBE,
    "verification": {"type": "string", "description": "failing, none, passing or proved"},
    "verified": {"type": "boolean"},
    "run_state": _MAYBE,
    "summary": _MAYBE,
    "data": {},
    "deliverables": _ROWS,
    "decisions": _ROWS,
    "for_primary": _MAYBE,
    "files_modified": {"type": "array"},
    "problems": _ROWS,
    "checks": _ROWS,
    "questions": _ROWS,
    "output": _MAYBE,
    "pending": {"type": "boolean", "description": "true: not judged yet; call again"},
}


class Tool:
    """One tool: a verb, or a part of one."""

    def __init__(
        self,
        name: str,
        about: str,
        *,
        verb: str = "",
        takes: tuple[str, ...] = (),
        needs: tuple[str, ...] = (),
        more: Schema | None = None,
        gives: Schema | None = None,
        reads: bool = False,
        plain: bool = False,
    ) -> None:
        self.name, self.about, self.needs, self.reads = name, about, needs, reads
        self.takes = {**_offered(verb or name, takes), **(more or {})}
        self.gives = gives or {}
        self.plain = plain  # its result is text in a format that the client prescribes

    @property
    def input(self) -> Schema:
        required = {"required": list(self.needs)} if self.needs else {}
        return {"type": "object", "properties": self.takes, **required, "additionalProperties": False}

    @property
    def output(self) -> Schema:
        """The schema of what it gives back; `next` is always there."""
        told = {"next": {"type": "string", "description": "what can be done next"}, **self.gives}
        return {"type": "object", "properties": told, "required": ["next"]}


def _offered(name: str, takes: tuple[str, ...]) -> Schema:
    """Arguments of a verb, as its row in the table describes them."""
    row = VERB_BY_NAME.get(name)
    known = {} if row is None else {arg.key: arg for arg in (*row.words, *row.options)}
    return {key: _schema(known[key]) for key in takes}


def _schema(arg: Arg) -> Schema:
    if not arg.value:
        return {"type": "boolean", "description": arg.help}
    one: Schema = {"type": "string", "enum": list(arg.choices)} if arg.choices else {"type": "string"}
    return {**({"type": "array", "items": one} if arg.many else one), "description": arg.help}


_ASSIGN = ("title", "agent", "kind", "context", "file", "constraint", "deliverable", "return", "step")
_LIMITS = ("timeout", "budget", "contract", "model", "read_only", "strict")
_SEQ: Schema = {"type": "integer", "description": "the question's number, if several are open"}

_PLAN = Tool(
    "plan_run",
    "Run a plan: several tasks that hand results to each other, checked as a whole before anything starts. Give its "
    "text in `plan` (YAML or JSON: `plan: what for`, `nodes: {id: {agent, task, outputs, verify, after}}`, with "
    "`${id.field}` for what another node returned) or a file of the project in `file`. Everything wrong with it is "
    "told at once. Commands in it count only if a person has trusted that file. With `wait` its merged result comes "
    "back; while `pending` is true, call plan_run again with `again` set to its number.",
    verb="plan",
    takes=("wait", "dry_run", "budget", "timeout"),
    more={
        "plan": {"type": "string", "description": "the plan itself, as text"},
        "file": {"type": "string", "description": "a plan file, from the project's folder"},
        "max_parallel": {"type": "integer", "description": "so many nodes at once, at most"},
        "again": {"type": "integer", "description": "wait on for the plan of this number"},
    },
    gives={**_RESULT, "state": _TEXT, "nodes": _ROWS, "waves": {"type": "array"}, "warnings": _ROWS},
)

FOR_HOSTS = (
    Tool(
        "delegate",
        "Hand a task to an agent. Returns at once with its number; the work goes on without you. "
        "Say what must be there afterwards in `deliverable`, and refer to files instead of pasting them.",
        takes=(*_ASSIGN, *_LIMITS, "priority", "after"),
        needs=("title",),
        gives={**_TASK, "agent": _TEXT, "state": _TEXT, "level": _TEXT, "checks": _ROWS, "warnings": _ROWS},
    ),
    Tool(
        "status",
        "Where every task stands: what needs a person, what works, what is queued, ready or stopped.",
        gives={"project": _TEXT, "counts": {"type": "object"}, "tasks": _ROWS},
        reads=True,
    ),
    Tool(
        "wait",
        "Wait until tasks are judged, or ask something. Returns before a client gives up: while `pending` is true, "
        "call it again.",
        takes=("id", "timeout"),
        needs=("id",),
        gives={**_RESULT, "tasks": _ROWS},
        reads=True,
    ),
    Tool(
        "result",
        "The judged result of one task: status, summary, data, deliverables, decisions, problems, checks. "
        "`verified` says whether a check of Overhand's own passed; an agent's word alone is not verified.",
        verb="show",
        takes=("id",),
        needs=("id",),
        gives=_RESULT,
        reads=True,
    ),
    Tool(
        "answer",
        "Answer an agent's question, in the words of the person you work for: a question is answered once. "
        "Ask them first if they have not said. What an agent wants to be permitted is for a person alone.",
        takes=("id", "no_resume"),
        needs=("id", "text"),
        more={"text": {"type": "string", "description": "the answer"}, "seq": _SEQ},
        gives={**_TASK, "seq": _NUMBER, "question": _TEXT, "answer": _TEXT, "resumed": {"type": "boolean"}},
    ),
    Tool(
        "inbox",
        "Everything that waits for a person, with the questions in full.",
        verb="status",
        gives={"project": _TEXT, "tasks": _ROWS},
        reads=True,
    ),
    Tool(
        "stop",
        "Stop tasks and everything their runs started.",
        takes=("id", "now"),
        needs=("id",),
        gives={"tasks": _ROWS},
    ),
    Tool("agents", "The agents that a task can be handed to.", takes=("name",), gives={"agents": _ROWS}, reads=True),
    _PLAN,
)

FOR_RUNS = (
    Tool(
        "handoff",
        "Your task: HANDOFF.md, the plan as it stands, the answers you got, the time left.",
        gives={**_TASK, "text": _TEXT, "steps": _ROWS, "answers": _ROWS, "output": _TEXT, "checks": _TEXTS},
        reads=True,
    ),
    Tool(
        "step",
        "Mark a step of your plan, or show the plan (without arguments).",
        takes=("step", "reason", "phase"),
        more={
            "state": {
                "type": "string",
                "enum": ["done", "doing", "blocked", "error", "open"],
                "description": "what the step is now",
            }
        },
        gives={**_TASK, "step": {"type": "object"}, "steps": _ROWS, "progress": {"type": "object"}},
    ),
    Tool(
        "ask",
        "Ask the person you cannot go on without; waits for the answer. While `pending` is true it has not come yet: "
        "call ask again with `again` set to the number it gave. Do not guess what you should ask.",
        takes=("question", "option", "closed", "step", "again"),
        more={"again": {"type": "integer", "description": "wait on for the question of this number"}},
        gives={"seq": _NUMBER, "question": _TEXT, "answer": _MAYBE, "pending": {"type": "boolean"}},
    ),
    Tool(
        "checkpoint",
        "Save where you stand; a later run can go on from there.",
        takes=("reason", "handoff", "name"),
        gives={**_TASK, "checkpoint_id": _TEXT, "path": _TEXT},
    ),
    Tool(
        "delegate",
        "Hand a part of your task to another agent. With `wait` its result comes back; while `pending` is true, "
        "call delegate again with `again` set to its number.",
        takes=(*_ASSIGN, *_LIMITS, "wait"),
        more={"again": {"type": "integer", "description": "wait on for the task of this number"}},
        gives={**_RESULT, "state": _TEXT},
    ),
    Tool(
        "finish",
        "Return your result: your last act. Everything wrong with it is told at once and nothing is written until it "
        "is mended; afterwards end your turn. Say completed only if it is: it is checked without you.",
        takes=("status", "summary", "title", "deliverable", "decision", "modified", "for_primary", "block"),
        needs=("status", "summary"),
        more={"data": {"description": "structured results: any JSON value"}},
        gives={**_TASK, "status": _TEXT, "output": _TEXT, "problems": _ROWS, "checks": _TEXTS},
    ),
    _PLAN,
)

# A program with permission prompts sends them to this tool; it does not offer it to the model.
PERMIT = Tool(
    "permit",
    "For the client itself: whether a tool may be used. A person decides.",
    more={"tool_name": _TEXT, "input": {"type": "object"}, "tool_use_id": _TEXT},
    needs=("tool_name",),
    plain=True,
)
