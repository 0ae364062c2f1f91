"""Real agents with a scripted model: time that a delegation adds to the bare headless command, and memory per run.

The bare command is what the driver itself would start: the same words, prompt and environment, the prompt on stdin.
It is measured twice, with our MCP server among its words and without: a person would type the latter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, Row

from overhand.agents import Agent, Job, find_driver, mcp_server_command
from overhand.record import Store
from overhand.runs import run_environment
from overhand.supervisor import running_supervisor
from overhand.system import environment_of, process_table
from overhand.testing import processes

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from model import ScriptedModel, scripted_model
from model.clients import point

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTS = {"claude": "Claude Code", "codex": "Codex", "goose": "Goose"}
_RETURN = "# Task Complete: it\n\n**Status:** completed\n\n## Summary\nIt is done.\n"
_SCRIPTS = {
    "work": [{"ops": [{"write": {"path": "{output}", "content": _RETURN}}]}, {"text": "Done."}],
    "wait": [{"hang": True}],
    "call": [{"ops": [{"mcp": {"server": "overhand", "tool": "handoff", "arguments": {}}}]}, {"hang": True}],
}
_QUIET = 4.0  # seconds: most of its time an agent waits for its model
_PATIENCE = 90.0


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with the agents' private HOME beside it, and the model they all ask."""

    path: Path
    home: Path
    model: ScriptedModel

    @property
    def store(self) -> Store:
        return Store(os.path.realpath(self.path))

    def env(self, name: str) -> dict[str, str]:
        """What this agent needs, and nothing of ours but `overhand` on its PATH."""
        found = point(name, self.model.url, str(self.home))
        first = (str(_installed() / "bin"), str(Path(OVERHAND).parent))
        return {**found, "PATH": os.pathsep.join((*first, found["PATH"]))}


def rows(*, quick: bool) -> list[Row]:
    """Time first, then memory; what is not installed is not measured."""
    there = [name for name in AGENTS if (_installed() / "bin" / name).exists()]
    away = [_time_row(name, None, "not installed here: make agents") for name in AGENTS if name not in there]
    for row in away:
        print(f"{row.what}: {row.note}", file=sys.stderr)
    if not there:
        return away
    with measure.folder() as around, scripted_model(_SCRIPTS) as model:
        place = Place(around / "project", around / "home", model)
        _make(place)
        try:
            times = [_time(place, name, 3 if quick else 9) for name in there]
            return [*times, *away, _memory(place, there, 1 if quick else 3)]
        finally:
            measure.run([OVERHAND, "stop", "--all", "--now"], place.path, place.env(there[0]))
            processes.end_all(place.path)


def _installed() -> Path:
    return Path(os.environ.get("OVERHAND_AGENTS") or measure.HERE.parent / ".agents")


def _make(place: Place) -> None:
    """A repository, since that is where coding agents work: asking git what a run changed is part of the time."""
    env = place.env("claude")
    (place.path / "src").mkdir(parents=True)
    for number in range(100):
        (place.path / f"src/{number}.txt").write_text(f"{number}\n")
    (place.path / ".overhand").mkdir()
    (place.path / ".overhand/config.toml").write_text("[limits]\nmax_parallel = 0\n")
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Start"]):
        measure.run(["git", *who, *words], place.path, env)
    measure.run([OVERHAND, "trust", "--yes"], place.path, env)


def _time(place: Place, name: str, rounds: int) -> Row:
    env = place.env(name)
    ours = [OVERHAND, "delegate", "Do it. script:work", "--agent", name, "--wait"]
    measure.run(ours, place.path, env)  # the first one makes what an agent keeps in its HOME
    plain, served = (_bare(place, name, env, mcp) for mcp in ((), mcp_server_command(Agent(name, name))))
    plain()
    times = measure.interleaved(rounds, plain, served, lambda: measure.run(ours, place.path, env))
    alone = [whole - bare for bare, _, whole in zip(*times, strict=True)]
    same = [whole - bare for _, bare, whole in zip(*times, strict=True)]
    note = (
        f"{measure.spread(alone)}; the bare command takes {measure.median(times[0]):.2f} s; with our MCP server among "
        f"its words too, {measure.median(same):.2f} s are added"
    )
    return _time_row(name, measure.median(alone), note)


