"""Tags in Markdown: finding them against ripgrep, claim races, and an editor that writes the same file all the time."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from pathlib import Path

import measure
from measure import OVERHAND, PYTHON, Row

from overhand.errors import Refused
from overhand.verbs import Session
from overhand.verbs import tag as verb

_WORDS = (
    "server",
    "client",
    "queue",
    "token",
    "header",
    "request",
    "answer",
    "module",
    "build",
    "test",
    "index",
    "cache",
)
_KINDS = ("fix", "docs", "research", "implementation", "chores")
_RG = ("-n", "#needs-[a-z]", "-g", "*.md")


def rows(*, quick: bool) -> list[Row]:
    """Everything; without ripgrep there is nothing to compare finding with."""
    found = [_find(10_000, 8700, 15 if quick else 41)]
    if not quick:
        found.append(_find(100_000, 1000, 11))
    races = [_race(count) for count in ((2, 8) if quick else (2, 8, 64))]
    import editors  # not above: it needs daemon.py, which needs the documents of this file

    return [*found, *races, _in_process(200 if quick else 1000), *editors.rows(quick=quick)]


# ------------------------------------------------------------------------------------------------------- finding


def _find(files: int, size: int, rounds: int) -> Row:
    program = shutil.which("rg") or str(Path(PYTHON).parent / "rg")
    with measure.folder() as place:
        tagged = corpus(place, files, size)
        env = measure.environment(place)
        commands = ([PYTHON, "-c", "pass"], [program, *_RG, "."], [OVERHAND, "tag", "find", "#needs-*"])
        for command in commands:
            measure.run(command, place, env)
        doings = [lambda command=command: measure.run(command, place, env) for command in commands]
        bare, rg, ours = (measure.median(times) for times in measure.interleaved(rounds, *doings))
    what = f"`tag find '#needs-*'` over {files:,} files ({files * size / 1e6:.0f} MB, {tagged:,} with tags), no daemon"
    note = f"{ours * 1e3:.0f} ms; `rg` {rg * 1e3:.0f} ms, `python -c pass` {bare * 1e3:.0f} ms"
    if files > 10_000:
        return Row(what, f"{ours / rg:.2f} x rg", "≤ 1.5 x rg", "1.1 x", ours <= 1.5 * rg, ours <= 1.1 * rg, note)
    left = (ours - 1.3 * rg) / bare
    return Row(
        what,
        f"1.3 x rg {left:+.1f} x python",
        "≤ 1.3 x rg + 2 x `python -c pass`",
        "1.1 x rg + 1.3 x",
        ours <= 1.3 * rg + 2 * bare,
        ours <= 1.1 * rg + 1.3 * bare,
        note,
    )


def corpus(place: Path, files: int, size: int) -> int:
    """Documents as people write them: headings, lists, fences, code; one in ten has tags."""
    dice = random.Random(5)
    pieces = [_piece(dice) for _ in range(400)]
    tagged = 0
    for number in range(files):
        folder = place / f"d{number // 100:04d}"
        if number % 100 == 0:
            folder.mkdir()
        parts, length = [], 0
        while length < size:
            parts.append(dice.choice(pieces))
            length += len(parts[-1])
        head = f"# Document {number}\n"
        if number % 10 == 0:
            tagged += 1
            kind = dice.choice(_KINDS)
            head += f"**Tags**: #needs-{kind} #P{number // 10 % 4}\n" if number % 30 == 0 else ""
            parts.append(f"- look at the {dice.choice(_WORDS)} #needs-{kind} #S\n\nA mention: `#needs-{kind}`.\n")
        (folder / f"f{number}.md").write_text(f"{head}\n{''.join(parts)}")
    return tagged


def _piece(dice: random.Random) -> str:
    def sentence() -> str:
        return " ".join(dice.choice(_WORDS) for _ in range(dice.randint(6, 14))).capitalize() + "."

    kind = dice.random()
    if kind < 0.1:
        return f"## {sentence()}\n\n"
    if kind < 0.2:
        return "```python\n" + "".join(f"    x = call({n})  # note\n" for n in range(8)) + "```\n\n"
    if kind < 0.4:
        return "".join(f"- [ ] {sentence()} `code()`\n" for _ in range(5)) + "\n"
    return "".join(f"{sentence()} {sentence()} See `a.b` and [it](other.md#part).\n" for _ in range(4)) + "\n"


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
