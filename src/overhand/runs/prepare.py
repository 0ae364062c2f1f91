"""Before a run begins: what is read, measured and checked, and the folder that is laid out for it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, find_agent, mcp_server_command, session_to_resume
from overhand.documents import contract_form, decode_text, load_json, parse_handoff, promises_files
from overhand.errors import NotFound
from overhand.policy import require_trusted
from overhand.record import read_state
from overhand.runs import checks, handover, prompt, walls, worktree
from overhand.system import boot_id, dump_line, put_file, read_file, write_file, write_new
from overhand.words import LEVELS, duration

if TYPE_CHECKING:
    from overhand.documents import Handoff
    from overhand.policy import Actor
    from overhand.record import Amount, LockedTask, Run, Store, Task
    from overhand.system import Beneath


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is read before the lock is taken, because it may take long."""

    agent: Agent
    handoff: Handoff
    text: str
    tree: dict[str, Any] | None
    allowance: Amount | None = None  # what it may use
    shield: walls.Shield = walls.NO_SHIELD  # of its program and its checks


def prepare(actor: Actor, task: Task) -> Prepared:
    """Read agent and HANDOFF, take the baseline and run the checks on the base, once per task."""
    agent = find_agent(actor.store.root, task.agent, actor.config_of(task))
    require_trusted(actor.store.root, agent.trusted_with)
    actor.store.furnish(task.id)
    if task.runs:
        handover.write_previous_runs(actor.store, task)
    if task.begins is not None:
        from overhand.runs.own_tree import ensure_tree

        task = ensure_tree(actor, task)
    text, handoff = read_task_handoff(actor.store, task.id)
    take_baseline(actor.store, task, handoff)
    shield = shield_of(actor, agent, task, handoff)
    if task.checks and task.tree is not None:
        from overhand.runs.throwaway import check_base_apart

        check_base_apart(actor, task, handoff, shielded=bool(shield.enter))
    elif task.checks:
        checks.check_base(actor, task, handoff, shielded=bool(shield.enter))
    return Prepared(agent, handoff, text, _tree_before(actor, task, shield), shield=shield)


def _tree_before(actor: Actor, task: Task, shield: walls.Shield) -> dict[str, Any] | None:
    """What the run begins with, to compare what it leaves with; None where git cannot tell."""
    if task.tree is not None:
        from overhand.runs.own_tree import before_run

        return before_run(actor, task)
    enter = walls.enter_git(actor.store, shielded=bool(shield.enter))  # another run may have written there before
    return worktree.tree_snapshot(actor.store.root, enter, steering=bool(task.checks), git=True)


def shield_of(actor: Actor, agent: Agent, task: Task, handoff: Handoff, *, opened: bool = False) -> walls.Shield:
    """The shield of the next run."""
    read_only = walls.may_only_read(_level(task, agent), _as_given(actor.store, task, handoff))
    return walls.shield_run(actor, agent, task, read_only=read_only, opened=opened)


def read_task_handoff(store: Store, task_id: str) -> tuple[str, Handoff]:
    raw = store.workspace_files(task_id).read("HANDOFF.md")
    if raw is None:
        raise NotFound(f"Task {task_id} has no HANDOFF.md that can be read.", "Write one into its folder.")
    text, _ = decode_text(raw)
    return text, parse_handoff(text)


def take_baseline(store: Store, task: Task, handoff: Handoff) -> None:
    """Fingerprints of what is promised, before the task's first run; a resume compares with the same ones."""
    if not promises_files(handoff):
        return
    path = f"{store.record(task.id)}/baseline.json"
    if not os.path.exists(path):
        write_file(path, json.dumps(worktree.baseline(task.workplace(store.root), handoff.deliverables)))


