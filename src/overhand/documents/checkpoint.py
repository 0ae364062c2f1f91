"""A checkpoint: where a task stood, as JSON for programs and as a full Markdown document for people and agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from overhand.documents.layout import FileNote, contain_in_section, list_lines, note_lines, read_sheet, render_document
from overhand.documents.problems import Problem, by_line, has_errors, warning, wrong
from overhand.documents.quick import (
    DONE,
    NEXT,
    Fields,
    Quick,
    done_entry,
    fields_missing,
    lint_text,
    plain_name,
    quick_text,
    read_quick,
    upcoming_entry,
)
from overhand.documents.text import (
    FILLED,
    TIMESTAMP,
    dump_json,
    is_filled,
    is_texts,
    is_timestamp,
    is_whole,
    load_object,
    missing,
    mistyped,
    one_line,
    unix_lines,
    unknown,
)
from overhand.words import is_checkpoint_id

_TEXTS = ("run_id", "workflow_state", "next_action", "resume_instructions", "commit")
_MOST = 10**15
_TOLERANCE = 1.0  # percentage points: agents round the percentages they write
_KNOWN = {
    "quick handoff": "quick",
    **dict.fromkeys(("completed", "done"), "completed"),
    **dict.fromkeys(("remaining", "to do", "todo"), "remaining"),
    "mental model": "mental_model",
    "gotchas": "gotchas",
    "token budget": "token_budget",
    "related files": "related_files",
}
_FIELDS = {
    "status": "status",
    "context usage": "context_usage",
    "next session": "next",
    "next": "next",
    "created": "created",
    "checkpoint id": "checkpoint_id",
}


@dataclass(frozen=True, slots=True)
class CheckpointCommand:
    """A CONTROL line that was executed, or was about to be."""

    command: str
    target: str = ""
    reason: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointDelegation:
    """Work that was delegated."""

    agent: str
    to: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointBudget:
    """Tokens used, of how many; without a limit there is no percentage."""

    used: int
    limit: int | None = None

    @property
    def percentage(self) -> float | None:
        """How much of the limit is used, to one decimal."""
        return round(100 * self.used / self.limit, 1) if self.limit else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a task stood at one moment; resuming from it never changes a file."""

    checkpoint_id: str
    task_id: str
    created_at: str
    run_id: str = ""
    control_commands_issued: tuple[CheckpointCommand, ...] = ()
    delegation_chain: tuple[CheckpointDelegation, ...] = ()
    workflow_state: str = ""  # the phase, for a task that has phases
    token_budget: CheckpointBudget | None = None
    iteration: int = 1
    next_action: str = ""
    resume_instructions: str = ""
    commit: str = ""
    changed_files: tuple[str, ...] = ()


def render_checkpoint(checkpoint: Checkpoint) -> str:
    """The text of a checkpoint's JSON file; `parse` reads it back."""
    return dump_json(checkpoint_as_json(checkpoint)) + "\n"


def checkpoint_as_json(checkpoint: Checkpoint) -> dict[str, Any]:
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


def _filled(one: CheckpointCommand | CheckpointDelegation) -> dict[str, str]:
    return {name: value for name in one.__dataclass_fields__ if (value := getattr(one, name))}


def parse_checkpoint(text: str) -> tuple[Checkpoint | None, list[Problem]]:
    """A checkpoint and everything that is wrong with its file."""
    value, problems = load_object(text)
    if value is None:
        return None, problems
    needed = ("checkpoint_id", "task_id", "control_commands_issued", "delegation_chain", "created_at")
    problems += missing(value, needed)
    problems += _mistyped(value, "checkpoint_id", "task_id", "created_at", *_TEXTS)
    problems += _entry_problems(value, "control_commands_issued", "command", CheckpointCommand)
    problems += _entry_problems(value, "delegation_chain", "to", CheckpointDelegation)
    problems += _budget_problems(value.get("token_budget"))
    problems += _mistyped(value, "iteration", "changed_files")
    problems += unknown(value, Checkpoint.__dataclass_fields__)
    return (None if has_errors(problems) else _from_json(value)), problems


