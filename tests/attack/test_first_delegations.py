"""Several first delegations at once, where no project was before: none is refused, none meets half a project."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from overhand.policy import settings_files, untrusted_files
from overhand.verbs import Session, ensure_project
from support.scene import QUICK, Scene
from support.warm import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

import pytest


@pytest.fixture
def fresh(scene: Scene, tmp_path: Path) -> Iterator[Scene]:
    """A folder that is no project yet; the agent is the user's own."""
    scene.shell("worker", QUICK)
    agents = scene.project.config_home / "overhand/agents"
    agents.mkdir(parents=True)
    (scene.path / ".overhand/agents/worker.md").rename(agents / "worker.md")
    folder = tmp_path / "fresh"
    folder.mkdir()
    project = Project(folder, scene.project.config_home, trust=False, state_home=scene.project.state_home)
    yield Scene(project)
    project.cleanup()


def test_eight_at_once_are_all_accepted(fresh: Scene) -> None:
    calls = [fresh.project.start("delegate", f"number {n}", "--agent", "worker", "--wait", "--json") for n in range(8)]
    for call in calls:
        out, err = call.communicate(timeout=90)
        assert call.returncode == 0, out + err
    tasks = fresh.ids()
    assert len(tasks) == 8
    assert [fresh.starts(task) for task in tasks] == [1] * 8


def test_setting_up_from_many_threads_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    wrong: list[BaseException] = []

    def make(root: str, together: threading.Barrier) -> None:
        together.wait()
        try:
            ensure_project(Session(root))
        except BaseException as error:  # noqa: BLE001 -- shown by the test
            wrong.append(error)

    for n in range(20):
        root = tmp_path / f"project {n}"
        root.mkdir()
        together = threading.Barrier(8)
        threads = [threading.Thread(target=make, args=(str(root), together)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_settings_that_setting_up_wrote_are_trusted_as_soon_as_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second delegation that finds them meanwhile must not be refused."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    root.mkdir()
    seen: list[list[str]] = []
    link = os.link

    def watched(old: str, new: str, **options: Any) -> None:
        link(old, new, **options)
        if os.path.basename(new) == "config.toml":
            seen.append(untrusted_files(str(root), settings_files(str(root))))

    monkeypatch.setattr(os, "link", watched)
    ensure_project(Session(str(root)))
    assert seen == [[]]
