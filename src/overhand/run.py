"""One run from its first event to its end: create, start, settle, stop. Judging is in finish.py."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from overhand import checks, handles, machine, messages, model, prompts, resuming, sessions, spending, trees, trust
from overhand import config as configs
from overhand.agents import Agent, Job, driver, files
from overhand.documents import handoff as handoffs
from overhand.documents.text import decode
from overhand.errors import Busy, NotFound, OverhandError, Refused, storage_failed
from overhand.files import read_file, write_file, write_new
from overhand.jsonline import dumps
from overhand.store import Locked, Store, new_run_id, open_states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.config import Config
    from overhand.documents.handoff import Handoff
    from overhand.shapes import Amount, Event, Run, State

MARKER = prompts.MARKER


@dataclass(frozen=True, slots=True)
class Work:
    """What every step needs: where, under which settings, in whose name, with which environment."""

    store: Store
    config: Config
    by: Event
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    sync_results: bool = True  # False in a batch, which brings its results to the disk together
    spare: frozenset[int] = frozenset()  # processes that are never members of a run: the supervisor

    def config_of(self, state: State) -> Config:
        """The settings in force for this task."""
        return configs.of_task(self.store.root, self.config, state["settings"])


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is looked at before the lock is taken, because it may take long."""

    agent: Agent
    handoff: Handoff
    text: str
    tree: dict[str, Any] | None
    allowance: Amount | None = None  # what it may use


def prepare(work: Work, state: State) -> Prepared:
    """Read agent and HANDOFF, take the baseline and run the checks on the base, once per task."""
    trust.require_seal(state)
    agent = files.find(work.store.root, state["agent"], work.config_of(state))
    trust.require(work.store.root, agent.trusted_with)
    resuming.write_previous(work.store, state)
    text, handoff = read_handoff(work.store, state["task_id"])
    take_baseline(work.store, state, handoff)
    if state["checks"] and not state["runs"]:
        folder = f"{work.store.folder(state['task_id'])}/checks/before"
        run_checks(work, state, folder)
    return Prepared(agent, handoff, text, trees.snapshot(work.store.root))


def read_handoff(store: Store, task_id: str) -> tuple[str, Handoff]:
    """The HANDOFF.md as text and parsed."""
    raw = read_file(f"{store.folder(task_id)}/HANDOFF.md")
    if raw is None:
        raise NotFound(f"Task {task_id} has no HANDOFF.md that can be read.", "Write one into its folder.")
    text, _ = decode(raw)
    return text, handoffs.parse(text)


def take_baseline(store: Store, state: State, handoff: Handoff) -> None:
    """Fingerprints of what is promised, before the task's first run; a resume compares with the same ones."""
    path = f"{store.folder(state['task_id'])}/baseline.json"
    if any(d.path for d in handoff.deliverables) and not os.path.exists(path):
        write_file(path, json.dumps(trees.baseline(store.root, handoff.deliverables)))


def run_checks(work: Work, state: State, folder: str, before: list[Any] | None = None) -> list[Any]:
    """The task's checks in the tree, with the evidence in `folder`."""
    return checks.run_all(
        state["checks"],
        folder,
        tree=work.store.root,
        env=work.env,
        timeout=work.config_of(state).check_timeout,
        before=before or [],
        wanted=lambda: not is_unwanted(work.store, state["task_id"]),
    )


def is_unwanted(store: Store, task_id: str) -> bool:
    """Whether a person has stopped the task meanwhile."""
    now = store.state(task_id)
    return now["stop"] is not None or now["status"] == "cancelled"


def claim(task: Locked, agent: Agent, timeout: float) -> str | None:
    """Record a new run, if the task is queued and no run holds it; exactly one caller ever gets it."""
    if not task.state["queued"] or task.state["stop"] or model.current_run(task.state):
        return None
    run_id = new_run_id()
    event = created(run_id, agent.name, agent.driver, timeout, control=agent.control)
    if waiting := [message["n"] for message in model.pending_messages(task.state)]:
        event["messages"] = waiting  # with the run itself: they are handed over if it begins, and only then
    task.append(event)
    return run_id