def _time_row(name: str, added: float | None, note: str) -> Row:
    return Row(
        f"delegation to {AGENTS[name]}: time added over the bare headless command",
        "" if added is None else f"{added:.2f} s",
        "≤ 0.3 s",
        "0.1 s",
        added is None or added <= 0.3,
        added is not None and added <= 0.1,
        note,
    )


def _bare(place: Place, name: str, env: dict[str, str], mcp: tuple[str, ...]) -> Callable[[], None]:
    """The driver's own command, each time with a folder, a prompt and a session of its own."""
    store = place.store
    state = store.tasks()[-1]
    example = store.run_folder(state.id, state.runs[-1].id)
    prompt = Path(example, "prompt.md").read_text()
    task = store.record(state.id)
    told = run_environment(store, state, state.runs[-1].id) if mcp else {}  # the server asks whose it is
    counted = iter(range(1000))

    def once() -> None:
        run = f"bare_{name}_{len(mcp)}_{next(counted)}"
        own = Path(task, run)
        own.mkdir()
        (own / "prompt.md").write_text(prompt.replace(example, str(own)))
        job = Job(
            prompt="", workspace=task, handoff=f"{task}/HANDOFF.md", output=f"{own}/OUTPUT.md", project=store.root,
            place=str(own), run=run, mcp=mcp,
        )  # fmt: skip
        os.environ["PATH"], before = env["PATH"], os.environ["PATH"]
        launch = find_driver(name).launch(Agent(name, name), job)
        os.environ["PATH"] = before
        files = {variable: f"{own}/{file}" for variable, file, _ in launch.files}
        for _, file, text in launch.files:
            (own / file).write_text(text)
        none = subprocess.DEVNULL
        with (own / "prompt.md").open() as said:
            whole = {**env, **told, **launch.env, **files}
            subprocess.run(launch.argv, cwd=store.root, env=whole, stdin=said, stdout=none, stderr=none, check=True)
        assert (own / "OUTPUT.md").exists(), f"{name} did nothing"

    return once


def _memory(place: Place, names: list[str], each: int) -> Row:
    """What shims and the supervisor hold for agents that are at work: proportional set size."""
    supervisor = running_supervisor(place.store)
    assert supervisor is not None
    before = _pss(supervisor)
    live = _at_work(place, names * each, "wait", 1)
    time.sleep(_QUIET)
    growth = max(0.0, _pss(supervisor) - before) / len(live)
    shims, servers = zip(*(_ours(run) for run in live), strict=True)
    whole = measure.median(shims) + growth
    _, called = _ours(_at_work(place, names[-1:], "call", 2)[-1])
    return Row(
        "real agents: memory added per running agent",
        f"{whole / 1024:.2f} MB",
        "≤ 2 MB",
        "0.3 MB",
        whole <= 2048,
        whole <= 0.3 * 1024,
        f"{len(live)} at work at a time; the shim {measure.median(shims):.0f} KB, the supervisor's growth "
        f"{growth:.0f} KB; beside them the MCP server of a run holds {measure.median(servers) / 1024:.0f} MB, and "
        f"{called / 1024:.0f} MB once one of its tools was called",
    )


def _at_work(place: Place, names: list[str], script: str, turns: int) -> list[str]:
    """Delegate to these, and wait until each has asked its model for the last of so many turns; the living runs."""
    for name in names:
        words = [OVERHAND, "delegate", f"Wait. script:{script}", "--agent", name, "--read-only"]
        measure.run(words, place.path, place.env(name))
    place.model.wait_for(len(names) * turns, script=script, timeout=_PATIENCE)
    return [run.id for task in place.store.tasks() for run in task.runs if run.state == "running"]


def _ours(run: str) -> tuple[float, float]:
    """Of one run's processes, those that the agent would not have by itself, in kilobytes: shim, and MCP server."""
    shim = server = 0.0
    for pid in process_table():
        if environment_of(pid, "OVERHAND_RUN") == run:
            words = _argv(pid)
            if "overhand-shim" in words:
                shim += _pss(pid)
            elif words[-2:] == ["overhand", "mcp"]:
                server += _pss(pid)
    assert shim, f"{run} has no shim"
    return shim, server


def _argv(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]


def _pss(pid: int) -> float:
    """Kilobytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("Pss:")))
