"""Plans that run: in this process against LangGraph, as programs against the shortest time there can be."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import measure
from measure import Row, median
from sides import side

if TYPE_CHECKING:
    from pathlib import Path

_NODES = 1000
_SLOTS = 4
_SECONDS = 0.2
_RETURN = '{"status": "completed", "summary": "Slept."}'
_SLEEPER = ["/bin/sh", "-c", f"sleep {_SECONDS}; echo '{_RETURN}'"]
_AGENT = f"""---
name: sleeper
description: sleeps
overhand:
  driver: command
  command: {json.dumps(_SLEEPER)}
---
"""
_PATIENCE = 120


def rows(*, quick: bool) -> list[Row]:
    """Per node against LangGraph, from 100 to 10,000 nodes, and the makespan of programs."""
    return [*_in_process(quick=quick), *_makespan(quick=quick)]


def _in_process(*, quick: bool) -> list[Row]:
    few, many = 100, 2_000 if quick else 10_000

    def against(place: Path) -> list[list[float]]:
        env = measure.environment(place)
        with side("ours:Ours", place / "ours", env) as we, side("peers:Graphs", place / "theirs", env) as they:
            we("plan", _NODES)
            they("many", _NODES)
            return measure.in_turn(3 if quick else 7, lambda: we("plan", _NODES), lambda: they("many", _NODES))

    ours, theirs = measure.steady(against)
    with measure.folder() as place:
        env = measure.environment(place)
        with side("ours:Ours", place / "small", env) as small, side("ours:Ours", place / "big", env) as big:
            small("plan", few)
            rounds = 1 if quick else 3
            short, long = measure.in_turn(rounds, lambda: small("plan", few, 10), lambda: big("plan", many))
    ratio = median(ours) / median(theirs)
    growth = (median(long) / many) / (median(short) / (10 * few))
    each = [measure.spread([seconds / _NODES for seconds in times]) for times in (ours, theirs)]
    return [
        Row(
            f"plan of {_NODES:,} nodes, in-process function agents, per node vs LangGraph + SqliteSaver",
            f"{ratio:.2f}x", "≤ 1.0x", "0.5x", ratio <= 1.0, ratio <= 0.5, f"{each[0]} against {each[1]}",
        ),
        Row(
            f"plan: time per node, {few} → {many:,} nodes",
            f"{growth:.2f}x", "≤ 1.5x", "flat", growth <= 1.5, growth <= 1.05,
            f"{median(short) / few * 100:.2f} ms and {median(long) / many * 1e3:.2f} ms",
        ),
    ]  # fmt: skip


def _makespan(*, quick: bool) -> list[Row]:
    """From the moment a plan's run begins to its verdict, and the least that dependencies and slots allow."""
    rounds = 3 if quick else 7
    shapes: dict[str, tuple[dict[str, tuple[str, ...]], int]] = {
        "diamond": ({"top": (), "left": ("top",), "right": ("top",), "foot": ("left", "right")}, 3),
        "three diamonds in a row": (_diamonds(3), 7),
        f"wide, 16 nodes on {_SLOTS} slots": ({f"n{i}": () for i in range(16)}, 16 // _SLOTS),
    }
    with measure.folder() as place:
        env = measure.environment(place)
        (place / ".overhand/agents").mkdir(parents=True)
        (place / ".overhand/agents/sleeper.md").write_text(_AGENT)
        (place / ".overhand/config.toml").write_text(f"[limits]\nmax_parallel = {_SLOTS}\n")
        for words in (("init",), ("trust", "--yes")):
            measure.run([measure.OVERHAND, *words], place, env)
        found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in shapes}
        for number in range(rounds + 1):
            for name, (needs, steps) in shapes.items():
                bare = measure.clocked(lambda: measure.run(_SLEEPER, place, env)) * steps
                spent = _carried(place, env, needs)
                if number:  # the first round only warms up
                    found[name][0].append(spent)
                    found[name][1].append(bare)
    ratios = {name: median(spent) / median(bare) for name, (spent, bare) in found.items()}
    worst = max(ratios.values())
    told = "; ".join(
        f"{name} {ratios[name]:.2f}x ({median(spent):.3f} s, at least {median(bare):.3f})"
        for name, (spent, bare) in found.items()
    )
    return [
        Row(
            f"plans of {_SECONDS} s command agents: makespan vs critical path and slots",
            f"{worst:.2f}x", "≤ 1.15x", "1.05x", worst <= 1.15, worst <= 1.05,
            f"from the plan's run to its verdict; a step of the lower bound is the bare command: {told}.",
        )
    ]  # fmt: skip


def _diamonds(count: int) -> dict[str, tuple[str, ...]]:
    needs: dict[str, tuple[str, ...]] = {"t0": ()}
    for n in range(count):
        needs |= {f"l{n}": (f"t{n}",), f"r{n}": (f"t{n}",), f"t{n + 1}": (f"l{n}", f"r{n}")}
    return needs


def _carried(place: Path, env: dict[str, str], needs: dict[str, tuple[str, ...]]) -> float:
    nodes = {
        name: {"agent": "sleeper", "task": f"Sleep as {name}", "after": list(before)} for name, before in needs.items()
    }
    (place / "plan.json").write_text(json.dumps({"plan": "Sleep well", "nodes": nodes}))
    measure.run([measure.OVERHAND, "trust", "plan.json", "--yes"], place, env)
    words = [measure.OVERHAND, "plan", "run", "plan.json", "--wait", "--json"]
    done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    said: dict[str, Any] = json.loads(done.stdout)
    assert said.get("status") == "completed", done.stdout + done.stderr
    events = map(json.loads, (place / said["folder"] / "log.jsonl").read_text().splitlines())
    moments = {event["e"]: float(event["mono"]) for event in events}
    return moments["judged"] - moments["run.created"]
