"""A tmux window to watch a run in. It only shows output: closing it doesn't affect the run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from overhand.errors import OverhandError, ToolMissing
from overhand.system import epoch_of, find_program, outside_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.record import Task

SESSION = "dispatch"
_PATIENCE = 20
_TRIES = 5


def name_of(task: Task) -> str:
    """`agent-{kind}-{epoch}`: the kind of work (else `task`) and when its last run, or the task, was made."""
    current = task.current_run or task.last_run
    began = current.id.split("_")[1] if current else str(int(epoch_of(task.created)))
    return f"agent-{task.kind or 'task'}-{began}"


def watch_in_tmux(root: str, task: Task, env: Mapping[str, str] | None = None) -> str:
    """Open a window of the session `dispatch` that follows the task's log; returns `session:window`.

    Raises ToolMissing where there is no tmux, and OverhandError where it does not work; a run never depends on it.
    """
    outside = outside_runs(env or os.environ)
    name = name_of(task)
    watched = str(task.handle if task.handle is not None else task.id)
    look = [sys.executable, "-P", "-m", "overhand", "log", "--follow", "--out", "--project", root, watched]
    for _ in range(_TRIES):  # another process may be first, or the session may end with its last window
        made = _open(outside, name, root, look)
        if not made.returncode:
            return f"{SESSION}:{name}"
    problem = made.stderr.decode("utf-8", "replace").strip()
    raise OverhandError(f"tmux did not open a window: {problem}", f"The same without it: overhand log -f {watched}")


def _open(env: Mapping[str, str], name: str, root: str, look: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Open a window in the existing session, or in a new one."""
    if _tmux(env, "has-session", "-t", f"={SESSION}").returncode == 0:
        return _tmux(env, "new-window", "-d", "-t", f"={SESSION}:", "-n", name, "-c", root, "--", *look)
    return _tmux(env, "new-session", "-d", "-s", SESSION, "-n", name, "-c", root, "--", *look)


def _tmux(env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    program = find_program("tmux", env.get("PATH"))
    if program is None:
        raise ToolMissing("tmux is not installed.", "Install it, or look here: overhand log -f ID")
    try:
        return subprocess.run(
            [program, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OverhandError(f"tmux does not answer: {error}", "Look here instead: overhand log -f ID") from error
