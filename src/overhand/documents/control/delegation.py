"""The `delegation:` block after a DELEGATE: agent, task, files and budget."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from overhand.documents import handoff
from overhand.documents.control.lines import did_you_mean
from overhand.documents.problems import Problem, warning
from overhand.documents.text import one_line, shorten

PRIORITIES = {"CRITICAL": "P0", "HIGH": "P1", "MEDIUM": "P2", "LOW": "P3"}

_BUDGET = re.compile(r"(\d[\d_,]*(?:\.\d+)?)\s*([kKmM]?)(?:\s*tokens?)?", re.IGNORECASE)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_MERGE = re.compile(r"<<|merge\b")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class ControlDelegation:
    """A part of the work that an agent delegates."""

    agent: str = ""
    task: str = ""
    files: tuple[str, ...] = ()
    deliverables: tuple[str, ...] = ()
    budget: int | None = None  # tokens
    priority: str = ""  # P0 to P3, or nothing
    context: str = ""


def parse_delegation(
    block: str, *, agents: Collection[str] | None = None, line: int | None = None
) -> tuple[ControlDelegation, list[Problem]]:
    """What a block asks for, and everything that is wrong with it; `agents` are the names that exist."""
    try:
        fields = _fields(block)
    except ValueError as error:
        fix = "Write `delegation:` and, indented below it, `to_agent:`, `task:` and `context:`."
        return ControlDelegation(), [
            Problem("delegation-invalid", f"The block is not valid: {error}.", line=line, fix=fix)
        ]
    problems: list[Problem] = []
    task, context = (fields.get(key) for key in ("task", "context"))
    about = task if isinstance(task, dict) else {"description": task} if task is not None else fields
    around = context if isinstance(context, dict) else fields
    found = ControlDelegation(
        agent=_text(fields.get("to_agent")),
        task=_text(about.get("description")),
        files=_texts(about.get("scope", fields.get("scope"))),
        deliverables=_texts(_first(about, fields, keys=("deliverable", "deliverables", "expected_output"))),
        budget=_budget(_first(around, fields, keys=("token_budget", "budget")), line, problems),
        priority=_priority(_first(around, fields, keys=("priority",)), line, problems),
        context=_context(context, around),
    )
    if found.agent and agents is not None and found.agent not in agents:
        problems.append(unknown_agent(found.agent, agents, line))
    if not found.task:
        fix = "Write `task:` and below it `description:`, or the task behind `task:` itself."
        problems.append(Problem("delegation-invalid", "The block has no task.", line=line, fix=fix))
    else:
        problems += vague(found.task, line)
    if not found.deliverables:
        fix = "Add `deliverable:` below `task:`."
        problems.append(warning("no-deliverable", "Nothing is expected back.", line, fix))
    if found.budget is None:
        fix = "Add `token_budget: 12000` below `context:`."
        problems.append(warning("delegation-no-budget", "The delegation has no token budget.", line, fix))
    return found, problems


def unknown_agent(name: str, agents: Collection[str], line: int | None) -> Problem:
    message = f"There is no agent {shorten(one_line(name), 40)}.{did_you_mean(name, agents)}"
    fix = f"Name one of {', '.join(sorted(agents))}." if agents else "Write .overhand/agents/NAME.md first."
    return Problem("control-agent-unknown", message, line=line, fix=fix)


def vague(task: str, line: int | None) -> list[Problem]:
    """The warnings that a HANDOFF with this task would get."""
    found = handoff.lint_handoff(handoff.render_handoff(handoff.Handoff(task=task)))
    return [replace(one, line=line) for one in found if one.code == "vague-task"]


def _fields(block: str) -> dict[str, object]:
    """The keys below `delegation:`, or beside it if the indentation was lost."""
    from overhand.documents.agentfile import load_yaml

    if _MERGE.search(block) and "&" in block:
        raise ValueError("it merges keys, which costs more than a task is worth")  # each level multiplies the last
    rows = [row for row in block.expandtabs(2).splitlines() if not _FENCE.match(row)]
    try:
        value = load_yaml("\n".join(rows))
    except ValueError as error:
        raise ValueError(error.args[0]) from None
    if not isinstance(value, dict) or "delegation" not in value:
        raise ValueError("it does not begin with `delegation:`")
    inner = value.pop("delegation")
    if inner is not None and not isinstance(inner, dict):
        raise ValueError("below `delegation:` there must be keys and values")
    return {str(key): one for key, one in {**value, **(inner or {})}.items()}


def _first(*places: dict[str, object], keys: tuple[str, ...]) -> object:
    found = (place[key] for place in places for key in keys if place.get(key) is not None)
    return next(found, None)


def _text(value: object) -> str:
    try:
        return "" if value is None or isinstance(value, (dict, list)) else str(value).strip()
    except ValueError:  # a number of more digits than Python writes
        return ""


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(text for text in map(_text, values) if text)


def _budget(value: object, line: int | None, problems: list[Problem]) -> int | None:
    if value is None:
        return None
    match = _BUDGET.fullmatch(_text(value)[:40])
    if not match:
        message = f"The budget {shorten(one_line(_text(value)), 40)} is no number of tokens."
        problems.append(warning("delegation-budget", message, line, "Write `token_budget: 12000`."))
        return None
    number, times = match.groups()
    return round(float(number.replace("_", "").replace(",", "")) * _TIMES[times.lower()])


def _priority(value: object, line: int | None, problems: list[Problem]) -> str:
    word = _text(value).upper()
    if not word or word in PRIORITIES.values():
        return word
    if word not in PRIORITIES:
        message = f"There is no priority {shorten(one_line(word), 40)}.{did_you_mean(word, PRIORITIES)}"
        fix = f"Write one of {', '.join(PRIORITIES)}."
        problems.append(warning("delegation-priority", message, line, fix))
    return PRIORITIES.get(word, "")


def _context(context: object, around: dict[str, object]) -> str:
    """Everything in the block beside budget and priority, one line each."""
    if context is not None and not isinstance(context, dict):
        return "\n".join(_texts(context))
    rows = around if isinstance(context, dict) else {"current_phase": around.get("current_phase")}
    elsewhere = ("token_budget", "budget", "priority")
    shown = ((key, ", ".join(_texts(value))) for key, value in rows.items() if key not in elsewhere)
    return "\n".join(f"{str(key).replace('_', ' ').capitalize()}: {text}" for key, text in shown if text)
