"""A small file system to fill up."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.record import LOG_FILE
from support.scene import Scene, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.record import Store


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A project and its record on a file system of one megabyte."""
    with project_on_disk(tmp_path, monkeypatch, "1m") as scene:
        yield scene
        until(scene.is_quiet, f"no process left of {scene.path}; now {scene.left()}")


@contextmanager
def project_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> Iterator[Scene]:
    """A project and its record on a file system of their own; afterwards nothing may use it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
    project = make_project(disk / "project")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.config_home))
    try:
        yield Scene(project)
    finally:
        subprocess.run(["mount", "-o", "remount,rw,size=4m", str(disk)], check=True)
        project.cleanup()
        until(lambda: subprocess.run(["umount", str(disk)], check=False).returncode == 0, "a disk that nobody uses")


def fill(folder: Path) -> Path:
    """Take every byte that is left."""
    path = folder / "ballast"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        for size in (65536, 4096, 512, 1):
            try:
                while os.write(fd, b"\0" * size):
                    pass
            except OSError:
                continue
    finally:
        os.close(fd)
    return path


def pad(store: Store, task: str, room: int = 20) -> Path:
    """Bring the log to this many bytes before the end of a page: in a page that is begun a full disk still has room."""
    path = Path(store.record(task)) / LOG_FILE
    short = (-path.stat().st_size - room) % 4096
    frame = b'{"e":"ballast","of":"%s"}\n'
    with open(path, "ab") as file:
        file.write(frame % (b"x" * (short - len(frame) + 2)))
    assert -path.stat().st_size % 4096 == room
    return path
