"""What a run gets: the prompt (role, task, how to return), its context and its environment."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from overhand.policy import say_budget
from overhand.record import INPUTS_FILE
from overhand.runs.handover import in_fence
from overhand.system import write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.agents import Agent
    from overhand.record import Amount, Store, Task

RUN_MARKER = "OVERHAND_RUN"  # in the environment of everything a run starts

_LEVELS = {
    "read": "You may read anything in the project and must not change files outside your own run folder.",
    "walled": "You may read anything in the project, which is read-only for you; write in your own run folder, and say "
    "in your return what should change.",
    "work": "You may edit files and run commands in the project.",
    "full": "You may do whatever the task needs.",
}


def opening(
    agent: Agent, handoff: str, task: Task, workspace: str, allowance: Amount | None, *, walled: bool = False
) -> list[str]:
    """How the prompt of a new session begins: its role, its task and the rules; `walled`: the project is read-only."""
    ground = _ground(agent, task, workspace, "walled" if walled else task.level, "## Plan" in handoff)
    if allowance is not None:
        ground += f"\n- Stay within this budget: {say_budget(allowance)}. At 95 % of it you are stopped."
    return [agent.body, handoff.strip(), ground]


def opening_again(handoff: str) -> list[str]:
    """How the prompt begins in a session that continues: it has its role and its task already."""
    _, found, previous = handoff.partition("## Previous Worker Context")
    intro = "Go on with the task of this session: HANDOFF.md in its folder says what it is."
    return [intro, f"{found}{previous}".strip()]


def compose(
    opening: Sequence[str],
    messages: Sequence[str],
    task: Task,
    desk: str,
    problems: list[dict[str, Any]],
    contract: str = "",
) -> str:
    """The prompt of one run; `contract` is what the opening does not say of the task's contract."""
    parts = [*opening, *(f"## A message from the person\n\n{text}" for text in messages)]
    parts += [f"## Contract\n\n{contract}" if contract else "", how_to_return(task, desk)]
    if problems:
        wrong = [f"{_wrong(problem)}{in_fence(problem.get('detail', ''))}" for problem in problems]
        intro = "## Your last return could not be accepted\n\nMend all of this, then return again:"
        parts.append("\n".join([intro, *wrong]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrong(problem: dict[str, Any]) -> str:
    return f"- {problem['message']} {problem.get('fix') or ''}".rstrip()


def _ground(agent: Agent, task: Task, workspace: str, level: str, has_plan: bool) -> str:
    lines = ["## Ground rules", f"- {_LEVELS[level]}"]
    lines.append(
        '- If you cannot go on without an answer: `"$OVERHAND" ask "question" --option a --option b` waits and prints '
        "it ($OVERHAND is the path of the command `overhand`). "
        "Exit code 124 means not yet: call again as it says. Without that command write "
        '`ipc/NNN.question` in the task\'s folder as JSON ({"seq", "timestamp", "question", "options"}), by rename, '
        "and wait for `ipc/NNN.answer`. Do not guess what you should ask."
    )
    if task.node:
        inputs = f"{workspace}/{INPUTS_FILE}"
        lines.append(f"- This is node `{task.node}` of a plan. Its inputs are in `{inputs}`, as JSON.")
    if has_plan:
        lines.append(
            '- Mark the steps of the Plan as you go: `"$OVERHAND" step N doing`, `done`, `blocked` or `error`, '
            "or edit the marker in HANDOFF.md (`[x]` done, `[?]` blocked, `[!]` error)."
        )
    if agent.control:
        lines.append(
            "- These lines are heard when you print them at the start of a line: `CONTROL: PAUSE`, "
            "`CONTROL: CHECKPOINT`, `CONTROL: ESCALATE`, `CONTROL: RESUME [ckpt_id]`, `CONTROL: DELEGATE agent`, "
            "each with `REASON: …` on the same or the next line."
        )
    if task.depth < 3:
        lines.append('- To hand a part to another agent: `"$OVERHAND" delegate "what" --agent NAME --wait`.')
    if task.checks:
        commands = "; ".join(f"`{check.command}`" for check in task.checks)
        lines.append(f"- Afterwards these checks are run; they decide: {commands}")
    if agent.real and agent.options.get("mcp", True):
        lines.append(
            "- If tools of an MCP server `overhand` are offered to you (handoff, step, ask, checkpoint, delegate, "
            "finish), they do the same as these commands; `finish` writes OUTPUT.md for you."
        )
    lines.append("- Notes to yourself go into WORK.md in the task's folder; nobody else reads it.")
    return "\n".join(lines)


def how_to_return(task: Task, desk: str) -> str:
    """The instruction that every prompt ends with."""
    asked = "\n`## Contract` above says what else it must hold." if task.contract else ""
    return f"""## How to return

Your last act is to write this file, and nothing counts without it:

    {desk}/OUTPUT.md

```markdown
# Task Complete: short title

**Status:** completed
**Duration:** how long it took
**Agent:** {task.agent}

## Summary
One to three sentences: what is true now.

## Deliverables
| File | Description |
|------|-------------|
| `path/to/file` | what it does |

## Decisions Made
- **What was decided**: why

## For Primary
What the caller has to know: warnings, open ends, next steps.

## Files Modified
- `path/to/file` — what changed
```

`Status` is one of completed, partial, blocked, needs-input, failed. Say completed only if it is: every file you name is
looked at and the checks are run again without you. Paths are relative to the project.
Structured results go into a `## Data` section with one fenced json block, or into `{desk}/data.json`.
A program may instead write the same as JSON (status, summary, artifacts, errors, next_steps, data) to
`{desk}/result.json` or print it as the last thing on stdout.{asked}"""


def inputs_file_of(store: Store, task: Task) -> str:
    """The file with the inputs of a plan's node; nothing for any other task."""
    return f"{store.workspace(task.id)}/{INPUTS_FILE}" if task.node else ""


def context(task: Task, run_id: str) -> dict[str, Any]:
    return {
        "session_id": run_id,
        "delegation_depth": task.depth,
        "delegation_path": task.path,
        "timeout": task.timeout,
        "task_context": {"task_id": task.id, "description": task.title, "kind": task.kind},
    }


def own_command(store: Store) -> str:
    """The path of the command `overhand`: a login shell resets PATH, and may know another version, or none."""
    beside = f"{os.path.dirname(sys.executable)}/overhand"
    if os.access(beside, os.X_OK):
        return beside
    path = f"{store.home}/overhand"
    if not os.access(path, os.X_OK):  # it is not installed: there is only the package
        write_file(path, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m overhand "$@"\n', mode=0o755)
    return path


def run_environment(store: Store, task: Task, run_id: str, allowance: Amount | None = None) -> dict[str, str]:
    """The variables of an agent's environment that are ours."""
    folder, desk = store.workspace(task.id), store.desk(task.id, run_id)
    env = {
        "OVERHAND": own_command(store),
        "OVERHAND_TASK": task.id,
        RUN_MARKER: run_id,
        "OVERHAND_WORKSPACE": folder,
        "OVERHAND_HANDOFF": f"{folder}/HANDOFF.md",
        "OVERHAND_OUTPUT": f"{desk}/OUTPUT.md",
        "OVERHAND_RESULT": f"{desk}/result.json",
        "OVERHAND_DATA": f"{desk}/data.json",
        "OVERHAND_CONTEXT": f"{desk}/context.json",
        "OVERHAND_USAGE": f"{desk}/usage.jsonl",
        "OVERHAND_DEPTH": str(task.depth),
        "OVERHAND_PROJECT": task.workplace(store.root),
        "OVERHAND_HOME": store.root,
        "PWD": task.workplace(store.root),
    }
    if task.tree is not None:
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(task.tree.path)  # its git finds no repository around it
        if task.tree.ports:
            first, count = task.tree.ports
            env |= {"OVERHAND_PORT": str(first), "OVERHAND_PORTS": f"{first}-{first + count - 1}"}
    if inputs := inputs_file_of(store, task):
        env["OVERHAND_INPUTS"] = inputs
    if task.model:
        env["OVERHAND_MODEL"] = task.model
    if allowance is not None and allowance.tokens:
        env["OVERHAND_BUDGET_TOKENS"] = str(allowance.tokens)
    if allowance is not None and allowance.usd:
        env["OVERHAND_BUDGET_USD"] = f"{allowance.usd:.6f}"
    return env
