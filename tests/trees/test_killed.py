"""kill -9 at every step of a landing: afterwards it has happened, or it has not, and no file of the user's is touched.

`attack/preload.c` kills the process at its Nth call that changes something below the project; the git that it had
started goes on, as it would for a user. A recovery is killed in the same way, and git itself inside update-ref.
"""

from __future__ import annotations

import random
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from attack.harness import Point, kill_points, library
from support.soak import lots
from trees.ground import PROGRAM, Ground, Link, Program, put

if TYPE_CHECKING:
    from pathlib import Path

    from support.tally import Tally
    from trees.ground import Content

KINDS = "space,name,signal,lock,spawn"
LOTS = 6
LEAST = 70  # points of a landing
FILES: dict[str, Content] = {
    "a.txt": "one\ntwo\n",
    "gone.txt": "gone\n",
    "dir/x.txt": "x\n",
    "dir/deep/y.txt": "y\n",
    "swap/inner.txt": "a folder\n",
    "run.sh": "#!/bin/sh\n",
    "link": Link("a.txt"),
    "other.txt": "other\n",
    "staged.txt": "s\n",
    ".gitattributes": "*.crlf text eol=crlf\n",
}
WORK: dict[str, Content] = {
    "a.txt": "one\nTWO\n",
    "gone.txt": None,
    "dir/deep/y.txt": None,
    "swap": "a file\n",
    "new/er/n.txt": "new\n",
    "run.sh": Program("#!/bin/sh\n"),
    "link": Link("other.txt"),
    "w.crlf": "1\n2\n",
}


MINE: dict[str, Content] = {"other.txt": "edited\n", "staged.txt": "s2\n", "mine.txt": "mine\n", "x.ignored": "mine\n"}
IN_REFS = ["/HEAD.lock", "/main.lock", "/refs/heads/main", "/logs/HEAD", "/logs/refs/heads/main"]


class Range:
    """A landing that is prepared once, killed in copies, and compared with what it should have left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.pattern = pattern = Ground.make(folder / "pattern", FILES)
        pattern.work(WORK)
        put(
            pattern.top,
            {"other.txt": "edited\n", "staged.txt": "staged\n", "mine.txt": "mine\n", "x.ignored": "mine\n"},
        )
        pattern.git("add", "staged.txt")
        pattern.prepare()
        self.old = pattern.state()
        with self.copied() as whole:
            assert whole.run("land").returncode == 0
            assert whole.left() == []
            self.new = whole.state()
        self.calls = self.traced("land")

    def copied(self) -> Copied:
        self.count += 1
        return Copied(self.pattern, self.folder / f"copy{self.count}")

    def traced(self, what: str) -> list[str]:
        with self.copied() as ground:
            ground.run(what, **armed(ground, what, None))
            return (ground.folder / "trace").read_text().splitlines()

    def holds(self, ground: Ground) -> str:
        """Which of the two states this is; that nothing is left; that what was not landed can still be."""
        found = ground.state()
        name = "new" if found["head"] == self.new["head"] else "old"
        assert found == (self.new if name == "new" else self.old)
        assert ground.left() == []
        return name


class Copied:
    """A copy of a ground, which is gone afterwards unless something failed."""

    def __init__(self, pattern: Ground, folder: Path) -> None:
        self.pattern, self.folder = pattern, folder

    def __enter__(self) -> Ground:
        return self.pattern.copy(self.folder)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self.folder)


def armed(ground: Ground, what: str, point: Point | None) -> dict[str, str]:
    """The variables that make our process the victim; its claim is taken back, so that there can be a second one."""
    for name in ("claim", "fired", "trace"):
        (ground.folder / name).unlink(missing_ok=True)
    found = {
        "LD_PRELOAD": library(),
        "FAULT_PROCESS": f"{PROGRAM} {what}",
        "FAULT_CLAIM": str(ground.folder / "claim"),
        "FAULT_BELOW": str(ground.top),
        "FAULT_KINDS": KINDS,
        "FAULT_TRACE": str(ground.folder / "trace"),
        "FAULT_FIRED": str(ground.folder / "fired"),
    }
    return found | ({"FAULT_AT": str(point.number), "FAULT_HOW": point.how} if point else {})


@pytest.fixture(scope="session")
def range_(tmp_path_factory: pytest.TempPathFactory) -> Range:
    return Range(tmp_path_factory.mktemp("range"))


def test_there_are_enough_points(range_: Range) -> None:
    assert len(kill_points(range_.calls)) >= LEAST, range_.calls


@pytest.mark.parametrize("lot", lots(LOTS))
def test_every_step(range_: Range, lot: int, tally: Tally) -> None:
    ends = {"old": 0, "new": 0}
    points = kill_points(range_.calls)[lot::LOTS]
    for point in points:
        with range_.copied() as ground:
            done = ground.run("land", **armed(ground, "land", point))
            assert done.returncode == -signal.SIGKILL, (point, done.stderr)
            ground.recover()
            end = range_.holds(ground)
            ends[end] += 1
            if lot == 0 and end == "old":
                assert ground.run("land").returncode == 0
                assert range_.holds(ground) == "new"
    tally("Kills of a landing", len(points))
    assert sum(ends.values()) == len(points)


@pytest.mark.parametrize("lot", lots(6))
def test_killed_twice(range_: Range, lot: int, tally: Tally) -> None:
    """The recovery is killed, too; a second one completes or takes back what both of them left."""
    dice = random.Random(lot)
    tried = 0
    for point in dice.sample(kill_points(range_.calls), 10):
        with range_.copied() as ground:
            ground.run("land", **armed(ground, "land", point))
            done = ground.run("recover", **armed(ground, "recover", Point(dice.randrange(1, 30))))
            assert done.returncode in (0, -signal.SIGKILL), done.stderr
            tried += done.returncode != 0
            ground.recover()
            range_.holds(ground)
    tally("Kills of a landing and of its recovery", tried)


def inside_update_ref(ground: Ground, number: int, where: str) -> dict[str, Any]:
    """Git's own process dies at its Nth change to this file; no claim: whichever git changes it."""
    found = armed(ground, "land", Point(number)) | {"FAULT_PROCESS": "core.hooksPath=", "FAULT_WHERE": where}
    del found["FAULT_CLAIM"]
    return found


@pytest.mark.parametrize("where", IN_REFS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_git_is_killed_inside_update_ref(range_: Range, where: str, number: int, tally: Tally) -> None:
    with range_.copied() as ground:
        done = ground.run("land", **inside_update_ref(ground, number, where))
        assert done.returncode in (0, 1), done.stderr
        fired = (ground.folder / "fired").exists()
        ground.recover()
        name = range_.holds(ground)
        assert fired or name == "new"
    tally("Kills of git inside update-ref", int(fired))


@pytest.mark.parametrize("lot", lots(4))
def test_git_is_killed_anywhere(range_: Range, lot: int, tally: Tally) -> None:
    """Every git that comes to its Nth change below the project dies there; our process sees it fail."""
    killed = 0
    for number in range(1 + lot, 25, 4):
        with range_.copied() as ground:
            found = armed(ground, "land", Point(number)) | {"FAULT_PROCESS": "core.hooksPath="}
            del found["FAULT_CLAIM"]
            done = ground.run("land", **found)
            assert done.returncode in (0, 1), done.stderr
            killed += (ground.folder / "fired").exists()
            ground.recover()
            assert range_.holds(ground) == ("old" if done.returncode else "new")
    tally("Kills of a landing's git", killed)
