"""Watching a run in tmux: a real server on a socket of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from overhand.errors import OverhandError, ToolMissing
from overhand.record import Store
from overhand.supervisor import watch_in_tmux
from overhand.supervisor.loop import open_window
from overhand.supervisor.tmux import name_of
from support.scene import until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("w") / "project", {"worker": ("until:go", "output")})
    yield project
    project.cleanup()


@pytest.fixture
def env(desk: ProjectDir, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment whose tmux has a server of its own, which is ended afterwards."""
    folder = tmp_path_factory.mktemp("t")
    env = {**desk.environment(), "TMUX_TMPDIR": str(folder), "TERM": "xterm"}
    env.pop("TMUX", None)
    yield env
    if shutil.which("tmux"):
        subprocess.run(["tmux", "kill-server"], env=env, capture_output=True, check=False)


def panes(env: dict[str, str]) -> list[str]:
    shown = ("tmux", "list-panes", "-s", "-t", "=dispatch", "-F", "#{window_name} #{pane_start_command}")
    return subprocess.run(shown, env=env, capture_output=True, text=True, check=True).stdout.splitlines()


def an_item_to_be_watched(desk: ProjectDir) -> None:
    settings = desk.config_home / "overhand"
    settings.mkdir(exist_ok=True)
    (settings / "config.toml").write_text("approve_without_terminal = true\nwatch_in_tmux = true\n")
    (desk.path / "map.md").write_text("# The map pauses\n\n**Tags**: #needs-fix\n")


def a_broken_tmux(folder: Path) -> None:
    broken = folder / "tmux"
    broken.write_text("#!/bin/sh\necho no terminal >&2\nexit 1\n")
    broken.chmod(0o755)


@needs_tmux
def test_a_window_per_run_that_shows_its_log(desk: ProjectDir, env: dict[str, str]) -> None:
    task = desk.run("delegate", "Wait for me", "--kind", "fix", "--json", check=True).json
    store = Store(str(desk.path))
    until(lambda: store.task(task["task_id"]).runs, "a run, after which the window is named")
    ran = desk.run("log", "1", "--window", env=env, check=True)
    state = store.task(task["task_id"])
    name = name_of(state)
    assert name.startswith("agent-fix-1")
    assert f"tmux attach -t dispatch:{name}" in ran.out
    (pane,) = panes(env)
    assert pane.startswith(f"{name} ")
    assert "log --follow --out --project" in pane.replace('"', "")
    assert desk.run("log", "1", "--window", "--json", env=env, check=True).json["window"] == f"dispatch:{name}"
    assert len(panes(env)) == 2
    (desk.path / "go").touch()
    assert desk.run("wait", "1", "--json").json["status"] == "completed", "windows are for looking only"


@needs_tmux
def test_many_at_once_make_one_session(desk: ProjectDir, env: dict[str, str]) -> None:
    desk.run("delegate", "Wait; for $me `now`", check=True)  # a window that ends would end the session
    (task,) = Store(str(desk.path)).tasks()
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: watch_in_tmux(str(desk.path), task, env), range(6)))
    assert set(made) == {f"dispatch:{name_of(task)}"}


@needs_tmux
def test_a_session_that_ends_before_it_has_the_window_is_made_again(
    desk: ProjectDir, env: dict[str, str], tmp_path: Path
) -> None:
    """Its last window is closed by whatever ended in it, at any moment."""
    desk.run("delegate", "Wait for me", check=True)
    (task,) = Store(str(desk.path)).tasks()
    watch_in_tmux(str(desk.path), task, env)
    between = tmp_path / "tmux"
    tmux, ended = shutil.which("tmux"), tmp_path / "ended"
    ending = f'[ "$1" != new-window ] || [ -e {ended} ] || {{ : >{ended}; {tmux} kill-session -t =dispatch; }}'
    between.write_text(f'#!/bin/sh\n{ending}\nexec {tmux} "$@"\n')
    between.chmod(0o755)
    made = watch_in_tmux(str(desk.path), task, {**env, "PATH": f"{tmp_path}:{env['PATH']}"})
    assert ended.exists()
    assert [f"dispatch:{pane.split()[0]}" for pane in panes(env)] == [made]


@needs_tmux
def test_with_the_setting_each_run_of_an_item_gets_a_window(desk: ProjectDir, env: dict[str, str]) -> None:
    an_item_to_be_watched(desk)
    desk.run("delegate", "Something that is no item", env=env, check=True)
    (row,) = desk.run("item", "approve", "map.md#fix", "--json", env=env, check=True).json["approved"]
    look = ("tmux", "has-session", "-t", "=dispatch")
    until(lambda: not subprocess.run(look, env=env, capture_output=True, check=False).returncode, "the session")
    (pane,) = panes(env)
    assert pane.startswith(f"{name_of(Store(str(desk.path)).task(row['task_id']))} ")
    subprocess.run(["tmux", "kill-server"], env=env, check=True)
    (desk.path / "go").touch()
    assert desk.run("wait", row["task_id"], "--json").json["status"] == "completed", "closing it changes nothing"


def test_a_run_of_an_item_needs_no_tmux(desk: ProjectDir, tmp_path: Path) -> None:
    """Asked for a window that cannot be had, the supervisor says so in its log."""
    an_item_to_be_watched(desk)
    a_broken_tmux(tmp_path)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (desk.path / "go").touch()
    (row,) = desk.run("item", "approve", "map.md#fix", "--json", env=env, check=True).json["approved"]
    assert desk.run("wait", row["task_id"], "--json").json["status"] == "completed"
    log = desk.record / "supervisor/log"
    until(lambda: f"{row['task_id']}: tmux did not open a window: no terminal" in log.read_text(), "a line in its log")


def test_a_window_is_opened_where_its_task_came_from(
    desk: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever becomes of it, the run goes on: a failure is a line in the log."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.config_home))
    an_item_to_be_watched(desk)
    a_broken_tmux(tmp_path)
    (row,) = desk.run("item", "approve", "--next", "map.md#fix", "--json", check=True).json["approved"]
    open_window(Store(str(desk.path)), row["task_id"], {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert f"{row['task_id']}: tmux did not open a window: no terminal" in capsys.readouterr().out


def test_without_tmux_it_says_what_to_do(desk: ProjectDir, tmp_path: Path) -> None:
    desk.run("delegate", "Wait", "--no-start", check=True)
    ran = desk.run("log", "1", "--window", env={"PATH": str(tmp_path)})
    assert (ran.code, "overhand log -f" in ran.err) == (5, True)
    (task,) = Store(str(desk.path)).tasks()
    with pytest.raises(ToolMissing):
        watch_in_tmux(str(desk.path), task, {**os.environ, "PATH": str(tmp_path)})
    a_broken_tmux(tmp_path)
    with pytest.raises(OverhandError, match="no terminal"):
        watch_in_tmux(str(desk.path), task, {**os.environ, "PATH": str(tmp_path)})
