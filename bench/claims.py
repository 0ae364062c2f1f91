"""16 processes, each trying to create a run on all of 1,000 prepared tasks, beside a bare flock loop.

    python bench/claims.py [TASKS]         one JSON line: double, errors, rate, and its ratio to the bare loop

`run.created` only: nothing is spawned. The bare loop does the least that could be right: open the lock file, flock,
read the log, append one line if nobody has. Both take turns in rounds of a tenth of the tasks, so that both meet the
same machine; the rates are medians over the rounds.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from overhand.agents import Agent
from overhand.record import NewTask, Store
from overhand.runs import claim_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROCESSES = 16
ROUNDS = 10
BY = {"kind": "overhand", "via": "bench"}


def prepare(store: Store, count: int) -> list[str]:
    """Accepted tasks."""
    made = []
    for number in range(count):
        created = {"title": f"task {number}", "depth": 1, "path": ["user", "worker"], "timeout": 600.0, "level": "work"}
        handoff = f"# Task Handoff\n\n## Task\ntask {number}\n"
        new = NewTask(agent="worker", handoff=handoff, created=created)
        made.append(store.new_tasks([new], BY, start=True, sync=False)[0].id)
    return made


def claim(store: Store, task: str) -> None:
    """Ours."""
    with store.lock(task, BY) as locked:
        claim_run(locked, Agent("worker", "command"), 600.0)


def claim_bare(store: Store, task: str) -> None:
    """The least that could be right, on copies of the same logs."""
    folder = f"{store.workspaces}/{task}"
    lock = os.open(f"{folder}/bare.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log = os.open(f"{folder}/bare.jsonl", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if b'"run.created"' not in os.read(log, 65536):
                os.write(log, b'{"e":"run.created","run":"sess_%d_aaaaaa"}\n' % os.getpid())
        finally:
            os.close(log)
    finally:
        os.close(lock)


def race(work: Callable[[Store, str], None], store: Store, tasks: Sequence[str]) -> tuple[float, int]:
    """All processes over all tasks, from one starting signal; attempts per second, and how many failed."""
    gate, opened = os.pipe()
    pids = []
    for _ in range(PROCESSES):
        pid = os.fork()  # no threads here: safe
        if pid == 0:
            os.close(opened)
            os._exit(_run_all(work, store, tasks, gate))
        pids.append(pid)
    os.close(gate)
    began = time.monotonic()
    os.close(opened)  # everybody reads the end at once
    failed = sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in pids)
    return PROCESSES * len(tasks) / (time.monotonic() - began), failed


def _run_all(work: Callable[[Store, str], None], store: Store, tasks: Sequence[str], gate: int) -> int:
    os.read(gate, 1)
    try:
        for task in tasks:
            work(store, task)
    except BaseException as error:  # noqa: BLE001 -- a fork must not go on as the parent
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def compete(store: Store, count: int) -> dict[str, object]:
    """Take turns, then count what is in the logs."""
    tasks = prepare(store, count)
    for task in tasks:
        folder = store.record(task)
        with open(f"{folder}/log.jsonl", "rb") as log, open(f"{folder}/bare.jsonl", "wb") as copy:
            copy.write(log.read())
    ours: list[float] = []
    bare: list[float] = []
    errors = 0
    size = max(1, count // ROUNDS)
    for begin in range(0, count, size):
        part = tasks[begin : begin + size]
        for work, rates in ((claim, ours), (claim_bare, bare)):
            rate, failed = race(work, store, part)
            rates.append(rate)
            errors += failed
    runs = [len(store.task(task).runs) for task in tasks]
    mine, theirs = statistics.median(ours), statistics.median(bare)
    return {
        "processes": PROCESSES,
        "tasks": count,
        "claimed": sum(number == 1 for number in runs),
        "double": sum(number > 1 for number in runs),
        "errors": errors,
        "rate": round(mine),
        "bare_rate": round(theirs),
        "ratio": round(theirs / mine, 2),
    }


def main(argv: list[str]) -> int:
    """Compete in a folder that is thrown away; 1 if a task was claimed twice or never, or anybody failed."""
    count = int(argv[0]) if argv else 1000
    with tempfile.TemporaryDirectory(prefix="overhand-claims-") as folder:
        told = compete(Store(os.path.realpath(folder)), count)
    print(json.dumps(told))
    return 0 if (told["double"], told["errors"], told["claimed"]) == (0, 0, count) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
