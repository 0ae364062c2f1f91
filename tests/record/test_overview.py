"""All tasks at a glance: the same as folding every log, first without and then with what was remembered."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli import written
from overhand.record import Overview, Store
from overhand.record.overview import _FORMAT, AT_REST, is_at_rest
from overhand.system import dump_line
from overhand.words import HEADLINES, STATUSES

NAME = "worker-20250101-000000"
RUNS = st.sampled_from([written.run_id(number) for number in (1, 2)])
JUDGED = st.sampled_from([*STATUSES, "unheard-of"])
EVENTS = st.one_of(
    st.just({"e": "accepted"}),
    st.builds(lambda run: {"e": "run.created", "run": run, "agent": "worker"}, RUNS),
    st.builds(lambda run: {"e": "run.started", "run": run, "shim": 1}, RUNS),
    st.builds(lambda run: {"e": "run.ended", "run": run, "cause": "exit", "exit": 0}, RUNS),
    st.builds(lambda run: {"e": "run.ended", "run": run, "never_began": True}, RUNS),
    st.builds(lambda run, status: {"e": "judged", "run": run, "status": status}, RUNS | st.none(), JUDGED),
    st.builds(lambda seq: {"e": "asked", "seq": seq, "question": '{"e":"seen"}?'}, st.integers(1, 2)),
    st.builds(lambda seq: {"e": "answered", "seq": seq, "answer": "}\n"}, st.integers(1, 2)),
    st.sampled_from([{"e": name} for name in ("seen", "stop", "rechecked", "late", "notice", "limit", "unheard-of")]),
    st.builds(lambda run: {"e": "usage", "run": run, "input": 5, "usd": 0.5}, RUNS),
)
# a course that ends well is rare among random ones
COURSE = [
    {"e": "accepted"},
    {"e": "run.created", "run": written.run_id(1), "agent": "worker"},
    {"e": "run.ended", "run": written.run_id(1), "cause": "exit", "exit": 0},
]
LOGS = st.builds(
    lambda before, usual, status, after: [
        *before,
        *([*COURSE, {"e": "judged", "run": written.run_id(1), "status": status}] if usual else []),
        *after,
    ],
    st.lists(EVENTS, max_size=4), st.booleans(), JUDGED, st.lists(EVENTS, max_size=4),
)  # fmt: skip


def raw_log(events: list[dict[str, Any]], handle: int = 7, name: str = NAME) -> bytes:
    created = {"e": "created", "v": 1, "task": name, "handle": handle, "title": 'A "title"', "agent": "worker"}
    stamp = {"t": "2025-01-01T00:00:00.000Z", "mono": 1.0, "boot": "0", "by": {"kind": "person"}}
    return "".join(dump_line({**event, **stamp}) + "\n" for event in (created, *events)).encode()


def look(root: Path) -> tuple[dict[str, int], dict[str, list[str]], list[str]]:
    """Counts, what rests, and what does not."""
    overview = Overview(Store(str(root)))
    overview.look()
    resting = {group: [task.id for task in overview.newest(group, 1000)] for group in AT_REST.values()}
    return overview.counts(), resting, sorted(overview.states)


def folded(root: Path) -> tuple[dict[str, int], dict[str, list[str]], list[str]]:
    """The same, by folding everything."""
    states = Store(str(root)).tasks()
    groups = {task.id: "folded" if task.is_folded else str(task.headline) for task in states}
    counts = {name: sum(group == name for group in groups.values()) for name in HEADLINES}
    resting = {group: [s.id for s in states if groups[s.id] == group and is_at_rest(s)] for group in AT_REST.values()}
    rest = {name for names in resting.values() for name in names}
    return counts, resting, sorted(s.id for s in states if s.id not in rest)


@settings(max_examples=40, deadline=None)
@given(st.lists(LOGS, min_size=25, max_size=40))
def test_the_overview_is_the_fold_of_all_logs(logs: list[list[dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        store = Store(str(root))
        store.ensure()
        for number, events in enumerate(logs, 1):
            folder = Path(store.record(f"{NAME}-{number}"))
            folder.mkdir()
            (folder / "log.jsonl").write_bytes(raw_log(events, number, folder.name))
            os.utime(folder / "log.jsonl", (1, 1))
        assert look(root) == look(root) == folded(root)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Forty tasks that are over, for long enough to be remembered."""
    for number in range(1, 41):
        folder = written.task(tmp_path, number, *written.begun(number), *written.judged(number))
        os.utime(folder / "log.jsonl", (1, 1))
    return tmp_path


def cache(root: Path) -> Path:
    return Path(Store(str(root)).own, "overview")


def test_the_second_look_reads_no_log(many: Path) -> None:
    look(many)
    text = cache(many).read_text()
    assert text.count("\nr") == 40
    cache(many).write_text(text.replace("\nr7\n", "\nd7\n"))  # a lie, to see who is believed
    assert look(many)[0]["done"] == 1


