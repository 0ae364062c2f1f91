"""Kills or fails a real process at its Nth change, then looks with fresh verbs at what is left.

`preload.c` counts the calls and does the deed; it needs a C compiler. A scenario (`attack.scenarios`) says what runs,
which of its processes is the victim, and what must be true afterwards; what must always be true is in `examine`.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.testing import processes
from overhand.testing.project import Ran
from support.scene import QUICK, until
from support.warm import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

SOURCE = Path(__file__).with_name("preload.c")
COMPILERS = ("cc", "gcc", "clang")
OVERHAND = f"{sys.executable} -m overhand"
MUTATING = "space,name,signal,talk,lock,spawn"
# What each errno can happen to: a disk that is full or broken, a process without a free descriptor.
FAILING = {"ENOSPC": "space", "EIO": "space,name", "EMFILE": "descriptor"}
CODES = {0, 1, 2, 3, 4, 5, 124}
CRASHED = ("Traceback (most recent", "a mistake in Overhand")
PATIENCE = 60.0
CONFIG = "[limits]\nidle = '20s'\nstop_grace = '0.3s'\nanswer_wait = '30s'\n"


@cache
def library() -> str:
    """The preload library, built once per process; the test is skipped where nothing can build it."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if sys.platform != "linux":
        pytest.skip("LD_PRELOAD and /proc are Linux's")
    if compiler is None:
        pytest.skip(f"no C compiler here ({', '.join(COMPILERS)}): the preload library cannot be built")
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"overhand-preload-{os.getuid()}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    built = folder / "preload.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(built), str(SOURCE), "-ldl"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(words)}\n{ran.stderr}"
    return str(built)


@dataclass(frozen=True)
class Point:
    """The Nth call of the victim, and what happens there: before, after, torn, or the name of an errno."""

    number: int
    how: str = "before"
    lasts: str = ""  # of an errno: "1" for the rest of that process, "all" for every process until it is over
    where: str = ""  # only calls for a path with this text in it are counted

    def __str__(self) -> str:
        return f"{self.how}{' on' if self.lasts else ''} call {self.number}{' for ' if self.where else ''}{self.where}"


def nothing(*_: object) -> None:
    """Nothing to prepare, to repeat or to look at."""


@dataclass(frozen=True)
class Scenario:
    """What is done in a project, and to which process."""

    name: str
    victim: str  # the beginning of its command line, behind the interpreter and its options
    act: Callable[[Site, Mapping[str, str]], Ran]  # with these variables the victim is armed
    prepare: Callable[[Site], None] = nothing
    repeat: Callable[[Site], None] = nothing  # typed again afterwards, else the tasks would never end
    truth: Callable[[Site, Ran], None] = nothing  # beside what always holds
    tasks: int = 1  # at most
    acknowledges: bool = False  # a verb that fails behind the record names the task that it made
    least: int = 0  # so many points it must have, or it doesn't do what it says


class Site(Project):
    """A project with a user of its own: home, configuration, state."""

    __slots__ = ()

    @property
    def home(self) -> Path:
        return self.path.parent / "home"

    def documents(self) -> Iterator[Path]:
        """Everything that is JSON in the record and in the workspaces; what is being made has no name yet."""
        for place in (self.home, self.path / ".agent-workspaces"):
            yield from (path for path in place.rglob("*.json*") if "/.new-" not in str(path))

    def own_environment(self) -> dict[str, str]:
        names = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache", "DATA": ".local/share"}
        folders = {f"XDG_{name}_HOME": str(self.home / path) for name, path in names.items()}
        return {"HOME": str(self.home), **folders}

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.own_environment()}

    def settings(self, text: str) -> None:
        """The user's own settings."""
        (self.config_home / "overhand").mkdir(parents=True, exist_ok=True)
        (self.config_home / "overhand/config.toml").write_text(text)

    # agents

    def shell(self, name: str, script: str, **keys: object) -> None:
        """An agent that is a shell script and notes each start; `$O` is the command."""
        begin = f'echo "+ $OVERHAND_TASK $OVERHAND_RUN" >>"$OVERHAND_PROJECT/trail"; O="{OVERHAND}"\n'
        self.agent(name, command=["/bin/sh", "-c", begin + script], **keys)

    def trail(self) -> list[str]:
        """A line that a kill cut off does not count."""
        path = self.path / "trail"
        text = path.read_text() if path.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def starts(self, task: str) -> int:
        return sum(line.split()[1] == task for line in self.trail())

    # verbs

    def json(self, *words: str, codes: Collection[int] = (0,)) -> Any:
        """`overhand WORDS --json` by a process that no fault concerns."""
        ran = self.run(*words, "--json")
        is_clear(ran, words)
        assert ran.code in codes, f"overhand {' '.join(words)} ended with {ran.code}: {ran.out}{ran.err}"
        return json.loads(ran.out) if ran.out.strip() else {}

    def attacked(self, fault: Mapping[str, str], *words: str) -> Ran:
        """The same in an interpreter of its own, with these variables."""
        return self.cold(*words, "--json", env=fault, timeout=PATIENCE + 30)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("list")["tasks"]
        return found

    def log(self, task: str) -> list[dict[str, Any]]:
        ran = self.run("log", task, "--json")
        is_clear(ran, ("log", task))
        return [json.loads(line) for line in ran.out.splitlines()]

    def settle(self, task: str) -> dict[str, Any]:
        """Wait until the task is judged; whatever it asks is answered."""
        for _ in range(10):
            ran = self.run("monitor", task, "--timeout", f"{PATIENCE:.0f}s", "--json", timeout=PATIENCE + 30)
            is_clear(ran, ("monitor", task))
            assert ran.code != 3, f"{task} is not judged: {self.run('show', task).out}{self.run('log', task).out}"
            if ran.code == 0:
                self.json("answer", task, "blue", codes={0, 1, 3})
                continue
            shown: dict[str, Any] = self.json("show", task)
            return shown
        raise AssertionError(f"{task} asks for ever")

    def agents_left(self) -> set[int]:
        return set(processes.of_project(self.path)) - processes.supervisors(self.path)


