"""The sides of a comparison, each in a process of its own: none pays for what another has loaded or keeps in memory.

As a program it is one of them: it does what a line of its input asks for, and prints the seconds which that took.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING

import measure

if TYPE_CHECKING:
    from collections.abc import Iterator


class Side:
    """A process that does jobs and clocks them."""

    def __init__(self, ask: IO[str], told: IO[str]) -> None:
        self._ask, self._told = ask, told

    def __call__(self, job: str, *counts: int) -> float:
        """Seconds that this job took there."""
        print(job, *counts, file=self._ask, flush=True)
        return float(self._told.readline())


@contextmanager
def side(maker: str, place: Path, env: dict[str, str]) -> Iterator[Side]:
    """One of them, in a folder of its own: `module:Class`, whose methods are the jobs."""
    place.mkdir()
    pipe = subprocess.PIPE
    argv = [measure.PYTHON, __file__, maker, str(place)]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=env) as process:
        assert process.stdin
        assert process.stdout
        yield Side(process.stdin, process.stdout)
        process.stdin.close()


def _serve(maker: str, place: str) -> None:
    module, _, name = maker.partition(":")
    worker = getattr(import_module(module), name)(Path(place))
    for line in sys.stdin:
        job, *counts = line.split()
        do = getattr(worker, job)
        print(measure.clocked(lambda: do(*map(int, counts))), flush=True)  # noqa: B023 -- called at once
    worker.close()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
