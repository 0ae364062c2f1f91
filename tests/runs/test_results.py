"""Whose result counts: a late one is refused and kept, a stray one is kept aside, the live run's is accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from overhand.testing.returns import output_md

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.scene import Scene


# A program with a function agent that reports when it is told to.
SLOW = """
import os, sys, time, overhand
with overhand.Project(sys.argv[1]) as project:
    @project.agent("slow")
    def slow(call):
        open(f"{sys.argv[1]}/up", "w").close()
        while not os.path.exists(f"{sys.argv[1]}/go"):
            time.sleep(0.01)
        return {"status": "completed", "summary": "Too late."}
    project.delegate("in that process", agent="slow")
"""


@contextmanager
def slow_function(scene: Scene) -> Iterator[str]:
    """The task of a function at work in another process; that process is at its end afterwards."""
    scene.json("list")
    argv = [sys.executable, "-c", SLOW, str(scene.path)]
    with subprocess.Popen(argv, env=scene.project.environment()) as program:
        try:
            scene.appears("up")
            (task,) = scene.ids()
            yield task
            (scene.path / "go").touch()
            assert program.wait(timeout=60) == 0
        finally:
            program.kill()


def test_a_finish_after_stop_is_refused_and_kept(scene: Scene) -> None:
    with slow_function(scene) as task:
        (stopped,) = scene.json("stop", task)["tasks"]
        assert (stopped["status"], stopped["cause"]) == ("cancelled", "cancelled")
    (run,) = scene.state(task).runs
    (late,) = scene.events(task, "late")
    assert (late["run"], late["kept"], late["code"]) == (run.id, "late-result.json", "STALE_RUN")
    assert json.loads((scene.place(task) / "late-result.json").read_text())["summary"] == "Too late."
    assert scene.json("show", task)["status"] == "cancelled"
    assert not (Path(scene.store.workspace(task)) / "OUTPUT.md").exists()
    assert len(scene.events(task, "judged")) == 1


def test_a_late_finish_does_not_touch_the_next_run(scene: Scene) -> None:
    scene.agent("worker", "output:summary=By the second run.")
    with slow_function(scene) as task:
        scene.json("stop", task)
        again = scene.json("run", task, "--agent", "worker", "--wait")
        assert (again["status"], again["summary"]) == ("completed", "By the second run.")
    assert len(scene.events(task, "late")) == 1
    assert scene.json("show", task)["summary"] == "By the second run."


def test_a_process_that_dies_with_its_function_is_lost(scene: Scene) -> None:
    scene.json("list")
    program = (
        "import os, sys, overhand\np = overhand.Project(sys.argv[1])\n"
        "@p.agent('gone')\ndef gone(call): os._exit(9)\np.delegate('die', agent='gone').wait()\n"
    )
    argv = [sys.executable, "-c", program, str(scene.path)]
    assert subprocess.run(argv, env=scene.project.environment(), check=False).returncode == 9
    (task,) = scene.ids()
    shown = scene.json("show", task)
    assert (shown["status"], shown["cause"]) == ("failed", "lost")


def test_an_output_in_the_task_folder_by_the_live_run_is_accepted(scene: Scene) -> None:
    scene.agent("worker", "top-output:summary=At the top.")
    shown = scene.json("delegate", "at the top", "--wait")
    assert (shown["status"], shown["summary"]) == ("completed", "At the top.")
    assert (scene.place(shown["task_id"]) / "OUTPUT.md").exists()


def test_an_output_by_a_leftover_of_an_earlier_run_is_a_stray(scene: Scene) -> None:
    scene.agent("worker", "spawn:setsid", "exit:1")
    task = scene.delegate()
    scene.json("wait", task, code=1)
    scene.json("stop", task)
    scene.agent("worker", "touch:up", "until:go")
    scene.json("run", task)
    scene.appears("up")
    (Path(scene.store.workspace(task)) / "OUTPUT.md").write_text(output_md("x", "worker", summary="From the past."))
    (scene.path / "go").touch()
    shown = scene.json("wait", task, code=1)
    assert shown["status"] == "failed"
    assert "output-stray" in [problem["code"] for problem in shown["problems"]]
    assert "From the past." in (scene.desk(task) / "stray-OUTPUT.md").read_text()
    assert not (Path(scene.store.workspace(task)) / "OUTPUT.md").exists()


def test_an_output_between_two_runs_belongs_to_the_earlier_one(scene: Scene) -> None:
    scene.agent("worker", "exit:1")
    task = scene.delegate()
    scene.json("wait", task, code=1)
    first = scene.desk(task)
    (Path(scene.store.workspace(task)) / "OUTPUT.md").write_text(output_md("x", "worker", summary="From the past."))
    shown = scene.json("run", task, "--wait", code=1)
    assert shown["status"] == "failed"
    assert "From the past." in (first / "OUTPUT.md").read_text()
