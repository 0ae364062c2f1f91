"""A merge of the plan's own: a Python callable or a command, as a child process with JSON in and out.

It is a handle like any other run: one that was at work when its supervisor was killed is taken over, and what hangs, or
belongs to a plan that was stopped, is ended with everything it started.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from overhand.errors import storage_failed
from overhand.runs import checks, handover
from overhand.system import detached
from overhand.system.files import read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.plans.model import Merge

_MOST = 64 * 1024 * 1024  # bytes of what it returns
_LOOK_EVERY = 0.1
# What the function prints goes to stderr: stdout is its return, and nothing else.
_CALL = """\
import importlib, json, os, sys
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
module, _, name = sys.argv[1].partition(":")
found = importlib.import_module(module)
for part in name.split("."):
    found = getattr(found, part)
json.dump(found(json.load(sys.stdin)), out, allow_nan=False)
out.close()
"""


class Failed(Exception):
    """It gave no data: what is told is why."""


def merge(
    how: Merge,
    given: Mapping[str, Any],
    place: str,
    *,
    root: str,
    env: Mapping[str, str],
    wanted: Callable[[], bool] = lambda: True,
) -> Any:
    """What the plan's own code makes of its nodes' results; raises Failed."""
    argv = list(how.command) or [sys.executable, "-c", _CALL, how.function]
    shim = _at_work(argv, given, place, root=root, env=env)
    in_time = _wait(place, shim, how.timeout, wanted)
    if not in_time or detached.lives(place):
        detached.stop(place, f"OVERHAND_MERGE={place}", grace=1.0)  # also whatever it left behind
    detached.reap()
    name = how.function or how.command[0]
    if not in_time:
        stopped = "was stopped with the plan" if not wanted() else f"did not end within {how.timeout:g} s"
        raise Failed(f"The plan's own merge, {name}, {stopped}.{_said(place)}")
    code = detached.exit_code(place)
    if code != 0:
        raise Failed(f"The plan's own merge, {name}, ended with {code}.{_said(place)}")
    raw = read_file(f"{place}/stdout", _MOST) or b""
    try:
        if len(raw) > _MOST:
            raise ValueError(f"it is longer than {_MOST} bytes")
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Failed(f"What {name} returned is not JSON: {error}.{_said(place)}") from None


def _at_work(argv: list[str], given: Mapping[str, Any], place: str, *, root: str, env: Mapping[str, str]) -> int | None:
    """Its shim: the one that is at work or has ended already, else a new one."""
    found = detached.probe(place) if os.path.isdir(place) else detached.Probe("unbegun")
    if found.what in ("alive", "ended"):
        return detached.shim_pid(place)
    shutil.rmtree(place, ignore_errors=True)
    write_file(f"{place}.json", json.dumps(given, ensure_ascii=False))
    try:
        os.makedirs(place)
        environment = {**checks.clean_environment(env), "OVERHAND_MERGE": place, "OVERHAND_PROJECT": root, "PWD": root}
        return detached.start(place, argv, cwd=root, env=environment, stdin=f"{place}.json")
    except OSError as error:
        raise storage_failed(error, "Cannot start the plan's own merge") from error


def _wait(place: str, shim: int | None, seconds: float, wanted: Callable[[], bool]) -> bool:
    """Whether it ends in time, counted from its start, while anybody wants it."""
    deadline = time.monotonic() + seconds - _age(place)
    while wanted():
        left = deadline - time.monotonic()
        if detached.wait(place, shim, max(0.0, min(left, _LOOK_EVERY))):
            return True
        if left <= 0:
            return False
    return False


def _age(place: str) -> float:
    try:
        return max(0.0, time.time() - os.stat(f"{place}/start").st_mtime)
    except OSError:
        return 0.0


def _said(place: str) -> str:
    tail = handover.tail_of(f"{place}/stderr", 600)
    return f" It said: {tail}" if tail else ""