def created(run_id: str, agent: str, driver_name: str, timeout: float, *, control: bool = False) -> Event:
    """The event that makes a run."""
    return {
        "e": "run.created",
        "run": run_id,
        "agent": agent,
        "driver": driver_name,
        "timeout": timeout,
        "machine": machine.machine(),
        "pidns": machine.pid_namespace(),
        **({"control": True} if control else {}),
    }


def start(work: Work, task_id: str) -> bool:
    """Start a queued task's next run, detached; False if somebody else did or it is no longer wanted."""
    state = work.store.state(task_id)
    try:
        prepared = prepare(work, state)
        builder = driver(prepared.agent.driver)
        prepared = replace(prepared, allowance=spending.reserve(work, state))
    except Busy:
        raise  # somebody holds a log for a moment: it is tried again
    except OverhandError as error:
        reject(work, task_id, error)
        return False
    with work.store.locked(task_id, work.by) as task:
        run_id = claim(task, prepared.agent, state["timeout"])
        if run_id is None:
            return False
        archive(task)
        place = work.store.run_folder(task_id, run_id)
        try:
            if not os.path.isdir(f"{task.folder}/ipc"):
                os.mkdir(f"{task.folder}/ipc")
            job, _ = lay_out(work, task, run_id, prepared)
            launch = builder.launch(prepared.agent, job)
            for _, name, text in launch.files:
                write_new(f"{place}/{name}", text)
            shim = handles.start(
                place,
                launch.argv,
                cwd=work.store.root,
                env={
                    **checks.clean_environment(work.env),
                    **prompts.environment(work.store, task.state, run_id, prepared.allowance),
                    **launch.env,
                    **{variable: f"{place}/{name}" for variable, name, _ in launch.files},
                },
                stdin=f"{place}/prompt.md" if launch.prompt_on_stdin else os.devnull,
            )
        except (OSError, OverhandError) as error:
            told = error if isinstance(error, OverhandError) else storage_failed(error, "Cannot start the agent")
            _never_started(task, run_id, place, told)
            return False
        task.append({"e": "run.started", "run": run_id, "shim": shim})
    return True


def _never_started(task: Locked, run_id: str, place: str, error: OverhandError) -> None:
    """Nothing was spawned: the run ends with the reason; it must not be taken for one that may be started again."""
    try:
        os.makedirs(place, exist_ok=True)
        write_file(f"{place}/stderr", f"{error.message}\n{error.hint}\n")
    except (OSError, Refused):
        pass  # the reason is in the event as well
    task.append({"e": "run.ended", "run": run_id, "cause": "error", "why": error.message[:1000]})


def lay_out(work: Work, task: Locked, run_id: str, prepared: Prepared) -> tuple[Job, dict[str, Any]]:
    """The run's folder: prompt, context, and the spec with everything as it was when the run began."""
    state, store = task.state, work.store
    place = store.run_folder(task.task_id, run_id)
    if not os.path.isdir(f"{task.folder}/runs"):
        os.mkdir(f"{task.folder}/runs")
    os.mkdir(place)
    problems = _problems_to_repair(store, state)
    native = sessions.to_go_on_with(store, state, prepared.agent)
    job = Job(
        prompt=prompts.compose(
            prepared.agent,
            prepared.text,
            state,
            place,
            problems,
            prepared.allowance,
            again=bool(native) and bool(state["runs"][:-1]),
            messages=messages.of_run(store, state, run_id),
        ),
        workspace=task.folder,
        handoff=f"{task.folder}/HANDOFF.md",
        output=f"{place}/OUTPUT.md",
        project=store.root,
        place=place,
        run=run_id,
        level=state["level"],
        model=state["model"] or str(prepared.agent.options.get("model", "")),
        session=native,
        mcp=_own_server(prepared.agent),
        allow=tuple(map(str, prepared.agent.options.get("allow", ()))),
        deny=tuple(map(str, prepared.agent.options.get("deny", ()))),
    )
    write_new(f"{place}/prompt.md", job.prompt)
    write_new(f"{place}/context.json", dumps(prompts.context(state, run_id)))
    if prepared.tree is not None:
        write_new(f"{place}/tree.json", dumps(prepared.tree))
    contract = state["contract"]
    if contract and contract.endswith(".json"):
        write_new(f"{place}/contract.json", read_file(f"{task.folder}/contract.json") or b"{}")
    limits = work.config_of(state)
    spec = {
        "task": task.task_id,
        "run": run_id,
        "agent": {
            "name": prepared.agent.name,
            "driver": prepared.agent.driver,
            "source": prepared.agent.source,
            "sha256": prepared.agent.digest,
            "gives": list(prepared.agent.gives),
            "reruns": prepared.agent.reruns,
            "compacts": prepared.agent.compacts,
        },
        "contract": contract,
        "level": state["level"],
        **{key: list(given) for key, given in (("allow", job.allow), ("deny", job.deny)) if given},
        "deadline": {"boot": machine.boot(), "mono": round(time.monotonic() + state["timeout"], 3)},
        "grace": limits.stop_grace,
        "max_output": limits.max_output,
        "max_block": model.duration(prepared.agent.options.get("max_block", limits.max_block)),
        "handoff": prepared.text,
        **({"session": native} if native else {}),
    }
    write_new(f"{place}/spec.json", dumps(spec))
    return job, spec


