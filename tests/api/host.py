"""A process of its own with function agents in it: a test answers them from outside, or kills it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from overhand.record import Store, read_log
from support.scene import until

if TYPE_CHECKING:
    from overhand.record import Task
    from overhand.record.task import Line
    from overhand.testing.project import ProjectDir

BEGIN = """
import asyncio, json, sys, threading
from pathlib import Path
from overhand import Project
from overhand.errors import *
from overhand.testing import functions

def say(*words):
    print(json.dumps(words), flush=True)

def told(result):
    return [result.status, result.cause, result.summary]

"""


@dataclass(frozen=True)
class Host:
    """The process, and the project it works in."""

    project: ProjectDir
    process: subprocess.Popen[str]

    def says(self) -> Any:
        """The next thing it says."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    def end(self) -> None:
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, out) == (0, ""), err

    def state(self, handle: int = 1) -> Task:
        store = Store(str(self.project.path))
        return store.task(store.resolve(str(handle)))

    def events(self, handle: int = 1) -> list[Line]:
        store = Store(str(self.project.path))
        return read_log(store.record(store.resolve(str(handle))))

    def asked(self, count: int = 1, handle: int = 1) -> None:
        """Wait until so many questions are open."""

        def look() -> bool:
            try:
                return sum(q.is_open for q in self.state(handle).questions) >= count
            except Exception:  # noqa: BLE001 -- the task is not there yet
                return False

        until(look, f"{count} open questions of task {handle}")

    def answer(self, *words: str) -> Any:
        return self.project.run("answer", *words, "--json", check=True).json


def host(project: ProjectDir, code: str) -> Host:
    """Run this in the project, outside any run."""
    project.run("trust", "--yes", check=True)
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + dedent(code)],
        cwd=project.path, env=project.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return Host(project, process)