def is_clear(ran: Ran, words: object) -> None:
    """It ended as a command does that knows what it does, and its message is meant for a person."""
    assert not any(word in ran.err + ran.out for word in CRASHED), f"{words}: {ran.out}\n{ran.err}"
    assert ran.code in CODES, f"{words} ended with {ran.code}: {ran.out}\n{ran.err}"


@contextmanager
def site_at(folder: Path) -> Iterator[Site]:
    """A project below the folder; afterwards none of its processes is left, and without a failure no file either."""
    site = Site(folder / "project", folder / "home/.config")
    (folder / "home/.config").mkdir(parents=True)
    (folder / "home/.local/state").mkdir(parents=True)
    site.path.mkdir()
    site.config(CONFIG)
    site.shell("worker", QUICK)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in site.own_environment().items():
            patch.setenv(name, value)
        for name in [name for name in os.environ if name.startswith("OVERHAND_")]:
            patch.delenv(name)
        try:
            yield site
        finally:
            processes.end_all(site.path)
    shutil.rmtree(folder)


def armed(site: Site, victim: str, point: Point | None, kinds: str = MUTATING) -> dict[str, str]:
    """The variables that make a process the victim."""
    notes = site.path.parent
    found = {
        "LD_PRELOAD": library(),
        "FAULT_PROCESS": victim,
        "FAULT_CLAIM": str(notes / "claim"),
        "FAULT_BELOW": f"{site.path}:{site.home}",
        "FAULT_KINDS": kinds,
        "FAULT_TRACE": str(notes / "trace"),
        "FAULT_FIRED": str(notes / "fired"),
        "PYTHONSAFEPATH": "1",  # as for the installed command, no module is looked for in the project
    }
    if point is not None:
        how = str(getattr(errno, point.how)) if point.how in FAILING else point.how
        found |= {"FAULT_AT": str(point.number), "FAULT_HOW": how}
        found |= {"FAULT_LASTS": point.lasts} if point.lasts else {}
        found |= {"FAULT_WHERE": point.where} if point.where else {}
    return found


@dataclass(frozen=True)
class Attack:
    """One scenario in one project, with or without a fault."""

    site: Site
    scenario: Scenario

    @property
    def notes(self) -> Path:
        return self.site.path.parent

    def calls(self) -> list[str]:
        trace = self.notes / "trace"
        return trace.read_text().splitlines() if trace.exists() else []

    def fired(self) -> str:
        """The call at which it happened."""
        path = self.notes / "fired"
        return path.read_text().strip() if path.exists() else ""

    def run(self, point: Point | None, kinds: str) -> Ran:
        self.scenario.prepare(self.site)
        return self.scenario.act(self.site, armed(self.site, self.scenario.victim, point, kinds))


class Disk:
    """A disk that is full or broken for every `overhand` process with these variables, from `fill` to `free`."""

    def __init__(self, site: Site, error: str = "ENOSPC") -> None:
        self.variables = armed(site, "overhand", Point(2**31 - 1, error, "all"), FAILING[error])
        self._full = Path(self.variables["FAULT_FIRED"])

    def fill(self) -> None:
        self._full.touch()

    def free(self) -> None:
        self._full.unlink()


@cache
def counted(scenario: Scenario, kinds: str, folder: Path) -> list[str]:
    """Every call of the scenario, undisturbed; it must itself leave everything as it should be."""
    with site_at(folder / f"count-{scenario.name}-{kinds.partition(',')[0]}") as site:
        attack = Attack(site, scenario)
        ran = attack.run(None, kinds)
        examine(attack, ran, killed=False)
        return attack.calls()


