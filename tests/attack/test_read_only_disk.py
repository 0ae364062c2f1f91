"""On a read-only disk everything can be looked at, also what is open, and an error names what cannot be written."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.disk import project_on_disk
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.scene import Scene


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A project on a file system of its own, with a queued task and one whose run is dead; then it is read-only."""
    with project_on_disk(tmp_path, monkeypatch, "4m") as scene:
        scene.shell("worker", f"until [ -e go ]; do sleep 0.05; done; {QUICK}")
        dead = scene.delegate("dead")
        scene.running(dead)
        pids = [scene.pid(dead, name) for name in ("shim", "pid")]
        scene.kill_supervisor()
        for pid in pids:
            subprocess.run(["kill", "-KILL", str(pid)], check=False)
        until(lambda: not scene.left(), "no process left")
        scene.accepted("queued")
        remount = ["mount", "-o", "remount,ro", str(tmp_path / "disk")]
        until(lambda: subprocess.run(remount, capture_output=True, check=False).returncode == 0, "a read-only disk")
        yield scene


def test_what_is_open_can_be_looked_at(disk: Scene) -> None:
    first, second = (task.id for task in disk.store.tasks())
    rows = {row["task_id"]: row for row in disk.json("list")["tasks"]}
    assert rows.keys() == {first, second}
    assert "read-only" in rows[second]["notice"]
    for words in (("status",), ("show", first), ("show", second), ("log", first), ("list", "--live"), ()):
        ran = disk.project.run(*words)
        assert ran.code == 0, f"{words}: {ran.out}{ran.err}"
        assert sys.executable not in ran.out + ran.err


def test_an_error_names_what_cannot_be_written(disk: Scene) -> None:
    error = disk.json("wait", disk.ids()[1], code=3)["error"]
    assert "read-only" in error["message"]
    assert f"{disk.path.parent}/state/" in error["message"]
    assert sys.executable not in error["message"]
