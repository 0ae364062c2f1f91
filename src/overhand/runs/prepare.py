"""Before a run begins: what is read, measured and checked, and the folder that is laid out for it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, find_agent, mcp_server_command, session_to_resume
from overhand.documents import decode_text, load_json, parse_handoff, promises_files
from overhand.errors import NotFound
from overhand.policy import require_seal, require_trusted
from overhand.runs import checks, handover, prompt, worktree
from overhand.system import boot_id, dump_line, is_there, read_file, write_file, write_new
from overhand.words import LEVELS, duration

if TYPE_CHECKING:
    from overhand.documents import Handoff
    from overhand.policy import Actor
    from overhand.record import Amount, LockedTask, Run, Store, Task


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is read before the lock is taken, because it may take long."""

    agent: Agent
    handoff: Handoff
    text: str
    tree: dict[str, Any] | None
    allowance: Amount | None = None  # what it may use


def prepare(actor: Actor, task: Task) -> Prepared:
    """Read agent and HANDOFF, take the baseline and run the checks on the base, once per task."""
    require_seal(task)
    agent = find_agent(actor.store.root, task.agent, actor.config_of(task))
    require_trusted(actor.store.root, agent.trusted_with)
    if task.runs:
        handover.write_previous_runs(actor.store, task)
    text, handoff = read_task_handoff(actor.store, task.id)
    take_baseline(actor.store, task, handoff)
    if task.checks and not task.runs:
        checks.checks_before(actor, task)
    return Prepared(agent, handoff, text, worktree.tree_snapshot(actor.store.root))


def read_task_handoff(store: Store, task_id: str) -> tuple[str, Handoff]:
    raw = read_file(f"{store.folder(task_id)}/HANDOFF.md")
    if raw is None:
        raise NotFound(f"Task {task_id} has no HANDOFF.md that can be read.", "Write one into its folder.")
    text, _ = decode_text(raw)
    return text, parse_handoff(text)


def take_baseline(store: Store, task: Task, handoff: Handoff) -> None:
    """Fingerprints of what is promised, before the task's first run; a resume compares with the same ones."""
    if not promises_files(handoff):
        return
    path = f"{store.folder(task.id)}/baseline.json"
    if not os.path.exists(path):
        write_file(path, json.dumps(worktree.baseline(store.root, handoff.deliverables)))


def lay_out_run(actor: Actor, locked: LockedTask, run_id: str, prepared: Prepared) -> Job:
    """The folder of a run that is a process of its own: also prompt and context, which it reads there."""
    task, store, agent = locked.task, actor.store, prepared.agent
    place = store.run_folder(locked.task_id, run_id)
    session = session_to_resume(store, task, agent)
    open_run_folder(actor, locked, run_id, prepared, session)
    job = Job(
        prompt=run_prompt(store, task, run_id, prepared, session),
        workspace=locked.folder,
        handoff=f"{locked.folder}/HANDOFF.md",
        output=f"{place}/OUTPUT.md",
        project=store.root,
        place=place,
        run=run_id,
        level=_level(task, agent),
        model=task.model or str(agent.options.get("model", "")),
        session=session,
        mcp=mcp_server_command(agent),
        allow=_patterns(agent, "allow"),
        deny=_patterns(agent, "deny"),
        inputs=prompt.inputs_file_of(store, task),
    )
    write_new(f"{place}/prompt.md", job.prompt)
    write_new(f"{place}/context.json", dump_line(prompt.context(task, run_id)))
    return job


def run_prompt(store: Store, task: Task, run_id: str, prepared: Prepared, session: str = "") -> str:
    """The prompt of this run, which may continue a session of the agent's program."""
    place = store.run_folder(task.id, run_id)
    if session and task.runs[:-1]:
        opening = prompt.opening_again(prepared.text)
    else:
        opening = prompt.opening(prepared.agent, prepared.text, task, place, prepared.allowance)
    messages = [handover.whole_message(store, task.id, one) for one in task.messages if one.run == run_id]
    return prompt.compose(opening, messages, task, place, _problems_to_repair(store, task))


