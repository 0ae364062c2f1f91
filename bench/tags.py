"""Tags in Markdown: claim races, and an editor that writes the same file all the time."""

from __future__ import annotations

import os
import subprocess
import threading

import measure
from measure import OVERHAND, Row

from overhand.errors import Refused
from overhand.verbs import Session
from overhand.verbs import tag as verb


def rows(*, quick: bool) -> list[Row]:
    """Everything."""
    races = [_race(count) for count in ((2, 8) if quick else (2, 8, 64))]
    import editors

    return [*races, _in_process(200 if quick else 1000), *editors.rows(quick=quick)]


# --------------------------------------------------------------------------------------------------------- races


def _race(count: int) -> Row:
    """Processes that are started at once and swap the same tag of a file of 3 MB."""
    rounds, wrong, changed = (3 if count > 8 else 5), 0, 0
    with measure.folder() as place:
        env = measure.environment(place)
        for number in range(rounds):
            raw = _big()
            path = place / f"{number}.md"
            path.write_bytes(raw)
            command = [OVERHAND, "tag", "swap", path.name, "#delegated-fix", "#claimed-fix"]
            none = subprocess.DEVNULL
            racers = [subprocess.Popen(command, cwd=place, env=env, stdout=none, stderr=none) for _ in range(count)]
            codes = sorted(racer.wait() for racer in racers)
            wrong += codes != [0] + [3] * (count - 1)
            changed += path.read_bytes() != raw.replace(b"#delegated-fix", b"#claimed-fix")
        litter = len([name for name in os.listdir(place) if name.endswith(".tmp")])
    return Row(
        f"claim race: {count} processes, `tag swap` on a file of 3 MB",
        f"{rounds - wrong} of {rounds} with one winner, {changed} files with other bytes changed",
        "one winner each, 0 other bytes",
        "",
        not (wrong or changed or litter),
        None,
    )


def _big() -> bytes:
    line = b"Some text with `code` and a [link](x.md#part) in it, over and over.\n\n"
    return b"# Big\n**Tags**: #delegated-fix #P1\n\n" + line * (3_000_000 // len(line))


def _in_process(files: int) -> Row:
    """Eight threads, each trying to swap the tag of every file."""
    raw = b"# T\n**Tags**: #delegated-fix\n\n" + b"text\n" * 100
    won: list[int] = []
    with measure.folder() as place:
        for number in range(files):
            (place / f"{number}.md").write_bytes(raw)

        def race() -> None:
            session = Session(str(place))
            for number in range(files):
                try:
                    verb.tag(session, "swap", [str(place / f"{number}.md"), "#delegated-fix", "#claimed-fix"])
                    won.append(number)
                except Refused:
                    pass

        racers = [threading.Thread(target=race) for _ in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        want = raw.replace(b"delegated", b"claimed")
        changed = sum((place / f"{number}.md").read_bytes() != want for number in range(files))
    return Row(
        f"claim race: 8 threads of one process on {files:,} files",
        f"{len(won)} winners, {changed} files with other bytes changed",
        "one winner each, 0 other bytes",
        "",
        sorted(won) == list(range(files)) and not changed,
        None,
    )
