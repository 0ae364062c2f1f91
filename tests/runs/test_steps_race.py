"""`step` while others write to the same HANDOFF.md, at the same time and at the worst moment."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.documents import parse_handoff
from overhand.errors import Busy, NotFound
from overhand.runs import failed_suffix, mark_step, read_steps, step_progress, steps
from overhand.system import Beneath, edit_file, edits
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.system import Patch
    from support.scene import Scene

PLAN = "# Task Handoff\n\n## Task\nCount\n\n## Plan\n" + "".join(f"- [ ] step {n}.\n" for n in range(1, 9))

# An agent with a counter of its own, which it writes in one of three ways until it is told to stop. What it writes
# back is what it has just read, so a mark that it saw stays; `stop` is looked at before a round, never within one.
WRITER = """
import os, sys
path, way, stop = sys.argv[1:]
count = 0
held = os.open(path, os.O_RDWR) if way == "held" else -1
while not os.path.exists(stop):
    count += 1
    line = b"counter %08d\\n" % count
    if way == "held":
        os.pwrite(held, line, 0)
    elif way == "place":
        with open(path, "r+b", buffering=0) as file:
            file.write(line)
    else:
        with open(path, "rb") as file:
            rest = file.read().partition(b"\\n")[2]
        pad = b"x" * (count % 7)  # the plan moves all the time
        head = line[:-1] + pad + b"\\n"
        if way == "rename":
            with open(path + ".new", "wb") as file:
                file.write(head + rest)
            os.rename(path + ".new", path)
        else:
            with open(path, "wb", buffering=0) as file:
                file.write(head)
                file.write(rest)
    with open(stop + ".count", "w") as file:
        file.write(str(count))
