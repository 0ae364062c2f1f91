"""A project, a private HOME and a scripted model for one real agent, driven through the `overhand` command."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from model import ScriptedModel, scripted_model
from model.clients import point
from overhand.agents import native_session
from overhand.record import Store
from overhand.system import environment_of, process_table
from overhand.testing.project import ProjectDir, Ran
from support import scene
from support.installed import program, require
from support.warm import make_project

LIMIT = 180.0  # seconds; three slow agents, one in the other, on a busy machine
FIRST = ("claude", "codex", "goose")
REST = ("gemini", "opencode", "qwen")
SOURCE = str(Path(__file__).resolve().parents[2] / "src")
T = TypeVar("T")


def output(status: str = "completed", summary: str = "It is done.", files: str = "") -> str:
    """An OUTPUT.md as an agent should write it."""
    named = f"\n## Files Modified\n- `{files}` — written\n" if files else ""
    return f"# Task Complete: it\n\n**Status:** {status}\n\n## Summary\n{summary}\n{named}"


def returns(**said: str) -> dict[str, Any]:
    """The turn that writes it."""
    return {"ops": [{"write": {"path": "{output}", "content": output(**said)}}]}


def until(look: Callable[[], T | None], what: str = "it", timeout: float = LIMIT) -> T:
    """The same, with more patience."""
    return scene.until(look, what, timeout)


@dataclass
class House(ProjectDir):
    """The project of one agent; its environment is the agent's, with `overhand` on its PATH."""

    name: str = ""
    home: Path = Path()
    model: ScriptedModel = field(default=None)  # type: ignore[assignment] # always given
    environ: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Nothing of ours but what the model and the agent need."""
        return dict(self.environ)

    def delegate(self, title: str, *words: str, wait: bool = True) -> dict[str, Any]:
        """Delegate to the agent; the judged result, or with `wait=False` what `delegate` says."""
        agent: tuple[str, ...] = () if "--agent" in words else ("--agent", self.name)
        more = ("--wait",) if wait else ()
        ran = self.run("delegate", title, *agent, *words, *more, "--json", timeout=LIMIT)
        assert ran.out, ran.err
        return dict(ran.json)

    def show(self, handle: object = "1") -> dict[str, Any]:
        return dict(self.run("show", str(handle), "--json", check=True).json)

    def judged(self, handle: object = "1") -> dict[str, Any]:
        """The task, as soon as it is judged."""
        self.run("wait", str(handle), timeout=LIMIT)
        return self.show(handle)

    def sessions(self, handle: object = "1") -> list[str]:
        """The native session of each run."""
        store = Store(str(self.path), str(self.record))
        task = store.task(store.resolve(str(handle)))
        return [native_session(store, task, run) for run in task.runs]

    def stream(self, run: Mapping[str, Any]) -> str:
        (found,) = self.record.glob(f"tasks/*/runs/{run['id']}")
        return (found / "stdout").read_text(errors="replace") + (found / "stderr").read_text(errors="replace")

    def live_run(self, handle: object = "1") -> str:
        """The run that is at work, as soon as there is one."""
        return str(until(lambda: [r["id"] for r in self.show(handle)["runs"] if r["state"] == "running"])[-1])

    def turns(self, script: str) -> list[int]:
        """The turns of a script that the agent asked for, in their order; requests without tools (titles) left out."""
        return [row["turn"] for row in self.rows(script)]

    def rows(self, script: str) -> list[dict[str, Any]]:
        return [row for row in self.work() if row.get("script") == script]

    def work(self) -> list[dict[str, Any]]:
        """Requests that offer tools, for the work itself: Qwen Code now and then asks what to remember of it."""
        return [r for r in self.model.log() if r.get("tools") and not r["said"].startswith("Managed memory")]

    def spent(self) -> tuple[int, int]:
        """What the model itself says it was asked and said, in tokens."""
        rows = [row for row in self.model.log() if row.get("tools")]  # titles are in no agent's account
        return sum(row.get("input", 0) for row in rows), sum(row.get("output", 0) for row in rows)

    def running(self, run: str) -> dict[int, str]:
        """Processes of a run, by the marker in their environment, with their command lines."""
        found = [pid for pid in process_table() if environment_of(pid, "OVERHAND_RUN") == run]
        return {pid: " ".join(_argv(pid)) for pid in found if _argv(pid)}

    def is_over(self, run: str) -> None:
        """Wait until nothing is left of a run that ended by itself: whoever still was at its end keeps the shim waiting
        for a second."""
        until(lambda: not self.running(run), "the end of all of it")

    def processes_of_agent(self, run: str) -> dict[int, str]:
        """Of those the agent's own, launcher and real program: not the shim, nor what its tools run."""
        names = (self.name, f"{self.name}.js", f"bin/{self.name}", f"{self.name}-")
        return {
            pid: line
            for pid, line in self.running(run).items()
            if any(name in word for word in line.split()[:2] for name in names) and "/bin/sh" not in line.split()[0]
        }


def _argv(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def kill(pids: Mapping[int, str] | list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def tree(folder: Path, *without: str) -> dict[str, str]:
    """Every file below, with a hash of its bytes; folders of these names are left out."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in without]
        for name in names:
            path = Path(place, name)
            found[str(path.relative_to(folder))] = (
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else os.readlink(path)
            )
    return found


@contextlib.contextmanager
def house(
    name: str, folder: Path, scripts: Mapping[str, object], config: str = "", git: bool = False
) -> Iterator[House]:
    """Everything one agent needs, and a clean end of it.

    Not below /dev, where `--memory` has its folders: with bubblewrap, Codex's sandbox has a /dev of its own.
    """
    require(name)
    with tempfile.TemporaryDirectory(prefix="overhand-agent-", dir="/var/tmp") as outside:
        yield from _house(name, Path(outside) if str(folder).startswith("/dev/") else folder, scripts, config, git)


def _house(name: str, folder: Path, scripts: Mapping[str, object], config: str, git: bool) -> Iterator[House]:
    home, tools = folder / "home", folder / "bin"
    home.mkdir()
    tools.mkdir()
    ours = tools / "overhand"
    ours.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -P -m overhand "$@"\n')
    ours.chmod(0o755)
    made = make_project(folder / "project", agents={}, config=config, git=git)
    made.cleanup()  # its folder of settings: the agent's HOME has one
    with scripted_model(scripts) as model:
        environ = point(name, model.url, str(home))
        environ["PATH"] = os.pathsep.join((str(tools), str(program(name).parent), environ["PATH"]))
        environ["PYTHONPATH"] = SOURCE
        environ["GEMINI_MODEL"] = "gemini-2.5-pro"  # else a model chooses the model
        environ["PYTHONDONTWRITEBYTECODE"] = "1"
        state = Path(environ["XDG_STATE_HOME"])
        place = House(made.path, home / ".config", state_home=state, name=name, home=home, model=model, environ=environ)
        try:
            yield place
        finally:
            place.cleanup()


__all__ = ["FIRST", "REST", "House", "Ran", "house", "kill", "output", "returns", "tree", "until"]
