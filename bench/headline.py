"""The headline screen over many tasks: processor time of `overhand --json` against `rg -c .` over their documents."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measure
from measure import OVERHAND, PYTHON, Row

from overhand.record import Store
from overhand.system import dump_line, hold_life, machine_id, pid_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

_TASKS = 10_000
_LIVE = 100
_HANDOFF = "# Task Handoff\n\n## Task\n\nDo it.\n\n## Plan\n\n- [x] Look\n- [~] Write\n- [ ] Try\n\n## Context\n\n"
_OUTPUT = "# Task Complete: Do it\n\n**Status:** completed\n\n## Summary\n\nDid it.\n\n## For Primary\n\n"
_FILL = "What there is to say about it, in a line of its own.\n"


def rows(*, quick: bool) -> list[Row]:
    """First without, then with what was remembered of it."""
    rg = _ripgrep()
    which = ["--max-depth", "2", "-g", "HANDOFF.md", "-g", "OUTPUT.md"]  # it need not walk through the runs
    with measure.folder() as place, _tasks(place) as store:
        env = measure.environment(place)
        search = [rg, "-c", ".", "-uu", *which, f"{store.home}/tasks"]
        remembered = Path(store.own, "overview")
        times: tuple[list[float], ...] = ([], [], [])
        for number in range(7 if quick else 15):
            remembered.unlink(missing_ok=True)
            spent = [_cpu(words, place, env) for words in (search, [OVERHAND, "--json"], [OVERHAND, "--json"])]
            assert remembered.exists()
            if number:  # the first round warms up
                for seconds, one in zip(times, spent, strict=True):
                    seconds.append(one)
        _check(place, env)
    searched, first, again = (measure.median(seconds) for seconds in times)
    note = f"`rg` took {searched * 1e3:.0f} ms of processor time ({_version(rg)})"
    return [
        _row("first", first / searched, 2.5, 1.6, note),
        _row("again", again / searched, 1.2, 0.5, ""),
    ]


def _row(which: str, ratio: float, bar: float, aim: float, note: str) -> Row:
    what = f"headline screen, {_TASKS:,} tasks, {which}, CPU vs `rg -c .` over their documents"
    return Row(what, f"{ratio:.2f}x", f"≤ {bar}x", f"{aim}x", ratio <= bar, ratio <= aim, note)


def _ripgrep() -> str:
    """The one that is installed beside us, else the machine's."""
    beside = Path(PYTHON).parent / "rg"
    found = str(beside) if beside.exists() else shutil.which("rg")
    if found is None:
        raise FileNotFoundError("There is no ripgrep here. Install bench/requirements.lock: make bench")
    return found


def _version(rg: str) -> str:
    return subprocess.run([rg, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _cpu(argv: list[str], place: Path, env: dict[str, str]) -> float:
    """Seconds that a program and all its threads kept a processor busy."""
    none = subprocess.DEVNULL
    process = subprocess.Popen(argv, cwd=place, env=env, stdin=none, stdout=none, stderr=none)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return used.ru_utime + used.ru_stime


def _check(place: Path, env: dict[str, str]) -> None:
    """What was measured was the whole screen."""
    import json

    done = subprocess.run([OVERHAND, "--json"], cwd=place, env=env, capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    assert shown["tasks"] == _TASKS
    assert sum(shown["counts"][name] for name in ("needs you", "working", "queued")) == _LIVE
    assert shown["groups"]["working"][0]["progress"] == {"done": 1, "total": 3}


@contextmanager
def _tasks(place: Path) -> Iterator[Store]:
    """One in a hundred is live: its lock is held, and so is the supervisor's, so that nothing is started or settled."""
    store = Store(str(place.resolve()))
    store.ensure()
    locks = [_lock(Path(store.own, "lock"))]
    try:
        for number in range(1, _TASKS + 1):
            locks += _task(store, number)
        yield store
    finally:
        for fd in locks:
            os.close(fd)


def _lock(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def _task(store: Store, number: int) -> list[int]:
    """One task; its log has twelve events and was last written an hour ago."""
    task_id = f"worker-20250101-000000-{number}"
    folder, documents = Path(store.record(task_id)), Path(store.workspace(task_id))
    run = f"sess_1735689600_{number:06d}"
    (folder / f"runs/{run}").mkdir(parents=True)
    documents.mkdir(parents=True)
    for side in (folder, documents):
        (side / "HANDOFF.md").write_text(_HANDOFF + (_FILL * 20)[: 700 - len(_HANDOFF)])
        (side / "OUTPUT.md").write_text(_OUTPUT + (_FILL * 20)[: 600 - len(_OUTPUT)])
    live = number % (_TASKS // _LIVE) == 0
    events = _events(folder.name, number, run, live=live)
    assert len(events) == 12
    stamp = {"t": "2025-01-01T00:00:00.000Z", "mono": 1234.567, "boot": "0123abcd",
             "by": {"kind": "person", "user": "somebody", "via": "cli"}}  # fmt: skip
    (folder / "log.jsonl").write_text("".join(dump_line({**event, **stamp}) + "\n" for event in events))
    os.utime(folder / "log.jsonl", (time.time() - 3600,) * 2)
    (folder / f"runs/{run}/stdout").touch()
    return [hold_life(str(folder / f"runs/{run}"))] if live else []


def _events(name: str, number: int, run: str, *, live: bool) -> list[dict[str, Any]]:
    created = {
        "e": "created", "v": 1, "task": name, "handle": number, "title": f"Do the thing number {number}",
        "kind": "fix", "priority": "P2", "parent": None, "path": ["user", "worker"], "depth": 1, "level": "work",
        "timeout": 7200.0, "contract": None, "checks": [{"name": "tests", "command": "make test"}], "after": None,
        "settings": {}, "model": None, "budget": None, "strict": False, "agent": "worker",
        "handoff": "0" * 64,
    }  # fmt: skip
    begun = {"e": "run.created", "run": run, "agent": "worker", "driver": "command", "timeout": 7200.0,
             "machine": machine_id(), "pidns": pid_namespace()}  # fmt: skip
    steps = [{"e": "step", "n": n, "text": f"Step {n} of it", "marker": "x", "run": run} for n in range(1, 5)]
    usage = {"e": "usage", "run": run, "input": 12000, "output": 900, "usd": 0.12, "turns": 7, "context": 9000,
             "window": 200000, "estimated": False}  # fmt: skip
    common: list[dict[str, Any]] = [
        created,
        {"e": "accepted"},
        begun,
        {"e": "run.started", "run": run, "shim": 4711},
        *steps,
        usage,
    ]
    if live:
        asked = {"e": "asked", "seq": 1, "stem": "001", "question": "Which one?", "options": ["a", "b"], "via": "ask",
                 "run": run}  # fmt: skip
        return [*common, *({"e": "notice", "text": "Something happened."} for _ in range(2)),
                asked if number % 500 == 0 else {"e": "control", "command": "CHECKPOINT", "run": run}]  # fmt: skip
    status = "failed" if number % 40 == 1 else "completed"
    judged = {"e": "judged", "run": run, "status": status, "claimed": "completed", "verified": "all",
              "summary": "Did what was asked for.", "output": "0" * 64, "result": "0" * 64, "errors": 0}  # fmt: skip
    seen = {"e": "seen"} if number % 20 else {"e": "notice", "text": "Nobody has looked at it yet."}
    return [*common, {"e": "run.ended", "run": run, "cause": "exit", "exit": 0}, judged, seen]
