"""A provider's limit in a plan: its node waits, others go on, and the plan goes on by itself when the time has come."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plans.running.stage import VERIFIED, node, states
from support import player
from support.scene import until

if TYPE_CHECKING:
    from plans.running.stage import Stage

NODES: dict[str, Any] = {"a": node("claude"), "b": node("quick"), "c": node("quick", "a")}


@pytest.fixture
def bench(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a program `claude` is that plays its part; an agent of ours stands beside it."""
    folder = player.put(tmp_path / "bin", "claude", "codex")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    stage.gives("quick")
    return folder


def limit(bench: Path, seconds: float) -> None:
    (bench / "limit").write_text(said(seconds))


def said(seconds: float) -> str:
    return f"Claude AI usage limit reached|{int(time.time() + seconds)}"


def met_once(bench: Path, seconds: float) -> None:
    """Whoever waits at the pipe meets the limit, counted from now; nobody does after that."""
    pipe = bench / "limit"

    def look() -> int | None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            return None

    fd = until(look, "claude at its limit")
    pipe.unlink()
    os.write(fd, said(seconds).encode())
    os.close(fd)


def row(stage: Stage, task: str, name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [one for one in stage.json("plan", "show", task)["nodes"] if one["node"] == name]
    return found


def runs_of(bench: Path) -> list[dict[str, Any]]:
    return [one for one in player.trail(bench) if "session" in one]


def test_a_node_waits_for_its_provider_and_others_go_on(stage: Stage, bench: Path) -> None:
    limit(bench, 3600)
    task = stage.plan(NODES, max_parallel=1)
    until(lambda: row(stage, task, "a")["state"] == "waiting" or None, "it waits")
    until(lambda: row(stage, task, "b")["state"] == "completed" or None, "the slot is given to another")
    waits = row(stage, task, "a")
    assert waits["said"].startswith("claude is paused until ")
    assert waits["said"].endswith("(its limit)")
    assert row(stage, task, "c")["state"] == "pending"
    assert waits["said"] in stage.project.run("plan", "show", task, check=True).out
    stage.json("stop", task)
    assert stage.child(task, "a").status == "cancelled"


def test_who_has_not_begun_when_the_limit_is_reached_keeps_nobody_from_beginning(stage: Stage, bench: Path) -> None:
    limit(bench, 3600)
    task = stage.plan({"a": node("claude"), "b": node("claude"), "c": node("quick")}, max_parallel=1)
    until(lambda: row(stage, task, "c")["state"] == "completed" or None, "the third is done")
    for name, runs in (("a", 1), ("b", 0)):
        waits = row(stage, task, name)
        assert (waits["state"], waits["said"].partition(" until ")[0]) == ("waiting", "claude is paused")
        assert len(stage.child(task, name).runs) == runs
    (bench / "limit").unlink()
    Path(stage.store.own, "paused-claude").unlink()  # lifted by hand, as a person would
    stage.delegate("wake up", "--agent", "quick")
    result = stage.result(task)
    assert (result["status"], states(result)) == ("completed", dict.fromkeys("abc", VERIFIED))
    assert len(runs_of(bench)) == 3


def test_it_goes_on_by_itself_and_spends_no_attempt(stage: Stage, bench: Path) -> None:
    os.mkfifo(bench / "limit")
    task = stage.plan(NODES)
    met_once(bench, 3)
    result = stage.result(task)
    assert (result["status"], states(result)) == ("completed", dict.fromkeys("abc", VERIFIED))
    assert {one["node"]: one["attempts"] for one in result["nodes"]} == {"a": 1, "b": 1, "c": 1}
    assert [run.status for run in stage.child(task, "a").runs] == ["limit", "completed"]
    first, second = runs_of(bench)
    assert (second["resumed"], second["session"]) == (True, first["session"])


def test_a_supervisor_killed_meanwhile(stage: Stage, bench: Path) -> None:
    os.mkfifo(bench / "limit")
    task = stage.plan(NODES)
    met_once(bench, 3600)
    until(lambda: row(stage, task, "a")["state"] == "waiting" or None, "it waits")
    stage.kill_supervisor()
    Path(stage.store.own, "paused-claude").write_text(f"{time.time() + 2:.3f} its limit\n")
    result = stage.result(task)
    assert (result["status"], states(result)) == ("completed", dict.fromkeys("abc", VERIFIED))
    assert len(runs_of(bench)) == 2


def test_another_agent_takes_over(stage: Stage, bench: Path) -> None:
    stage.project.config('on_limit = "switch:quick"\n')
    limit(bench, 3600)
    task = stage.plan(NODES)
    result = stage.result(task)
    assert (result["status"], states(result)) == ("completed", dict.fromkeys("abc", VERIFIED))
    assert stage.child(task, "a").agent == "quick"
    assert len(runs_of(bench)) == 1
