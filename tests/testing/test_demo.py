"""The demo leaves nothing behind, and what it prints as the next commands works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from overhand.testing import demo, processes
from support import player

OVERHAND = Path(sys.executable).parent / "overhand"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A person's machine without any agent program, with a folder for temporary files that was empty before."""
    places = {"HOME": "home", "TMPDIR": "tmp", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    for name in places.values():
        (tmp_path / name).mkdir()
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "overhand").symlink_to(OVERHAND)
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL")}
    return {
        **kept,
        **{key: str(tmp_path / name) for key, name in places.items()},
        "PATH": f"{bin_folder}:/usr/bin:/bin",
    }


def left_behind(env: dict[str, str]) -> list[Path]:
    found = [
        path for key in ("TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME") for path in Path(env[key]).iterdir()
    ]
    assert not processes.of_project(Path(env["TMPDIR"]))
    return found


@pytest.mark.parametrize("count", [1, 9])
def test_a_demo_whose_output_is_cut_off(env: dict[str, str], tmp_path: Path, count: int) -> None:
    script = f"set -o pipefail; overhand demo | head -{count}"
    ran = subprocess.run(["bash", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert len(ran.stdout.splitlines()) == count
    assert ran.stderr == ""
    assert left_behind(env) == []


def test_a_demo_that_is_ended(env: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen([OVERHAND, "demo"], env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "delegate" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM
    assert left_behind(env) == []


def typed(lines: list[str], env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    script = "\n".join(["set -e", *(line.strip() for line in lines[1:])])
    return subprocess.run(["bash", "-c", script], env=env, cwd=folder, capture_output=True, text=True, check=False)


def test_what_the_demo_says_to_type_without_a_coding_agent(env: dict[str, str], tmp_path: Path) -> None:
    lines = demo.recipe({})
    ran = typed(lines, env, tmp_path / "project")
    assert (ran.returncode, "Hello." in ran.stdout) == (0, True), ran.stderr
    assert any("agents worker --example" in line for line in lines)


def test_what_the_demo_says_to_type_with_one(env: dict[str, str], tmp_path: Path) -> None:
    player.put(tmp_path / "bin", "claude")
    ran = typed(demo.recipe({"claude": "/bin/claude"}), env, tmp_path / "project")
    assert ran.returncode == 1, "this program writes no haiku"
    assert "HAIKU.md" in ran.stdout
