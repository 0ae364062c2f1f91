"""Tasks that are accepted or judged together are recorded, and synced, together."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand import Project
from overhand.errors import StorageFailed
from overhand.record import NewTask, Store, read_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.agents import Call
    from overhand.testing.project import ProjectDir

BY = {"kind": "person", "via": "test"}


@pytest.fixture
def project(overhand_project: ProjectDir) -> Iterator[Project]:
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path, max_parallel=0) as opened:
        yield opened


def recorded(root: Path, kind: str) -> set[str]:
    """The tasks whose logs have such an event."""
    logs = Path(Store(str(root)).home, "tasks").glob("*/log.jsonl")
    return {path.parent.name for path in logs if any(line["e"] == kind for line in read_log(str(path.parent)))}


def test_everything_is_on_record_before_the_first_starts_and_before_results_are_told(project: Project) -> None:
    known: list[set[str]] = []
    gate = threading.Event()

    def looks(_call: Call) -> str:
        known.append(recorded(project.root, "created"))
        gate.wait(20)
        return "Looked."

    project.agent("looks")(looks)
    tasks = project.delegate_all([{"title": f"Look {n}", "agent": "looks"} for n in range(3)])
    gate.set()
    assert all(task.wait().ok for task in tasks)
    assert known == [{task.id for task in tasks}] * 3
    assert recorded(project.root, "judged") == {task.id for task in tasks}


def test_tasks_made_together_are_numbered_in_order_and_whole(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    made = store.new_tasks(
        [NewTask(agent="worker", handoff=f"# Task: {n}\n", created={"title": str(n)}) for n in range(3)], BY, start=True
    )
    assert [(task.handle, task.title, task.queued) for task in made] == [(n + 1, str(n), True) for n in range(3)]
    assert [vars(task) for task in store.tasks()] == [vars(task) for task in made]


def test_a_sync_that_fails_is_told(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.sync([])
    with pytest.raises(StorageFailed):
        store.sync(["worker-1"])
    with pytest.raises(StorageFailed):
        store.sync(["worker-1", "worker-2"])
