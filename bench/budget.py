"""Eight children against one cap: how far beyond it they get, and whether one of them ever started beyond it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, Row

from overhand.policy import STOP_LEVEL, budget_level, make_amount
from overhand.record import Store, read_log
from overhand.runs import reported_usage
from overhand.testing.project import make_project

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.record import Task
    from overhand.testing.project import ProjectDir

CHILDREN, CAP, TURN = 8, 4000, 100
_SECONDS = 0.25  # of a turn: a fast one, for an agent
_PATIENCE = 120.0
_PARENT = f"""for i in $(seq {CHILDREN}); do {OVERHAND} delegate part-$i --agent child & done; wait; sleep 600"""
_CHILD = f"""while :; do sleep {_SECONDS}; echo '{{"input": {TURN}}}' >>"$OVERHAND_USAGE"; done"""


def rows(*, quick: bool) -> list[Row]:
    """Several rounds, each in a project of its own; the worst counts."""
    rounds = [_round() for _ in range(2 if quick else 5)]
    beyond = max(spent - CAP for spent, _ in rounds) / TURN
    started = sum(late for _, late in rounds)
    used = min(spent for spent, _ in rounds) / CAP
    return [
        Row(
            f"{CHILDREN} children against one cap: turns beyond it, starts beyond it",
            f"{max(0.0, beyond):.0f} turns together, {started} starts",
            "≤ one turn each, never a start",
            "",
            beyond <= CHILDREN and started == 0,
            None,
            f"the worst of {len(rounds)} rounds, a turn of {TURN} tokens each {_SECONDS} s and a cap of {CAP}; "
            f"at least {used:.0%} of the cap were used",
        )
    ]


def _round() -> tuple[int, int]:
    """Tokens spent, and starts beyond the cap."""
    with measure.folder() as place:
        project = make_project(place / "project", agents={}, config="[limits]\nmax_parallel = 0\nstop_grace = '1s'\n")
        project.agent("worker", command=["/bin/sh", "-c", _PARENT])
        project.agent("child", command=["/bin/sh", "-c", _CHILD])
        try:
            return _measure(project, place)
        finally:
            project.cleanup()


def _measure(project: ProjectDir, place: Path) -> tuple[int, int]:
    project.run("delegate", "all of it", "--agent", "worker", "--budget", str(CAP), check=True)
    store = Store(str((place / "project").resolve()))
    deadline = time.monotonic() + _PATIENCE
    while not _over(states := store.tasks()):
        assert time.monotonic() < deadline, "not all of them were stopped in time"
        time.sleep(0.05)
    parent, *children = states
    turns = sum(_turns(store, child) for child in children)
    return turns * TURN, sum(_began_late(store, parent, child) for child in children)


def _over(states: list[Task]) -> bool:
    return len(states) > CHILDREN and all(task.status for task in states) and not states[0].reserved


def _turns(store: Store, child: Task) -> int:
    found = [reported_usage(store.desk_files(child.id, run.id)) for run in child.runs]
    return sum(usage.turns for usage in found if usage)


def _began_late(store: Store, parent: Task, child: Task) -> bool:
    """Whether it began without a hold in its parent's log, or with one that was given when nothing was left."""
    if not child.runs:
        return False
    held: dict[str, int] = {}
    for event in read_log(store.record(parent.id)):
        if event["e"] in ("reserved", "settled"):
            held[event["child"]] = event["tokens"]
            if event["e"] == "reserved" and event["child"] == child.id:
                level = budget_level(make_amount(sum(held.values()) - event["tokens"]), make_amount(CAP))
                return level >= STOP_LEVEL or event["mono"] > child.runs[0].mono
    return True