def test_a_log_that_changed_is_read_again(many: Path) -> None:
    look(many)
    cache(many).write_text(cache(many).read_text().replace("\nr7\n", "\nd7\n"))
    folder = Path(Store(str(many)).record("worker-20250101-000000-7"))
    written.append(folder, {"e": "rechecked"})
    assert look(many) == folded(many)
    os.utime(folder / "log.jsonl", (1, 1))
    (folder / "copy").write_bytes((folder / "log.jsonl").read_bytes())
    os.utime(folder / "copy", (1, 1))
    (folder / "copy").rename(folder / "log.jsonl")
    assert look(many) == folded(many)


def test_what_was_just_written_is_not_remembered(many: Path) -> None:
    folder = Path(Store(str(many)).record("worker-20250101-000000-7"))
    now = time.time() + 60  # it stays new, however long the look takes
    os.utime(folder / "log.jsonl", (now, now))
    look(many)
    assert f"{folder.name} " not in cache(many).read_text()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\x00",
        b"overhand-overview 0\n",
        _FORMAT.encode() + b"\n" + b"x" * 100,
        _FORMAT.encode() + b"\na b\nr\n",
        _FORMAT.encode() + b"\na b\nz9\n",
        _FORMAT.encode() + b"\na 1 2 3\nr9\nb 1 2",
        _FORMAT.encode() + b"\n" + "worker-20250101-000000-1 1 1 1\nr²\n".encode(),
        _FORMAT.encode() + b"\ngone-1 1 1 1\nr99999999999999999999999999\n",
    ],
)
def test_a_broken_cache_is_no_cache(many: Path, raw: bytes) -> None:
    cache(many).write_bytes(raw)
    assert look(many) == folded(many)
    assert look(many) == folded(many)


def listed(root: Path) -> list[tuple[int, str, dict[str, Any]]]:
    overview = Overview(Store(str(root)))
    overview.look()
    return sorted(overview.rows(lambda task: {"task_id": task.id, "status": task.status}))


def test_rows_are_made_once_for_each_log(many: Path) -> None:
    kept = Path(Store(str(many)).own, "rows")
    first = listed(many)
    assert [row["status"] for _, _, row in first] == ["completed"] * 40
    kept.write_text(kept.read_text().replace("completed", "a lie", 1))
    assert [row["status"] for _, _, row in listed(many)].count("a lie") == 1
    for number in (1, 7):
        folder = Path(Store(str(many)).record(f"worker-20250101-000000-{number}"))
        written.append(folder, *written.begun(99), *written.judged(99, "failed"))
    assert [row["status"] for _, _, row in listed(many)].count("failed") == 2
    for raw in ("", _FORMAT, f"{_FORMAT}\n[]\n", f"{_FORMAT}\n{{\n", kept.read_text().replace("task_id", "id")):
        kept.write_text(raw)
        assert [row["status"] for _, _, row in listed(many)].count("completed") == 38, raw


def test_a_cache_may_be_missing_or_impossible(many: Path) -> None:
    assert look(many) == folded(many)
    cache(many).unlink()
    assert look(many) == folded(many)
    cache(many).unlink()
    cache(many).mkdir()
    assert look(many) == folded(many)
    cache(many).rmdir()
    os.mkfifo(cache(many))
    assert look(many) == folded(many)
    cache(many).unlink()
    cache(many).symlink_to("/etc/passwd")
    assert look(many) == folded(many)


def test_one_broken_log_does_not_hide_the_others(many: Path) -> None:
    broken = written.task(many, 41, {"e": "run.created"})
    tasks = broken.parent
    (tasks / "empty").mkdir()
    (tasks / "linked").mkdir()
    (tasks / "linked/log.jsonl").symlink_to("/etc/passwd")
    overview = Overview(Store(str(many)))
    overview.look()
    assert overview.counts()["ready"] == 40
    assert {name for name in overview.states if overview.states[name].headline == "failed"} >= {broken.name}
    assert "cannot be read" in overview.states[broken.name].summary


def test_looking_again_sees_what_happened_since(many: Path) -> None:
    overview = Overview(Store(str(many)))
    overview.look()
    assert (overview.counts()["ready"], overview.counts()["working"]) == (40, 0)
    folder = Path(Store(str(many)).record("worker-20250101-000000-3"))
    written.append(folder, *written.begun(99))
    overview.look()
    assert list(overview.states) == [folder.name]
    assert overview.counts()["working"] == 1
    written.append(folder, *written.judged(99, "failed"))
    overview.look()
    assert overview.states == {}
    assert (overview.counts()["ready"], overview.counts()["failed"]) == (39, 1)