def _own_server(agent: Agent) -> tuple[str, ...]:
    """The command of our MCP server, for agents that take one; `mcp: false` in the agent's file leaves it out."""
    if not agent.real or not agent.options.get("mcp", True) or find_spec("mcp") is None:
        return ()
    return (sys.executable, "-m", "overhand", "mcp")


def _problems_to_repair(store: Store, state: State) -> list[dict[str, Any]]:
    """What was wrong with the last return, if this run is to mend it."""
    repaired = [run for run in state["runs"] if run["status"] == "repair"]
    if not repaired:
        return []
    raw = read_file(f"{store.run_folder(state['task_id'], repaired[-1]['id'])}/problems.json")
    return list(json.loads(raw)) if raw else []


def archive(task: Locked, earlier: list[Run] | None = None) -> None:
    """Before a run, what the last one left in the task's folder moves to that run's folder; nothing is overwritten."""
    runs = task.state["runs"][:-1] if earlier is None else earlier
    target = f"{task.folder}/runs/{runs[-1]['id']}" if runs else task.folder
    for name, kept_as in (
        ("OUTPUT.md", "OUTPUT.md"),
        ("CONTEXT.md", "CONTEXT.md"),
        ("ipc/.done", "done"),
        ("result.json", "judged.json"),
    ):
        path = f"{task.folder}/{name}"
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


def settle(work: Work, task_id: str, *, cause: str | None = None) -> State:
    """Find out, under the lock, what became of the current run; an ended one is recorded as ended."""
    with work.store.locked(task_id, work.by) as task:
        run = model.current_run(task.state)
        if run is None or run["state"] == "ended" or run["machine"] not in ("", machine.machine()):
            return task.state
        place = work.store.run_folder(task_id, run["id"])
        found = handles.probe(place)
        if found.what == "alive":
            if run["state"] == "starting" and (shim := handles.shim_pid(place)):
                task.append({"e": "run.started", "run": run["id"], "shim": shim})
            return task.state
        if found.what == "unbegun" and run["attached"]:
            found = handles.Probe("lost")  # a function began before it was recorded
        if found.what == "unbegun" and run["state"] == "running" and not os.path.exists(f"{place}/life"):
            found = handles.Probe("lost")  # its folder was removed: nobody can say that it never began
        if found.what == "unbegun":
            task.append({"e": "run.ended", "run": run["id"], "never_began": True})
            return task.state
        task.append(ending(task.state, run, place, found, cause, work.spare))
        return task.state


def ending(state: State, run: Run, place: str, found: handles.Probe, cause: str | None, spare: frozenset[int]) -> Event:
    """The event that ends a run: how, with which code, and who was left behind."""
    requested = "cancelled" if state["stop"] else None
    why = cause or stop_cause(place) or requested
    if why is None:
        why = "lost" if found.what == "lost" else "killed" if (found.exit or 0) > 128 else "exit"
    left = handles.leftovers(place, f"{MARKER}={run['id']}", spare) if same_pid_world(run) else []
    event: Event = {"e": "run.ended", "run": run["id"], "cause": why, "exit": found.exit}
    if left:
        event["leftovers"] = left[:50]
    return event


