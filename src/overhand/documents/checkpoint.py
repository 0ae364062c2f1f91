"""A checkpoint: where a task stood, as JSON for programs and as Markdown for people and agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overhand.documents.full import Full, render_full
from overhand.documents.ipc import is_timestamp
from overhand.documents.jsontext import dump, load
from overhand.documents.layout import Section
from overhand.documents.lists import FileNote
from overhand.documents.problems import Problem, has_errors, warning, wrong
from overhand.documents.quick import Quick, done, list_lines, upcoming
from overhand.documents.text import one_line
from overhand.record.model import is_checkpoint_id

__all__ = ["Budget", "Checkpoint", "Command", "Delegation", "is_checkpoint_id", "markdown", "parse", "read", "render"]

_TEXTS = ("run_id", "workflow_state", "next_action", "resume_instructions", "commit")
_LISTS = ("control_commands_issued", "delegation_chain")
_KNOWN = frozenset(
    ("checkpoint_id", "task_id", "token_budget", "iteration", "changed_files", "created_at", *_TEXTS, *_LISTS)
)
_MOST = 10**15
_TOLERANCE = 1.0
"""Percentages are rounded by those who write them."""


@dataclass(frozen=True, slots=True)
class Command:
    """A CONTROL line that was carried out, or was to be."""

    command: str
    target: str = ""
    reason: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Delegation:
    """Work that was handed on."""

    agent: str
    to: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens used, of how many; without a limit there is no percentage."""

    used: int
    limit: int | None = None

    @property
    def percentage(self) -> float | None:
        """How much of the limit is used, to one decimal."""
        return round(100 * self.used / self.limit, 1) if self.limit else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a task stood at one moment; to resume from it never changes a file."""

    checkpoint_id: str
    task_id: str
    created_at: str
    run_id: str = ""
    control_commands_issued: tuple[Command, ...] = ()
    delegation_chain: tuple[Delegation, ...] = ()
    workflow_state: str = ""
    """The phase, for a task that has phases."""
    token_budget: Budget | None = None
    iteration: int = 1
    next_action: str = ""
    resume_instructions: str = ""
    commit: str = ""
    changed_files: tuple[str, ...] = ()


def render(checkpoint: Checkpoint) -> str:
    """The text of a checkpoint's JSON file; `parse` reads it back."""
    return dump(as_json(checkpoint)) + "\n"


