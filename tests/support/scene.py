"""A project under attack: what tests look at, wait for and kill."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from overhand.record import NewTask, Store, read_log
from overhand.supervisor import running_supervisor
from overhand.system import command_line_has, environment_of, is_stopped, send_signal, start_time
from overhand.testing import processes
from overhand.testing.processes import SLEEP
from support.soak import KILLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.record import Task
    from overhand.record.task import Line
    from overhand.testing.project import ProjectDir

PATIENCE = 90.0
AGENT = [sys.executable, "-m", "overhand.testing.agent"]
# Each real start leaves a line, each end another one; the script itself is the run's agent.
RECORDED = """
echo "+ $OVERHAND_TASK" >>"$OVERHAND_PROJECT/trail"
"$@"; code=$?
echo "- $OVERHAND_TASK" >>"$OVERHAND_PROJECT/trail"; exit $code
"""
# Only the start; the agent takes the place of the shell, so that a signal to it is a signal to the agent.
STARTED = 'echo "+ $OVERHAND_TASK" >>"$OVERHAND_PROJECT/trail"; exec "$@"'
# A whole agent in one line of shell, where Python would take too long.
QUICK = """printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT" """
T = TypeVar("T")


def until(look: Callable[[], T | None], what: str = "it", timeout: float = PATIENCE) -> T:
    """Look until it is true; a failure says what was waited for."""
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s for: {what}; last seen: {found!r}"
        time.sleep(0.01)
    return found