def open_run_folder(
    actor: Actor, locked: LockedTask, run_id: str, prepared: Prepared, session: str = ""
) -> dict[str, Any]:
    """Make the run's folder, with what its verdict is compared with; returns the spec."""
    task = locked.task
    place = actor.store.run_folder(locked.task_id, run_id)
    if not is_there(runs := os.path.dirname(place)):
        os.mkdir(runs)
    os.mkdir(place)
    if prepared.tree is not None:
        own = [task.tag.path] if task.tag else []
        write_new(f"{place}/tree.json", dump_line(worktree.with_own(actor.store.root, prepared.tree, own)))
    if task.contract and task.contract.endswith(".json"):
        write_new(f"{place}/contract.json", read_file(f"{locked.folder}/contract.json") or b"{}")
    spec = _spec(actor, task, run_id, prepared, session)
    write_new(f"{place}/spec.json", dump_line(spec))
    return spec


def _spec(actor: Actor, task: Task, run_id: str, prepared: Prepared, session: str) -> dict[str, Any]:
    """Everything that a later verdict, adopter or meter must know, as it was when the run began."""
    agent, limits = prepared.agent, actor.config_of(task)
    patterns = {key: list(given) for key in ("allow", "deny") if (given := _patterns(agent, key))}
    return {
        "task": task.id,
        "run": run_id,
        "agent": {
            "name": agent.name,
            "driver": agent.driver,
            "source": agent.source,
            "sha256": agent.digest,
            "gives": list(agent.gives),
            "reruns": agent.reruns,
            "compacts": agent.compacts,
        },
        "contract": task.contract,
        "tree": prepared.tree is not None,
        "level": _level(task, agent),
        **patterns,
        "deadline": {"boot": boot_id(), "mono": round(time.monotonic() + task.timeout, 3)},
        "grace": limits.stop_grace,
        "max_output": limits.max_output,
        "max_block": duration(agent.options.get("max_block", limits.max_block)),
        "handoff": prepared.text,
        **({"session": session} if session else {}),
    }


def _level(task: Task, agent: Agent) -> str:
    """What the run may do: another agent, that may do less, may have taken over."""
    return min(task.level, agent.level, key=list(LEVELS).index)


def _patterns(agent: Agent, key: str) -> tuple[str, ...]:
    return tuple(map(str, agent.options.get(key, ())))


def _problems_to_repair(store: Store, task: Task) -> list[dict[str, Any]]:
    """What was wrong with the last return, if this run is to repair it."""
    repaired = next((run.id for run in reversed(task.runs) if run.status == "repair"), None)
    raw = read_file(f"{store.run_folder(task.id, repaired)}/problems.json") if repaired else None
    found, _ = load_json(raw.decode("utf-8", "replace")) if raw else (None, "")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def archive_last_run(locked: LockedTask, earlier: list[Run] | None = None) -> None:
    """Before a run, what the last one left in the task's folder moves to that run's folder; nothing is overwritten."""
    runs = locked.task.runs[:-1] if earlier is None else earlier
    target = f"{locked.folder}/runs/{runs[-1].id}" if runs else locked.folder
    for name, kept_as in (
        ("result.json", "judged.json"),  # first: where it is, the files that it vouches for are, too
        ("OUTPUT.md", "OUTPUT.md"),
        ("CONTEXT.md", "CONTEXT.md"),
        ("ipc/.done", "done"),
    ):
        path = f"{locked.folder}/{name}"
        if not os.path.lexists(path):
            continue
        if runs and not os.path.lexists(f"{target}/{kept_as}"):
            os.rename(path, f"{target}/{kept_as}")
        elif runs and read_file(path) == read_file(f"{target}/{kept_as}"):
            os.unlink(path)
        else:
            number = 1
            while os.path.lexists(stray := f"{target}/stray-{kept_as}" + (f"-{number}" if number > 1 else "")):
                number += 1
            os.rename(path, stray)