def as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint as an object, with every key."""
    budget = checkpoint.token_budget
    spent = budget and {"used": budget.used, "limit": budget.limit, "percentage": budget.percentage}
    return {
        "checkpoint_id": checkpoint.checkpoint_id,
        "task_id": checkpoint.task_id,
        "run_id": checkpoint.run_id or None,
        "control_commands_issued": [_filled(one) for one in checkpoint.control_commands_issued],
        "delegation_chain": [_filled(one) for one in checkpoint.delegation_chain],
        "workflow_state": checkpoint.workflow_state or None,
        "token_budget": spent,
        "iteration": checkpoint.iteration,
        "next_action": checkpoint.next_action,
        "resume_instructions": checkpoint.resume_instructions,
        "commit": checkpoint.commit or None,
        "changed_files": list(checkpoint.changed_files),
        "created_at": checkpoint.created_at,
    }


def _filled(one: Command | Delegation) -> dict[str, str]:
    return {name: value for name in one.__dataclass_fields__ if (value := getattr(one, name))}


# ------------------------------------------------------------------------------------------------------- reading
def parse(text: str) -> tuple[Checkpoint | None, list[Problem]]:
    """A checkpoint and everything that is wrong with its file."""
    value, error = load(text)
    if error:
        fix = "Write one JSON object."
        return None, [Problem("not-json", f"The file is not JSON: {error}.", of="substance", fix=fix)]
    if not isinstance(value, dict):
        return None, [Problem("not-an-object", "The file holds no JSON object.", fix="Write {…}.")]
    return read(value)


def read(value: Mapping[str, Any]) -> tuple[Checkpoint | None, list[Problem]]:
    """A checkpoint from its object."""
    problems = _head_problems(value)
    problems += [_type(key, "a string") for key in _TEXTS if not _is_text(value.get(key))]
    problems += _entry_problems(value, "control_commands_issued", "command", Command)
    problems += _entry_problems(value, "delegation_chain", "to", Delegation)
    problems += _budget_problems(value.get("token_budget"))
    iteration = value.get("iteration")
    if iteration is not None and not _is_whole(iteration, 1):
        problems.append(_type("iteration", "a whole number from 1"))
    files = value.get("changed_files")
    if files is not None and not (isinstance(files, list) and all(isinstance(one, str) for one in files)):
        problems.append(_type("changed_files", "a list of strings"))
    if extra := sorted(key for key in value if key not in _KNOWN):
        problems.append(warning("field-unknown", f"Not part of the format, ignored: {', '.join(extra)}."))
    return (None if has_errors(problems) else _made(value)), problems


def _made(value: Mapping[str, Any]) -> Checkpoint:
    budget = value.get("token_budget")
    limit = budget and budget.get("limit")
    return Checkpoint(
        checkpoint_id=value["checkpoint_id"],
        task_id=value["task_id"],
        created_at=value["created_at"],
        control_commands_issued=tuple(Command(**_known(one, Command)) for one in value["control_commands_issued"]),
        delegation_chain=tuple(
            Delegation(**{"agent": "", **_known(one, Delegation)}) for one in value["delegation_chain"]
        ),
        token_budget=Budget(int(budget["used"]), int(limit) if limit else None) if budget else None,
        iteration=int(value.get("iteration") or 1),
        changed_files=tuple(value.get("changed_files") or ()),
        **{key: value.get(key) or "" for key in _TEXTS},
    )


def _known(one: Mapping[str, Any], kind: type[Command] | type[Delegation]) -> dict[str, str]:
    return {name: one[name] for name in kind.__dataclass_fields__ if one.get(name) is not None}


def _head_problems(value: Mapping[str, Any]) -> list[Problem]:
    needed = ("checkpoint_id", "task_id", *_LISTS, "created_at")
    problems = [
        Problem("field-missing", f"{key} is missing.", fix=f"Add {key}.") for key in needed if value.get(key) is None
    ]
    name, task, stamp = value.get("checkpoint_id"), value.get("task_id"), value.get("created_at")
    if name is not None and not (isinstance(name, str) and is_checkpoint_id(name)):
        problems.append(_type("checkpoint_id", "ckpt_ and letters, digits, _ or -, at most 120 characters"))
    if task is not None and not _is_filled(task):
        problems.append(_type("task_id", "a string that is not blank"))
    if stamp is not None and not is_timestamp(stamp):
        problems.append(_type("created_at", "a string like 2026-02-25T11:30:00Z"))
    return problems


def _entry_problems(
    value: Mapping[str, Any], key: str, needed: str, kind: type[Command] | type[Delegation]
) -> list[Problem]:
    """What is wrong with a list of objects, of which one key is required and all are strings."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        return [_type(key, "a list of objects")]
    problems: list[Problem] = []
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict):
            problems.append(_type(f"Entry {number} of {key}", "an object"))
        elif not _is_filled(one.get(needed)):
            problems.append(_type(f"{needed} in entry {number} of {key}", "a string that is not blank"))
        elif odd := next((name for name in kind.__dataclass_fields__ if not _is_text(one.get(name))), None):
            problems.append(_type(f"{odd} in entry {number} of {key}", "a string"))
    return problems


