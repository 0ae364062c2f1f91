"""Verbs inside the sandboxes of real agents, with the network off: they need nothing but files."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.installed import program, require
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.scene import Scene

# What the shell of an agent does: the socket shows that the sandbox holds.
INNER = """
import os, socket, subprocess, sys
def verb(*words):
    done = subprocess.run([os.environ["OVERHAND"], *words], capture_output=True, text=True)
    print(done.returncode, done.stdout.strip().replace("\\n", " "), flush=True)
try:
    socket.socket(socket.AF_UNIX).connect("/nowhere")
except OSError as error:
    print(error.errno, "socket", flush=True)
verb("step", "1", "done")
verb("ask", "Which?")
verb("delegate", "A part of it", "--agent", "child", "--wait")
verb("wait", "2")
verb("checkpoint", "create", "--name", "half")
verb("list")
verb("finish", "--summary", "From inside.")
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Codex refuses a home below /tmp, where that of this machine's user may be."""
    made = Path(tempfile.mkdtemp(prefix="overhand-test-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def works_inside(scene: Scene, sandbox: str) -> None:
    """Every kind of call, in an agent whose shell tool is this sandbox."""
    (scene.path / "inner.py").write_text(INNER)
    scene.shell("child", QUICK)
    inner = f"{sandbox} {sys.executable} {scene.path}/inner.py >$OVERHAND_PROJECT/said 2>$OVERHAND_PROJECT/wrong"
    scene.project.agent("worker", command=["/bin/sh", "-c", inner])
    task = scene.delegate("work in a sandbox", "--step", "one")
    until(lambda: scene.state(task).open_questions or scene.state(task).status, "the question")
    assert scene.state(task).open_questions, (scene.path / "wrong").read_text()
    scene.json("answer", task, "blue")
    shown = scene.json("wait", task, code=None)
    said = (scene.path / "said").read_text().splitlines()
    assert said[0] == "1 socket", "connecting is not permitted"
    assert [line.partition(" ")[0] for line in said[1:]] == ["0"] * 7, said
    assert said[2] == "0 blue"
    assert (shown["status"], shown["summary"]) == ("completed", "From inside.")
    assert len(scene.ids()) == 2


@pytest.mark.soak  # on the disk: their sandboxes have a /dev of their own
def test_codex(scene: Scene, home: Path) -> None:
    require("codex")
    folders = '{":root"="read","$OVERHAND_WORKSPACE"="write"}'.replace('"', '\\"')
    options = f'-c default_permissions=\\"calls\\" -c "permissions.calls.filesystem={folders}"'
    network = '-c "permissions.calls.network={enabled=false}"'
    works_inside(scene, f"CODEX_HOME={home} {program('codex')} sandbox {options} {network} --")


@pytest.mark.soak
def test_claude_code(scene: Scene, home: Path) -> None:
    require("srt")
    missing = [name for name in ("bwrap", "socat", "rg") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"the sandbox of Claude Code needs {', '.join(missing)}")
    allowed = [str(scene.path / ".agent-workspaces")]
    filesystem = {"denyRead": [], "allowWrite": allowed, "denyWrite": []}
    settings = {"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": filesystem}
    (home / "srt.json").write_text(json.dumps(settings))
    works_inside(scene, f"{program('srt')} --settings {home}/srt.json")


def test_the_command_is_found_in_a_login_shell(scene: Scene) -> None:
    """Which resets PATH, as /etc/profile says."""
    script = f'PATH=/usr/bin:/bin bash -lc "\\"\\$OVERHAND\\" step 1 done --json" >said; {QUICK}'
    scene.project.agent("worker", command=["/bin/sh", "-c", script])
    task = scene.delegate("look for it", "--step", "one")
    scene.judged(task)
    assert json.loads((scene.path / "said").read_text())["step"]["state"] == "done"
    assert os.environ.get("OVERHAND") is None