_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "checkpoint_id": (
        "ckpt_ and letters, digits, _ or -, at most 120 characters",
        lambda name: isinstance(name, str) and is_checkpoint_id(name),
    ),
    "task_id": (FILLED, is_filled),
    "created_at": (TIMESTAMP, is_timestamp),
    **dict.fromkeys(_TEXTS, ("a string", lambda text: isinstance(text, str))),
    "iteration": ("a whole number from 1", lambda number: is_whole(number, 1, _MOST)),
    "changed_files": ("a list of strings", is_texts),
}


def _mistyped(value: Mapping[str, Any], *keys: str) -> list[Problem]:
    """Problems with the values that are present under these keys."""
    there = [key for key in keys if value.get(key) is not None]
    return [mistyped(key, _RULES[key][0]) for key in there if not _RULES[key][1](value[key])]


def _from_json(value: Mapping[str, Any]) -> Checkpoint:
    budget = value.get("token_budget")
    limit = budget and budget.get("limit")
    return Checkpoint(
        checkpoint_id=value["checkpoint_id"],
        task_id=value["task_id"],
        created_at=value["created_at"],
        control_commands_issued=tuple(
            CheckpointCommand(**_known(one, CheckpointCommand)) for one in value["control_commands_issued"]
        ),
        delegation_chain=tuple(
            CheckpointDelegation(**{"agent": "", **_known(one, CheckpointDelegation)})
            for one in value["delegation_chain"]
        ),
        token_budget=CheckpointBudget(int(budget["used"]), int(limit) if limit else None) if budget else None,
        iteration=int(value.get("iteration") or 1),
        changed_files=tuple(value.get("changed_files") or ()),
        **{key: value.get(key) or "" for key in _TEXTS},
    )


def _known(one: Mapping[str, Any], kind: type[CheckpointCommand] | type[CheckpointDelegation]) -> dict[str, str]:
    return {name: one[name] for name in kind.__dataclass_fields__ if one.get(name) is not None}


def _entry_problems(
    value: Mapping[str, Any], key: str, needed: str, kind: type[CheckpointCommand] | type[CheckpointDelegation]
) -> list[Problem]:
    """What is wrong with a list of objects, of which one key is required and all are strings."""
    found = value.get(key)
    if not isinstance(found, list):
        return [] if found is None else [mistyped(key, "a list of objects")]
    problems: list[Problem] = []
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict):
            problems.append(mistyped(f"Entry {number} of {key}", "an object"))
        elif not is_filled(one.get(needed)):
            problems.append(mistyped(f"{needed} in entry {number} of {key}", FILLED))
        elif odd := [name for name in kind.__dataclass_fields__ if not isinstance(one.get(name), str | None)]:
            problems.append(mistyped(f"{odd[0]} in entry {number} of {key}", "a string"))
    return problems


def _budget_problems(budget: object) -> list[Problem]:
    if not isinstance(budget, dict):
        return [] if budget is None else [mistyped("token_budget", "an object with used, limit and percentage")]
    used, limit, share = budget.get("used"), budget.get("limit"), budget.get("percentage")
    problems: list[Problem] = []
    if not is_whole(used, 0, _MOST):
        problems.append(mistyped("token_budget.used", "a whole number from 0"))
    if limit is not None and not is_whole(limit, 1, _MOST):
        problems.append(mistyped("token_budget.limit", "a whole number from 1, or null"))
    if share is not None and not (isinstance(share, int | float) and not isinstance(share, bool) and share >= 0):
        problems.append(mistyped("token_budget.percentage", "a number from 0, or null"))
    if problems or limit is None:
        return problems
    used, limit = int(budget["used"]), int(limit)
    percentage = 100 * used / limit
    if share is not None and abs(share - percentage) > _TOLERANCE:
        message = f"token_budget says {share:g} %, but {used} of {limit} are {percentage:.1f} %."
        problems.append(wrong("budget-mismatch", message, fix="Correct used, limit or percentage."))
    if used > limit:
        message = f"token_budget: {used} tokens are used, more than the limit of {limit}."
        problems.append(warning("budget-exceeded", message, fix="Give the next run a larger budget."))
    return problems