def living_members(store: Store, state: State, spare: frozenset[int] = frozenset()) -> dict[str, list[int]]:
    """Processes of ended runs that are still there, by run; a shim itself may stay for a supervisor below it."""
    found = {}
    for one in state["runs"]:
        place = store.run_folder(state["task_id"], one["id"])
        if not one["attached"] and one["state"] == "ended" and same_pid_world(one):
            pids = handles.leftovers(place, f"{MARKER}={one['id']}", spare)
            if pids:
                found[one["id"]] = pids
    return found


def stop_children(work: Work, state: State) -> list[str]:
    """Ask what a stopped or timed-out run delegated to stop as well; returns the tasks that were asked just now."""
    ended = state["runs"][-1] if state["runs"] else None
    if ended is None or ended["state"] != "ended" or not _takes_children_along(work.store, state, ended):
        return []
    asked = []
    for child in open_states(work.store.states()):
        if child["parent"] and child["parent"]["run"] == ended["id"] and not child["stop"]:
            with work.store.locked(child["task_id"], work.by) as task:
                if task.state["queued"] or model.current_run(task.state):
                    task.append({"e": "stop", "why": "its parent ended"})
                    asked.append(child["task_id"])
    return asked


def _takes_children_along(store: Store, state: State, ended: Run) -> bool:
    """Whether somebody ended this run, or it called for a person; one that merely ended leaves its children at work."""
    why = stop_cause(store.run_folder(state["task_id"], ended["id"]))
    called = model.escalation(state, ended["id"]) is not None
    return called or ended["cause"] in ("cancelled", "timeout", "budget") or why not in (None, "answer-timeout")


def stop_cause(place: str) -> str | None:
    """Why we ended it, written down before the first signal: a successor must not take it for the agent's own end."""
    raw = read_file(f"{place}/stopped")
    return raw.decode("ascii", "replace").strip() if raw else None


def same_pid_world(run: Run) -> bool:
    """Whether pids recorded by this run mean anything here."""
    return run["boot"] == machine.boot() and run["pidns"] in ("", machine.pid_namespace())


def stop(work: Work, task_id: str, cause: str, grace: float) -> State:
    """End a live run's processes, then record its end."""
    state = work.store.state(task_id)
    run = model.current_run(state)
    if run is None or run["state"] == "ended":
        return state
    place = work.store.run_folder(task_id, run["id"])
    if run["attached"]:
        return _disown(work, task_id, run["id"], cause)
    if not same_pid_world(run):
        return settle(work, task_id)
    if not os.path.exists(f"{place}/stopped"):
        write_file(f"{place}/stopped", f"{cause}\n")
    left = handles.stop(place, f"{MARKER}={run['id']}", grace=grace, spare=work.spare)
    state = settle(work, task_id, cause=cause)
    if left:
        with work.store.locked(task_id, work.by) as task:
            task.append({"e": "notice", "text": f"Processes could not be ended: {', '.join(map(str, left))}"})
    return state


def _disown(work: Work, task_id: str, run_id: str, cause: str) -> State:
    """A function inside somebody's Python process cannot be ended from outside: its result is refused instead."""
    with work.store.locked(task_id, work.by) as task:
        run = model.find_run(task.state, run_id)
        if run and run["state"] != "ended":
            task.append({"e": "run.ended", "run": run_id, "cause": cause, "exit": None})
        return task.state


def reject(work: Work, task_id: str, error: OverhandError) -> None:
    """Refused before it started: the task keeps the reason."""
    with work.store.locked(task_id, work.by) as task:
        waiting = task.state["status"] is None and not task.state["runs"]  # a function is not queued before it begins
        if task.state["queued"] or waiting:
            summary = f"{error.message} {error.hint}".strip()
            task.append(
                {"e": "judged", "run": None, "status": "rejected", "code": error.code, "summary": summary[:1500]},
                sync=True,
            )


def cancel_queued(work: Work, task_id: str, why: str, status: str = "cancelled") -> bool:
    """Take a task that has no run yet out of the queue."""
    with work.store.locked(task_id, work.by) as task:
        if not task.state["queued"]:
            return False
        task.append({"e": "judged", "run": None, "status": status, "summary": why}, sync=True)
        return True
