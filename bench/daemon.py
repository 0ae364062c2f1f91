"""The daemon: from an approved tag to a started agent, and what it costs when it only waits."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, Row

from overhand.policy import Config
from overhand.record import Store
from overhand.supervisor import ask_supervisor, running_supervisor
from overhand.testing import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORKER = """date +%s.%N >>"$OVERHAND_PROJECT/began"
printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT" """
_REQUEST = "# Fix Request: number {}\n\n**Tags**: #delegated-fix\n\n## What\nDo it.\n"
_PATIENCE = 60.0


def rows(*, quick: bool) -> list[Row]:
    """All of them."""
    return [_start(3 if quick else 9), _idle(500 if quick else 5000, 10.0 if quick else 60.0)]


@contextmanager
def watched(place: Path, worker: str = _WORKER) -> Iterator[tuple[Store, dict[str, str]]]:
    """A project with a worker, and its daemon after the first scan."""
    env = measure.environment(place.parent)
    os.environ["XDG_CONFIG_HOME"] = env["XDG_CONFIG_HOME"]
    (place / ".overhand/agents").mkdir(parents=True)
    command = json.dumps(["/bin/sh", "-c", worker])
    text = f"---\nname: worker\ndescription: x\noverhand:\n  driver: command\n  command: {command}\n---\nDo it.\n"
    (place / ".overhand/agents/worker.md").write_text(text)
    (place / ".overhand/config.toml").write_text('default_agent = "worker"\n')
    measure.run([OVERHAND, "trust", "--yes"], place, env)
    store = Store(os.path.realpath(place))
    try:
        measure.run([OVERHAND, "daemon", "start"], place, env)
        until(lambda: bool(status(store).get("scanned")))
        yield store, env
    finally:
        measure.run([OVERHAND, "daemon", "stop"], place, env)
        for pid in processes.supervisors(place):
            os.kill(pid, 9)


def status(store: Store) -> dict[str, object]:
    """What the daemon says about itself."""
    told: dict[str, object] = json.loads(ask_supervisor(store, {"ask": "daemon"}) or b"{}")
    return told


def until(true: object, patience: float = _PATIENCE) -> None:
    """Wait for it."""
    deadline = time.monotonic() + patience
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited for more than {patience:.0f} s")
        time.sleep(0.002)


def _start(rounds: int) -> Row:
    """From the moment a tag is written, less the debounce, until the agent's first line runs."""
    late: list[float] = []
    with measure.folder() as place, watched(place) as (store, _env):
        began = place / "began"
        for number in range(rounds):
            # the run before must be over for so long that it cannot have typed this
            until(lambda: not status(store)["running"] and not status(store)["pending"])
            time.sleep(6)
            path = place / f"r{number}.md"
            path.write_text(_REQUEST.format(number))
            wrote = path.stat().st_mtime
            until(lambda number=number: began.exists() and len(began.read_text().split()) > number)
            late.append(float(began.read_text().split()[-1]) - wrote - Config().debounce)
    found = measure.median(late)
    return Row(
        "approved tag → agent process started, beyond the debounce",
        f"{found * 1e3:.0f} ms",
        "≤ 150 ms",
        "50 ms",
        found <= 0.150,
        found <= 0.050,
        f"{min(late) * 1e3:.0f} to {max(late) * 1e3:.0f} ms in {rounds} rounds",
    )


def _idle(folders: int, seconds: float) -> Row:
    """What the process uses while it watches and nothing happens."""
    with measure.folder() as place:
        for number in range(folders):
            folder = place / f"d{number // 100:03d}" / f"e{number:05d}"
            folder.mkdir(parents=True)
            (folder / "note.md").write_text(f"# Note {number}\n\nNothing #needs-fix yet.\n")
        with watched(place) as (store, _env):
            pid = running_supervisor(store) or 0
            until(lambda: not status(store)["pending"])
            before, began = measure.cpu(pid), time.monotonic()
            time.sleep(seconds)
            share = (measure.cpu(pid) - before) / (time.monotonic() - began)
            size = _resident(pid)
            count = status(store)["folders"]
    return Row(
        f"daemon idle, {count:,} watched folders",
        f"{share * 100:.2f} % of a core, {size / 1e6:.0f} MB",
        "≤ 0.5 %, ≤ 80 MB",
        "0.1 %",
        share <= 0.005 and size <= 80e6,
        share <= 0.001 and size <= 80e6,
        f"over {seconds:.0f} s",
    )


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