print(count)
"""


class Writer:
    """A foreign process at work on a file."""

    def __init__(self, path: Path, way: str) -> None:
        self.stop = path.parent / "stop"
        words = [sys.executable, "-c", WRITER, str(path), way, str(self.stop)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        until((path.parent / "stop.count").exists, "the writer at work")

    def ended(self) -> int:
        self.stop.touch()
        out, _ = self.process.communicate(timeout=30)
        return int(out)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "HANDOFF.md"
    path.write_text("counter 00000000\n" + PLAN)
    return path


@pytest.fixture
def writers() -> Iterator[list[Writer]]:
    made: list[Writer] = []
    yield made
    for writer in made:
        if writer.process.poll() is None:
            writer.process.kill()
            writer.process.wait()


@pytest.mark.parametrize("way", ["rename", "truncate", "place", "held"])
@pytest.mark.parametrize("kind", ["byte", "length"])
def test_no_byte_of_a_foreign_writer_is_lost(path: Path, writers: list[Writer], way: str, kind: str) -> None:
    writers.append(Writer(path, way))
    marked = refused = kept = 0
    rounds = 120 if way != "held" else 8
    for number in range(1, rounds + 1):
        state = ("x", " ")[number % 2] if kind == "byte" else ("!", " ")[number % 2]
        suffix = failed_suffix(f"round {number}") if state == "!" else None
        try:
            mark_step(Beneath(str(path.parent)), f"step {number % 8 + 1}.", state, suffix)
            marked += 1
        except Busy as error:
            refused += 1
            kept += "is kept as" in error.message
        except NotFound:  # truncated, and not yet written again: no plan for a moment
            refused += 1
    count = writers[0].ended()
    text = path.read_text()
    assert text.startswith(f"counter {count:08d}"), "its last word stands"
    assert text.partition("\n")[2].startswith("# Task Handoff\n\n## Task\nCount\n\n## Plan\n")
    assert "\0" not in text
    assert [one.text for one in parse_handoff(text).plan] == [f"step {n}." for n in range(1, 9)]
    assert marked + refused == rounds
    assert marked if (way, kind) != ("held", "length") else refused, "a file that is held open is not replaced"
    assert len(os.listdir(path.parent)) == 3 + kept, "nothing is left beside it that was not told"
    for number in range(1, 9):  # it has stopped: now they stay
        mark_step(Beneath(str(path.parent)), str(number), "x")
    assert step_progress(path.read_bytes()) == (8, 8, "")


def test_a_reader_does_not_stand_in_the_way(path: Path) -> None:
    with path.open("rb") as reader:
        reader.read(3)
        mark_step(Beneath(str(path.parent)), "1", "x")
        mark_step(Beneath(str(path.parent)), "2", "!", failed_suffix("why"))
    assert "- [x] step 1.\n- [!] step 2. — why\n" in path.read_text()


def test_eight_processes_mark_eight_steps(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(PLAN)
    scene.agent("worker", "output")
    task = scene.json("delegate", "--handoff", str(tmp_path / "plan.md"), "--agent", "worker", "--no-start")["task_id"]
    document = Path(scene.store.workspace(task)) / "HANDOFF.md"
    before = document.read_text()
    words = [["done"], ["error", f"--reason=all {'long ' * 9}"], ["doing"], ["blocked", "--question", "7"]]
    started = [scene.project.start("step", task, str(n), *words[n % 4]) for n in range(1, 9)]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
    plan = parse_handoff(document.read_text()).plan
    assert [step.marker for step in plan] == ["!", "~", "?", "x"] * 2
    assert sorted(event["n"] for event in scene.events(task, "step")) == list(range(1, 9))
    for number in range(1, 9):
        scene.project.run("step", task, str(number), "open", check=True)
    assert document.read_text() == before


@pytest.mark.parametrize("kills", [3, pytest.param(25, marks=pytest.mark.soak)])
def test_killed_at_any_moment_leaves_a_whole_file(path: Path, kills: int) -> None:
    whole = path.read_bytes()
    loop = (
        "import sys; from overhand.runs import steps; from overhand.system import Beneath\n"
        "path = Beneath(sys.argv[1]); print(flush=True)\n"
        "while True:\n"
        "    steps.mark_step(path, '3', '!', steps.failed_suffix('it broke badly'))\n"
        "    steps.mark_step(path, '3', ' ')\n"
        "    steps.mark_step(path, '5', 'x'); steps.mark_step(path, '5', ' ')\n"
    )
    failed = whole.replace(b"- [ ] step 3.", "- [!] step 3. — it broke badly".encode())
    possible = {one.replace(b"[ ] step 5", mark) for one in (whole, failed) for mark in (b"[ ] step 5", b"[x] step 5")}
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", loop, str(path.parent)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline(), "it never began"
        moment = random.random() * 0.01
        try:
            process.wait(moment)  # it never ends by itself: this is only the moment of the kill
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        assert path.read_bytes() in possible
    left = [name for name in os.listdir(path.parent) if name != "HANDOFF.md"]
    assert all(name.startswith(".HANDOFF.md.") and name.endswith((".tmp", ".tmp.old")) for name in left)
    mark_step(Beneath(str(path.parent)), "3", " ")
    mark_step(Beneath(str(path.parent)), "5", " ")
    assert path.read_bytes() == whole


def test_names_change_places_without_the_system_call(path: Path) -> None:
    """Where there is no exchange: three calls, and the path names a whole file after each."""
    spare = path.parent / "spare"
    spare.write_text("new")
    old = path.read_text()
    edits.exchange_by_links(str(spare), str(path))
    assert (path.read_text(), spare.read_text()) == ("new", old)
    assert sorted(os.listdir(path.parent)) == ["HANDOFF.md", "spare"]


class Interruption:
    """Writes to the file just when a change was decided: the latest moment that a test can reach from outside."""

    def __init__(self, path: Path, way: str) -> None:
        self.path, self.way, self.done = path, way, False

    def change(self, raw: bytes) -> Patch | None:
        item = steps.choose(read_steps(raw), "step 2.")
        if not self.done:
            self.done = True
            newer = raw.replace(b"counter 00000000", b"counter 00000001, longer")
            if self.way == "rename":
                (self.path.parent / "new").write_bytes(newer)
                os.rename(self.path.parent / "new", self.path)
            else:  # from another process: it is held up until our change is made, and then comes after it
                code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
                self.process = subprocess.Popen([sys.executable, "-c", code, self.path], stdin=subprocess.PIPE)
                assert self.process.stdin is not None
                self.process.stdin.write(newer)
                self.process.stdin.close()
        return steps.patch(raw, item, "!", failed_suffix("why"))


def test_a_file_that_is_replaced_meanwhile_is_marked_again(path: Path) -> None:
    edit_file(str(path), Interruption(path, "rename").change)
    text = path.read_text()
    assert text.startswith("counter 00000001, longer\n")
    assert "- [!] step 2. — why\n" in text


def test_who_comes_meanwhile_comes_before_or_after(path: Path) -> None:
    interruption = Interruption(path, "truncate")
    try:
        edit_file(str(path), interruption.change)
    except NotFound:
        pass  # truncated, and for a while not written again: there was nothing to change
    assert interruption.process.wait(30) == 0
    assert path.read_text().startswith("counter 00000001, longer\n"), "it was not lost"
    assert [name for name in os.listdir(path.parent) if name != "HANDOFF.md"] == []