def kill(pid: int) -> None:
    """SIGKILL, and wait until the process is gone (a zombie is); it may have left by itself since it was found."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        KILLS["at work"] += 1
    until(lambda: start_time(pid) is None, f"the end of process {pid}")


@dataclass(frozen=True)
class Scene:
    """One project, its recorded tasks and its processes."""

    project: ProjectDir

    @property
    def path(self) -> Path:
        return self.project.path

    @property
    def store(self) -> Store:
        return Store(str(self.path))

    # agents

    def agent(self, name: str, *actions: str, whole: bool = False, **keys: object) -> None:
        """A scripted agent that notes each real start (and, with `whole`, its end) in `trail`."""
        command = ["/bin/sh", "-c", RECORDED if whole else STARTED, "sh", *AGENT, *actions]
        self.project.agent(name, **{"command": command, **keys})

    def shell(self, name: str, script: str, **keys: object) -> None:
        """An agent that is a shell script; `$OVERHAND` is the command."""
        begin = f"{STARTED.partition(';')[0]}; OVERHAND='{sys.executable} -m overhand'; "
        self.project.agent(name, **{"command": ["/bin/sh", "-c", begin + script], **keys})

    def trail(self) -> list[str]:
        path = self.path / "trail"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def starts(self, task: str) -> int:
        """How often an agent really began with this task."""
        return self.trail().count(f"+ {task}")

    def overlap(self) -> int:
        """The most agents at work at the same time."""
        most = now = 0
        for line in self.trail():
            now += 1 if line[0] == "+" else -1
            most = max(most, now)
        return most

    # verbs

    def json(self, *args: str, code: int | None = 0, **options: Any) -> Any:
        """`overhand ARGS --json`: the object; the exit status must be `code` (None: any)."""
        ran = self.project.run(*args, "--json", **options)
        assert code is None or ran.code == code, f"overhand {' '.join(args)} ended with {ran.code}: {ran.out}{ran.err}"
        return ran.json

    def delegate(self, title: str = "do it", *args: str) -> str:
        who = () if "--agent" in args else ("--agent", "worker")
        task: str = self.json("delegate", title, *who, *args)["task_id"]
        return task

    def accepted(self, title: str = "do it", agent: str = "worker") -> str:
        """A task that is queued while nobody is there to start it."""
        created = {"title": title, "depth": 1, "path": ["user", agent], "timeout": 600.0, "level": "work"}
        handoff = f"# Task Handoff\n\n## Task\n{title}\n"
        by = {"kind": "person", "via": "test"}
        new = NewTask(agent=agent, handoff=handoff, created=created)
        return self.store.new_tasks([new], by, start=True, sync=False)[0].id

    # what is recorded

    def state(self, task: str) -> Task:
        return self.store.task(task)

    def events(self, task: str, name: str | None = None) -> list[Line]:
        found = read_log(self.store.record(task))
        return [event for event in found if name in (None, event["e"])]

    def ids(self) -> list[str]:
        return [task.id for task in self.store.tasks()]

    def place(self, task: str) -> Path:
        """The record of the newest run, as soon as there is one."""
        runs = until(lambda: self.state(task).runs, f"a run of {task}")
        return Path(self.store.run_folder(task, runs[-1].id))

    def desk(self, task: str) -> Path:
        """The desk of the newest run, as soon as there is one."""
        runs = until(lambda: self.state(task).runs, f"a run of {task}")
        return Path(self.store.desk(task, runs[-1].id))

    def judged(self, task: str) -> Task:
        """The state once it is judged, without any verb's help."""
        until(lambda: self.state(task).status, f"{task} judged")
        return self.state(task)

    def running(self, task: str) -> Task:
        def look() -> bool:
            run = self.state(task).current_run
            return run is not None and run.state == "running"

        until(look, f"{task} running")
        return self.state(task)

    # processes

    def supervisor(self) -> int | None:
        return running_supervisor(self.store)

    def pid(self, task: str, name: str) -> int:
        """`shim` or `pid` (the agent) of the newest run."""
        path = self.place(task) / name

        def look() -> int:
            text = path.read_text() if path.exists() else ""
            return int(text) if text.endswith("\n") else 0

        return until(look, f"{path} written")

    def appears(self, name: str) -> Path:
        path = self.path / name
        until(path.exists, f"{name} made by an agent")
        return path

    def kill_supervisor(self) -> None:
        pid = self.supervisor()
        if pid is not None:
            kill(pid)

    @contextmanager
    def supervisor_standing_still(self, task: str) -> Iterator[None]:
        """It is stopped, with all its threads, and at a moment when it does not hold the lock of this task."""
        pid = self.supervisor()
        assert pid
        with self.store.lock(task, {"kind": "test"}):
            os.kill(pid, signal.SIGSTOP)
            threads = f"/proc/{pid}/task"
            until(lambda: all(is_stopped(int(name)) for name in os.listdir(threads)), f"process {pid} stopped")
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def is_quiet(self) -> bool:
        """Whether no process is left; kill every supervisor, also one that is just starting."""
        left = self.left()
        for pid in processes.supervisors(self.path) if left else ():
            send_signal(pid, start_time(pid), signal.SIGKILL)
        return not left

    def strays(self, task: str) -> list[int]:
        """Those that the scripted agent left behind and that live."""
        path = Path(self.store.workspace(task)) / "pids"
        noted = [int(word) for word in path.read_text().split()] if path.exists() else []
        return [p for p in noted if start_time(p) is not None and command_line_has(p, SLEEP[1])]

    def agents_left(self) -> dict[int, str]:
        """Every living process of the project but its supervisor, with its command line."""
        left = processes.of_project(self.path).keys() - processes.supervisors(self.path)
        return {pid: _command(pid) for pid in left}

    def left(self) -> dict[int, str]:
        """Every living process of the project, its checks included."""
        checks = [pid for pid in processes.pids() if self._is_check(pid) and start_time(pid) is not None]
        return {pid: _command(pid) for pid in (*processes.of_project(self.path), *checks)}

    def _is_check(self, pid: int) -> bool:
        return (environment_of(pid, "OVERHAND_CHECK") or "").startswith(f"{self.path}/")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:200]
    except OSError:
        return "(gone)"


def lines(path: Path) -> list[Any]:
    """A file of JSON lines, every one of which must be whole."""
    raw = path.read_bytes()
    assert raw.endswith(b"\n")
    return [json.loads(line) for line in raw.splitlines()]
