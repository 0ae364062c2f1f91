"""A command agent: what `overhand delegate --wait` adds to the time of the bare command."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, Row

from overhand.record import Store
from overhand.supervisor import running_supervisor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PROGRAM = """\
#!/bin/sh
cat >"$OVERHAND_OUTPUT" <<'END'
# Task Complete: nothing

**Status**: completed

## Summary

There was nothing to do, and that is done.
END
"""
_AGENT = """\
---
name: quick
description: Says that nothing was to be done.
overhand:
  driver: command
  command: ["{program}"]
---
Say so.
"""


def rows(*, quick: bool) -> list[Row]:
    """With a supervisor at work, and with none."""
    rounds = 9 if quick else 21
    with measure.folder() as place:
        env = measure.environment(place)
        bare = _project(place, env)
        store = Store(os.path.realpath(place))
        delegate = [OVERHAND, "delegate", "Do nothing", "--agent", "quick", "--wait"]

        def with_overhand() -> None:
            measure.run(delegate, place, env)

        with_overhand()
        running = _added(rounds, bare, with_overhand)
        absent = _added(rounds, bare, with_overhand, before=lambda: _end_supervisor(store))
        _end_supervisor(store)
    measured = f"{measure.median(running):.3f} / {measure.median(absent):.3f} s"
    return [
        Row(
            "command agent: time added over the bare command, supervisor running / not yet running",
            measured,
            "≤ 0.15 / 0.4 s",
            "0.05 / 0.2 s",
            measure.median(running) <= 0.15 and measure.median(absent) <= 0.4,
            measure.median(running) <= 0.05 and measure.median(absent) <= 0.2,
            f"{measure.spread(running)}; {measure.spread(absent)}",
        )
    ]


def _project(place: Path, env: dict[str, str]) -> Callable[[], None]:
    """A project with one quick agent; returns its program as a bare command."""
    program = place / "quick.sh"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    agents = place / ".overhand/agents"
    agents.mkdir(parents=True)
    (agents / "quick.md").write_text(_AGENT.format(program=program))
    measure.run([OVERHAND, "init"], place, env)
    measure.run([OVERHAND, "trust", "--yes"], place, env)
    bare_env = {**env, "OVERHAND_OUTPUT": str(place / "bare.md")}
    return lambda: measure.run([str(program)], place, bare_env)


def _added(
    rounds: int, bare: Callable[[], None], whole: Callable[[], None], before: Callable[[], None] = lambda: None
) -> list[float]:
    added = []
    for _ in range(rounds):
        before()
        added.append(-measure.clocked(bare) + measure.clocked(whole))
    return added


def _end_supervisor(store: Store) -> None:
    pid = running_supervisor(store)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    while running_supervisor(store) is not None:
        time.sleep(0.005)
