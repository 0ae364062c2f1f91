"""Which tasks have a run at work is told from the bytes of their logs, and is never told wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from overhand.record import Store
from overhand.system import dump_line

RUN = "sess_1735689600_aaaaaa"
AGAIN = "sess_1735689600_bbbbbb"
CREATED = {"e": "created", "v": 1, "handle": 1, "title": '{"e":"run.ended"}', "agent": "worker"}
BEGUN = {"e": "run.created", "run": RUN, "agent": "worker"}
ENDED = {"e": "run.ended", "run": RUN, "cause": "exit", "exit": 0}
JUDGED = {"e": "judged", "run": RUN, "status": "completed"}
NOTICE = {"e": "notice", "text": "run.ended"}


def task(root: Path, number: int, *events: dict[str, Any], at: float = 1000.0) -> str:
    store = Store(str(root))
    store.ensure()
    folder = Path(store.record(f"worker-20250101-000000-{number}"))
    folder.mkdir()
    (folder / "log.jsonl").write_text("".join(dump_line(event) + "\n" for event in events))
    os.utime(folder / "log.jsonl", (at, at))
    return folder.name


def test_a_run_is_found_until_it_is_recorded_as_ended(tmp_path: Path) -> None:
    begun = task(tmp_path, 1, CREATED, BEGUN)
    told = task(tmp_path, 2, CREATED, BEGUN, NOTICE)
    again = task(tmp_path, 3, CREATED, BEGUN, ENDED, JUDGED, {**BEGUN, "run": AGAIN})
    over = task(tmp_path, 4, CREATED, BEGUN, ENDED, JUDGED)
    queued = task(tmp_path, 5, CREATED)
    late = task(tmp_path, 6, CREATED, BEGUN, ENDED, at=2000.0)
    (tmp_path / ".agent-workspaces/worker-20250101-000000-7").mkdir()
    (tmp_path / ".agent-workspaces/worker-20250101-000000-7/HANDOFF.md").write_text("# By hand\n")
    store = Store(str(tmp_path))
    assert {state.id for state in store.at_work()} == {begun, told, again}
    assert {state.id for state in store.at_work(1500.0)} == {begun, told, again, late}
    assert {state.id for state in store.at_work(0.5)} == {begun, told, again, over, queued, late}