def kill_points(calls: list[str]) -> list[Point]:
    """Before every call, in the middle of every write, and behind the last call."""
    found = [Point(number) for number in range(1, len(calls) + 1)]
    found += [Point(n, "torn") for n, call in enumerate(calls, 1) if call.startswith(("write ", "pwrite "))]
    return [*found, Point(len(calls), "after")]


def examine(attack: Attack, ran: Ran, *, killed: bool) -> None:
    """What holds after every end: nothing lost, twice, half, no ghosts, and `stop` works."""
    site, scenario = attack.site, attack.scenario
    if not (killed and ran.code == -signal.SIGKILL):
        is_clear(ran, scenario.name)
    rows = site.rows()
    _nothing_is_lost(ran, rows)
    if scenario.acknowledges and ran.code > 0:
        made = [row["task_id"] for row in rows if row["task_id"] not in ran.out]
        assert not made, f"it ended with {ran.code}, made {made} and says {ran.out}{ran.err}"
    assert len(rows) <= scenario.tasks, f"more tasks than were delegated: {rows}"
    for row in rows:
        assert row["title"] not in (None, "", row["task_id"]), f"a ghost: {row}"
    scenario.repeat(site)
    for row in rows:
        happened = [event.get("e") for event in site.log(row["task_id"])]
        assert happened[:1] == ["created"], f"a ghost: {row} {happened}"
        if "accepted" in happened:
            site.settle(row["task_id"])
    if killed or not _gave_up(site):
        scenario.truth(site, ran)
    for task in site.rows():
        _ran_once(site, task["task_id"])
    _is_whole(site)
    found = site.json("doctor", codes={0, 1})
    assert not found["problems"], f"doctor: {[one for one in found['findings'] if one['level'] != 'note']}"
    site.json("stop", "--all", "--now")
    until(lambda: not site.agents_left(), f"everything of {site.path} stopped", PATIENCE)


def _gave_up(site: Site) -> bool:
    """Whether a run could not be started and says why: an end like another, after which a person may resume."""
    for row in site.rows():
        ends = [event for event in site.log(row["task_id"]) if event["e"] == "run.ended"]
        if any(event.get("cause") == "error" and event.get("why") for event in ends):
            return True
    return False


def _nothing_is_lost(ran: Ran, rows: list[dict[str, Any]]) -> None:
    """What a verb acknowledged is there, also what it names in an error."""
    try:
        said = json.loads(ran.out.strip().splitlines()[-1]) if ran.out.strip() else {}
    except ValueError:
        return  # it was killed while it spoke
    if ran.code == 0 and isinstance(said, dict) and said.get("task_id"):
        assert said["task_id"] in {row["task_id"] for row in rows}, f"acknowledged and lost: {said['task_id']}"


def _ran_once(site: Site, task: str) -> None:
    """At most one agent began for each run, and none without a run."""
    shown = site.json("show", task)
    runs = Counter(line for line in site.trail() if line.split()[1] == task)
    assert all(number == 1 for number in runs.values()), f"began twice: {runs}"
    known = {run["id"] for run in shown["runs"]}
    assert {line.split()[2] for line in runs} <= known, f"began without a record: {runs} {known}"
    for name in ("HANDOFF.md", "inputs.json") if runs else ():
        given, kept = site.path / f".agent-workspaces/{task}/{name}", Path(shown["record"], name)
        is_whole = not kept.exists() or given.stat().st_size >= kept.stat().st_size  # steps are ticked off in it
        assert is_whole, f"began with half a {name}"
    if shown["status"] == "completed" and shown["output"]:
        text = site.run("show", task, "--output").out
        assert "## Summary" in text, f"half a result: {text!r}"


def _is_whole(site: Site) -> None:
    """Every line of every log and every JSON document can be read, but for what a run left that never began."""
    began = {line.split()[2] for line in site.trail()}
    for path in site.documents():
        if path.suffix == ".jsonl":
            raw = path.read_bytes()
            found = raw[: raw.rfind(b"\n") + 1].splitlines()
        elif path.suffix == ".json" and (path.parent.parent.name != "runs" or path.parent.name in began):
            found = [path.read_bytes()]
        else:
            continue
        for text in found:
            try:
                json.loads(text)
            except ValueError as error:
                raise AssertionError(f"half a document: {path}: {text!r}") from error


def strike(scenario: Scenario, point: Point, folder: Path, kinds: str = MUTATING) -> str:
    """Run the scenario with the fault, and examine what is left; the call that was hit, or nothing if there was none.

    A failure names the point, and leaves the project where it is.
    """
    with site_at(folder / f"{scenario.name}-{point.number}-{point.how}{point.lasts}") as site:
        attack = Attack(site, scenario)
        ran = attack.run(point, kinds)
        try:
            examine(attack, ran, killed=point.how not in FAILING)
        except BaseException as failure:
            failure.add_note(f"{scenario.name}: {point}: {attack.fired() or 'not reached'}; see {attack.notes}")
            raise
        return attack.fired()
