"""A batch brings its logs to the disk in one piece, and gets back from there what a power cut took."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from overhand import Project
from overhand.errors import StorageFailed
from overhand.record import journal
from overhand.record.events import Seen
from overhand.record.store import Store
from overhand.system import machine
from overhand.testing import functions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.agents.drivers.function import Call
    from overhand.testing.project import ProjectDir


@pytest.fixture
def project(overhand_project: ProjectDir) -> Iterator[Project]:
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path, max_parallel=0) as opened:
        opened.agent("helper")(functions.completes())
        yield opened


def three(project: Project) -> list[Path]:
    """The logs of three tasks that were delegated and judged together."""
    tasks = project.delegate_all([{"title": f"Do part {n}", "agent": "helper"} for n in range(3)])
    assert all(task.wait().ok for task in tasks)
    return [task.folder / "log.jsonl" for task in tasks]


def journal_of(project: Project) -> Path:
    return project.root / ".agent-workspaces/.supervisor/journal"


def entries(project: Project) -> list[tuple[str, str]]:
    """Task and piece of each entry."""
    parts = journal_of(project).read_text().split('\n["')[1:]
    return [(part.partition('"')[0], part.partition("\n")[2]) for part in parts]


def cut_power(project: Project) -> None:
    """The journal as it is after another boot."""
    path = journal_of(project)
    _, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(b"00000000\n" + rest)


def test_what_a_power_cut_took_is_put_back_once(project: Project) -> None:
    logs = three(project)
    whole = [path.read_bytes() for path in logs]
    logs[0].write_bytes(b"")  # as ext4 leaves a file that was never written
    logs[1].write_bytes(whole[1][:-30] + bytes(30))  # as others do
    logs[2].unlink()
    cut_power(project)
    store = Store(str(project.root))
    assert [path.read_bytes() for path in logs] == whole
    assert {task.status for task in store.tasks()} == {"completed"}
    assert journal_of(project).read_bytes() == b""
    logs[0].write_bytes(b"")
    Store(str(project.root))
    assert logs[0].read_bytes() == b""  # it was put back once, and is not a second truth


def test_what_others_recorded_in_between_comes_back_too(project: Project) -> None:
    store = Store(str(project.root))

    def is_noticed(call: Call) -> str:
        with store.lock(call.task_id, {"kind": "person", "via": "test"}) as task:
            task.append(Seen())
        return "Done."

    project.agent("noticed")(is_noticed)
    tasks = project.delegate_all([{"title": f"Do part {n}", "agent": "noticed"} for n in range(2)])
    assert all(task.wait().ok for task in tasks)
    logs = [task.folder / "log.jsonl" for task in tasks]
    whole = [path.read_bytes() for path in logs]
    assert all(b'"seen"' in text for text in whole)
    for path in logs:
        path.write_bytes(b"")
    cut_power(project)
    Store(str(project.root))
    assert [path.read_bytes() for path in logs] == whole


def test_within_a_boot_the_logs_alone_count(project: Project) -> None:
    logs = three(project)
    logs[0].write_bytes(b"")
    Store(str(project.root))
    assert logs[0].read_bytes() == b""
    assert journal_of(project).read_bytes().startswith(machine.boot().encode())


def test_what_went_on_or_was_cleaned_away_stays_as_it_is(project: Project, tmp_path: Path) -> None:
    logs = three(project)
    longer = logs[0].read_bytes() + b'{"e":"seen"}\n'
    logs[0].write_bytes(longer)
    logs[1].write_bytes(b'{"e":"other"}\n')
    shutil.rmtree(logs[2].parent)
    logs[2].parent.symlink_to(tmp_path)
    cut_power(project)
    Store(str(project.root))
    assert logs[0].read_bytes() == longer
    assert logs[1].read_bytes() == b'{"e":"other"}\n'
    assert not (tmp_path / "log.jsonl").exists()


def test_a_torn_line_costs_only_itself(project: Project) -> None:
    first = three(project)
    with journal_of(project).open("ab") as file:
        file.write(b'["torn-20260101-000000",0,9999]\n{"e":"created"')
    second = three(project)
    whole = [path.read_bytes() for path in (*first, *second)]
    for path in (*first, *second):
        path.write_bytes(b"")
    cut_power(project)
    Store(str(project.root))
    assert [path.read_bytes() for path in (*first, *second)] == whole


def test_everything_is_on_record_before_the_first_starts_and_before_results_are_told(project: Project) -> None:
    known: list[set[str]] = []
    gate = threading.Event()

    def looks(call: Call) -> str:
        known.append({task_id for task_id, text in entries(project) if '"created"' in text})
        gate.wait(20)
        return "Looked."

    project.agent("looks")(looks)
    tasks = project.delegate_all([{"title": f"Look {n}", "agent": "looks"} for n in range(3)])
    gate.set()
    assert all(task.wait().ok for task in tasks)
    assert known == [{task.id for task in tasks}] * 3
    assert {task_id for task_id, text in entries(project) if '"judged"' in text} == {task.id for task in tasks}


def test_it_begins_afresh_when_it_is_long(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    three(project)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "MOST", 1)
        three(project)
    assert journal_of(project).read_bytes() == b""
    last = three(project)
    assert {task_id for task_id, _ in entries(project)} == {path.parent.name for path in last}


def test_something_else_in_its_place_is_told_and_waits_for_nobody(project: Project) -> None:
    three(project)
    journal_of(project).unlink()
    os.mkfifo(journal_of(project))
    Store(str(project.root))
    journal_of(project).unlink()
    journal_of(project).mkdir()
    Store(str(project.root))
    with pytest.raises(StorageFailed):
        project.delegate_all([{"title": f"Do part {n}", "agent": "helper"} for n in range(2)])
