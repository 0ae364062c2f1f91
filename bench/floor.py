"""What the files of a hundred tasks cost without any logic: the floor of a fan-out with a folder per task."""

from __future__ import annotations

import json
import os
import statistics
import time

from measure import folder

from overhand.record import log

TASKS, ROUNDS = 100, 9
_TASK = ("HANDOFF.md", "log.jsonl", "result.json")
_RUN = ("prompt.md", "context.json", "spec.json", "life", "OUTPUT.md")


def lay(place: str) -> None:
    """The folders and files of one in-process task, each with half a kilobyte."""
    os.mkdir(place)
    os.mkdir(f"{place}/runs")
    os.mkdir(f"{place}/runs/run")
    for name in (*(f"{place}/{one}" for one in _TASK), *(f"{place}/runs/run/{one}" for one in _RUN)):
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, b"x" * 500)
        os.close(fd)
    os.link(f"{place}/runs/run/OUTPUT.md", f"{place}/OUTPUT.md")


def main() -> None:
    """Print one line: milliseconds per task for the files, and with the two shared syncs."""
    files, whole = [], []
    with folder() as around:
        for number in range(ROUNDS):
            names = [f"{number}-{task}" for task in range(TASKS)]
            places = [f"{around}/{name}" for name in names]
            began = time.perf_counter()
            for place in places:
                lay(place)
            files.append(time.perf_counter() - began)
            log.sync_all(str(around))
            for place in places:
                with open(f"{place}/log.jsonl", "ab") as file:
                    file.write(b"y" * 500)
            log.sync_all(str(around))
            whole.append(time.perf_counter() - began)
    shown = {
        "files_ms": statistics.median(files) / TASKS * 1e3,
        "with_syncs_ms": statistics.median(whole) / TASKS * 1e3,
    }
    print(json.dumps({name: round(value, 3) for name, value in shown.items()}))


if __name__ == "__main__":
    main()
