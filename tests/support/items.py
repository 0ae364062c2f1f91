"""A project whose Markdown holds items: what tests write there, read and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from overhand.documents import scan_tags, stage_of_tag
from overhand.items import approve_item, resolve_item, sync_tag
from overhand.policy import Actor, Caller, load_config
from overhand.record import Task
from overhand.system import exit_code, reap_children
from support.scene import QUICK, Scene, until
from support.soak import was_killed
from support.warm import Project

BY = {"kind": "overhand", "via": "test"}
REQUEST = """# Fix Request: The map pauses

**Tags**: #needs-fix #P1

## What
The map pauses when one zooms in.
"""
NOTES = "# Notes\n\n- buy oil\n- repair the clock #needs-chores #P1 #S\n- sweep\n"
AT = "requests/FIX_REQUEST_MAP.md"
INLINE = "requests/CHORES_REQUEST_REPAIR_THE_CLOCK.md"
GATES: dict[Path, int] = {}  # open for as long as the tests run
KILLED_AT = Path(__file__).with_name("killed_at.py")


class House(Scene):
    """One project with items."""

    def settings(self, text: str) -> None:
        """The user's own settings."""
        folder = self.project.config_home / "overhand"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(text)

    def trusted(self) -> None:
        """What is on disk now is trusted, without a verb."""
        self.project.trust_files()

    def another(self, name: str) -> House:
        """A further project of the same user, with a worker that is one line of shell."""
        path = self.path.parent / name
        (path / ".overhand").mkdir(parents=True)
        house = House(Project(path, self.project.config_home, state_home=self.project.state_home))
        house.shell("worker", QUICK)
        house.trusted()
        return house

    def waiting_worker(self, then: str = "true") -> None:
        """A worker that waits, without a busy loop, until it is let go."""
        os.mkfifo(self.path / "go")
        GATES[self.path] = os.open(self.path / "go", os.O_RDWR)  # what is written stays there until it is read
        self.shell("worker", f": >up; read word <go; {then}")  # by itself: a `touch` may outlive what it made
        self.trusted()

    def let_go(self) -> None:
        """The waiting worker goes on, also one that has not begun to wait yet."""
        os.write(GATES[self.path], b"\n")

    @property
    def work(self) -> Actor:
        return Actor(self.store, load_config(str(self.path)), BY)

    def write(self, path: str = AT, text: str = REQUEST) -> Path:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, path: str = AT) -> str:
        return (self.path / path).read_text()

    def tags(self, path: str = AT) -> list[tuple[str, str]]:
        """Live tags with a stage, and the ids behind them."""
        raw = (self.path / path).read_bytes()
        return [(tag.name, tag.task) for tag in scan_tags(raw) if stage_of_tag(tag.name)]

    def tag(self, path: str = AT) -> str:
        ((name, _),) = self.tags(path)
        return name

    def retag(self, old: str, new: str, path: str = AT) -> None:
        """Somebody types another tag, in an editor that writes the whole file."""
        text = self.read(path)
        assert old in text
        self.write(path, text.replace(old, new, 1))

    def approve(self, item: str = f"{AT}#fix", *args: str) -> str:
        """The task that an approval made."""
        (row,) = self.json("item", "approve", item, *args)["approved"]
        return str(row["task_id"])

    def prepared(self, item: str = f"{AT}#fix", stage: str = "delegated") -> str:
        """Approved while no supervisor may start it."""
        place = resolve_item(str(self.path), str(self.path), item)
        return approve_item(Actor(self.store, load_config(str(self.path)), Caller().by("test")), place, stage=stage).id

    def items(self) -> list[str]:
        """Tasks that an approval made, and that were not refused."""
        found = [task for task in self.store.tasks() if task.item]
        return [task.id for task in found if task.status != "rejected"]

    def show(self, task: str) -> Task:
        return sync_tag(self.store, BY, task)

    def agent_ended(self, task: str) -> None:
        """Its run is over, and nobody has looked yet."""
        place = self.place(task)

        def look() -> bool:
            reap_children()
            return exit_code(str(place)) is not None  # the file is there a moment before its line is

        until(look, "the end of the agent")

    def waits(self) -> dict[str, str]:
        """Every item of the list, and what it waits for."""
        return {row["item"]: row["waits"] for row in self.json("item", "list")["items"]}

    def kill_at(self, point: int, step: str, *args: str) -> bool:
        """Run a step that is killed at its Nth write; False if it had fewer."""
        ran = subprocess.run(
            [sys.executable, str(KILLED_AT), str(self.path), str(point), step, *args],
            cwd=self.path,
            env=self.project.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ran.returncode in (0, -9), f"{step} at {point}: {ran.returncode} {ran.stdout} {ran.stderr}"
        return was_killed(ran.returncode)

    def plain(self, path: str = AT) -> str:
        """A file with what differs from run to run taken out."""
        text = re.sub(r"sess_\d+_\w{6}", "RUN", self.read(path))
        text = re.sub(r"worker-\d{8}-\d{6}(-\d+)?", "TASK", text)
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", text)

    def hidden(self) -> list[str]:
        """Files that a kill left beside the documents."""
        return [name for _, _, names in os.walk(self.path / "requests") for name in names if name.startswith(".")]
