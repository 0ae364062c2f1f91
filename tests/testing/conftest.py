"""A scripted agent as a plain program, with the environment that a run would give it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.system import command_line_has, send_signal, start_time
from overhand.testing.processes import SLEEP

if TYPE_CHECKING:
    from collections.abc import Iterator

HANDOFF = """\
# Task Handoff

## Task
Tidy the shed

## Plan
- [ ] Look
- [ ] Lift
"""


@dataclass(frozen=True)
class Desk:
    """Where the scripted agent works."""

    project: Path
    workspace: Path
    run: Path

    @property
    def output(self) -> Path:
        return self.run / "OUTPUT.md"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "OVERHAND_TASK": "yard-hand-20260102-030405",
            "OVERHAND_RUN": "sess_1_abcdef",
            "OVERHAND_WORKSPACE": str(self.workspace),
            "OVERHAND_HANDOFF": str(self.workspace / "HANDOFF.md"),
            "OVERHAND_OUTPUT": str(self.output),
            "OVERHAND_RESULT": str(self.run / "result.json"),
            "OVERHAND_DATA": str(self.run / "data.json"),
            "OVERHAND_DEPTH": "1",
            "OVERHAND_PROJECT": str(self.project),
        }

    def start(self, *actions: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "overhand.testing.agent", *actions]
        return subprocess.Popen(
            argv,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def act(self, *actions: str, prompt: str = "") -> subprocess.CompletedProcess[str]:
        """Run the agent to its end."""
        with self.start(*actions) as process:
            out, err = process.communicate(prompt, timeout=30)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def strays(self) -> dict[int, float]:
        """Those of the recorded pids that live."""
        path = self.workspace / "pids"
        noted = [int(word) for word in path.read_text().split()] if path.exists() else []
        living = {pid: start_time(pid) for pid in noted if command_line_has(pid, SLEEP[1])}
        return {pid: started for pid, started in living.items() if started is not None}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    workspace = tmp_path / ".agent-workspaces/yard-hand-20260102-030405"
    desk = Desk(tmp_path, workspace, workspace / "runs/sess_1_abcdef")
    desk.run.mkdir(parents=True)
    (workspace / "HANDOFF.md").write_text(HANDOFF)
    yield desk
    for pid, started in desk.strays().items():
        send_signal(pid, started, signal.SIGKILL)