def lay_out_run(actor: Actor, locked: LockedTask, run_id: str, prepared: Prepared) -> Job:
    """The folders of a run that is a process of its own: on its desk also prompt and context, which it reads there."""
    task, store, agent = locked.task, actor.store, prepared.agent
    folders = store.run_folders(locked.task_id, run_id)
    place, desk = folders.place, folders.desk
    session = session_to_resume(store, task, agent)
    asked_for = _asked_for(store, task, prepared)
    os.makedirs(place, 0o700)
    keep_given(locked, run_id, prepared)
    write_new(f"{place}/spec.json", dump_line(_spec(actor, task, run_id, prepared, session)))
    job = Job(
        prompt=run_prompt(store, task, run_id, prepared, session),
        workspace=folders.workspace,
        handoff=f"{folders.workspace}/HANDOFF.md",
        output=f"{desk}/OUTPUT.md",
        project=task.workplace(store.root),
        home=store.root,
        place=place,
        record=folders.record,
        desk=desk,
        run=run_id,
        level=_level(task, agent),
        model=task.model or str(agent.options.get("model", "")),
        session=session,
        mcp=mcp_server_command(agent) if agent.real else (),
        allow=(*_patterns(agent, "allow"), *(f"edit: {path}" for path in asked_for)),
        deny=_patterns(agent, "deny"),
        asked_for=asked_for,
        inputs=prompt.inputs_file_of(store, task),
        enter=prepared.shield.enter,
        walled=prepared.shield.keeps_project,
    )
    write_new(f"{place}/prompt.md", job.prompt)
    os.mkdir(f"{place}/waiting", 0o700)  # watched from the beginning: calls of the run that wait leave marks there
    folders.workspace_files.make_folder(f"runs/{run_id}", aside=True)
    with folders.desk_files.held() as files:
        files.write("prompt.md", job.prompt)
        files.write("context.json", dump_line(prompt.context(task, run_id)))
    return job


def run_prompt(store: Store, task: Task, run_id: str, prepared: Prepared, session: str = "") -> str:
    """The prompt of this run, which may continue a session of the agent's program."""
    if session and task.runs[:-1]:
        opening = prompt.opening_again(prepared.text)
    else:
        workspace = store.workspace(task.id)
        walled, allowance = prepared.shield.keeps_project, prepared.allowance
        opening = prompt.opening(prepared.agent, prepared.text, task, workspace, allowance, walled=walled)
    messages = [handover.whole_message(store, task.id, one) for one in task.messages if one.run == run_id]
    contract = _contract_to_say(store, task, prepared.handoff) if task.contract else ""
    unsaid = "" if any(contract in part for part in opening) else contract
    return prompt.compose(
        opening, messages, task, store.desk(task.id, run_id), _problems_to_repair(store, task), unsaid
    )


def _contract_to_say(store: Store, task: Task, handoff: Handoff) -> str:
    """What the agent must be told of the contract; a plan says it of its nodes in its own words."""
    schema = _schema_of(store, task)
    return handoff.contract if task.node and schema else contract_form(task.contract or "", schema)


def _schema_of(store: Store, task: Task) -> bytes:
    """The JSON Schema that is the task's contract."""
    is_schema = task.contract is not None and task.contract.endswith(".json")
    return (read_file(f"{store.record(task.id)}/contract.json") or b"") if is_schema else b""


def keep_given(locked: LockedTask, run_id: str, prepared: Prepared) -> None:
    """Put into the record what the run's verdict is compared with; the run gets a folder if there is any of it."""
    task, store = locked.task, locked.store
    if any(run.id != run_id for run in task.runs):  # before the first it is the text that the task was made with
        put_file(f"{locked.record}/HANDOFF.md", prepared.text)
    kept: dict[str, str | bytes] = {}
    if prepared.tree is not None:
        own = [task.tag.path] if task.tag else []
        before = prepared.tree if task.tree else worktree.with_own(store.root, prepared.tree, own)
        kept["tree.json"] = dump_line(before)
    if task.contract and task.contract.endswith(".json"):
        kept["contract.json"] = _schema_of(store, task) or b"{}"
    if kept:
        os.makedirs(place := store.run_folder(task.id, run_id), 0o700, exist_ok=True)
        for name, data in kept.items():
            write_new(f"{place}/{name}", data)


