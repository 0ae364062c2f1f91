"""Somebody who tries what a page says, block after block, in a project of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from docs.pages import Block, Command, blocks, commands
from overhand.testing.project import ProjectDir
from support import player

_PATIENCE = 60
_VARIES = (
    (re.compile(r"\b\d{8}-\d{6}(-\d+)?\b"), "DATE"),
    (re.compile(r"\bsess_\d+_[0-9a-z]{6}\b"), "RUN"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "STAMP"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\bchecks-[0-9a-z]{6}\b"), "checks-AGAIN"),
    (re.compile(r"\b\d+(\.\d+)?( ?s\b| seconds?\b)"), "SECONDS"),
    (re.compile(r"\b(shim=|left behind: )\d+"), r"\1PID"),
)


@dataclass(slots=True)
class Reader:
    """A reader, their project, and the exit status of what they typed last."""

    project: ProjectDir
    page: Path
    players: Path | None = None
    """A folder with programs that play coding agents; it is their HOME too."""
    status: int = 0

    def read(self) -> None:
        """The whole page."""
        for block in blocks(self.page):
            if block.told == "not run":
                assert block.value, f"{self.page.name}:{block.line}: say why it is not run"
            elif block.told == "file":
                self.save(block)
            elif block.language == "console":
                self.type_all(block)
            elif block.language == "sh":
                self.run(["sh", "-e", "-c", block.text], block.line)
            elif block.language == "python":
                self.run_python(block)

    def save(self, block: Block) -> None:
        path = self.project.path / block.value
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def type_all(self, block: Block) -> None:
        """Each command; one that fails is followed by `echo $?`, so that the page tells its exit status."""
        typed = commands(block)
        for number, command in enumerate(typed):
            after = typed[number + 1].text if number + 1 < len(typed) else ""
            self.type_one(command, may_fail=after == "echo $?")

    def type_one(self, command: Command, *, may_fail: bool) -> None:
        script = f"(exit {self.status})\n{command.text}"
        ran = self.start(["sh", "-c", script])
        self.status = ran.returncode
        where = f"{self.page.name}:{command.line}: $ {command.text}"
        assert may_fail or self.status == 0, f"{where}\nended with {self.status}\n{ran.stdout}"
        must_show(command.shown, ran.stdout, where)

    def run_python(self, block: Block) -> None:
        """Each `print(…)  # text` prints that text."""
        said = self.run([sys.executable, "-c", block.text], block.line)
        lines = [line for line in block.text.splitlines() if line.lstrip().startswith("print(") and "  # " in line]
        shown = tuple(line.rpartition("  # ")[2] for line in lines)
        must_show(shown, said, f"{self.page.name}:{block.line}")

    def run(self, argv: list[str], line: int) -> str:
        ran = self.start(argv)
        assert ran.returncode == 0, f"{self.page.name}:{line} ended with {ran.returncode}\n{ran.stdout}"
        return ran.stdout

    def start(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        """In the project, with the `overhand` that is being tested first on PATH."""
        programs = os.path.dirname(sys.executable)
        env = {**self.project.environment(), "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        # a pytest that a page runs would take its time to remove what other sessions left in the place of all
        env["PYTEST_DEBUG_TEMPROOT"] = str(self.project.path.parent)
        if self.players:  # no key, login or program of whoever runs the tests counts
            kept = ("XDG_CONFIG_HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "TMPDIR", "LANG")
            env = {name: env[name] for name in kept if name in env}
            env |= {
                "HOME": str(self.players),
                "PATH": f"{self.players}:{programs}:{os.defpath}",
                "ANTHROPIC_API_KEY": "-",
            }
        return subprocess.run(
            argv,
            cwd=self.project.path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )


def reader(page: Path, folder: Path, *players: str) -> Reader:
    """A reader in an empty git repository, who has these coding agents."""
    folder.mkdir()
    project = ProjectDir(folder.resolve(), Path(tempfile.mkdtemp(prefix="overhand-config-")), trust=False)
    git = shutil.which("git")
    assert git, "git is needed"
    subprocess.run([git, "init", "-q", "-b", "main", str(project.path)], check=True)
    return Reader(project, page, player.put(folder.with_name("players"), *players) if players else None)


def must_show(shown: tuple[str, ...], said: str, where: str) -> None:
    """The lines that a page shows are in the output, in that order; `…` stands for whatever was left out."""
    rest = [steady(line) for line in said.splitlines()]
    for line in shown:
        wanted = steady(line)
        if wanted in ("", "…"):
            continue
        at = next((number for number, one in enumerate(rest) if fits(one, wanted)), None)
        assert at is not None, f"{where}\nshows a line that is not in the output:\n{line}\n\nThe output was:\n{said}"
        rest = rest[at + 1 :]


def steady(line: str) -> str:
    """Without what differs each time: ids, times, durations, columns."""
    for pattern, word in _VARIES:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def fits(line: str, wanted: str) -> bool:
    """Whether a line is the wanted one, `…` being anything."""
    first, *others = wanted.split("…")
    if not others:
        return line == wanted
    if not line.startswith(first):
        return False
    place = len(first)
    for part in others:
        found = line.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return not others[-1] or line.endswith(others[-1])
