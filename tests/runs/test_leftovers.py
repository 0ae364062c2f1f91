"""Nothing of a task is started beside processes that an earlier run of it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from overhand.questions import has_leftovers, record
from overhand.system import Members, living_leftovers
from support.scene import QUICK, until

if TYPE_CHECKING:
    from pathlib import Path

    from support.scene import Scene

LEAVES = "setsid sleep 600 & "


def killed_while_it_asks(scene: Scene) -> str:
    """A run whose agent was killed with -9 while it waited for an answer; what it started in the background lives."""
    scene.shell("worker", f"{LEAVES} $OVERHAND ask 'Which?'; sleep 600")
    task = scene.delegate("ask")
    until(lambda: scene.state(task).open_questions, "a question")
    os.kill(int((scene.place(task) / "pid").read_text()), signal.SIGKILL)
    assert scene.judged(task).runs[0].leftovers
    return task


def test_an_answer_starts_nothing_beside_what_is_left(scene: Scene) -> None:
    task = killed_while_it_asks(scene)
    told = scene.project.run("answer", task, "blue")
    assert told.code == 0
    assert "still alive" in told.err
    assert "overhand stop 1; overhand resume 1" in told.err
    state = scene.state(task)
    assert (state.questions[0].answer, state.queued, len(state.runs)) == ("blue", False, 1)
    scene.json("stop", task, code=None)
    assert not has_leftovers(scene.store, scene.state(task))
    scene.agent("worker", "output")
    scene.json("resume", task)
    until(lambda: scene.state(task).status == "completed", "its end")


def test_a_file_that_overhand_did_not_write_starts_nothing(scene: Scene) -> None:
    task = killed_while_it_asks(scene)
    with open(record.ipc_files(scene.store, task).shown("001.answer"), "w", encoding="utf-8") as file:
        file.write("blue\n")
    until(lambda: any("is no answer" in one for one in scene.json("show", task)["notices"]), "a notice of it")
    assert (scene.state(task).queued, len(scene.state(task).runs)) == (False, 1)
    scene.json("stop", task, code=None)


def test_a_return_is_not_sent_back_beside_what_is_left(scene: Scene) -> None:
    scene.shell("worker", f'{LEAVES} echo "no return" >"$OVERHAND_OUTPUT"', repair="rerun")
    task = scene.delegate("fail")
    state = scene.judged(task)
    assert (state.status, len(state.runs), state.repairs) == ("failed", 1, 0)
    scene.json("stop", task, code=None)
    scene.shell("worker", 'echo "no return" >"$OVERHAND_OUTPUT"', repair="rerun")
    assert scene.judged(scene.delegate("fail again")).repairs > 0


def test_the_shims_own_pause_is_nobody_before_it_is_execed_either(tmp_path: Path) -> None:
    """A shim that stays forks a `sleep` each second; for a moment that looks like the shim, and is no leftover."""
    forks = "import os, sys; pid = os.fork(); pid and print(pid, flush=True); sys.stdin.read()"
    shim = subprocess.Popen(
        [sys.executable, "-c", forks, "overhand-shim", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shim.stdin
    assert shim.stdout
    try:
        child = int(shim.stdout.readline())
        (tmp_path / "shim").write_text(f"{shim.pid}\n")
        run = Members(str(tmp_path), "OVERHAND_TEST=none", frozenset())
        assert set(run.scan()) == {child}, "while the agent lives it may be the agent, about to begin"
        (tmp_path / "exit").write_text("0\n")
        assert Members(str(tmp_path), "OVERHAND_TEST=none", frozenset()).scan() == {}
    finally:
        shim.stdin.close()
        shim.wait(30)
        shim.stdout.close()


def test_who_is_about_to_end_may_do_so_beside_a_killed_shim_too(tmp_path: Path) -> None:
    """As a question to a service elsewhere: it ends when it was seen once, for whoever sees it notes its session."""
    ends = ["/bin/sh", "-c", "until [ -e sessions ]; do sleep 0.01; done; sleep 0.5"]
    env = {"PATH": os.environ["PATH"], "OVERHAND_TEST": str(tmp_path)}
    with subprocess.Popen(ends, cwd=tmp_path, env=env, start_new_session=True) as asking:
        assert living_leftovers(str(tmp_path), f"OVERHAND_TEST={tmp_path}", patience=30.0) == []
        assert asking.wait(30) == 0


def test_a_supervisor_that_a_run_started_is_not_left_behind_by_it(scene: Scene) -> None:
    """It lives on below the run's shim, and belongs to the project."""
    scene.shell("helper", QUICK)
    waits = ": >up; until test -e go; do sleep 0.1; done"
    scene.shell("worker", f"{waits}; $OVERHAND delegate Part --agent helper; {QUICK}")
    task = scene.delegate("x", "--set", "shield=off")  # behind it none can be started
    scene.appears("up")
    scene.running(task)
    scene.kill_supervisor()
    (scene.path / "go").touch()
    until(scene.supervisor, "the supervisor that the agent's delegation starts")
    assert scene.judged(task).status == "completed"
    assert [one["what"] for one in scene.json("doctor")["findings"] if one["code"] == "leftovers"] == []