def read_spec(store: Store, task: Task, run: Run) -> dict[str, Any]:
    """What a verdict must know, as it was when the run began; a function's run is given what its task says."""
    kept = read_state(f"{store.run_folder(task.id, run.id)}/spec.json")
    if kept is not None or not run.attached:
        return kept or {}
    text, _ = decode_text(read_file(f"{store.record(task.id)}/HANDOFF.md") or b"")
    return {"contract": task.contract, "level": task.level, "handoff": text}


def _spec(actor: Actor, task: Task, run_id: str, prepared: Prepared, session: str) -> dict[str, Any]:
    """Everything that a later verdict, adopter or meter must know, as it was when the run began."""
    agent, limits = prepared.agent, actor.config_of(task)
    asked_for = [f"edit: {path}" for path in _asked_for(actor.store, task, prepared)]
    every = {"allow": [*_patterns(agent, "allow"), *asked_for], "deny": [*_patterns(agent, "deny")]}
    patterns = {key: given for key, given in every.items() if given}
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
        **({"walled": True} if prepared.shield.keeps_project else {}),
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


def _as_given(store: Store, task: Task, handoff: Handoff) -> Handoff:
    """The HANDOFF of the task's first run: what an agent has written into it since then permits nothing."""
    for run in task.runs:
        if text := read_spec(store, task, run).get("handoff"):
            return parse_handoff(str(text))
    return handoff


def _asked_for(store: Store, task: Task, prepared: Prepared) -> tuple[str, ...]:
    """Paths of the files that a run of level read is asked for, and may therefore write; of no others."""
    if _level(task, prepared.agent) != "read" or not promises_files(prepared.handoff):
        return ()
    given = _as_given(store, task, prepared.handoff).deliverables
    return tuple([real for one in given if one.path and (real := worktree.path_inside(store.root, one.path))])


def _patterns(agent: Agent, key: str) -> tuple[str, ...]:
    return tuple(map(str, agent.options.get(key, ())))


def _problems_to_repair(store: Store, task: Task) -> list[dict[str, Any]]:
    """What was wrong with the last return, if this run is to repair it."""
    repaired = next((run.id for run in reversed(task.runs) if run.status == "repair"), None)
    raw = read_file(f"{store.run_folder(task.id, repaired)}/problems.json") if repaired else None
    found, _ = load_json(raw.decode("utf-8", "replace")) if raw else (None, "")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def archive_last_run(locked: LockedTask, earlier: list[Run] | None = None) -> None:
    """Before a run, what the last one left at the top of record and workspace moves to that run's folders."""
    runs = locked.task.runs[:-1] if earlier is None else earlier
    if runs:
        place = locked.store.run_folder(locked.task_id, runs[-1].id)
        for name, kept_as in (
            ("result.json", "judged.json"),  # first: where it is, the files that it vouches for are, too
            ("OUTPUT.md", "accepted.md"),
            ("CONTEXT.md", "CONTEXT.md"),
        ):
            if os.path.lexists(f"{locked.record}/{name}"):
                os.makedirs(place, 0o700, exist_ok=True)
                os.replace(f"{locked.record}/{name}", f"{place}/{kept_as}")
    with locked.store.workspace_files(locked.task_id).held() as files:
        for name, kept_as in (("OUTPUT.md", "OUTPUT.md"), ("CONTEXT.md", "CONTEXT.md"), ("ipc/.done", "done")):
            if files.exists(name):
                _set_aside(files, name, f"runs/{runs[-1].id}/{kept_as}" if runs else "", kept_as)


def _set_aside(files: Beneath, path: str, target: str, name: str) -> None:
    """Give a document of the workspace this name, or another where it is taken or unknown; nothing is overwritten."""
    folder = target[: len(target) - len(name)]
    files.make_folder(folder, aside=True)
    if target and not files.exists(target):
        files.rename(path, target)
    elif target and (raw := files.read(path)) is not None and raw == files.read(target):
        files.remove(path)
    else:
        number = 1
        while files.exists(stray := f"{folder}stray-{name}" + (f"-{number}" if number > 1 else "")):
            number += 1
        files.rename(path, stray)
