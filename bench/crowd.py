"""Five hundred sleeping agents at once: what the supervisor and the shims cost."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, Row

from overhand import Project
from overhand.supervisor import running_supervisor
from overhand.testing import processes

if TYPE_CHECKING:
    from overhand.record import Store

_AGENT = """\
---
name: sleeper
description: Sleeps.
overhand:
  driver: command
  command: ["sleep", "600"]
---
Sleep.
"""
_CONFIG = '[limits]\nmax_parallel = 0\nidle = "300s"\n'
_PATIENCE = 180.0


def rows(*, quick: bool) -> list[Row]:
    """Growth between one sleeper and all of them."""
    count = 100 if quick else 500
    with measure.folder() as place:
        env = measure.environment(place)
        os.environ["XDG_CONFIG_HOME"] = env["XDG_CONFIG_HOME"]
        (place / ".overhand/agents").mkdir(parents=True)
        (place / ".overhand/agents/sleeper.md").write_text(_AGENT)
        (place / ".overhand/config.toml").write_text(_CONFIG)
        measure.run([OVERHAND, "trust", "--yes"], place, env)
        with Project(place) as project:
            try:
                found = _measure(project, count)
            finally:
                stopped = measure.clocked(lambda: _stop_all(place, env))
                _end_supervisor(project.session.store)
                left = processes.of_project(place)
                processes.end_all(place)
            assert not left, f"left behind: {left}"
    return [_row(count, found, stopped)]


def _stop_all(place: Path, env: dict[str, str]) -> None:
    """`stop` waits for a limited time only, and so many take longer: it is asked again until all have ended."""
    none = subprocess.DEVNULL
    for _ in range(8):
        done = subprocess.run(
            [OVERHAND, "stop", "--all", "--now"], cwd=place, env=env, stdout=none, stderr=none, check=False
        )
        if done.returncode == 0:
            return


def _measure(project: Project, count: int) -> dict[str, float]:
    _sleepers(project, 1)
    store = project.session.store
    supervisor = running_supervisor(store)
    assert supervisor is not None
    rss, fds = _rss(supervisor), _fds(supervisor)
    _sleepers(project, count)
    time.sleep(2.0)
    busy, began = measure.cpu(supervisor), time.monotonic()
    time.sleep(10.0)
    idle = (measure.cpu(supervisor) - busy) / (time.monotonic() - began)
    shims = [run.shim for task in store.tasks() for run in task.runs if run.shim]
    return {
        "rss": (_rss(supervisor) - rss) / count,
        "fds": (_fds(supervisor) - fds) / count,
        "idle": idle,
        "pss": measure.median([_pss(pid) for pid in shims[-50:]]),
    }


def _sleepers(project: Project, count: int) -> None:
    """Start so many, and wait until all of them live."""
    before = _live(project)
    project.delegate_all([{"title": f"sleep for a while, {n}", "agent": "sleeper"} for n in range(count)])
    deadline = time.monotonic() + _PATIENCE
    while _live(project) < before + count:
        assert time.monotonic() < deadline, "not all of them were started in time"
        time.sleep(0.5)


def _live(project: Project) -> int:
    return sum(task.runs[-1].state == "running" for task in project.session.store.tasks() if task.runs)


def _rss(pid: int) -> float:
    return _field(pid, "status", "VmRSS:")


def _pss(pid: int) -> float:
    return _field(pid, "smaps_rollup", "Pss:")


def _field(pid: int, name: str, field: str) -> float:
    """Kilobytes."""
    lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(field)))


def _fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _end_supervisor(store: Store) -> None:
    pid = running_supervisor(store)
    if pid is not None:
        os.kill(pid, 15)
        deadline = time.monotonic() + 10.0
        while running_supervisor(store) is not None and time.monotonic() < deadline:
            time.sleep(0.01)


def _row(count: int, found: dict[str, float], stopped: float) -> Row:
    rss, fds, idle, pss = (found[name] for name in ("rss", "fds", "idle", "pss"))
    return Row(
        f"{count} sleeping agents: supervisor's RSS and fds per child, its idle CPU; shim PSS",
        f"{rss:.1f} KB, {fds:.2f}, {idle:.2%}; {pss:.0f} KB",
        "≤ 64 KB, 3, 1 %; 150 KB",
        "8 KB, 1, 0.3 %",
        rss <= 64 and fds <= 3 and idle <= 0.01 and pss <= 150,
        rss <= 8 and round(fds, 2) <= 1 and idle <= 0.003,
        "idle CPU is that of one core over 10 s, PSS the median of 50 shims; "
        f"`overhand stop --all --now` took {stopped:.0f} s and left no process",
    )
