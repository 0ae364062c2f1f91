"""Tasks that were written by hand: logs as our writer leaves them, for screens that need no process to run."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.record import Store
from overhand.system import dump_line

if TYPE_CHECKING:
    from collections.abc import Iterator

Event = dict[str, Any]


def stamp(ago: float) -> str:
    """So many seconds ago."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - ago))


def run_id(number: int) -> str:
    return f"sess_1735689600_{number:06d}"


def task(root: Path, handle: int, *events: Event, ago: float = 60.0, handoff: str = "", **created: Any) -> Path:
    """A task's record; each event may say how long `ago` it happened."""
    agent = created.get("agent", "worker")
    store = Store(str(root))
    store.ensure()
    folder = Path(store.record(f"{agent}-20250101-000000-{handle}"))
    folder.mkdir()
    workspace = Path(store.workspace(folder.name))
    workspace.mkdir()
    (workspace / "HANDOFF.md").write_text(handoff or "# Task Handoff\n\n## Task\n\nDo it.\n", encoding="utf-8")
    first = {"e": "created", "v": 1, "task": folder.name, "handle": handle, "title": f"Task {handle}", "kind": "fix",
             "priority": "P2", "path": ["user", agent], "depth": 1, "agent": agent, **created}  # fmt: skip
    append(folder, first, *events, ago=ago)
    return folder


def append(folder: Path, *events: Event, ago: float = 0.0) -> None:
    """Events at the end of its log."""
    with (folder / "log.jsonl").open("a", encoding="utf-8") as file:
        for event in events:
            when = {"t": stamp(event.get("ago", ago)), "mono": 100.0, "boot": "0", "by": {"kind": "person"}}
            file.write(dump_line({**{k: v for k, v in event.items() if k != "ago"}, **when}) + "\n")


def begun(number: int, ago: float = 60.0, **more: Any) -> tuple[Event, ...]:
    """Accepted, and at work on another machine, where nobody here can look."""
    run = {"e": "run.created", "run": run_id(number), "agent": "worker", "driver": "command", "timeout": 7200.0,
           "machine": "elsewhere", "pidns": "", "ago": ago, **more}  # fmt: skip
    started = {"e": "run.started", "run": run_id(number), "shim": 4711, "ago": ago}
    return {"e": "accepted", "ago": ago}, run, started


def judged(
    number: int, status: str = "completed", cause: str = "exit", ago: float = 60.0, **more: Any
) -> tuple[Event, ...]:
    """Ended, with a verdict."""
    verdict = {
        "status": status,
        "claimed": "completed",
        "verification": "passing",
        "summary": "Did it.",
        "output": None,
    }
    return (
        {"e": "run.ended", "run": run_id(number), "cause": cause, "exit": 0, "ago": ago},
        {"e": "judged", "run": run_id(number), **verdict, "ago": ago, **more},
    )


def used(number: int, tokens: int, usd: float, *, estimated: bool = False) -> Event:
    """What a run reported."""
    return {"e": "usage", "run": run_id(number), "input": tokens, "output": 0, "usd": usd, "estimated": estimated}


@contextmanager
def supervised(root: Path) -> Iterator[None]:
    """As if a supervisor were at work: its lock is held."""
    store = Store(str(root))
    store.ensure()
    fd = os.open(f"{store.own}/lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


PLAN = """# Task Handoff

## Task

Do it.

## Plan

- [x] Look at the schema
- [x] Write the migration
- [~] Copy the tables of 2019, which are larger than the others
- [ ] Compare the counts
- [ ] Switch over
"""


def asked(number: int, seq: int, question: str, *options: str) -> Event:
    """A question of a run."""
    facts = {"seq": seq, "stem": f"{seq:03d}", "question": question, "options": list(options), "via": "ask"}
    return {"e": "asked", **facts, "run": run_id(number), "ago": 250}


def crowd(root: Path) -> None:
    """Something in every group, as a person may find it."""
    _needing(root)
    slow = task(
        root, 4, *begun(4, 754), used(4, 2_345_678, 12.5), title="Write the migration", handoff=PLAN, agent=NAME
    )
    os.utime(slow / "log.jsonl", (time.time() - 130, time.time() - 130))
    task(root, 5, *begun(5, 70), title="Short")
    task(root, 6, {"e": "accepted", "ago": 190}, title="Come next")
    task(root, 7, {"e": "accepted", "ago": 130}, title="Come after that", after="worker-20250101-000000-5")
    task(root, 8, title="Perhaps later")
    for number in range(9, 24):
        title = f"Read chapter {number} and say what is missing in it, in one page"
        cost = used(number, 900 * number, 0.01 * number)
        task(root, number, *begun(number, 900), cost, *judged(number, ago=800), title=title)
    task(root, 24, *begun(24), *judged(24, "failed", "timeout", summary="Out of time."), title="Too slow")
    never = {"e": "judged", "run": None, "status": "cancelled", "summary": ""}
    task(root, 25, {"e": "accepted"}, never, title="Never mind")
    task(root, 26, *begun(26), *judged(26, ago=86400 * 3 + 5, verification="none"), {"e": "seen"}, title="Seen")
    task(root, 27, *begun(27), *judged(27), title=HOSTILE)


NAME = "a-very-long-agent-name"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eevil\u202c\r\nsecond line\ttab"
WIDE = "時計を直す — 夏時間と標準時 👩\u200d👩\u200d👧 ✔\ufe0f e\u0301tude"


def _needing(root: Path) -> None:
    which = asked(1, 1, "Which database is it?", "staging", "production")
    cost = used(1, 41_200, 0.4, estimated=True)
    task(root, 1, *begun(1, 3700), cost, which, title="Move the data to the new host", handoff=PLAN)
    long = "The column `created_at` has three time zones in it; " * 4 + "which one is the truth?"
    parked = judged(2, "needs-input", "answer-timeout", 190)
    task(root, 2, *begun(2, 500), asked(2, 1, long), asked(2, 2, "And now?"), *parked, title=WIDE, agent="asker")
    blocked = judged(3, "blocked", summary="There is no key for the server.")
    task(root, 3, *begun(3, 90), *blocked, title="Fetch the logs")