def quick_of(checkpoint: Checkpoint) -> Quick:
    return Quick(
        session=checkpoint.run_id or checkpoint.task_id,
        status=", ".join(filter(None, (checkpoint.workflow_state.strip(), f"iteration {checkpoint.iteration}"))),
        next=one_line(checkpoint.next_action).strip() or "not said; begin with the plan in HANDOFF.md",
        text=checkpoint.resume_instructions,
        state=tuple(_delegation(one) for one in checkpoint.delegation_chain),
    )


def render_full_checkpoint(
    checkpoint: Checkpoint,
    quick: Quick,
    completed: Iterable[str] = (),
    remaining: Iterable[str] = (),
    mental_model: str = "",
) -> str:
    """The full document: everything a successor needs, with the quick handoff at its head."""
    usage, spent = _usage(checkpoint.token_budget)
    fields = {
        "Status": quick.status,
        "Context Usage": usage,
        "Next Session": quick.next,
        "Created": checkpoint.created_at,
        "Checkpoint ID": checkpoint.checkpoint_id,
    }
    bodies = {
        "Quick Handoff": contain_in_section(quick_text(quick)),
        f"{DONE} COMPLETED": list_lines(completed),
        f"{NEXT} REMAINING": list_lines(remaining),
        "🧠 Mental Model": contain_in_section(mental_model),
        "📊 Token Budget": spent,
        "🔗 Related Files": note_lines(FileNote(path, "changed") for path in checkpoint.changed_files),
        "Control Commands": contain_in_section(list_lines(map(_command, checkpoint.control_commands_issued))),
        "Tree": contain_in_section(f"Files were at commit {checkpoint.commit}.") if checkpoint.commit else "",
    }
    return render_document(f"{checkpoint.task_id} - Checkpoint", fields, bodies)


def _command(one: CheckpointCommand) -> str:
    shown = " ".join(filter(None, (one.command, one.target)))
    return " — ".join(filter(None, (shown, one_line(one.reason), one.status)))


def _delegation(one: CheckpointDelegation) -> str:
    shown = f"{one.agent} → {one.to}" if one.agent else one.to
    return done_entry(f"{shown}: {one_line(one.result)}") if one.result else upcoming_entry(shown)


def _usage(budget: CheckpointBudget | None) -> tuple[str, str]:
    """How much of the budget is used: as a field, and as a list."""
    if budget is None:
        return "", ""
    used, share = f"{budget.used} tokens", f"{budget.percentage:g} %" if budget.limit else ""
    if not budget.limit:
        return used, f"- Used: {used}\n- No limit"
    left = max(0, budget.limit - budget.used)
    shown = f"- Used: {budget.used} of {budget.limit} tokens ({share})\n- Left: {left} tokens"
    return f"{share} ({used})", shown


def lint_full(text: str, size_of: Callable[[str], int | None] | None = None) -> list[Problem]:
    """Everything that is wrong with a full document; `size_of` returns a file's number of lines."""
    sheet = read_sheet(unix_lines(text), _KNOWN, naming=plain_name)
    values, _, _ = Fields(_FIELDS, labels=False).read(sheet.preamble)
    needed = {
        "Checkpoint ID": values.get("checkpoint_id", "").strip("`"),
        "Status": values.get("status", ""),
        "Next Session": values.get("next", ""),
    }
    words = lint_text(quick_text(read_quick(sheet.body("quick"))), text, size_of)
    return by_line([*sheet.problems, *fields_missing(needed, 1), *words])
