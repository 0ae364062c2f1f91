"""Light verbs: wall time of `overhand version` and `overhand list` against `python -c pass`."""

from __future__ import annotations

import compileall
import os
from pathlib import Path

import measure
from measure import OVERHAND, PYTHON, Row

import overhand
from overhand import Project

_TASKS = 100


def rows(*, quick: bool) -> list[Row]:
    """Both verbs, in a project with a hundred finished tasks."""
    compileall.compile_dir(Path(overhand.__file__).parent, quiet=1)
    with measure.folder() as place:
        env = measure.environment(place)
        os.environ["XDG_CONFIG_HOME"] = env["XDG_CONFIG_HOME"]
        _finished_tasks(place)
        commands = ([PYTHON, "-c", "pass"], [OVERHAND, "version"], [OVERHAND, "list"])
        for command in commands:
            measure.run(command, place, env)
        doings = [lambda command=command: measure.run(command, place, env) for command in commands]
        times = measure.interleaved(21 if quick else 41, *doings)
    bare, *verbs = (measure.median(seconds) for seconds in times)
    names = ("`overhand version`", f"`overhand list` with {_TASKS} tasks")
    return [_row(name, seconds / bare, bare) for name, seconds in zip(names, verbs, strict=True)]


def _finished_tasks(place: Path) -> None:
    with Project(place, max_parallel=8) as project:
        project.agent("noop")(lambda call: {"status": "completed", "summary": f"Did {call.title}."})
        tasks = project.delegate_all([{"title": f"task {n}", "agent": "noop"} for n in range(_TASKS)])
        assert all(task.wait().ok for task in tasks)


def _row(name: str, ratio: float, bare: float) -> Row:
    return Row(
        f"{name}, wall vs `python -c pass`",
        f"{ratio:.2f}x",
        "≤ 2x",
        "1.5x",
        ratio <= 2,
        ratio <= 1.5,
        f"`python -c pass` took {bare * 1e3:.1f} ms",
    )
