"""A project for a test: a folder with scripted agents, the `overhand` command in it, and cleanup."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.agents import runnable_files
from overhand.policy import file_digests, mark_trusted
from overhand.supervisor import SCREEN_SIGNS
from overhand.testing import processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORKER = {"worker": ("output",)}


@dataclass(frozen=True, slots=True)
class Ran:
    """One call of `overhand` that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class ProjectDir:
    """A project in a folder of its own, with a user-level configuration of its own."""

    path: Path
    config_home: Path
    trust: bool = True
    state_home: Path = Path()  # of the user; without one a folder of its own in `config_home`
    _changed: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        if self.state_home == Path():
            self.state_home = self.config_home / "state"

    @property
    def record(self) -> Path:
        """The project's record, in the user's state folder."""
        for facts in self.state_home.glob("overhand/projects/*/project.json"):
            if json.loads(facts.read_bytes())["paths"][:1] == [str(self.path)]:
                return facts.parent.resolve()
        return self.state_home / "overhand/projects/.none"

    def task_record(self, task_id: str) -> Path:
        """The record of a task: its log, its result and its runs."""
        return self.record / "tasks" / task_id

    def workspace(self, task_id: str) -> Path:
        """The folder of a task in the project: its documents."""
        return self.path / ".agent-workspaces" / task_id

    def agent(self, name: str, *actions: str, **overhand_keys: object) -> Path:
        """Add (or replace) a scripted agent; keywords go under `overhand:` in its file."""
        command = [sys.executable, "-m", "overhand.testing.agent", *actions]
        keys = {"driver": "command", "command": command, **overhand_keys}
        # JSON is YAML: any value can stand in the front matter as it is.
        shown = "".join(f"  {key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items())
        path = self.path / ".overhand/agents" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        front = f"name: {name}\ndescription: A scripted agent.\noverhand:\n{shown}"
        path.write_text(f"---\n{front}---\nDo what the script says.\n", encoding="utf-8")
        self._changed = True
        return path

    def config(self, text: str) -> None:
        """Write `.overhand/config.toml`."""
        (self.path / ".overhand").mkdir(parents=True, exist_ok=True)
        (self.path / ".overhand/config.toml").write_text(text, encoding="utf-8")
        self._changed = True

    def run(self, *args: str, check: bool = False, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        """Call `overhand ARGS` in the project; `check` raises if it does not end with 0."""
        process = self.start(*args, env=env)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if check and process.returncode:
            raise AssertionError(f"overhand {' '.join(args)} ended with {process.returncode}\n{out}{err}")
        return Ran(process.returncode, out, err)

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start `overhand ARGS` in the project and return at once, for a test that watches or kills it."""
        if self.trust and self._changed and args[:1] != ("trust",):
            self.trust_files()
        return subprocess.Popen(
            [sys.executable, "-m", "overhand", *args],
            cwd=self.path,
            env={**self.environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def trust_files(self) -> None:
        """What is on disk now is trusted, as by `overhand trust --yes`; it takes no process where this one sees the
        project's user-level configuration."""
        self._changed = False
        if os.environ.get("XDG_CONFIG_HOME") == str(self.config_home):
            root = str(self.path)
            mark_trusted(root, file_digests(root, runnable_files(root)))
        else:
            self.run("trust", "--yes", check=True)

    def environment(self) -> dict[str, str]:
        """The environment of a person in this project: not inside a run, with a private configuration, and with no
        screen on which notes of tests would appear."""
        outside = {
            name: value for name, value in os.environ.items() if not name.startswith(("OVERHAND_", *SCREEN_SIGNS))
        }
        return {**outside, "XDG_CONFIG_HOME": str(self.config_home), "XDG_STATE_HOME": str(self.state_home)}

    def cleanup(self) -> None:
        """End every process that the project started, and wait until they are gone."""
        if processes.of_project(self.path):
            self.trust = False  # stopping needs no trust, and what is on disk now may not deserve it
            try:
                self.run("stop", "--all", "--now", timeout=30)
            except subprocess.TimeoutExpired:
                pass  # what it could not stop is killed below
        processes.end_all(self.path)
        shutil.rmtree(self.record, ignore_errors=True)
        shutil.rmtree(self.config_home, ignore_errors=True)


def make_project(
    path: str | os.PathLike[str],
    agents: Mapping[str, Sequence[str]] | None = None,
    git: bool = False,
    config: str = "",
    trust: bool = True,
) -> ProjectDir:
    """Make a project: agents by name with their actions (default: a `worker` that completes).

    With `trust`, what is on disk is trusted (`overhand trust --yes`) before the first call after each change.
    """
    folder = Path(path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    project = ProjectDir(folder, Path(tempfile.mkdtemp(prefix="overhand-config-")), trust)
    project.config(config)
    (folder / ".overhand/.gitignore").write_text("local.toml\n", encoding="utf-8")
    for name, actions in (WORKER if agents is None else agents).items():
        project.agent(name, *actions)
    if git:
        _commit(folder)
    return project


def _commit(folder: Path) -> None:
    """A repository with one commit, whatever the user's own git configuration says."""
    settings = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Start"]):
        subprocess.run(["git", *settings, *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
