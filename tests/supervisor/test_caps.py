"""Caps bind every start; the rest is queued with its position; waiting parents hold no slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.scene import AGENT, RECORDED, until

if TYPE_CHECKING:
    from support.scene import Scene


def go(scene: Scene) -> None:
    (scene.path / "go").touch()


def at_work(scene: Scene) -> int:
    """Agents that have begun and not ended."""
    return sum(1 if line[0] == "+" else -1 for line in scene.trail())


def all_completed(scene: Scene, tasks: list[str]) -> None:
    scene.json("wait", *tasks)
    assert [scene.state(task).status for task in tasks] == ["completed"] * len(tasks)
    assert all(scene.starts(task) == 1 for task in tasks)


@pytest.mark.parametrize("cap", [1, 2])
def test_max_parallel(scene: Scene, cap: int) -> None:
    scene.project.config(f"[limits]\nmax_parallel = {cap}\n")
    scene.agent("worker", "until:go", "output", whole=True)
    tasks = [scene.delegate(f"number {n}") for n in range(5)]
    until(lambda: at_work(scene) == cap, "the first ones at work")
    rows = {row["task_id"]: row for row in scene.json("list")["tasks"]}
    assert [rows[task].get("position") for task in tasks] == [None] * cap + list(range(1, 6 - cap))
    assert {rows[task]["headline"] for task in tasks[cap:]} == {"queued"}
    go(scene)
    all_completed(scene, tasks)
    assert scene.overlap() == cap
    assert {line[2:] for line in scene.trail()[:cap]} == set(tasks[:cap])


def test_a_new_supervisor_counts_what_lives(scene: Scene) -> None:
    scene.project.config("[limits]\nmax_parallel = 1\n")
    scene.agent("worker", "until:go", "output", whole=True)
    tasks = [scene.delegate(f"number {n}") for n in range(2)]
    until(lambda: at_work(scene) == 1, "the first one at work")
    scene.kill_supervisor()
    tasks.append(scene.delegate("after the kill"))
    go(scene)
    all_completed(scene, tasks)
    assert scene.overlap() == 1


def test_per_agent_and_per_kind(scene: Scene) -> None:
    """One of each may work beside the others; no two of the capped agent or kind overlap."""
    scene.project.config("[limits]\nmax_parallel = 0\n[limits.agents]\nsolo = 1\n[limits.kinds]\nfix = 1\n")
    scene.agent("worker", "until:go", "output", whole=True)
    scene.agent("solo", "until:go", "output", whole=True)
    solo = [scene.delegate(f"solo {n}", "--agent", "solo") for n in range(2)]
    fixes = [scene.delegate(f"fix {n}", "--kind", "fix") for n in range(2)]
    free = [scene.delegate(f"free {n}") for n in range(2)]
    until(lambda: at_work(scene) == 4, "one solo, one fix and the free ones at work")
    started = {line[2:] for line in scene.trail()}
    assert started == {solo[0], fixes[0], *free}
    go(scene)
    all_completed(scene, [*solo, *fixes, *free])
    for pair in (solo, fixes):
        lines = [line for line in scene.trail() if line[2:] in pair]
        assert [line[0] for line in lines] == ["+", "-", "+", "-"]


def test_exclusive_runs_alone(scene: Scene) -> None:
    scene.project.config("[limits]\nmax_parallel = 0\n")
    scene.agent("worker", "touch:up", "until:go", "output", whole=True)
    scene.agent("alone", "output", whole=True, exclusive=True)
    first = scene.delegate("first")
    scene.appears("up")
    alone = scene.delegate("alone", "--agent", "alone")
    assert [row.get("position") for row in scene.json("list")["tasks"]] == [None, 1]
    go(scene)
    last = scene.delegate("last")
    all_completed(scene, [first, alone, last])
    lines = scene.trail()
    assert lines[lines.index(f"+ {alone}") + 1] == f"- {alone}"


def test_three_waiting_parents_do_not_block_each_other(scene: Scene) -> None:
    """One slot; each parent waits for its child, which needs that slot."""
    scene.project.config("[limits]\nmax_parallel = 1\n")
    scene.agent("worker", "delegate:child:below", "output")
    scene.project.agent("child", command=["/bin/sh", "-c", RECORDED, "sh", *AGENT, "output"])
    parents = [scene.delegate(f"above {n}") for n in range(3)]
    scene.json("wait", *parents)
    states = scene.store.tasks()
    assert [task.status for task in states] == ["completed"] * 6
    assert sorted(task.parent.task for task in states if task.parent) == sorted(parents)
    children = {task.id for task in states if task.parent}
    now = most = 0
    for line in scene.trail():
        if line[2:] in children:
            now += 1 if line[0] == "+" else -1
            most = max(most, now)
    assert most == 1


def test_priority_goes_first(scene: Scene) -> None:
    scene.project.config("[limits]\nmax_parallel = 1\n")
    scene.agent("worker", "until:go", "output", whole=True)
    first = scene.delegate("first")
    until(lambda: at_work(scene) == 1, "the first one at work")
    low = scene.delegate("low", "--priority", "P3")
    high = scene.delegate("high", "--priority", "P0")
    go(scene)
    all_completed(scene, [first, low, high])
    assert [line[2:] for line in scene.trail() if line[0] == "+"] == [first, high, low]
