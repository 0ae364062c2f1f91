"""The real agents that `make agents` has installed, each run bare: private HOME, a scripted model, no other host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from model import scripted_model
from model.clients import CLIENTS, point

if TYPE_CHECKING:
    from collections.abc import Mapping

USUAL = ("claude", "codex", "goose", "codex-acp", "srt")  # what `make agents` installs without ALL=1
LIMIT = 90  # seconds; the slowest needs ten on a busy machine
SESSIONS = {"claude": ".claude/projects", "codex": ".codex/sessions", "goose": ".local/share/goose/sessions"}


def program(name: str) -> Path:
    """Where `make agents` puts this agent's command, whether it is there or not."""
    here = Path(__file__).resolve().parents[2] / ".agents"
    return Path(os.environ.get("OVERHAND_AGENTS") or here) / "bin" / name


def require(name: str) -> None:
    """Skip where the agent is not installed; where OVERHAND_REQUIRE_AGENTS names it, that is an error."""
    if program(name).exists():
        return
    told = f"{name} is not installed: make agents" + ("" if name in USUAL else " ALL=1")
    if name in os.environ.get("OVERHAND_REQUIRE_AGENTS", "").split(","):
        pytest.fail(told)
    pytest.skip(told)


def command(name: str, prompt: str, *flags: str) -> list[str]:
    """The headless command line; flags go in front of the last word, which may belong to the prompt (-p, -t)."""
    words = CLIENTS[name].headless
    last = [words[-1]] if words[-1] in ("-p", "-t") else []
    return [str(program(name)), *words[1 : len(words) - len(last)], *flags, *last, prompt]


@dataclass(frozen=True)
class Ran:
    """What came of one run of an agent."""

    code: int
    out: str
    err: str
    log: list[dict[str, Any]]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON lines of its stream; some agents print other lines too."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    def turns(self, script: str) -> list[int]:
        """The turns of the script that it asked for, without requests that offer no tools (titles)."""
        return [row["turn"] for row in self.log if row.get("script") == script and row["tools"]]


def start(name: str, url: str, prompt: str, folder: Path, *flags: str) -> subprocess.Popen[str]:
    """Start the agent in `folder/work` with `folder/home` as its HOME, in a session of its own."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    return subprocess.Popen(
        command(name, prompt, *flags),
        cwd=work,
        env=point(name, url, str(home)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed until its end; nothing of it is left running."""
    try:
        return process.communicate(timeout=LIMIT)
    finally:
        kill(process)
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_bare(name: str, scripts: Mapping[str, object], prompt: str, folder: Path, *flags: str) -> Ran:
    """Run the agent to its end, against a model of its own."""
    with scripted_model(scripts) as model:
        process = start(name, model.url, prompt, folder, *flags)
        out, err = finish(process)
        return Ran(process.returncode, out, err, model.log())


def holds(sessions: Path, words: bytes) -> bool:
    """Whether some file in there has these words; files come and go while the agent runs."""
    for path in sessions.rglob("*"):
        try:
            if words in path.read_bytes():
                return True
        except OSError:
            continue
    return False