def _budget_problems(budget: object) -> list[Problem]:
    if budget is None:
        return []
    if not isinstance(budget, dict):
        return [_type("token_budget", "an object with used, limit and percentage")]
    used, limit, share = budget.get("used"), budget.get("limit"), budget.get("percentage")
    problems: list[Problem] = []
    if not _is_whole(used, 0):
        problems.append(_type("token_budget.used", "a whole number from 0"))
    if limit is not None and not _is_whole(limit, 1):
        problems.append(_type("token_budget.limit", "a whole number from 1, or null"))
    if share is not None and not (isinstance(share, int | float) and not isinstance(share, bool) and share >= 0):
        problems.append(_type("token_budget.percentage", "a number from 0, or null"))
    if problems or limit is None:
        return problems
    return _sum_problems(int(budget["used"]), int(limit), share)


def _sum_problems(used: int, limit: int, share: float | None) -> list[Problem]:
    is_share = 100 * used / limit
    problems: list[Problem] = []
    if share is not None and abs(share - is_share) > _TOLERANCE:
        message = f"token_budget says {share:g} %, but {used} of {limit} are {is_share:.1f} %."
        problems.append(wrong("budget-mismatch", message, fix="Correct used, limit or percentage."))
    if used > limit:
        message = f"token_budget: {used} tokens are used, more than the limit of {limit}."
        problems.append(warning("budget-exceeded", message, fix="Give the next run a larger budget."))
    return problems


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_whole(value: object, least: int) -> bool:
    # 1.0 is an integer to JSON Schema, and to us.
    whole = value.is_integer() if isinstance(value, float) else type(value) is int
    return whole and least <= value <= _MOST  # type: ignore[operator] # it is a number by now


def _type(key: str, needed: str) -> Problem:
    return Problem("field-type", f"{key} must be {needed}.", fix=f"Write {key} as {needed}.")


# ------------------------------------------------------------------------------------------------------ Markdown
def markdown(checkpoint: Checkpoint) -> str:
    """The checkpoint as a full document."""
    return render_full(full(checkpoint))


def full(checkpoint: Checkpoint) -> Full:
    """The checkpoint as a full document's value; what only its writer knows is added with `replace`."""
    status = ", ".join(filter(None, (checkpoint.workflow_state.strip(), f"iteration {checkpoint.iteration}")))
    following = one_line(checkpoint.next_action).strip() or "not said; begin with the plan in HANDOFF.md"
    commands = [_command(one) for one in checkpoint.control_commands_issued]
    quick = Quick(
        session=checkpoint.run_id or checkpoint.task_id,
        status=status,
        next=following,
        text=checkpoint.resume_instructions,
        state=tuple(_delegation(one) for one in checkpoint.delegation_chain),
    )
    extra = {
        "Control Commands": list_lines(commands),
        "Tree": f"Files were at commit {checkpoint.commit}." if checkpoint.commit else "",
    }
    return Full(
        title=checkpoint.task_id,
        status=status,
        context_usage=_usage(checkpoint.token_budget),
        next=following,
        created=checkpoint.created_at,
        checkpoint_id=checkpoint.checkpoint_id,
        quick=quick,
        token_budget=_spent(checkpoint.token_budget),
        related_files=tuple(FileNote(path, "changed") for path in checkpoint.changed_files),
        extra=tuple(Section(title, body) for title, body in extra.items() if body),
    )


def _command(one: Command) -> str:
    shown = " ".join(filter(None, (one.command, one.target)))
    return " — ".join(filter(None, (shown, one_line(one.reason), one.status)))


def _delegation(one: Delegation) -> str:
    shown = f"{one.agent} → {one.to}" if one.agent else one.to
    return done(f"{shown}: {one_line(one.result)}") if one.result else upcoming(shown)


def _usage(budget: Budget | None) -> str:
    if budget is None:
        return ""
    return f"{budget.percentage:g} % ({budget.used} tokens)" if budget.limit else f"{budget.used} tokens"


def _spent(budget: Budget | None) -> str:
    if budget is None:
        return ""
    if not budget.limit:
        return f"- Used: {budget.used} tokens\n- No limit"
    left = max(0, budget.limit - budget.used)
    return f"- Used: {budget.used} of {budget.limit} tokens ({budget.percentage:g} %)\n- Left: {left} tokens"
