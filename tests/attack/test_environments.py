"""A task runs in the environment of the verb that queued it, whichever process starts the supervisor, and when."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from overhand.record import NewTask, keep_environment, kept_environment, tasks_with_environment
from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.scene import Scene

BY = {"kind": "person", "via": "test"}
TELL = f'echo "$SHELL_NAME" >"seen-$OVERHAND_TASK"; {QUICK}'


def seen(scene: Scene, task: str) -> str:
    path = scene.path / f"seen-{task}"
    until(path.exists, f"a run of {task}")
    return path.read_text().strip()


def queued(scene: Scene, name: str) -> str:
    """A task of a verb of this shell that has not said a word to the supervisor yet."""
    created = {"title": name, "depth": 1, "path": ["user", "worker"], "timeout": 600.0, "level": "work"}
    new = NewTask(agent="worker", handoff=f"# Task Handoff\n\n## Task\n{name}\n", created=created)
    env = {**scene.project.environment(), "SHELL_NAME": name}
    return scene.store.new_tasks([new], BY, start=True, env=env)[0].id


def test_twenty_first_delegations_from_twenty_shells(scene: Scene) -> None:
    scene.shell("worker", TELL)
    calls = {
        f"shell {n}": scene.project.start(
            "delegate", f"shell {n}", "--agent", "worker", "--json", env={"SHELL_NAME": f"shell {n}"}
        )
        for n in range(20)
    }
    for call in calls.values():
        out, err = call.communicate(timeout=90)
        assert call.returncode == 0, out + err
    tasks = scene.store.tasks()
    assert {task.title: seen(scene, task.id) for task in tasks} == {name: name for name in calls}


def test_a_supervisor_that_another_verb_started_takes_stock_first(scene: Scene) -> None:
    """The other verb's task is recorded, its message comes later, or never."""
    scene.shell("worker", TELL)
    scene.json("list")
    other = queued(scene, "other")
    mine = scene.json("delegate", "mine", "--agent", "worker", env={"SHELL_NAME": "mine"})["task_id"]
    assert (seen(scene, other), seen(scene, mine)) == ("other", "mine")


@pytest.mark.parametrize("verb", ["list", "show", "wait"])
def test_a_look_from_another_shell_does_not_change_it(scene: Scene, verb: str) -> None:
    scene.shell("worker", TELL)
    scene.json("list")
    task = queued(scene, "mine")
    words = (verb,) if verb == "list" else (verb, task)
    scene.project.run(*words, check=True, env={"SHELL_NAME": "of the one who looks"})
    assert seen(scene, task) == "mine"


def test_the_next_run_has_that_of_the_verb_that_asked_for_it(scene: Scene) -> None:
    scene.shell("worker", f'echo "$SHELL_NAME" >>"seen-$OVERHAND_TASK"; {QUICK}')
    task = scene.json("delegate", "mine", "--agent", "worker", env={"SHELL_NAME": "first"})["task_id"]
    scene.judged(task)
    scene.json("send", task, "once more", env={"SHELL_NAME": "second"})
    until(lambda: len(seen(scene, task).split()) == 2, "the second run")
    assert seen(scene, task).split() == ["first", "second"]


def test_a_plans_nodes_have_that_of_the_plan(scene: Scene) -> None:
    scene.shell("worker", TELL)
    (scene.path / "plan.yaml").write_text("plan: look\nnodes:\n  a: {task: look, agent: worker}\n")
    scene.json("trust", "plan.yaml", "--yes")
    plan = scene.json("plan", "run", "plan.yaml", env={"SHELL_NAME": "of the plan"})["task_id"]
    scene.json("list", env={"SHELL_NAME": "another"})
    scene.judged(plan)
    (node,) = [task.id for task in scene.store.tasks() if task.node]
    assert seen(scene, node) == "of the plan"


def test_it_is_the_users_alone_and_goes_with_the_verdict(scene: Scene) -> None:
    scene.agent("worker", "until:go", "output")
    task = scene.delegate()
    scene.running(task)
    path = f"{scene.store.own}/environments/{task}"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    (scene.path / "go").touch()
    scene.judged(task)
    until(lambda: not tasks_with_environment(scene.store), "its environment removed")


def test_one_that_a_killed_supervisor_left_is_swept_up(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    done = scene.delegate()
    scene.judged(done)
    until(lambda: not tasks_with_environment(scene.store), "its environment removed")
    scene.kill_supervisor()
    keep_environment(scene.store, done, {"A": "b"})
    keep_environment(scene.store, "worker-20200101-000000", {"A": "b"})
    scene.judged(scene.delegate())
    until(lambda: not tasks_with_environment(scene.store), "the old ones removed")


def test_what_cannot_be_read_is_nothing(scene: Scene) -> None:
    scene.store.ensure()
    keep_environment(scene.store, "worker-20200101-000000", {"A": "\udcff", "OVERHAND_RUN": "no"})
    assert kept_environment(scene.store, "worker-20200101-000000") == {"A": "\udcff"}
    for text in ("", "[1]", "{", "null"):
        with open(f"{scene.store.own}/environments/worker-20200101-000000", "w") as file:
            file.write(text)
        assert kept_environment(scene.store, "worker-20200101-000000") is None
