"""150 starts killed at random moments, the shim too in every second one, two adopters at once: nothing runs twice.

    python bench/kills.py [KILLS]          one JSON line: kills, double_starts, stuck, and what became of the runs

Each round accepts a task, starts it in a forked process (the code that the supervisor runs), kills that process at a
random moment of the start, and lets two others settle, start and judge at the same time until the task is at rest.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from overhand.policy import Actor, load_config
from overhand.record import NewTask, Store
from overhand.runs import RUN_MARKER, finish_run, settle_run, start_run
from overhand.system import environment_of, process_table, send_signal, shim_pid, start_time
from overhand.testing.project import ProjectDir, make_project

if TYPE_CHECKING:
    from collections.abc import Callable

BY = {"kind": "overhand", "via": "bench"}
PATIENCE = 20.0
_WAY = 0.06  # seconds from the spawn of a shim to its end
# Notes its start, then needs a moment: a second one would overlap with it.
SCRIPT = """echo "$OVERHAND_TASK" >>"$OVERHAND_PROJECT/starts"; sleep 0.02
printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT" """


def child(do: Callable[[], object]) -> int:
    """Do it in a process of its own; this one has no threads, so a fork is safe."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            os._exit(code)
    return pid


def accept(work: Actor, title: str) -> str:
    """A queued task."""
    created = {"title": title, "depth": 1, "path": ["user", "worker"], "timeout": 600.0, "level": "work"}
    handoff = f"# Task Handoff\n\n## Task\n{title}\n"
    new = NewTask(agent="worker", handoff=handoff, created=created)
    return work.store.new_tasks([new], BY, start=True, sync=False)[0].id


def adopt(work: Actor, task: str) -> None:
    """What a supervisor does with a task, until it is judged."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        state = work.store.task(task)
        if state.status is not None:
            return
        if state.queued:
            start_run(work, task)
        else:
            settle_run(work, task)
            finish_run(work, task)
        time.sleep(0.001)


def shim_of(work: Actor, task: str) -> int | None:
    """The shim, also before it has written its pid."""
    current = work.store.task(task).current_run
    if current is None:
        return None
    marked = (p for p in process_table() if environment_of(p, RUN_MARKER) == current.id)
    return shim_pid(work.store.run_folder(task, current.id)) or next(marked, None)


def one(work: Actor, task: str, took: float, *, shim_too: bool) -> str:
    """One round; returns how the first run that was created ended, in a word."""
    starter = child(lambda: start_run(work, task))
    time.sleep(random.uniform(0.0, took * 2))
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    adopters = [child(lambda: adopt(work, task)) for _ in range(2)]
    if shim_too:  # while the adopters are at work, somewhere on its way from the spawn to the agent's end
        time.sleep(random.uniform(0.0, _WAY))
        if shim := shim_of(work, task):
            send_signal(shim, start_time(shim), signal.SIGKILL)
    for pid in adopters:
        os.waitpid(pid, 0)
    state = work.store.task(task)
    return "stuck" if state.status is None else str(state.runs[-1].cause if state.runs else state.status)


def time_of_a_start(work: Actor) -> float:
    """Seconds from the fork to the end of a start, so that kills hit all of it and the shim's first steps."""
    start_run(work, accept(work, "imports"))  # once in this process, else each fork would import by itself
    spent = 0.0
    for number in range(5):
        task = accept(work, f"warm {number}")
        began = time.monotonic()
        os.waitpid(child(lambda t=task: start_run(work, t)), 0)  # type: ignore[misc] # bound now
        spent += time.monotonic() - began
        adopt(work, task)
    return spent / 5


def attack(project: ProjectDir, kills: int) -> dict[str, object]:
    """All rounds in one project."""
    os.environ["XDG_CONFIG_HOME"] = str(project.config_home)
    root = str(project.path)
    work = Actor(Store(root), load_config(root), BY, project.environment())
    work.store.ensure()
    took = time_of_a_start(work)
    ends: dict[str, int] = {}
    tasks = [accept(work, f"task {number}") for number in range(kills)]
    for number, task in enumerate(tasks):
        how = one(work, task, took, shim_too=number % 2 == 1)
        ends[how] = ends.get(how, 0) + 1
    starts = (project.path / "starts").read_text().split()
    double = sum(starts.count(task) > 1 for task in tasks)
    judged = [work.store.task(task) for task in tasks]
    return {
        "kills": kills,
        "double_starts": double,
        "stuck": ends.pop("stuck", 0),
        "second_runs": sum(len(state.runs) > 1 for state in judged),
        "completed": sum(state.status == "completed" for state in judged),
        "ends": ends,
        "seconds_of_a_start": round(took, 4),
    }


def main(argv: list[str]) -> int:
    """Attack, tell, clean up; 1 if anything ran twice or got stuck."""
    kills = int(argv[0]) if argv else 150
    with tempfile.TemporaryDirectory(prefix="overhand-kills-") as folder:
        project = make_project(Path(folder) / "project", agents={})
        project.agent("worker", command=["/bin/sh", "-c", SCRIPT])
        try:
            project.run("list", check=True)  # trusts the agent
            told = attack(project, kills)
        finally:
            project.cleanup()
    print(json.dumps(told))
    return 1 if told["double_starts"] or told["stuck"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
