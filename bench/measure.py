"""What every figure needs: projects of their own, clocks, medians, and a description of the machine."""

from __future__ import annotations

import atexit
import fcntl
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from overhand.supervisor import SCREEN_SIGNS
from overhand.testing import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    Figures = TypeVar("Figures")

HERE = Path(__file__).parent
PYTHON = sys.executable
OVERHAND = str(Path(PYTHON).parent / "overhand")

DISK = os.environ.get("OVERHAND_BENCH_DIR") or "/var/tmp"  # noqa: S108 -- mkdtemp makes a folder of our own in it

median = statistics.median

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
_TOP_OF_HIERARCHY = 0x00020000  # FS_TOPDIR_FL


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was measured, what was asked for, and whether it is met."""

    what: str
    measured: str  # empty: it could not be measured here
    bar: str
    aim: str
    meets_bar: bool
    meets_aim: bool | None  # None: the issue names no aim
    note: str = ""

    @property
    def verdict(self) -> str:
        """In one word."""
        if not self.measured:
            return "not measured"
        if not self.meets_bar:
            return "misses the bar"
        return {True: "aim", False: "bar", None: "holds"}[self.meets_aim]


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on a real disk (in memory, durability would cost nothing), outside any repository, in a quiet place.

    Quiet, because ext4 passes over every inode that was deleted in the last minutes, one by one: after a test suite or
    an earlier benchmark in the same block group, making a file takes twenty times as long, and nothing else would be
    measured. So a few folders are made far apart, the one where folders and files are made fastest is taken, and
    nothing is deleted before all is measured.
    """
    around = Path(tempfile.mkdtemp(prefix="overhand-bench-", dir=DISK))
    atexit.register(shutil.rmtree, around, ignore_errors=True)
    _spread_out(around)
    places = [around / f"project{os.urandom(4).hex()}" for _ in range(12)]  # ext4 goes by the name
    for place in places:
        place.mkdir()
    place = min(places, key=lambda one: _new_folders(one / "at-first"))
    try:
        yield place
    finally:
        for project in (place, place / "project"):  # their supervisors would go on until they have nothing to do
            for pid in processes.supervisors(project):
                os.kill(pid, signal.SIGKILL)


def steady(figures: Callable[[Path], Figures]) -> Figures:
    """What comes of figures for which many files are made, in a folder where that takes no longer at their end.

    They may have reached a part of the disk by then where much was deleted lately: then they are taken elsewhere, at
    most three times in all.
    """
    for _ in range(3):
        with folder() as place:
            before = _new_folders(place / "before")
            found = figures(place)
            if _new_folders(place / "after") <= 2 * before:
                break
    return found


def _new_folders(place: Path) -> float:
    """Seconds it takes to make thirty folders with a few files in them here."""

    def make() -> None:
        for number in range(30):
            inner = place / str(number) / "inner"
            inner.mkdir(parents=True)
            for name in range(4):
                (inner / str(name)).write_bytes(b"x" * 400)

    return clocked(make)


def _spread_out(place: Path) -> None:
    """Have ext4 put the folders in here into block groups of their own; elsewhere this is not needed."""
    fd = os.open(place, os.O_RDONLY)
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, _GET_FLAGS, bytes(8)), sys.byteorder)
        fcntl.ioctl(fd, _SET_FLAGS, (flags | _TOP_OF_HIERARCHY).to_bytes(8, sys.byteorder))
    except OSError:
        return
    finally:
        os.close(fd)


def new_file(place: Path) -> float:
    """Seconds it takes to make a small file in a folder in here: the median of 9."""
    inner = place / "new-files"
    inner.mkdir(exist_ok=True)
    return median([clocked(lambda n=n: (inner / str(n)).write_bytes(b"x" * 400)) for n in range(9)])  # type: ignore[misc] # bound now


def environment(place: Path) -> dict[str, str]:
    """The environment of a person who is in no run, with settings of their own and no screen for notes."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("OVERHAND_", *SCREEN_SIGNS))}
    return {**outside, "XDG_CONFIG_HOME": str(place / "config")}


def clocked(do: Callable[[], object]) -> float:
    """Seconds of wall time."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def cpu(pid: int) -> float:
    """Seconds of CPU that the threads of a process have used, to the nanosecond where the kernel counts them so.

    What it shows elsewhere is the clock's ticks that found a process at work: of one that wakes for a moment, chance.
    """
    try:
        return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except (OSError, ValueError, IndexError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def in_turn(rounds: int, *figures: Callable[[], float]) -> list[list[float]]:
    """Every figure once, then every figure again: the load of the machine falls on all alike."""
    found: list[list[float]] = [[] for _ in figures]
    for _ in range(rounds):
        for values, figure in zip(found, figures, strict=True):
            values.append(figure())
    return found


def interleaved(rounds: int, *doings: Callable[[], object]) -> list[list[float]]:
    """The seconds that each takes, in turn."""
    return in_turn(rounds, *(partial(clocked, do) for do in doings))


def run(argv: Sequence[str], place: Path, env: dict[str, str]) -> None:
    """One program, its output thrown away; what fails would spoil the figure."""
    none = subprocess.DEVNULL
    subprocess.run(argv, cwd=place, env=env, stdin=none, stdout=none, stderr=none, check=True)


def spread(seconds: Sequence[float]) -> str:
    """Median and quartiles in milliseconds."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return f"{middle * 1e3:.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f})"


def machine() -> dict[str, str]:
    """Where this was measured, and what a file and a sync cost here and now."""
    created, synced = _disk()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": str(os.cpu_count()),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": platform.release(),
        "file system": _file_system(),
        "new file": f"{created * 1e6:.0f} µs",
        "fdatasync": f"{synced * 1e6:.0f} µs",
    }


def _disk() -> tuple[float, float]:
    """What it costs to make a small file, and to sync an appended line (the median of 50)."""
    with folder() as place:
        log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        synced = [clocked(lambda: _append(log)) for _ in range(50)]
        os.close(log)
        return new_file(place), median(synced)


def _append(log: int) -> None:
    os.write(log, b"x\n")
    os.fdatasync(log)


def _file_system() -> str:
    """The type of the file system that the figures are measured on."""
    done = subprocess.run(["stat", "-f", "-c", "%T", DISK], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
